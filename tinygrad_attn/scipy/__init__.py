"""Gradients for functions of SciPy; what is imported here needs the extra `scipy`, and nothing else of the engine does.

After `import tinygrad_attn.scipy`, the ufuncs of scipy.special take Tensors: `scipy.special.gammaln(t)`. SciPy's other
functions know of no tensors; their counterparts stand here under SciPy's names and take its arguments: `special`,
`linalg`, `signal`, `integrate`, `stats`. Values come from SciPy, the rules stand beside them.
"""

from tinygrad_attn.errors import MissingExtraError

try:
    import scipy as _scipy  # noqa: F401 (asked for here, so that one message says what is missing)
except ImportError as error:
    raise MissingExtraError(
        "tinygrad_attn.scipy needs the package scipy, which is not installed\n"
        "  python -m pip install 'tinygrad-attn[scipy]'"
    ) from error

from tinygrad_attn.scipy import integrate, linalg, signal, special, stats

__all__ = ["integrate", "linalg", "signal", "special", "stats"]
