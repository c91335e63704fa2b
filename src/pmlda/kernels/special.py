"""ln, exp, cos, ln Γ, ψ and ψ' without branches or calls, so that loops which use them vectorise.

Logarithms and gamma functions are for x > 0 alone.
"""

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pmlda.kernels.jit import inlined

LN_2 = 0.6931471805599453
HALF_LN_2PI = 0.9189385332046727
# The bits of √½, of 2^52, and of the exponent field: ln x is found from x = 2^e · m with m between √½ and √2.
_ROOT_HALF = 0x3FE6A09E667F3BCD
_MAGIC_BITS, _MAGIC = 0x4330000000000000, 4503599627370496.0
_BIAS = 2048
# Adding and subtracting this rounds to a whole number, whose bits are then the last ones of the sum.
_ROUND = 6755399441055744.0
# The first part has zeros at its end, so that its products with whole numbers are exact.
_LN_2_HIGH, _LN_2_LOW = 0.6931471803691238, 1.9082149292705877e-10
# exp(x) is 0 below.
_LOWEST_EXPONENT = -708.0
# Logarithms are of normal numbers: of no less than this.
_SMALLEST_LOGGED = 1e-300


# numba itself gives intrinsics their first argument, which mypy cannot know: hence what it is told to ignore below.
@intrinsic
def _bits(typing_context: Any, x: Any) -> Any:
    """The 64 bits of a float as an integer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def _from_bits(typing_context: Any, bits: Any) -> Any:
    """The inverse of _bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@inlined
def split(x: float) -> tuple[float, float]:
    """(e, m) with x = 2^e · m and m between √½ and √2, for normal x > 0."""
    bits: int = _bits(x)  # type: ignore[call-arg]
    e = (bits - _ROOT_HALF) >> 52
    m: float = _from_bits(bits - (e << 52))
    e_as_float: float = _from_bits((e + _BIAS) | _MAGIC_BITS)
    return e_as_float - (_MAGIC + _BIAS), m


@inlined
def _join(e: float, t: float) -> float:
    """ln(2^e · m) from t = (m − 1) / (m + 1): 2 artanh t by its series, in pairs of terms that need not wait."""
    u = t * t
    v = u * u
    high = (1.0 / 13.0 + u * (1.0 / 15.0)) + v * ((1.0 / 17.0) + u * (1.0 / 19.0))
    low = (1.0 / 5.0 + u * (1.0 / 7.0)) + v * ((1.0 / 9.0) + u * (1.0 / 11.0))
    series = 1.0 / 3.0 + u * (low + v * v * high)
    return e * LN_2 + 2.0 * t * (1.0 + u * series)


@inlined
def log(x: float) -> float:
    """ln x for normal x > 0, to a relative error of about 1e-15. Twin: numpy.log."""
    e, m = split(x)
    return _join(e, (m - 1.0) / (m + 1.0))


@inlined
def log_one_minus(x: float) -> float:
    """ln(1 − x) for 0 ≤ x < 1, however small x is: the error of 1 − x cancels (Kahan). Twin: numpy.log1p(−x)."""
    rest = 1.0 - x
    lost = 1.0 - rest
    return log(max(rest, _SMALLEST_LOGGED)) * (x / lost) if lost > 0.0 else -x


@inlined
def _exponential(x: float) -> tuple[float, float]:
    """(y, 2^n) with exp(x) = 2^n (1 + y), for x from −708 to 709: Taylor's series of what is left of n ln 2."""
    rounded = x * (1.0 / LN_2) + _ROUND
    n = rounded - _ROUND
    r = (x - n * _LN_2_HIGH) - n * _LN_2_LOW
    u = r * r
    v = u * u
    low = (1.0 / 2.0 + r * (1.0 / 6.0)) + u * (1.0 / 24.0 + r * (1.0 / 120.0))
    middle = (1.0 / 720.0 + r * (1.0 / 5040.0)) + u * (1.0 / 40320.0 + r * (1.0 / 362880.0))
    high = (1.0 / 3628800.0 + r * (1.0 / 39916800.0)) + u * (1.0 / 479001600.0 + r * (1.0 / 6227020800.0))
    power: float = _from_bits((_bits(rounded) + 1023) << 52)  # type: ignore[call-arg]
    return r + u * (low + v * (middle + v * high)), power


