"""Writes docs/peers.md, where each thing that a peer engine differentiates is found here: `python docs/peers_table.py`.

The tables are data: what the peer calls it, and what to write here, with a remark behind a bar. The tests in
`tests/parity/test_peers.py` walk the peers that are installed and fail if one has something that no table names, or if
a name on our side does not exist.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent

Table = dict[str, str]


def words(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


# Names that are NumPy's on both sides: `numpy.add` there is `np.add` here.
HIPS_SAME = words("""
    abs absolute add amax amin angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh array_split astype
    atleast_1d atleast_2d atleast_3d broadcast_to clip concatenate conj conjugate cos cosh cross cumsum deg2rad
    degrees diag diagonal diff divide dot dsplit einsum exp exp2 expand_dims expm1 fabs fft.fft fft.fft2
    fft.fftn fft.fftshift fft.ifft fft.ifft2 fft.ifftn fft.ifftshift fft.irfft fft.irfft2 fft.irfftn fft.rfft
    fft.rfft2 fft.rfftn fliplr flipud fmax fmin gradient hsplit hypot imag inner kron linalg.cholesky linalg.det
    linalg.eig linalg.eigh linalg.inv linalg.norm linalg.pinv linalg.slogdet linalg.solve linalg.svd linspace
    log log10 log1p log2 logaddexp logaddexp2 matmul max maximum mean min minimum mod moveaxis multiply
    nan_to_num negative outer pad partition power prod rad2deg radians ravel real real_if_close reciprocal
    remainder repeat reshape roll rollaxis rot90 sin sinc sinh sort split sqrt square squeeze stack std subtract
    sum swapaxes tan tanh tensordot tile trace transpose tril triu true_divide var vsplit where
""")

HIPS_OTHER: Table = {
    "numpy.array([a, b])": "np.stack([a, b])",
    "numpy.full(shape, t)": "np.broadcast_to(t, shape)",
    "numpy.make_diagonal(t)": "t[..., None] * np.eye(n)",
    "numpy.linalg.norm(t, 'nuc')": "np.linalg.matrix_norm(t, ord='nuc')",
}

HIPS_SPECIAL = words("""
    beta betainc betaln digamma erf erfc erfcinv erfinv expit gamma gammainc gammaincc gammaln gammasgn i0 i1 iv
    ive j0 j1 jv logit logsumexp multigammaln polygamma psi rgamma y0 y1 yn
""")

HIPS_SCIPY: Table = {
    **{f"scipy.special.{name}": f"tas.special.{name}" for name in HIPS_SPECIAL},
    "scipy.special.jn": "tas.special.jv",
    **{
        f"scipy.linalg.{name}": f"tas.linalg.{name}"
        for name in ("solve_banded", "solve_sylvester", "solve_triangular", "sqrtm")
    },
    "scipy.signal.convolve": "tas.signal.convolve",
    "scipy.signal.convolve with axes and dot_axes": "ta.conv",
    "scipy.integrate.odeint": "tas.integrate.odeint",
    **{
        f"scipy.stats.{distribution}.{function}": f"tas.stats.{distribution}.{function}"
        for distribution, functions in {
            "beta": "cdf logpdf pdf",
            "chi2": "cdf logpdf pdf",
            "dirichlet": "logpdf pdf",
            "gamma": "cdf logpdf pdf",
            "multivariate_normal": "entropy logpdf pdf",
            "norm": "cdf logcdf logpdf logsf pdf sf",
            "poisson": "cdf logpmf pmf",
            "t": "cdf logcdf logpdf pdf",
        }.items()
        for function in functions.split()
    },
}

SCIPY_SAME = [name for name in HIPS_SCIPY if HIPS_SCIPY[name] == name.replace("scipy.", "tas.", 1)]
SCIPY_OTHER = {name: here for name, here in HIPS_SCIPY.items() if name not in SCIPY_SAME}

HIPS_OPERATORS: Table = {
    "grad": "ta.grad",
    "value_and_grad": "ta.value_and_grad",
    "grad_and_aux": "ta.grad(f, has_aux=True)",
    "grad_named(f, 'b')": "ta.grad(lambda b: f(a, b=b))",
    "multigrad_dict": "ta.grad(lambda named: f(**named))",
    "elementwise_grad, deriv": "ta.grad(lambda x: f(x).sum())",
    "jacobian": "ta.jacobian",
    "holomorphic_grad": "ta.jacobian(f, holomorphic=True)",
    "hessian": "ta.hessian",
    "hessian_vector_product, hessian_tensor_product, make_hvp": "ta.hvp | of any shape",
    "vector_jacobian_product, tensor_jacobian_product, make_vjp": "ta.vjp | of any shape",
    "make_jvp, make_jvp_reversemode": "ta.jvp",
    "make_ggnvp": "ta.jvp, ta.vjp | as in [recipes.md](recipes.md)",
    "checkpoint": "ta.checkpoint",
    "extend.primitive, extend.defvjp": "ta.op",
    "test_util.check_grads": "ta.gradcheck",
    "misc.flatten.flatten": "ta.functional.flatten, ta.functional.rebuild | as in [recipes.md](recipes.md)",
    "misc.fixed_points.fixed_point": "ta.vjp | as in [recipes.md](recipes.md)",
    "misc.optimizers.sgd, rmsprop, adam": "ta.optim.SGD, ta.optim.RMSprop, ta.optim.Adam",
}

MYGRAD_SAME = words("""
    abs absolute add amax amin arccos arccosh arcsin arcsinh arctan arctan2 arctanh atleast_1d atleast_2d
    atleast_3d broadcast_to cbrt clip concatenate cos cosh cumprod cumsum divide einsum exp exp2 expand_dims
    expm1 linalg.norm log log10 log1p log2 logaddexp logaddexp2 matmul max maximum mean min minimum moveaxis
    multiply negative positive power prod ravel reciprocal repeat reshape roll sin sinc sinh sqrt square squeeze
    stack std subtract sum swapaxes tan tanh transpose true_divide var where
