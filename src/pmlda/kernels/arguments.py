"""What kernels take besides plain arrays: NamedTuples of arrays and numbers. Engines build them; twins take them too.

Each of a NamedTuple's fields always has the type stated here, with arrays in C order: numba compiles a kernel again for
every new combination of types. Shapes use the letters of the glossary in docs/model.md (N words, K topics, D documents)
and S candidates for each word, M segments, B words of a block.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.types import FloatArray, IntArray, Labels


class Counts(NamedTuple):
    """The counts of words that are not zero, row by row, where A depends on them; elsewhere there are no rows.

    starts : (N + 1,) those of word n are entries starts[n] to starts[n + 1] − 1
    features : (entries,) 32-bit, the feature that was counted
    values : (entries,) its count
    """

    starts: IntArray
    features: NDArray[np.int32]
    values: FloatArray


QUADRATIC, ADDITIVE = 0, 7
"""Codes of families, Family.code: Gaussians with one covariance, and counts whose means add."""
NO_COUNTS = Counts(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0))


class LogPartition(NamedTuple):
    """The log-partition function A of a family at given topics, as kernels.log_partition evaluates it.

    code : Family.code, which branch to take
    table : (K, ·) Family.table, the numbers from which A(Σ_k z_k η_k) is evaluated
    constant : Family.constant, one more known number
    counts : of the words, in rows as scores are, where A depends on them
    quadratic, additive, other : which kind A is of, Gaussians with one covariance, counts whose means add, or any
        other: True, and the other two are None

    Where an argument is None, numba drops what is under "if it is not None" before it looks inside, so that a kernel
    takes the time to compile only what its kind needs. That holds for arguments alone: marks are passed on beside the
    LogPartition, and every kind has an "if" of its own.
    """

    code: int
    table: FloatArray
    constant: float
    counts: Counts
    quadratic: bool | None
    additive: bool | None
    other: bool | None

    @classmethod
    def of(cls, code: int, table: FloatArray, constant: float, counts: Counts = NO_COUNTS) -> "LogPartition":
        """With the mark that belongs to a family's code."""
        quadratic, additive = code == QUADRATIC, code == ADDITIVE
        other = not (quadratic or additive)
        return cls(code, table, constant, counts, quadratic or None, additive or None, other or None)


class DocumentPrior(NamedTuple):
    """Priors of a document's proportions and scale: π ~ Dir(alpha) and s ~ Exp(scale_rate).

    alpha : (K,)
    scale_rate : a number
    labels : of documents, which multiply the prior of π
    """

    alpha: FloatArray
    scale_rate: float
    labels: Labels


class LabelledPrior(NamedTuple):
    """The Dirichlet prior of one word's memberships, or of one document's proportions, with its label.

    concentration : (K,) of the prior, with the counts of the label
    any_of, strength : (K,) and a number, as in Labels
    """

    concentration: FloatArray
    any_of: FloatArray
    strength: float


class SweepKey(NamedTuple):
    """The part of a random number's address that is common to a sweep (kernels.streams)."""

    key: np.uint64
    sweep: np.uint64


class Places(NamedTuple):
    """Which words to visit, and where they are in their documents: part of the address of their random numbers.

    segments : (M, 4) first word, last word + 1, document and label of each segment
    starts : (D + 1,) document d is words starts[d] to starts[d + 1] − 1
    """

    segments: IntArray
    starts: IntArray


class DocumentRange(NamedTuple):
    """Documents first to last − 1.

    starts : (D + 1,) document d is words starts[d] to starts[d + 1] − 1
    """

    starts: IntArray
    first: int
    last: int


# ── engine "gibbs" ─────────────────────────────────────────────────────────────────────────────────────────────────
class GibbsLatents(NamedTuple):
    """Latents as engine "gibbs" moves them: with a = sπ in place of proportions and scales.

    memberships, log_memberships : (N, K) z and ln z
    a : (D, K)
    """

    memberships: FloatArray
    log_memberships: FloatArray
    a: FloatArray


class Ensemble(NamedTuple):
    """The candidate memberships of every word.

    candidates : (N, S, K) ln z
    shares : (N, K, S) z
    log_q : (N, S) ln q(z) of the distribution that candidates are drawn from, less ln p(label | z), up to a constant of
        each word
    fits : (N, S) z·ℓ − A(z)
    rest : (N, S) (a − 1)·ln z − log_q
    """

    candidates: FloatArray
    shares: FloatArray
    log_q: FloatArray
    fits: FloatArray
    rest: FloatArray


class Moves(NamedTuple):
    """Metropolis moves of every document.

    widths : (D, number of moves) step sizes
    accepted : the same shape, becomes the share of accepted proposals
    """

    widths: FloatArray
    accepted: FloatArray


