"""Convolution, pooling and batch normalisation as layers: what they hold, what they say, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygrad_attn import Tensor, nn, optim
from tinygrad_attn.errors import OptionError, ShapeError


def test_the_first_values_are_drawn_within_the_bound_of_one_sum() -> None:
    layer = nn.Conv2d(8, 64, 3, groups=2, rng=np.random.default_rng(0))
    bound = 1.0 / np.sqrt(4 * 9)
    assert layer.weight.shape == (64, 4, 3, 3)
    for parameter in (layer.weight, layer.bias):
        assert 0.9 * bound < np.abs(parameter.numpy()).max() <= bound


def test_they_print_what_is_not_as_usual() -> None:
    assert repr(nn.Conv2d(2, 4, 3)) == "Conv2d(weight=(4, 2, 3, 3), bias=True)"
    shown = repr(nn.Conv1d(2, 4, 3, stride=2, padding="same", bias=False))
    assert shown == "Conv1d(weight=(4, 2, 3), stride=2, padding='same', bias=False)"
    assert repr(nn.MaxPool2d(2)) == "MaxPool2d(kernel_size=(2, 2), stride=(2, 2), padding=0)"
    assert repr(nn.AvgPool1d(3, 1)) == "AvgPool1d(kernel_size=(3,), stride=1, padding=0)"
    assert repr(nn.BatchNorm1d(4, momentum=None)) == "BatchNorm1d(4, eps=1e-05, momentum=None)"
    assert repr(nn.BatchNorm2d(4, affine=False)) == "BatchNorm2d(4, eps=1e-05, momentum=0.1, affine=False)"


def test_statistics_are_state_and_not_parameters() -> None:
    layer = nn.BatchNorm1d(3)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    assert list(layer.state_dict()) == ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    layer(np.random.default_rng(0).normal(size=(4, 3)))
    other = nn.BatchNorm1d(3)
    other.load_state_dict(layer.state_dict())
    x = np.ones((2, 3))
    np.testing.assert_array_equal(other.eval()(x).numpy(), layer.eval()(x).numpy())
    assert layer.num_batches_tracked == 1 and layer.running_mean.dtype == np.float32


def test_evaluation_moves_no_statistics_and_looks_at_no_neighbour() -> None:
    layer = nn.BatchNorm1d(2).eval()
    x = np.random.default_rng(0).normal(size=(3, 2))
    together = layer(x).numpy()
    for row, alone in zip(together, x, strict=True):
        np.testing.assert_array_equal(layer(alone[None]).numpy()[0], row)
    assert layer.num_batches_tracked == 0 and not layer.running_mean.any()


def test_before_any_batch_the_statistics_are_those_of_standard_numbers() -> None:
    x = np.array([[-2.0, 3.0], [0.5, 1.0]])
    np.testing.assert_allclose(np.asarray(nn.BatchNorm1d(2, eps=1e-9).eval()(x)), x, rtol=1e-6)
    assert nn.BatchNorm1d(2, momentum=1.0).momentum == 1.0  # the last batch alone


def test_a_batch_of_one_number_per_channel_is_refused_in_training_alone() -> None:
    layer = nn.BatchNorm1d(2)
    with pytest.raises(ShapeError, match="no variance to train on"):
        layer(np.ones((1, 2)))
    assert layer.eval()(np.ones((1, 2))).shape == (1, 2)
    assert nn.BatchNorm1d(2)(np.ones((1, 2, 3))).shape == (1, 2, 3)


def test_no_weight_decay_falls_on_a_scale() -> None:
    model = nn.Sequential(nn.Conv1d(1, 2, 3), nn.BatchNorm1d(2))
    decayed, spared = optim.decay_groups(model, 0.1)
    assert [id(p) for p in decayed["params"]] == [id(model[0].weight)]
    assert len(list(spared["params"])) == 3


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "no channels": (lambda: nn.Conv1d(0, 2, 3), OptionError, "in_channels"),
    "groups that do not divide": (lambda: nn.Conv2d(4, 6, 3, groups=4), OptionError, "groups"),
    "a size of 0": (lambda: nn.Conv2d(4, 6, 0), OptionError, "kernel_size"),
    "three sizes for two axes": (lambda: nn.MaxPool2d((2, 2, 2)), OptionError, "2 spatial axes"),
    "other channels": (lambda: nn.Conv1d(2, 2, 1)(np.ones((1, 3, 4))), ShapeError, "made for 2 channels"),
    "an image for vectors": (lambda: nn.BatchNorm1d(3)(np.ones((2, 3, 4, 4))), ShapeError, "2 or 3 axes"),
    "vectors for images": (lambda: nn.BatchNorm2d(3)(np.ones((2, 3))), ShapeError, "4 axes"),
    "other features": (lambda: nn.BatchNorm1d(3)(np.ones((2, 4))), ShapeError, "3 channels"),
    "a momentum of 2": (lambda: nn.BatchNorm1d(3, momentum=2.0), OptionError, "momentum"),
    "a negative eps": (lambda: nn.BatchNorm1d(3, eps=-1.0), OptionError, "eps"),
}


@pytest.mark.parametrize(("call", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_said(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_a_small_network_learns_to_tell_rows_from_columns() -> None:
    rng = np.random.default_rng(0)
    images, labels = np.zeros((32, 1, 6, 6), np.float32), rng.integers(0, 2, 32)
    for image, label in zip(images, labels, strict=True):
        line = rng.integers(0, 6)
        image[0, line, :] += label
        image[0, :, line] += 1 - label
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, rng=rng),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 1, rng=rng),
    )
    optimizer = optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        logits = model(Tensor(images))[:, 0]
        loss = np.mean(np.logaddexp(0.0, logits * (1 - 2 * labels).astype(np.float32)))
        model.zero_grad()
        loss.backward()
        optimizer.step()
    answers = model.eval()(Tensor(images)).numpy()[:, 0] > 0
    assert np.mean(answers == (labels == 1)) == 1.0
