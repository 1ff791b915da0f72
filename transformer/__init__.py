"""Attention, the Transformer built from it, its decoder loop, training, lessons and command line.

>>> from transformer import Transformer, TransformerConfig, generate
>>> config = TransformerConfig(source_vocab=10, target_vocab=7, d_model=8, num_heads=2, d_ff=16)
>>> result = generate(Transformer(config), [[4, 5, 6]], max_new_tokens=3, start_id=1, pad_id=0)
>>> result.ids.shape
(1, 3)
"""

from transformer.attention import MultiHeadAttention, scaled_dot_product_attention
from transformer.cache import DecoderCache, KeyValueCache
from transformer.causal import CausalLM
from transformer.config import CausalConfig, TransformerConfig
from transformer.decoder import Decoder, DecoderLayer, LayerWeights
from transformer.decoding import Beam, GenerationResult, GenerationStep, Greedy, Hypothesis, Sample, generate
from transformer.embedding import InputEmbedding
from transformer.encoder import Encoder, EncoderLayer
from transformer.masks import causal_mask, padding_mask, real_tokens, target_mask
from transformer.model import Transformer
from transformer.positional import LearnedPositions, SinusoidalPositions, sinusoidal_table
from transformer.sublayers import AddAndNorm, FeedForward
from transformer.targets import sequence_loss, shift_right
from transformer.tokenizer import CharTokenizer, Tokenizer, WordTokenizer

__all__ = [
    "AddAndNorm",
    "Beam",
    "CausalConfig",
    "CausalLM",
    "CharTokenizer",
    "Decoder",
    "DecoderCache",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "GenerationResult",
    "GenerationStep",
    "Greedy",
    "Hypothesis",
    "InputEmbedding",
    "KeyValueCache",
    "LayerWeights",
    "LearnedPositions",
    "MultiHeadAttention",
    "Sample",
    "SinusoidalPositions",
    "Tokenizer",
    "Transformer",
    "TransformerConfig",
    "WordTokenizer",
    "causal_mask",
    "generate",
    "padding_mask",
    "real_tokens",
    "scaled_dot_product_attention",
    "sequence_loss",
    "shift_right",
    "sinusoidal_table",
    "target_mask",
]
