"""Bad input to PMLDA gets one clear error, and a fit that fails or is interrupted leaves things in order."""

import os
import subprocess
import sys

import numpy as np
import pytest
import sklearn
from scipy import sparse

from pmlda import PMLDA, Gamma

GOOD = np.random.default_rng(0).normal(size=(30, 3))
BAD_INPUT = [
    ("NaN", {}, np.where(np.arange(90).reshape(30, 3) == 5, np.nan, GOOD), None, "contains NaN"),
    ("infinity", {}, np.where(np.arange(90).reshape(30, 3) == 5, np.inf, GOOD), None, "infinity"),
    ("no rows", {}, np.empty((0, 3)), None, "0 sample"),
    ("no columns", {}, np.empty((9, 0)), None, "0 feature"),
    ("one row", {}, GOOD[:1], None, "1 sample"),
    ("one dimension", {}, GOOD[:, 0], None, "Expected 2D array"),
    ("an image", {}, GOOD.reshape(5, 6, 3), None, r"three dimensions, \(5, 6, 3\).*reshape"),
    ("text", {}, np.array([["a", "b"], ["c", "d"]]), None, "could not convert|dtype"),
    ("objects", {}, np.array([[{}, 1], [2, 3]], dtype=object), None, "number"),
    ("short groups", {}, GOOD, np.zeros(29), r"groups has shape \(29,\) but X has 30 rows"),
    ("NaN in groups", {}, GOOD, np.full(30, np.nan), "groups contains NaN"),
    ("mixed groups", {}, GOOD, np.array([1, "a"] * 15, dtype=object), "groups mixes labels"),
    ("None in groups", {}, GOOD, [None] * 30, "groups contains NaN, infinity or None"),
    ("NaN among texts", {}, GOOD, ["a", "b", np.nan] * 10, "groups contains NaN"),
    ("numbers and texts", {}, GOOD, [1, "1", 2] * 10, "groups mixes labels"),
    ("ragged groups", {}, GOOD, [[1], [1, 2]] * 15, "groups is ragged"),
    ("odd groups", {}, GOOD, [object()] * 30, "odd kind"),
    ("no topics", {"n_components": 0}, GOOD, None, "n_components=0: give a whole number of at least 1"),
    ("half a topic", {"n_components": 2.5}, GOOD, None, "n_components=2.5"),
    ("true topics", {"n_components": True}, GOOD, None, "n_components=True"),
    ("many topics", {"n_components": 4}, np.repeat(GOOD[:3], 5, axis=0), None, r"only 3 distinct row\(s\)"),
    ("constant, diagonal", {"covariance": "diagonal"}, GOOD * [1, 1, 0], None, r"Feature\(s\) \[2\] of X are constant"),
    ("constant, full", {"covariance": "full"}, GOOD * [1, 1, 0], None, "constant"),
    ("constant, per topic", {"covariance": "topic-diagonal"}, GOOD * [1, 1, 0], None, "constant"),
    ("duplicate, full", {"covariance": "full"}, GOOD[:, [0, 1, 0]], None, "span only 2 dimensions"),
    ("duplicate, per topic", {"covariance": "topic-full"}, GOOD[:, [0, 1, 0]], None, "span only 2 dimensions"),
    ("unknown covariance", {"covariance": "round"}, GOOD, None, "covariance='round' is not known"),
    ("unknown family", {"family": "normal"}, GOOD, None, "family='normal' is not known"),
    ("unknown engine", {"engine": "magic"}, GOOD, None, "engine='magic' is not known"),
    ("unknown estimate", {"estimate": "median"}, GOOD, None, "estimate='median' is not known"),
    ("unknown start", {"init": "k-means"}, GOOD, None, "init='k-means' is not known"),
    ("negative counts", {"family": "poisson"}, -np.ones((5, 2)), None, "needs counts .* got -1"),
    (
        "negative counts that add",
        {"family": "additive-poisson"},
        -np.ones((5, 2)),
        None,
        "'additive-poisson' needs cou",
    ),
    ("broken counts that add", {"family": "additive-poisson"}, np.abs(GOOD), None, "needs counts"),
    ("broken counts", {"family": "poisson"}, np.abs(GOOD), None, "needs counts"),
    ("not binary", {"family": "bernoulli"}, np.arange(10.0).reshape(5, 2), None, "zeros and ones .* got 2"),
    ("zero intensity", {"family": "gamma"}, np.arange(10.0).reshape(5, 2), None, "positive features .* got 0"),
    ("two columns of symbols", {"family": "categorical"}, np.ones((5, 2)), None, "needs one column"),
    ("negative symbol", {"family": "categorical"}, np.arange(-1.0, 9.0)[:, None], None, "got -1"),
    ("alpha 0", {"alpha": 0.0}, GOOD, None, "alpha must be positive"),
    ("alpha negative", {"alpha": [1, -1, 1]}, GOOD, None, "alpha must be positive, but its smallest value is -1"),
    ("alpha NaN", {"alpha": np.nan}, GOOD, None, "alpha contains NaN"),
    ("alpha too long", {"alpha": [1, 1]}, GOOD, None, r"alpha has shape \(2,\)"),
    ("alpha text", {"alpha": "one"}, GOOD, None, "alpha='one': give a number or shape"),
    ("rate 0", {"scale_rate": 0.0}, GOOD, None, "scale_rate must be positive"),
    ("rate negative", {"scale_rate": -1.0}, GOOD, None, "scale_rate must be positive"),
    ("rate NaN", {"scale_rate": np.nan}, GOOD, None, "scale_rate contains NaN"),
    ("rates", {"scale_rate": [1.0, 2.0]}, GOOD, None, "scale_rate has shape"),
    ("no sweeps", {"n_sweeps": 0}, GOOD, None, "n_sweeps=0"),
    ("all warm-up", {"n_sweeps": 5, "burn_in": 5}, GOOD, None, "burn_in=5 leaves none"),
    ("thin 0", {"thin": 0}, GOOD, None, "thin=0"),
    ("two threads", {"n_jobs": "two"}, GOOD, None, "n_jobs='two'"),
    ("huge", {}, GOOD * 1e200, None, "largest absolute value of X"),
    ("tiny", {}, GOOD * 1e-200, None, "largest absolute value of X"),
    ("alpha None", {"alpha": None}, GOOD, None, "alpha=None"),
    ("family list", {"family": ["gaussian"]}, GOOD, None, "is not known"),
    ("fixed keys", {"fixed": {1: 2, "foo": 3}}, GOOD, None, "foo"),
    (
        "asymmetric",
        {"covariance": "full", "fixed": {"covariance": np.eye(3) + 0.9 * np.eye(3, k=1)}},
        GOOD,
        None,
        "symm",
    ),
    ("one number as topics", {"fixed": {"topics": 1.0}}, GOOD, None, "has shape"),
    ("huge symbol", {"family": "categorical"}, np.array([[1e9], [1.0], [2.0]]), None, "up to 9999"),
    ("no threads", {"n_jobs": 0}, GOOD, None, "n_jobs=0"),
    ("fixed list", {"fixed": [1]}, GOOD, None, "fixed accepts a dict"),
    ("fixed unknown", {"fixed": {"sigma": 1}}, GOOD, None, "sigma"),
    (
        "fixed topics, shape",
        {"fixed": {"topics": np.zeros((2, 3))}},
        GOOD,
        None,
        r"shape \(2, 3\), expected .*\(3, 3\)",
    ),
    ("fixed topics, NaN", {"fixed": {"topics": np.full((3, 3), np.nan)}}, GOOD, None, "contains NaN"),
    ("fixed scales, shape", {"fixed": {"scales": [1.0, 2.0]}}, GOOD, None, "fixed\\['scales'\\] has shape"),
    ("fixed scales, sign", {"fixed": {"scales": -1.0}}, GOOD, None, "must be positive"),
    ("fixed proportions, sum", {"fixed": {"proportions": [0.5, 0.5, 0.5]}}, GOOD, None, "must sum to 1"),
    ("fixed proportions, shape", {"fixed": {"proportions": [0.5, 0.5]}}, GOOD, None, "has shape"),
    ("fixed variance", {"fixed": {"covariance": 0.0}}, GOOD, None, "must be positive"),
    ("fixed matrix", {"covariance": "full", "fixed": {"covariance": -np.eye(3)}}, GOOD, None, "positive definite"),
    ("start of wrong shape", {"init": np.zeros((3, 2))}, GOOD, None, "init has shape"),
]


