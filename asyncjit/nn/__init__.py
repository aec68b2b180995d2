"""Operations of neural networks, as functions on arrays: convolution, pooling, resizing, and their like.

Law: names only; a module of this package prepares arguments and calls the entries in ``ops`` or functions of
``asyncjit.numpy``. Arrays are channels first: ``(batch, channels, *spatial)``.
"""

from __future__ import annotations

from asyncjit.nn._activations import (
    celu,
    elu,
    gelu,
    hard_sigmoid,
    hard_swish,
    hardmax,
    leaky_relu,
    mish,
    prelu,
    relu,
    selu,
    shrink,
    sigmoid,
    softplus,
    softsign,
    swish,
    thresholded_relu,
)
from asyncjit.nn._attention import attention, attention_mask, linear_attention, rotary_embedding
from asyncjit.nn._convolution import conv, conv_transpose
from asyncjit.nn._normalisation import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    layer_norm_with_statistics,
    log_softmax,
    lp_norm,
    mean_variance_norm,
    rms_norm,
    softmax,
)
from asyncjit.nn._padding import center_crop_or_pad, col2im, pad
from asyncjit.nn._pooling import (
    average_pool,
    global_average_pool,
    global_lp_pool,
    global_max_pool,
    lp_pool,
    max_pool,
    max_pool_with_indices,
    max_unpool,
)
from asyncjit.nn._quantised import (
    conv_integer,
    dequantize,
    dynamic_quantize,
    matmul_integer,
    qlinear_conv,
    qlinear_matmul,
    quantize,
)
from asyncjit.nn._rearranging import depth_to_space, space_to_depth
from asyncjit.nn._recurrent import gru, lstm, rnn
from asyncjit.nn._resizing import resize
from asyncjit.nn._sampling import affine_grid, deform_conv, grid_sample, max_roi_pool, roi_align
from asyncjit.nn._signal import dft, stft

__all__ = [
    "affine_grid",
    "attention",
    "attention_mask",
    "average_pool",
    "batch_norm",
    "celu",
    "center_crop_or_pad",
    "col2im",
    "conv",
    "conv_integer",
    "conv_transpose",
    "deform_conv",
    "depth_to_space",
    "dequantize",
    "dft",
    "dynamic_quantize",
    "elu",
    "gelu",
    "global_average_pool",
    "global_lp_pool",
    "global_max_pool",
    "grid_sample",
    "group_norm",
    "gru",
    "hard_sigmoid",
    "hard_swish",
    "hardmax",
    "instance_norm",
    "layer_norm",
    "layer_norm_with_statistics",
    "leaky_relu",
    "linear_attention",
    "log_softmax",
    "lp_norm",
    "lp_pool",
    "lstm",
    "matmul_integer",
    "max_pool",
    "max_pool_with_indices",
    "max_roi_pool",
    "max_unpool",
    "mean_variance_norm",
    "mish",
    "pad",
    "prelu",
    "qlinear_conv",
    "qlinear_matmul",
    "quantize",
    "relu",
    "resize",
    "rms_norm",
    "rnn",
    "roi_align",
    "rotary_embedding",
    "selu",
    "shrink",
    "sigmoid",
    "softmax",
    "softplus",
    "softsign",
    "space_to_depth",
    "stft",
    "swish",
    "thresholded_relu",
]
