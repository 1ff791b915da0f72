"""Fourier transforms: NumPy's values for every argument, and rules that count every frequency right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tinygrad_attn import Tensor
from tinygrad_attn.errors import OptionError, ShapeError

NORMS = (None, "ortho", "forward")
ONE_AXIS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL_AXES = ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2")
FROM_REAL = ("rfft", "ihfft", "rfftn", "rfft2")


def signal(name: str, *shape: int) -> Any:
    rng = np.random.default_rng(len(shape))
    values = rng.normal(size=shape)
    return values if name in FROM_REAL else values + 1j * rng.normal(size=shape)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ONE_AXIS)
def test_every_length_odd_and_even_cut_off_and_filled_up(name: str, norm: Any) -> None:
    function = getattr(np.fft, name)
    for length in (2, 3, 4, 5):
        x = signal(name, 2, length)
        for n in (None, 1, 2, 3, 4, 5, 6):
            assert_array_equal(function(Tensor(x), n, -1, norm).numpy(), function(x, n, -1, norm))
            ta.gradcheck(lambda t, n=n: function(t, n, -1, norm), x)


@pytest.mark.parametrize("name", ONE_AXIS)
def test_second_derivatives(name: str) -> None:
    function = getattr(np.fft, name)
    ta.gradgradcheck(lambda t: np.absolute(function(t, axis=0)) ** 2, signal(name, 3, 2))


@pytest.mark.parametrize("settings", [{}, {"s": (3, 4), "axes": (0, 1)}, {"axes": (2, 0)}, {"norm": "ortho"}], ids=str)
@pytest.mark.parametrize("name", SEVERAL_AXES)
def test_several_axes(name: str, settings: dict[str, Any]) -> None:
    function, x = getattr(np.fft, name), signal(name, 3, 2, 4)
    assert_allclose(function(Tensor(x), **settings).numpy(), function(x, **settings), rtol=1e-13, atol=1e-13)
    ta.gradcheck(lambda t: function(t, **settings), x)


@pytest.mark.parametrize("axes", [None, 0, (1, -1)])
@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts(name: str, axes: Any) -> None:
    function, x = getattr(np.fft, name), signal("fft", 3, 2, 4)
    assert_array_equal(function(Tensor(x), axes).numpy(), function(x, axes))
    ta.gradcheck(lambda t: function(t, axes), x)


@pytest.mark.parametrize("n", [4, 5])
def test_the_gradient_of_the_energy_is_the_same_in_both_worlds(n: int) -> None:
    """Parseval: Σ |x|² = Σ |y|² / n, and rfft's half of the frequencies counts twice where it stands for two."""
    x = Tensor(np.random.default_rng(0).normal(size=n), requires_grad=True)
    twice = np.array([1.0 if 2 * k % n == 0 else 2.0 for k in range(n // 2 + 1)])
    energy = (twice * np.absolute(np.fft.rfft(x)) ** 2).sum() / n
    assert_allclose(energy.item(), np.sum(x.numpy() ** 2))
    energy.backward()
    assert_allclose(x.grad, 2.0 * x.numpy())


@pytest.mark.parametrize("n", [4, 5])
def test_a_transform_and_its_inverse_hand_the_gradient_through(n: int) -> None:
    x = Tensor(np.arange(float(n)), requires_grad=True)
    upstream = np.linspace(-1.0, 2.0, n)
    for there_and_back in (
        lambda x: np.fft.irfft(np.fft.rfft(x), n),
        lambda x: np.fft.ifft(np.fft.fft(x)).real,
        lambda x: np.fft.hfft(np.fft.ihfft(x), n),
    ):
        x.zero_grad()
        there_and_back(x).backward(upstream)
        assert_allclose(x.grad, upstream, atol=1e-14)


def test_the_imaginary_part_of_what_must_be_real_has_no_slope() -> None:
    for n in (4, 5):
        y = Tensor(np.fft.rfft(np.arange(float(n))), requires_grad=True)
        np.fft.irfft(y, n).backward(np.linspace(-1.0, 2.0, n))
        assert y.grad is not None
        assert_allclose(y.grad.imag[0], 0.0, atol=1e-15)
        if n % 2 == 0:
            assert_allclose(y.grad.imag[-1], 0.0, atol=1e-15)


def test_a_convolution_is_a_product_of_transforms() -> None:
    a, v = Tensor(np.arange(1.0, 5.0), requires_grad=True), Tensor(np.array([1.0, -2.0, 0.5]), requires_grad=True)
    upstream = np.linspace(0.5, 2.0, 6)
    direct = ta.gradients(np.convolve(a, v), [a, v], upstream)
    product = np.fft.irfft(np.fft.rfft(a, 6) * np.fft.rfft(v, 6), 6)
    for one, other in zip(ta.gradients(product, [a, v], upstream), direct, strict=True):
        assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)


def test_single_precision_stays_single() -> None:
    x = Tensor(np.ones(4, np.float32), requires_grad=True)
    y = np.fft.fft(x)
    assert y.dtype == np.complex64
    np.absolute(y).sum().backward()
    assert x.grad is not None and x.grad.dtype == np.float32


def test_errors_say_what_is_wrong() -> None:
    x = Tensor(np.ones((2, 3)))
    with pytest.raises(OptionError, match="norm must be"):
        np.fft.fft(x, norm="half")  # type: ignore[call-overload]
    with pytest.raises(ShapeError, match=r"fft: .*0"):
        np.fft.fft(x, 0)
    with pytest.raises(ShapeError, match="as many axes"):
        np.fft.fftn(x, (2, 2), (0,))
