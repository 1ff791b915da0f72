"""What every task promises, asked of each task there is; and the score."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import require
from tinygrad_attn.errors import OptionError
from transformer.tasks import CopyConfig, CopyTask, DatesTask, Example, PhrasesTask, Score, Task, score

require("babel")

TASKS: list[Task] = [
    DatesTask(),
    CopyTask(),
    CopyTask(CopyConfig(alphabet="가나", max_length=9, seed=3)),
    PhrasesTask(),
    PhrasesTask(seed=7),
]
EACH_TASK = pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
SEEDS = st.integers(0, 2**32 - 1)


@EACH_TASK
@given(seed=SEEDS, size=st.integers(1, 40))
def test_a_batch_holds_its_texts(task: Task, seed: int, size: int) -> None:
    batch = task.sample(np.random.default_rng(seed), size)
    assert len(batch) == len(batch.texts) == size
    for array in (batch.src, batch.src_lengths, batch.tgt_in, batch.tgt_out, batch.tgt_lengths):
        assert array.dtype == np.int64
        assert len(array) == size
    for row, (source, target) in enumerate(batch.texts):
        assert task.source_tokenizer.decode(batch.src[row]) == source
        assert task.target_tokenizer.decode(batch.tgt_in[row]) == target
        assert task.target_tokenizer.decode(batch.tgt_out[row]) == target
        assert batch.src_lengths[row] == len(task.source_tokenizer.encode(source))
        assert batch.tgt_lengths[row] == len(task.target_tokenizer.encode(target)) + 1
        assert (batch.src[row] == task.source_tokenizer.pad_id).sum() == batch.src.shape[1] - batch.src_lengths[row]


@EACH_TASK
@given(seed=SEEDS)
def test_the_decoder_reads_what_it_should_say_one_step_earlier(task: Task, seed: int) -> None:
    batch = task.sample(np.random.default_rng(seed), 16)
    assert batch.tgt_in.shape == batch.tgt_out.shape
    for read, said, length in zip(batch.tgt_in, batch.tgt_out, batch.tgt_lengths, strict=True):
        assert read[0] == task.target_tokenizer.start_id
        assert said[length - 1] == task.target_tokenizer.end_id
        np.testing.assert_array_equal(read[1:length], said[: length - 1])
        assert not np.isin(task.target_tokenizer.pad_id, said[:length])


@EACH_TASK
@given(seed=SEEDS)
def test_nothing_is_longer_than_the_task_says(task: Task, seed: int) -> None:
    batch = task.sample(np.random.default_rng(seed), 100)
    held_out = task.encode(task.held_out(20, seed))
    assert max(batch.src.shape[1], held_out.src.shape[1]) <= task.max_source_length
    assert max(batch.tgt_in.shape[1], held_out.tgt_in.shape[1]) <= task.max_target_length


@EACH_TASK
@given(seed=SEEDS, other=SEEDS)
def test_training_never_shows_what_is_held_out(task: Task, seed: int, other: int) -> None:
    shown = {example.source for example in task.draw(np.random.default_rng(seed), 200)}
    held_out = task.held_out(40, other)
    assert len(set(held_out)) == 40
    assert not shown & {example.source for example in held_out}


@EACH_TASK
def test_the_same_seed_gives_the_same_examples(task: Task) -> None:
    first, second = ([b.texts for b in task.batches(np.random.default_rng(5), 8, steps=3)] for _ in range(2))
    assert first == second
    assert len(first) == 3
    assert first[0] != first[1]
    assert task.held_out(10, seed=1) == task.held_out(10, seed=1)
    assert task.held_out(10, seed=1) != task.held_out(10, seed=2)


@EACH_TASK
@pytest.mark.parametrize("n", [0, -1, 10**30])
def test_an_impossible_number_of_held_out_examples_is_refused(task: Task, n: int) -> None:
    with pytest.raises(OptionError, match="expected 1 to"):
        task.held_out(n)


def test_scores_count_exact_matches_apart() -> None:
    asked = [Example("a", "1", "ko", "full"), Example("b", "2", "ko", "long"), Example("c", "3", "de", "long")]
    answers = ["1", "20", "3"]
    assert score(asked, answers) == {"all": Score(2, 3)}
    assert score(asked, answers, by="language") == {"de": Score(1, 1), "ko": Score(1, 2)}
    assert score(asked, answers, by="style") == {"full": Score(1, 1), "long": Score(1, 2)}
    assert list(score(asked, answers, by="language")) == ["de", "ko"]
    assert score([], []) == {}
    assert (Score(1, 2).accuracy, Score(0, 0).accuracy) == (0.5, 0.0)


def test_a_score_needs_an_answer_for_each_example() -> None:
    with pytest.raises(OptionError, match="got 0 for 1"):
        score([Example("a", "1")], [])


def test_tasks_other_than_dates_work_without_babel() -> None:
    code = (
        "import sys; sys.modules['babel'] = None\n"
        "from transformer.tasks import CopyTask, DatesTask, PhrasesTask\n"
        "from tinygrad_attn.errors import MissingExtraError\n"
        "CopyTask(); PhrasesTask()\n"
        "try: DatesTask()\n"
        "except MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "tinygrad-attn[lesson]" in done.stdout
