"""Every row of docs/differences.md, by its id: what PyTorch, NumPy and we answer to the same question."""

from __future__ import annotations

import functools
import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import tinygrad_attn as ta
from tests.parity import questions as q
from tests.parity.points import SINGULAR_POINTS
from tests.parity.questions import Raises, Row, Side, functional, leaf, ones, point, three, torch, twin
from tinygrad_attn import Tensor, errors, nn, optim
from transformer import Decoder, Encoder, MultiHeadAttention

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"
INF, NAN = math.inf, math.nan
HALVES = np.full((2, 2), 0.5)
GRID = np.arange(6.0).reshape(2, 3)
FIRST = np.array([True, False])
PART = np.array([[1.0, 1.0], [NAN, INF]], np.float32)
IDS = np.array([1, 1])
TANH = [0.8411919906082768, "UnsupportedFunctionError"]
NAMED = ("query", "key", "value", "output")

LOSSES = {
    "D-cross-entropy-all-ignored": Row(
        Side(lambda: q.slopes(lambda x: ta.cross_entropy(x, IDS, ignore_index=1), HALVES), [0.0, [[0.0] * 2] * 2]),
        Side(lambda: functional("cross_entropy")(twin(HALVES), torch.tensor(IDS), ignore_index=1).item(), NAN),
    ),
    "D-ignore-index": Row(
        Side(lambda: ta.cross_entropy(leaf(HALVES), np.array([1, -100])), Raises(errors.IndexRangeError, "-100")),
        Side(lambda: functional("cross_entropy")(twin(HALVES), torch.tensor([1, -100])).item(), math.log(2.0)),
    ),
    "D-cross-entropy-layout": Row(
        Side(lambda: ta.cross_entropy(ones(2, 3, 5), np.zeros((2, 3), int)).item(), math.log(5.0)),
        Side(
            lambda: functional("cross_entropy")(torch.ones(2, 5, 3), torch.zeros(2, 3, dtype=torch.long)).item(),
            math.log(5.0),
        ),
    ),
    "D-kl-mean": Row(
        Side(lambda: float(ta.kl_divergence(np.log(HALVES), np.array([[1.0, 0.0]] * 2))), math.log(2.0)),
        Side(
            lambda: functional("kl_div")(twin(np.log(HALVES)), twin([[1.0, 0.0]] * 2), reduction="none").mean().item(),
            math.log(2.0) / 2,
        ),
    ),
    "D-kl-none": Row(
        Side(lambda: ta.kl_divergence(np.log(HALVES), HALVES, reduction="none").shape, (2,)),
        Side(lambda: tuple(functional("kl_div")(twin(HALVES), twin(HALVES), reduction="none").shape), (2, 2)),
    ),
    "D-kl-absent-class": point(
        lambda p: ta.kl_divergence(np.log(HALVES[0]), p),
        lambda p: functional("kl_div")(twin(np.log(HALVES[0])).detach(), p, reduction="sum"),
        [[0.0, 1.0]],
        [math.log(2.0), [0.0, 1.0 + math.log(2.0)]],
        [math.log(2.0), [NAN, 1.0 + math.log(2.0)]],
    ),
    "D-mse-shapes": Row(
        Side(lambda: ta.mse_loss(leaf(ones(3, 1)), ones(3)), Raises(errors.ShapeError, "one shape")),
        Side(lambda: functional("mse_loss")(torch.ones(3, 1), torch.ones(3)), Raises(UserWarning, "broadcasting")),
    ),
}

