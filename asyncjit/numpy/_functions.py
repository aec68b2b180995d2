"""Elementwise functions of the namespace.

Law: one entry a function; each makes new arrays and follows NumPy's promotion. Plain elementwise functions come from
``_unary`` and ``_binary``, which give them a name, a type and a docstring.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import numpy as np

from asyncjit.numpy._array import Array
from asyncjit.numpy._elementwise import ArrayLike, elementwise
from asyncjit.numpy._movement import as_array
from asyncjit.numpy._operators import power

__all__ = [
    "absolute",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clip",
    "conjugate",
    "copysign",
    "cos",
    "cosh",
    "deg2rad",
    "divide",
    "divmod",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "gcd",
    "greater",
    "greater_equal",
    "heaviside",
    "hypot",
    "imag",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "lcm",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "rad2deg",
    "real",
    "reciprocal",
    "remainder",
    "right_shift",
    "rint",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "spacing",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]

Unary: TypeAlias = Callable[[ArrayLike], Array]
Binary: TypeAlias = Callable[[ArrayLike, ArrayLike], Array]


def _unary(name: str, doc: str) -> Unary:
    def function(x: ArrayLike, /) -> Array:
        return elementwise(name, (x,), Array)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} Elementwise; a new array."
    return function


def _binary(name: str, doc: str) -> Binary:
    def function(x1: ArrayLike, x2: ArrayLike, /) -> Array:
        return elementwise(name, (x1, x2), Array)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} Elementwise on the common shape and dtype; a new array."
    return function


absolute = _unary("absolute", "Magnitude.")
arccos = _unary("arccos", "Inverse cosine, in radians.")
arccosh = _unary("arccosh", "Inverse hyperbolic cosine.")
arcsin = _unary("arcsin", "Inverse sine, in radians.")
arcsinh = _unary("arcsinh", "Inverse hyperbolic sine.")
arctan = _unary("arctan", "Inverse tangent, in radians.")
arctanh = _unary("arctanh", "Inverse hyperbolic tangent.")
cbrt = _unary("cbrt", "Cube root.")
ceil = _unary("ceil", "Smallest integer not below x, in the dtype of x.")
conjugate = _unary("conjugate", "Complex conjugate.")
cos = _unary("cos", "Cosine of radians.")
cosh = _unary("cosh", "Hyperbolic cosine.")
deg2rad = _unary("deg2rad", "Degrees to radians.")
erf = _unary("erf", "Error function; real numbers, relative error below 4.2e-7 in float32, 1e-15 in float64.")
exp = _unary("exp", "e to the power x.")
exp2 = _unary("exp2", "2 to the power x.")
expm1 = _unary("expm1", "e to the power x, less 1, exact near 0.")
fabs = _unary("fabs", "Magnitude of real numbers, as floats.")
floor = _unary("floor", "Largest integer not above x, in the dtype of x.")
invert = _unary("invert", "Every bit turned over; logical not of bool.")
isfinite = _unary("isfinite", "Whether x is neither infinite nor nan; bool.")
isinf = _unary("isinf", "Whether x is infinite; bool.")
isnan = _unary("isnan", "Whether x is nan; bool.")
log = _unary("log", "Natural logarithm.")
log10 = _unary("log10", "Logarithm to base 10.")
log1p = _unary("log1p", "Natural logarithm of 1 + x, exact near 0.")
log2 = _unary("log2", "Logarithm to base 2.")
logical_not = _unary("logical_not", "Whether x is zero; bool.")
negative = _unary("negative", "Minus x.")
positive = _unary("positive", "Plus x: a copy.")
rad2deg = _unary("rad2deg", "Radians to degrees.")
reciprocal = _unary("reciprocal", "1 over x, in the dtype of x.")
rint = _unary("rint", "Nearest integer, halves to even, as floats.")
sign = _unary("sign", "-1, 0 or 1; for complex x, x over its magnitude.")
signbit = _unary("signbit", "Whether the sign bit is set; bool.")
sin = _unary("sin", "Sine of radians.")
sinh = _unary("sinh", "Hyperbolic sine.")
spacing = _unary("spacing", "Distance to the next number away from 0.")
sqrt = _unary("sqrt", "Square root; nan below 0.")
square = _unary("square", "x times x.")
tan = _unary("tan", "Tangent of radians.")
tanh = _unary("tanh", "Hyperbolic tangent.")
trunc = _unary("trunc", "x without its fraction, in the dtype of x.")

add = _binary("add", "Sum.")
arctan2 = _binary("arctan2", "Angle of the point (x2, x1), in radians.")
bitwise_and = _binary("bitwise_and", "Bits set in both.")
bitwise_or = _binary("bitwise_or", "Bits set in either.")
bitwise_xor = _binary("bitwise_xor", "Bits set in exactly one.")
copysign = _binary("copysign", "Magnitude of x1 with the sign of x2.")
divide = _binary("divide", "True quotient; floats.")
equal = _binary("equal", "Whether x1 == x2; bool.")
float_power = _binary("float_power", "Power in float64 or complex128.")
floor_divide = _binary("floor_divide", "Quotient rounded down.")
fmax = _binary("fmax", "Larger value; a nan loses.")
fmin = _binary("fmin", "Smaller value; a nan loses.")
fmod = _binary("fmod", "Remainder with the sign of x1.")
gcd = _binary("gcd", "Greatest common divisor.")
greater = _binary("greater", "Whether x1 > x2; bool.")
greater_equal = _binary("greater_equal", "Whether x1 >= x2; bool.")
heaviside = _binary("heaviside", "0 below zero, x2 at zero, 1 above.")
hypot = _binary("hypot", "Length of the hypotenuse.")
lcm = _binary("lcm", "Least common multiple.")
left_shift = _binary("left_shift", "Bits of x1 moved left by x2.")
less = _binary("less", "Whether x1 < x2; bool.")
less_equal = _binary("less_equal", "Whether x1 <= x2; bool.")
logaddexp = _binary("logaddexp", "Logarithm of the sum of exponentials.")
logaddexp2 = _binary("logaddexp2", "The same to base 2.")
logical_and = _binary("logical_and", "Whether both are not zero; bool.")
logical_or = _binary("logical_or", "Whether either is not zero; bool.")
logical_xor = _binary("logical_xor", "Whether exactly one is not zero; bool.")
maximum = _binary("maximum", "Larger value; nan wins.")
minimum = _binary("minimum", "Smaller value; nan wins.")
multiply = _binary("multiply", "Product.")
nextafter = _binary("nextafter", "Next number from x1 towards x2.")
not_equal = _binary("not_equal", "Whether x1 != x2; bool.")
remainder = _binary("remainder", "Remainder with the sign of x2.")
right_shift = _binary("right_shift", "Bits of x1 moved right by x2.")
subtract = _binary("subtract", "Difference.")


def pow(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 to the power x2, as the operator does it. Elementwise on the common shape and dtype; a new array."""
    return power(x1, x2, Array)


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """Quotient rounded down, and remainder. Elementwise on the common shape and dtype; new arrays."""
    return cast("tuple[Array, Array]", elementwise("divmod", (x1, x2), Array))


