"""The rows of docs/differences.md about points where a value or a gradient has to be chosen."""

from __future__ import annotations

import math

import numpy as np

import tinygrad_attn as ta
from tests.parity import questions as q
from tests.parity.questions import Raises, Row, Side, point, three, torch
from tinygrad_attn import errors

INF, NAN = math.inf, math.nan
VOID = [[-INF, -INF]]
SINGULAR = [[1.0, 2.0], [2.0, 4.0]]
SKEW = [[2.0, 2.0], [0.0, 2.0]]  # its symmetric part has ones beside the diagonal
FIRST = np.array([True, False])

SINGULAR_POINTS = {
    "D-softmax-empty-row": point(
        ta.softmax, lambda x: torch.softmax(x, 0), VOID, [[0.0, 0.0], [0.0, 0.0]], [[NAN, NAN], [NAN, NAN]]
    ),
    "D-log-softmax-empty-row": point(
        ta.log_softmax, lambda x: torch.log_softmax(x, 0), VOID, [[-INF, -INF], [0.0, 0.0]], [[NAN, NAN], [NAN, NAN]]
    ),
    "D-logsumexp-empty-row": point(
        ta.logsumexp, lambda x: torch.logsumexp(x, 0), VOID, [-INF, [0.0, 0.0]], [-INF, [NAN, NAN]]
    ),
    "D-logaddexp": point(
        np.logaddexp, lambda a, b: torch.logaddexp(a, b), [-INF, -INF], [-INF, 0.0, 0.0], [-INF, NAN, NAN]
    ),
    "D-hypot": point(np.hypot, lambda a, b: torch.hypot(a, b), [0.0, 0.0], [0.0, 0.0, 0.0], [0.0, NAN, NAN]),
    "D-ldexp": point(
        lambda x: np.ldexp(x, -3), lambda x: torch.ldexp(x, torch.tensor(-3)), [1.0], [0.125, 0.125], [0.125, 0.0]
    ),
    "D-where": point(
        lambda x: np.where(x > 0.0, np.log(x), 0.0),
        lambda x: torch.where(x > 0.0, torch.log(x), torch.zeros_like(x)),
        [[0.0, 1.0]],
        [[0.0, 0.0], [0.0, 1.0]],
        [[0.0, 0.0], [NAN, 1.0]],
    ),
    "D-masked-fill": point(
        lambda x: ta.masked_fill(np.sqrt(x), FIRST, value=0.0),
        lambda x: torch.sqrt(x).masked_fill(torch.tensor(FIRST), 0.0) * 1.0,
        [[0.0, 1.0]],
        [[0.0, 1.0], [0.0, 0.5]],
        [[0.0, 1.0], [NAN, 0.5]],
    ),
    "D-norm-second": Row(
        Side(q.second_slope_of_norm, [0.0, 0.0]),
        Side(q.twin_second_slope_of_norm, [NAN, NAN]),
    ),
    "D-max-axis-ties": point(
        lambda x: np.max(x, axis=0), lambda x: x.max(0).values, [[3.0, 3.0]], [3.0, [0.5, 0.5]], [3.0, [1.0, 0.0]]
    ),
    "D-hardtanh-ends": point(
        ta.hardtanh,
        lambda x: torch.nn.functional.hardtanh(x),
        [[-1.0, 1.0]],
        [[-1.0, 1.0], [1.0, 1.0]],
        [[-1.0, 1.0], [0.0, 0.0]],
    ),
    "D-max-pool-ties": point(
        lambda x: ta.max_pool(x, 2),
        lambda x: torch.nn.functional.max_pool2d(x[None], 2)[0],
        [[[3.0, 3.0], [3.0, 3.0]]],
        [[[3.0]], [[0.25, 0.25], [0.25, 0.25]]],
        [[[3.0]], [[1.0, 0.0], [0.0, 0.0]]],
    ),
    "D-det-singular": point(
        np.linalg.det,
        lambda a: torch.linalg.det(a),
        [SINGULAR],
        [0.0, [[4.0, -2.0], [-2.0, 1.0]]],
        [0.0, [[0.0, 0.0], [0.0, 0.0]]],
    ),
    "D-logdet-singular": point(
        lambda a: np.linalg.slogdet(a)[1],
        lambda a: torch.linalg.slogdet(a)[1],
        [[[1.0, 1.0], [1.0, 1.0]]],
        Raises(errors.SingularMatrixError, "singular"),
        [-INF, [[INF, -INF], [-INF, INF]]],
    ),
    "D-eigenvectors-equal": point(
        lambda a: np.linalg.eigh(a)[1][0, 0],
        lambda a: torch.linalg.eigh(a)[1][0, 0],
        [[[1.0, 0.0], [0.0, 1.0]]],
        Raises(errors.GradientError, "equal"),
        [1.0, [[NAN, NAN], [NAN, NAN]]],
    ),
    "D-eigvalsh-triangle": three(
        lambda a: q.library(a).linalg.eigvalsh(a).tolist(),
        lambda: np.array([[1.0, 0.0], [2.0, 1.0]]),
        [0.0, 2.0],
        [-1.0, 3.0],
        [-1.0, 3.0],
    ),
    "D-cholesky-triangle": three(
        lambda a: q.library(a).linalg.cholesky(a)[1, 0].item(), lambda: np.array(SKEW), math.sqrt(0.5), 0.0, 0.0
    ),
}
