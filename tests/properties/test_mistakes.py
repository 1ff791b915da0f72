"""The checker finds known mistakes, names the operation that is at fault, and finds nothing where there is nothing."""

from __future__ import annotations

from typing import Any

import pytest

import tinygrad_attn as ta
from tests.properties.mistakes import MISTAKES, Mistake
from tests.properties.strategies import BUILT_IN
from tinygrad_attn import Operation
from tinygrad_attn.errors import GradientMismatch, NotDifferentiableError

every_mistake = pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)


@every_mistake
def test_a_known_mistake_is_found_and_traced_to_its_operation(
    mistake: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake.inject(monkeypatch)
    with pytest.raises(GradientMismatch) as caught:
        mistake.check()
    assert not isinstance(caught.value, NotDifferentiableError)
    assert caught.value.operation == mistake.culprit


@every_mistake
def test_without_the_mistake_the_same_check_passes(mistake: Mistake) -> None:
    assert mistake.check().elements > 0


RULES = [
    pytest.param(operation, parameter, id=f"{operation.name}-{parameter}")
    for operation in BUILT_IN.values()
    for parameter in operation.rules
]


# It takes complex numbers apart with these, so that wrong rules of theirs are found in whatever it looks at first.
THE_CHECKER_S_OWN = {"real", "imag"}


@pytest.mark.parametrize(("operation", "parameter"), RULES)
def test_a_rule_that_is_off_by_one_percent_is_found_on_what_the_domain_draws(
    operation: Operation, parameter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its domain draws nothing that its gradient depends on, or the checker is blind there."""
    right = operation.joint_rule or operation.rules[parameter]

    def spoilt(*inputs: Any, **options: Any) -> Any:
        answer = right(*inputs, **options)
        if operation.joint_rule is None:
            return answer * 1.01
        named = zip(operation.rules, answer, strict=True)
        return tuple(a * 1.01 if name == parameter and a is not None else a for name, a in named)

    if operation.joint_rule is None:
        monkeypatch.setitem(operation.rules, parameter, spoilt)
    else:
        monkeypatch.setattr(operation, "joint_rule", spoilt)
    check = ta.check_operation(operation, draws=60, order=1)
    assert isinstance(check.failure, GradientMismatch)
    if operation.name not in THE_CHECKER_S_OWN:
        assert check.failure.operation == operation.name
    assert check.failure.input.startswith(parameter)


def test_the_list_has_no_mistake_twice() -> None:
    names = [mistake.name for mistake in MISTAKES]
    assert len(names) == len(set(names)) >= 40
