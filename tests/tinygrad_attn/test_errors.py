"""Errors: one base for all, and the builtin that one would catch anyway."""

from __future__ import annotations

import inspect
import pickle

import pytest

from tinygrad_attn import errors

ALL = [error for _, error in inspect.getmembers(errors, inspect.isclass) if issubclass(error, Exception)]

BUILTINS = {
    errors.ShapeError: ValueError,
    errors.DtypeError: TypeError,
    errors.ArgumentError: TypeError,
    errors.OptionError: ValueError,
    errors.MaskError: (ValueError, TypeError),
    errors.IndexRangeError: IndexError,
    errors.AxisRangeError: (ValueError, IndexError),
    errors.UnsupportedFunctionError: TypeError,
    errors.GradientError: RuntimeError,
    errors.GraphFreedError: RuntimeError,
    errors.MutatedError: RuntimeError,
    errors.InPlaceError: (TypeError, RuntimeError),
    errors.NotFiniteError: ArithmeticError,
    errors.GradientMismatch: AssertionError,
    errors.NotDifferentiableError: AssertionError,
    errors.SingularMatrixError: ValueError,
    errors.CheckError: ValueError,
    errors.CheckpointError: ValueError,
    errors.VocabularyError: ValueError,
    errors.MissingExtraError: ImportError,
    errors.RenderError: RuntimeError,
}


@pytest.mark.parametrize("error", ALL)
def test_every_error_has_the_common_base_and_says_what_it_is_for(error: type[Exception]) -> None:
    assert issubclass(error, errors.TinygradAttnError)
    assert error.__doc__


@pytest.mark.parametrize(("error", "builtin"), BUILTINS.items())
def test_every_error_is_also_the_builtin_that_one_would_catch(error: type[Exception], builtin: type[Exception]) -> None:
    for kind in builtin if isinstance(builtin, tuple) else (builtin,):
        assert issubclass(error, kind)


def test_no_error_is_left_out_of_that_table() -> None:
    assert set(ALL) == {errors.TinygradAttnError, *BUILTINS}


@pytest.mark.parametrize("error", [e for e in ALL if "__init__" not in vars(e)])
def test_errors_travel_between_processes(error: type[Exception]) -> None:
    raised = error("what came\n  what to do")
    assert str(pickle.loads(pickle.dumps(raised))) == "what came\n  what to do"
