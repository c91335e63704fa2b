"""Situations: what may happen around a run. Each is a function that returns what was wrong; SITUATIONS lists them."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pytest
from PIL import Image as Pillow

from pmlda.evaluation.scenes import smooth_scene
from tests.attack import originals
from tests.attack.attempts import of_result, of_resumed
from tests.attack.judge import GOOD_CODES, INTERRUPTED, complaints, snapshot
from tests.attack.kinds import Originals
from tests.attack.server import MOST_SECONDS, QUICK, ROOT, Outcome, Server
from tests.disks import disk, read_only_folder
from tests.program import command

# Reading something that never answers is found out sooner than in a minute.
SOON = 10.0
# Until the command has read its words, Ctrl-C ends Python itself.
COMMAND_READ = 0.2
FUTURE, PAST = 4_102_444_800, 31_536_000  # 2100 and 1971
CANARY = "Not to be touched.\n"
ONE_JOB = ("--jobs", "1")


class Scene(NamedTuple):
    """Where a situation takes place: a new folder, a server, and good files of every kind."""

    server: Server
    goods: Originals
    place: Path

    def tried(self, words: list[Any], *names: str, place: Path | None = None, **limits: Any) -> list[str]:
        """What is wrong with a command in this folder."""
        place = place or self.place
        before, texts = snapshot(place), [str(word) for word in words]
        outcome = self.server.run(texts, place, **limits)
        return self.judged(outcome, before, texts, *names, place=place)

    def judged(
        self,
        outcome: Outcome,
        before: dict[str, str],
        words: list[str],
        *names: str,
        codes: tuple[int, ...] = GOOD_CODES,
        place: Path | None = None,
    ) -> list[str]:
        """What is wrong with an outcome, and with its result if there is one."""
        place = place or self.place
        wrong = complaints(outcome, before, snapshot(place), (*names, words[-1]), codes=codes)
        out = place / (words[-1] if "--out" in words else words[1])
        if outcome.code == 0 and not wrong and "maps" in out.name:
            wrong += of_result(self.server, place, str(out))
        return [f"{each} ({' '.join(outcome.said.split())[-300:]})" for each in wrong]

    def good(self, kind: str) -> Path:
        """The good files of a kind, in a folder of their own."""
        place = self.place / "run"
        self.goods.copy(kind, place)
        return place


# ── the program in a process of its own ────────────────────────────────────────────────────────────────────────────
@contextmanager
def begun(place: Path, words: list[str], **settings: Any) -> Iterator["subprocess.Popen[str]"]:
    """A run, which is ended however the block ends."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True} | settings
    with subprocess.Popen(command(*words), cwd=place, env=os.environ | {"PYTHONPATH": path}, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: "subprocess.Popen[str]", seconds: float = 2 * MOST_SECONDS) -> Outcome:
    """How the run went. Several of them share the machine, so it has more time."""
    start = time.monotonic()
    try:
        said, late = process.communicate(timeout=seconds)[1], False
    except subprocess.TimeoutExpired:
        process.kill()
        said, late = process.communicate()[1], True
    return Outcome(process.returncode, time.monotonic() - start, 0, late, "", said or "")


def wait_for(process: "subprocess.Popen[str]", folder: Path, pattern: str) -> bool:
    """Until there is a file of that kind; whether there is one before the run ends."""
    while process.poll() is None:
        if next(folder.glob(pattern), None):
            return True
        time.sleep(0.001)
    return False


# ── links ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def linked(kind: str, name: str, *, dangling: bool = False) -> Callable[[Scene], list[str]]:
    """A file or folder of a run is a link to the same thing elsewhere, which is nobody's to write to."""

    def situation(scene: Scene) -> list[str]:
        place = scene.good(kind)
        out = "maps.zarr" if kind == "run in tiles" else "maps"
        file, elsewhere = place / f"{out}.run" / name, place / "canary"
        elsewhere.mkdir()
        target = elsewhere / file.name
        if file.exists() and not dangling:
            file.rename(target)
        elif not dangling:
            target.write_text(CANARY, encoding="utf-8")
        file.unlink(missing_ok=True)
        file.symlink_to(target)
        return scene.tried(["resume", out, "--json", *ONE_JOB], out, place=place)

    return situation


