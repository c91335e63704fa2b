"""Kinds of input: good files, how they are damaged, and the command that reads them."""

import hashlib
import json
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pmlda.settings import Settings
from tests.attack import originals
from tests.attack.mutators import (
    TEXTS,
    VALUES,
    damage_bytes,
    damage_json,
    damage_png,
    damage_text,
    damage_tiff,
    damage_tree,
    to_json,
    without_long_work,
)
from tests.attack.server import QUICK, Server

Damage = Callable[[Path, random.Random], None]
Command = Callable[[random.Random], list[str]]
ONE_JOB = ("--jobs", "1")
# What settings may ask for and not get: errors name the setting, or what is wrong with its value.
SETTINGS = ("etting", *(f"{name}=" for name in Settings.model_fields), "alpha", "eatures", "regular file")
REQUESTS = ("a.png", *SETTINGS)
# A picture that can be read may still hold nothing to tell apart, which is said of its pixels.
CONTENT = ("pixel", "picture", "eatures")


class Kind(NamedTuple):
    """One kind of input.

    make : writes good files into a folder
    damage : damages some of them
    command : the words of the command, without "pmlda"
    names : words of which a clear error names at least one
    picture : a picture whose two readings must agree, if it can be read at all
    whole : a result to which the maps of a run that worked must be equal, bit for bit
    rewrites : patterns of files that the command is meant to replace
    """

    make: Callable[[Server, Path], None]
    damage: Damage
    command: Command
    names: tuple[str, ...]
    picture: str = ""
    whole: str = ""
    rewrites: tuple[str, ...] = ()


# ── pictures ───────────────────────────────────────────────────────────────────────────────────────────────────────
DAMAGES = {".png": damage_png, ".tif": damage_tiff, ".npy": damage_text, ".hdr": damage_text, ".json": damage_json}
DAMAGES |= {".toml": damage_text, ".csv": damage_text, ".jsonl": damage_text}
ZARR_METADATA = (".zarray", ".zattrs", ".zgroup")


def damage_file(path: Path, rng: random.Random) -> None:
    """A file is damaged as its kind is, or replaced by something empty, by one byte, or by another kind."""
    if rng.random() < 0.04:
        path.write_bytes(rng.choice((b"", b"\0", b"\x89PNG\r\n\x1a\n", b"II*\0\x08\0\0\0", b"PK\x05\x06" + bytes(18))))
        return
    how = damage_json if path.name in ZARR_METADATA else DAMAGES.get(path.suffix, damage_bytes)
    data = path.read_bytes()
    try:
        changed = how(data, rng)
    except (ValueError, LookupError, RecursionError, struct.error):  # what was damaged before can no longer be parsed
        changed = damage_bytes(data, rng)
    path.write_bytes(changed)


