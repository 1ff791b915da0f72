"""The vocabulary of a published model, read by the library that wrote it (`tokenizers`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn.errors import CheckpointError, MissingExtraError


class PublishedTokenizer:
    """From text to ids and back, as the model was trained with.

    Args:
        rules: a `tokenizers.Tokenizer`.
    """

    def __init__(self, rules: Any) -> None:
        self._rules = rules
        rules.no_padding()  # files may ask for both, to a fixed length; here a text is as long as it is
        rules.no_truncation()

    @classmethod
    def of_folder(cls, folder: Path) -> PublishedTokenizer:
        """The tokenizer of a model's folder: tokenizer.json, or the older vocab.txt, or vocab.json with merges.txt.

        Raises:
            CheckpointError: there is none, or it cannot be read.
            MissingExtraError: the package tokenizers is not installed.
        """
        try:
            import tokenizers
        except ImportError as error:
            raise MissingExtraError(
                "the vocabulary of a published model needs the package tokenizers, which is not installed\n"
                "  python -m pip install 'tinygrad-attn[tokenizers]'"
            ) from error
        whole, words, pieces, merges = (
            folder / name for name in ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt")
        )
        try:
            if whole.exists():
                return cls(tokenizers.Tokenizer.from_file(str(whole)))
            if words.exists():
                return cls(tokenizers.BertWordPieceTokenizer(str(words), lowercase=_lowercase(folder)))
            if pieces.exists() and merges.exists():
                return cls(tokenizers.ByteLevelBPETokenizer(str(pieces), str(merges)))
        except Exception as error:  # the library raises bare exceptions
            raise CheckpointError(f"the vocabulary in {folder} cannot be read: {str(error)[:160]}") from error
        raise CheckpointError(
            f"there is no vocabulary in {folder}\n  expected tokenizer.json, vocab.txt, or vocab.json and merges.txt"
        )

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with the marks that the model expects around it, such as [CLS] and [SEP]."""
        return list(self._rules.encode(text).ids)

    def encode_batch(self, texts: Sequence[str], *, pad_id: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Ids of several texts, padded on the right, (batch, length), and how many of each are real, (batch,)."""
        rows = [self.encode(text) for text in texts]
        ids = np.full((len(rows), max(map(len, rows), default=0)), pad_id, dtype=np.int64)
        for row, given in zip(ids, rows, strict=True):
            row[: len(given)] = given
        return ids, np.array([len(row) for row in rows], dtype=np.int64)

    def tokens_of(self, ids: Sequence[int]) -> list[str]:
        """The pieces that ids stand for, as the vocabulary writes them: "##ing" goes on a word, "Ġthe" begins one."""
        return [str(self._rules.id_to_token(int(number))) for number in ids]

    def decode(self, ids: Sequence[int]) -> str:
        """The text that ids stand for, without marks."""
        return str(self._rules.decode([int(number) for number in ids]))

    def __len__(self) -> int:
        return int(self._rules.get_vocab_size())


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of a model's folder.

    Raises:
        CheckpointError: the file is missing or holds something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"there is no {path.name} in {path.parent}\n  it holds {contents(path.parent)}") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{path} holds {type(found).__name__}, not an object of settings")
    return found


def contents(folder: Path) -> str:
    """What stands in a folder, for an error about what does not."""
    names = sorted(entry.name for entry in folder.iterdir())
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") or "nothing"


def _lowercase(folder: Path) -> bool:
    settings = folder / "tokenizer_config.json"
    return bool(read_json(settings).get("do_lower_case", True)) if settings.exists() else True