@pytest.mark.parametrize(
    ("settings", "X", "groups", "message"), [row[1:] for row in BAD_INPUT], ids=[r[0] for r in BAD_INPUT]
)
def test_bad_input_gets_one_clear_error(settings, X, groups, message):
    model = PMLDA(**({"engine": "paper", "n_sweeps": 4} | settings))
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, groups=groups)
    assert not hasattr(model, "memberships_")


def test_fixed_values_outside_a_familys_domain():
    X = np.random.default_rng(0).poisson(3.0, size=(30, 2))
    with pytest.raises(ValueError, match="does not allow"):
        PMLDA(2, family="poisson", fixed={"topics": [[-1.0, 1.0], [2.0, 1.0]]}).fit(X)
    with pytest.raises(ValueError, match="has none"):
        PMLDA(2, family="poisson", fixed={"covariance": 1.0}).fit(X)
    with pytest.raises(ValueError, match="must be positive"):
        Gamma(shape=0.0)


@pytest.mark.parametrize("family", ["gaussian", "gamma", "categorical"])
def test_sparse_matrices_are_refused(family):
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        PMLDA(family=family).fit(sparse.csr_matrix(GOOD))


@pytest.mark.parametrize("family", ["poisson", "additive-poisson", "bernoulli"])
def test_sparse_matrices_of_other_numbers_are_refused(family):
    for bad, message in ((-GOOD, "needs"), (np.full((6, 2), np.nan), "NaN"), (np.full((6, 2), 1e300), "1e[+]300")):
        with pytest.raises(ValueError, match=message):
            PMLDA(2, family=family).fit(sparse.csr_matrix(bad))
    with pytest.raises(ValueError, match="distinct row"):
        PMLDA(2, family=family).fit(sparse.csr_matrix((6, 2)))


