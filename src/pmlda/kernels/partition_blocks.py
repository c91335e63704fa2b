"""A(η), ∇A and ∇²A for a block of words at once, for families whose A is not quadratic. Words are innermost.

The formulas are those of kernels.log_partition, which evaluates one word at a time; here loops vectorise, with the
exponentials and logarithms of kernels.special.
"""

import math

import numpy as np

from pmlda.kernels.arguments import LogPartition
from pmlda.kernels.jit import inlined, inner
from pmlda.kernels.special import LN_2, exp, log, split
from pmlda.types import FloatArray

# exp of more than this overflows.
LARGEST_EXPONENT = 709.0
# Products of so many numbers up to 2 do not overflow.
LARGEST_POWER = 1000
# Numbers of a block that stay in the fastest cache together with what they are made from.
BLOCK_NUMBERS = 2048
LEAST_WORDS, MOST_WORDS = 16, 128
# Numbers in the widest vector register.
LANES = 8


@inlined
def count_words(q: int) -> int:
    """How many words to treat together, where η has q entries: a block of them stays in cache and fills registers."""
    return min(max(BLOCK_NUMBERS // q // LANES * LANES, LEAST_WORDS), MOST_WORDS)


@inner
def fill_registers(rows: FloatArray, n_words: int) -> int:
    """How many words fill whole registers; rows (·, B) of those after n_words become those of the first word.

    Words that are left over are treated one by one, each of which takes as long as a register full of them.
    """
    n_filled = min((n_words + LANES - 1) // LANES * LANES, rows.shape[1])
    for row in rows:
        for j in range(n_words, n_filled):
            row[j] = row[0]
    return int(n_filled)


@inner
def mix_block(table: FloatArray, z: FloatArray, n_words: int, eta: FloatArray) -> None:
    """eta[:, j] = Σ_k z[k, j] η_k. Every pass over the words takes time, so that the first has three topics."""
    n_topics, q = table.shape
    n_first = min(n_topics, 3)
    second, third = min(1, n_topics - 1), min(2, n_topics - 1)
    for i in range(q):
        row = eta[i]
        one, two, three = table[0, i], table[second, i], table[third, i]
        if n_first == 3:
            for j in range(n_words):
                row[j] = z[0, j] * one + z[second, j] * two + z[third, j] * three
        elif n_first == 2:
            for j in range(n_words):
                row[j] = z[0, j] * one + z[second, j] * two
        else:
            for j in range(n_words):
                row[j] = z[0, j] * one
        for k in range(n_first, n_topics):
            factor = table[k, i]
            for j in range(n_words):
                row[j] += z[k, j] * factor


@inner
def partition_block(
    code: int, constant: float, eta: FloatArray, n_words: int, value: FloatArray, mean: FloatArray
) -> None:
    """value[j] = A(eta[:, j]); mean (q, B) becomes ∇A, the mean of T, unless it has no rows. eta may be overwritten."""
    q, wanted = len(eta), len(mean) > 0
    for j in range(n_words):
        value[j] = 0.0
    if code == 1:  # Poisson
        for i in range(q):
            for j in range(n_words):
                eta[i, j] = exp(min(eta[i, j], LARGEST_EXPONENT))
                value[j] += eta[i, j]
            if wanted:
                for j in range(n_words):
                    mean[i, j] = eta[i, j]
    elif code == 2:
        _bernoulli(eta, n_words, value, mean)
    elif code == 3:  # gamma of known shape
        _add_logs(eta, -1.0, n_words, value)
        for j in range(n_words):
            value[j] *= -constant
        for i in range(len(mean)):
            for j in range(n_words):
                mean[i, j] = -constant / eta[i, j]
    elif code == 4:
        _categorical(eta, n_words, value, mean)
    elif code == 5:  # Gaussian, diagonal covariance per topic
        p = q // 2
        _add_logs(eta[p:], 1.0, n_words, value)
        for j in range(n_words):
            value[j] *= -0.5
        for i in range(p):
            for j in range(n_words):
                eta[p + i, j] = 1.0 / eta[p + i, j]
                value[j] += 0.5 * eta[i, j] * eta[i, j] * eta[p + i, j]
            if wanted:
                for j in range(n_words):
                    variance = eta[p + i, j]
                    centre = eta[i, j] * variance
                    mean[i, j] = centre
                    mean[p + i, j] = -0.5 * (centre * centre + variance)
    elif code == 6:
        _full_gaussian(eta, n_words, value, mean)
    else:
        for j in range(n_words):
            value[j] = np.nan


@inner
def _add_logs(x: FloatArray, sign: float, n_words: int, value: FloatArray) -> None:
    """value[j] += Σ_i ln(sign·x[i, j]): one logarithm of a product, which is kept as 2^power · factor."""
    power, factor = np.zeros(n_words), np.ones(n_words)
    for i in range(len(x)):
        for j in range(n_words):
            e, factor[j] = split(factor[j] * (sign * x[i, j]))
            power[j] += e
    for j in range(n_words):
        value[j] += power[j] * LN_2 + log(factor[j])


@inner
def _bernoulli(eta: FloatArray, n_words: int, value: FloatArray, mean: FloatArray) -> None:
    """Σ ln(1 + e^η), whichever sign η has, and probabilities. Factors of the product lie between 1 and 2."""
    product, wanted = np.ones(n_words), len(mean) > 0
    for i in range(len(eta)):
        for j in range(n_words):
            x = eta[i, j]
            small = exp(-abs(x))
            value[j] += max(x, 0.0)
            product[j] *= 1.0 + small
            eta[i, j] = 1.0 if x > 0.0 else small
            if wanted:
                mean[i, j] = eta[i, j] / (1.0 + small)
        if i % LARGEST_POWER == LARGEST_POWER - 1 or i == len(eta) - 1:
            for j in range(n_words):
                value[j] += log(product[j])
                product[j] = 1.0


@inner
def _categorical(eta: FloatArray, n_words: int, value: FloatArray, mean: FloatArray) -> None:
    """ln Σ e^η, and the probabilities of symbols."""
    top, total = np.empty(n_words), np.zeros(n_words)
    for j in range(n_words):
        top[j] = eta[0, j]
    for i in range(1, len(eta)):
        for j in range(n_words):
            top[j] = max(top[j], eta[i, j])
    for i in range(len(eta)):
        for j in range(n_words):
            eta[i, j] = exp(eta[i, j] - top[j])
            total[j] += eta[i, j]
    for j in range(n_words):
        value[j] = top[j] + log(total[j])
    for i in range(len(mean)):
        for j in range(n_words):
            mean[i, j] = eta[i, j] / total[j]


@inner
def _full_gaussian(eta: FloatArray, n_words: int, value: FloatArray, mean: FloatArray) -> None:
    """½ bᵀΛ⁻¹b − ½ ln|Λ| by Cholesky, in place, for eta = (b, Λ row by row): Λ = UᵀU leaves U, and b becomes U⁻ᵀb.

    The diagonal of U becomes its inverse.
    """
    p = int((math.sqrt(1.0 + 4.0 * len(eta)) - 1.0) / 2.0 + 0.5)
    for m in range(p):
        pivot, b_m = eta[p + m * p + m], eta[m]
        for j in range(n_words):
            value[j] -= 0.5 * log(pivot[j])
            pivot[j] = 1.0 / math.sqrt(pivot[j])
            b_m[j] *= pivot[j]
            value[j] += 0.5 * b_m[j] * b_m[j]
        for i in range(m + 1, p):
            factor, b_i = eta[p + m * p + i], eta[i]
            for j in range(n_words):
                factor[j] *= pivot[j]
                b_i[j] -= factor[j] * b_m[j]
        for i in range(m + 1, p):
            factor = eta[p + m * p + i]
            for o in range(i, p):
                _subtract(factor, eta[p + m * p + o], n_words, eta[p + i * p + o])
    if len(mean) > 0:
        _full_gaussian_mean(eta, p, n_words, mean)


@inner
def _full_gaussian_mean(eta: FloatArray, p: int, n_words: int, mean: FloatArray) -> None:
    """mean = (μ, −½(μμᵀ + Λ⁻¹)), from U⁻ᵀb and U as _full_gaussian leaves them."""
    inverse, upper = mean[p:], eta[p:]
    for i in range(p):  # U⁻ᵀ, whose rows end at the diagonal
        pivot = upper[i * p + i]
        for o in range(i):
            row = inverse[i * p + o]
            for j in range(n_words):
                row[j] = 0.0
            for m in range(o, i):
                _subtract(upper[m * p + i], inverse[m * p + o], n_words, row)
            for j in range(n_words):
                row[j] *= pivot[j]
        for j in range(n_words):
            inverse[i * p + i, j] = pivot[j]
    for i in range(p - 1, -1, -1):  # Λ⁻¹ = U⁻¹U⁻ᵀ is symmetric: up to the diagonal will do
        pivot, centre = upper[i * p + i], mean[i]
        for j in range(n_words):
            centre[j] = eta[i, j]
        for m in range(i + 1, p):
            _subtract(upper[i * p + m], mean[m], n_words, centre)
            for o in range(i + 1):
                _subtract(upper[i * p + m], inverse[m * p + o], n_words, inverse[i * p + o])
        for j in range(n_words):
            centre[j] *= pivot[j]
        for o in range(i + 1):
            for j in range(n_words):
                inverse[i * p + o, j] *= pivot[j]
    for i in range(p):
        for o in range(i + 1):
            for j in range(n_words):
                inverse[i * p + o, j] = -0.5 * (inverse[i * p + o, j] + mean[i, j] * mean[o, j])
                inverse[o * p + i, j] = inverse[i * p + o, j]


@inlined
def _subtract(first: FloatArray, second: FloatArray, n_words: int, out: FloatArray) -> None:
    """out −= first · second."""
    for j in range(n_words):
        out[j] -= first[j] * second[j]


@inner
def slopes_block(table: FloatArray, mean: FloatArray, n_words: int, out: FloatArray) -> None:
    """out[k, j] = η_k·∇A of word j: the slope of A along z_k."""
    n_topics, q = table.shape
    for k in range(n_topics):
        row = out[k]
        for j in range(n_words):
            row[j] = 0.0
        for i in range(0, q - 1, 2):  # two features in each pass over the words
            factor, other = table[k, i], table[k, i + 1]
            for j in range(n_words):
                row[j] = row[j] + factor * mean[i, j] + other * mean[i + 1, j]
        if q % 2 == 1:
            for j in range(n_words):
                row[j] += table[k, q - 1] * mean[q - 1, j]


@inner
def corner_partitions(log_partition: LogPartition) -> FloatArray:
    """(K,) A of words that are all of one topic."""
    table = log_partition.table
    eta, value = table.T.copy(), np.empty(len(table))
    partition_block(log_partition.code, log_partition.constant, eta, len(table), value, eta[:0])
    return value


@inner
def bend_block(log_partition: LogPartition, mean: FloatArray, slope: FloatArray, n_words: int, out: FloatArray) -> None:
    """out[k, l, j] = η_kᵀ∇²A η_l of word j, for l ≤ k: how A bends along z_k and z_l. slope : as slopes_block gives it.

    Everything follows from ∇A, the mean of T.
    """
    code, table = log_partition.code, log_partition.table
    n_topics, q = table.shape
    if code == 6:
        _full_gaussian_bend(table, mean, n_words, out)
        return
    for k in range(n_topics):
        for o in range(k + 1):
            for j in range(n_words):
                out[k, o, j] = -slope[k, j] * slope[o, j] if code == 4 else 0.0
    if code == 5:
        _diagonal_gaussian_bend(table, mean, n_words, out)
        return
    variance = np.empty((q, n_words))
    variance_block(code, log_partition.constant, mean, n_words, variance)
    for i in range(q):
        for k in range(n_topics):
            for o in range(k + 1):
                factor = table[k, i] * table[o, i]
                for j in range(n_words):
                    out[k, o, j] += factor * variance[i, j]


@inner
def variance_block(code: int, constant: float, mean: FloatArray, n_words: int, out: FloatArray) -> None:
    """Rows of ∇²A, from ∇A: where features are independent, their variances.

    For symbols their probabilities, without what ties symbols to each other. For Gaussians with diagonal covariances
    (code 5), ∂²A/∂b², −∂²A/∂b∂Λ and ∂²A/∂Λ² of every feature, one after the other.
    """
    if code == 5:
        p = len(mean) // 2
        for i in range(p):
            for j in range(n_words):
                centre = mean[i, j]
                variance = -2.0 * mean[p + i, j] - centre * centre
                out[i, j] = variance
                out[p + i, j] = centre * variance
                out[2 * p + i, j] = variance * (centre * centre + 0.5 * variance)
        return
    for i in range(len(mean)):
        for j in range(n_words):
            out[i, j] = mean[i, j]
        if code == 2:
            for j in range(n_words):
                out[i, j] *= 1.0 - mean[i, j]
        elif code == 3:
            for j in range(n_words):
                out[i, j] *= mean[i, j] / constant


@inner
def _diagonal_gaussian_bend(table: FloatArray, mean: FloatArray, n_words: int, out: FloatArray) -> None:
    """With centre c and variance v: Σ (b_k − cΛ_k)(b_l − cΛ_l) v + ½ Λ_kΛ_l v²."""
    n_topics, p = len(table), table.shape[1] // 2
    for i in range(p):
        for k in range(n_topics):
            for o in range(k + 1):
                for j in range(n_words):
                    centre = mean[i, j]
                    variance = -2.0 * mean[p + i, j] - centre * centre
                    first = (table[k, i] - centre * table[k, p + i]) * (table[o, i] - centre * table[o, p + i])
                    square = table[k, p + i] * table[o, p + i] * variance
                    out[k, o, j] += variance * (first + 0.5 * square)


@inner
def _full_gaussian_bend(table: FloatArray, mean: FloatArray, n_words: int, out: FloatArray) -> None:
    """With centre c, covariance S and r_k = b_k − Λ_k c: r_kᵀ S r_l + ½ tr(SΛ_k SΛ_l)."""
    n_topics, q = table.shape
    p = int((math.sqrt(1.0 + 4.0 * q) - 1.0) / 2.0 + 0.5)
    covariance = np.empty((p * p, n_words))
    for i in range(p):
        for o in range(p):
            for j in range(n_words):
                covariance[i * p + o, j] = -2.0 * mean[p + i * p + o, j] - mean[i, j] * mean[o, j]
    off, followed = np.empty((n_topics, p, n_words)), np.zeros((n_topics, p, n_words))
    product = np.zeros((n_topics, p * p, n_words))
    for k in range(n_topics):
        for i in range(p):
            for j in range(n_words):
                off[k, i, j] = table[k, i]
            for o in range(p):
                factor = table[k, p + i * p + o]
                for j in range(n_words):
                    off[k, i, j] -= factor * mean[o, j]
                for m in range(p):  # SΛ_k
                    for j in range(n_words):
                        product[k, m * p + o, j] += covariance[m * p + i, j] * factor
        for i in range(p):
            for o in range(p):
                for j in range(n_words):
                    followed[k, i, j] += covariance[i * p + o, j] * off[k, o, j]
    for k in range(n_topics):
        for o in range(k + 1):
            row = out[k, o]
            for j in range(n_words):
                row[j] = 0.0
            for i in range(p):
                for j in range(n_words):
                    row[j] += off[k, i, j] * followed[o, i, j]
                for m in range(p):
                    for j in range(n_words):
                        row[j] += 0.5 * product[k, i * p + m, j] * product[o, m * p + i, j]
