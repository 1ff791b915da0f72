"""scipy.stats: densities and distribution functions, written with `special`. Every argument has a gradient, unless the
function beneath has none: the shape parameters of a cdf.

>>> import numpy as np
>>> float(norm.logpdf(np.array(0.0)).round(4))
-0.9189
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_attn import ops
from tinygrad_attn.scipy import special
from tinygrad_attn.tensor import plain

__all__ = ["beta", "chi2", "dirichlet", "gamma", "multivariate_normal", "norm", "poisson", "t"]

_LOG_TWO_PI = math.log(2.0 * math.pi)


def _weak(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a Python number for Python numbers, which leaves the dtype of what it is added to alone."""

    def evaluated(*args: Any) -> Any:
        value = function(*args)
        return float(value) if all(isinstance(arg, (int, float)) for arg in args) else value

    return evaluated


_log = _weak(np.log)


class norm:
    """The normal distribution with mean `loc` and standard deviation `scale`."""

    @staticmethod
    def logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Logarithm of the density: −½ z² − ln scale − ½ ln 2π, z = (x − loc) / scale."""
        return -0.5 * np.square((x - loc) / scale) - _log(scale) - 0.5 * _LOG_TWO_PI

    @staticmethod
    def pdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The density."""
        return np.exp(norm.logpdf(x, loc, scale))

    @staticmethod
    def cdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Probability of a value below x: Φ(z)."""
        return special.ndtr((x - loc) / scale)

    @staticmethod
    def sf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Probability of a value above x: Φ(−z)."""
        return special.ndtr((loc - x) / scale)

    @staticmethod
    def logcdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Logarithm of `cdf`."""
        return special.log_ndtr((x - loc) / scale)

    @staticmethod
    def logsf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Logarithm of `sf`."""
        return special.log_ndtr((loc - x) / scale)


class t:
    """Student's distribution with `df` degrees of freedom."""

    @staticmethod
    def logpdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Logarithm of the density: −½ (df + 1) ln(1 + z²/df) − ln B(½, df/2) − ½ ln df − ln scale."""
        z = (x - loc) / scale
        half = df / 2.0
        return -(half + 0.5) * np.log1p(z * z / df) - _weak(special.betaln)(0.5, half) - 0.5 * _log(df) - _log(scale)

    @staticmethod
    def pdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The density."""
        return np.exp(t.logpdf(x, df, loc, scale))

    @staticmethod
    def cdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Probability of a value below x: ½ + ½ sign(z) I(½, ½ df; z²/(df + z²)); df is a constant."""
        z = (x - loc) / scale
        near = z * z / (df + z * z)
        inside = special.betainc(0.5, df / 2.0, np.where(np.equal(z, 0), 0.5, near))
        slope_at_0 = z * _weak(np.exp)(t.logpdf(0.0, df))  # where the incomplete function has an infinite slope
        return 0.5 + np.where(np.equal(z, 0), slope_at_0, 0.5 * np.sign(plain(z)) * inside)

    @staticmethod
    def logcdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Logarithm of `cdf`."""
        return np.log(t.cdf(x, df, loc, scale))


class gamma:
    """The gamma distribution with shape a."""

    @staticmethod
    def logpdf(x: Any, a: Any) -> Any:
        """Logarithm of the density: (a − 1) ln x − x − ln Γ(a)."""
        return special.xlogy(a - 1.0, x) - x - _weak(special.gammaln)(a)

    @staticmethod
    def pdf(x: Any, a: Any) -> Any:
        """The density."""
        return np.exp(gamma.logpdf(x, a))

    @staticmethod
    def cdf(x: Any, a: Any) -> Any:
        """Probability of a value below x; a is a constant."""
        return special.gammainc(a, x)


