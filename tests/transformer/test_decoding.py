from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_attn as ta
from tests.transformer import tiny
from tests.transformer.tiny import END, PAD, START, Scripted, every_sequence
from tinygrad_attn.errors import IndexRangeError, NotFiniteError, OptionError, ShapeError
from transformer import Beam, GenerationResult, Greedy, Sample, generate

SRC = np.array([[3, 4, 5, 6, 7], [8, 3, 0, 0, 0], [5, 5, 5, 0, 0]])
LENGTHS = np.array([5, 2, 3])
seeds = st.integers(0, 10_000)


def written(model: Any, src: Any = SRC, lengths: Any = LENGTHS, new: int = 6, **options: Any) -> GenerationResult:
    return generate(
        *(model, src), src_lengths=lengths, max_new_tokens=new, start_id=START, end_id=END, pad_id=PAD, **options
    )


def continued(model: Any, prompt: Any, lengths: Any = None, new: int = 5, **options: Any) -> GenerationResult:
    return generate(model, prompt, src_lengths=lengths, max_new_tokens=new, end_id=END, pad_id=PAD, **options)


def assert_same(first: GenerationResult, second: GenerationResult) -> None:
    np.testing.assert_array_equal(first.ids, second.ids)
    np.testing.assert_array_equal(first.lengths, second.lengths)
    np.testing.assert_array_equal(first.finished, second.finished)
    np.testing.assert_allclose(first.log_probs, second.log_probs, rtol=1e-8)


# --- the loop --------------------------------------------------------------------------------------------------------


@given(seeds)
def test_greedy_says_what_teacher_forcing_finds_most_probable(seed: int) -> None:
    model = tiny.transformer(seed)
    result = written(model)
    read = np.concatenate([result.prompt, result.ids[:, :-1]], axis=1)
    logits = model(SRC, read, src_lengths=LENGTHS).numpy()
    best = logits.argmax(axis=-1)
    p = np.log(np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True))
    for row in range(3):
        length = result.lengths[row]
        np.testing.assert_array_equal(result.ids[row, :length], best[row, :length])
        assert not result.ids[row, length:].any()
        assert result.finished[row] == (END in result.ids[row])
        assert result.log_probs[row] == pytest.approx(sum(p[row, t, result.ids[row, t]] for t in range(length)))


strategies = pytest.mark.parametrize(
    "strategy", [Greedy(), Beam(3), Beam(2, length_penalty=0.0)], ids=["greedy", "beam 3", "beam 2"]
)


@strategies
@given(seed=seeds)
def test_with_a_cache_and_without_the_same_is_written(strategy: Any, seed: int) -> None:
    model = tiny.transformer(seed)
    assert_same(written(model, strategy=strategy), written(model, strategy=strategy, cache=False))


@strategies
@given(seed=seeds)
def test_a_row_alone_writes_what_it_writes_in_a_batch(strategy: Any, seed: int) -> None:
    model = tiny.transformer(seed)
    together = written(model, strategy=strategy)
    for row, length in enumerate(LENGTHS):
        alone = written(model, SRC[[row], :length], None, strategy=strategy)
        assert together.tokens(row) == alone.tokens(0)
        assert together.log_probs[row] == pytest.approx(alone.log_probs[0], rel=1e-8)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("strategy", [Greedy(), Beam(3)], ids=["greedy", "beam"])
@given(seed=seeds)
def test_a_prompt_padded_on_the_left_is_continued_like_the_prompt_alone(
    positions: str, cache: bool, strategy: Any, seed: int
) -> None:
    model = tiny.causal(seed, positions=positions)
    prompts = np.array([[3, 4, 5, 6], [0, 0, 5, 3], [0, 4, 4, 1]])
    lengths = [4, 2, 3]
    together = continued(model, prompts, lengths, cache=cache, strategy=strategy)
    for row, length in enumerate(lengths):
        alone = continued(model, prompts[[row], -length:], cache=cache, strategy=strategy)
        assert together.tokens(row) == alone.tokens(0)
        assert together.log_probs[row] == pytest.approx(alone.log_probs[0], rel=1e-8)