def test_use_before_fit_and_with_other_columns(tmp_path):
    fitted = PMLDA(2, engine="paper", n_sweeps=4, random_state=0).fit(GOOD)
    for use in (PMLDA().transform, PMLDA().predict, PMLDA().predict_proba, PMLDA().score):
        with pytest.raises(sklearn.exceptions.NotFittedError):
            use(GOOD)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        PMLDA().save(tmp_path / "m")
    with pytest.raises(ValueError, match="X has 2 features, but PMLDA is expecting 3"):
        fitted.transform(GOOD[:, :2])
    with pytest.raises(ValueError, match="n_samples=0"):
        fitted.sample(0)


def test_a_failed_fit_leaves_the_earlier_one():
    model = PMLDA(2, engine="paper", n_sweeps=4, random_state=0).fit(GOOD)
    before = model.memberships_
    with pytest.raises(ValueError, match="burn_in"):
        model.set_params(burn_in=9).fit(GOOD + 1)
    assert model.memberships_ is before


LONG_FIT = """
import os, signal, sys
import numpy as np
from pmlda import PMLDA
from pmlda.engines import paper
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with Ctrl-C ignored
X = np.random.default_rng(0).normal(size=(3000, 3))
PMLDA(3, engine="paper", n_sweeps=2).fit(X)
model = PMLDA(3, engine="paper", n_sweeps=10**7, burn_in=int(sys.argv[1]), thin=1000, draws_memory=0)
sweeps, right = [], paper.TopicStep.move
def pressing(*arguments):
    sweeps.append(1)
    if len(sweeps) == 200:
        os.kill(os.getpid(), signal.SIGINT)
    return right(*arguments)
paper.TopicStep.move = pressing
try:
    model.fit(X)
except KeyboardInterrupt as stop:
    print("stopped:", stop, hasattr(model, "memberships_"))
else:
    print("kept:", model.n_iter_, np.isfinite(model.memberships_).all())
print("handler restored:", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@pytest.mark.parametrize(
    ("burn_in", "expected"), [("0", "kept: 200 True"), ("9999999", "there is no result yet. False")]
)
def test_ctrl_c_in_the_middle_of_a_long_fit(burn_in, expected):
    done = subprocess.run(
        [sys.executable, "-c", LONG_FIT, burn_in], capture_output=True, text=True, timeout=120, env=os.environ
    )
    assert expected in done.stdout, done.stderr
    assert ("was interrupted after" in done.stderr) == (burn_in == "0")
    assert "handler restored: True" in done.stdout
    assert done.returncode == 0
