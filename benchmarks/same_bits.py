"""Whether a change of structure changed a result: SHA-256 of memberships, uncertainty and topics of many small runs.

    python benchmarks/same_bits.py --out before.json          on the old commit
    python benchmarks/same_bits.py --against before.json      on the new one: names every run that differs

Only the public API is used, so that one script reads both commits. Digests depend on the processor and on the versions
of the libraries: compare runs of one machine.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from pmlda import PMLDA, Checkpoint, segment

warnings.simplefilter("ignore")

SWEEPS = {"variational": 200, "gibbs": 40, "paper": 60}
PEERS = ("lda", "fcm", "bpm", "bfc", "gmm", "kmeans")


def picture(height=48, width=64, bands=3, seed=0):
    """Three materials that fade into each other, with noise."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:height, 0:width] / max(height, width)
    logits = np.stack([6 * rows, 6 * columns, 3 - 4 * (rows + columns)], axis=-1) + seed
    z = np.exp(logits - logits.max(axis=-1, keepdims=True))
    z /= z.sum(axis=-1, keepdims=True)
    colours = np.random.default_rng(99).random((3, bands))
    return (z @ colours + 0.03 * rng.normal(size=(height, width, bands))).astype(np.float32)


def quarters(height=48, width=64):
    """Labels (H, W) of sixteen rectangles."""
    return (np.arange(height)[:, None] // 12) * 4 + np.arange(width) // 16


def digest(*arrays):
    total = hashlib.sha256()
    for array in arrays:
        for each in array if isinstance(array, list) else [array]:
            values = np.ascontiguousarray(each)
            total.update(str((values.dtype.str, values.shape)).encode() + values.tobytes())
    return total.hexdigest()


def of_maps(found):
    """Digests of what a segmentation holds, in memory or on disk."""

    def loaded(maps):
        return [np.asarray(each[:]) for each in maps] if isinstance(maps, list) else np.asarray(maps[:])

    return {
        "memberships": digest(loaded(found.memberships)),
        "uncertainty": digest(loaded(found.uncertainty)),
        "topics": digest(found.topics),
    }


def of_model(model):
    spread = getattr(model, "topic_covariances_", getattr(model, "noise_variance_", 0.0))
    return {
        "memberships": digest(model.memberships_),
        "uncertainty": digest(model.membership_std_),
        "topics": digest(model.topic_means_, np.asarray(spread)),
        "documents": digest(model.proportions_, model.scales_),
    }


def pictures():
    """Runs of segment in memory, by name."""
    photo, mask = picture(), np.ones((48, 64), bool)
    mask[:10, 20:40] = False
    for engine, sweeps in SWEEPS.items():
        common = {"engine": engine, "sweeps": sweeps}
        yield f"{engine}, photograph", lambda c=common: segment(photo, 3, documents="slic:12", **c)
        yield (
            f"{engine}, list",
            lambda c=common: segment([photo, picture(40, 50, seed=1)], 3, documents="windows:16", **c),
        )
        yield f"{engine}, cube", lambda c=common: segment(picture(bands=8), 3, documents="windows:16", **c)
        yield f"{engine}, given labels", lambda c=common: segment(photo, 3, documents=quarters(), **c)
        yield f"{engine}, mask", lambda c=common: segment(photo, 3, documents="windows:16", mask=mask, **c)
        yield (
            f"{engine}, overlapping windows",
            lambda c=common: segment(photo, 3, documents="windows:32/16", **c),
        )
        yield f"{engine}, whole", lambda c=common: segment(photo, 3, documents="whole", **c)
    yield "variational, texture", lambda: segment(picture(), 3, features="color+texture", documents="slic:12")
    yield "variational, no blending", lambda: segment(photo, 3, documents="slic:12", blend=0.0)
    yield "variational, subsampled", lambda: segment(picture(300, 400), 3, documents="slic:30", sample=20_000)
    yield "variational, applied", lambda: segment(photo, 3, documents="slic:12").apply(picture(40, 50, seed=1))
    yield (
        "variational, applied to a list",
        lambda: segment(photo, 3, documents="slic:12").apply([photo, picture(40, 50, seed=1)]),
    )
    yield "variational, auto", lambda: segment(picture(200, 300), 3)
    yield "variational, ncuts", lambda: segment(photo, 3, documents="ncuts:8")
    for peer in PEERS:
        yield f"peer {peer}", lambda m=peer: segment(photo, 3, model=m, documents="slic:12", sweeps=40)
    yield "peer lda, overlapping windows", lambda: segment(photo, 3, model="lda", documents="windows:32/16")


def in_blocks(folder):
    """Runs of segment block by block, by name."""
    large = picture(200, 230)
    mask = np.ones((200, 230), bool)
    mask[:90, 20:140] = False
    cases = {
        "variational, blocks of windows": {"documents": "windows:16"},
        "variational, blocks of superpixels": {"documents": "slic:40"},
        "variational, blocks of one document": {"documents": "whole"},
        "variational, blocks with a mask": {"documents": "windows:16", "mask": mask},
        "variational, blocks of texture": {"documents": "slic:40", "features": "color+texture"},
        "gibbs, blocks of windows": {"documents": "windows:16", "engine": "gibbs", "sweeps": 20},
        "gibbs, blocks of superpixels": {"documents": "slic:40", "engine": "gibbs", "sweeps": 20},
    }
    for i, (name, options) in enumerate(cases.items()):
        yield name, lambda i=i, o=options: segment(large, 3, out=folder / f"{i}.zarr", block=96, **o)


def words(family):
    rng = np.random.default_rng(0)
    mean = rng.dirichlet([0.5] * 3, size=400) @ (6.0 * np.eye(3) + 1.0)
    groups = np.arange(400) // 50
    if family == "poisson":
        return rng.poisson(mean).astype(float), groups
    if family == "gamma":
        return rng.gamma(4.0, mean / 4.0), groups
    return mean + rng.normal(size=mean.shape), groups


def fits():
    """Fits of the estimator, by name."""
    for engine, sweeps in SWEEPS.items():
        for family, covariance in (("gaussian", "full"), ("gaussian", "topic-diagonal"), ("poisson", "isotropic")):
            x, groups = words(family)

            def fit(x=x, groups=groups, options={"family": family, "covariance": covariance}, e=engine, s=sweeps):  # noqa: B006
                return PMLDA(3, engine=e, n_sweeps=s, random_state=0, **options).fit(x, groups=groups)

            yield f"{engine}, fit of {family} {covariance}", fit


def stopped_fit(engine, folder):
    """A fit that is killed once it has written checkpoints, for resumed()."""
    x, groups = words("gaussian")
    n_sweeps = 400 if engine != "variational" else 3000
    options = {"n_sweeps": n_sweeps, "tol": 1e-13} if engine == "variational" else {"n_sweeps": n_sweeps}
    model = PMLDA(3, engine=engine, random_state=0, **options)
    return model.fit(x, groups=groups, checkpoint=Checkpoint(folder, every_seconds=1000, every_sweeps=5))


def resumed(engine, folder):
    """Kill a fit after its second checkpoint, then resume it."""
    process = subprocess.Popen([sys.executable, __file__, "--stopped", engine, str(folder)])
    deadline = time.monotonic() + 300
    while process.poll() is None and len(list(folder.glob("*0002.checkpoint"))) == 0 and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return stopped_fit(engine, folder)


def record(only=""):
    """Digests of all runs, or of those whose name holds a text."""
    found = {}

    def note(name, run, read):
        if only in name:
            print(name, flush=True)
            found[name] = read(run())

    for name, run in pictures():
        note(name, run, of_maps)
    for name, run in fits():
        note(name, run, of_model)
    with tempfile.TemporaryDirectory() as folder:
        for name, run in in_blocks(Path(folder)):
            note(name, run, of_maps)
        for engine in SWEEPS:
            place = Path(folder) / engine
            place.mkdir()
            note(f"{engine}, killed and resumed", lambda e=engine, p=place: resumed(e, p), of_model)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--stopped", nargs=2)
    given = parser.parse_args()
    if given.stopped:
        stopped_fit(given.stopped[0], Path(given.stopped[1]))
        return
    found = record(given.only)
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")
    if given.against:
        before = json.loads(given.against.read_text())
        names = [name for name in before if given.only in name]
        differing = {n: [k for k, v in before[n].items() if found.get(n, {}).get(k) != v] for n in names}
        for name, what in differing.items():
            if what:
                print(f"DIFFERS  {name}: {', '.join(what)}")
        print(f"{sum(not what for what in differing.values())} of {len(differing)} runs have the same bits.")
        sys.exit(any(differing.values()))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