""")

MYGRAD_OTHER: Table = {
    "no_autodiff": "ta.no_grad",
    "execute_op, operation_base.Operation": "ta.op",
    "add_sequence(a, b, c)": "a + b + c",
    "multiply_sequence(a, b, c)": "a * b * c",
    "multi_matmul([a, b, c])": "np.linalg.multi_dot([a, b, c])",
    "sliding_window_view": "np.lib.stride_tricks.sliding_window_view, ta.windows",
    "sec(t), csc(t), cot(t)": "1 / np.cos(t), 1 / np.sin(t), 1 / np.tan(t)",
    "sech(t), csch(t), coth(t)": "1 / np.cosh(t), 1 / np.sinh(t), 1 / np.tanh(t)",
    "arcsec(t), arccsc(t), arccot(t)": "np.arccos(1 / t), np.arcsin(1 / t), np.arctan(1 / t)",
    "arccsch(t), arccoth(t)": "np.arcsinh(1 / t), np.arctanh(1 / t)",
    "nnet.activations.elu, glu, leaky_relu, relu": "ta.elu, ta.glu, ta.leaky_relu, ta.relu",
    "nnet.activations.selu, sigmoid, softmax, tanh": "ta.selu, ta.sigmoid, ta.softmax, ta.tanh",
    "nnet.activations.logsoftmax": "ta.log_softmax",
    "nnet.activations.soft_sign": "ta.softsign",
    "nnet.activations.hard_tanh": "ta.hardtanh",
    "nnet.losses.softmax_crossentropy": "ta.cross_entropy",
    "nnet.losses.negative_log_likelihood": "ta.nll_loss",
    "nnet.losses.softmax_focal_loss": "ta.focal_loss",
    "nnet.losses.focal_loss(p, t)": "ta.focal_loss(np.log(p), t)",
    "nnet.losses.margin_ranking_loss": "ta.margin_ranking_loss",
    "nnet.losses.multiclass_hinge": "ta.multi_margin_loss | times the number of classes",
    "nnet.layers.conv_nd": "ta.conv",
    "nnet.layers.max_pool": "ta.max_pool",
    "nnet.layers.batchnorm": "ta.batch_norm",
    "nnet.layers.gru": "ta.nn.GRU",
}

# Not installed by the tests: these lists were written by hand.
MICROGRAD: Table = {
    "+, -, *, /, **, relu": "ta.relu | and the operators, on whole arrays",
    "nn.Neuron, nn.Layer, nn.MLP": "ta.nn.Linear, ta.nn.Sequential",
}

MINITORCH: Table = {
    "neg, inv, add, mul, sigmoid, relu, log, exp, sum, mean": "np.negative, np.reciprocal, ta.sigmoid | and so on",
    "permute, view, contiguous": "np.transpose, np.reshape",
    "matrix_multiply": "np.matmul",
    "conv1d, conv2d": "ta.conv, ta.nn.Conv1d, ta.nn.Conv2d",
    "avgpool2d, maxpool2d": "ta.avg_pool, ta.max_pool",
    "max, softmax, logsoftmax": "np.max, ta.softmax, ta.log_softmax",
    "dropout": "ta.dropout",
}

TEENYGRAD: Table = {
    "reshape, expand, permute, flip": "np.reshape, np.broadcast_to, np.transpose, np.flip",
    "pad, shrink, slice": "np.pad, t[i:j]",
    "gather, cat, stack, repeat, chunk": "np.take_along_axis, np.concatenate, np.stack, np.tile, np.array_split",
    "squeeze, unsqueeze, transpose, flatten": "np.squeeze, np.expand_dims, np.swapaxes, np.ravel",
    "triu, tril": "np.triu, np.tril",
    "sum, max, min, mean, std, cumsum": "np.sum, np.max, np.min, np.mean, np.std, np.cumsum",
    "softmax, log_softmax": "ta.softmax, ta.log_softmax",
    "conv2d, conv_transpose2d": "ta.conv, ta.conv_transpose",
    "avg_pool2d, max_pool2d": "ta.avg_pool, ta.max_pool",
    "dot, matmul, linear": "np.matmul, ta.linear",
    "log, log2, exp, exp2, sin, cos, tan, sqrt, square, abs, reciprocal, tanh": "np.log | and so on, under those names",
    "rsqrt(t)": "1 / np.sqrt(t)",
    "elu, celu, silu, relu6, hardswish, hardtanh, mish, softsign": "ta.elu | and so on, under those names",
    "gelu, quick_gelu": "ta.gelu_tanh, ta.quick_gelu",
    "leakyrelu": "ta.leaky_relu",
    "softplus(t, beta)": "ta.softplus(beta * t) / beta",
    "maximum, minimum, where, clip, pow": "np.maximum, np.minimum, np.where, np.clip, np.power",
    "layernorm, batchnorm, dropout": "ta.layer_norm, ta.batch_norm, ta.dropout",
    "scaled_dot_product_attention": "ta.scaled_dot_product_attention",
    "sparse_categorical_crossentropy": "ta.cross_entropy(x, y, ignore_index=-1)",
    "cast": "np.astype",
}

# What a peer has and this engine has not, with the reason. Empty would be the claim without a remainder.
MISSING: Table = {
    "MyGrad: `where=` and `out=` of a function": "`np.where` says the same, and a graph shows which branch was taken",
    "MyGrad: `t[i] = v` is recorded": "refused by an error that names `ta.where` and `ta.index_put`",
    "MyGrad: views whose base sees their gradient": "`ta.gradients` by the view, or `retain_grad`",
    "autograd: a forward rule of one's own (`defjvp`)": "`ta.jvp` takes two backward passes over the same rules",
    "autograd: rules for a type of one's own (`VSpace`)": "arrays in lists, tuples, dicts and dataclasses",
}

# Names of NumPy, and transforms, that take no Tensor yet.
NOT_YET: list[str] = []

HEAD = """# Where a feature of another engine is found here

