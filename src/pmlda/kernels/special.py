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
def log(x: float) -> float:
    """ln x for normal x > 0, to a relative error of about 1e-15. Twin: numpy.log."""
    bits: int = _bits(x)  # type: ignore[call-arg]
    e = (bits - _ROOT_HALF) >> 52
    m: float = _from_bits(bits - (e << 52))
    e_as_float: float = _from_bits((e + _BIAS) | _MAGIC_BITS)
    exponent = e_as_float - (_MAGIC + _BIAS)
    t = (m - 1.0) / (m + 1.0)
    u = t * t
    series = 1.0 / 19.0
    series = series * u + 1.0 / 17.0
    series = series * u + 1.0 / 15.0
    series = series * u + 1.0 / 13.0
    series = series * u + 1.0 / 11.0
    series = series * u + 1.0 / 9.0
    series = series * u + 1.0 / 7.0
    series = series * u + 1.0 / 5.0
    series = series * u + 1.0 / 3.0
    return exponent * LN_2 + 2.0 * t * (1.0 + u * series)


@inlined
def gamma_functions(x: float) -> tuple[float, float, float]:
    """ln Γ(x), ψ(x), ψ'(x): Stirling's series at x + 6, brought back by recurrence. Relative error about 1e-13.

    The factors of x(x+1)…(x+5) pair up as u, u + 4 and u + 6 with u = x(x + 5), which saves half of the divisions.
    Twin: twins_variational.gamma_functions.
    """
    u = x * (x + 5.0)
    w = 2.0 * x + 5.0
    r1, r2, r3 = 1.0 / u, 1.0 / (u + 4.0), 1.0 / (u + 6.0)
    y = x + 6.0
    log_y = log(y)
    r = 1.0 / y
    s = r * r
    log_gamma = s * (1.0 / 1680.0 - s * (1.0 / 1188.0 - s * (691.0 / 360360.0 - s * (1.0 / 156.0))))
    log_gamma = r * (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - log_gamma)))
    log_gamma += (y - 0.5) * log_y - y + HALF_LN_2PI - log(u * ((u + 4.0) * (u + 6.0)))
    series = s * (1.0 / 240.0 - s * (1.0 / 132.0 - s * (691.0 / 32760.0 - s * (1.0 / 12.0))))
    digamma = log_y - 0.5 * r - s * (1.0 / 12.0 - s * (1.0 / 120.0 - s * (1.0 / 252.0 - series)))
    digamma -= w * (r1 + r2 + r3)
    series = s * (1.0 / 30.0 - s * (5.0 / 66.0 - s * (691.0 / 2730.0 - s * (7.0 / 6.0))))
    trigamma = r * (1.0 + 0.5 * r + s * (1.0 / 6.0 - s * (1.0 / 30.0 - s * (1.0 / 42.0 - series))))
    v = w * w
    trigamma += (v - 2.0 * u) * r1 * r1 + (v - 2.0 * u - 8.0) * r2 * r2 + (v - 2.0 * u - 12.0) * r3 * r3
    return log_gamma, digamma, trigamma
