"""What `from transformer import …` offers; `transformer/__init__.py` reads it when the first of these is asked for."""

from transformer.attention import MultiHeadAttention, scaled_dot_product_attention
from transformer.bert import BertEncoder
from transformer.cache import DecoderCache, KeyValueCache
from transformer.causal import CausalLM
from transformer.config import BertConfig, CausalConfig, TransformerConfig
from transformer.decoder import Decoder, DecoderLayer, LayerWeights
from transformer.decoding import Beam, GenerationResult, GenerationStep, Greedy, Hypothesis, Sample, generate
from transformer.embedding import InputEmbedding
from transformer.encoder import Encoder, EncoderLayer
from transformer.masks import causal_mask, padding_mask, real_tokens, target_mask
from transformer.model import Transformer
from transformer.positional import (
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
    rotary_angles,
    sinusoidal_table,
)
from transformer.pretrained import Pretrained, load_bert, load_gpt2, load_pretrained
from transformer.sublayers import AddAndNorm, FeedForward
from transformer.targets import sequence_loss, shift_right
from transformer.tokenizer import CharTokenizer, Tokenizer, WordTokenizer

__all__ = [
    "AddAndNorm",
    "Beam",
    "BertConfig",
    "BertEncoder",
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
    "Pretrained",
    "RotaryPositions",
    "Sample",
    "SinusoidalPositions",
    "Tokenizer",
    "Transformer",
    "TransformerConfig",
    "WordTokenizer",
    "causal_mask",
    "generate",
    "load_bert",
    "load_gpt2",
    "load_pretrained",
    "padding_mask",
    "real_tokens",
    "rotary_angles",
    "scaled_dot_product_attention",
    "sequence_loss",
    "shift_right",
    "sinusoidal_table",
    "target_mask",
]