Every function and transform that HIPS autograd 1.9, MyGrad 2.5, micrograd, minitorch and teenygrad differentiate, and
what to write here: `np` is NumPy, `ta` is `tinygrad_attn`, `tas` is `tinygrad_attn.scipy` ([scipy.md](scipy.md)). The
page is made by `python docs/peers_table.py`; `tests/parity/test_peers.py` walks what autograd and MyGrad offer, fails
if a name is not on it, and `test_peers_numbers.py` compares values and gradients with theirs. The lists of the other
three were written by hand. NumPy has no secant, so there is none here: it is one division. Gradients of complex
numbers are the conjugates of autograd's, as PyTorch's are ([complex.md](complex.md)).
"""


def page() -> str:
    """The text of docs/peers.md."""
    return "\n".join(
        [
            HEAD,
            *("## HIPS autograd", "", "NumPy's functions, under NumPy's names on both sides:", "", listed(HIPS_SAME)),
            *("", "SciPy's functions, `tas.special.beta` for `scipy.special.beta` and so on:", "", listed(SCIPY_SAME)),
            *("", rows("autograd", HIPS_OTHER | SCIPY_OTHER | HIPS_OPERATORS), ""),
            *("## MyGrad", "", "NumPy's functions, under NumPy's names on both sides:", "", listed(MYGRAD_SAME)),
            *("", rows("MyGrad", MYGRAD_OTHER), ""),
            *("## micrograd", "", rows("micrograd", MICROGRAD), ""),
            *("## minitorch", "", rows("minitorch", MINITORCH), ""),
            *("## teenygrad", "", rows("teenygrad", TEENYGRAD), ""),
            *("## Not here", "", "| there | and here |", "|---|---|"),
            *(f"| {there} | {reason} |" for there, reason in MISSING.items()),
            *([f"| autograd: {', '.join(f'`{name}`' for name in NOT_YET)} | not yet |"] if NOT_YET else []),
            "",
        ]
    )


def rows(peer: str, table: Table) -> str:
    """A table of what it is called there and here."""
    lines = [f"| {peer} | here |", "|---|---|"]
    return "\n".join([*lines, *(f"| {_code(there)} | {_code(here)} |" for there, here in table.items())])


def _code(text: str) -> str:
    """The text in backticks, and a remark behind a bar without."""
    code, _, remark = text.partition(" | ")
    return f"`{code}` {remark}".rstrip()


def listed(names: list[str]) -> str:
    """Names with commas between them, in lines of at most 120 characters."""
    lines = [""]
    for name in names:
        part = f"`{name}`, "
        if len(lines[-1]) + len(part) > 120:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines).rstrip(",") + "."


if __name__ == "__main__":
    (HERE / "peers.md").write_text(page(), encoding="utf-8")