ATTENTION = {
    "D-mask-boolean": Row(
        Side(lambda: q.attention(mask=np.zeros((2, 2))), Raises(errors.MaskError, "boolean")),
        Side(lambda: q.twin_attention(attn_mask=np.zeros((2, 2), np.float32)), [[1.0, 1.0]] * 2),
    ),
    "D-mask-true": Row(
        Side(lambda: q.heads(np.array([[[[True, False]]]]))[1][0, 0].tolist(), [[1.0, 0.0]] * 2),
        Side(lambda: q.twin_heads([True, False])[1][0].tolist(), [[0.0, 1.0]] * 2),
    ),
    "D-masked-nan": Row(
        Side(lambda: q.attention(ones(2, 2), ones(2, 2), PART, mask=FIRST), [[1.0, 1.0]] * 2),
        Side(lambda: q.twin_attention(value=torch.tensor(PART), attn_mask=FIRST), [[NAN, NAN]] * 2),
    ),
    "D-heads-empty-row": Row(
        Side(lambda: q.heads(np.zeros((1, 1, 1, 2), bool))[0].tolist(), [[[0.0] * 4] * 2]),
        Side(lambda: q.twin_heads([True, True])[0].tolist(), [[[NAN] * 4] * 2]),
    ),
    "D-causal-lengths": Row(
        Side(lambda: q.attention(key=ones(3, 2), causal=True), Raises(errors.OptionError, "diagonal")),
        Side(
            lambda: q.twin_attention(torch.ones(3, 2), torch.tensor([[1.0, 1], [3, 3], [5, 5]]), is_causal=True),
            [[1.0, 1.0], [2.0, 2.0]],  # the upper left
        ),
    ),
    "D-causal-and-mask": Row(
        Side(lambda: q.attention(causal=True, mask=np.ones((2, 2), bool)), [[1.0, 1.0]] * 2),
        Side(lambda: q.twin_attention(is_causal=True, attn_mask=np.ones((2, 2), bool)), Raises(RuntimeError)),
    ),
    "D-weights-per-head": Row(
        Side(lambda: q.heads(None)[1].shape, (1, 2, 2, 2)),
        Side(lambda: tuple(q.twin_heads(None)[1].shape), (1, 2, 2)),
    ),
    "D-projections": Row(
        Side(lambda: q.names(MultiHeadAttention(4, 2, bias=False)), [f"to_{x}.weight" for x in NAMED]),
        Side(
            lambda: q.names(torch.nn.MultiheadAttention(4, 2, bias=False)),
            ["in_proj_weight", "out_proj.weight"],
        ),
    ),
}

MODELS = {
    "D-projections-first-values": Row(
        Side(lambda: q.widest(MultiHeadAttention(64, 2).to_query.weight), 0.22),
        Side(lambda: q.widest(torch.nn.MultiheadAttention(64, 2).in_proj_weight), 0.15),
    ),
    "D-decoder-causal": Row(
        Side(lambda: q.sees_later(Decoder(1, 4, 2, 8), Tensor), False),
        Side(
            lambda: q.sees_later(torch.nn.TransformerDecoderLayer(4, 2, 8, 0.0, batch_first=True), torch.tensor), True
        ),
    ),
    "D-last-norm": Row(
        Side(lambda: [stack(1, 4, 2, 8).norm is None for stack in (Encoder, Decoder)], [True, True]),
        Side(
            lambda: [
                getattr(torch.nn.Transformer(4, 2, 1, 1, 8, batch_first=True), stack).norm is None
                for stack in ("encoder", "decoder")
            ],
            [False, False],
        ),
    ),
    "D-gru-batch-first": Row(
        Side(lambda: nn.GRU(3, 2)(Tensor(ones(4, 5, 3)))[1].shape, (1, 4, 2)),
        Side(lambda: tuple(torch.nn.GRU(3, 2)(torch.ones(4, 5, 3))[1].shape), (1, 5, 2)),
    ),
    "D-gelu-names": Row(
        Side(lambda: [ta.gelu_tanh(leaf(1.0)).item(), q.refused(lambda: ta.gelu(leaf(1.0), approximate="tanh"))], TANH),
        Side(lambda: [functional("gelu")(twin(1.0), approximate="tanh").item(), ""], [TANH[0], ""]),
    ),
    "D-rms-norm-eps": Row(
        Side(lambda: nn.RMSNorm(6).eps, 1e-5),
        Side(lambda: torch.nn.RMSNorm(6).eps, None),
    ),
    "D-padding-index": Row(
        Side(lambda: nn.Embedding(3, 2, padding_index=-1), Raises(errors.IndexRangeError, "padding_index")),
        Side(lambda: torch.nn.Embedding(3, 2, padding_idx=-1).padding_idx, 2),
    ),
    "D-module-super": Row(
        Side(lambda: q.own_module(nn, lambda: nn.Parameter([1.0])), 1),
        Side(lambda: q.own_module(torch.nn, lambda: torch.nn.Parameter(torch.ones(1))), Raises(AttributeError)),
    ),
    "D-module-list": Row(
        Side(lambda: q.module_with(nn), Raises(errors.DtypeError, "ModuleList")),
        Side(lambda: q.module_with(torch.nn), 0),
    ),
    "D-clip-norm": Row(
        Side(lambda: q.clipped([3.0, 4.0])[1], 0.0),
        Side(lambda: q.twin_clipped([3.0, 4.0])[1], 1.0 - 5.0 / (5.0 + 1e-6)),
    ),
    "D-clip-nan": Row(
        Side(lambda: q.clipped([3.0, NAN]), Raises(errors.NotFiniteError, "no gradient was changed")),
        Side(lambda: q.twin_clipped([3.0, NAN])[0], NAN),
    ),
    "D-step-nan": Row(
        Side(lambda: q.step(leaf([1.0]), np.array([NAN]), optim.SGD), Raises(errors.NotFiniteError)),
        Side(lambda: q.step(twin([1.0]), torch.tensor([NAN]).double(), torch.optim.SGD), [NAN]),
    ),
    "D-half-precision": Row(
        Side(lambda: q.step(leaf([1.0], np.float16), np.zeros(1, np.float16), optim.Adam), [1.0]),
        Side(lambda: q.step(torch.ones(1).half(), torch.zeros(1).half(), torch.optim.Adam), [NAN]),
    ),
    "D-adam-eps": Row(
        Side(lambda: optim.Adam([leaf([1.0])], eps=0.0), Raises(errors.OptionError, "eps")),
        Side(lambda: q.step(twin([1.0]), torch.zeros(1).double(), functools.partial(torch.optim.Adam, eps=0.0)), [NAN]),
    ),
    "D-param-groups": Row(
        Side(lambda: q.appended(leaf([1.0]), leaf([3.0]), optim.SGD), Raises(errors.OptionError, "add_param_group")),
        Side(lambda: q.appended(twin([1.0]), twin([3.0]), torch.optim.SGD), [1.0]),
    ),
    "D-parameter-twice": Row(
        Side(lambda: optim.SGD([leaf([1.0])] * 2, lr=0.1), Raises(errors.OptionError, "given twice")),
        Side(lambda: torch.optim.SGD([twin([1.0])] * 2, lr=0.1), Raises(UserWarning, "duplicate")),
    ),
}