@pytest.mark.parametrize(
    "same",
    [Beam(1), Beam(1, length_penalty=0.0), Sample(top_k=1), Sample(temperature=0.0), Sample(top_p=0.0)],
    ids=repr,
)
@given(seed=seeds)
def test_greedy_has_many_names(same: Any, seed: int) -> None:
    model = tiny.transformer(seed)
    assert_same(written(model), written(model, strategy=same))


@given(seeds, st.sampled_from([0.0, 0.7, 1.0, -0.5]))
def test_a_beam_that_holds_everything_finds_the_best_sequence(seed: int, penalty: float) -> None:
    vocabulary, length = 4, 3
    model = tiny.transformer(seed, target_vocab=vocabulary)
    result = written(model, SRC[:1], LENGTHS[:1], length, strategy=Beam(vocabulary**length, length_penalty=penalty))
    scores = {}
    for sequence in every_sequence(vocabulary, length):
        logits = model(SRC[:1], [[START, *sequence[:-1]]]).numpy()[0]
        p = ta.log_softmax(logits)
        log_prob = sum(p[place, token] for place, token in enumerate(sequence))
        scores[sequence] = log_prob / len(sequence) ** penalty
    assert len(result.hypotheses[0]) <= len(scores)
    best = max(scores.values())
    assert result.hypotheses[0][0].score == pytest.approx(best)
    assert scores[tuple(result.tokens(0))] == pytest.approx(best)
    for hypothesis in result.hypotheses[0]:
        assert hypothesis.score == pytest.approx(scores[hypothesis.ids])


def test_the_model_is_left_as_it_was() -> None:
    model = tiny.transformer(dropout=0.5).train()
    model.encoder.eval()  # frozen by its owner
    before = [module.training for module in model.modules()]
    first, second = written(model), written(model)
    assert_same(first, second)  # nothing was dropped
    assert [module.training for module in model.modules()] == before
    assert ta.is_grad_enabled()
    with pytest.raises(IndexRangeError):
        written(model, [[99]], None)
    assert [module.training for module in model.modules()] == before
    assert all(parameter.grad is None for parameter in model.parameters())


def test_sampling_is_repeatable_and_varied() -> None:
    model = tiny.transformer()
    results = [written(model, strategy=Sample(rng=np.random.default_rng(seed))).ids.tolist() for seed in (1, 1, 2, 3)]
    assert results[0] == results[1]
    assert results[0] != results[2] or results[0] != results[3]
    ta.manual_seed(4)
    shared = written(model, strategy=Sample()).ids
    ta.manual_seed(4)
    np.testing.assert_array_equal(written(model, strategy=Sample()).ids, shared)


def test_samples_come_as_often_as_the_model_says() -> None:
    p = np.array([0.0, 0.0, 0.1, 0.2, 0.7])
    model = Scripted(lambda tokens: p)
    result = written(model, np.zeros((20_000, 1)), None, 1, strategy=Sample(rng=np.random.default_rng(0)))
    counts = np.bincount(result.ids[:, 0], minlength=5) / 20_000
    np.testing.assert_allclose(counts, p, atol=4 * np.sqrt(0.25 / 20_000))
    assert not counts[:2].any()


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6), st.data())
def test_a_sample_is_the_token_in_whose_share_the_drawn_number_falls(shares: list[float], data: Any) -> None:
    token = data.draw(st.integers(0, len(shares) - 1))
    inside = data.draw(st.sampled_from([1e-6, 0.5, 1.0 - 1e-6]))

    class Drawn(np.random.Generator):
        def random(self, shape: tuple[int, ...]) -> np.ndarray:
            return np.full(shape, (sum(shares[:token]) + inside * shares[token]) / sum(shares))

    assert Sample(rng=Drawn(np.random.PCG64())).choose(np.log([shares])).tolist() == [token]