def damage_some(folder: Path, rng: random.Random, *patterns: str) -> None:
    """Any of the files of these patterns, once or twice; sometimes one vanishes."""
    files = sorted(path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
    for _ in range(rng.choice((1, 1, 1, 2))):
        path = rng.choice(files)
        if rng.random() < 0.04:
            path.unlink(missing_ok=True)
        elif path.exists():
            damage_file(path, rng)


def picture_kind(name: str, write: Callable[[Path], Any]) -> Kind:
    patterns = [f"{name}/**/*"] if name.endswith(".zarr") else ["a.*"]

    def command(rng: random.Random) -> list[str]:
        return ["segment", name, *QUICK, *ONE_JOB, "--out", rng.choice(("maps", "maps.zarr"))]

    return Kind(
        lambda server, place: write(place / name),
        lambda place, rng: damage_some(place, rng, *patterns),
        command,
        (name, "a.hdr", *CONTENT),
        picture=name,
    )


def stack_kind(name: str, write: Callable[[Path], Any]) -> Kind:
    """A stack, of which a slice or a projection is read."""

    def command(rng: random.Random) -> list[str]:
        which = ["--z", rng.choice(("2", "max", "mean"))]
        return ["segment", name, *which, *QUICK, *ONE_JOB, "--out", rng.choice(("maps", "maps.zarr"))]

    return Kind(
        lambda server, place: write(place / name),
        lambda place, rng: damage_some(place, rng, "a.*"),
        command,
        (name, *CONTENT),
    )


def write_masked(server: Server, place: Path) -> None:
    originals.png(place / "b.png")
    originals.png(place / "a.png")


def labels_kind(name: str, write: Callable[[Path], Any]) -> Kind:
    def command(rng: random.Random) -> list[str]:
        out = rng.choice(("maps", "maps.tif", "maps.zarr"))
        return ["segment", "a.png", "--labels", name, *QUICK, *ONE_JOB, "--out", out]

    def make(server: Server, place: Path) -> None:
        originals.png(place / "a.png")
        write(place / name)

    return Kind(make, lambda place, rng: damage_some(place, rng, name), command, (name, "abels", "troke", "opic"))


# ── models, results, runs ──────────────────────────────────────────────────────────────────────────────────────────
def damage_model(place: Path, rng: random.Random) -> None:
    """The zip file as bytes, the tree in it, or an array in it whose checksum is right again."""
    path = place / "result" / "model.pmlda"
    how = rng.randrange(4)
    if how == 0:
        path.write_bytes(damage_bytes(path.read_bytes(), rng))
    elif how < 3:
        originals.rewrite_archive(path, lambda entries: _other_tree(entries, rng))
    else:
        originals.rewrite_archive(path, lambda entries: _other_array(entries, rng))


def _other_tree(entries: dict[str, bytes], rng: random.Random) -> dict[str, bytes]:
    return entries | {"model.json": to_json(damage_tree(json.loads(entries["model.json"]), rng))}


def _other_array(entries: dict[str, bytes], rng: random.Random) -> dict[str, bytes]:
    name = rng.choice([name for name in entries if name.endswith(".npy")])
    data = damage_bytes(entries[name], rng)
    document = json.loads(entries["model.json"])
    document["sha256"][name.removesuffix(".npy")] = hashlib.sha256(data).hexdigest()
    return entries | {name: data, "model.json": json.dumps(document).encode()}


def apply_model(rng: random.Random) -> list[str]:
    return rng.choice((["info", "result"], ["apply", "result", "a.png", "--json", "--out", "maps"]))


def report_or_apply(result: str) -> Command:
    def command(rng: random.Random) -> list[str]:
        apply = ["apply", result, "a.png", "--json", "--out", "maps"]
        return rng.choice((["report", result], ["report", result, "--json"], apply))

    return command


def resume(out: str) -> Command:
    return lambda rng: ["resume", out, "--json", *ONE_JOB]


def damage_request(place: Path, rng: random.Random) -> None:
    """Changed and sealed again; the picture stays the same, whatever the request says of it."""
    (path,) = place.glob("maps*.run/request.json")
    originals.reseal(path, lambda table: _modest(damage_tree(table, rng)))


def _modest(tree: Any) -> Any:
    """The same tree without long work; one that is nested too deeply to be read asks for none."""
    try:
        return json.loads(without_long_work(to_json(tree).decode()))
    except RecursionError:
        return tree


def damage_run(place: Path, rng: random.Random) -> None:
    """Files of a run; the request is sealed, so that it cannot be damaged unnoticed."""
    (run,) = place.glob("maps*.run")
    damage_some(run, rng, "*", "checkpoints/*", "parts/**/*", "maps.zarr/**/*")


# ── words of the command ───────────────────────────────────────────────────────────────────────────────────────────
OPTIONS = ("--topics", "--features", "--documents", "--model", "--engine", "--seed", "--mask", "--settings", "--jobs")
OPTIONS += ("--checkpoint", "--workers", "--scheduler", "--out")
SPELLINGS = ("windows:0", "windows:99999999", "windows:8/0", "windows:8/-1", "slic:0", "slic:-5", "slic:1e9", "ncuts:0")
SPELLINGS += ("slic:10000000", "color+", "+", "color+color", "no-such", "spectral:0", "texture:-1", "a.png", "whole:3")
# Settings that ask for long work get it; that is no fault. Nor is it one that many topics take long.
LONG = ("sweeps", "refits", "dictionary", "jobs", "workers")
MANY = ("127", "128", "255")


def odd_options(rng: random.Random) -> list[str]:
    """A good command with an odd value in one place."""
    words = ["segment", "a.png", *QUICK, *ONE_JOB, "--out", "maps"]
    how = rng.randrange(3)
    value = rng.choice([text for text in (*TEXTS, *SPELLINGS) if text not in MANY])
    if how == 0:
        return [*words, rng.choice([each for each in OPTIONS if each[2:] not in LONG]), value]
    if how == 1:
        name = rng.choice([each for each in Settings.model_fields if each not in LONG])
        return [*words, "--set", f"{name}={value}"]
    words[1] = value
    return words


def write_png(server: Server, place: Path) -> None:
    originals.png(place / "a.png")


def write_settings(server: Server, place: Path) -> None:
    originals.png(place / "a.png")
    (place / "settings.toml").write_text(originals.SETTINGS, encoding="utf-8")


def write_library(server: Server, place: Path) -> None:
    originals.envi(place / "a.img")
    originals.library(place / "b")


def odd_settings(place: Path, rng: random.Random) -> None:
    """A damaged file, or a good one with a value of an odd kind, or one that is nested deeply."""
    path, how = place / "settings.toml", rng.randrange(3)
    if how == 0:
        damage_file(path, rng)
        text = path.read_bytes().decode(errors="surrogateescape")
        path.write_bytes(without_long_work(text).encode(errors="surrogateescape"))
    elif how == 1:
        name = rng.choice([each for each in Settings.model_fields if each not in LONG])
        value = rng.choice((*VALUES, "windows:0", "slic:9999999999"))
        text = {True: "true", False: "false", None: '""'}.get(value) if isinstance(value, bool | None) else repr(value)
        path.write_text(f"{name} = {text}\n", encoding="utf-8")
    else:
        depth = rng.choice((10, 900, 100_000))
        path.write_text(rng.choice(("topics = " + "[" * depth, "a." * depth + "b = 1")), encoding="utf-8")


def of_run(out: str) -> Callable[[Server, Path], None]:
    return lambda server, place: originals.write_run(server, place, out)


def damage_result(result: str, *patterns: str) -> Damage:
    return lambda place, rng: damage_some(place / result, rng, *patterns)


REPORTS = ("*report.html", "*/*report.html")
RESULT_NAMES = ("result",)
KINDS: dict[str, Kind] = {
    **{kind: picture_kind(*how) for kind, how in originals.PICTURES.items()},
    "tiff of slices": stack_kind("a.ome.tif", originals.ome_stack),
    "hdf5 of slices": stack_kind("a.h5", originals.hdf5_stack),
    "mask": Kind(
        write_masked,
        lambda place, rng: damage_some(place, rng, "b.png"),
        lambda rng: [
            "segment",
            "a.png",
            "--mask",
            "b.png",
            *QUICK,
            *ONE_JOB,
            "--out",
            rng.choice(("maps", "maps.tif")),
        ],
        ("b.png", "mask", "a.png", *CONTENT),
    ),
    "strokes": labels_kind("strokes.json", originals.strokes),
    "label image": labels_kind("drawn.png", originals.label_image),
    "model": Kind(originals.write_result, damage_model, apply_model, ("model.pmlda", "result")),
    "run.json": Kind(
        originals.write_result,
        damage_result("result", "run.json"),
        report_or_apply("result"),
        RESULT_NAMES,
        rewrites=REPORTS,
    ),
    "documents.csv": Kind(
        originals.write_result,
        damage_result("result", "documents.csv"),
        report_or_apply("result"),
        RESULT_NAMES,
        rewrites=REPORTS,
    ),
    "result": Kind(
        originals.write_result,
        damage_result("result", "*"),
        report_or_apply("result"),
        RESULT_NAMES,
        rewrites=REPORTS,
    ),
    "tiled result": Kind(
        originals.write_tiled_result,
        damage_result("result.zarr", "**/*"),
        report_or_apply("result.zarr"),
        RESULT_NAMES,
        rewrites=REPORTS,
    ),
    "run in tiles": Kind(of_run("maps.zarr"), damage_run, resume("maps.zarr"), ("maps.zarr",), whole="whole.zarr"),
    "run with checkpoints": Kind(of_run("maps"), damage_run, resume("maps"), ("maps",), whole="whole"),
    "request of a run": Kind(of_run("maps"), damage_request, resume("maps"), ("maps", *REQUESTS)),
    "request of tiles": Kind(of_run("maps.zarr"), damage_request, resume("maps.zarr"), ("maps.zarr", *REQUESTS)),
    "settings": Kind(
        write_settings,
        odd_settings,
        lambda rng: ["segment", "a.png", "--settings", "settings.toml", "--json", *ONE_JOB, "--out", "maps"],
        ("settings.toml", *SETTINGS, "windows", "slic", "topics"),
    ),
    "library": Kind(
        write_library,
        lambda place, rng: damage_some(place, rng, "b.*"),
        lambda rng: ["segment", "a.img", "--known", rng.choice(("b.csv", "b.sli")), *QUICK, *ONE_JOB, "--out", "maps"],
        ("b.csv", "b.sli", "b.hdr", "nown topic", "topics are known", *CONTENT),
    ),
    "options": Kind(write_png, lambda place, rng: None, odd_options, ("",)),
}


class Originals:
    """Good files of every kind, each made once."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server, self._folder = server, folder
        self._made: dict[str, Path] = {}

    def copy(self, kind: str, place: Path) -> None:
        """The good files of a kind, in a new folder. A run knows its picture by its path, so it is made in there."""
        if kind not in self._made:
            made = self._folder / kind.replace(" ", "-")
            made.mkdir(parents=True)
            KINDS[kind].make(self._server, made)
            self._made[kind] = made
        shutil.copytree(self._made[kind], place, symlinks=True)
        (place / "beside.txt").write_text("Not to be touched.\n", encoding="utf-8")
