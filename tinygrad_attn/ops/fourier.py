"""Fourier transforms: a signal as a sum of waves, e^(2πi jk/n) for k = 0 … n − 1.

The matrix of the discrete Fourier transform is symmetric, Fⱼₖ = Fₖⱼ = e^(−2πi jk/n), so each rule is the same transform
again. Several axes are transformed one after the other, as NumPy does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from tinygrad_attn.domain import any_axis, one_of, reals
from tinygrad_attn.errors import DtypeError, OptionError, ShapeError
from tinygrad_attn.operation import op
from tinygrad_attn.registry import implements

_SETTINGS: dict[str, Any] = {
    "n": one_of(None, 1, 2, 3, 4),
    "axis": any_axis,
    "norm": one_of(None, "ortho", "forward", "backward"),
}
_ANY: Any = reals(min_dims=1, min_side=1)


def fitted(x: Any, length: int, axis: int) -> Any:
    """`x` cut off or filled up with zeros at the end of one axis: what a transform does first, and its transpose."""
    axis = normalize_axis_index(axis, x.ndim)
    missing = length - x.shape[axis]
    if missing > 0:
        return np.pad(x, [(0, missing * (i == axis)) for i in range(x.ndim)])
    return x[(slice(None),) * axis + (slice(length),)] if missing else x


def known(norm: Any) -> Any:
    """`norm`, if it is one that there is."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise OptionError(f"fft: norm must be 'backward', 'ortho' or 'forward'\n  given {norm!r}")
    return norm


@op(np.fft.fft, symbol="FFT", complex=True, domain=_ANY, options=_SETTINGS)
def fft(x: Any, *, n: int | None = None, axis: int = -1, norm: Any = None) -> Any:
    """Discrete Fourier transform along one axis.

    yₖ = Σⱼ xⱼ e^(−2πi jk/n)

    Args:
        x: (..., length, ...), real or complex.
        n: length of the result; x is cut off or padded with 0 to it. The length of x if None.
        axis: the axis that is transformed.
        norm: which way is divided by n: "backward" (the inverse, also if None), "forward", or "ortho" (both by √n).
    """
    return np.fft.fft(x, n, axis, known(norm))


@op(np.fft.ifft, symbol="IFFT", complex=True, domain=_ANY, options=_SETTINGS)
def ifft(x: Any, *, n: int | None = None, axis: int = -1, norm: Any = None) -> Any:
    """Inverse of `fft`, with the same arguments.

    yⱼ = Σₖ xₖ e^(2πi jk/n) / n
    """
    return np.fft.ifft(x, n, axis, known(norm))


@op(np.fft.rfft, symbol="RFFT", complex=True, domain=_ANY, options=_SETTINGS)
def rfft(x: Any, *, n: int | None = None, axis: int = -1, norm: Any = None) -> Any:
    """The first ⌊n/2⌋ + 1 frequencies of a real signal; the others are their conjugates, yₙ₋ₖ = conj(yₖ).

    yₖ = Σⱼ xⱼ e^(−2πi jk/n) for k = 0 … ⌊n/2⌋
    """
    if np.iscomplexobj(x):
        raise DtypeError("rfft takes real numbers, given complex ones\n  np.fft.fft gives all their frequencies")
    return np.fft.rfft(x, n, axis, known(norm))


@op(np.fft.irfft, symbol="IRFFT", complex=True, domain=reals(min_dims=1, min_side=2), options=_SETTINGS)
def irfft(x: Any, *, n: int | None = None, axis: int = -1, norm: Any = None) -> Any:
    """Inverse of `rfft`: the real signal of n samples, 2 (m − 1) if None, from the first frequencies.

    yⱼ = Re Σₖ cₖ xₖ e^(2πi jk/n) / n, where cₖ = 2 for a frequency that stands for its conjugate as well: for all but
    k = 0 and, if n is even, k = n/2
    """
    return np.fft.irfft(x, n, axis, known(norm))


@fft.gradient("x", formula="dx = F dy = FFT(dy)")
def _(g: Any, y: Any, x: Any, *, n: int | None, axis: int, norm: Any) -> Any:
    return fitted(np.fft.fft(g, None, axis, norm), x.shape[axis], axis)


@ifft.gradient("x", formula="dx = F⁻¹ dy = IFFT(dy)")
def _(g: Any, y: Any, x: Any, *, n: int | None, axis: int, norm: Any) -> Any:
    return fitted(np.fft.ifft(g, None, axis, norm), x.shape[axis], axis)


