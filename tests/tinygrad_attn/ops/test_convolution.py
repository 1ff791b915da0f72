"""Windows, convolution, pooling and batch normalisation: each is its definition, and says what does not fit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn import Tensor
from tinygrad_attn.errors import OptionError, ShapeError

RNG = np.random.default_rng(5)


def written_out(x: Any, weight: Any, stride: int, padding: int, dilation: int, groups: int) -> Any:
    """The sum in the docstring of `conv`, term by term, over two spatial axes of one image."""
    out_channels, per_group, *size = weight.shape
    padded = np.zeros((x.shape[0], *(n + 2 * padding for n in x.shape[1:])))
    padded[:, padding : padding + x.shape[1], padding : padding + x.shape[2]] = x
    out = [(n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(padded.shape[1:], size, strict=True)]
    y = np.zeros((out_channels, *out))
    for o, i, j in np.ndindex(*y.shape):
        first = o // (out_channels // groups) * per_group
        for c, k, m in itertools.product(range(per_group), *map(range, size)):
            y[o, i, j] += weight[o, c, k, m] * padded[first + c, stride * i + dilation * k, stride * j + dilation * m]
    return y


@given(
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    groups=st.sampled_from([1, 2, 4]),
    seed=st.integers(0, 99),
)
def test_a_convolution_is_the_sum_that_its_docstring_says(
    stride: int, padding: int, dilation: int, groups: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, weight = rng.normal(size=(2, 4, 5, 6)), rng.normal(size=(4, 4 // groups, 2, 3))
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    expected = np.stack([written_out(image, weight, **how) for image in x])
    assert_allclose(ta.conv(x, weight, **how), expected, rtol=1e-12, atol=1e-12)


@given(stride=st.integers(1, 3), padding=st.integers(0, 1), dilation=st.integers(1, 2), more=st.integers(0, 2))
def test_the_transposed_convolution_is_the_transpose(stride: int, padding: int, dilation: int, more: int) -> None:
    """⟨conv x, y⟩ = ⟨x, convᵀ y⟩ for all x and y."""
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": 2}
    more = min(more, stride - 1)
    rng = np.random.default_rng(0)
    weight, y = rng.normal(size=(4, 3, 3)), rng.normal(size=(2, 4, 3))
    back = ta.conv_transpose(y, weight, output_padding=more, **how)
    x = rng.normal(size=back.shape)
    assert_allclose(np.sum(ta.conv(x, weight, **how) * y), np.sum(x * back), rtol=1e-12)


def test_a_convolution_with_windows_of_one_element_is_a_linear_layer() -> None:
    x, weight, bias = RNG.normal(size=(2, 3, 5)), RNG.normal(size=(4, 3)), RNG.normal(size=4)
    rows = ta.linear(np.swapaxes(x, 1, 2), weight, bias)
    assert_allclose(ta.conv(x, weight[:, :, None], bias), np.swapaxes(rows, 1, 2), rtol=1e-12)


def test_in_one_dimension_it_is_numpys_correlation() -> None:
    x, weight = RNG.normal(size=9), RNG.normal(size=4)
    assert_allclose(ta.conv(x[None], weight[None, None])[0], np.correlate(x, weight, "valid"), rtol=1e-12)


def test_any_number_of_batch_axes_is_allowed() -> None:
    x, weight = RNG.normal(size=(2, 3, 4, 6)), RNG.normal(size=(5, 4, 3))
    together = ta.conv(x, weight)
    for i, j in np.ndindex(2, 3):
        assert_allclose(together[i, j], ta.conv(x[i, j], weight), rtol=1e-12)


def test_windows_are_a_view_and_what_lies_in_two_gets_both_gradients() -> None:
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    seen = ta.windows(x, size=(2,))
    assert np.shares_memory(seen.numpy(), x.numpy())
    seen.backward([[1.0, 10.0], [100.0, 1000.0]])
    assert_array_equal(x.grad, [1.0, 110.0, 1000.0])


def test_without_steps_windows_are_numpys() -> None:
    x = RNG.normal(size=(2, 4, 5))
    expected = np.lib.stride_tricks.sliding_window_view(x, (2, 3), (1, 2))
    assert_array_equal(ta.windows(x, size=(2, 3)), expected)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_pooling_is_the_maximum_and_the_mean_of_each_window(axes: int) -> None:
    x = RNG.normal(size=(2, 6, 6, 6))[(slice(None), *(slice(None),) * axes, *(0,) * (3 - axes))]
    for place in np.ndindex(*(3,) * axes):
        window = x[(slice(None), *(slice(2 * i, 2 * i + 2) for i in place))].reshape(2, -1)
        assert_array_equal(ta.max_pool(x, 2, axes=axes)[(slice(None), *place)], window.max(1))
        assert_allclose(ta.avg_pool(x, 2, axes=axes)[(slice(None), *place)], window.mean(1), rtol=1e-12)


def test_equal_largest_elements_of_a_window_share_its_gradient() -> None:
    x = Tensor([[1.0, 3.0], [3.0, 0.0]], requires_grad=True)
    ta.max_pool(x, 2).sum().backward()
    assert_array_equal(x.grad, [[0.0, 0.5], [0.5, 0.0]])


def test_padding_never_wins_a_maximum_and_counts_in_a_mean_unless_told_otherwise() -> None:
    x = np.full((1, 4), -2.0)
    assert_array_equal(ta.max_pool(x, (2,), padding=1), [[-2.0, -2.0, -2.0]])
    assert_array_equal(ta.avg_pool(x, (2,), padding=1), [[-1.0, -2.0, -1.0]])
    assert_array_equal(ta.avg_pool(x, (2,), padding=1, count_include_pad=False), [[-2.0, -2.0, -2.0]])


def test_whole_numbers_are_convolved_and_pooled_too() -> None:
    x = np.arange(-4, 4).reshape(1, 8)
    assert_array_equal(ta.conv(x, np.ones((1, 1, 2), int)), [[-7, -5, -3, -1, 1, 3, 5]])
    assert_array_equal(ta.max_pool(x, (2,)), [[-3, -1, 1, 3]])
    assert_array_equal(ta.max_pool(Tensor(x), (3,), padding=1).numpy(), [[-3, 0, 3]])
    assert_array_equal(ta.avg_pool(x, (2,)), [[-3.5, -1.5, 0.5, 2.5]])
    assert_array_equal(ta.avg_pool(x, (2,), padding=1, count_include_pad=False), [[-4.0, -2.5, -0.5, 1.5, 3.0]])


def test_batch_norm_over_one_place_is_layer_norm_of_the_transposed() -> None:
    x = RNG.normal(size=(5, 3))
    assert_allclose(ta.batch_norm(x).T, ta.layer_norm(x.T, np.ones(5), np.zeros(5)), rtol=1e-12)


def test_batch_norm_has_the_slopes_of_its_statistics_too() -> None:
    x, gain, bias = RNG.normal(size=(3, 2, 2)), RNG.normal(size=2), RNG.normal(size=2)
    ta.gradcheck(ta.batch_norm, x, gain, bias, order=2)
    ta.gradcheck(ta.batch_norm, x, gain, bias, RNG.normal(size=2), np.array([1.0, 2.0]), order=2)


IMAGE, FILTERS = np.ones((1, 4, 5, 5)), np.ones((2, 4, 3, 3))
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "another number of channels": (lambda: ta.conv(IMAGE, np.ones((2, 3, 3, 3))), ShapeError, "made for 3 channels"),
    "no spatial axis": (lambda: ta.conv(IMAGE, np.ones((2, 4))), ShapeError, "weight"),
    "fewer axes than the weight": (lambda: ta.conv(np.ones((5, 5)), FILTERS), ShapeError, "spatial"),
    "a bias of another length": (lambda: ta.conv(IMAGE, FILTERS, np.ones(3)), ShapeError, r"expected \(2,\)"),
    "groups that do not divide": (lambda: ta.conv(IMAGE, FILTERS, groups=3), OptionError, "groups"),
    "a window that does not fit": (lambda: ta.conv(IMAGE, np.ones((2, 4, 6, 3))), ShapeError, "does not fit"),
    "holes that do not fit": (lambda: ta.conv(IMAGE, FILTERS, dilation=3), ShapeError, "apart does not fit"),
    "no stride": (lambda: ta.conv(IMAGE, FILTERS, stride=0), OptionError, "stride"),
    "three strides for two axes": (lambda: ta.conv(IMAGE, FILTERS, stride=(1, 1, 1)), OptionError, "2 spatial axes"),
    "a negative padding": (lambda: ta.conv(IMAGE, FILTERS, padding=-1), OptionError, "padding"),
    "'same' with a stride": (lambda: ta.conv(IMAGE, FILTERS, padding="same", stride=2), OptionError, "same"),
    "an output padding of a stride": (
        lambda: ta.conv_transpose(IMAGE, np.ones((4, 2, 3, 3)), output_padding=1),
        OptionError,
        "smaller than stride",
    ),
    "nothing left": (lambda: ta.conv_transpose(IMAGE, np.ones((4, 2, 1, 1)), padding=3), ShapeError, "nothing is left"),
    "a size for an unknown number of axes": (lambda: ta.windows(IMAGE, size=3), OptionError, "each spatial axis"),
    "a pool of padding alone": (lambda: ta.max_pool(IMAGE, 2, padding=2), OptionError, "half the size"),
    "a pool that does not fit": (lambda: ta.avg_pool(IMAGE, 6), ShapeError, "does not fit"),
    "other windows than fit": (lambda: ta.overlap_add(np.ones((2, 3)), shape=(9,)), ShapeError, "windows"),
}


@pytest.mark.parametrize(("call", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_said(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
