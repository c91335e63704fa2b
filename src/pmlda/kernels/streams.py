"""Random numbers by address: (seed, sweep, document, word, purpose) → a stream, whoever asks and in whatever order.

A counter-based generator (Philox4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011) turns an address into 128 random bits. Nothing is carried from word to word, so one thread, two threads and
a cluster draw the same numbers.
"""

import math

import numpy as np
from numpy.typing import NDArray

from pmlda.kernels.arguments import SweepKey
from pmlda.kernels.jit import inlined, inner
from pmlda.types import FloatArray

UIntArray = NDArray[np.uint64]

# Constants must be unsigned: numba turns a mixture of signed and unsigned integers into floats.
PURPOSE_DOCUMENT, PURPOSE_WORD, PURPOSE_WORD_PRIOR = np.uint64(1), np.uint64(2), np.uint64(3)
PURPOSE_CANDIDATE, PURPOSE_CHOICE, PURPOSE_WALK = np.uint64(4), np.uint64(5), np.uint64(6)
PURPOSE_TRANSFER, PURPOSE_STRETCH, PURPOSE_SPLIT = np.uint64(7), np.uint64(8), np.uint64(9)
STREAM_SIZE = 7

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIER_0, _MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_PURPOSE_SHIFT, _DROP = np.uint64(24), np.uint64(12)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


Words = tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]


@inlined
def _round(c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, k0: np.uint64, k1: np.uint64) -> Words:
    """One round of Philox4x32, and the next round's key."""
    product_0, product_1 = _MULTIPLIER_0 * c0, _MULTIPLIER_1 * c2
    return (
        (product_1 >> _HALF) ^ c1 ^ k0,
        product_1 & _LOW,
        (product_0 >> _HALF) ^ c3 ^ k1,
        product_0 & _LOW,
        (k0 + _WEYL_0) & _LOW,
        (k1 + _WEYL_1) & _LOW,
    )


@inlined
def _five_rounds(c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, k0: np.uint64, k1: np.uint64) -> Words:
    """Written out: with a loop in it, the compiler would not vectorise loops that draw."""
    c0, c1, c2, c3, k0, k1 = _round(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3, k0, k1 = _round(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3, k0, k1 = _round(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3, k0, k1 = _round(c0, c1, c2, c3, k0, k1)
    return _round(c0, c1, c2, c3, k0, k1)


@inlined
def philox(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, key: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Ten rounds of Philox4x32 on a counter of four 32-bit words. Twin: tests.twins.paper.philox."""
    c0, c1, c2, c3, k0, k1 = _five_rounds(c0, c1, c2, c3, key & _LOW, key >> _HALF)
    c0, c1, c2, c3, k0, k1 = _five_rounds(c0, c1, c2, c3, k0, k1)
    return c0, c1, c2, c3


@inlined
def _unit(bits: np.uint64) -> float:
    """The upper 52 of 64 bits as a number in (0, 1), never 0 nor 1."""
    return (float(bits >> _DROP) + 0.5) * 2.0**-52


@inlined
def uniform_pair(
    key: np.uint64, sweep: np.uint64, document: np.uint64, word: np.uint64, purpose: np.uint64, block: np.uint64
) -> tuple[float, float]:
    """Numbers 2·block and 2·block + 1 of the stream at an address. Twin: tests.twins.paper.uniforms."""
    even, odd = _bits_pair(key, sweep, document, word, purpose, block)
    return _unit(even), _unit(odd)


@inlined
def _bits_pair(
    key: np.uint64, sweep: np.uint64, document: np.uint64, word: np.uint64, purpose: np.uint64, block: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """The 64 bits behind each of two numbers."""
    counter = (purpose << _PURPOSE_SHIFT) | block
    r0, r1, r2, r3 = philox(counter, word & _LOW, document & _LOW, sweep & _LOW, key)
    return (r1 << _HALF) | r0, (r3 << _HALF) | r2


@inner
def uniform_pairs(
    first: FloatArray,
    second: FloatArray,
    n_words: int,
    sweep_key: SweepKey,
    document: np.uint64,
    first_word: int,
    purpose: np.uint64,
    block: np.uint64,
) -> None:
    """uniform_pair for words in a row. A function of its own, or the compiler does not vectorise it."""
    key, sweep = sweep_key
    for j in range(n_words):
        even, odd = uniform_pair(key, sweep, document, np.uint64(first_word + j), purpose, block)
        first[j] = even
        second[j] = odd


# A stream that is read number by number: its address (key, sweep, document, word, purpose), how many numbers were read,
# and the bits of the next one where they are known already.
@inner
def point(stream: UIntArray, sweep_key: SweepKey, document: np.uint64, word: np.uint64, purpose: np.uint64) -> None:
    """Set the stream to the start of an address."""
    key, sweep = sweep_key
    stream[0], stream[1], stream[2], stream[3], stream[4], stream[5] = key, sweep, document, word, purpose, _ZERO


@inner
def uniform(stream: UIntArray) -> float:
    """The next number of the stream. Twin: tests.twins.paper.Stream.uniform."""
    n = stream[5]
    stream[5] = n + _ONE
    if n & _ONE:
        return _unit(stream[6])
    even, odd = _bits_pair(stream[0], stream[1], stream[2], stream[3], stream[4], n >> _ONE)
    stream[6] = odd
    return _unit(even)


@inner
def normal(stream: UIntArray) -> float:
    """A standard normal number (Box and Muller). Twin: tests.twins.paper.Stream.normal."""
    radius = math.sqrt(-2.0 * math.log(uniform(stream)))
    return radius * math.cos(2.0 * math.pi * uniform(stream))


@inner
def log_gamma(stream: UIntArray, shape: float) -> float:
    """The logarithm of a gamma draw: Marsaglia and Tsang (2000); below shape 1 by log Γ(a+1) + log(u)/a.

    Twin: tests.twins.paper.Stream.log_gamma.
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
    """Fill out with ln of a Dirichlet draw. Twin: tests.twins.paper.Stream.log_dirichlet."""
    top = -np.inf
    for k in range(len(out)):
        out[k] = log_gamma(stream, concentration[k])
        top = max(top, out[k])
    total = 0.0
    for k in range(len(out)):
        total += math.exp(out[k] - top)
    for k in range(len(out)):
        out[k] -= top + math.log(total)
