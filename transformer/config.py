"""The sizes and choices a model is built from: plain data, checked, and saved with the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tinygrad_attn.errors import CheckpointError, OptionError
from transformer.embedding import POSITIONS
from transformer.sublayers import ACTIVATIONS


class Config:
    """What the configurations have in common: checks, and the way to plain data and back."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            self._check(field.name, field.type, getattr(self, field.name))
        d_model, num_heads = self._sizes()
        if d_model % num_heads:
            raise OptionError(
                f"{type(self).__name__}: num_heads must divide d_model\n"
                f"  given d_model={d_model}, num_heads={num_heads}"
            )

    def _sizes(self) -> tuple[int, int]:
        raise NotImplementedError

    def _check(self, name: str, kind: Any, value: Any) -> None:
        allowed = {"positions": tuple(POSITIONS), "activation": tuple(ACTIVATIONS)}.get(name)
        if allowed is not None:
            ok, expected = value in allowed, f"one of {', '.join(allowed)}"
        elif kind == "int":
            ok, expected = isinstance(value, int) and not isinstance(value, bool) and value >= 1, "an integer ≥ 1"
        elif kind == "bool":
            ok, expected = isinstance(value, bool), "True or False"
        else:
            ok = isinstance(value, (int, float)) and not isinstance(value, bool) and 0.0 <= value <= 1.0
            expected = "a probability, in [0, 1]"
        if not ok:
            raise OptionError(f"{type(self).__name__}: {name} must be {expected}\n  given {value!r}")

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        return dataclasses.asdict(self)  # type: ignore[call-overload,no-any-return]

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Any:
        """The configuration that `to_dict` wrote; fields that are missing get their defaults.

        Raises:
            CheckpointError: a field that does not exist, or a required one that is missing.
            OptionError: a field with an impossible value.
        """
        known = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        unknown = sorted(set(fields) - set(known))
        missing = [name for name, field in known.items() if field.default is dataclasses.MISSING and name not in fields]
        if unknown or missing:
            raise CheckpointError(
                f"not the settings of a {cls.__name__}\n"
                f"  unknown: {', '.join(unknown) or 'none'}; missing: {', '.join(missing) or 'none'}"
            )
        return cls(**fields)


@dataclass(frozen=True)
class TransformerConfig(Config):
    """Sizes and choices of an encoder–decoder.

    Args:
        source_vocab, target_vocab: how many tokens each side has.
        d_model: length of a token's vector.
        num_heads: attention heads; divides d_model.
        d_ff: inner length of the feed-forward networks.
        encoder_layers, decoder_layers: depth.
        dropout: one probability for all places where something is dropped.
        norm_first: pre-norm instead of the paper's post-norm.
        activation: "relu", "gelu" (exact), "gelu_tanh" or "silu".
        positions: "sinusoidal", "learned", or "rotary", which needs an even d_model / num_heads.
        max_length: longest source, and longest target.
        tie_embeddings: the target's embedding is also the map from vectors to logits.
        share_embeddings: source and target have one embedding, which needs one vocabulary.
    Raises:
        OptionError: a field with an impossible value.

    >>> config = TransformerConfig(source_vocab=60, target_vocab=14)
    >>> TransformerConfig.from_dict(config.to_dict()) == config
    True
    """

    source_vocab: int
    target_vocab: int
    d_model: int = 64
    num_heads: int = 4
    d_ff: int = 256
    encoder_layers: int = 2
    decoder_layers: int = 2
    dropout: float = 0.1
    norm_first: bool = False
    activation: str = "relu"
    positions: str = "sinusoidal"
    max_length: int = 512
    tie_embeddings: bool = False
    share_embeddings: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share_embeddings and self.source_vocab != self.target_vocab:
            raise OptionError(
                f"TransformerConfig: share_embeddings needs one vocabulary for both sides\n"
                f"  given source_vocab={self.source_vocab}, target_vocab={self.target_vocab}"
            )

    def _sizes(self) -> tuple[int, int]:
        return self.d_model, self.num_heads


@dataclass(frozen=True)
class CausalConfig(Config):
    """Sizes and choices of a decoder-only model.

    Args:
        vocab: how many tokens there are.
        layers: depth.
        d_model, num_heads, d_ff, dropout, norm_first, activation, positions, max_length: as in `TransformerConfig`.
        tie_embeddings: the embedding is also the map from vectors to logits.
        scale_embeddings: multiply tokens by √d_model before positions are added, as the paper does and GPT-2 does not.
    Raises:
        OptionError: a field with an impossible value.
    """

    vocab: int
    d_model: int = 64
    num_heads: int = 4
    d_ff: int = 256
    layers: int = 2
    dropout: float = 0.1
    norm_first: bool = True
    activation: str = "gelu_tanh"
    positions: str = "learned"
    max_length: int = 512
    tie_embeddings: bool = True
    scale_embeddings: bool = True

    def _sizes(self) -> tuple[int, int]:
        return self.d_model, self.num_heads


@dataclass(frozen=True)
class BertConfig(Config):
    """Sizes and choices of an encoder that reads a sentence, or two, in both directions.

    Args:
        vocab: how many tokens there are.
        layers: depth.
        d_model, num_heads, d_ff, dropout, activation, max_length: as in `TransformerConfig`.
        segments: how many kinds of tokens are told apart; two in BERT, first and second sentence.
        norm_eps: what layer norms add to the variance.
    Raises:
        OptionError: a field with an impossible value.
    """

    vocab: int
    d_model: int = 64
    num_heads: int = 4
    d_ff: int = 256
    layers: int = 2
    dropout: float = 0.1
    activation: str = "gelu"
    max_length: int = 512
    segments: int = 2
    norm_eps: float = 1e-12

    def _sizes(self) -> tuple[int, int]:
        return self.d_model, self.num_heads
