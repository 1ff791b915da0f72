"""First values have the spread that their formula promises."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinygrad_attn import nn
from tinygrad_attn.errors import OptionError, ShapeError
from tinygrad_attn.nn import init

SHAPE = (300, 200)  # fan_out, fan_in


@pytest.mark.parametrize(
    "draw, std",
    [
        (init.xavier_uniform, math.sqrt(2 / 500)),
        (init.xavier_normal, math.sqrt(2 / 500)),
        (init.kaiming_uniform, math.sqrt(2 / 200)),
        (lambda shape, **options: init.kaiming_uniform(shape, slope=math.sqrt(5), **options), math.sqrt(1 / 3 / 200)),
        (lambda shape, **options: init.xavier_uniform(shape, gain=3.0, **options), 3 * math.sqrt(2 / 500)),
        (lambda shape, **options: init.normal(shape, 0.0, 0.02, **options), 0.02),
        (lambda shape, **options: init.uniform(shape, -2.0, 2.0, **options), 2 / math.sqrt(3)),
    ],
)
def test_mean_and_spread_are_as_the_formula_says(draw, std):
    values = draw(SHAPE, rng=np.random.default_rng(0), dtype=np.float64)
    assert values.shape == SHAPE and values.dtype == np.float64
    assert abs(values.std() / std - 1.0) < 0.01 and abs(values.mean()) < 0.02 * std


def test_uniform_laws_stay_inside_their_bounds():
    assert np.abs(init.xavier_uniform(SHAPE)).max() <= math.sqrt(6 / 500)
    assert np.abs(init.kaiming_uniform(SHAPE, slope=math.sqrt(5))).max() <= 1 / math.sqrt(200)


def test_uniform_is_between_0_and_1_unless_told_otherwise():
    values = init.uniform(SHAPE)
    assert 0.0 <= values.min() < 0.01 and 0.99 < values.max() <= 1.0


def test_a_linear_layer_begins_with_weights_and_biases_on_both_sides_of_zero():
    layer, bound = nn.Linear(4, 3000), 0.5
    for values in (layer.weight.numpy(), layer.bias.numpy()):
        assert -bound <= values.min() < -0.49 and 0.49 < values.max() <= bound


def test_signals_keep_their_size_through_a_wide_layer():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 400))
    through = x @ init.xavier_normal((400, 400), rng=rng, dtype=np.float64).T
    assert abs(through.std() - 1.0) < 0.05
    rectified = np.maximum(x @ init.kaiming_uniform((400, 400), rng=rng, dtype=np.float64).T, 0.0)
    assert abs(math.sqrt(np.mean(rectified**2)) - 1.0) < 0.05


def test_further_axes_count_in_both_fans():
    assert init.fans((8, 4, 3, 3)) == (36, 72)


def test_what_has_no_fans_is_refused():
    with pytest.raises(ShapeError, match=r"given shape \(3,\)"):
        init.xavier_uniform((3,))
    with pytest.raises(OptionError):
        init.normal((3,), std=-1.0)
    with pytest.raises(OptionError):
        init.uniform((3,), 1.0, 0.0)


def test_zeros_and_ones_have_the_default_dtype():
    assert init.zeros((2,)).dtype == init.ones((2,)).dtype == np.float32
    assert init.zeros((2,)).sum() == 0.0 and init.ones((2,)).sum() == 2.0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_laws_that_are_none_are_refused(bad):
    for draw in (
        lambda: init.uniform((3,), 0.0, bad),
        lambda: init.uniform((3,), -bad, 0.0),
        lambda: init.normal((3,), mean=bad),
        lambda: init.normal((3,), std=bad),
        lambda: init.xavier_uniform((3, 3), gain=bad),
        lambda: init.xavier_normal((3, 3), gain=-1.0),
        lambda: init.kaiming_uniform((3, 3), slope=bad),
    ):
        with pytest.raises(OptionError, match="finite"):
            draw()
