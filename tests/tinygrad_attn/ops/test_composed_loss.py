from __future__ import annotations

import numpy as np
import pytest

import tinygrad_attn as ta


@pytest.mark.parametrize("shape", [(3,), (4, 3), (4, 5, 3), (3, 4, 2)])
@pytest.mark.parametrize("p", [1, 2])
def test_the_hinge_loss_of_any_number_of_places_is_the_mean_of_theirs(shape: tuple[int, ...], p: int) -> None:
    rng = np.random.default_rng(0)
    scores, target = rng.normal(size=shape), rng.integers(0, shape[-1], shape[:-1])
    each = [
        sum(max(0.0, 1.0 - row[t] + row[j]) ** p for j in range(shape[-1]) if j != t) / shape[-1]
        for row, t in zip(scores.reshape(-1, shape[-1]), target.reshape(-1), strict=True)
    ]
    assert float(ta.multi_margin_loss(scores, target, p=p)) == pytest.approx(np.mean(each), rel=1e-12)


def test_without_a_margin_a_pair_in_order_costs_nothing() -> None:
    assert float(ta.margin_ranking_loss(np.array([1.0]), np.array([0.5]), 1.0)) == 0.0
    assert float(ta.margin_ranking_loss(np.array([1.0]), np.array([0.5]), -1.0)) == 0.5
