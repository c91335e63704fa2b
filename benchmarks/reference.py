"""The authors' demo problem (five data sets, four topics in two dimensions): membership RMSE of every engine."""

import argparse
import warnings
from pathlib import Path

import numpy as np
from accuracy import matched, rmse
from common import where

from pmlda import PMLDA

ENGINES = {
    "variational": {},
    "gibbs": {"n_sweeps": 1000},
    "paper": {"n_sweeps": 1000},
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="with synth_seed1.npz to synth_seed5.npz")
    folder = parser.parse_args().folder
    if folder is None:
        print("# The authors' demo problem\n\nSkipped: give the folder with synth_seed1.npz to synth_seed5.npz.")
        raise SystemExit
    warnings.simplefilter("ignore")
    print(f"# The authors' demo problem\n\n{where()}\n")
    print("| engine | RMSE on each data set | mean |\n|---|---|---|")
    for engine, settings in ENGINES.items():
        errors = []
        for path in sorted(folder.glob("synth_seed*.npz")):
            data = np.load(path)
            model = PMLDA(4, engine=engine, random_state=0, **settings).fit(data["X"], groups=data["doc"].ravel())
            errors.append(rmse(model.memberships_[:, matched(model, data["Z"])], data["Z"]))
        print(f"| {engine} | {' '.join(f'{error:.3f}' for error in errors)} | {np.mean(errors):.4f} |", flush=True)
