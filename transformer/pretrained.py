"""Models that others have trained: BERT and GPT-2, from a folder as Hugging Face publishes it.

The folder holds config.json, the weights (model.safetensors, or pytorch_model.bin, which needs PyTorch to be read) and
the vocabulary. Nothing is downloaded, and nothing in the folder is run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tinygrad_attn import serialize
from tinygrad_attn.errors import CheckpointError, MissingExtraError, OptionError
from transformer.bert import BertEncoder
from transformer.causal import CausalLM
from transformer.config import BertConfig, CausalConfig
from transformer.pretrained_names import bert_state, gpt2_state
from transformer.published import PublishedTokenizer, contents, read_json

Arrays = dict[str, NDArray[Any]]
Folder = str | os.PathLike[str]
Model = TypeVar("Model", BertEncoder, CausalLM)

POINTER = b"version https://git-lfs"  # how the file begins that Git leaves in place of a large one

# Their names for the nonlinearities.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


@dataclass(frozen=True, eq=False)
class Pretrained(Generic[Model]):
    """A model with published weights, in evaluation mode.

    Attributes:
        model: the model.
        tokenizer: from text to its ids and back.
        name: its folder's; `_name_or_path` in config.json often names the model that this one was tuned from.
        passed_over: names of the weights that the model has no place for, such as those of BERT's pooler.
    """

    model: Model
    tokenizer: PublishedTokenizer
    name: str
    passed_over: tuple[str, ...]


def load_pretrained(folder: Folder) -> Pretrained[BertEncoder] | Pretrained[CausalLM]:
    """Whichever model the folder's config.json says it holds; see `load_bert` and `load_gpt2`."""
    found = _model_type(folder)
    if found not in ("bert", "gpt2"):
        raise CheckpointError(
            f"{folder} holds another kind of model\n  expected model_type 'bert' or 'gpt2', given {found!r}"
        )
    return load_gpt2(folder) if found == "gpt2" else load_bert(folder)


def load_bert(folder: Folder) -> Pretrained[BertEncoder]:
    """BERT, or a model of its form such as MiniLM.

    Args:
        folder: holds config.json, the weights and the vocabulary.
    Raises:
        CheckpointError: something is missing, damaged, or of another kind of model; says what.
        MissingExtraError: safetensors or tokenizers is not installed.
    """
    settings = _settings(folder, "bert")
    _refuse(settings, "position_embedding_type", "absolute")
    _refuse(settings, "is_decoder", False)
    config = _config(
        BertConfig,
        vocab=settings.get("vocab_size"),
        d_model=settings.get("hidden_size"),
        num_heads=settings.get("num_attention_heads"),
        d_ff=settings.get("intermediate_size"),
        layers=settings.get("num_hidden_layers"),
        dropout=settings.get("hidden_dropout_prob", 0.1),
        activation=_activation(settings.get("hidden_act", "gelu")),
        max_length=settings.get("max_position_embeddings"),
        segments=settings.get("type_vocab_size", 2),
        norm_eps=settings.get("layer_norm_eps", 1e-12),
    )
    return _filled(BertEncoder(config, rng=np.random.default_rng(0)), bert_state, folder)


def load_gpt2(folder: Folder) -> Pretrained[CausalLM]:
    """GPT-2, of any size.

    Args:
        folder: holds config.json, the weights and the vocabulary.
    Raises:
        CheckpointError: something is missing, damaged, or of another kind of model; says what.
        MissingExtraError: safetensors or tokenizers is not installed.
    """
    settings = _settings(folder, "gpt2")
    _refuse(settings, "scale_attn_by_inverse_layer_idx", False)
    _refuse(settings, "scale_attn_weights", True)
    _refuse(settings, "layer_norm_epsilon", 1e-5)
    width = settings.get("n_embd")
    config = _config(
        CausalConfig,
        vocab=settings.get("vocab_size"),
        d_model=width,
        num_heads=settings.get("n_head"),
        d_ff=settings.get("n_inner") or (4 * width if isinstance(width, int) else None),
        layers=settings.get("n_layer"),
        dropout=settings.get("resid_pdrop", 0.1),
        activation=_activation(settings.get("activation_function", "gelu_new")),
        max_length=settings.get("n_positions"),
        scale_embeddings=False,
    )
    return _filled(CausalLM(config, rng=np.random.default_rng(0)), gpt2_state, folder)


