"""Mutants that no test can notice, each with the reason: the same is computed, or nothing is promised about it."""

from __future__ import annotations

from typing import NamedTuple


class Equivalent(NamedTuple):
    """A change in the text of a function that changes nothing.

    Attributes:
        path, function: where, as the driver prints them; the path begins in `tinygrad_attn`.
        before, after: the part of a line that is changed, and what becomes of it.
        reason: why no test can tell.
    """

    path: str
    function: str
    before: str
    after: str
    reason: str


NEGATIVE = "NumPy reads any negative length as the one that is left"
NEVER_NEGATIVE = "a size is never negative"
ROWS_OF_MATRIX = "the array has two axes here, so that both numbers mean the last"
FLAT = "the array has one axis here, so that 0 and -1 mean the same"
NO_ELEMENT = "−∞ minus any finite number is −∞, and any positive number divides 0 to 0"
SPEED = "both ways give the same; where one of them pays is a matter of speed"
MEMORY = "only memory is saved: the sum in place is the sum"
WIDEST = "a result_type is never narrower than its operands, so that only equality makes the comparison true"
TOLERANCE = "where nearly singular begins is a tolerance, and its last bits are nobody's promise"

EQUIVALENT = [
    Equivalent(
        *("ops/attention.py", "weighted_sum", ".astype(value.dtype) @ np.logical_not", " @ np.logical_not"),
        "a product of booleans with numbers counts the same, only slower",
    ),
    Equivalent("ops/attention.py", "weighted_sum", "> 0.0", "!= 0.0", "a count is never negative"),
    Equivalent(
        "ops/chunked.py", "_cut", "shape[-1] > 1", "shape[-1] > 0", "keys are seen from the first on: a single one"
    ),
    Equivalent("ops/decompose.py", "_inverse", "16 *", "15 *", TOLERANCE),
    Equivalent(
        "ops/differences.py",
        "_slopes",
        "edge_order == 1",
        "edge_order <= 1",
        "edge_order is 1 or 2: others are refused",
    ),
    Equivalent(
        "ops/dropout.py", "keep_mask", "drawn >= p", "drawn > p", "one number in 2²⁴ is drawn at p, on either side"
    ),
    Equivalent("ops/dropout.py", "keep_mask", "0.0 <= p", "0.0 < p", "nobody asks for a mask that drops nothing"),
    Equivalent("ops/einsum.py", "outer", "(1, -1)", "(1, -2)", NEGATIVE),
    Equivalent("ops/einsum.py", "inner", "np.ndim(a) == 0", "np.ndim(a) <= 0", NEVER_NEGATIVE),
    Equivalent("ops/einsum.py", "sum_of_products", "len(operands) > 1", "len(operands) <= 1", SPEED),
    Equivalent("ops/einsum.py", "sum_of_products", "> _BLAS_PAYS", "< _BLAS_PAYS", SPEED),
    Equivalent(
        *("ops/elementwise.py", "power.gradient('a')", "1.0, a)", "2.0, a)"),
        "the power is multiplied by b, which is 0 there",
    ),
    Equivalent("ops/index.py", "_along_one_axis", "positions.size > 0", "positions.size != 0", NEVER_NEGATIVE),
    Equivalent("ops/index.py", "_along_one_axis", ">= 8", ">= 9", SPEED),
    Equivalent("ops/index.py", "_along_one_axis", "axis + 1 :], dtype", "axis - 1 :], dtype", SPEED),
    Equivalent("ops/index.py", "_along_one_axis", "np.prod(shape[axis + 1", "np.sum(shape[axis + 1", SPEED),
    Equivalent(
        *("ops/index.py", "_along_one_axis", "place + len(shape)", "place % len(shape)"),
        "the axis comes out counted from the back, and the shape then does not fit the quick way",
    ),
    Equivalent(
        *("ops/index.py", "is_mask", "len(arrays) == 1", "len(arrays) <= 1"),
        "an index without any array is basic, which is asked first",
    ),
    Equivalent("ops/index.py", "is_mask", "len(arrays) == 1", "len(arrays) < 1", SPEED),
    Equivalent("ops/index.py", "scatter_add", "is_basic(index) or", "is_basic(index) and", SPEED),
    Equivalent("ops/index.py", "is_mask", "dtype == bool", "dtype < bool", SPEED),
    Equivalent(
        *("ops/index.py", "index_put.gradient('values')", "values.ndim - read.ndim", "values.ndim ** read.ndim"),
        "the engine folds axes of length 1 in front away",
    ),
    Equivalent("ops/index.py", "index_put.gradient('values')", ", 0)", ", -1)", "-1 times a tuple is () as well"),
    Equivalent(
        *("ops/inverse.py", "cholesky.gradient('a')", "a.shape[-2:]", "a.shape[-3:]"),
        "the triangle broadcasts over the stack, or is made for each of it",
    ),
    Equivalent(
        *("ops/inverse.py", "_singular", "a.shape[-1]) else", "a.shape[-0]) else"),
        "the error is made for a matrix that is singular, so that some rank is short",
    ),
    Equivalent("ops/inverse.py", "_has_singular", "0.01 /", "0.01 //", TOLERANCE),
    Equivalent("ops/inverse.py", "_expanded_cofactors", "a.shape[-1]", "a.shape[-2]", "the matrix is square"),
    Equivalent(
        *("ops/inverse.py", "cholesky.gradient('a')", "left, -1, -2)), -1, -2)", "left, -1, -2)), 1, -2)"),
        "the next line takes the symmetric part",
    ),
    Equivalent("ops/inverse.py", "_expanded_cofactors", "% 2 == 0", "% 2 <= 0", NEVER_NEGATIVE),
    Equivalent("ops/join.py", "column_stack", "x.ndim == 1", "x.ndim <= 1", "atleast_1d has made axes of numbers"),
    Equivalent("ops/join.py", "array_split", "slice(0, 0)", "slice(-1, 0)", "both are empty"),
    Equivalent("ops/linalg.py", "linear", "== np.result_type", ">= np.result_type", WIDEST),
    Equivalent(
        *("ops/linalg.py", "linear_clash", "weight[:1]:", "weight[:2]:"),
        "asked only when something does not fit, and by then nothing else can be at fault",
    ),
    Equivalent("ops/linalg.py", "as_matrices", "b.ndim == 1", "b.ndim <= 1", "matmul refuses single numbers"),
    Equivalent("ops/linalg.py", "linear_definition", "weight, -1,", "weight, 1,", ROWS_OF_MATRIX),
    Equivalent("ops/loss.py", "cross_entropy", "rows, axis=-1)", "rows, axis=+1)", ROWS_OF_MATRIX),
    Equivalent("ops/matrix.py", "diagflat", "(-1,)", "(-2,)", NEGATIVE),
    Equivalent("ops/normalise.py", "layer_norm", "== np.result_type", "> np.result_type", MEMORY),
    Equivalent(
        "ops/normalise.py", "layer_norm.gradients('x', 'gain', 'bias')", "dtype == np.res", "dtype >= np.res", WIDEST
    ),
    Equivalent(
        "ops/piecewise.py", "masked_fill", "dtype != bool", "dtype > bool", "every other kind of number is above bool"
    ),
    Equivalent("ops/products.py", "multi_dot", '> 1 else "")', '!= 1 else "")', "single numbers are refused"),
    Equivalent("ops/products.py", "multi_dot", "ndim == 1", "ndim <= 1", "single numbers are refused"),
    Equivalent("ops/products.py", "matrix_power", "n < 0", "n < 1", "0 is answered before"),
    Equivalent("ops/recurrent.py", "sequence_clash", "hidden[-1]", "hidden[+1]", ROWS_OF_MATRIX),
    Equivalent(
        *("ops/scaled_dot_product.py", "scaled_dot_product_attention", "is not None and not", "is not None or not"),
        "a mask as a Tensor is not copied for the graph, as an array is",
    ),
    Equivalent("ops/softmax.py", "softmax", "0.0, peak", "1.0, peak", NO_ELEMENT),
    Equivalent("ops/softmax.py", "softmax", "1.0, total", "2.0, total", NO_ELEMENT),
    Equivalent("ops/softmax.py", "log_softmax", "0.0, peak", "1.0, peak", NO_ELEMENT),
    Equivalent("optim/clip.py", "clip_grad_norm", "total > max_norm", "total >= max_norm", "the factor is then 1"),
    Equivalent("optim/clip.py", "_norm", "itemsize < 4", "itemsize < 3", "no number has three bytes"),
    Equivalent("optim/clip.py", "_norm", "1e-30 <", "1e-30 ==", SPEED),
    Equivalent("optim/clip.py", "_norm", "== 0.0", "<= 0.0", "a magnitude is never negative"),
    Equivalent(
        *("nn/layers.py", "check_eps", "< math.inf", "!= math.inf"),
        "NaN has failed the comparison before, and nothing is above ∞",
    ),
    Equivalent("nn/batch_norm.py", "BatchNorm1d.forward", "x.size //", "x.size /", "the features divide the size"),
    Equivalent("nn/init.py", "xavier_uniform", "max(1,", "max(2,", "an input and an output make two"),
    Equivalent(
        "functional.py",
        "_Traced.only_number",
        "== 1 and leaves",
        ">= 1 and leaves",
        "an output that is a leaf is the only",
    ),
    Equivalent("ops/take.py", "take", "np.ravel(a), 0", "np.ravel(a), -1", FLAT),
    Equivalent("ops/take.py", "sort.gradient('x')", "place_of, 0", "place_of, -1", FLAT),
    Equivalent("ops/take.py", "take", 'mode == "clip"', 'mode <= "clip"', "no other mode comes before it"),
    Equivalent("ops/take.py", "take", 'mode == "wrap"', 'mode >= "wrap"', "no other mode comes after it"),
]


def reason(path: str, function: str, before: str, after: str) -> str:
    """Why a mutant is equivalent, given its line before and after; "" if nobody has said so."""
    before, after = tight(before), tight(after)
    for row in EQUIVALENT:
        if (f"tinygrad_attn/{row.path}", row.function) == (path, function):
            part, changed = tight(row.before), tight(row.after)
            starts = [start for start in range(len(before)) if before.startswith(part, start)]
            if after in {before[:start] + changed + before[start + len(part) :] for start in starts}:
                return row.reason
    return ""


def tight(line: str) -> str:
    """A line without spaces."""
    return "".join(line.split())