LINKS = {
    f"link: {name} of a {kind}": linked(kind, name)
    for kind, names in {
        "run in tiles": ("lock", "log.jsonl", "request.json", "parts", "parts/sample", "maps.zarr", "begun"),
        "run with checkpoints": ("lock", "log.jsonl", "checkpoints", "checkpoints/lock"),
    }.items()
    for name in names
}
LINKS |= {
    f"dangling link: {name} of a run in tiles": linked("run in tiles", name, dangling=True)
    for name in ("lock", "log.jsonl")
}


# ── things that never answer, or never end ─────────────────────────────────────────────────────────────────────────
SUFFIXES = ("png", "jpg", "tif", "npy", "npz", "mat", "nc", "h5", "ntf", "img", "hdr")


def odd_pictures(make: Callable[[Path], Any]) -> Callable[[Scene], list[str]]:
    def situation(scene: Scene) -> list[str]:
        wrong = []
        for suffix in SUFFIXES:
            file = scene.place / f"a.{suffix}"
            make(file)
            if suffix == "img":
                originals.envi(scene.place / "b.img")
                (scene.place / "b.hdr").rename(scene.place / "a.hdr")
            words = ["segment", file.name, *QUICK, *ONE_JOB, "--out", "maps"]
            wrong += [f"{suffix}: {each}" for each in scene.tried(words, file.name, "a.img", "a.hdr", seconds=SOON)]
            for left in scene.place.iterdir():
                left.unlink() if not left.is_dir() else shutil.rmtree(left)
        return wrong

    return situation


def odd_others(make: Callable[[Path], Any]) -> Callable[[Scene], list[str]]:
    """The same in place of every other file that is read."""
    reads = {
        "b.png": ["segment", "a.png", "--mask", "b.png", *QUICK, *ONE_JOB, "--out", "maps"],
        "settings.toml": ["segment", "a.png", "--settings", "settings.toml", "--json", *ONE_JOB, "--out", "maps"],
        "result/model.pmlda": ["apply", "result", "a.png", "--json", "--out", "maps"],
        "result/run.json": ["report", "result"],
        "result/documents.csv": ["report", "result"],
        "result/memberships.tif": ["report", "result"],
        "maps.run/request.json": ["resume", "maps"],
        "maps.run/lock": ["resume", "maps"],
        "maps.run/log.jsonl": ["resume", "maps", *ONE_JOB],
    }

    def situation(scene: Scene) -> list[str]:
        wrong = []
        for name, words in reads.items():
            place = scene.place / name.replace("/", "-")
            scene.goods.copy("run with checkpoints" if name.startswith("maps.run") else "result", place)
            (place / name).unlink(missing_ok=True)
            make(place / name)
            names = (Path(name).name, Path(name).parts[0], "maps")
            wrong += [f"{name}: {each}" for each in scene.tried(words, *names, place=place, seconds=SOON)]
        return wrong

    return situation