# --- the folder ----------------------------------------------------------------------------------------------------


def _model_type(folder: Folder) -> Any:
    if not Path(folder).is_dir():
        raise CheckpointError(f"{folder} is no folder\n  expected one with config.json, the weights and the vocabulary")
    return read_json(Path(folder, "config.json")).get("model_type")


def _settings(folder: Folder, wanted: str) -> Mapping[str, Any]:
    """config.json, if it is that of the wanted kind of model."""
    found = _model_type(folder)
    if found != wanted:
        raise CheckpointError(f"{folder} holds another kind of model\n  expected {wanted!r}, given {found!r}")
    return read_json(Path(folder, "config.json"))


def _refuse(settings: Mapping[str, Any], name: str, known: Any) -> None:
    """A setting that would make this another computation is not passed over."""
    if settings.get(name, known) != known:
        raise CheckpointError(f"config.json: {name} is {settings[name]!r}\n  this implementation knows {known!r} alone")


def _activation(name: Any) -> str:
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise CheckpointError(f"config.json: unknown activation {name!r}\n  known are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def _config(kind: Callable[..., Any], **fields: Any) -> Any:
    missing = [name for name, value in fields.items() if value is None]
    if missing:
        raise CheckpointError(f"config.json lacks what a {kind.__name__} needs: {', '.join(missing)}")
    try:
        return kind(**fields)
    except OptionError as error:
        raise CheckpointError(f"config.json does not fit: {error}") from error


def _filled(model: Model, translate: Callable[[Arrays], tuple[Arrays, list[str]]], folder: Folder) -> Pretrained[Model]:
    state, passed_over = translate(read_weights(Path(folder)))
    model.load_state_dict(state)
    model.eval()
    name = Path(os.path.abspath(folder)).name
    return Pretrained(model, PublishedTokenizer.of_folder(Path(folder)), name, tuple(passed_over))


def read_weights(folder: Path) -> Arrays:
    """All arrays of a folder, by the names they were published under.

    Raises:
        CheckpointError: there are none, or they cannot be read.
        MissingExtraError: they need a package that is not installed.
    """
    index = folder / "model.safetensors.index.json"
    if index.exists():  # large models come in several files
        return _of_parts(folder, read_json(index).get("weight_map"))
    if (folder / "model.safetensors").exists():
        return _of_file(folder / "model.safetensors")
    if (folder / "pytorch_model.bin").exists():
        return _of_file(folder / "pytorch_model.bin")
    raise CheckpointError(
        f"there are no weights in {folder}\n  expected model.safetensors; it holds {contents(folder)}"
    )


def _of_parts(folder: Path, places: Any) -> Arrays:
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise CheckpointError(f"{folder / 'model.safetensors.index.json'} does not say which file holds which weight")
    files = sorted(set(places.values()))
    return {name: array for file in files for name, array in _of_file(folder / file).items()}


def _of_file(path: Path) -> Arrays:
    if path.is_file():
        with path.open("rb") as opened:
            if opened.read(len(POINTER)) == POINTER:
                raise CheckpointError(
                    f"{path} is a pointer of Git LFS, not the weights\n  `git lfs pull` in its folder gets them"
                )
    found = serialize.load(path)[0] if path.suffix == ".safetensors" else _from_pytorch(path)
    for name, array in found.items():
        if array.dtype.kind == "i" and name.endswith((".weight", ".bias")):
            raise CheckpointError(
                f"{path}: {name} is {array.dtype}: the weights are quantised\n  get the model in float16 or float32"
            )
    return found


def _from_pytorch(path: Path) -> Arrays:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError(
            f"{path} can only be read by PyTorch, which is not installed\n"
            "  get the model's model.safetensors, or python -m pip install torch"
        ) from error
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)  # a pickle could run anything
    except Exception as error:  # torch has many types for what it cannot read, and advises to run what is in it
        raise CheckpointError(f"{path} cannot be read\n  it is damaged, or holds more than weights") from error
    if not isinstance(found, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in found.values()):
        raise CheckpointError(f"{path} does not hold weights by their names")
    return {name: _as_array(tensor) for name, tensor in found.items()}


def _as_array(tensor: Any) -> NDArray[Any]:
    """NumPy lacks bfloat16, so whatever has a fraction is read as float32."""
    return np.asarray(tensor.float().numpy() if tensor.is_floating_point() else tensor.numpy())
