"""All operations; importing this package fills the registry."""

from tinygrad_attn.ops import ignoring_nan as _ignoring_nan  # noqa: F401
from tinygrad_attn.ops import plain as _plain  # noqa: F401 (imported for what it registers, as the next two)
from tinygrad_attn.ops import reduce_where as _reduce_where  # noqa: F401
from tinygrad_attn.ops import ufunc_methods as _ufunc_methods  # noqa: F401
from tinygrad_attn.ops.activation import (
    celu,
    elu,
    gelu,
    gelu_tanh,
    glu,
    hardswish,
    hardtanh,
    leaky_relu,
    log_sigmoid,
    mish,
    quick_gelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softplus,
    softsign,
)
from tinygrad_attn.ops.attention import attention, attention_weights
from tinygrad_attn.ops.chunked import chunked_attention
from tinygrad_attn.ops.complex import angle, conjugate, imag, real
from tinygrad_attn.ops.composed_loss import (
    bce_loss,
    focal_loss,
    huber_loss,
    l1_loss,
    margin_ranking_loss,
    multi_margin_loss,
    smooth_l1_loss,
)
from tinygrad_attn.ops.convolution import conv, conv_transpose
from tinygrad_attn.ops.decompose import (
    eigenvectors,
    eigh,
    eigvalsh,
    left_singular_vectors,
    pinv,
    q_factor,
    qr,
    r_factor,
    right_singular_vectors,
    svd,
    svdvals,
)
from tinygrad_attn.ops.differences import convolve, correlate, cross, diff, interp, polyval, trapezoid
from tinygrad_attn.ops.dropout import apply_keep_mask, dropout
from tinygrad_attn.ops.eig import eig, eigvals, right_eigenvectors
from tinygrad_attn.ops.einsum import dot, einsum, inner, outer, sum_of_products, tensordot, vdot
from tinygrad_attn.ops.elementwise import (
    add,
    cbrt,
    divide,
    exp,
    exp2,
    expm1,
    float_power,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logaddexp2,
    multiply,
    negative,
    positive,
    power,
    reciprocal,
    sqrt,
    square,
    subtract,
)
from tinygrad_attn.ops.erf import erf, erfc
from tinygrad_attn.ops.fourier import fft, fftn, fftshift, ifft, ifftn, ifftshift, irfft, irfftn, rfft, rfftn
from tinygrad_attn.ops.index import bincount, embedding, getitem, index_put, scatter_add, sum_rows
from tinygrad_attn.ops.inverse import cholesky, det, inv, logabsdet, slogdet, solve
from tinygrad_attn.ops.join import (
    append,
    array_split,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block,
    broadcast_arrays,
    column_stack,
    delete,
    dsplit,
    dstack,
    hsplit,
    hstack,
    insert,
    meshgrid,
    split,
    unstack,
    vsplit,
    vstack,
)
from tinygrad_attn.ops.linalg import linear, matmul, matrix_norm, norm, vector_norm
from tinygrad_attn.ops.loss import bce_with_logits, cross_entropy, kl_divergence, mse_loss, nll_loss
from tinygrad_attn.ops.matrix import diag, diagflat, diagonal, matrix_transpose, trace, tril, triu
from tinygrad_attn.ops.normalise import batch_norm, layer_norm, rms_norm
from tinygrad_attn.ops.piecewise import (
    absolute,
    clip,
    fmax,
    fmin,
    fmod,
    masked_fill,
    maximum,
    minimum,
    remainder,
    where,
)
from tinygrad_attn.ops.pooling import avg_pool, max_pool
from tinygrad_attn.ops.products import kron, matrix_power, matvec, multi_dot, vecdot, vecmat
from tinygrad_attn.ops.recurrent import gru_sequence, gru_step
from tinygrad_attn.ops.reduce import cumprod, cumsum, logsumexp, max, mean, min, prod, std, sum, var
from tinygrad_attn.ops.repeat import fliplr, flipud, pad, repeat, roll, rot90, tile
from tinygrad_attn.ops.rotate import rotate_pairs
from tinygrad_attn.ops.rounding import copysign, fabs, frexp, heaviside, ldexp, modf, nan_to_num, unwrap
from tinygrad_attn.ops.scaled_dot_product import scaled_dot_product_attention
from tinygrad_attn.ops.sequences import (
    cumulative_prod,
    cumulative_sum,
    ediff1d,
    geomspace,
    linspace,
    logspace,
    resize,
    vander,
)
from tinygrad_attn.ops.shape import (
    astype,
    broadcast_to,
    concatenate,
    expand_dims,
    flip,
    full_like,
    moveaxis,
    ravel,
    reshape,
    rollaxis,
    squeeze,
    stack,
    swapaxes,
    transpose,
)
from tinygrad_attn.ops.softmax import log_softmax, softmax
from tinygrad_attn.ops.statistics import average, corrcoef, cov, median, percentile, ptp, quantile
from tinygrad_attn.ops.take import compress, extract, partition, put_along_axis, select, sort, take, take_along_axis
from tinygrad_attn.ops.trigonometric import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    cos,
    cosh,
    deg2rad,
    hypot,
    rad2deg,
    sin,
    sinc,
    sinh,
    tan,
    tanh,
)
from tinygrad_attn.ops.windows import overlap_add, windows

