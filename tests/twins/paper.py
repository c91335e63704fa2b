"""The kernels again, in plain NumPy with the same arguments and the same random numbers.

They are what a careful reader would write first: tests compare every kernel with its twin, and the alarms of
tests/statistical break the twins on purpose.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from pmlda.kernels.arguments import ADDITIVE, DocumentPrior, DocumentRange, LogPartition, Places, SweepKey
from pmlda.kernels.paper import HALF_STEP, SMALL_LOG, SMALLEST_SHAPE
from pmlda.kernels.streams import PURPOSE_DOCUMENT, PURPOSE_WORD, PURPOSE_WORD_PRIOR
from pmlda.types import Fixed, FloatArray, IntArray, Labels, Latents
from tests.twins.counts import counted_logs, take
from tests.twins.labels import log_label, row_of

Bits = NDArray[np.uint64]


def philox(counter: tuple[Any, Any, Any, Any], key: int) -> tuple[Bits, Bits, Bits, Bits]:
    """Philox4x32-10 for arrays of counters."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0, c1, c2, c3 = (np.asarray(c, dtype=np.uint64) & low for c in counter)
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        product_0, product_1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1 = (product_1 >> half) ^ c1 ^ np.uint64(k0), product_1 & low
        c2, c3 = (product_0 >> half) ^ c3 ^ np.uint64(k1), product_0 & low
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def uniforms(sweep_key: SweepKey, document: Any, word: Any, purpose: int, n: int) -> FloatArray:
    """(…, n) the first n numbers of the streams at these addresses."""
    blocks = np.arange((n + 1) // 2)
    address = (np.asarray(word)[..., None], np.asarray(document)[..., None], sweep_key.sweep)
    r0, r1, r2, r3 = philox(((int(purpose) << 24) | blocks, *address), int(sweep_key.key))
    half = np.uint64(32)
    bits = np.stack([(r1 << half) | r0, (r3 << half) | r2], axis=-1)
    numbers = ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return np.asarray(numbers.reshape(*bits.shape[:-2], -1)[..., :n])


class Stream:
    """One stream, number by number."""

    def __init__(self, sweep_key: SweepKey, document: int, word: int, purpose: int) -> None:
        self._address = (sweep_key, document, word, purpose)
        self._numbers: list[float] = []
        self._read = 0

    def uniform(self) -> float:
        """The next number in (0, 1)."""
        if self._read == len(self._numbers):
            self._numbers = uniforms(*self._address, 2 * len(self._numbers) + 16).tolist()
        self._read += 1
        return self._numbers[self._read - 1]

    def normal(self) -> float:
        """A standard normal number."""
        radius = math.sqrt(-2.0 * math.log(self.uniform()))
        return radius * math.cos(2.0 * math.pi * self.uniform())

    def log_gamma(self, shape: float) -> float:
        """The logarithm of a gamma draw."""
        if shape == 1.0:
            return math.log(-math.log(self.uniform()))
        if shape < 1.0:
            boost = math.log(self.uniform()) / shape
            return boost + self._log_gamma_above_one(shape + 1.0)
        return self._log_gamma_above_one(shape)

    def _log_gamma_above_one(self, shape: float) -> float:
        d = shape - 1.0 / 3.0
        while True:
            x = self.normal()
            v = (1.0 + x / math.sqrt(9.0 * d)) ** 3
            if v > 0.0 and math.log(self.uniform()) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
                return math.log(d * v)

    def log_dirichlet(self, concentration: FloatArray) -> FloatArray:
        """ln of a Dirichlet draw."""
        log_g = np.array([self.log_gamma(float(a)) for a in concentration])
        return np.asarray(log_g - logsumexp(log_g))


def log_memberships(log_pi: FloatArray, s: float, sum_log_z: FloatArray, n_words: int) -> float:
    """Σ_n ln Dir(z_n; sπ) of one document."""
    log_a = math.log(s) + log_pi
    a = np.exp(log_a)
    log_gamma = np.where(log_a > SMALL_LOG, gammaln(np.maximum(a, 1e-300)), -log_a)
    return float(n_words * (gammaln(s) - log_gamma.sum()) + (a - 1.0) @ sum_log_z)


def log_hidden(
    prior: DocumentPrior, latents: Latents, sum_log_z: FloatArray, documents: DocumentRange, out: FloatArray
) -> None:
    """Log density of what is hidden in each document."""
    alpha, scale_rate, labels = prior
    log_pi, s, sizes = latents.log_proportions, latents.scales, np.diff(documents.starts)
    constant = gammaln(alpha.sum()) - gammaln(alpha).sum() + math.log(scale_rate)
    for d in range(documents.first, documents.last):
        memberships = log_memberships(log_pi[d], s[d], sum_log_z[d], sizes[d])
        out[d] = constant + (alpha - 1.0) @ log_pi[d] - scale_rate * s[d] + memberships
        out[d] += log_label(labels, row_of(labels, d), log_pi[d])


def document_step(
    prior: DocumentPrior,
    latents: Latents,
    sum_log_z: FloatArray,
    documents: DocumentRange,
    steps: int,
    sweep_key: SweepKey,
    fixed: Fixed,
    out: FloatArray,
) -> None:
    """Proposals of π and s from their priors, for π with the counts of the document's label."""
    log_pi, s, sizes = latents.log_proportions, latents.scales, np.diff(documents.starts)
    for d in range(documents.first, documents.last):
        stream = Stream(sweep_key, d, 0, PURPOSE_DOCUMENT)
        row = row_of(prior.labels, d)
        proposal = prior.alpha + prior.labels.counts[row]

        def hastings(log_pi: FloatArray, row: int = row, proposal: FloatArray = proposal) -> float:
            """Log prior with the label, less the log density of the proposal, up to a constant."""
            return float((prior.alpha - proposal) @ log_pi + log_label(prior.labels, row, log_pi))

        out[d] = 0.0
        for _ in range(steps):
            if not fixed.proportions:
                candidate = stream.log_dirichlet(proposal)
                ratio = log_memberships(candidate, s[d], sum_log_z[d], sizes[d]) + hastings(candidate)
                ratio -= log_memberships(log_pi[d], s[d], sum_log_z[d], sizes[d]) + hastings(log_pi[d])
                if math.log(stream.uniform()) < ratio:
                    log_pi[d] = candidate
                    out[d, 0] += 1.0
            if not fixed.scales:
                s_candidate = -math.log(stream.uniform()) / prior.scale_rate
                ratio = log_memberships(log_pi[d], s_candidate, sum_log_z[d], sizes[d])
                ratio -= log_memberships(log_pi[d], s[d], sum_log_z[d], sizes[d])
                if math.log(stream.uniform()) < ratio:
                    s[d] = s_candidate
                    out[d, 1] += 1.0


def log_partitions(log_partition: LogPartition, z: FloatArray) -> FloatArray:
    """(N,) A(Σ_k z_nk η_k); log_partition.counts has a row for each row of z, see tests.twins.counts.take."""
    code, table, constant = log_partition[:3]
    if code == ADDITIVE:
        return counted_logs(log_partition, z)
    if code == 0:
        return np.asarray(0.5 * ((z @ table) * z).sum(axis=1))
    eta = z @ table
    p = round((math.sqrt(1 + 4 * eta.shape[1]) - 1) / 2) if code == 6 else eta.shape[1] // 2
    first, precision = eta[:, :p], eta[:, p:]
    if code == 1:
        result = np.exp(eta).sum(axis=1)
    elif code == 2:
        result = np.logaddexp(0.0, eta).sum(axis=1)
    elif code == 3:
        result = -constant * np.log(-eta).sum(axis=1)
    elif code == 4:
        result = logsumexp(eta, axis=1)
    elif code == 5:
        result = 0.5 * (first**2 / precision - np.log(precision)).sum(axis=1)
    else:
        matrices = precision.reshape(-1, p, p)
        solved = np.linalg.solve(matrices, first[:, :, None])[:, :, 0]
        result = 0.5 * (first * solved).sum(axis=1) - 0.5 * np.linalg.slogdet(matrices)[1]
    return np.asarray(result)


def propose_memberships(uniform: FloatArray) -> FloatArray:
    """(N, K) uniform on the simplex: the gaps between sorted uniform numbers (N, K − 1)."""
    edges = np.sort(uniform, axis=1)
    return np.maximum(np.diff(edges, axis=1, prepend=0.0, append=1.0), HALF_STEP)


def word_step(
    log_partition: LogPartition,
    scores: FloatArray,
    latents: Latents,
    places: Places,
    labels: Labels,
    sweep_key: SweepKey,
    out: FloatArray,
) -> None:
    """Proposals of z from Dir(1_K), for all words of the segments at once."""
    z, log_z, log_pi, s = latents
    segments, starts = places
    lengths = segments[:, 1] - segments[:, 0]
    here = slice(int(segments[0, 0]), int(segments[-1, 1]))
    document = np.repeat(segments[:, 2], lengths)
    word = np.arange(here.start, here.stop) - starts[document]
    u = uniforms(sweep_key, document, word, PURPOSE_WORD, z.shape[1])
    candidate = propose_memberships(u[:, :-1])
    log_candidate = np.log(candidate)
    exponent = (s[:, None] * np.exp(log_pi) - 1.0)[document]
    own = take(log_partition, here)
    fit_new = (candidate * scores[here]).sum(axis=1) - log_partitions(own, candidate)
    fit_old = (z[here] * scores[here]).sum(axis=1) - log_partitions(own, z[here])
    ratio = fit_new - fit_old + (exponent * (log_candidate - log_z[here])).sum(axis=1)
    for begin, end, _, row in segments:
        part = slice(begin - here.start, end - here.start)
        ratio[part] += log_label(labels, row, log_candidate[part]) - log_label(labels, row, log_z[begin:end])
    accept = np.log(u[:, -1]) < ratio
    z[here][accept] = candidate[accept]
    log_z[here][accept] = log_candidate[accept]
    first = segments[:, 0] - segments[0, 0]
    out[:, 0] = np.add.reduceat(accept.astype(np.float64), first)
    out[:, 1] = np.add.reduceat(np.where(accept, fit_new, fit_old), first)


def word_prior_step(
    log_partition: LogPartition,
    scores: FloatArray,
    latents: Latents,
    places: Places,
    labels: Labels,
    sweep_key: SweepKey,
    out: FloatArray,
) -> None:
    """Proposals of z from Dir(sπ) with the counts of the word's label, word by word."""
    z, log_z, log_pi, s = latents
    segments, starts = places
    for i, (first, last, d, row) in enumerate(segments):
        out[i] = 0.0
        a = np.maximum(s[d] * np.exp(log_pi[d]), SMALLEST_SHAPE)
        proposal = a + labels.counts[row]
        for n in range(first, last):
            stream = Stream(sweep_key, int(d), int(n - starts[d]), PURPOSE_WORD_PRIOR)
            log_candidate = stream.log_dirichlet(proposal)
            both, logs = np.stack([np.exp(log_candidate), z[n]]), np.stack([log_candidate, log_z[n]])
            fit_new, fit_old = both @ scores[n] - log_partitions(take(log_partition, np.array([n, n])), both)
            prior_new, prior_old = logs @ (a - proposal) + log_label(labels, row, logs)
            if math.log(stream.uniform()) < fit_new - fit_old + (prior_new - prior_old):
                z[n], log_z[n] = both[0], log_candidate
                out[i] += 1.0, fit_new
            else:
                out[i, 1] += fit_old


def sum_partition(log_partition: LogPartition, z: FloatArray, segments: IntArray, out: FloatArray) -> None:
    """Σ A over the words of each segment."""
    here = slice(int(segments[0, 0]), int(segments[-1, 1]))
    out[:] = np.add.reduceat(log_partitions(take(log_partition, here), z[here]), segments[:, 0] - segments[0, 0])


def sum_log(log_z: FloatArray, segments: IntArray, out: FloatArray) -> None:
    """Σ ln z_n over the words of each segment."""
    here = slice(int(segments[0, 0]), int(segments[-1, 1]))
    out[:] = np.add.reduceat(log_z[here], segments[:, 0] - segments[0, 0], axis=0)


def gram(z: FloatArray, first: int, last: int, out: FloatArray) -> None:
    """ZᵀZ of a range of words."""
    out[:] = z[first:last].T @ z[first:last]


def accumulate(
    z: FloatArray, position: IntArray, total: FloatArray, dominant: FloatArray, first: int, last: int
) -> None:
    """Add memberships, and the count of each word's largest one, to running sums."""
    rows = np.arange(first, last)
    total[rows[:, None], position] += z[rows]
    dominant[rows, position[np.argmax(z[rows], axis=1)]] += 1.0
