"""Runs that are killed at any moment: resumed until they are done, they come to every bit of an undisturbed run."""

import json
import random
import re
import shutil
import signal
import time
import zipfile
from pathlib import Path
from typing import Any

from PIL import Image as Pillow

from pmlda.evaluation.scenes import smooth_scene
from pmlda.output.places import MARK
from tests.attack.originals import PIXELS
from tests.attack.server import QUICK, UNDISTURBED_SECONDS, Server
from tests.attack.situations import begun, ended

TILES = ("-k", "2", "--documents", "windows:16", "--set", "block=64", "--set", "refits=0", "--json")
SAMPLER = ("--engine", "gibbs", "--set", "design_effect=1")
# Kinds of run: the words of the command, and whether it starts worker processes.
RUNS: dict[str, list[str]] = {
    "checkpoints": [
        "segment",
        "a.png",
        *QUICK,
        *SAMPLER,
        "--set",
        "sweeps=60",
        "--checkpoint",
        "0.001",
        "--out",
        "maps",
    ],
    "tiles": ["segment", "a.png", *TILES, "--features", "color+texture", "--jobs", "2", "--out", "maps.zarr"],
    "tiff": ["segment", "a.png", *TILES, "--features", "color+texture", "--jobs", "2", "--out", "maps.tif"],
    "workers": ["segment", "a.png", *TILES, "--features", "color+texture", "--workers", "2", "--out", "maps.zarr"],
    "sampler over tiles": [
        "segment",
        "a.png",
        *TILES,
        *SAMPLER,
        "--set",
        "sweeps=30",
        "--jobs",
        "2",
        "--out",
        "maps.zarr",
    ],
}
# Of run.json and of the list of files, what tells of this run and not of its result.
OF_THE_RUN = ("id", "run", "written", "seconds", "log", "threads")
# What a report tells of its run: how long stages took, and when it was written.
TIMES = re.compile(rb'<table class="timings">.*?</table>|[0-9-]{10} [0-9:]{5} UTC', re.DOTALL)
MOST_KILLS = 3


def content(place: Path) -> dict[str, Any]:
    """All that a run has found, file by file; without the times that models, records and reports note."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in place.rglob("*") if path.is_file()):
        name = str(path.relative_to(place))
        if name.endswith("model.pmlda"):
            with zipfile.ZipFile(path) as archive:
                found[name] = {entry: archive.read(entry) for entry in archive.namelist()}
        elif name.endswith(("run.json", MARK)):
            record = json.loads(path.read_text(encoding="utf-8"))
            found[name] = {key: value for key, value in record.items() if key not in OF_THE_RUN}
        elif name.endswith("report.html"):
            found[name] = TIMES.sub(b"", path.read_bytes())
        else:
            found[name] = path.read_bytes()
    return found


def made(place: Path, large: bool) -> Path:
    """A new folder with a picture and something else beside it."""
    place.mkdir(parents=True)
    Pillow.fromarray(smooth_scene(139, 171, 2, 0.2, 0)[0] if large else PIXELS).save(place / "a.png")
    (place / "beside.txt").write_text("Not to be touched.\n", encoding="utf-8")
    return place


def killed(server: Server, words: list[str], place: Path, moment: float | None) -> tuple[int, float, str]:
    """Exit code, seconds and what was said of a command that is killed then; workers need a process of their own."""
    if "--workers" not in words:
        when = {"kill_after": moment} if moment is not None else {}
        outcome = server.run(words, place, seconds=UNDISTURBED_SECONDS, **when)
        return outcome.code, outcome.seconds, outcome.said
    start = time.monotonic()
    with begun(place, words) as process:
        while process.poll() is None and (moment is None or time.monotonic() < start + moment):
            time.sleep(0.002)
        if process.poll() is None:
            process.kill()
        outcome = ended(process, UNDISTURBED_SECONDS)
    return outcome.code, time.monotonic() - start, outcome.said


def next_words(words: list[str], place: Path) -> list[str] | None:
    """What whoever comes back to a run that was killed says, as what is there tells; None if all is done."""
    out = words[-1]
    if (place / f"{out}.run").exists():
        more = words[-4:-2] if words[-4] in ("--workers", "--jobs") else []
        return ["resume", out, "--json", *more]
    return None if (place / out).exists() else words


def disturbed(server: Server, words: list[str], place: Path, moments: list[float], expected: dict[str, Any]) -> str:
    """What went wrong with a run that was killed at these moments and resumed until it was done."""
    asked: list[str] | None = words
    for moment in [*moments, None]:
        code, _, said = killed(server, asked, place, moment)
        if code not in (0, -signal.SIGKILL):
            return f"exit code {code} of {asked[0]} ({said.strip()[-300:]})"
        asked = next_words(words, place)
        if asked is None:
            break
    code, _, said = killed(server, ["resume", words[-1]], place, None)  # which also removes what a kill has left
    if code != 2 or "is complete" not in said:
        return f"exit code {code} of resume when all is done ({said.strip()[-300:]})"
    found = content(place)
    names = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    return f"other bits than undisturbed in {names[:5]}" if names else ""


def kill_runs(server: Server, kind: str, count: int, rng: random.Random, folder: Path) -> list[str]:
    """So many runs of a kind, each killed once or more; what went wrong."""
    words, large = RUNS[kind], kind != "checkpoints"
    seconds, contents = [], []
    for name in ("first", "second"):
        place = made(folder / name, large)
        code, duration, said = killed(server, words, place, None)
        if code != 0:
            return [f"{kind}: an undisturbed run failed ({said[-300:]})"]
        seconds.append(duration)
        contents.append(content(place))
    if contents[0] != contents[1]:
        names = [name for name in contents[0] if contents[0][name] != contents[1].get(name)]
        return [f"{kind}: two undisturbed runs differ in {names}"]
    wrong = []
    for number in range(count):
        moments = [rng.uniform(0.0, seconds[1]) for _ in range(rng.randint(1, MOST_KILLS))]
        place = made(folder / str(number), large)
        found = disturbed(server, words, place, moments, contents[0])
        if found:
            wrong.append(f"{kind}, killed at {', '.join(f'{moment:.3f}' for moment in moments)} s: {found}")
        else:
            shutil.rmtree(place)
    return wrong


def run_all(kinds: list[str] | None, count: int, seed: int, folder: Path) -> bool:
    """All kinds of run, or those; whether none went wrong."""
    folder.mkdir()
    fine = True
    with Server(folder) as server:
        for kind in kinds or RUNS:
            start = time.monotonic()
            wrong = kill_runs(server, kind, count, random.Random(f"{seed} {kind}"), folder / kind.replace(" ", "-"))
            print(f"{kind}: {count} runs killed, {len(wrong)} wrong, {time.monotonic() - start:.0f} s", flush=True)
            print(*(f"    {line}\n" for line in wrong), sep="", end="", flush=True)
            fine = fine and not wrong
    return fine