# fmt: off
__all__ = [
    "absolute", "add", "angle", "append", "apply_keep_mask", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
    "arctan2", "arctanh", "array_split", "astype", "atleast_1d", "atleast_2d", "atleast_3d", "attention",
    "attention_weights", "average", "avg_pool", "batch_norm", "bce_loss", "bce_with_logits", "bincount", "block",
    "broadcast_arrays", "broadcast_to", "cbrt", "celu", "cholesky", "chunked_attention", "clip", "column_stack",
    "compress", "concatenate", "conjugate", "conv", "conv_transpose", "convolve", "copysign", "corrcoef", "correlate",
    "cos", "cosh", "cov", "cross", "cross_entropy", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "deg2rad",
    "delete", "det", "diag", "diagflat", "diagonal", "diff", "divide", "dot", "dropout", "dsplit", "dstack", "ediff1d",
    "eig", "eigenvectors", "eigh", "eigvals", "eigvalsh", "einsum", "elu", "embedding", "erf", "erfc", "exp", "exp2",
    "expand_dims", "expm1", "extract", "fabs", "fft", "fftn", "fftshift", "flip", "fliplr", "flipud", "float_power",
    "fmax", "fmin", "fmod", "focal_loss", "frexp", "full_like", "gelu", "gelu_tanh", "geomspace", "getitem", "glu",
    "gru_sequence", "gru_step", "hardswish", "hardtanh", "heaviside", "hsplit", "hstack", "huber_loss", "hypot", "ifft",
    "ifftn", "ifftshift", "imag", "index_put", "inner", "insert", "interp", "inv", "irfft", "irfftn", "kl_divergence",
    "kron", "l1_loss", "layer_norm", "ldexp", "leaky_relu", "left_singular_vectors", "linear", "linspace", "log",
    "log1p", "log2", "log10", "log_sigmoid", "log_softmax", "logabsdet", "logaddexp", "logaddexp2", "logspace",
    "logsumexp", "margin_ranking_loss", "masked_fill", "matmul", "matrix_norm", "matrix_power", "matrix_transpose",
    "matvec", "max", "max_pool", "maximum", "mean", "median", "meshgrid", "min", "minimum", "mish", "modf", "moveaxis",
    "mse_loss", "multi_dot", "multi_margin_loss", "multiply", "nan_to_num", "negative", "nll_loss", "norm", "outer",
    "overlap_add", "pad", "partition", "percentile", "pinv", "polyval", "positive", "power", "prod", "ptp",
    "put_along_axis", "q_factor", "qr", "quantile", "quick_gelu", "r_factor", "rad2deg", "ravel", "real", "reciprocal",
    "relu", "relu6", "remainder", "repeat", "reshape", "resize", "rfft", "rfftn", "right_eigenvectors",
    "right_singular_vectors", "rms_norm", "roll", "rollaxis", "rot90", "rotate_pairs", "scaled_dot_product_attention",
    "scatter_add", "select", "selu", "sigmoid", "silu", "sin", "sinc", "sinh", "slogdet", "smooth_l1_loss", "softmax",
    "softplus", "softsign", "solve", "sort", "split", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum",
    "sum_of_products", "sum_rows", "svd", "svdvals", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot",
    "tile", "trace", "transpose", "trapezoid", "tril", "triu", "unstack", "unwrap", "vander", "var", "vdot", "vecdot",
    "vecmat", "vector_norm", "vsplit", "vstack", "where", "windows",
]
# fmt: on