def device(name: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(name)


ODD = {"fifo": os.mkfifo, "endless device": device("/dev/zero"), "empty device": device("/dev/null")}
ODD_FILES = {
    **{f"{name} as a picture": odd_pictures(make) for name, make in ODD.items()},
    **{f"{name} as any other file": odd_others(make) for name, make in ODD.items()},
}


# ── places and limits ──────────────────────────────────────────────────────────────────────────────────────────────
def small_disk(scene: Scene) -> list[str]:
    """Disks that are full at different moments."""
    wrong = []
    for n_bytes in (4096, 65536, 200_000, 400_000, 1_000_000):
        for out in ("maps", "maps.zarr", "maps.tif"):
            with disk(scene.place / f"disk-{n_bytes}-{out}", n_bytes) as folder:
                originals.png(scene.place / "a.png")
                words = ["segment", "../a.png", *QUICK, *ONE_JOB, "--out", out]
                wrong += [f"{n_bytes}, {out}: {each}" for each in scene.tried(words, out, "disk", place=folder)]
    return wrong


def read_only(scene: Scene) -> list[str]:
    originals.png(scene.place / "a.png")
    wrong = []
    with read_only_folder(scene.place / "fixed") as folder:
        for out in ("maps", "maps.zarr", "maps.tif"):
            words = ["segment", "../a.png", *QUICK, *ONE_JOB, "--out", out]
            wrong += scene.tried(words, "fixed", place=folder)
    return wrong


def limited(name: str, *limits: int) -> Callable[[Scene], list[str]]:
    """What `ulimit` sets: the run says so in one line, or needs less."""

    def situation(scene: Scene) -> list[str]:
        Pillow.fromarray(smooth_scene(600, 700, 2, 0.1, 0)[0]).save(scene.place / "a.png")
        wrong = []
        for limit in limits:
            for out in ("maps", "maps.zarr"):
                place = scene.place / f"{abs(limit)}-{out}"
                place.mkdir()
                words = ["segment", "../a.png", *QUICK, *ONE_JOB, "--out", out]
                found = scene.tried(words, out, "emory", "Unable to allocate", "a.png", place=place, **{name: limit})
                wrong += [f"{limit}, {out}: {each}" for each in found]
        return wrong

    return situation


def closed_output(scene: Scene) -> list[str]:
    """Standard output is full, or a pipe that nobody reads any more."""
    originals.png(scene.place / "a.png")
    wrong = []
    words = ["segment", "a.png", *QUICK, "--out", "maps"]
    for name in ("full", "broken"):
        shutil.rmtree(scene.place / "maps", ignore_errors=True)
        ends = os.pipe()
        os.close(ends[0])
        with (
            open("/dev/full", "w") as full,
            begun(scene.place, words, stdout=full if name == "full" else ends[1]) as run,
        ):
            os.close(ends[1])
            outcome = ended(run)
        code = outcome.code in (0, 1, 2, 120) if name == "broken" else outcome.code == 2
        said = [line for line in outcome.said.splitlines() if "Traceback" in line]
        wrong += [] if code and not said else [f"{name}: exit code {outcome.code} ({outcome.said[-300:]})"]
    return wrong


# ── meanwhile ──────────────────────────────────────────────────────────────────────────────────────────────────────
def write_scene(path: Path, seed: int = 0) -> None:
    Pillow.fromarray(smooth_scene(139, 171, 2, 0.2, seed)[0]).save(path)


def tiled_words(out: str = "maps.zarr") -> list[str]:
    return ["segment", "a.png", *originals.TILES, "--out", out]


def replaced_picture(scene: Scene) -> list[str]:
    """Another picture gets the name of the one that a run in tiles reads."""
    wrong = []
    for stage in ("survey", "sample"):
        place = scene.place / stage
        place.mkdir()
        write_scene(place / "a.png")
        np.save(place / "a.npy", np.array(Pillow.open(place / "a.png")))
        write_scene(place / "b.png", 5)
        np.save(place / "b.npy", np.array(Pillow.open(place / "b.png")))
        words = [word.replace("a.png", "a.npy") for word in tiled_words()]
        with begun(place, words) as run:
            in_time = wait_for(run, place / "maps.zarr.run", f"parts/{stage}/*/*.pmlda")
            (place / "b.npy").replace(place / "a.npy")
            outcome = ended(run)
        if not in_time:
            wrong.append(f"{stage}: it was over too soon to be disturbed")
        elif outcome.code != 2 or (place / "maps.zarr").exists():
            wrong.append(f"{stage}: exit code {outcome.code}, though its picture was replaced ({outcome.said[-200:]})")
    return wrong


def appearing_output(scene: Scene) -> list[str]:
    """Somebody else writes something under the name of the result while a run is at work."""
    wrong = []
    for out, precious in {
        "maps.zarr": "maps.zarr/precious.txt",
        "maps.tif": "maps.tif",
        "maps-2.tif": "maps-2-figure.png",
        "maps": "maps/precious.txt",
    }.items():
        place = scene.place / f"for-{out}"
        place.mkdir()
        write_scene(place / "a.png")
        words = originals.run_words("maps") if out == "maps" else tiled_words(out)
        with begun(place, words) as run:
            sign = "checkpoints/*.checkpoint" if out == "maps" else "parts/sample/*/*.pmlda"
            in_time = wait_for(run, place / f"{out}.run", sign)
            (place / precious).parent.mkdir(exist_ok=True)
            (place / precious).write_text(CANARY, encoding="utf-8")
            outcome = ended(run)
        if not in_time:
            wrong.append(f"{out}: it was over too soon to be disturbed")
        elif outcome.code != 2 or (place / precious).read_bytes() != CANARY.encode():
            wrong.append(f"{out}: exit code {outcome.code}, and what appeared has changed ({outcome.said[-200:]})")
    return wrong


def two_at_once(scene: Scene) -> list[str]:
    """Two runs to one name: one of them at least succeeds, and its result is sound."""
    wrong = []
    for out in ("maps", "maps.zarr", "maps.tif"):
        place = scene.place / f"for-{out}"
        place.mkdir()
        write_scene(place / "a.png")
        before = snapshot(place)
        words = ["segment", "a.png", *QUICK, *ONE_JOB, "--out", out] if out == "maps" else tiled_words(out)
        with begun(place, words) as one, begun(place, words) as other:
            outcomes = [ended(one), ended(other)]
        after = snapshot(place)
        if all(outcome.code != 0 for outcome in outcomes):
            wrong.append(f"{out}: neither run succeeded ({outcomes[0].said[-200:]}; {outcomes[1].said[-200:]})")
            continue
        best = min(outcomes, key=lambda outcome: outcome.code)
        wrong += [f"{out}: {each}" for outcome in outcomes for each in complaints(outcome, before, before, (out,))]
        wrong += [f"{out}: {each}" for each in complaints(best, before, after, (out,))]
        wrong += [f"{out}: {each}" for each in of_result(scene.server, place, out)]
    return wrong


def interrupted(scene: Scene) -> list[str]:
    """Ctrl-C at many moments: exit code 130, and a complete result or none."""
    originals.png(scene.place / "a.png")
    wrong = []
    for step in range(12):
        for out in ("maps", "maps.zarr"):
            place = scene.place / f"{step}-{out}"
            place.mkdir()
            words = ["segment", "../a.png", *QUICK, *ONE_JOB, "--out", out]
            before = snapshot(place)
            outcome = scene.server.run(words, place, interrupt_after=COMMAND_READ + 0.07 * step)
            found = scene.judged(outcome, before, words, out, codes=(0, INTERRUPTED), place=place)
            wrong += [f"{step}, {out}: {each}" for each in found]
    return wrong


def other_clock(when: int) -> Callable[[Scene], list[str]]:
    """All files of a run say that they are of another time."""

    def situation(scene: Scene) -> list[str]:
        wrong = []
        for kind, out, whole in (
            ("run in tiles", "maps.zarr", "whole.zarr"),
            ("run with checkpoints", "maps", "whole"),
        ):
            place = scene.place / out
            scene.goods.copy(kind, place)
            for path in (place / f"{out}.run").rglob("*"):
                os.utime(path, (when, when))
            found = scene.tried(["resume", out, "--json", *ONE_JOB], out, place=place)
            wrong += found or of_resumed(scene.server, place, whole)
        return wrong

    return situation


# ── inputs that are outputs ────────────────────────────────────────────────────────────────────────────────────────
def input_is_output(scene: Scene) -> list[str]:
    """With --overwrite too, no input gives way to what is written."""
    wrong = []
    cases = {
        "picture is the figure": ("maps-figure.png", ["segment", "maps-figure.png", "--out", "maps.tif"]),
        "picture is the result": ("maps.png", ["segment", "maps.png", "--out", "maps.png"]),
        "mask is a map": ("maps-uncertainty.tif", ["segment", "a.png", "--mask", "maps-uncertainty.tif"]),
        "settings are the settings": ("maps-settings.toml", ["segment", "a.png", "--settings", "maps-settings.toml"]),
    }
    for name, (file, words) in cases.items():
        place = scene.place / name.replace(" ", "-")
        place.mkdir()
        originals.png(place / "a.png")
        if file.endswith(".png"):
            shutil.copy(place / "a.png", place / file)
        elif file.endswith(".tif"):
            originals.strips(place / file)
        else:
            (place / file).write_text(originals.SETTINGS, encoding="utf-8")
        data = (place / file).read_bytes()
        more = [] if "--out" in words else ["--out", "maps.tif"]
        outcome = scene.server.run([*words[:2], *QUICK, *ONE_JOB, "--overwrite", *words[2:], *more], place)
        if not (place / file).exists() or (place / file).read_bytes() != data:
            wrong.append(f"{name}: the input was replaced")
        if outcome.code not in GOOD_CODES:
            wrong.append(f"{name}: exit code {outcome.code}")
    return wrong


def input_in_output(scene: Scene) -> list[str]:
    """A result that holds the model or the picture of the command is not replaced by its output."""
    wrong = []
    for number, words in enumerate(
        (
            ["apply", "maps", "a.png", "--overwrite", "--out", "maps"],
            ["apply", "maps/model.pmlda", "a.png", "--overwrite", "--out", "maps"],
            ["segment", "maps/picture.png", *QUICK, "--overwrite", "--out", "maps"],
            ["segment", "a.png", "--settings", "maps/settings.toml", "--overwrite", "--out", "maps"],
            ["compare", "maps/picture.png", "--models", "kmeans", "--overwrite", "--out", "maps"],
        )
    ):
        place = scene.place / str(number)
        scene.goods.copy("result", place)
        (place / "result").rename(place / "maps")
        before = snapshot(place)
        outcome = scene.server.run(words, place)
        if outcome.code == 0 and snapshot(place) != before:
            wrong.append(f"{' '.join(words)}: the input was replaced")
        elif outcome.code != 0:
            wrong += [f"{' '.join(words)}: {each}" for each in scene.judged(outcome, before, words, place=place)]
    return wrong


def output_in_input(scene: Scene) -> list[str]:
    """Nothing is written into a store that is read."""
    originals.zarr_store(scene.place / "a.zarr")
    wrong = []
    for out in ("a.zarr", "a.zarr/maps", "a.zarr/maps.zarr", "a.zarr/c/maps.tif", "a.zarr/c"):
        words = ["segment", "a.zarr", *QUICK, *ONE_JOB, "--overwrite", "--out", out]
        wrong += [f"{out}: {each}" for each in scene.tried(words, out, "a.zarr")]
    return wrong


def many_pictures(scene: Scene) -> list[str]:
    """10,000 pictures, as a shell puts them in place of a glob; the last one is cut short."""
    originals.png(scene.place / "p00000.png")
    data = (scene.place / "p00000.png").read_bytes()
    for number in range(1, 10_000):
        (scene.place / f"p{number:05d}.png").write_bytes(data)
    last = scene.place / "p09999.png"
    last.write_bytes(data[: len(data) // 2])
    names = sorted(path.name for path in scene.place.glob("*.png"))
    return scene.tried(["segment", *names, *QUICK, *ONE_JOB, "--out", "maps"], last.name)


# ── workers ────────────────────────────────────────────────────────────────────────────────────────────────────────
def disturbed_worker(disturb: Callable[[psutil.Process], None]) -> Callable[[Scene], list[str]]:
    """Something happens to one of two workers; the run comes to the same maps."""

    def situation(scene: Scene) -> list[str]:
        write_scene(scene.place / "a.png")
        words = [word for word in tiled_words() if word not in ONE_JOB]
        whole = scene.server.run([*tiled_words()[:-1], "whole.zarr"], scene.place)
        with begun(scene.place, [*words[:-2], "--workers", "2", *words[-2:]]) as run:
            if not wait_for(run, scene.place / "maps.zarr.run", "parts/survey/*/*.pmlda"):
                return [f"it was over too soon to be disturbed ({ended(run).said[-200:]})"]
            disturb(worker_of(run))
            outcome = ended(run)
        wrong = [] if whole.code == 0 else ["the undisturbed run failed"]
        if outcome.code != 0:
            return [*wrong, f"exit code {outcome.code} ({outcome.said[-300:]})"]
        return wrong + of_resumed(scene.server, scene.place, "whole.zarr")

    return situation


def worker_of(run: "subprocess.Popen[str]") -> psutil.Process:
    """The process of a worker: the busiest child."""
    children = psutil.Process(run.pid).children(recursive=True)
    return max(children, key=lambda child: sum(child.cpu_times()[:2]))


def pause(worker: psutil.Process) -> None:
    worker.suspend()
    time.sleep(5.0)
    worker.resume()


def restarted_scheduler(scene: Scene) -> list[str]:
    """The scheduler is killed in mid-run and another one is started; the run goes on there to the same maps."""
    from tests.pipeline.common import scheduler_process, worker_processes

    write_scene(scene.place / "a.png")
    words = [word for word in tiled_words() if word not in ONE_JOB]
    if scene.server.run([*tiled_words()[:-1], "whole.zarr"], scene.place).code != 0:
        return ["the undisturbed run failed"]
    words[1] = str(scene.place / "a.png")
    folders = [scene.place / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    with (
        scheduler_process(folders[0]) as (scheduler, address),
        worker_processes(address, 2, folders[0]),
        begun(scene.place, [*words[:-2], "--scheduler", address, *words[-2:]]) as run,
    ):
        in_time = wait_for(run, scene.place / "maps.zarr.run", "parts/survey/*/*.pmlda")
        scheduler.kill()
        outcome = ended(run)
    if not in_time or outcome.code != 2 or (scene.place / "maps.zarr").exists():
        return [f"exit code {outcome.code} without a scheduler ({outcome.said[-300:]})"]
    with (
        scheduler_process(folders[1]) as (_, address),
        worker_processes(address, 2, folders[1]),
        begun(scene.place, ["resume", "maps.zarr", "--scheduler", address]) as run,
    ):
        outcome = ended(run)
    if outcome.code != 0:
        return [f"exit code {outcome.code} with another scheduler ({outcome.said[-300:]})"]
    return of_resumed(scene.server, scene.place, "whole.zarr")


def workers_elsewhere(scene: Scene) -> list[str]:
    """Workers of a scheduler were started in another folder than the command, which names its picture from its own."""
    from tests.pipeline.common import scheduler_process, worker_processes

    write_scene(scene.place / "a.png")
    words = [word for word in tiled_words() if word not in ONE_JOB]
    elsewhere = scene.place / "elsewhere"
    elsewhere.mkdir()
    with (
        scheduler_process(elsewhere) as (_, address),
        worker_processes(address, 1, elsewhere),
        begun(scene.place, [*words[:-2], "--scheduler", address, *words[-2:]]) as run,
    ):
        outcome = ended(run)
    if outcome.code != 0:
        return [f"exit code {outcome.code} ({outcome.said[-300:]})"]
    return of_result(scene.server, scene.place, "maps.zarr")


SITUATIONS: dict[str, Callable[[Scene], list[str]]] = {
    **LINKS,
    **ODD_FILES,
    "full disk": small_disk,
    "read-only disk": read_only,
    "little memory": limited("RLIMIT_AS", -(2**24), -(2**26), -(2**28)),
    "few open files": limited("RLIMIT_NOFILE", 24, 32, 64),
    "small files": limited("RLIMIT_FSIZE", 1000, 9000, 100_000),
    "standard output is closed": closed_output,
    "picture is replaced": replaced_picture,
    "output appears": appearing_output,
    "two runs to one name": two_at_once,
    "ctrl-c": interrupted,
    "files of the future": other_clock(FUTURE),
    "files of the past": other_clock(PAST),
    "input is an output": input_is_output,
    "input in the output": input_in_output,
    "output in the input": output_in_input,
    "ten thousand pictures": many_pictures,
    "paused worker": disturbed_worker(pause),
    "killed worker": disturbed_worker(lambda worker: worker.send_signal(signal.SIGKILL)),
    "restarted scheduler": restarted_scheduler,
    "workers elsewhere": workers_elsewhere,
}


def tell(name: str, server: Server, goods: Originals, place: Path) -> tuple[str, list[str]]:
    """ "worked", "skipped" or "wrong", and what was wrong or why it was skipped."""
    place.mkdir(parents=True)
    try:
        wrong = SITUATIONS[name](Scene(server, goods, place))
    except pytest.skip.Exception as reason:
        return "skipped", [str(reason)]
    return ("wrong" if wrong else "worked"), wrong


def run_all(names: list[str] | None, folder: Path) -> bool:
    """All situations, or those; whether none was wrong."""
    folder.mkdir()
    fine = True
    with Server(folder) as server:
        goods = Originals(server, folder / "originals")
        for number, name in enumerate(names or SITUATIONS):
            start = time.monotonic()
            state, lines = tell(name, server, goods, folder / str(number))
            print(
                f"{name}: {state}, {time.monotonic() - start:.1f} s", *(f"\n    {line}" for line in lines), flush=True
            )
            fine = fine and state != "wrong"
    return fine
