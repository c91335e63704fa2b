"""Ctrl-C between sweeps, never inside one: the first is noted, the second stops at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_abandoned = threading.Event()


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C was pressed.

    Only the main thread can hear it; others are told by abandoning() that nobody waits for them any more.
    """
    before = signal.getsignal(signal.SIGINT)
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread:
        yield _abandoned.is_set
        return
    if before is not signal.default_int_handler:  # ignored, or someone else's business
        yield lambda: False
        return
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def abandoning() -> Iterator[Callable[[], None]]:
    """Yield a function that tells fits on other threads to stop after their sweep; they may run again afterwards."""
    try:
        yield _abandoned.set
    finally:
        _abandoned.clear()