# ── engine "variational" ───────────────────────────────────────────────────────────────────────────────────────────
class LocalSums(NamedTuple):
    """What a visit to the words of M segments leaves.

    means : (words of the segments, K) E[z]
    gram : (K, K) Σ E[zzᵀ]
    sum_log_z : (M, K) Σ E[ln z]
    bound : (M,) Σ of f(γ) + H(q) − Σ_k E[ln z_k]
    """

    means: FloatArray
    gram: FloatArray
    sum_log_z: FloatArray
    bound: FloatArray


# ── blocks of words, which kernels pass to the functions they call: words are innermost so that loops vectorise ─────
class WordBlock(NamedTuple):
    """Memberships z and ln z (K, B), and fits z·ℓ − A(z) (B,)."""

    z: FloatArray
    log_z: FloatArray
    fit: FloatArray


class GammaBlock(NamedTuple):
    """The gamma variables behind candidates, all (K, B): shapes, rates, Marsaglia and Tsang's d, and ln(d / rate)."""

    shapes: FloatArray
    rates: FloatArray
    d: FloatArray
    log_scales: FloatArray


class DirichletBlock(NamedTuple):
    """q(z) = Dir(γ): γ, m = E[z] and E[ln z] (K, B), and the words' bounds (B,)."""

    gamma: FloatArray
    m: FloatArray
    log_z: FloatArray
    bound: FloatArray


class Climb(NamedTuple):
    """Room for steps of γ: the next ones (K, B), how bold they are, and 1 where the last one raised the bound (B,)."""

    step: FloatArray
    new_step: FloatArray
    rate: FloatArray
    risen: FloatArray


class FitBlock(NamedTuple):
    """Expected fits f and ∂f/∂c (B,), ∂f/∂m and, where A is quadratic, Gm (K, B); where counts add, slopes along γ."""

    fit: FloatArray
    slope_c: FloatArray
    slope: FloatArray
    pull: FloatArray


class PartitionLine(NamedTuple):
    """Room for A along the lines to the corners, where it is not quadratic.

    point, face : (K, B) memberships on a line, and at its end where z_k = 0
    eta, mean : (q, B) η and ∇A; mean has no rows where no slopes are wanted
    value, gradient : A (B,) and its slopes along z (K, B)
    rest : (B,) 1 − m_k
    """

    point: FloatArray
    face: FloatArray
    eta: FloatArray
    mean: FloatArray
    value: FloatArray
    gradient: FloatArray
    rest: FloatArray


class LineRules(NamedTuple):
    """Places on a line and their weights, by kernels.lines.line_rule, and how they move with m_k and γ₀; all (4, B)."""

    place: FloatArray
    weight: FloatArray
    place_m: FloatArray
    place_n: FloatArray
    weight_m: FloatArray
    weight_n: FloatArray


class PointBlock(NamedTuple):
    """Room for A at points: η and ∇A (q, B), rows of ∇²A (·, B), A itself and one more row (B,)."""

    eta: FloatArray
    mean: FloatArray
    variance: FloatArray
    value: FloatArray
    product: FloatArray


class FaceBlock(NamedTuple):
    """All topics but one, as q has them.

    total : (B,) their sum of γ
    shares : (K, B) u, their means as parts of what the one leaves them
    pull : (K or 3, B) Gu where A is quadratic; otherwise see variational_moments._other_line
    corners : (K,) A of words that are all of one topic, where A is not quadratic
    """

    total: FloatArray
    shares: FloatArray
    pull: FloatArray
    corners: FloatArray


class LineBlock(NamedTuple):
    """The line of one z_k from 0 to 1, where fits are about slope·z − ½ bend·z² + constant.

    face : the other topics
    slope, bend : (B,)
    low, high : (B,) below z = low and above 1 − high the prior's poles are integrated in closed form
    start, step : (B,) of the nodes between, in ln z − ln(1 − z)
    z, log_weight : (NODES + 1, B) of the nodes, the last row being scratch; weights lack the step
    low_weight, high_weight : (B,) logarithms of what the poles hold
    label : (B,) what other topics that the label allows have of the rest, where it allows this one too
    label_rise, label_drop : (B,) how steeply the logarithm of its probability rises from z = 0, and drops from z = 1
    """

    face: FaceBlock
    slope: FloatArray
    bend: FloatArray
    low: FloatArray
    high: FloatArray
    start: FloatArray
    step: FloatArray
    z: FloatArray
    log_weight: FloatArray
    low_weight: FloatArray
    high_weight: FloatArray
    label: FloatArray
    label_rise: FloatArray
    label_drop: FloatArray


class MomentBlock(NamedTuple):
    """Means and variances of memberships (K, B)."""

    mean: FloatArray
    variance: FloatArray
