"""A(Σ_k z_k η_k), for a block of words: the one place where kernels know families. A new family adds one branch."""

import math

import numpy as np

from pmlda.kernels.jit import inner, kernel
from pmlda.types import FloatArray, IntArray

# Words that are treated together: enough to fill vector registers, few enough to stay in cache.
BLOCK_WORDS = 64


@inner
def log_partitions(
    code: int, table: FloatArray, constant: float, z: FloatArray, n_words: int, scratch: FloatArray, out: FloatArray
) -> None:
    """out[j] = A for the memberships z[:, j], from Family.code, .table and .constant. Twin: twins.log_partitions."""
    if code == 0:
        _quadratic(table, z, n_words, out)
    else:
        for j in range(n_words):
            out[j] = _by_family(code, table, constant, z, j, scratch)


@inner
def _quadratic(table: FloatArray, z: FloatArray, n_words: int, out: FloatArray) -> None:
    """Gaussian, shared covariance: ½ zᵀGz. Words are innermost so that the loops vectorise."""
    out[:n_words] = 0.0
    for i in range(len(table)):
        for k in range(i + 1):
            g = table[i, k] if k < i else 0.5 * table[i, i]
            for j in range(n_words):
                out[j] += g * z[i, j] * z[k, j]


@inner
def _by_family(code: int, table: FloatArray, constant: float, z: FloatArray, word: int, scratch: FloatArray) -> float:
    """Every other family, from the mixed natural parameters Σ_k z_k η_k."""
    n_topics, q = table.shape
    for j in range(q):
        mixed = 0.0
        for k in range(n_topics):
            mixed += z[k, word] * table[k, j]
        scratch[j] = mixed
    total = 0.0
    if code == 1:  # Poisson
        for j in range(q):
            total += math.exp(scratch[j])
    elif code == 2:  # Bernoulli: ln(1 + e^η), whichever sign η has
        for j in range(q):
            total += max(scratch[j], 0.0) + math.log1p(math.exp(-abs(scratch[j])))
    elif code == 3:  # gamma of known shape
        for j in range(q):
            total -= constant * math.log(-scratch[j])
    elif code == 4:  # categorical
        top = -np.inf
        for j in range(q):
            top = max(top, scratch[j])
        for j in range(q):
            total += math.exp(scratch[j] - top)
        total = top + math.log(total)
    elif code == 5:  # Gaussian, diagonal covariance per topic
        p = q // 2
        for j in range(p):
            total += 0.5 * (scratch[j] * scratch[j] / scratch[p + j] - math.log(scratch[p + j]))
    else:  # Gaussian, full covariance per topic
        total = _full_gaussian(scratch, q)
    return total


@inner
def _full_gaussian(eta: FloatArray, q: int) -> float:
    """½ bᵀΛ⁻¹b − ½ ln|Λ| by Cholesky, in place, for eta = (b, Λ row by row)."""
    p = int((math.sqrt(1.0 + 4.0 * q) - 1.0) / 2.0 + 0.5)
    total = 0.0
    for i in range(p):
        row_i = p + i * p
        for j in range(i + 1):
            row_j = p + j * p
            value = eta[row_i + j]
            for m in range(j):
                value -= eta[row_i + m] * eta[row_j + m]
            if i == j:
                eta[row_i + i] = math.sqrt(value)
                total -= 0.5 * math.log(value)
            else:
                eta[row_i + j] = value / eta[row_j + j]
        # Forward substitution: b ← L⁻¹b, so that bᵀΛ⁻¹b is its squared length.
        for m in range(i):
            eta[i] -= eta[row_i + m] * eta[m]
        eta[i] /= eta[row_i + i]
        total += 0.5 * eta[i] * eta[i]
    return total


@kernel
def sum_partition(
    code: int, table: FloatArray, constant: float, z: FloatArray, segments: IntArray, out: FloatArray
) -> None:
    """out[i] = Σ A over the words of segment i. Twin: twins.sum_partition."""
    scratch = np.empty(table.shape[1])
    block = np.empty((z.shape[1], BLOCK_WORDS))
    values = np.empty(BLOCK_WORDS)
    for i in range(len(segments)):
        total = 0.0
        for first in range(segments[i, 0], segments[i, 1], BLOCK_WORDS):
            n_words = min(BLOCK_WORDS, segments[i, 1] - first)
            load(z, first, n_words, block)
            log_partitions(code, table, constant, block, n_words, scratch, values)
            for j in range(n_words):
                total += values[j]
        out[i] = total


@inner
def load(rows: FloatArray, first: int, n_words: int, block: FloatArray) -> None:
    """block[k, j] = rows[first + j, k]."""
    for k in range(len(block)):
        for j in range(n_words):
            block[k, j] = rows[first + j, k]