@given(st.lists(st.floats(-6, 6), min_size=2, max_size=6), st.integers(1, 6), st.floats(0, 1), st.floats(0.1, 3))
def test_what_is_drawn_from_is_a_distribution_over_the_most_probable(
    logits: list[float], top_k: int, top_p: float, temperature: float
) -> None:
    p = Sample(temperature=temperature, top_k=top_k, top_p=top_p).distribution([logits])[0]
    kept = np.flatnonzero(p)
    assert p.sum() == pytest.approx(1.0)
    assert (p >= 0.0).all()
    assert 1 <= len(kept) <= top_k
    assert np.argmax(logits) in kept
    dropped = np.setdiff1d(np.arange(len(logits)), kept)
    if len(dropped):
        assert min(np.array(logits)[kept]) >= max(np.array(logits)[dropped])


# --- the trace -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", [True, False])
def test_a_trace_tells_the_loop_step_by_step(cache: bool) -> None:
    model = tiny.transformer(3)
    result = written(model, trace=True, trace_top=4, cache=cache)
    assert_same(result, written(model))
    assert len(result.steps) == result.ids.shape[1]
    memory, _ = model.encode(SRC, src_lengths=LENGTHS, return_weights=True)
    logits, layers = model.decode(result.sequences[:, :-1], memory, src_lengths=LENGTHS, return_weights=True)
    p = ta.softmax(logits.numpy())
    for number, step in enumerate(result.steps):
        np.testing.assert_array_equal(step.tokens, result.sequences[:, : number + 1])
        np.testing.assert_array_equal(step.chosen, result.ids[:, number])
        np.testing.assert_array_equal(step.active, result.lengths > number)
        assert step.top_ids.shape == step.top_probs.shape == (3, 4)
        np.testing.assert_allclose(step.top_probs, np.take_along_axis(p[:, number], step.top_ids, axis=-1), rtol=1e-8)
        assert (np.diff(step.top_probs, axis=-1) <= 0).all()
        np.testing.assert_array_equal(step.top_ids[step.active, 0], step.chosen[step.active])
        for layer, self_rows, cross_rows in zip(layers, step.self_attention, step.cross_attention, strict=True):
            expected = layer.self_attention.numpy()[:, :, number, : number + 1]
            np.testing.assert_allclose(self_rows, expected, rtol=1e-7, atol=1e-12)
            np.testing.assert_allclose(cross_rows, layer.cross_attention.numpy()[:, :, number], rtol=1e-7, atol=1e-12)
            np.testing.assert_allclose(cross_rows.sum(axis=-1), 1.0)
            assert not cross_rows[1, :, 2:].any()  # padding of the source


def test_without_a_trace_nothing_is_recorded() -> None:
    assert written(tiny.transformer()).steps == ()


def test_a_trace_of_a_beam_tells_who_survived() -> None:
    result = written(tiny.transformer(3), SRC[:1], None, strategy=Beam(3, length_penalty=0.0), trace=True)
    tokens = result.prompt
    for step in result.steps:
        np.testing.assert_array_equal(step.tokens, tokens)
        assert step.cross_attention[0].shape == (len(tokens), 2, 5)
        tokens = np.concatenate([tokens[step.parents], step.chosen[:, None]], axis=1)
    assert len(result.steps[0].tokens) == 1  # before the first step all beams are alike
    assert len(result.steps[1].tokens) == 3


def test_a_place_that_a_finished_sequence_leaves_says_padding() -> None:
    model = Scripted(lambda tokens: [0.05, 0.05, 0.5, 0.4, 0.0] if not tokens else [0.0, 0.0, 0.0, 0.1, 0.9])
    result = generate(model, [[0]], max_new_tokens=3, end_id=END, pad_id=1, strategy=Beam(2), trace=True)
    assert result.steps[0].chosen.tolist() == [3, 1]
    assert result.steps[1].active.tolist() == [True, False]


def test_a_decoder_only_model_has_no_cross_attention_to_show() -> None:
    result = continued(tiny.causal(), [[3, 4, 5]], trace=True)
    assert result.steps[0].self_attention[0].shape == (1, 2, 3)
    assert result.steps[0].cross_attention == ()


# --- limits and wrong input ------------------------------------------------------------------------------------------


