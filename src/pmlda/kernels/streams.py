"""Random numbers by address: (seed, sweep, document, word, purpose) → a stream, whoever asks and in whatever order.

A counter-based generator (Philox4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011) turns an address into 128 random bits. Nothing is carried from word to word, so one thread, two threads and
a cluster draw the same numbers.

A stream is an array of eight unsigned 64-bit integers: key, sweep, document, word, purpose, number of blocks drawn,
the spare half of the last block, and whether there is one.
"""

import math

import numpy as np
from numpy.typing import NDArray

from pmlda.kernels.jit import inner
from pmlda.types import FloatArray

UIntArray = NDArray[np.uint64]

PURPOSE_DOCUMENT, PURPOSE_WORD = 1, 2
STREAM_SIZE = 8

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIER_0, _MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_PURPOSE_SHIFT = np.uint64(24)
_DROP = np.uint64(12)
_ONE, _ZERO = np.uint64(1), np.uint64(0)


@inner
def philox(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, key: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Ten rounds of Philox4x32 on a counter of four 32-bit words. Twin: twins.philox."""
    k0, k1 = key & _LOW, key >> _HALF
    for _ in range(10):
        product_0, product_1 = _MULTIPLIER_0 * c0, _MULTIPLIER_1 * c2
        c0, c1, c2, c3 = (
            (product_1 >> _HALF) ^ c1 ^ k0,
            product_1 & _LOW,
            (product_0 >> _HALF) ^ c3 ^ k1,
            product_0 & _LOW,
        )
        k0, k1 = (k0 + _WEYL_0) & _LOW, (k1 + _WEYL_1) & _LOW
    return c0, c1, c2, c3


@inner
def point(stream: UIntArray, key: np.uint64, sweep: int, document: int, word: int, purpose: int) -> None:
    """Set the stream to the start of an address."""
    stream[0] = key
    stream[1] = sweep
    stream[2] = document
    stream[3] = word
    stream[4] = purpose
    stream[5] = 0
    stream[7] = 0


@inner
def uniform(stream: UIntArray) -> float:
    """The next number of the stream in (0, 1), never 0 nor 1. Twin: twins.Stream.uniform."""
    if stream[7] == _ONE:
        stream[7] = _ZERO
        bits = stream[6]
    else:
        counter = (stream[4] << _PURPOSE_SHIFT) | stream[5]
        r0, r1, r2, r3 = philox(counter, stream[3] & _LOW, stream[2] & _LOW, stream[1] & _LOW, stream[0])
        stream[5] += _ONE
        bits = (r1 << _HALF) | r0
        stream[6] = (r3 << _HALF) | r2
        stream[7] = _ONE
    return (float(bits >> _DROP) + 0.5) * 2.0**-52


@inner
def normal(stream: UIntArray) -> float:
    """A standard normal number (Box and Muller). Twin: twins.Stream.normal."""
    radius = math.sqrt(-2.0 * math.log(uniform(stream)))
    return radius * math.cos(2.0 * math.pi * uniform(stream))


@inner
def log_gamma(stream: UIntArray, shape: float) -> float:
    """The logarithm of a gamma draw: Marsaglia and Tsang (2000); below shape 1 by log Γ(a+1) + log(u)/a.

    Twin: twins.Stream.log_gamma.
    """
    if shape == 1.0:
        return math.log(-math.log(uniform(stream)))
    boost = 0.0
    if shape < 1.0:
        boost = math.log(uniform(stream)) / shape
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(stream)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(uniform(stream)) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return math.log(d * v) + boost


@inner
def log_dirichlet(stream: UIntArray, concentration: FloatArray, out: FloatArray) -> None:
    """Fill out with ln of a Dirichlet draw. Twin: twins.Stream.log_dirichlet."""
    top = -np.inf
    for k in range(len(out)):
        out[k] = log_gamma(stream, concentration[k])
        top = max(top, out[k])
    total = 0.0
    for k in range(len(out)):
        total += math.exp(out[k] - top)
    for k in range(len(out)):
        out[k] -= top + math.log(total)
