"""python -m tests.attack: thousands of damaged inputs, and all situations; exit code 1 if the program misbehaves.

python -m tests.attack inputs --inputs 3000 --seed 0 --kind png
python -m tests.attack repeat png 17 --seed 0
python -m tests.attack situations
python -m tests.attack kills --moments 50
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.attack.attempts import REFUSED, WORKED, WRONG, attack, keep
from tests.attack.kinds import KINDS, Originals
from tests.attack.server import Server

STATES = (REFUSED, WORKED, WRONG)


def table(counts: dict[str, Counter[str]]) -> str:
    """Counts of every kind, and of all."""
    rows = [*counts.items(), ("all", sum(counts.values(), Counter()))]
    wide = max(len(name) for name, _ in rows)
    lines = [f"{'':{wide}} {'tried':>6} " + " ".join(f"{state:>11}" for state in STATES)]
    for name, row in rows:
        lines.append(f"{name:{wide}} {row.total():6} " + " ".join(f"{row[state]:11}" for state in STATES))
    return "\n".join(lines)


def inputs(count: int, seed: int, kinds: list[str], kept: Path, folder: Path) -> bool:
    """Damaged inputs, as many of each kind; whether none was wrong."""
    counts = {kind: Counter[str]() for kind in kinds}
    start = time.monotonic()
    with Server(folder) as server:
        goods = Originals(server, folder / "originals")
        for number in range(count):
            kind = kinds[number % len(kinds)]
            place = folder / f"{kind.replace(' ', '-')}-{number // len(kinds)}"
            verdict = attack(server, goods, kind, seed, number // len(kinds), place)
            counts[kind][verdict.state] += 1
            if verdict.wrong:
                print(verdict, flush=True)
                keep(verdict, place, kept, seed)
            else:
                shutil.rmtree(place)
    print(table(counts))
    print(f"seed {seed}, {time.monotonic() - start:.0f} s")
    return not any(row[WRONG] for row in counts.values())


def repeat(kind: str, number: int, seed: int, kept: Path, folder: Path) -> bool:
    """One attempt again; its files stay."""
    with Server(folder) as server:
        verdict = attack(server, Originals(server, folder / "originals"), kind, seed, number, folder / "again")
    print(f"pmlda {verdict.words}: exit code {verdict.outcome.code}, {verdict.state}: {'; '.join(verdict.wrong)}")
    print(verdict.outcome.said)
    keep(verdict, folder / "again", kept, seed)
    return not verdict.wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__.splitlines()[0])
    parser.add_argument(
        "what", nargs="*", default=["all"], help="inputs, situations, kills, all, or repeat KIND NUMBER"
    )
    parser.add_argument("--inputs", type=int, default=3000, help="how many damaged inputs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", help=f"only these kinds: {', '.join(KINDS)}")
    parser.add_argument("--name", action="append", help="only these situations, or kinds of run to kill")
    parser.add_argument("--moments", type=int, default=50, help="how many kills of each kind of run")
    parser.add_argument("--kept", type=Path, help="where wrong inputs are kept [default: a new folder]")
    asked = parser.parse_args()
    kept = asked.kept or Path(tempfile.mkdtemp(prefix="attack-kept-"))
    kept.mkdir(parents=True, exist_ok=True)
    what, fine = asked.what[0], []
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        folder = Path(name)
        if what == "repeat":
            return int(not repeat(asked.what[1], int(asked.what[2]), asked.seed, kept, folder))
        if what in ("inputs", "all"):
            fine.append(inputs(asked.inputs, asked.seed, asked.kind or list(KINDS), kept, folder))
        if what in ("situations", "all"):
            from tests.attack.situations import run_all

            fine.append(run_all(asked.name, folder / "situations"))
        if what in ("kills", "all"):
            from tests.attack.kills import run_all as kill_all

            fine.append(kill_all(asked.name, asked.moments, asked.seed, folder / "kills"))
    if not any(kept.iterdir()):
        kept.rmdir()
    else:
        print(f"Wrong inputs, and the commands that repeat them: {kept}")
    return int(not all(fine))


if __name__ == "__main__":
    sys.exit(main())