def test_an_exact_fit_is_allowed_and_one_more_is_not() -> None:
    model = tiny.transformer(max_length=6)
    assert generate(model, SRC, max_new_tokens=6, start_id=START, pad_id=PAD).ids.shape == (3, 6)
    with pytest.raises(OptionError, match=r"max_new_tokens=7 .*\n.*ask for at most 6"):
        generate(model, SRC, max_new_tokens=7, start_id=START, pad_id=PAD)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_new_tokens": -1}, "0 or more"),
        ({"trace_top": 0}, "trace_top 1 or more"),
        ({"start_id": None}, "begins to write with a start token"),
        ({"end_id": 7}, r"end_id must be a token of the vocabulary, in \[0, 7\)"),
        ({"pad_id": -1}, "pad_id must be a token"),
        ({"src_lengths": [1, 2, 0]}, "row 2 has length 0"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    usual = {"max_new_tokens": 3, "start_id": START, "end_id": END, "pad_id": PAD}
    with pytest.raises(OptionError, match=message):
        generate(tiny.transformer(), SRC, **{**usual, **options})


def test_a_start_id_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(IndexRangeError, match="given 7"):
        generate(tiny.transformer(), SRC, max_new_tokens=3, start_id=7, pad_id=PAD)


def test_a_decoder_only_model_has_its_own_rules() -> None:
    model = tiny.causal()
    with pytest.raises(OptionError, match="put the start token into src"):
        generate(model, [[3]], max_new_tokens=1, start_id=START, pad_id=PAD)
    with pytest.raises(OptionError, match="padded on the left"):
        continued(model, [[3, 4, 0]], [2])
    with pytest.raises(ShapeError, match="empty sequence"):
        continued(model, np.zeros((1, 0), dtype=int))


def test_padding_before_a_prompt_is_seen_without_lengths() -> None:
    model = tiny.causal()
    padded = [[0, 0, 3, 4, 5], [3, 4, 5, 6, 3]]
    told, seen = continued(model, padded, [3, 5]), continued(model, padded)
    np.testing.assert_array_equal(seen.ids, told.ids)
    np.testing.assert_allclose(seen.log_probs, told.log_probs)


@pytest.mark.parametrize("row", [[3, 4, 5, 0, 0], [0, 3, 4, 0, 5]])
def test_padding_after_a_prompt_is_not_continued_as_text(row: list[int]) -> None:
    with pytest.raises(OptionError, match=r"padded on the left.*\n.*row 1 has pad_id=0 after a real token"):
        continued(tiny.causal(), [[3, 4, 5, 6, 3], row])


def test_a_prompt_of_padding_alone_is_refused() -> None:
    with pytest.raises(OptionError, match="empty sequence: row 0"):
        continued(tiny.causal(), [[0, 0], [3, 4]])


def test_the_padding_token_may_be_text_where_the_lengths_say_so() -> None:
    prompt = [[0, 3, 0, 4]]
    told = continued(tiny.causal(), prompt, [4])
    plain = generate(tiny.causal(), prompt, max_new_tokens=4, end_id=END, pad_id=5)
    assert told.tokens(0)[:4] == plain.tokens(0)[:4]


@pytest.mark.parametrize("strategy", [Greedy(), Sample(), Beam(2)], ids=["greedy", "sample", "beam"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_logits_that_leave_no_choice_are_an_error(strategy: Any, value: float) -> None:
    class Broken(Scripted):
        def next(self, tokens: Any, *, return_weights: bool = False) -> Any:
            return super().next(tokens)._replace(logits=np.full((len(tokens), 5), value))

    with pytest.raises(NotFiniteError, match="row 0"):
        written(Broken(lambda tokens: np.ones(5)), [[3]], None, strategy=strategy)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Sample(temperature=-1.0),
        lambda: Sample(temperature=float("nan")),
        lambda: Sample(temperature=float("inf")),
        lambda: Sample(top_k=0),
        lambda: Sample(top_p=1.5),
        lambda: Sample(top_p=float("nan")),
        lambda: Beam(0),
        lambda: Beam(2.5),
        lambda: Beam(2, length_penalty=float("nan")),
    ],
)
def test_impossible_strategies_are_refused(wrong: Any) -> None:
    with pytest.raises(OptionError):
        wrong()
