"""The lesson on distance: what is left of a gradient that has come a long way back, in three kinds of model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tinygrad_attn as ta
from tinygrad_attn import nn
from transformer.lessons.distance_model import (
    KINDS,
    GatedReader,
    PlainReader,
    Reader,
    RecallConfig,
    Sequences,
    Training,
    draw,
    score,
    spell,
    train,
    untrained,
)
from transformer.lessons.distance_paths import Paths
from transformer.tasks import Score

Floats = NDArray[np.float64]
ASKED = 200  # held-out sequences of each length
SAMPLES = 16  # sequences behind each mean of a gradient's size
LOUDER = 4.0


@dataclass(frozen=True, eq=False)
class Arrival:
    """What reaches the letters of a gradient that sets out from the last vector, by distance from the last letter.

    All are geometric means over sequences of the longest kind. The distance of the last letter itself is 0.

    Args:
        at_end: (length,), ‖∂L/∂h‖, h the vector from which the answer is read, where the capital is so far away.
        capital: (length,), ‖∂L/∂x‖ of the capital's vector.
        others: (length,), of a small letter's vector, wherever the capital is, divided by ‖∂L/∂h‖.
    """

    at_end: Floats
    capital: Floats
    others: Floats

    @property
    def share(self) -> Floats:
        """(length,), ‖∂L/∂x‖ / ‖∂L/∂h‖ of the capital: a model that is right has small gradients everywhere."""
        return self.capital / self.at_end

    @property
    def per_letter(self) -> float:
        """By what the share is multiplied from one letter to the next one back, over the farther half."""
        half, last = len(self.share) // 2, len(self.share) - 1
        if not self.share[half]:
            return 0.0
        return float((self.share[last] / self.share[half]) ** (1.0 / max(1, last - half)))


@dataclass(frozen=True)
class Way:
    """How many operations a gradient passes from the loss to a letter, by distance, in the untrained model.

    Args:
        shortest, longest: (length,).
        one_more: what the shortest path has more to the letter 2 back than to the letter 1 back.
        one_more_longest: the same of the longest path.
        names: the operations of the shortest path to the letter 1 back, from the loss on.
    """

    shortest: list[int]
    longest: list[int]
    one_more: list[str]
    one_more_longest: list[str]
    names: list[str]


@dataclass(frozen=True)
class Turns:
    """All letters at once beside one letter after the other.

    Args:
        difference: largest difference between the two last vectors.
        kept: numbers that are kept from letter to letter, after the last.
    """

    difference: float
    kept: int


@dataclass(frozen=True, eq=False)
class DistanceLesson:
    """What the page and the terminal show, all of it from one run; mappings go by kind of model.

    Args:
        config: sizes and seed.
        trained: capitals anywhere in any length.
        far: capitals always as far back as can be.
        before, after: what arrives in the untrained and the trained model.
        louder: what arrives in the untrained plain network with state weights `LOUDER` times as large.
        ways: lengths of paths.
        scores: by kind, then by length, the capital standing first.
        far_scores: at the longest length, of the models trained on that alone.
        turns: of the trained models.
        radius: largest size of an eigenvalue of the plain network's W_hh, untrained and trained.
        slope: mean of tanh′ in the plain network, untrained and trained.
        gate: z in the GRU, untrained and trained, mean of all numbers of the state and of the one it keeps best.
        example: one held-out sequence of the longest kind.
    """

    config: RecallConfig
    trained: Mapping[str, Training]
    far: Mapping[str, Training]
    before: Mapping[str, Arrival]
    after: Mapping[str, Arrival]
    louder: Arrival
    ways: Mapping[str, Way]
    scores: Mapping[str, Mapping[int, Score]]
    far_scores: Mapping[str, Score]
    turns: Mapping[str, Turns]
    radius: tuple[float, float]
    slope: tuple[float, float]
    gate: tuple[tuple[float, float], tuple[float, float]]
    example: str

    @property
    def seconds(self) -> float:
        """How long all trainings took together."""
        return sum(training.seconds for training in (*self.trained.values(), *self.far.values()))


def build_distance_lesson(
    config: RecallConfig | None = None, *, on_step: Callable[[float], None] | None = None
) -> DistanceLesson:
    """Trains the models and measures.

    Args:
        on_step: told the loss of each step of each training; what it raises ends them.
    """
    config = RecallConfig() if config is None else config
    trained = {kind: train(kind, config, on_step=on_step) for kind in KINDS}
    far = {kind: train(kind, config, far=True, on_step=on_step) for kind in KINDS}
    fresh = {kind: untrained(kind, config).eval().to(np.float64) for kind in KINDS}
    ways = {kind: way(model, config.longest) for kind, model in fresh.items()}
    plain, gated = fresh["rnn"], fresh["gru"]
    return DistanceLesson(
        config,
        trained,
        far,
        {kind: arrival(model, config) for kind, model in fresh.items()},
        {kind: arrival(training.model, config) for kind, training in trained.items()},
        arrival(_louder(config), config),
        ways,
        {
            kind: {length: score(training.model, config, length, ASKED) for length in lengths(config)}
            for kind, training in trained.items()
        },
        {kind: score(training.model, config, config.longest, ASKED) for kind, training in far.items()},
        {kind: turns(training.model, config) for kind, training in trained.items()},
        radius=(radius(plain), radius(trained["rnn"].model)),
        slope=(slope(plain, config), slope(trained["rnn"].model, config)),
        gate=(gate(gated, config), gate(trained["gru"].model, config)),
        example=spell(draw(_random(config, 3), 1, config.longest, 0).ids[0]),
    )


def lengths(config: RecallConfig) -> list[int]:
    """The lengths that are asked: six up to the longest in training, and two beyond."""
    inside = np.linspace(config.longest / 6, config.longest, 6)
    return [max(2, round(length)) for length in (*inside, config.longest * 4 / 3, config.longest * 2)]


def arrival(model: Reader, config: RecallConfig) -> Arrival:
    """Sends the gradient of the loss back to the letters, for a capital at every distance."""
    length = config.longest
    distances = np.repeat(np.arange(length), SAMPLES)
    ends, letters = [], []
    for some in np.array_split(distances, max(1, length // 8)):  # not all at once, for the sake of memory
        batch = draw(_random(config, 0, int(some[0])), len(some), length, length - 1 - some)
        end, back = sent_back(model, batch)
        ends.append(end)
        letters.append(back)
    at_end = np.log(np.concatenate(ends))  # (length · SAMPLES,)
    with np.errstate(divide="ignore"):  # nothing at all may arrive; its mean is 0 then
        arrived = np.log(np.concatenate(letters))  # (length · SAMPLES, length)
    is_capital = distances[:, None] == np.arange(length)
    relative = np.where(is_capital, np.nan, arrived - at_end[:, None])
    return Arrival(
        np.exp(at_end.reshape(length, SAMPLES).mean(axis=1)),
        np.exp(arrived[is_capital].reshape(length, SAMPLES).mean(axis=1)),
        np.exp(np.nanmean(relative, axis=0)),
    )


def sent_back(model: Reader, batch: Sequences) -> tuple[Floats, Floats]:
    """What each sequence's own loss sends back.

    Returns:
        ‖∂L/∂h‖ at the vector from which the answer is read, (batch,), and ‖∂L/∂x‖ at the letters by their distance from
        the last, (batch, length).
    """
    x = ta.Tensor(np.asarray(model.embedding(batch.ids)), requires_grad=True)  # (batch, length, width)
    last = model.read(x)
    read = ta.Tensor(np.asarray(last), requires_grad=True)  # (batch, width)
    ta.cross_entropy(model.to_logits(read), batch.answer, reduction="sum").backward()
    last.backward(read.grad)
    at_end, at_letters = (np.linalg.norm(np.asarray(each.grad), axis=-1) for each in (read, x))
    return at_end, at_letters[:, ::-1]


def way(model: Reader, length: int) -> Way:
    """Counts the operations between the loss and each letter of one sequence, with fused operations opened."""
    batch = draw(np.random.default_rng(0), 1, length, 0)
    with ta.unfused():
        x = ta.Tensor(np.asarray(model.embedding(batch.ids)), requires_grad=True)  # (1, length, width)
        loss = ta.cross_entropy(model.to_logits(model.read(x)), batch.answer)
        paths = Paths(loss)
        near, far = paths.shortest(x)[0, ::-1], paths.longest(x)[0, ::-1]  # (length, width), by distance

        def names(distance: int, longest: bool) -> list[str]:
            steps = far[distance] if longest else near[distance]
            wanted = np.nanmax(steps) if longest else np.nanmin(steps)
            number = int(np.flatnonzero(steps == wanted)[0])
            return paths.operations(x, (0, length - 1 - distance, number), longest=longest)

        return Way(
            np.nanmin(near, axis=1).astype(int).tolist(),
            np.nanmax(far, axis=1).astype(int).tolist(),
            _more(names(1, False), names(2, False)),
            _more(names(1, True), names(2, True)),
            names(1, False),
        )


def turns(model: Reader, config: RecallConfig) -> Turns:
    """Reads one sequence both ways."""
    batch = draw(_random(config, 1), 1, config.longest)
    with ta.no_grad():
        x = model.embedding(batch.ids)
        together = np.asarray(model.read(x))
        in_turn, kept = model.read_in_turn(x)
    return Turns(float(np.abs(together - np.asarray(in_turn)).max()), kept)


def radius(model: Reader) -> float:
    """The largest size of an eigenvalue of a plain network's state weights."""
    return float(np.abs(np.linalg.eigvals(_plain(model).weight_hh.numpy())).max())