@rfft.gradient("x", formula="dx = Re FFT(dy), with zeros for the frequencies left out")
def _(g: Any, y: Any, x: Any, *, n: int | None, axis: int, norm: Any) -> Any:
    return fitted(np.fft.fft(g, n or x.shape[axis], axis, norm), x.shape[axis], axis)


@irfft.gradient("x", formula="dxₖ = cₖ IFFT(dy)ₖ, cₖ = 2 for a frequency that stands for its conjugate as well, else 1")
def _(g: Any, y: Any, x: Any, *, n: int | None, axis: int, norm: Any) -> Any:
    length = g.shape[axis]
    times = np.where((2 * np.arange(length) % length == 0), 1.0, 2.0).astype(g.dtype)
    frequencies = np.moveaxis(np.fft.ifft(g, None, axis, norm), axis, -1)[..., : length // 2 + 1]
    return fitted(np.moveaxis(frequencies * times[: length // 2 + 1], -1, axis), x.shape[axis], axis)


# --- several axes ----------------------------------------------------------------------------------------------------


def _lengths_and_axes(name: str, x: Any, s: Any, axes: Any) -> list[tuple[int | None, int]]:
    """Pairs of length (None: as it is) and axis, in NumPy's reading of `s` and `axes`."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(-len(s), 0)
    axes = [normalize_axis_index(axis, x.ndim) for axis in axes]
    lengths = [None] * len(axes) if s is None else [None if n in (None, -1) else n for n in s]
    if len(lengths) != len(axes) or not axes:
        raise ShapeError(f"{name}: s and axes must name as many axes, at least one\n  given s={s}, axes={tuple(axes)}")
    return list(zip(lengths, axes, strict=True))


def _one_by_one(transform: Callable[..., Any], x: Any, pairs: list[tuple[int | None, int]], norm: Any) -> Any:
    for n, axis in reversed(pairs):
        x = transform(x, n, axis, norm)
    return x


@implements(np.fft.fftn)
def fftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """`fft` along several axes, all if None, to the lengths `s`."""
    return _one_by_one(np.fft.fft, a, _lengths_and_axes("fftn", a, s, axes), norm)


@implements(np.fft.ifftn)
def ifftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """Inverse of `fftn`."""
    return _one_by_one(np.fft.ifft, a, _lengths_and_axes("ifftn", a, s, axes), norm)


@implements(np.fft.rfftn)
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """`rfft` along the last of several axes, `fft` along the others."""
    *others, (n, last) = _lengths_and_axes("rfftn", a, s, axes)
    return _one_by_one(np.fft.fft, np.fft.rfft(a, n, last, norm), others, norm)


@implements(np.fft.irfftn)
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """Inverse of `rfftn`; the length of the last axis is 2 (m − 1) unless `s` says it."""
    *others, (n, last) = _lengths_and_axes("irfftn", a, s, axes)
    return np.fft.irfft(_one_by_one(np.fft.ifft, a, others, norm), n, last, norm)


def _over_two_axes(function: Callable[..., Any], numpy_function: Callable[..., Any]) -> None:
    @implements(numpy_function)
    def of_two_axes(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Any:
        return function(a, s, axes, norm)


for _function, _numpys in ((fftn, np.fft.fft2), (ifftn, np.fft.ifft2), (rfftn, np.fft.rfft2), (irfftn, np.fft.irfft2)):
    _over_two_axes(_function, _numpys)


# --- signals whose spectrum is real ----------------------------------------------------------------------------------

_OTHER_WAY = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


@implements(np.fft.hfft)
def hfft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None) -> Any:
    """The real spectrum of n frequencies of a signal given by its first half, the rest being its conjugate."""
    return np.fft.irfft(np.conjugate(a), n, axis, _OTHER_WAY.get(norm, norm))


@implements(np.fft.ihfft)
def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None) -> Any:
    """Inverse of `hfft`."""
    return np.conjugate(np.fft.rfft(a, n, axis, _OTHER_WAY.get(norm, norm)))


@implements(np.fft.fftshift)
def fftshift(x: Any, axes: Any = None) -> Any:
    """Frequency 0 moved from the front to the middle of each axis."""
    axes = tuple(range(x.ndim)) if axes is None else normalize_axis_tuple(axes, x.ndim)
    return np.roll(x, tuple(x.shape[axis] // 2 for axis in axes), axes)


@implements(np.fft.ifftshift)
def ifftshift(x: Any, axes: Any = None) -> Any:
    """Inverse of `fftshift`."""
    axes = tuple(range(x.ndim)) if axes is None else normalize_axis_tuple(axes, x.ndim)
    return np.roll(x, tuple(-(x.shape[axis] // 2) for axis in axes), axes)
