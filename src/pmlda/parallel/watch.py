"""Whether anybody works: signs of life of a cluster's workers → a note when none answers, later an error."""

import time
import warnings
from collections.abc import Mapping

from pmlda.errors import ClusterError, WaitingWarning

# Workers send a sign of life every half second, in clusters of thousands every half minute. A call that keeps its
# worker from sending one for so long is none of ours.
SILENT_SECONDS = 20.0
# A worker that died is started again within seconds, where there is somebody who does that.
EMPTY_SECONDS = 10.0
SILENT_WORKER_SECONDS = 60.0
# How long a run waits for workers when there are none: a machine that restarts is back by then. The run can be resumed.
WAIT_SECONDS = 600.0


class Watch:
    """Hears from a scheduler, again and again, when each of its workers was last seen."""

    def __init__(self, scheduler: str) -> None:
        self._scheduler = scheduler
        self._seen: Mapping[str, float] = {}
        self._heard: dict[str, float] = {}
        self._last = time.monotonic()
        self._waits = False
        self._missed: set[str] = set()

    def look(self, seen: Mapping[str, float] | None) -> None:
        """Tell who does not answer; a ClusterError after a long time without workers.

        seen : when each worker was last seen, by the scheduler's clock; None if the scheduler does not answer
        """
        now = time.monotonic()
        fresh = [worker for worker, when in (seen or {}).items() if self._seen.get(worker) != when]
        self._heard |= dict.fromkeys(fresh, now)
        self._seen = self._seen if seen is None else dict(seen)
        if fresh:
            self._last = now
        if now - self._last > (EMPTY_SECONDS if seen == {} else SILENT_SECONDS):
            self._wait(seen, now - self._last)
            return
        if self._waits and fresh:
            self._waits = False
            _note("There are workers again, and the run goes on.")
        self._miss(seen or {}, now)

    def _wait(self, seen: Mapping[str, float] | None, silence: float) -> None:
        whose = f"the scheduler at {self._scheduler}"
        what = f"{whose} has no workers" if seen == {} else f"no worker of {whose} answers"
        what = f"{whose} does not answer" if seen is None else what
        what = what[0].upper() + what[1:]
        start = f"`dask worker {self._scheduler}`"
        if silence > WAIT_SECONDS and self._waits:
            raise ClusterError(
                f"{what}, and none came within {WAIT_SECONDS / 60:.2g} minutes. Start some with {start}, or go on "
                "without a cluster."
            )
        if not self._waits:
            self._waits = True
            _note(f"{what}. The run waits {WAIT_SECONDS / 60:.2g} minutes for workers; start some with {start}.")

    def _miss(self, seen: Mapping[str, float], now: float) -> None:
        """Tell of single workers that do not answer while others work."""
        silent = {worker for worker in seen if now - self._heard[worker] > SILENT_WORKER_SECONDS}
        for worker in sorted(silent - self._missed):
            _note(
                f"The worker {worker} does not answer. Its tiles go to others when the scheduler gives it up, by "
                "default after 5 minutes, or at once if you end it."
            )
        self._missed = silent


def _note(text: str) -> None:
    warnings.warn(text, WaitingWarning, stacklevel=3)
