"""A(Σ_k z_k η_k), word by word: with kernels.partition_blocks, where kernels know families.

A new family adds one branch here, for samplers, and one there, for engine "variational", which needs slopes as well.
"""

import math

import numpy as np

from pmlda.kernels.additive import counted_logs
from pmlda.kernels.arguments import LogPartition
from pmlda.kernels.jit import inner, kernel
from pmlda.types import FloatArray, IntArray

# Words that are treated together: enough to fill vector registers, few enough to stay in cache.
BLOCK_WORDS = 64


@inner
def log_partitions(
    log_partition: LogPartition, z: FloatArray, n_words: int, row: int, each: int, eta: FloatArray, out: FloatArray
) -> None:
    """out[j] = A for the memberships z[:, j]. eta (q,) is scratch. Twin: tests.twins.paper.log_partitions.

    row, each : z[:, j] are memberships of the word in row row + each·j of log_partition.counts; each is 0 for several
        candidates of one word
    """
    _log_partitions(
        log_partition.quadratic, log_partition.additive, log_partition.other, log_partition, z, n_words, row, each, eta,
        out,
    )  # fmt: skip


@inner
def _log_partitions(
    quadratic: bool | None,
    additive: bool | None,
    other: bool | None,
    log_partition: LogPartition,
    z: FloatArray,
    n_words: int,
    row: int,
    each: int,
    eta: FloatArray,
    out: FloatArray,
) -> None:
    """The same, by kind of A."""
    if quadratic is not None:
        _quadratic(log_partition.table, z, n_words, out)
    if additive is not None:
        for j in range(n_words):
            out[j] = counted_logs(log_partition.counts, row + each * j, log_partition.table, z[:, j])
    if other is not None:
        for j in range(n_words):
            _mix(log_partition.table, z[:, j], eta)
            out[j] = _by_family(log_partition.code, log_partition.constant, eta)


@inner
def fit_block(
    log_partition: LogPartition,
    z: FloatArray,
    score: FloatArray,
    n_words: int,
    row: int,
    eta: FloatArray,
    fit: FloatArray,
) -> None:
    """fit[j] = z·ℓ − A(z) for the memberships z[:, j] and scores score[:, j] of the words from this row on.

    eta (q,) is scratch.
    """
    log_partitions(log_partition, z, n_words, row, 1, eta, fit)
    subtract_from_scores(z, score, n_words, fit)


@inner
def subtract_from_scores(z: FloatArray, score: FloatArray, n_words: int, fit: FloatArray) -> None:
    """fit[j] = z·ℓ − fit[j], where fit holds A(z)."""
    for j in range(n_words):
        fit[j] = -fit[j]
    for k in range(len(z)):
        for j in range(n_words):
            fit[j] += z[k, j] * score[k, j]


@inner
def _quadratic(table: FloatArray, z: FloatArray, n_words: int, out: FloatArray) -> None:
    """Gaussian, shared covariance: ½ zᵀGz. Words are innermost so that the loops vectorise."""
    for j in range(n_words):
        out[j] = 0.0
    for i in range(len(table)):
        for k in range(i + 1):
            g = table[i, k] if k < i else 0.5 * table[i, i]
            for j in range(n_words):
                out[j] += g * z[i, j] * z[k, j]


@inner
def _mix(table: FloatArray, z: FloatArray, eta: FloatArray) -> None:
    """eta = Σ_k z_k η_k."""
    n_topics, q = table.shape
    for j in range(q):
        mixed = 0.0
        for k in range(n_topics):
            mixed += z[k] * table[k, j]
        eta[j] = mixed


@inner
def _by_family(code: int, constant: float, eta: FloatArray) -> float:
    """A(η) of every other family. eta may be overwritten."""
    q = len(eta)
    total = 0.0
    if code == 1:  # Poisson
        for j in range(q):
            total += math.exp(eta[j])
    elif code == 2:  # Bernoulli: ln(1 + e^η), whichever sign η has
        for j in range(q):
            total += max(eta[j], 0.0) + math.log1p(math.exp(-abs(eta[j])))
    elif code == 3:  # gamma of known shape
        for j in range(q):
            total -= constant * math.log(-eta[j])
    elif code == 4:  # categorical
        top = -np.inf
        for j in range(q):
            top = max(top, eta[j])
        for j in range(q):
            total += math.exp(eta[j] - top)
        total = top + math.log(total)
    elif code == 5:  # Gaussian, diagonal covariance per topic
        p = q // 2
        for j in range(p):
            centre = eta[j] / eta[p + j]
            total += 0.5 * (eta[j] * centre - math.log(eta[p + j]))
    elif code == 6:  # Gaussian, full covariance per topic
        total = _full_gaussian(eta)
    else:
        total = np.nan
    return total


@inner
def _full_gaussian(eta: FloatArray) -> float:
    """½ bᵀΛ⁻¹b − ½ ln|Λ| by Cholesky, in place, for eta = (b, Λ row by row): Λ = UᵀU leaves U, and b becomes U⁻ᵀb.

    Loops over matrices have neighbours in memory innermost, none of which waits for another, so that they vectorise.
    """
    q = len(eta)
    p = int((math.sqrt(1.0 + 4.0 * q) - 1.0) / 2.0 + 0.5)
    b, upper = eta[:p], eta[p:].reshape(p, p)
    total = 0.0
    for m in range(p):
        total -= 0.5 * math.log(upper[m, m])
        root = math.sqrt(upper[m, m])
        for i in range(m, p):
            upper[m, i] /= root
        b[m] /= root
        total += 0.5 * b[m] * b[m]
        for i in range(m + 1, p):
            factor = upper[m, i]
            b[i] -= factor * b[m]
            for j in range(i, p):
                upper[i, j] -= factor * upper[m, j]
    return total


@inner
def log_partition_at(code: int, table: FloatArray, constant: float, z: FloatArray, eta: FloatArray) -> float:
    """A(Σ_k z_k η_k) for one z. eta (q,) is overwritten.

    Callers take their LogPartition apart once: doing so for every z costs four percent.
    """
    _mix(table, z, eta)
    return _by_family(code, constant, eta)


@kernel
def sum_partition(log_partition: LogPartition, z: FloatArray, segments: IntArray, out: FloatArray) -> None:
    """out[i] = Σ A over the words of segment i.

    z : (N, K), and log_partition.counts has rows for the same words; segments : (M, 3) as in Places; out : (M,)

    Twin: tests.twins.paper.sum_partition.
    """
    eta = np.empty(log_partition.table.shape[1])
    block = np.empty((z.shape[1], BLOCK_WORDS))
    values = np.empty(BLOCK_WORDS)
    for i in range(len(segments)):
        total = 0.0
        for first in range(segments[i, 0], segments[i, 1], BLOCK_WORDS):
            n_words = min(BLOCK_WORDS, segments[i, 1] - first)
            load(z, first, n_words, block)
            log_partitions(log_partition, block, n_words, first, 1, eta, values)
            for j in range(n_words):
                total += values[j]
        out[i] = total


@inner
def load(rows: FloatArray, first: int, n_words: int, block: FloatArray) -> None:
    """block[k, j] = rows[first + j, k]."""
    for k in range(len(block)):
        for j in range(n_words):
            block[k, j] = rows[first + j, k]


@inner
def store(block: FloatArray, n_words: int, first: int, rows: FloatArray) -> None:
    """rows[first + j, k] = block[k, j]."""
    for k in range(len(block)):
        for j in range(n_words):
            rows[first + j, k] = block[k, j]
