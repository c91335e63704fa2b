"""How far a fit is: events of a run → a line in the terminal or notebook, or nothing."""

from collections.abc import Iterator
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
