"""Does topics="auto" find the number of topics?

python benchmarks/howmany.py                               every table that needs no data
python benchmarks/howmany.py sets scenes --count 20        some of them, smaller
python benchmarks/howmany.py real --data FOLDER            FOLDER has the folders hsi and authors
"""

import argparse
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from common import show, where

from pmlda import PMLDA, choose_n_topics, segment
from pmlda.evaluation import scenes
from pmlda.families import Gaussian
from pmlda.families.noise import FullNoise
from pmlda.model import simulate
from pmlda.types import Topics

# Seeds below were used to develop the method.
FIRST_SEED = 1000
SEEDS = 5


def draw_set(seed):
    """Words, documents and what they were drawn with: K = 2 to 6 topics, p = 3 to 20 features with K ≤ p + 1.

    4,000 to 20,000 words in 20 to 60 documents, α = 1 and λ = 0.5. Topics are normal; noise is 0.05 to 0.2 of the mean
    distance between them, isotropic in half of the sets, else a full covariance (Wishart, 2p degrees of freedom).
    """
    rng = np.random.default_rng([20, seed])
    n_topics = int(rng.integers(2, 7))
    p = int(rng.integers(max(3, n_topics - 1), 21))
    n_words, n_documents = int(rng.integers(4000, 20001)), int(rng.integers(20, 61))
    noise, is_full = rng.uniform(0.05, 0.2), rng.random() < 0.5
    means = rng.normal(size=(n_topics, p))
    means /= np.linalg.norm(means[:, None] - means[None], axis=2)[np.triu_indices(n_topics, 1)].mean()
    family, topics = Gaussian(), Topics(means, np.array(noise**2))
    if is_full:
        roots = rng.normal(size=(p, 2 * p))
        covariance = roots @ roots.T
        family, topics = (
            Gaussian(noise=FullNoise()),
            Topics(means, covariance * noise**2 / np.mean(np.diag(covariance))),
        )
    sizes = rng.multinomial(n_words - 5 * n_documents, np.full(n_documents, 1 / n_documents)) + 5
    words, document, _ = simulate(rng, family, topics, sizes)
    return words, document, n_topics, "full" if is_full else "isotropic"


def blend(n_topics, noise, seed):
    """Colours drawn from scenes.COLOURS, added up in equal shares of smooth fields."""
    rng = np.random.default_rng(seed)
    truth = scenes.equal_shares(np.stack([scenes.smooth_field(rng, 160, 16.0) for _ in range(n_topics)], axis=-1))
    clean = truth @ scenes.COLOURS[rng.permutation(len(scenes.COLOURS))[:n_topics]]
    return (255.0 * np.clip(clean + noise * rng.normal(size=clean.shape), 0.0, 1.0) + 0.5).astype(np.uint8)


