"""Complex numbers taken apart: real and imaginary part, conjugate, angle.

None of these has a complex derivative. Each rule is the line δL = Re(dy δy), read as δL = Re(dz δz); how gradients of
complex numbers are told to users is in docs/complex.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_attn.domain import complexes, flag
from tinygrad_attn.operation import op
from tinygrad_attn.registry import implements
from tinygrad_attn.tensor import plain


@op(np.real, symbol="Re", elementwise=True, complex=True, domain=complexes())
def real(z: Any) -> Any:
    """Real part.

    y = Re z
    """
    return np.real(z)


@real.gradient("z", formula="dz = dy")
def _(g: Any, out: Any, z: Any) -> Any:
    return g


@op(np.imag, symbol="Im", elementwise=True, complex=True, domain=complexes())
def imag(z: Any) -> Any:
    """Imaginary part.

    y = Im z = Re(−i z)
    """
    return np.imag(z)


@imag.gradient("z", formula="dz = −i dy")
def _(g: Any, out: Any, z: Any) -> Any:
    return g * -1j


@op(np.conjugate, symbol="z̄", elementwise=True, complex=True, domain=complexes())
def conjugate(z: Any) -> Any:
    """The mirror image below the real axis.

    y = z̄ = Re z − i Im z
    """
    return np.conjugate(z)


@conjugate.gradient("z", formula="dz = conj(dy)")
def _(g: Any, out: Any, z: Any) -> Any:
    return g.conj()


@op(
    np.angle,
    symbol="∠",
    elementwise=True,
    complex=True,
    domain=complexes(low=0.2, high=3.0),
    options={"deg": flag},
)
def angle(z: Any, *, deg: bool = False) -> Any:
    """Direction of a complex number, in (−π, π]; at 0, which lies in no direction, the slope is taken as 0.

    y = Im ln z, or 180/π times that if `deg`
    """
    return np.angle(z, deg)


@angle.gradient("z", formula="dz = −i dy / z, and 0 where z = 0; with deg, 180/π times that")
def _(g: Any, out: Any, z: Any, *, deg: bool) -> Any:
    return g * (-180j / math.pi if deg else -1j) / np.where(np.equal(z, 0), np.inf, z)


@implements(np.sign)
def sign(x: Any) -> Any:
    """−1, 0 or 1 for real numbers, in a plain array: its slope is 0. For complex ones their direction, recorded.

    y = z / |z|, and 0 where z = 0
    """
    if plain(x).dtype.kind != "c":
        return np.sign(plain(x))
    length = np.absolute(x)
    return x / np.where(np.equal(length, 0), np.inf, length)


@implements(np.real_if_close)
def real_if_close(a: Any, tol: float = 100) -> Any:
    """The real part, if all imaginary parts are within `tol` units in the last place of 0; else `a` as it is."""
    return a if np.iscomplexobj(np.real_if_close(plain(a), tol)) else a.real