@inlined
def exp(x: float) -> float:
    """exp(x) for x below 709; 0 below −708. Twin: numpy.exp."""
    y, power = _exponential(max(x, _LOWEST_EXPONENT))
    return power + power * y if x > _LOWEST_EXPONENT else 0.0


@inlined
def exp_minus_one(x: float) -> float:
    """exp(x) − 1 for x below 709, however small x is. Twin: numpy.expm1."""
    y, power = _exponential(max(x, _LOWEST_EXPONENT))
    return power * y + (power - 1.0)


@inlined
def cos_of_turns(u: float) -> float:
    """cos(2πu) for u from 0 to 1: a sine of at most a quarter of a turn, by its series. Twin: numpy.cos(2πu)."""
    x = 2.0 * math.pi * (abs(u - 0.5) - 0.25)
    u = x * x
    v = u * u
    low = (-1.0 / 6.0 + u * (1.0 / 120.0)) + v * (-1.0 / 5040.0 + u * (1.0 / 362880.0))
    high = (-1.0 / 39916800.0 + u * (1.0 / 6227020800.0)) + v * (-1.0 / 1307674368000.0 + u * (1.0 / 355687428096000.0))
    return x + x * u * (low + v * v * (high - v * v * (1.0 / 121645100408832000.0)))


@inlined
def shifted_gamma_functions(x: float) -> tuple[float, float, float, float, float]:
    """ln Γ(x + 6), ψ(x), ψ'(x), P and 1 / P, where P = x(x+1)…(x+5) and so ln Γ(x) = ln Γ(x + 6) − ln P.

    Stirling's series at y = x + 6, brought back by recurrence; relative error about 1e-13. The factors of P pair up as
    u, u + 4 and u + 6 with u = x(x + 5). A division costs as much as ten products, so there is one, by everything that
    has to be divided by: y, P, and what the logarithm of y needs.
    """
    u = x * (x + 5.0)
    w = 2.0 * x + 5.0
    u4, u6 = u + 4.0, u + 6.0
    pair = u4 * u6
    y, p = x + 6.0, u * pair
    e, m = split(y)
    above, product = m + 1.0, y * p
    inverse = 1.0 / (product * above)
    log_y = _join(e, (m - 1.0) * (inverse * product))
    per_product = inverse * above
    r, per_p = per_product * p, per_product * y
    s = r * r
    log_gamma = s * (1.0 / 1680.0 - s * (1.0 / 1188.0 - s * (691.0 / 360360.0 - s * (1.0 / 156.0))))
    log_gamma = r * (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - log_gamma)))
    log_gamma += (y - 0.5) * log_y - y + HALF_LN_2PI
    r1, r2, r3 = per_p * pair, per_p * u * u6, per_p * u * u4
    series = s * (1.0 / 240.0 - s * (1.0 / 132.0 - s * (691.0 / 32760.0 - s * (1.0 / 12.0))))
    digamma = log_y - 0.5 * r - s * (1.0 / 12.0 - s * (1.0 / 120.0 - s * (1.0 / 252.0 - series)))
    digamma -= w * (r1 + r2 + r3)
    series = s * (1.0 / 30.0 - s * (5.0 / 66.0 - s * (691.0 / 2730.0 - s * (7.0 / 6.0))))
    trigamma = r * (1.0 + 0.5 * r + s * (1.0 / 6.0 - s * (1.0 / 30.0 - s * (1.0 / 42.0 - series))))
    v = w * w - 2.0 * u
    trigamma += v * r1 * r1 + (v - 8.0) * r2 * r2 + (v - 12.0) * r3 * r3
    return log_gamma, digamma, trigamma, p, per_p


@inlined
def gamma_functions(x: float) -> tuple[float, float, float]:
    """ln Γ(x), ψ(x), ψ'(x). Twin: tests.twins.variational.gamma_functions."""
    log_gamma, digamma, trigamma, p, _ = shifted_gamma_functions(x)
    return log_gamma - log(p), digamma, trigamma
