"""Arrays on a device, with the functions of the Python array API standard and NumPy's names for them.

Law: this page is the namespace. Operations start at once and give arrays whose elements follow; inside a captured
function they are recorded. Dtypes are NumPy's, promotion is NumPy 2's, results equal NumPy's bit for bit on the cpu.
"""

from __future__ import annotations

from asyncjit.numpy._along import gather_nd, one_hot, scatter_along_axis, scatter_nd, take_along_axis
from asyncjit.numpy._array import API_VERSIONS as _API_VERSIONS
from asyncjit.numpy._array import Array
from asyncjit.numpy._creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    to_device,
    zeros,
    zeros_like,
)
from asyncjit.numpy._dtypes import (
    bool_,
    can_cast,
    complex64,
    complex128,
    e,
    finfo,
    float16,
    float32,
    float64,
    iinfo,
    inf,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    nan,
    newaxis,
    pi,
    result_type,
    uint8,
    uint16,
    uint32,
    uint64,
)
from asyncjit.numpy._einsum import einsum
from asyncjit.numpy._functions import (
    absolute,
    add,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    cbrt,
    ceil,
    clip,
    conjugate,
    copysign,
    cos,
    cosh,
    deg2rad,
    divide,
    divmod,
    equal,
    erf,
    exp,
    exp2,
    expm1,
    fabs,
    float_power,
    floor,
    floor_divide,
    fmax,
    fmin,
    fmod,
    gcd,
    greater,
    greater_equal,
    heaviside,
    hypot,
    imag,
    invert,
    isfinite,
    isinf,
    isnan,
    lcm,
    left_shift,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logaddexp2,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    positive,
    pow,
    rad2deg,
    real,
    reciprocal,
    remainder,
    right_shift,
    rint,
    round,
    sign,
    signbit,
    sin,
    sinh,
    spacing,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
    where,
)
from asyncjit.numpy._info import Info as _Info
from asyncjit.numpy._movement import (
    astype,
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    concatenate,
    copy,
    expand_dims,
    flip,
    matrix_transpose,
    meshgrid,
    moveaxis,
    permute_dims,
    ravel,
    repeat,
    reshape,
    roll,
    split,
    squeeze,
    stack,
    swapaxes,
    take,
    tile,
    tril,
    triu,
    unstack,
)
from asyncjit.numpy._reductions import (
    all,
    any,
    argmax,
    argmin,
    count_nonzero,
    cumprod,
    cumsum,
    cumulative_prod,
    cumulative_sum,
    det,
    dot,
    matmul,
    max,
    mean,
    min,
    outer,
    prod,
    std,
    sum,
    tensordot,
    var,
    vecdot,
)
from asyncjit.numpy._sets import (
    UniqueAll,
    UniqueCounts,
    UniqueInverse,
    nonzero,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from asyncjit.numpy._sharded import ShardedArray, shard
from asyncjit.numpy._sorting import argsort, diff, isin, searchsorted, sort, top_k

# The standard's spelling, or NumPy's other one, of the same function.
abs = absolute
acos = arccos
acosh = arccosh
asin = arcsin
asinh = arcsinh
atan = arctan
atan2 = arctan2
atanh = arctanh
bitwise_invert = invert
bitwise_left_shift = left_shift
bitwise_not = invert
bitwise_right_shift = right_shift
concat = concatenate
conj = conjugate
mod = remainder
power = pow
transpose = permute_dims
true_divide = divide
bool = bool_

#: The version of the Python array API standard that this namespace follows, without the extensions linalg and fft.
__array_api_version__ = _API_VERSIONS[-1]


def __array_namespace_info__() -> _Info:  # noqa: N807
    """What the namespace says about itself: capabilities, devices, dtypes."""
    return _Info()


# fmt: off
__all__ = [
    "Array", "ShardedArray", "UniqueAll", "UniqueCounts", "UniqueInverse", "abs", "absolute", "acos", "acosh", "add",
    "all", "any", "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax",
    "argmin", "argsort", "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bool",
    "bool_", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "can_cast", "cbrt", "ceil", "clip", "complex64",
    "complex128", "concat", "concatenate", "conj", "conjugate", "copy", "copysign", "cos", "cosh", "count_nonzero",
    "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "deg2rad", "det", "diff", "divide", "divmod", "dot", "e",
    "einsum", "empty", "empty_like", "equal", "erf", "exp", "exp2", "expand_dims", "expm1", "eye", "fabs", "finfo",
    "flip", "float16", "float32", "float64", "float_power", "floor", "floor_divide", "fmax", "fmin", "fmod",
    "from_dlpack", "full", "full_like", "gather_nd", "gcd", "greater", "greater_equal", "heaviside", "hypot", "iinfo",
    "imag", "inf", "int8", "int16", "int32", "int64", "invert", "isdtype", "isfinite", "isin", "isinf", "isnan", "lcm",
    "left_shift", "less", "less_equal", "linspace", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2",
    "logical_and", "logical_not", "logical_or", "logical_xor", "matmul", "matrix_transpose", "max", "maximum", "mean",
    "meshgrid", "min", "minimum", "mod", "moveaxis", "multiply", "nan", "negative", "newaxis", "nextafter", "nonzero",
    "not_equal", "one_hot", "ones", "ones_like", "outer", "permute_dims", "pi", "positive", "pow", "power", "prod",
    "rad2deg", "ravel", "real", "reciprocal", "remainder", "repeat", "reshape", "result_type", "right_shift", "rint",
    "roll", "round", "scatter_along_axis", "scatter_nd", "searchsorted", "shard", "sign", "signbit", "sin", "sinh",
    "sort", "spacing", "split", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "swapaxes", "take",
    "take_along_axis", "tan", "tanh", "tensordot", "tile", "to_device", "top_k", "transpose", "tril", "triu",
    "true_divide", "trunc", "uint8", "uint16", "uint32", "uint64", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "unstack", "var", "vecdot", "where", "zeros", "zeros_like",
]
# fmt: on
