"""Decoding, cache, sampling, beam search: faults seen in other engines, by their ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tinygrad_attn as ta
from tests.transformer import tiny
from tests.transformer.tiny import END, PAD, START, Scripted, every_sequence
from transformer import Beam, DecoderCache, Greedy, MultiHeadAttention, Sample, causal_mask, generate
from transformer.beam import BeamSearch

IDS = np.array([[3, 4, 5, 6, 3], [6, 6, 1, 3, 4]])


def write(model: Any, src: Any, new: int, **options: Any) -> Any:
    return generate(model, src, max_new_tokens=new, start_id=START, end_id=END, pad_id=PAD, **options)


# --- the cache -------------------------------------------------------------------------------------------------------


def test_K1_a_prompt_that_fills_the_cache_at_once_is_still_masked() -> None:
    model = tiny.causal()
    cache = model.new_cache()
    with ta.no_grad():
        prefilled = model(IDS, cache=cache).numpy()
    assert_allclose(prefilled, model(IDS).numpy(), rtol=1e-10)
    assert_allclose(prefilled[:, :2], model(IDS[:, :2]).numpy(), rtol=1e-10)  # nobody saw what came later
    assert cache.length == 5


def test_K3_the_first_step_on_an_empty_cache_sees_its_own_token() -> None:
    model = tiny.causal()
    with ta.no_grad():
        first, weights = model(IDS[:, :1], cache=model.new_cache(), return_weights=True)
    assert_allclose(first.numpy(), model(IDS[:, :1]).numpy(), rtol=1e-10)
    assert_array_equal(weights[0].numpy(), np.ones((2, 2, 1, 1)))


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_K4_a_new_token_sees_the_whole_cache_at_its_own_position(positions: str) -> None:
    assert causal_mask(1, 5, align="lower_right").all()
    model = tiny.causal(positions=positions)
    cache = model.new_cache()
    with ta.no_grad():
        model(IDS[:, :4], cache=cache)
        last, weights = model(IDS[:, 4:], cache=cache, return_weights=True)
    assert (weights[0].numpy() > 0.0).all()
    assert weights[0].shape == (2, 2, 1, 5)
    assert_allclose(last.numpy()[:, 0], model(IDS).numpy()[:, -1], rtol=1e-10)


def test_K4_reset_leaves_nothing_behind() -> None:
    model = tiny.transformer()
    memories = [model.encode([[3, 4, 5]]), model.encode([[6, 7]])]
    fresh = [model.decode([[1, 3]], memory).numpy() for memory in memories]
    cache = model.new_cache()
    with ta.no_grad():
        for memory, expected in zip(memories, fresh, strict=True):
            assert_allclose(model.decode([[1, 3]], memory, cache=cache).numpy(), expected, rtol=1e-10)
            cache.reset()
            assert cache.length == 0


def test_K6_reordering_moves_what_was_said_and_keeps_what_is_read() -> None:
    model, rng = tiny.transformer(), np.random.default_rng(0)
    src = np.array([[3, 4, 5], [6, 7, 8]])
    memory = model.encode(src)
    said = rng.integers(3, 7, size=(4, 3))  # two items, two beams each
    items = np.array([0, 0, 1, 1])
    parents = np.array([1, 1, 3, 2])  # within its item each beam may be continued twice or not at all
    cache = model.new_cache()
    with ta.no_grad():
        rows = memory[items]
        model.decode(said, rows, cache=cache)
        cross_before = [layer.cross_attention.key.copy() for layer in cache.layers]
        cache.select(parents)
        after = model.decode([[3], [4], [5], [6]], rows, cache=cache).numpy()
    assert_allclose(
        after[:, 0],
        model.decode(np.concatenate([said[parents], [[3], [4], [5], [6]]], axis=1), rows).numpy()[:, -1],
        rtol=1e-9,
    )
    for layer, before in zip(cache.layers, cross_before, strict=True):
        assert_array_equal(layer.cross_attention.key, before)


def test_K6_a_beam_whose_rows_change_places_writes_the_same_with_and_without_cache() -> None:
    crossed = 0
    for seed in range(20):
        model = tiny.transformer(seed)
        cached = write(model, [[3, 4], [5, 6]], 5, strategy=Beam(3), trace=True)
        plain = write(model, [[3, 4], [5, 6]], 5, strategy=Beam(3), cache=False)
        assert_array_equal(cached.ids, plain.ids)
        assert_allclose(cached.log_probs, plain.log_probs, rtol=1e-8)
        crossed += any((step.parents != np.arange(len(step.parents))).any() for step in cached.steps[1:])
    assert crossed > 5  # otherwise this would have tested nothing


# --- sampling --------------------------------------------------------------------------------------------------------


def test_K7_temperature_zero_is_greedy_without_a_division() -> None:
    logits = np.array([[-1.0, 3.0, 2.0], [5.0, 1.0, 5.0]])
    assert_array_equal(Sample(temperature=0.0).distribution(logits), [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    assert_allclose(Sample(temperature=1e-300).distribution(logits), [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])


def test_K9_a_token_that_top_k_drops_has_probability_exactly_zero() -> None:
    p = Sample(top_k=2).distribution([[-900.0, -901.0, -902.0, -903.0]])[0]
    assert_array_equal(p[2:], [0.0, 0.0])
    assert_allclose(p[:2], [np.e / (1 + np.e), 1 / (1 + np.e)])
    equal = Sample(top_k=2).distribution([[1.0, 1.0, 1.0]])[0]
    assert_array_equal(equal, [0.5, 0.5, 0.0])


@pytest.mark.parametrize(
    ("top_p", "probabilities", "kept"), [(0.9, [0.5, 0.41, 0.09], [0, 1]), (0.8, [0.4, 0.3, 0.2, 0.1], [0, 1, 2])]
)
def test_K11_top_p_keeps_the_smallest_set_that_reaches_p(top_p: float, probabilities: list, kept: list) -> None:
    assert_array_equal(np.flatnonzero(Sample(top_p=top_p).distribution(np.log([probabilities]))[0]), kept)
    shuffled = [probabilities[i] for i in (2, 0, 1)] + probabilities[3:]
    p = Sample(top_p=top_p).distribution(np.log([shuffled]))[0]
    assert_allclose(sorted(p[p > 0]), sorted(np.array(probabilities)[kept] / sum(np.array(probabilities)[kept])))


@pytest.mark.parametrize("top_p", [0.0, 1e-8])
def test_K12_the_most_probable_token_always_stays(top_p: float) -> None:
    assert_array_equal(Sample(top_p=top_p).distribution(np.log([[0.2, 0.5, 0.3]])), [[0.0, 1.0, 0.0]])


def test_K13_top_p_counts_what_top_k_left_made_to_sum_to_one() -> None:
    # Of [.4, .3, .2, .1] top_k=2 leaves [4/7, 3/7]. The first alone reaches 0.5; of the whole it would not.
    assert_array_equal(Sample(top_k=2, top_p=0.5).distribution(np.log([[0.4, 0.3, 0.2, 0.1]])), [[1.0, 0.0, 0.0, 0.0]])
    assert_array_equal(np.flatnonzero(Sample(top_p=0.5).distribution(np.log([[0.4, 0.3, 0.2, 0.1]]))), [0, 1])
    assert_array_equal(Sample(top_k=1, top_p=0.0).distribution([[0.0, 0.0]]), [[1.0, 0.0]])


# --- the end ---------------------------------------------------------------------------------------------------------


def test_K14_finished_rows_say_padding_only_and_the_last_one_ends_the_loop() -> None:
    endings = {0: 1, 1: 3, 2: 2}  # row -> when it says END

    class Rows(Scripted):
        def next(self, tokens: Any, *, return_weights: bool = False) -> Any:
            output = super().next(tokens)
            for row, end in endings.items():
                output.logits[row] = -50.0
                output.logits[row, END if tokens.shape[1] == end else 3 + row] = 0.0
            return output

    model = Rows(lambda tokens: np.ones(8) / 8)
    result = write(model, np.zeros((3, 1)), 50)
    assert_array_equal(result.ids, [[END, PAD, PAD], [4, 4, END], [5, END, PAD]])
    assert_array_equal(result.lengths, [1, 3, 2])
    assert result.finished.all()
    assert model.calls == 3


@pytest.mark.parametrize("strategy", [Greedy(), Beam(3)], ids=["greedy", "beam"])
def test_K14_what_a_row_says_does_not_depend_on_its_neighbours(strategy: Any) -> None:
    differing = set()
    for seed in range(20):
        model = tiny.transformer(seed)
        src = np.random.default_rng(seed).integers(3, 9, size=(4, 3))
        together = write(model, src, 6, strategy=strategy)
        for row in range(4):
            alone = write(model, src[[row]], 6, strategy=strategy)
            assert together.tokens(row) == alone.tokens(0)
        differing.add(len(set(together.lengths.tolist())))
    assert max(differing) > 1  # rows did end at different steps


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_K15_padding_on_the_left_changes_neither_logits_nor_positions(positions: str) -> None:
    model = tiny.causal(positions=positions)
    alone = model(IDS[:1, :3]).numpy()
    padded = np.concatenate([np.full((1, 4), PAD), IDS[:1, :3]], axis=1)
    real = np.arange(7) >= 4
    assert_allclose(model(padded, mask=real[None]).numpy()[:, 4:], alone, rtol=1e-10)
    cache: DecoderCache = model.new_cache()
    with ta.no_grad():
        model(padded[:, :6], mask=real[None, :6], cache=cache)
        last = model(padded[:, 6:], mask=real[None], cache=cache).numpy()
    assert_allclose(last[:, 0], alone[:, -1], rtol=1e-10)


# --- beam search -----------------------------------------------------------------------------------------------------


def slow_start(tokens: tuple[int, ...]) -> list[float]:
    """A sequence that ends at once has p = 0.4; the better one begins with p = 0.35 and is then nearly certain."""
    if not tokens:
        return [0.0, 0.0, 0.4, 0.35, 0.25]
    if tokens[0] == 3:
        return [0.0, 0.0, 0.99, 0.01, 0.0] if len(tokens) == 3 else [0.0, 0.0, 0.0, 1.0, 0.0]
    return [0.2] * 5


@pytest.mark.parametrize(("penalty", "expected"), [(0.0, [END]), (1.0, [3, 3, 3, END])])
def test_K17_the_search_goes_on_while_an_open_beginning_can_still_win(penalty: float, expected: list[int]) -> None:
    model = Scripted(slow_start)
    result = write(model, [[0]], 6, strategy=Beam(3, length_penalty=penalty))
    assert result.tokens(0) == expected
    if penalty == 0.0:
        assert model.calls == 1  # log-probabilities only fall: nothing open can pass 0.4


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 0.5, 1.0, 2.0])
def test_K17_a_beam_that_holds_everything_finds_the_optimum(penalty: float) -> None:
    vocabulary, length = 4, 4
    for seed in range(10):
        rng = np.random.default_rng(seed)
        table: dict[tuple[int, ...], np.ndarray] = {}

        def probabilities(tokens: tuple[int, ...], table: dict = table, rng: Any = rng) -> np.ndarray:
            return table.setdefault(tokens, rng.dirichlet(np.full(vocabulary, 0.5)))

        result = write(Scripted(probabilities), [[0]], length, strategy=Beam(vocabulary**length, penalty))
        scores = {
            sequence: sum(np.log(probabilities(sequence[:place])[token]) for place, token in enumerate(sequence))
            / len(sequence) ** penalty
            for sequence in every_sequence(vocabulary, length)
        }
        assert result.hypotheses[0][0].score == pytest.approx(max(scores.values()))
        assert scores[tuple(result.tokens(0))] == pytest.approx(max(scores.values()))


@pytest.mark.parametrize(("penalty", "end", "length"), [(0.1, 0.4, 20), (-0.1, 0.3, 2)])
def test_K17_the_length_at_which_an_open_beginning_could_score_best_is_what_counts(
    penalty: float, end: float, length: int
) -> None:
    """Ending at once scores log(end). After a 3 it is certain to go on to `length`, which scores better."""

    def probabilities(tokens: tuple[int, ...]) -> list[float]:
        if not tokens:
            return [0.0, 0.0, end, 0.7 - end + 0.05 * (penalty > 0), 0.3 - 0.05 * (penalty > 0)]
        return [0.0, 0.0, 1.0, 0.0, 0.0] if len(tokens) == length - 1 else [0.0, 0.0, 0.0, 1.0, 0.0]

    assert np.log(probabilities(())[3]) / length**penalty > np.log(end)
    result = write(Scripted(probabilities), [[0]], 40 if penalty < 0 else 20, strategy=Beam(2, penalty))
    assert result.lengths[0] == length
    assert result.ids[0, 0] == 3


def test_K17_a_sequence_that_ended_keeps_its_place() -> None:
    search = BeamSearch(width=2, length_penalty=1.0, max_new_tokens=5, end_id=END)
    search.advance(np.log([[0.05, 0.05, 0.5, 0.4]]))
    assert [hypothesis.ids for hypothesis in search.finished] == [(END,)]
    assert search.open.sum() == 1
    search.advance(np.log([[0.3, 0.3, 0.1, 0.3]] * 2))
    assert search.open.sum() == 1
    assert len(search.ranked()) == 2


@pytest.mark.parametrize("strategy", [Greedy(), Beam(3), Sample(rng=np.random.default_rng(0))], ids=["g", "b", "s"])
def test_K19_lengths_count_the_end_token_and_no_padding(strategy: Any) -> None:
    ended = 0
    for seed in range(20):
        result = write(tiny.transformer(seed), np.full((4, 2), 3 + seed % 5), 6, strategy=strategy)
        for row in range(4):
            tokens = result.tokens(row)
            assert len(tokens) == result.lengths[row]
            assert (tokens[-1] == END) == result.finished[row]
            assert END not in tokens[:-1]
            assert (result.ids[row, len(tokens) :] == PAD).all()
            ended += int(result.finished[row])
        for hypotheses in result.hypotheses:
            assert all(len(h.ids) and (h.ids[-1] == END) == h.finished for h in hypotheses)
            assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
    assert ended


# --- the caller's arrays ---------------------------------------------------------------------------------------------


def test_K20_what_the_caller_gave_is_not_changed_and_an_exact_fit_is_allowed() -> None:
    model = tiny.causal(max_length=8)
    prompt = [[3, 4, 5]]
    result = generate(model, prompt, max_new_tokens=5, pad_id=PAD)
    assert prompt == [[3, 4, 5]]
    assert result.sequences.shape == (1, 8)
    array = np.array(prompt)
    result = generate(model, array, max_new_tokens=2, pad_id=PAD)
    result.sequences[...] = 0
    result.prompt[...] = 0
    assert_array_equal(array, prompt)


@pytest.mark.parametrize("strategy", [Greedy(), Sample(), Beam(3)], ids=["greedy", "sample", "beam"])
def test_K22_no_new_tokens_give_the_prompt_back(strategy: Any) -> None:
    result = generate(tiny.causal(), IDS, max_new_tokens=0, end_id=END, pad_id=PAD, strategy=strategy)
    assert_array_equal(result.sequences, IDS)
    assert result.ids.shape == (2, 0)
    assert_array_equal(result.lengths, [0, 0])
    assert not result.finished.any()
    translated = write(tiny.transformer(), IDS, 0, strategy=strategy)
    assert_array_equal(translated.sequences, [[START], [START]])


def test_attention_in_evaluation_is_the_same_recorded_or_not() -> None:
    with tiny.float64():
        module = tiny.uneven(MultiHeadAttention(8, 2, dropout=0.5)).eval()
    x = np.random.default_rng(0).normal(size=(1, 3, 8))
    recorded = module(x, causal=True).numpy()
    with ta.no_grad():
        assert_array_equal(module(x, causal=True).numpy(), recorded)
