"""Seeded attempts: a kind and a number → damaged files, the command, and what was wrong with how it went."""

import random
import shlex
import shutil
from glob import escape
from pathlib import Path
from typing import NamedTuple

from tests.attack.judge import complaints, snapshot
from tests.attack.kinds import KINDS, Originals
from tests.attack.server import Outcome, Server

WORKED, REFUSED, WRONG = "worked", "clear error", "wrong"


class Verdict(NamedTuple):
    """How an attempt went: worked, refused with a clear error, or wrong in these ways."""

    kind: str
    number: int
    words: list[str]
    outcome: Outcome
    wrong: list[str]

    @property
    def state(self) -> str:
        return WRONG if self.wrong else WORKED if self.outcome.code == 0 else REFUSED

    def __str__(self) -> str:
        lines = self.outcome.said.strip().splitlines()
        said = f" ({lines[-1][:300]})" if lines else ""
        return f"{self.kind} {self.number}: {'; '.join(self.wrong)}: pmlda {shlex.join(self.words)[:300]}{said}"


def attack(server: Server, goods: Originals, kind: str, seed: int, number: int, place: Path) -> Verdict:
    """One attempt in a new folder, which stays."""
    how, rng = KINDS[kind], random.Random(f"{seed} {kind} {number}")
    goods.copy(kind, place)
    how.damage(place, rng)
    words = how.command(rng)
    before = snapshot(place)
    outcome = server.run(words, place)
    # A name that is asked for, however odd, may be that of the result, unless something has it already.
    asked = [escape(words[-1]), escape(words[-1]) + "/*"] if words[-2] == "--out" and words[-1] not in before else []
    rewrites = (*how.rewrites, *asked)
    # A request may name anything; what it names in this folder, an error names with the folder.
    names = (*how.names, *words[-1:], str(place))
    wrong = complaints(outcome, before, snapshot(place), names, rewrites=rewrites)
    if outcome.code == 0 and "maps" in words[-1]:
        wrong += of_result(server, place, words[-1])
    if outcome.code == 0 and how.whole and not wrong:
        wrong += of_resumed(server, place, how.whole)
    if how.picture:
        wrong += of_readings(server, place, how.picture)
    return Verdict(kind, number, words, outcome, wrong)


def of_result(server: Server, place: Path, out: str) -> list[str]:
    """What is wrong with a result that is said to be there."""
    if not (place / out).exists():
        return ["it claims a result that is not there"]
    found = server.ask("result", [out], place)
    return [] if found.code == 0 else [f"its result is not sound: {found.said.strip().splitlines()[-1]}"]


def of_resumed(server: Server, place: Path, whole: str) -> list[str]:
    """What is wrong with a run that was damaged and went on: its maps are those of an undisturbed run."""
    (out,) = (path.name for path in place.glob("maps*") if not path.name.endswith(".run"))
    digests = [server.ask("result", [name], place).out for name in (whole, out)]
    return [] if digests[0] == digests[1] else ["its maps are not those of an undisturbed run"]


def of_readings(server: Server, place: Path, picture: str) -> list[str]:
    """What is wrong with reading a picture whole and in windows."""
    found = server.ask("readings", [picture], place)
    if found.late or found.code != 0:
        lines = found.said.strip().splitlines() or [f"exit code {found.code}"]
        return [f"reading it fails with {lines[-1]}"]
    text = found.out.strip()
    return [text] if text else []


def keep(verdict: Verdict, place: Path, folder: Path, seed: int) -> None:
    """A wrong attempt with its files, what was said, and the command that repeats it."""
    kept = folder / place.name
    shutil.move(place, kept)
    repeat = f"python -m tests.attack repeat {shlex.quote(verdict.kind)} {verdict.number} --seed {seed}"
    lines = [str(verdict), f"repeat: {repeat}", f"in this folder: pmlda {shlex.join(verdict.words)}", ""]
    (folder / f"{place.name}.txt").write_text(
        "\n".join([*lines, verdict.outcome.said, verdict.outcome.out]), encoding="utf-8", errors="backslashreplace"
    )