def draw_scene(seed):
    """Kind, picture and number of topics: in turn smooth scenes and blends of 2 to 5 colours, and a sunset."""
    kind, n_topics = ("smooth", "blend", "smooth", "blend", "sunset")[seed % 5], 2 + (seed // 5) % 4
    noise = np.random.default_rng([21, seed]).uniform(0.02, 0.08)
    if kind == "sunset":
        return kind, scenes.sunset(150, 200, seed)[0], 3
    if kind == "smooth":
        return kind, scenes.smooth_scene(160, 160, n_topics, noise, seed)[0], n_topics
    return kind, blend(n_topics, noise, seed), n_topics


def judged(pairs):
    """How many are right, off by one, off by more, of each kind; pairs of (kind, true number, chosen number)."""
    for kind in [*dict.fromkeys(kind for kind, *_ in pairs), "all"]:
        off = Counter(min(abs(found - true), 2) for k, true, found in pairs if kind in (k, "all"))
        yield [kind, str(off.total()), str(off[0]), str(off[1]), str(off[2])]


def told(pairs, seed, kind, true, found):
    """Keep and print one answer, so that a run that is stopped has something to show."""
    pairs.append((kind, true, found))
    print(f"  {seed} {kind}: {true} topics, chosen {found}{'' if true == found else '  <- wrong'}", flush=True)


HEADER = ["kind", "sets", "right", "off by one", "off by more"]


def sets(asked):
    pairs = []
    for seed in range(FIRST_SEED, FIRST_SEED + (asked.count or 100)):
        words, document, n_topics, covariance = draw_set(seed)
        choice = choose_n_topics(words, document, covariance=covariance, n_jobs=asked.jobs)
        told(pairs, seed, f"{n_topics} topics", n_topics, choice.n_topics)
    show(HEADER, judged(sorted(pairs)))


def pictures(asked):
    pairs = []
    for seed in range(FIRST_SEED, FIRST_SEED + (asked.count or 60)):
        kind, picture, n_topics = draw_scene(seed)
        told(pairs, seed, kind, n_topics, choose_n_topics(picture, n_jobs=asked.jobs).n_topics)
    show(HEADER, judged(pairs))


def seeds(asked):
    """Whether other random numbers choose otherwise."""
    same = []
    for seed in range(FIRST_SEED, FIRST_SEED + (asked.count or 20)):
        kind, picture, n_topics = draw_scene(seed)
        found = [choose_n_topics(picture, random_state=i, n_jobs=asked.jobs).n_topics for i in range(SEEDS)]
        same.append(len(set(found)) == 1)
        print(f"  {seed} {kind}: {n_topics} topics, chosen {found}", flush=True)
    show(["pictures", f"same for {SEEDS} seeds"], [[str(len(same)), str(sum(same))]])


def textures(asked):
    """Windows of textures are few and correlated: what comes out, with features of the experiment "blend"."""
    pairs = []
    for seed in range(FIRST_SEED, FIRST_SEED + (asked.count or 6)):
        for mixing, features in (("amplitude", "grain:24,root"), ("area", "grain:24")):
            picture, _ = scenes.blended_textures(480, mixing, seed)
            found = choose_n_topics(picture, features=features, n_jobs=asked.jobs).n_topics
            told(pairs, seed, mixing, 3, found)
    show(HEADER, judged(pairs))


def cost(asked):
    """Processor seconds, side by side: choosing, and a fit or run with the largest number that it tried."""
    rows = []
    segment(draw_scene(0)[1], 2, n_jobs=1)  # compile
    for seed in range(FIRST_SEED, FIRST_SEED + (asked.count or 6)):
        words, document, n_topics, covariance = draw_set(seed)
        choice, chosen = timed(lambda: choose_n_topics(words, document, covariance=covariance, n_jobs=1))  # noqa: B023
        k = choice.tried[-1]
        _, fit = timed(lambda: PMLDA(k, covariance=covariance, random_state=0, n_jobs=1).fit(words, groups=document))  # noqa: B023
        rows.append([f"set of {n_topics} topics, {len(words)} words", chosen, fit])
        kind, picture, n_topics = draw_scene(seed)
        choice, chosen = timed(lambda: choose_n_topics(picture, n_jobs=1))  # noqa: B023
        _, fit = timed(lambda: segment(picture, choice.tried[-1], n_jobs=1))  # noqa: B023
        rows.append([f"{kind} of {n_topics} topics", chosen, fit])
        print(
            "".join(f"  {name}: {chosen:.1f} s, {fit:.1f} s\n" for name, chosen, fit in rows[-2:]), end="", flush=True
        )
    cells = [[name, f"{chosen:.1f}", f"{fit:.1f}", f"{chosen / fit:.1f}"] for name, chosen, fit in rows]
    show(["data", "choosing, s", "longest fit or run, s", "ratio"], cells)
    print(f"median ratio {np.median([chosen / fit for _, chosen, fit in rows]):.1f}")


def timed(run):
    start = time.process_time()
    found = run()
    return found, time.process_time() - start


def real(asked):
    """Pictures with known materials, and the authors' own."""
    rows = []
    for name, n_topics in (("samson", "3"), ("moffett", "3")):
        cube = np.load(asked.data / "hsi" / f"{name}.npz")["cube"]
        rows.append((name, n_topics, cube, {}))
    rows.append(("sunset", "–", asked.data / "authors" / "sunset_160.png", {}))
    rows.append(("SAS", "–", asked.data / "authors" / "sas_hf.png", {"features": "sonar"}))
    cells = []
    for name, n_topics, picture, more in rows:
        found = [choose_n_topics(picture, random_state=i, n_jobs=asked.jobs, **more).n_topics for i in range(SEEDS)]
        cells.append([name, n_topics, str(found[0]), ", ".join(map(str, found))])
    show(["picture", "materials", "chosen", f"for {SEEDS} seeds"], cells)


TABLES = {"sets": sets, "scenes": pictures, "seeds": seeds, "cost": cost, "textures": textures, "real": real}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--count", type=int, help="sets or pictures of each table")
    parser.add_argument("--data", type=Path, help="folder of real pictures")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print(where())
    for name in asked.tables or [name for name in TABLES if name != "real" or asked.data]:
        print(f"\n{name}: {(TABLES[name].__doc__ or '').strip()}")
        TABLES[name](asked)


if __name__ == "__main__":
    main()