GRAPH = {
    "D-second-backward": Row(
        Side(lambda: q.twice_backward(leaf([3.0])), [12.0]),
        Side(lambda: q.twice_backward(twin([3.0])), Raises(RuntimeError, "second time")),
    ),
    "D-grad-array": Row(
        Side(lambda: type(q.after_backward(leaf([3.0])).grad).__name__, "ndarray"),
        Side(lambda: type(q.after_backward(twin([3.0])).grad).__name__, "Tensor"),
    ),
    "D-asarray": Row(
        Side(lambda: np.asarray(leaf([3.0])).tolist(), [3.0]),
        Side(lambda: np.asarray(twin([3.0])), Raises(RuntimeError, "detach")),
    ),
    "D-from-numpy": Row(
        Side(lambda: q.watched(lambda a: Tensor.from_numpy(a, requires_grad=True)), Raises(errors.MutatedError)),
        Side(lambda: q.watched(lambda a: torch.from_numpy(a).requires_grad_()), [18.0, 2.0]),
    ),
    "D-data-watched": Row(
        Side(lambda: q.changed_between(x := leaf([1.0, 1.0]), x.data), Raises(errors.MutatedError)),
        Side(lambda: q.changed_between(x := twin([1.0, 1.0]), x.data), [18.0, 2.0]),
    ),
    "D-in-place-leaf": Row(
        Side(lambda: q.alias_follows(leaf([1.0])), Raises(errors.InPlaceError, "no_grad")),
        Side(lambda: q.alias_follows(twin([1.0])), Raises(RuntimeError, "in-place")),
        Side(lambda: q.alias_follows(np.ones(1)), True),
    ),
    "D-in-place": three(q.alias_follows, lambda: np.ones(1), False, True, True),
    "D-assignment": three(q.assign, lambda: np.ones(1), Raises(errors.InPlaceError, "where"), [5.0], [5.0]),
    "D-out": Row(
        Side(lambda: np.exp(Tensor([0.0]), out=np.zeros(1)), Raises(errors.InPlaceError, "out=")),
        Side(lambda: torch.exp(torch.zeros(1), out=torch.zeros(1)).tolist(), [1.0]),
        Side(lambda: np.exp(np.zeros(1), out=np.zeros(1)).tolist(), [1.0]),
    ),
    "D-put-along-axis": Row(
        Side(lambda: q.put(ta.put_along_axis, Tensor([1.0, 2.0])), [[9.0, 2.0], [1.0, 2.0]]),
        None,
        Side(lambda: q.put(np.put_along_axis, np.array([1.0, 2.0])), [None, [9.0, 2.0]]),
    ),
    "D-option-tensor": Row(
        Side(lambda: np.clip(leaf([1.0]), leaf(2.0), None), Raises(errors.GradientError, "option")),
        Side(lambda: torch.clamp(twin([1.0]), twin(2.0)).requires_grad, True),
    ),
    "D-list-of-tensors": Row(
        Side(lambda: Tensor([leaf(1.0)]), Raises(errors.DtypeError, "stack")),
        Side(lambda: torch.tensor([torch.tensor(1.0)]).requires_grad, False),
    ),
    "D-pickle": Row(
        Side(lambda: pickle.dumps(nn.Linear(1, 1)), Raises(TypeError, "serialize")),
        Side(lambda: type(pickle.loads(pickle.dumps(torch.nn.Linear(1, 1)))).__name__, "Linear"),
        Side(lambda: pickle.loads(pickle.dumps(np.ones(1))).tolist(), [1.0]),
    ),
    "D-hash": three(lambda x: isinstance(hash(x), int), lambda: ones(1), True, True, Raises(TypeError)),
    "D-step-functions": Row(
        Side(lambda: [type(f(leaf([2.5]))).__name__ for f in (np.floor, np.sign, np.round)], ["ndarray"] * 3),
        Side(
            lambda: [q.twin_slopes(f, [2.5])[1] for f in (torch.floor, torch.sign, torch.round)],
            [[0.0], [0.0], [0.0]],
        ),
    ),
    "D-comparisons": three(lambda x: type(x > 0).__name__, lambda: ones(1), "ndarray", "Tensor", "ndarray"),
    "D-arrays": Row(
        Side(lambda: type(ta.softmax(ones(2))).__name__, "ndarray"),
        Side(lambda: torch.softmax(ones(2), 0), Raises(TypeError)),
    ),
}

