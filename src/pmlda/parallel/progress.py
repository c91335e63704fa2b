"""How far a run is: its events → a line in the terminal or notebook, or nothing; seconds of its stages."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Report(Protocol):
    """Called after every sweep: what is going on, how many sweeps of how many, what a reader wants to see."""

    def __call__(self, stage: str, done: int, total: int, **values: float) -> None: ...


def silent(stage: str, done: int, total: int, **values: float) -> None:
    """Report nothing."""


@contextmanager
def shown(verbose: int) -> Iterator[Report]:
    """A bar with stage, sweeps, values and the time left while the block lasts; verbose=0 shows nothing.

    >>> with shown(0) as report:
    ...     report("topics", 1, 10, bound=-3.0)
    """
    if not verbose:
        yield silent
        return
    # Late: nobody else needs it, and it is not small.
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[values]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, refresh_per_second=5) as progress:
        tasks = {}

        def report(stage: str, done: int, total: int, **values: float) -> None:
            text = ", ".join(f"{name.replace('_', ' ')} {value:.5g}" for name, value in values.items())
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total, values=text)
            progress.update(tasks[stage], completed=done, total=total, values=text)

        yield report
        for task in progress.tasks:  # done, though with fewer sweeps than there might have been
            progress.update(task.id, total=task.completed)


Stage = Callable[[str], None]


class Clock:
    """Seconds of each stage; calls a listener when one begins."""

    def __init__(self, listener: Stage | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self._listener = listener

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        if self._listener is not None and name not in self.seconds:
            self._listener(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
