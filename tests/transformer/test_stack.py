"""What holds for a stack of layers of either kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.errors import OptionError
from transformer import CausalConfig, CausalLM, Decoder, DecoderCache, Encoder, Transformer, TransformerConfig

SIZES = (8, 2, 12)


@pytest.mark.parametrize("kind", [Encoder, Decoder])
@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
def test_a_stack_is_its_layers_one_after_the_other(kind: Any, norm_first: bool) -> None:
    stack = kind(3, *SIZES, norm_first=norm_first)
    x = np.random.default_rng(0).normal(size=(2, 4, 8)).astype(np.float32)
    memory = (x[:, ::-1].copy(),) if kind is Decoder else ()
    expected = x
    for layer in stack.layers:
        expected = layer(expected, *memory)
    expected = expected if stack.norm is None else stack.norm(expected)
    np.testing.assert_array_equal(stack(x, *memory).numpy(), expected.numpy())
    assert (stack.norm is not None) == norm_first


@pytest.mark.parametrize("kind", [Encoder, Decoder])
@pytest.mark.parametrize("layers", [0, -1, 2.0, True])
def test_the_number_of_layers_is_a_positive_integer(kind: Any, layers: Any) -> None:
    with pytest.raises(OptionError, match=f"{kind.__name__}: num_layers must be a positive integer"):
        kind(layers, *SIZES)


@pytest.mark.parametrize("cached", [1, 3])
def test_a_cache_for_another_number_of_layers_is_refused(cached: int) -> None:
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 12}
    causal = CausalLM(CausalConfig(vocab=5, layers=2, **sizes))
    both = Transformer(TransformerConfig(source_vocab=5, target_vocab=5, decoder_layers=2, **sizes))
    with ta.no_grad():
        for use in (
            lambda cache: causal([[1]], cache=cache),
            lambda cache: both.decode([[1]], both.encode([[2]]), cache=cache),
        ):
            with pytest.raises(OptionError, match=rf"for {cached} layers, .* has 2\n.*new_cache\(\)"):
                use(DecoderCache(cached))


def test_a_memory_may_be_written_as_a_list() -> None:
    model = Transformer(TransformerConfig(source_vocab=5, target_vocab=5, d_model=2, num_heads=1, d_ff=4, dropout=0.0))
    memory = [[[1.0, 0.0], [0.0, 2.0]]]
    read = model.decode([[1]], memory)
    np.testing.assert_array_equal(read.numpy(), model.decode([[1]], np.array(memory, np.float32)).numpy())