class beta:
    """The beta distribution on (0, 1)."""

    @staticmethod
    def logpdf(x: Any, a: Any, b: Any) -> Any:
        """Logarithm of the density: (a − 1) ln x + (b − 1) ln(1 − x) − ln B(a, b)."""
        return special.xlogy(a - 1.0, x) + special.xlogy(b - 1.0, 1.0 - x) - _weak(special.betaln)(a, b)

    @staticmethod
    def pdf(x: Any, a: Any, b: Any) -> Any:
        """The density."""
        return np.exp(beta.logpdf(x, a, b))

    @staticmethod
    def cdf(x: Any, a: Any, b: Any) -> Any:
        """Probability of a value below x; a and b are constants."""
        return special.betainc(a, b, x)


class chi2:
    """The distribution of a sum of df squares of standard normal variables."""

    @staticmethod
    def logpdf(x: Any, df: Any) -> Any:
        """Logarithm of the density: that of `gamma` at x/2, minus ln 2."""
        return gamma.logpdf(x / 2.0, df / 2.0) - math.log(2.0)

    @staticmethod
    def pdf(x: Any, df: Any) -> Any:
        """The density."""
        return np.exp(chi2.logpdf(x, df))

    @staticmethod
    def cdf(x: Any, df: Any) -> Any:
        """Probability of a value below x; df is a constant."""
        return special.gammainc(df / 2.0, x / 2.0)


class poisson:
    """The Poisson distribution with mean mu; its gradients are by mu."""

    @staticmethod
    def logpmf(k: Any, mu: Any) -> Any:
        """Logarithm of the probability: k ln mu − mu − ln k!."""
        return special.xlogy(k, mu) - mu - _weak(special.gammaln)(k + 1.0)

    @staticmethod
    def pmf(k: Any, mu: Any) -> Any:
        """The probability of k."""
        return np.exp(poisson.logpmf(k, mu))

    @staticmethod
    def cdf(k: Any, mu: Any) -> Any:
        """Probability of k or less."""
        return special.gammaincc(np.floor(plain(k)) + 1.0, mu)


class multivariate_normal:
    """The normal distribution of vectors with covariance `cov`, (n, n), symmetric positive definite."""

    @staticmethod
    def logpdf(x: Any, mean: Any, cov: Any) -> Any:
        """Logarithm of the density: −½ (zᵀ cov⁻¹ z + ln det cov + n ln 2π), z = x − mean; (..., n) -> (...)."""
        z = np.expand_dims(x - mean, -1)  # (..., n, 1)
        lower = np.linalg.cholesky(cov)  # (n, n)
        whitened = ops.solve(lower, z)[..., 0]  # (..., n)
        log_root = np.sum(np.log(np.diagonal(lower, axis1=-2, axis2=-1)), axis=-1)  # half of ln det
        return -0.5 * np.sum(np.square(whitened), axis=-1) - log_root - 0.5 * cov.shape[-1] * _LOG_TWO_PI

    @staticmethod
    def pdf(x: Any, mean: Any, cov: Any) -> Any:
        """The density."""
        return np.exp(multivariate_normal.logpdf(x, mean, cov))

    @staticmethod
    def entropy(mean: Any, cov: Any) -> Any:
        """½ (ln det cov + n ln 2πe), whatever the mean is."""
        return 0.5 * np.linalg.slogdet(cov)[1] + 0.5 * cov.shape[-1] * (_LOG_TWO_PI + 1.0)


class dirichlet:
    """The distribution of weights that sum to one, with parameters alpha, (n,)."""

    @staticmethod
    def logpdf(x: Any, alpha: Any) -> Any:
        """Logarithm of the density: Σ (alpha − 1) ln x + ln Γ(Σ alpha) − Σ ln Γ(alpha), over the first axis of x."""
        shape = np.shape(alpha) + (1,) * (np.ndim(x) - 1)
        powers = np.sum(special.xlogy(np.reshape(alpha, shape) - 1.0, x), axis=0)
        return powers + _weak(special.gammaln)(np.sum(alpha)) - np.sum(_weak(special.gammaln)(alpha))

    @staticmethod
    def pdf(x: Any, alpha: Any) -> Any:
        """The density."""
        return np.exp(dirichlet.logpdf(x, alpha))
