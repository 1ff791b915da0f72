"""Layers against their formulas; PyTorch's own numbers are compared in tests/parity."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tinygrad_attn import Tensor, nn
from tinygrad_attn.errors import DtypeError, IndexRangeError, OptionError, ShapeError

sizes = st.integers(1, 5)
leading = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@given(sizes, sizes, leading, st.booleans(), st.integers(0, 2**32 - 1))
def test_linear_is_the_weight_transposed_plus_bias(n, m, shape, bias, seed):
    rng = np.random.default_rng(seed)
    layer = nn.Linear(n, m, bias, rng=rng, dtype=np.float64)
    x = rng.normal(size=(*shape, n))
    expected = x @ layer.weight.numpy().T + (layer.bias.numpy() if bias else 0.0)
    out = layer(x)
    assert out.shape == (*shape, m) and out.dtype == np.float64
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12, atol=1e-12)


@given(sizes, leading, st.integers(0, 2**32 - 1))
def test_layer_norm_gives_mean_zero_and_variance_one(dim, shape, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(3.0, 5.0, size=(*shape, dim + 1))
    out = nn.LayerNorm(dim + 1, eps=0.0, dtype=np.float64)(x).numpy()
    np.testing.assert_allclose(out.mean(axis=-1), 0.0, atol=1e-9)
    np.testing.assert_allclose(out.var(axis=-1), 1.0, rtol=1e-6)


@given(sizes, leading, st.integers(0, 2**32 - 1))
def test_rms_norm_gives_mean_square_one_and_no_care_for_scale(dim, shape, seed):
    x = np.random.default_rng(seed).normal(3.0, 5.0, size=(*shape, dim))
    norm = nn.RMSNorm(dim, eps=0.0, dtype=np.float64)
    np.testing.assert_allclose(np.mean(norm(x).numpy() ** 2, axis=-1), 1.0, rtol=1e-9)
    np.testing.assert_allclose(norm(1e3 * x).numpy(), norm(x).numpy(), rtol=1e-9)


def test_rms_norm_of_zeros_is_zeros_with_finite_gradients():
    layer, x = nn.RMSNorm(3, dtype=np.float64), Tensor(np.zeros((2, 3)), requires_grad=True)
    layer(x).backward(np.ones((2, 3)))
    assert not layer(x).numpy().any()
    np.testing.assert_allclose(x.grad, 1 / np.sqrt(1e-5), rtol=1e-12)


@given(sizes, sizes, leading, st.data())
def test_embedding_reads_rows(count, dim, shape, data):
    ids = np.array(data.draw(st.lists(st.integers(0, count - 1), min_size=9, max_size=9))).repeat(3)
    ids = ids[: int(np.prod(shape, dtype=int))].reshape(shape)
    layer = nn.Embedding(count, dim)
    np.testing.assert_array_equal(layer(ids).numpy(), layer.weight.numpy()[ids])
    layer(ids).sum().backward()
    times = np.bincount(ids.reshape(-1), minlength=count)
    np.testing.assert_array_equal(layer.weight.grad, np.repeat(times[:, None], dim, axis=1))


def test_padding_is_zero_and_stays_so():
    layer = nn.Embedding(4, 3, padding_index=1)
    layer(np.array([0, 1, 1])).sum().backward()
    assert not layer.weight.numpy()[1].any() and not layer.weight.grad[1].any() and layer.weight.grad[0].all()


def test_dropout_keeps_the_mean_in_training_and_everything_in_evaluation():
    layer, x = nn.Dropout(0.25, rng=np.random.default_rng(0)), np.ones(100_000)
    out = layer(x)
    assert set(np.unique(out)) == {0.0, 1.0 / 0.75}
    assert abs(out.mean() - 1.0) < 0.01
    assert layer.eval()(x) is x


def test_dropout_repeats_with_the_seed_and_draws_anew_with_each_call():
    layer, x = nn.Dropout(0.5), Tensor(np.ones(64))
    ta.manual_seed(3)
    first, second = layer(x).numpy(), layer(x).numpy()
    ta.manual_seed(3)
    np.testing.assert_array_equal(layer(x).numpy(), first)
    assert not np.array_equal(first, second)


def test_parameters_take_the_default_dtype_or_the_one_asked_for():
    assert nn.Linear(2, 2).weight.dtype == np.float32
    for layer in (nn.Linear(2, 2, dtype=np.float64), nn.Embedding(2, 2, dtype="f8"), nn.LayerNorm(2, dtype=float)):
        assert {p.dtype for p in layer.parameters()} == {np.dtype(np.float64)}
    ta.set_default_dtype(np.float64)
    try:
        assert nn.Linear(2, 2).bias.dtype == np.float64
    finally:
        ta.set_default_dtype(np.float32)


def test_the_same_generator_gives_the_same_layer():
    def make():
        rng = np.random.default_rng(5)
        return nn.Sequential(nn.Linear(3, 4, rng=rng), nn.Embedding(3, 4, rng=rng)).state_dict()

    for one, other in zip(make().values(), make().values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_wrong_length_is_named_with_the_parameter():
    class Model(nn.Module):
        def __init__(self):
            self.query = nn.Linear(4, 4)

    with pytest.raises(ShapeError, match=r"expected 4, given 3[\s\S]*query\.weight"):
        Model().query(np.ones((2, 3), np.float32))
    with pytest.raises(ShapeError):
        nn.LayerNorm(4)(np.ones((2, 3), np.float32))
    with pytest.raises(ShapeError, match=r"gain \(weight\) +\(4,\)"):
        nn.RMSNorm(4)(np.ones((2, 3), np.float32))


@pytest.mark.parametrize(
    "ids, error",
    [([5], IndexRangeError), ([-1], IndexRangeError), ([0.0], DtypeError)],
    ids=["above", "below", "float"],
)
def test_ids_outside_the_table_are_refused(ids, error):
    with pytest.raises(error):
        nn.Embedding(5, 2)(np.array(ids))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(0, 1),
        lambda: nn.Linear(1, -1),
        lambda: nn.Linear(2.0, 1),
        lambda: nn.Linear(True, 1),
        lambda: nn.Embedding(0, 1),
        lambda: nn.LayerNorm(0),
        lambda: nn.LayerNorm(2, eps=-1.0),
        lambda: nn.LayerNorm(2, eps=float("nan")),
        lambda: nn.RMSNorm(0),
        lambda: nn.RMSNorm(2, eps=-1.0),
        lambda: nn.Dropout(1.5),
        lambda: nn.Dropout(float("nan")),
    ],
)
def test_impossible_settings_are_refused_at_once(make):
    with pytest.raises(OptionError, match="given"):
        make()


@pytest.mark.parametrize("index", [-1, 3, 4])
def test_padding_outside_the_table_is_refused(index):
    with pytest.raises(IndexRangeError, match="id of the pad token"):
        nn.Embedding(3, 2, padding_index=index)


@pytest.mark.parametrize("index", [1.0, True, "1"])
def test_padding_is_an_integer(index):
    with pytest.raises(DtypeError, match="padding_index is an id"):
        nn.Embedding(3, 2, padding_index=index)


@pytest.mark.parametrize("p", ["0.5", True, None])
def test_a_probability_is_a_number(p):
    with pytest.raises(OptionError, match="must lie in"):
        nn.Dropout(p)


@pytest.mark.parametrize("layer", [nn.LayerNorm, nn.RMSNorm, nn.BatchNorm1d])
@pytest.mark.parametrize("eps", [-1e-5, math.nan, math.inf, "1e-5", None, True], ids=repr)
def test_eps_is_a_finite_number(layer, eps):
    with pytest.raises(OptionError, match=f"{layer.__name__}: eps"):
        layer(2, eps=eps)


@pytest.mark.parametrize("x", [np.arange(1, 1001), list(range(1, 1001)), Tensor(np.arange(1, 1001))], ids=type)
def test_dropout_scales_whole_numbers_as_it_scales_others(x):
    dropped = np.asarray(nn.Dropout(0.25, rng=np.random.default_rng(0))(x), dtype=np.float64)
    kept = dropped != 0.0
    assert 0.7 < kept.mean() < 0.8
    np.testing.assert_allclose(dropped[kept], np.arange(1, 1001)[kept] / 0.75, rtol=1e-6)