def slope(model: Reader, config: RecallConfig) -> float:
    """The mean of tanh′ = 1 − h² in a plain network while it reads small letters after the capital."""
    x, state, slopes = _after_the_capital(model, config), None, []
    with ta.no_grad():
        for t in range(x.shape[1]):
            state = _plain(model)(x[:, t], state)  # (batch, width)
            slopes.append(1.0 - np.asarray(state) ** 2)
    return float(np.mean(slopes[1:]))


def gate(model: Reader, config: RecallConfig) -> tuple[float, float]:
    """The part z of a GRU's state that stays while it reads small letters after the capital.

    Returns:
        The mean over all numbers of the state, and over time of the number that it keeps best.
    """
    if not isinstance(model, GatedReader):
        raise TypeError(f"only a GRU has z, not {type(model).__name__}")
    gru, x, size = model.gru, _after_the_capital(model, config), config.width
    update = slice(size, 2 * size)  # its rows of the weights
    with ta.no_grad():
        states = np.asarray(gru(x)[0])  # (batch, length, width)
    own = {name: array[update] for name, array in gru.state_dict().items()}
    of_input = x[:, 1:] @ own["weight_ih_l0"].T + own["bias_ih_l0"]
    of_state = states[:, :-1] @ own["weight_hh_l0"].T + own["bias_hh_l0"]
    z = np.mean(1.0 / (1.0 + np.exp(-(of_input + of_state))), axis=(0, 1))  # (width,)
    return float(z.mean()), float(z.max())


def _after_the_capital(model: Reader, config: RecallConfig) -> Any:
    batch = draw(_random(config, 2), SAMPLES, config.longest, 0)
    return np.asarray(model.embedding(batch.ids))  # (batch, length, width)


def _plain(model: Reader) -> nn.RNNCell:
    if not isinstance(model, PlainReader):
        raise TypeError(f"expected the plain network, not {type(model).__name__}")
    return model.cell


def _louder(config: RecallConfig) -> Reader:
    model = untrained("rnn", config).eval().to(np.float64)
    weight = _plain(model).weight_hh
    weight.data = weight.numpy() * LOUDER
    return model


def _more(fewer: list[str], names: list[str]) -> list[str]:
    """What the second list has more than the first, in its order."""
    left = list(fewer)
    more = []
    for name in names:
        if name in left:
            left.remove(name)
        else:
            more.append(name)
    return more


def _random(config: RecallConfig, *purpose: int) -> np.random.Generator:
    """Letters that no training has drawn, a stream of its own for each purpose."""
    return np.random.default_rng([config.seed, len(KINDS) + 2, *purpose])
