"""Derivatives by differences: what a gradient rule is compared with, and how far the comparison can be trusted.

The slope of L(x) = Σ u∘f(x) along one element of x, from values of f alone. Nothing here knows of gradient rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Evaluate = Callable[[], Vector]
Verdict = Literal["smooth", "kink", "jump", "edge", "stairs", "overflow", "unclear"]

EPSILON = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)  # below it, numbers lose digits

# Rounding errors of several operations add up to some units in the last place; so many are allowed for.
SAFETY = 32.0

# The first step suits a function of ordinary curvature; the finer ones are tried where it does not, such as beside a
# kink or for an x that is small against 1. They are powers of two, so that x ± h is exact for round x.
STEPS = (2.0**-12, 2.0**-20, 2.0**-28, 2.0**-36)

# What a value is off by, a slope may be off by over a length of 1, and over a part of x where x is above this.
HUGE = 2.0**14


class Slope(NamedTuple):
    """The derivative along one element.

    Attributes:
        value: the derivative.
        uncertainty: how far rounding and curvature may have moved it; `rounding`: rounding alone.
        left, right: the one-sided slopes.
        verdict: "smooth"; "kink" (left and right differ); "jump" (no slope at all); "edge" (f is not finite on both
            sides); "stairs" (f moves in steps: see `is_stairs`); "overflow" (infinities are made inside f); "unclear"
            (no step is fine enough, such as just beside a kink).
    """

    value: float
    uncertainty: float
    rounding: float
    left: float
    right: float
    verdict: Verdict


EDGE = Slope(np.nan, np.inf, np.inf, np.nan, np.nan, "edge")  # no finite values to take differences of


class _Level(NamedTuple):
    """What one step size has to say."""

    slope: Slope
    settled: bool  # halving the step changes nothing that matters
    kinked: bool  # left and right slopes differ, and go on differing as the step shrinks
    gap: float  # right slope − left slope
    step: float
    moved: bool  # whether any value has changed
    resolved: bool  # whether the gap stands out from rounding


def noise_of(evaluate: Evaluate, arrays: list[NDArray[Any]], base: Vector, rng: np.random.Generator) -> float:
    """How far a value of f may be off by rounding.

    Seen by moving every input by a few units in its last place, near x but not at it, lest a jump at x be taken for
    rounding. At least one unit in the last place of the largest value: what is small by cancellation is as noisy as
    what cancelled.
    """
    noise = max(TINY, EPSILON * float(np.max(np.abs(base[np.isfinite(base)]), initial=0.0)))
    saved = [array.copy() for array in arrays]
    try:
        for _ in range(4):
            for array, original in zip(arrays, saved, strict=True):
                array[...] = original * (1.0 + rng.uniform(-1e-7, 1e-7, original.shape))
            beside = evaluate()
            for array in arrays:
                array *= 1.0 + EPSILON * rng.integers(-2, 3, array.shape)
            moved = evaluate()
            both = np.isfinite(beside) & np.isfinite(moved)
            noise = max(noise, float(np.max(np.abs(moved[both] - beside[both]), initial=0.0)))
    finally:
        for array, original in zip(arrays, saved, strict=True):
            array[...] = original
    return noise


def slope(
    evaluate: Evaluate,
    array: NDArray[Any],
    place: tuple[int, ...],
    upstream: Vector,
    base: Vector,
    noise: float,
    cancelled: float = 0.0,
    *,
    steps: Sequence[float] | None = None,
) -> Slope:
    """The derivative of Σ upstream∘f along one element of one input.

    D(h) = (L(x + h) − L(x − h)) / 2h is extrapolated to h = 0 from D(h) and D(h/2) (Richardson), which leaves an error
    of order h⁴. Where the two disagree, or left and right slopes do, finer steps are tried; a kink that is there at
    every step, and always the same, is a kink at x itself. Where x is small and the steps are too coarse for it, or
    drown the slope in rounding, steps in proportion to x come last.

    Args:
        evaluate: the values of f for what the arrays hold now, (values,).
        array: the input; changed while measuring, and given back as it was.
        place: index of the element.
        upstream: u, (values,); 0 where f is not finite.
        base: f(x), (values,).
        noise: rounding error of a value, as far as values show it.
        cancelled: rounding error of L from large numbers that cancel inside f, if known.
        steps: steps to try, the largest first; None for the usual ones.
    """
    if base.size and not upstream.any():
        return EDGE
    x = float(array[place])
    scale = 2.0 ** np.ceil(np.log2(max(1.0, abs(x))))
    levels: list[_Level] = []
    smooth: list[_Level] = []
    try:
        for step in steps or (*(step * scale for step in STEPS), *_finer_steps(x)):
            fine = step < STEPS[-1]
            if smooth and not fine:
                continue  # only a step in proportion to x can tell more
            level = _measure(evaluate, array, place, x, step, upstream, base, noise, cancelled)
            if level is None or (fine and not level.moved):
                continue
            levels.append(level)
            exact = level.slope.uncertainty <= 1e-6 * abs(level.slope.value)
            if level.settled and not level.kinked and (exact or smooth or not fine):
                smooth.append(level)
                if exact or not level.moved:
                    break
    finally:
        array[place] = x
    if smooth:
        return min((level.slope for level in smooth), key=lambda found: found.uncertainty)
    if not levels:
        return EDGE
    # A difference of a few units in the last place of x is a step between two floating numbers, not one of f.
    quantum = SAFETY * EPSILON * scale * float(np.max(np.abs(upstream)))
    told = [level for level in levels if level.resolved]
    if len(told) > 1 and all(level.kinked for level in told):
        heights = [level.gap * level.step for level in told]
        if _steady([level.gap for level in told]):
            return told[-1].slope._replace(verdict="kink")
        if _steady(heights) and abs(heights[0]) > quantum:
            return told[-1].slope._replace(verdict="jump")
    best = min(levels, key=lambda level: level.slope.uncertainty)
    if any(
        level.kinked and abs(level.gap * level.step) > quantum for level in told
    ):  # the mean of both sides of a kink is no slope
        return best.slope._replace(verdict="unclear")
    spread = best.slope.uncertainty - best.slope.rounding
    unclear = spread > 1e-3 * abs(best.slope.value) + best.slope.rounding and spread * best.step > quantum
    return best.slope._replace(verdict="unclear") if unclear else best.slope


def is_stairs(evaluate: Evaluate, array: NDArray[Any], place: tuple[int, ...], upstream: Vector, base: Vector) -> bool:
    """Whether f stands still over a step that would show, to judge by a wider one: it rounds its values."""
    x, live = float(array[place]), upstream != 0.0
    wide, fine = (step * max(1.0, abs(x)) for step in (STEPS[0], STEPS[-1]))
    try:
        array[place] = x + wide
        far = evaluate()[live]
        array[place] = x + fine
        near = evaluate()[live]
    finally:
        array[place] = x
    expected = np.abs(far - base[live]) * (fine / wide)
    shows = expected > SAFETY * EPSILON * np.maximum(np.abs(far), np.abs(base[live]))
    return bool(shows.any() and np.array_equal(near, base[live]))


def _finer_steps(x: float) -> list[float]:
    """Steps in proportion to an x that is small against 1, below those that are tried anyway."""
    size = 2.0 ** np.floor(np.log2(abs(x))) if 0.0 < abs(x) < 1.0 else 0.0
    return [step * size for step in STEPS if TINY < step * size < STEPS[-1]]


def _steady(gaps: list[float]) -> bool:
    """Whether the gap is the same at every step: rounding error is not, a kink is."""
    return all(0.5 < gap / gaps[0] < 2.0 for gap in gaps)


def _measure(
    evaluate: Evaluate,
    array: NDArray[Any],
    place: tuple[int, ...],
    x: float,
    step: float,
    upstream: Vector,
    base: Vector,
    noise: float,
    cancelled: float,
) -> _Level | None:
    """Differences with steps h and h/2; None where f is not finite on both sides."""
    live = upstream != 0.0
    u, f0 = upstream[live], base[live]
    values = []
    for offset in (step, -step, 0.5 * step, -0.5 * step):
        array[place] = x + offset
        value = evaluate()
        if not np.isfinite(value[live]).all() or not np.array_equal(value[~live], base[~live]):
            return None  # an infinity came or went
        values.append(value[live])
    right, left, right_half, left_half = values
    wide, narrow = (x + step) - (x - step), (x + 0.5 * step) - (x - 0.5 * step)
    coarse = float(u @ (right - left)) / wide
    fine = float(u @ (right_half - left_half)) / narrow
    moved = (right != f0) | (left != f0)
    own = np.maximum(noise, EPSILON * np.maximum(np.abs(right), np.abs(left)))
    # A value that stays the same may have moved by less than the unit in its last place.
    in_sum = float(np.abs(u) @ np.where(moved, SAFETY * own, np.maximum(TINY, EPSILON * np.abs(f0))))
    rounding = max(in_sum, SAFETY * cancelled if moved.any() else 0.0) / narrow
    spread = abs(fine - coarse)
    extrapolated = fine + (fine - coarse) / 3.0
    gap = float(u @ ((right - f0) + (left - f0))) / step
    gap_half = float(u @ ((right_half - f0) + (left_half - f0))) / (0.5 * step)
    # x − h and x + h are rounded, so their middle may be a unit in the last place away from x: the slope there differs.
    rounding += SAFETY * EPSILON * abs(x) * abs(gap_half) / (0.5 * step)
    right_slope = float(u @ (right_half - f0)) / (0.5 * step)
    left_slope = float(u @ (f0 - left_half)) / (0.5 * step)
    steepest = max(abs(right_slope), abs(left_slope))
    resolved = abs(gap_half) > 4.0 * rounding + 1e-6 * steepest
    # Curvature makes a gap of h·f″, which halves with h; at a kink it stays.
    stays = abs(gap_half) > 0.75 * abs(gap) and abs(2.0 * gap_half - gap) > 4.0 * rounding + 1e-4 * steepest
    return _Level(
        Slope(extrapolated, spread + rounding, rounding, left_slope, right_slope, "smooth"),
        settled=spread <= 1e-6 * abs(extrapolated) + rounding,
        kinked=stays,
        gap=gap_half,
        step=step,
        moved=bool(moved.any()),
        resolved=resolved,
    )
