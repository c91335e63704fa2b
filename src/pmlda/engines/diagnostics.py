"""Draws of several chains → convergence diagnostics: R-hat, effective sample size (ESS), Monte Carlo error, a verdict.

R-hat and ESS are those of Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), as in Stan and ArviZ: chains are
split in halves, and draws replaced by normal scores of their ranks, so that heavy tails do no harm. Arrays are
(C chains, S draws, …), results (…). All scalars of a block are treated at once, and blocks keep memory small. Single
precision stays single precision inside, and results are double.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from pmlda.errors import MissingLibraryError
from pmlda.parallel.threads import Workers
from pmlda.types import FloatArray, IntArray, Verdict
from pmlda.validate import require

if TYPE_CHECKING:
    from xarray import DataTree

# Split chains need two draws in each half for a variance.
MIN_DRAWS = 4
# Chains agree up to the first R-hat, the limit of Vehtari et al., and have not mixed above the second: means of half
# chains then differ by 0.14 and 0.32 standard deviations of the draws. In between they nearly agree.
MAX_RHAT, NOT_MIXED_RHAT = 1.01, 1.05
# Likewise from the first effective sample size on, and below the second: posterior means are then known to a tenth and
# to a seventh of their standard deviation.
MIN_ESS, NOT_MIXED_ESS = 100, 50
# There are thousands of proportions, scales and memberships, of which the worst always looks bad: they are judged by
# these quantiles.
RHAT_QUANTILE, ESS_QUANTILE = 0.99, 0.01
# Few draws of these may be kept, and then no more is asked than independent draws would reach. By simulation, of N
# independent draws in 1 to 4 chains one R-hat in a hundred is above √(1 + 16/N), and one ESS in a hundred below N/5 or
# so. Some room is left beyond both.
RHAT_NOISE, ESS_DIVISOR = 25.0, 6
# Extensions are advised in steps of so many draws, and up to the second number, after which it is time to look again.
EXTENSION_STEP, MAX_EXTENSION = 100, 20_000
# Chains that would need so many times the draws they have, and more than the second number, will not mix.
HOPELESS_TIMES, HOPELESS_DRAWS = 20, 5_000
# Answers are alike if their memberships differ by less than the first, root mean squared; two random permutations of
# crisp memberships of three topics differ by 0.67. The verdict says so if this share of refits found another answer.
ALIKE, AMBIGUOUS_SHARE = 0.15, 1 / 3
# Numbers that one thread treats at a time; what it needs meanwhile is about 100 bytes for each.
BLOCK_VALUES = 2**18

NAMES = {
    "means": "Topic means",
    "spread": "Topic spreads",
    "proportions": "Proportions",
    "scales": "Scales",
    "memberships": "Memberships",
}
# One for every document or word.
MANY = ("proportions", "scales", "memberships")
DIMS = {
    "means": ("topic", "feature"),
    "proportions": ("document", "topic"),
    "scales": ("document",),
    "memberships": ("word", "topic"),
}

# (m, chains, draws) of m scalars, in single or double precision.
Block = NDArray[np.floating]


class Remedy(NamedTuple):
    """What can be done about chains that have not mixed, in the words of where a user came from.

    more : how to get more draws, with {draws} for how many each chain lacks, and {sweeps} for the length of a new run
        of which half is warm-up
    instead : what to do where that would not help
    either : whether that is worth saying where more draws would help, too
    """

    more: str
    instead: str
    either: bool = False

    def text(self, draws: int, n_draws: int) -> str:
        """more, for chains with n_draws draws that lack so many."""
        return self.more.format(draws=draws, sweeps=2 * (n_draws + draws))


EXTEND = Remedy(
    "extend by {draws} draws with fit(..., extend={draws})",
    "give fewer topics, or use engine='variational', whose refits cover several optima",
)
"""For rows: PMLDA.fit."""


class Diagnosis(NamedTuple):
    """How well chains mixed, in tables by quantity, each in the shape of that quantity.

    rhat : near 1 where chains agree
    ess : effective sample size, how many independent draws the draws are worth
    error : Monte Carlo standard error of the posterior mean
    verdict : all of it in a word and a sentence
    """

    rhat: dict[str, FloatArray]
    ess: dict[str, FloatArray]
    error: dict[str, FloatArray]
    verdict: Verdict


def split_rhat(draws: ArrayLike, n_jobs: int | None = None) -> FloatArray:
    """R-hat of half chains: the larger of that of place (ranks) and that of width (ranks of distances from the median).

    Constants have 1, and chains that stand still in different places a huge one or infinity.

    >>> same = np.random.default_rng(0).normal(size=(4, 100))
    >>> bool(split_rhat(same) < 1.05), bool(split_rhat(same + [[0], [0], [3], [3]]) > 1.5)
    (True, True)
    """
    return _by_blocks(draws, lambda block: [_rhats(halves := _halves(block), _scores(halves))], n_jobs)[0]


def effective_sample_size(draws: ArrayLike, n_jobs: int | None = None) -> FloatArray:
    """Bulk ESS: how many independent draws the draws of all chains are worth.

    Constants have as many as there are draws, since nothing about them is uncertain.

    >>> steps = np.random.default_rng(0).normal(size=(2, 1000))
    >>> bool(effective_sample_size(steps) > 1000), bool(effective_sample_size(np.cumsum(steps, axis=1)) < 50)
    (True, True)
    """
    return _by_blocks(draws, lambda block: [_sizes(_scores(_halves(block)).values, _count(block))], n_jobs)[0]


def monte_carlo_error(draws: ArrayLike, n_jobs: int | None = None) -> FloatArray:
    """Standard error of the mean of all draws: their standard deviation over √ESS, the ESS of the values themselves.

    >>> round(float(monte_carlo_error(np.random.default_rng(0).normal(size=(2, 5000)))), 2)
    0.01
    """
    return _by_blocks(draws, lambda block: [_errors(block)], n_jobs)[0]


def diagnose(draws: Mapping[str, ArrayLike], n_jobs: int | None = None, remedy: Remedy = EXTEND) -> Diagnosis:
    """All diagnostics of every quantity by name, topics in the same order in every chain.

    Quantities may have fewer draws than others; those with fewer than 4 of each chain are left out if others have more.

    >>> rng = np.random.default_rng(0)
    >>> diagnosis = diagnose({"means": rng.normal(size=(2, 500, 3, 2)), "scales": rng.normal(size=(2, 500, 40))})
    >>> diagnosis.rhat["means"].shape, diagnosis.verdict.state
    ((3, 2), 'converged')
    """
    arrays = {name: np.asarray(values) for name, values in draws.items()}
    judged = [name for name, array in arrays.items() if array.ndim > 1 and array.shape[1] >= MIN_DRAWS]
    shapes = {name: array.shape for name, array in arrays.items()}
    require(bool(judged), f"Draws of shapes {shapes}: expected (chains, 4 or more draws, …). Keep more draws.")
    tables = {name: _by_blocks(arrays[name], _all, n_jobs, f"Draws of {name}") for name in judged}
    rhat, ess, error = ({name: table[i] for name, table in tables.items()} for i in range(3))
    kept = {name: arrays[name].shape[0] * arrays[name].shape[1] for name in judged}
    n_draws = max(arrays[name].shape[1] for name in judged)
    return Diagnosis(rhat, ess, error, verdict(rhat, ess, n_draws, kept, remedy))


def verdict(
    rhat: Mapping[str, ArrayLike],
    ess: Mapping[str, ArrayLike],
    n_draws: int,
    kept: Mapping[str, int] | None = None,
    remedy: Remedy = EXTEND,
) -> Verdict:
    """Whether chains agree, and if not, by how many draws to extend them, or that no number of draws will do.

    Topics are judged by their largest R-hat and smallest effective sample size (ESS). Proportions, scales and
    memberships are so many that some R-hat is always large: they are judged by the 99th percentile of R-hat and the 1st
    of ESS. Of quantities that have not mixed, the first in the order of the model is named: topics carry the rest.

    n_draws : draws of each chain; as many again double the ESS, and the advice is to reach an ESS of 100
    kept : how many draws of all chains a quantity has. Of proportions, scales and memberships no more is asked than
        independent draws would reach; with fewer than 300, as where memory is short, their numbers are not quoted

    >>> found = verdict({"means": [1.0, 1.213]}, {"means": [400.0, 50.0]}, n_draws=200)
    >>> found.state, found.sentence
    ('not_converged', 'Topic means have not mixed: R-hat 1.213, effective sample size (ESS) 50.')
    >>> found.advice
    'Extend by 200 draws with fit(..., extend=200).'
    """
    kept = kept or {}
    judged = [
        _judge(name, np.asarray(rhat[name]), np.asarray(ess[name]), kept.get(name, np.inf))
        for name in sorted(rhat, key=lambda name: list(NAMES).index(name) if name in NAMES else len(NAMES))
        if np.size(rhat[name])
    ]
    require(bool(judged), "There is nothing to judge: every table of R-hat is empty. Give draws of the topics.")
    for one in judged:
        if one.is_bad:
            numbers = f"R-hat {one.rhat:.3f}, effective sample size (ESS) {one.ess:.0f}"
            return Verdict("not_converged", f"{one.name} have not mixed: {numbers}.", _advice(one, n_draws, remedy))
    quoted = [one for one in judged if not one.is_short] or judged
    largest, smallest = max(one.rhat for one in quoted), min(one.ess for one in quoted)
    numbers = f"largest R-hat {largest:.3f}, smallest effective sample size (ESS) {smallest:.0f}"
    if all(one.is_good for one in judged):
        return Verdict("converged", f"All chains agree: {numbers}.")
    n = _extension(min(one.ess for one in judged if not one.is_good), n_draws)
    advice = f"To be sure, {remedy.text(n, n_draws)}."
    return Verdict("nearly", f"All chains nearly agree: {numbers}.", advice)


def _advice(one: "_Judged", n_draws: int, remedy: Remedy) -> str:
    """What to do about chains that have not mixed."""
    needed = n_draws * MIN_ESS / one.ess
    if one.rhat > NOT_MIXED_RHAT and needed > max(HOPELESS_TIMES * n_draws, HOPELESS_DRAWS):
        times = needed / n_draws
        return (
            f"They will not mix: that would take about {times:.0f} times as many draws. {as_sentence(remedy.instead)}"
        )
    more = remedy.text(_extension(one.ess, n_draws), n_draws)
    return as_sentence(f"{more}, or {remedy.instead}" if remedy.either else more)


def as_sentence(words: str) -> str:
    """With a capital and a full stop."""
    return f"{words[0].upper()}{words[1:]}."


def judge_refits(verdict: Verdict, distances: FloatArray) -> Verdict:
    """The verdict on an optimiser, unless its refits found another answer so often that one is as good as the other.

    distances : (1 + B, 1 + B) between the fit and its refits
    """
    groups = group_answers(distances)
    n_refits, n_others = len(distances) - 1, sum(len(group) for group in groups[1:])
    if verdict.state != "converged" or n_others < AMBIGUOUS_SHARE * n_refits:
        return verdict
    apart = float(np.median(distances[0, np.concatenate(groups[1:])]))
    return Verdict(
        "ambiguous",
        f"{verdict.sentence} But {n_others} of {n_refits} refits on resampled documents found other topics, whose "
        f"memberships differ by {apart:.2f}: the data support several answers.",
        "Look at the alternatives, give fewer topics, or choose other features.",
    )


def group_answers(distances: FloatArray) -> list[IntArray]:
    """Answers that are alike, largest group first but for that of what was found, which comes first of all.

    distances : as in Spread; answers are alike if they differ by less than ALIKE

    >>> group_answers(np.array([[0.0, 0.1, 0.4], [0.1, 0.0, 0.4], [0.4, 0.4, 0.0]]))
    [array([0, 1]), array([2])]
    """
    alike, left, groups = distances < ALIKE, np.ones(len(distances), bool), []
    while left.any():
        middle = 0 if left[0] else int(np.argmax((alike & left).sum(axis=1) * left))
        groups.append(np.flatnonzero(alike[middle] & left))
        left[groups[-1]] = False
    return groups


def too_short(n_sweeps: int) -> Verdict:
    """The verdict on chains with fewer than MIN_DRAWS draws each."""
    return Verdict("too_short", f"{n_sweeps} sweeps are too few to tell whether the chains have mixed.")


def optimiser_verdict(
    n_sweeps: int,
    *,
    converged: bool,
    limit: str,
    settled: str = "The fit converged",
    moving: str = "The bound was still rising",
) -> Verdict:
    """The verdict on an optimiser, which stops when nothing changes any more or when it has made all of its sweeps.

    limit : the parameter that limits sweeps
    settled, moving : what can be said of either end

    >>> optimiser_verdict(12, converged=True, limit="n_sweeps").sentence
    'The fit converged after 12 sweeps.'
    """
    if converged:
        return Verdict("converged", f"{settled} after {n_sweeps} sweeps.")
    advice = f"Give a larger {limit}, or a larger tol."
    return Verdict("not_converged", f"{moving} after {n_sweeps} sweeps.", advice)


def to_datatree(
    draws: Mapping[str, ArrayLike],
    coords: Mapping[str, ArrayLike] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
) -> "DataTree":
    """Draws as an xarray DataTree for ArviZ, in the group "posterior".

    Quantities with another number of draws than the first are in the group "thinned"; empty ones are left out.

    coords : labels along a dimension, such as {"feature": ["red", "green", "blue"]}
    dims : names of the dimensions after chain and draw, where they differ from those of DIMS and those of the spread,
        which follow from its shape; a square matrix is taken for one covariance matrix
    """
    try:
        from arviz_base import from_dict
    except ImportError as error:
        raise MissingLibraryError('Draws for ArviZ need arviz-base: pip install "pmlda[diagnostics]"') from error
    arrays = {name: array for name, values in draws.items() if (array := np.asarray(values)).size}
    require(bool(arrays), "There are no draws to put in a tree. Keep at least one.")
    named: dict[str, Sequence[str]] = {**DIMS, **_spread_dims(arrays), **(dims or {})}
    n_draws = next(iter(arrays.values())).shape[1]
    groups: dict[str, dict[str, NDArray[Any]]] = {"posterior": {}, "thinned": {}}
    for name, array in arrays.items():
        groups["posterior" if array.shape[1] == n_draws else "thinned"][name] = array
    counts = sorted({array.shape[1] for array in groups["thinned"].values()})
    require(len(counts) < 2, f"Numbers of draws are {n_draws} and {counts}: give quantities of at most two of them.")
    filled = {group: members for group, members in groups.items() if members}
    labels = {"other_feature": coords["feature"], **coords} if coords and "feature" in coords else coords
    return from_dict(filled, coords=labels, dims={name: list(named[name]) for name in arrays if name in named})


def _spread_dims(arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[str, ...]]:
    """Dimensions of the spread: one for all, per feature, per topic and feature, or matrices of features."""
    if "spread" not in arrays:
        return {}
    shape = arrays["spread"].shape[2:]
    matrix = ("feature", "other_feature")
    if len(shape) == 2 and shape[0] != shape[1]:
        return {"spread": ("topic", "feature")}
    return {"spread": [(), ("feature",), matrix, ("topic", *matrix)][len(shape)]}


class _Judged(NamedTuple):
    """What stands for a quantity in the verdict. Short is one of which even independent draws would look bad."""

    name: str
    rhat: float
    ess: float
    is_good: bool
    is_bad: bool
    is_short: bool


def _judge(name: str, rhat: NDArray[Any], ess: NDArray[Any], n_kept: float) -> _Judged:
    """The worst of a few or the quantiles of many, and whether they will do."""
    label = NAMES.get(name, f"Draws of {name}")
    if name not in MANY:
        largest, smallest, rhat_noise, most = float(rhat.max()), float(ess.min()), 1.0, np.inf
    else:
        # No interpolation, because R-hat may be infinite.
        largest = float(np.quantile(rhat, RHAT_QUANTILE, method="higher"))
        smallest = float(np.quantile(ess, ESS_QUANTILE, method="lower"))
        rhat_noise, most = (1.0 + RHAT_NOISE / n_kept) ** 0.5, n_kept / ESS_DIVISOR
    is_good = largest <= max(MAX_RHAT, rhat_noise) and smallest >= min(MIN_ESS, most)
    is_bad = largest > max(NOT_MIXED_RHAT, rhat_noise) or smallest < min(NOT_MIXED_ESS, most)
    return _Judged(label, largest, smallest, is_good, is_bad, most < NOT_MIXED_ESS)


def _extension(ess: float, n_draws: int) -> int:
    """Draws of each chain that are missing to MIN_ESS; where that is reached already, as many again."""
    missing = n_draws * (MIN_ESS / ess - 1.0) if ess < MIN_ESS else float(n_draws)
    steps = int(np.ceil(min(missing, MAX_EXTENSION) / EXTENSION_STEP))
    return EXTENSION_STEP * max(1, steps)


def _by_blocks(
    draws: ArrayLike, measure: Callable[[Block], list[FloatArray]], n_jobs: int | None, name: str = "Draws"
) -> list[FloatArray]:
    """measure(block) for blocks of scalars, each measure then in the shape of one draw."""
    array = np.asarray(draws)
    array = array if array.dtype == np.float32 else array.astype(np.float64, copy=False)
    is_long = array.ndim > 1 and array.shape[0] > 0 and array.shape[1] >= MIN_DRAWS
    require(is_long, f"{name} of shape {array.shape}: expected (chains, 4 or more draws, …). Keep more draws.")
    n_chains, n_draws, *shape = array.shape
    scalars = array.reshape(n_chains, n_draws, int(np.prod(shape)))
    size = max(1, BLOCK_VALUES // (n_chains * n_draws))

    def of_block(first: int) -> list[FloatArray]:
        block = np.ascontiguousarray(scalars[:, :, first : first + size].transpose(2, 0, 1))
        require(bool(np.isfinite(block).all()), f"{name} contain NaN or infinity. Give finite draws.")
        return measure(block)

    with Workers(n_jobs) as workers:
        parts = workers.map(of_block, range(0, max(1, scalars.shape[2]), size))
    return [np.concatenate(part).reshape(shape) for part in zip(*parts, strict=True)]


def _all(block: Block) -> list[FloatArray]:
    """R-hat, effective sample size and error of each scalar, from the same ranks."""
    halves = _halves(block)
    scores = _scores(halves)
    return [_rhats(halves, scores), _sizes(scores.values, _count(block)), _errors(block)]


def _count(block: Block) -> int:
    """Draws of each scalar, all chains together."""
    return int(block.shape[1] * block.shape[2])


def _halves(block: Block) -> Block:
    """(m, 2C, S // 2) first and second halves of chains, without the draw in the middle if S is odd."""
    half = block.shape[2] // 2
    return np.concatenate([block[:, :, :half], block[:, :, -half:]], axis=1)


class _Scores(NamedTuple):
    """values : (m, C, S) normal scores; median : (m, 1, 1) of what was scored."""

    values: Block
    median: Block


def _scores(block: Block) -> _Scores:
    """Normal quantiles of the ranks among all draws of a scalar, equal draws having their mean rank."""
    m, n = len(block), _count(block)
    flat = block.reshape(m, n)
    order = np.argsort(flat, axis=1)
    order += n * np.arange(m)[:, None]
    ordered = flat.take(order)
    # Equal draws stand next to each other in runs, whose mean rank is that of their middle.
    is_new = np.ones((m, n), np.bool_)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=is_new[:, 1:])
    starts = np.flatnonzero(is_new)
    lengths = np.diff(starts, append=m * n)
    quantiles = ndtri((0.5 * np.arange(2 * n - 1) + 0.625) / (n + 0.25)).astype(block.dtype)
    values = np.empty(m * n, block.dtype)
    values[order.ravel()] = np.repeat(quantiles.take(2 * (starts % n) + lengths - 1), lengths)
    median = 0.5 * (ordered[:, (n - 1) // 2] + ordered[:, n // 2])
    return _Scores(values.reshape(block.shape), median[:, None, None].astype(block.dtype))


def _rhats(halves: Block, scores: _Scores) -> FloatArray:
    """R-hat of the scores or of the scores of distances from the median, whichever is larger."""
    return np.maximum(_rhat(scores.values), _rhat(_scores(np.abs(halves - scores.median)).values))


def _rhat(block: Block) -> FloatArray:
    """R-hat as it was first defined."""
    n = block.shape[2]
    within = block.var(axis=2, ddof=1).mean(axis=1, dtype=np.float64)
    between = block.mean(axis=2).var(axis=1, ddof=1, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        rhat = np.sqrt((n - 1) / n + between / within)
    return np.where(within + between > 0, rhat, 1.0)


def _sizes(block: Block, n_all: int) -> FloatArray:
    """ESS of the draws as they are, from autocorrelations up to where pairs of them cease to be positive.

    Pairs are made to decrease (Geyer's initial monotone sequence), and of the pair that ends it the even one is used.
    """
    _, n_chains, n = block.shape
    means = block.mean(axis=2, keepdims=True)
    autocovariance = _autocovariance(block - means)
    within = autocovariance[:, :1] * (n / (n - 1))
    total = autocovariance[:, :1] + means[:, :, 0].var(axis=1, ddof=1, keepdims=True, dtype=np.float64)
    rho = 1.0 - (within - autocovariance) / np.where(total > 0, total, 1.0)
    rho[:, 0] = 1.0
    pairs = rho[:, 0 : n - 1 : 2] + rho[:, 1:n:2]
    most = max(0, (n - 3) // 2)
    goes_on = np.logical_and.accumulate(pairs[:, :most] > 0, axis=1)
    used = (np.minimum.accumulate(pairs[:, :most], axis=1) * goes_on).sum(axis=1)
    end = goes_on.sum(axis=1, keepdims=True)
    even, pair = np.take_along_axis(rho, 2 * end, axis=1)[:, 0], np.take_along_axis(pairs, end, axis=1)[:, 0]
    time = 2.0 * used - 1.0 + np.where(pair >= 0, even, np.maximum(even, 0.0))
    # Antithetic chains are worth more than independent draws, but an estimate far above that is noise.
    n_split = n_chains * n
    sizes = n_split / np.maximum(time, 1.0 / np.log10(n_split))
    return np.where(total[:, 0] > 0, sizes, float(n_all))


def _autocovariance(centred: Block) -> FloatArray:
    """(m, S) autocovariances at every lag, mean of the chains."""
    from scipy.fft import irfft, next_fast_len, rfft

    n = centred.shape[2]
    length = next_fast_len(2 * n, real=True)
    spectrum = rfft(centred, length, axis=2)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)
    autocovariance: FloatArray = irfft(power, length, axis=1)[:, :n].astype(np.float64) / n
    return autocovariance


def _errors(block: Block) -> FloatArray:
    """Standard error of the mean of all draws."""
    # Memberships may be so small that their squares are zero, so differences from the first draw are brought to 1.
    change = block - block[:, :1, :1]
    scale = np.abs(change).max(axis=(1, 2), keepdims=True)
    change /= np.where(scale > 0, scale, 1.0)
    sizes = _sizes(_halves(change), _count(block))
    deviation = change.reshape(len(block), _count(block)).std(axis=1, ddof=1)
    errors: FloatArray = scale[:, 0, 0].astype(np.float64) * deviation / np.sqrt(sizes)
    return errors
