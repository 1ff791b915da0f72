from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_attn import schedules
from tinygrad_attn.errors import OptionError

counts = st.integers(1, 500)


@given(counts, st.integers(0, 100), st.integers(1, 400), st.floats(0.0, 1.0))
def test_warmup_cosine_rises_in_a_line_and_falls_to_the_end(step, warmup_steps, more, final):
    total = warmup_steps + more

    def factor(at):
        return schedules.warmup_cosine(at, warmup_steps=warmup_steps, total_steps=total, final=final)

    assert 0.0 <= factor(step) <= 1.0 + 1e-12
    if step <= warmup_steps:
        assert factor(step) == step / warmup_steps
    else:
        assert factor(step) <= factor(max(warmup_steps, 1)) + 1e-12 and factor(step) >= factor(step + 1) - 1e-12
    assert math.isclose(factor(total), final if more or not warmup_steps else 1.0, abs_tol=1e-12)
    assert factor(total + step) == final


@given(counts, counts, st.integers(1, 1000))
def test_noam_is_the_papers_formula_and_highest_at_the_end_of_the_warmup(step, warmup_steps, d_model):
    lr = schedules.noam(step, d_model=d_model, warmup_steps=warmup_steps)
    assert math.isclose(lr, d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5), rel_tol=1e-12)
    assert lr <= schedules.noam(warmup_steps, d_model=d_model, warmup_steps=warmup_steps) * (1 + 1e-12)


def test_the_paper_s_own_peak():
    assert math.isclose(schedules.noam(4000, d_model=512), (512 * 4000) ** -0.5, rel_tol=1e-12)


def test_the_others_at_their_corners():
    assert schedules.constant(1) == schedules.constant(10**9) == 1.0
    assert [schedules.warmup(s, warmup_steps=2) for s in (1, 2, 3)] == [0.5, 1.0, 1.0]
    assert schedules.warmup(1, warmup_steps=0) == 1.0
    assert schedules.warmup_cosine(1, warmup_steps=0, total_steps=1, final=0.25) == 0.25
    assert [schedules.step_decay(s, every=2, factor=0.5) for s in (1, 2, 3, 5)] == [1.0, 1.0, 0.5, 0.25]


@pytest.mark.parametrize(
    "call",
    [
        lambda: schedules.constant(0),
        lambda: schedules.warmup(0, warmup_steps=2),
        lambda: schedules.warmup(1, warmup_steps=-1),
        lambda: schedules.warmup_cosine(1, warmup_steps=5, total_steps=4),
        lambda: schedules.noam(1, d_model=0),
        lambda: schedules.noam(1, d_model=8, warmup_steps=0),
        lambda: schedules.step_decay(1, every=0),
    ],
)
def test_impossible_counts_are_refused(call):
    with pytest.raises(OptionError, match="given"):
        call()


EVERY = {
    "constant": lambda step: schedules.constant(step),
    "warmup": lambda step: schedules.warmup(step, warmup_steps=3),
    "warmup_cosine": lambda step: schedules.warmup_cosine(step, warmup_steps=3, total_steps=9, final=0.5),
    "noam": lambda step: schedules.noam(step, d_model=8, warmup_steps=3),
    "step_decay": lambda step: schedules.step_decay(step, every=3),
}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("step", [0, -1, 1.5, 2.0, math.nan, "3", None, True], ids=repr)
def test_a_step_is_a_whole_number_from_1(name, step):
    with pytest.raises(OptionError, match=rf"given {step!r}"):
        EVERY[name](step)


@pytest.mark.parametrize("name", EVERY)
def test_steps_counted_by_numpy_give_the_same_plain_number(name):
    for step in (1, 3, 4, 9, 10):
        rate = EVERY[name](np.int64(step))
        assert type(rate) is float and rate == EVERY[name](step)


@pytest.mark.parametrize("bad", [math.nan, -0.5, math.inf, "0.5"], ids=repr)
def test_a_factor_is_a_number_that_is_not_negative(bad):
    for step in (1, 5, 9):
        with pytest.raises(OptionError, match="final"):
            schedules.warmup_cosine(step, warmup_steps=3, total_steps=9, final=bad)
        with pytest.raises(OptionError, match="factor"):
            schedules.step_decay(step, every=3, factor=bad)


@pytest.mark.parametrize("bad", [2.5, math.nan, "2", None], ids=repr)
def test_counts_are_whole_numbers(bad):
    for call in (
        lambda: schedules.warmup(2, warmup_steps=bad),
        lambda: schedules.warmup_cosine(2, warmup_steps=1, total_steps=bad),
        lambda: schedules.noam(2, d_model=bad),
        lambda: schedules.noam(2, d_model=8, warmup_steps=bad),
        lambda: schedules.step_decay(2, every=bad),
    ):
        with pytest.raises(OptionError, match="must be a whole number"):
            call()