NUMBERS_AND_SHAPES = {
    "D-float-list": Row(
        Side(lambda: q.dtype(Tensor([1.0])), "float32"),
        Side(lambda: q.dtype(torch.tensor([1.0])), "float32"),
        Side(lambda: q.dtype(np.array([1.0])), "float64"),
    ),
    "D-numpy-scalar": three(lambda x: q.dtype(x * np.float64(2.0)), lambda: ones(2), "float64", "float32", "float64"),
    "D-integers-and-floats": Row(
        Side(lambda: q.dtype(Tensor(ones(1)) * Tensor([1])), "float64"),
        Side(lambda: q.dtype(torch.ones(1) * torch.tensor([1])), "float32"),
        Side(lambda: q.dtype(ones(1) * np.array([1])), "float64"),
    ),
    "D-function-of-integers": Row(
        Side(lambda: q.dtype(np.sqrt(Tensor([4]))), "float64"),
        Side(lambda: q.dtype(torch.sqrt(torch.tensor([4]))), "float32"),
        Side(lambda: q.dtype(np.sqrt(np.array([4]))), "float64"),
    ),
    "D-mean-of-integers": three(lambda x: x.mean().item(), lambda: IDS, 1.0, Raises(RuntimeError), 1.0),
    "D-mixed-precision": Row(
        Side(lambda: q.dtype(Tensor(ones(1, 1)) @ Tensor(HALVES[:1])), "float64"),
        Side(lambda: torch.ones(1, 1) @ twin(HALVES[:1]), Raises(RuntimeError, "dtype")),
        Side(lambda: q.dtype(ones(1, 1) @ HALVES[:1]), "float64"),
    ),
    "D-complex": Row(
        Side(lambda: q.dtype(Tensor([1j])), "complex64"),
        Side(lambda: q.dtype(torch.tensor([1j])), "complex64"),
        Side(lambda: q.dtype(np.array([1j])), "complex128"),
    ),
    "D-interp-dtype": Row(
        Side(lambda: q.dtype(np.interp(Tensor([0.5]), ones(2).cumsum(), ones(2))), "float32"),
        None,
        Side(lambda: q.dtype(np.interp(ones(1), ones(2), ones(2))), "float64"),
    ),
    "D-std-correction": three(
        lambda x: [x.std().item() ** 2, x.var().item()],
        lambda: np.array([1.0, 2.0, 3.0]),
        [2 / 3, 2 / 3],
        [1.0, 1.0],
        [2 / 3, 2 / 3],
    ),
    "D-max-axis": three(lambda x: type(x.max(0)).__name__, lambda: GRID, "Tensor", "max", "ndarray"),
    "D-transpose": three(
        lambda x: list((x.mT if q.library(x) is torch else x.T).shape),
        lambda: ones(2, 3, 4),
        [4, 3, 2],
        [2, 4, 3],
        [4, 3, 2],
    ),
    "D-size": three(lambda x: x.size if isinstance(x.size, int) else x.size(), lambda: GRID, 6, (2, 3), 6),
    "D-split": three(lambda x: len(q.library(x).split(x, 2)), lambda: ones(6), 2, 3, 2),
    "D-repeat": three(lambda x: x.repeat(2).tolist(), lambda: IDS * [1, 2], [1, 1, 2, 2], [1, 2, 1, 2], [1, 1, 2, 2]),
    "D-pad": Row(
        Side(lambda: np.pad(Tensor(GRID), ((1, 0), (0, 0))).shape, (3, 3)),
        Side(lambda: tuple(functional("pad")(twin(GRID), (1, 0, 0, 0)).shape), (2, 4)),
        Side(lambda: np.pad(GRID, ((1, 0), (0, 0))).shape, (3, 3)),
    ),
    "D-reversed": three(lambda x: x[::-1].tolist(), lambda: IDS * [1, 2], [2, 1], Raises(ValueError), [2, 1]),
    "D-softmax-axis": Row(
        Side(lambda: ta.softmax(Tensor(ones(2, 3, 4)))[0, 0, 0].item(), 1 / 4),
        Side(lambda: functional("softmax")(torch.ones(2, 3, 4)), Raises(UserWarning, "Implicit dimension")),
    ),
}

