"""How does a sweep scale with words, features and topics, where topics have no closed form?"""

import time
import warnings

import numpy as np
from common import where

from pmlda import PMLDA

CASES = (
    ("topic-full", 200, 5, 3),
    ("topic-full", 200, 10, 3),
    ("topic-full", 200, 20, 3),
    ("topic-full", 200, 40, 3),
    ("topic-full", 200, 10, 6),
    ("topic-full", 2000, 10, 3),
    ("topic-diagonal", 200, 100, 3),
    ("poisson", 60, 100, 3),
    ("poisson", 60, 1000, 3),
    ("poisson", 60, 4000, 3),
    ("categorical", 2000, 300, 3),
)


def words(name, n, p, n_topics):
    """Words of a family, and the parameters that choose it."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.full(n_topics, 0.3), n)
    if name == "poisson":
        return rng.poisson(np.exp(z @ np.log(rng.gamma(2.0, 2.0, (n_topics, p))))).astype(float), {"family": name}
    if name == "categorical":
        eta = z @ np.log(rng.dirichlet(np.full(p, 0.3), n_topics) + 1e-6)
        symbols = np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)
        return symbols[:, None].astype(float), {"family": name}
    return z @ rng.normal(scale=5.0, size=(n_topics, p)) + rng.normal(size=(n, p)), {"covariance": name}


def seconds(name, n, p, n_topics):
    """CPU time of two sweeps from one start, without refits."""
    X, chosen = words(name, n, p, n_topics)
    model = PMLDA(n_topics, n_sweeps=2, n_init=1, n_refits=0, random_state=0, n_jobs=1, **chosen)
    start = time.process_time()
    model.fit(X, groups=np.arange(n) * 5 // n)
    return time.process_time() - start


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(f"# Families without a closed form\n\n{where()}\n")
    for name in dict.fromkeys(case[0] for case in CASES):
        seconds(name, 50, 2, 2)  # compile
    print("| family | words | features | K | CPU s of two sweeps |\n|---|---|---|---|---|")
    for case in CASES:
        print("|", " | ".join(map(str, case)), f"| {seconds(*case):.2f} |", flush=True)
