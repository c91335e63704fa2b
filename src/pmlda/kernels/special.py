"""ln x, ln Γ, ψ and ψ' without branches or calls, so that loops which use them vectorise. For x > 0 alone."""

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
    """ln Γ(x), ψ(x), ψ'(x). Twin: twins_variational.gamma_functions."""
    log_gamma, digamma, trigamma, p, _ = shifted_gamma_functions(x)
    return log_gamma - log(p), digamma, trigamma