SAME = {
    "S-integer-list": Row(
        Side(lambda: q.dtype(Tensor([1])), "int64"),
        Side(lambda: q.dtype(torch.tensor([1])), "int64"),
        Side(lambda: q.dtype(np.array([1])), "int64"),
    ),
    "S-no-grad-in-generator": Row(
        Side(lambda: q.recorded_beside_generator(ta.no_grad, leaf([1.0])), [False, True]),
        Side(lambda: q.recorded_beside_generator(torch.no_grad, twin([1.0])), [False, True]),
    ),
    "S-in-place-under-no-grad": Row(
        Side(lambda: q.one_more_under(ta.no_grad, leaf([1.0])), [2.0]),
        Side(lambda: q.one_more_under(torch.no_grad, twin([1.0])), [2.0]),
    ),
    "S-attention-empty-row": Row(
        Side(lambda: q.attention(mask=np.array([[True, True], [False, False]])), [[1.0, 1.0], [0.0, 0.0]]),
        Side(lambda: q.twin_attention(attn_mask=np.array([[True, True], [False, False]])), [[1.0, 1.0], [0.0, 0.0]]),
    ),
    "S-amax-ties": point(np.max, lambda x: torch.amax(x), [[3.0, 3.0]], [3.0, [0.5, 0.5]], [3.0, [0.5, 0.5]]),
    "S-kinks": point(ta.relu, lambda x: torch.relu(x), [[0.0]], [[0.0], [0.0]], [[0.0], [0.0]]),
    "S-norm": point(
        np.linalg.norm, lambda x: torch.linalg.vector_norm(x), [[0.0, 0.0]], [0.0, [0.0, 0.0]], [0.0, [0.0, 0.0]]
    ),
}

DIFFERENT = {**SINGULAR_POINTS, **LOSSES, **ATTENTION, **MODELS, **GRAPH, **NUMBERS_AND_SHAPES}
ROWS = {**DIFFERENT, **SAME}
LIBRARIES = ("here", "torch", "numpy")
ASKED = [(row, library) for row in ROWS for library in LIBRARIES if getattr(ROWS[row], library) is not None]


@pytest.mark.parametrize(("row", "library"), ASKED, ids=[f"{row}-{library}" for row, library in ASKED])
def test_each_library_answers_as_the_table_says(row: str, library: str) -> None:
    ask, answer = getattr(ROWS[row], library)
    with np.errstate(all="ignore"):
        if isinstance(answer, Raises):
            with pytest.raises(answer.error, match=answer.match):
                ask()
        else:
            assert q.same(ask(), answer)


@pytest.mark.parametrize("row", DIFFERENT)
def test_a_difference_is_one(row: str) -> None:
    here, *others = (side.answer for side in ROWS[row][:3] if side is not None)
    asked_differently = {"D-cross-entropy-layout", "D-causal-lengths"}
    assert row in asked_differently or not all(q.same(here, other) for other in others)


def test_the_page_and_the_tests_have_the_same_rows() -> None:
    """And a cell that says something of a library is one that a test asks."""
    cells = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if re.search(r"`[DS]-[a-z-]+` \|$", line)
    ]
    found = {cell[-1].strip("`"): cell for cell in cells}
    assert len(found) == len(cells)
    assert found.keys() == ROWS.keys()
    for name, (_, theirs, numpy, here, why, _) in found.items():
        assert here and why, name
        assert (theirs != "–", numpy != "–") == (ROWS[name].torch is not None, ROWS[name].numpy is not None), name
