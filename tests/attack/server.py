"""A process that has imported the program and forks for every attempt: one line of JSON in, one line out.

Importing takes seconds and forking milliseconds, so thousands of attempts take minutes. Only a process of one thread
can fork safely: the parent leaves Zarr, which keeps a thread, to its children.

python -m tests.attack.server FOLDER, which Server starts.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

ROOT = Path(__file__).parents[2]
MOST_SECONDS = 60.0
# Runs that nothing disturbs are no attempts: they compile kernels that are not yet compiled.
UNDISTURBED_SECONDS = 10 * MOST_SECONDS
MOST_BYTES = 2 * 2**30
# Beyond this a child gets no more memory: it is far above what is allowed, and far below what harms the machine.
ADDRESS_SPACE = 6 * 2**30
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
QUICK = ("-k", "2", "--documents", "windows:8", "--set", "refits=0", "--json")


class Outcome(NamedTuple):
    """How an attempt went.

    code : the exit code, or minus the signal that ended it
    n_bytes : the most memory that it had
    late : whether it was ended because it took too long
    out, said : its standard output and standard error
    """

    code: int
    seconds: float
    n_bytes: int
    late: bool
    out: str
    said: str


class Server:
    """The process, for as long as the block lasts. Its calls are those of CALLS, each in a child of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        words = [sys.executable, "-m", "tests.attack.server", str(folder)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
        self._process = subprocess.Popen(words, env=os.environ | ONE_THREAD, **pipes)

    def ask(self, call: str, words: list[str], place: Path, **limits: Any) -> Outcome:
        """The outcome of a call in this folder.

        limits : seconds, kill_after, interrupt_after, or any limit of `resource` by its name
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"call": call, "words": words, "place": str(place)} | limits), file=self._process.stdin)
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("The server of the attacks has ended; what it said is above.")
        return Outcome(**json.loads(line))

    def run(self, words: list[str], place: Path, **limits: Any) -> Outcome:
        """The command pmlda with these words."""
        return self.ask("run", words, place, **limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=2 * MOST_SECONDS)
        self._process.stdout.close()


# ── the process ────────────────────────────────────────────────────────────────────────────────────────────────────
def main(folder: Path) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warm(folder)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(attempt(folder, **asked)._asdict()), file=answers, flush=True)


def warm(folder: Path) -> None:
    """Import all, and load all compiled code, in one run that leaves no thread behind."""
    import numpy as np
    import rasterio  # noqa: F401
    import scipy.io
    import zarr  # noqa: F401
    from PIL import Image as Pillow

    from tests.attack import checks  # noqa: F401

    place = folder / "warm"
    place.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    Pillow.fromarray(pixels).save(place / "a.png")
    scipy.io.savemat(place / "a.mat", {"a": pixels})
    first, second = str(place / "maps-0"), str(place / "maps-1")
    run(["segment", str(place / "a.png"), *QUICK, "--jobs", "1", "--out", first])
    run(["apply", first, str(place / "a.mat"), "--json", "--out", second])
    if not (place / "maps-1" / "run.json").exists():
        raise SystemExit("A run on a good picture has failed; see above.")
    shutil.rmtree(place)
    n_threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
    if n_threads != 1:
        raise SystemExit(f"The server of the attacks has {n_threads} threads, so that it cannot fork safely.")


def attempt(
    folder: Path,
    call: str,
    words: list[str],
    place: str,
    seconds: float = MOST_SECONDS,
    kill_after: float | None = None,
    interrupt_after: float | None = None,
    **limits: int,
) -> Outcome:
    """A call in a child, which is ended when its time is over. limits below 0 are added to what the child has.

    seconds : in which it runs or waits for anything but a processor
    """
    files = [folder / name for name in ("stdout", "stderr")]
    scratch = Path(tempfile.mkdtemp(dir=folder))
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os._exit(guarded(call, words, place, files, scratch, limits))
    end, late = start + min(seconds, kill_after or seconds), False
    while (found := os.wait4(child, os.WNOHANG))[0] == 0:
        if interrupt_after is not None and time.monotonic() > start + interrupt_after + waited(child):
            os.kill(child, signal.SIGINT)
            interrupt_after = None
        if time.monotonic() > end + (waited(child) if kill_after is None else 0.0):
            late = kill_after is None
            with suppress(ProcessLookupError):  # it has just ended, or has no group of its own yet
                os.killpg(child, signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            found = os.wait4(child, 0)
            break
        time.sleep(0.002)
    duration = time.monotonic() - start
    out, said = (file.read_text(encoding="utf-8", errors="replace") for file in files)
    said += "".join(file.read_text(encoding="utf-8") for file in scratch.glob("pmlda-traceback-*"))
    shutil.rmtree(scratch, ignore_errors=True)
    return Outcome(os.waitstatus_to_exitcode(found[1]), duration, found[2].ru_maxrss * 1024, late, out, said)


def waited(process: int) -> float:
    """Seconds for which a process could have run while others had the machine; none where the system does not tell."""
    try:
        nanoseconds = int(Path(f"/proc/{process}/schedstat").read_text().split()[1])
    except (OSError, LookupError):
        return 0.0
    return nanoseconds / 1e9


def guarded(call: str, words: list[str], place: str, files: list[Path], scratch: Path, limits: dict[str, int]) -> int:
    """The exit code of a call, made in the child."""
    os.setpgid(0, 0)
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, file in enumerate(files, start=1):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.chdir(place)
        os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)
        for name, most in {"RLIMIT_AS": ADDRESS_SPACE, "RLIMIT_CORE": 0, **limits}.items():
            most = most if most >= 0 else own_bytes() - most
            resource.setrlimit(getattr(resource, name), (most, most))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = CALLS[call](words)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def own_bytes() -> int:
    """The address space that this process has already."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def run(words: list[str]) -> int:
    """The command; its exit code."""
    from pmlda.cli import app

    try:
        app(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def check_result(words: list[str]) -> int:
    """Whether the result loads and its maps are shares; prints the digest of the maps."""
    from tests.attack.checks import shares

    print(shares(Path(words[0])))
    return 0


def check_readings(words: list[str]) -> int:
    """Whether a picture is the same read whole and read in windows; prints how it is not."""
    from tests.attack.checks import disagreement

    print(disagreement(Path(words[0])))
    return 0


CALLS = {"run": run, "result": check_result, "readings": check_readings}

if __name__ == "__main__":
    main(Path(sys.argv[1]))
