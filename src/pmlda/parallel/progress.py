"""How far a run is: its events → a bar in the terminal or notebook, or plain lines; seconds of its stages."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

# Seconds between two plain lines: few enough for the log of a long run, enough to see that it goes on.
PACE, VERBOSE_PACE = 10.0, 1.0


class Report(Protocol):
    """Called after every sweep: what is going on, how many sweeps of how many, what a reader wants to see."""

    def __call__(self, stage: str, done: int, total: int, **values: float) -> None: ...


def silent(stage: str, done: int, total: int, **values: float) -> None:
    """Report nothing."""


@contextmanager
def shown(verbose: int) -> Iterator[Report]:
    """A bar with stage, sweeps, values and the time left while the block lasts; verbose=0 shows nothing.

    Where no terminal shows a bar, a line on standard error now and then, with verbose=2 every second.

    >>> with shown(0) as report:
    ...     report("topics", 1, 10, bound=-3.0)
    """
    if not verbose:
        yield silent
        return
    # Late: nobody else needs it, and it is not small.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console()
    if not (console.is_terminal or console.is_jupyter):
        lines = Lines(VERBOSE_PACE if verbose > 1 else PACE)
        yield lines
        lines.end()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[values]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console, refresh_per_second=5) as progress:
        tasks = {}

        def report(stage: str, done: int, total: int, **values: float) -> None:
            text = _spelt(values)
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total, values=text)
            progress.update(tasks[stage], completed=done, total=total, values=text)

        yield report
        for task in progress.tasks:  # done, though with fewer sweeps than there might have been
            progress.update(task.id, total=task.completed)


def _spelt(values: dict[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:.5g}" for name, value in values.items())


class Lines:
    """A report in plain lines, one every so many seconds, for logs.

    A stage that was announced is announced again when it has ended, that is when another begins or all is done; a
    shorter one leaves no line. Chains that run at the same time take turns.

    >>> lines = Lines(0.0, sys.stdout)
    >>> lines("learning topics", 20, 80, bound_per_word=-0.42)
    learning topics: 20 of 80, bound per word -0.42
    """

    def __init__(self, pace: float, file: TextIO | None = None) -> None:
        self._pace, self._file = pace, file
        self._told_at = time.monotonic()
        self._last: dict[str, str] = {}  # of each stage so far
        self._told: dict[str, str] = {}  # of those that may go on

    def __call__(self, stage: str, done: int, total: int, **values: float) -> None:
        if stage not in self._last:
            self.end()
        self._last[stage] = f"{stage}: {done} of {total}" + (f", {_spelt(values)}" if values else "")
        if time.monotonic() - self._told_at >= self._pace:
            self._tell(stage)

    def _tell(self, stage: str) -> None:
        self._told_at, self._told[stage] = time.monotonic(), self._last[stage]
        print(self._last[stage], file=self._file or sys.stderr, flush=True)

    def end(self) -> None:
        """Say how the stages ended that were told of before."""
        for stage, told in list(self._told.items()):
            if told != self._last[stage]:
                self._tell(stage)
        self._told.clear()


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