def where(condition: ArrayLike, x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 where ``condition`` is not zero, else x2. Elementwise on the common shape; a new array of the common dtype."""
    chosen = as_array(condition)
    if chosen.dtype.kind != "b":
        chosen = chosen != 0
    return elementwise("where", (chosen, x1, x2), Array)


def clip(x: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """x kept between two bounds, of which either may be missing. Elementwise; a new array."""
    array = as_array(x)
    low, high = (_bound(array, bound, side) for bound, side in ((min, -1), (max, 1)))
    if low is None and high is None:
        return elementwise("positive", (array,), Array)
    if high is None:
        return elementwise("maximum", (array, low), Array)
    if low is None:
        return elementwise("minimum", (array, high), Array)
    return elementwise("clip", (array, low, high), Array)


def _bound(array: Array, bound: ArrayLike | None, side: int) -> ArrayLike | None:
    """None for a Python int that no element of an integer array can pass."""
    if type(bound) is int and array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        if (bound <= limits.min) if side < 0 else (bound >= limits.max):
            return None
    return bound


def real(x: ArrayLike, /) -> Array:
    """The real part; a view."""
    return as_array(x).real


def imag(x: ArrayLike, /) -> Array:
    """The imaginary part; a view, or zeros for a real array."""
    return as_array(x).imag


def round(x: ArrayLike, /, decimals: int = 0) -> Array:
    """x rounded to ``decimals``, halves to even. Elementwise; a new array."""
    return as_array(x).round(decimals)
