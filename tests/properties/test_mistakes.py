"""The checker finds known mistakes, names the operation that is at fault, and finds nothing where there is nothing."""

from __future__ import annotations

import pytest

from tests.properties.mistakes import MISTAKES, Mistake
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


def test_the_list_has_no_mistake_twice() -> None:
    names = [mistake.name for mistake in MISTAKES]
    assert len(names) == len(set(names)) >= 40
