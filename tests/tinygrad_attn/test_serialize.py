"""What is saved comes back; what is damaged is named; nothing half-written is left."""

from __future__ import annotations

import builtins
import json
import os
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.conftest import require
from tinygrad_attn import nn, serialize
from tinygrad_attn.errors import CheckpointError, DtypeError, MissingExtraError

require("safetensors")

dtypes = st.sampled_from(sorted(serialize.DTYPES)).map(np.dtype)
texts = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12)
names = texts.filter(lambda name: name != "__metadata__")


@st.composite
def arrays(draw):
    """Any dtype, 0-d and empty included, laid out in memory in any way, in either byte order."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    values = draw(hnp.arrays(draw(dtypes), shape))
    layout = draw(
        st.sampled_from(["as it is", "transposed", "reversed", "every other", "Fortran", "swapped", "read-only"])
    )
    if layout == "transposed":
        return values.T
    if layout == "reversed" and values.ndim:
        return values[::-1]
    if layout == "every other" and values.ndim:
        return np.repeat(values, 2, axis=0)[::2]
    if layout == "Fortran":
        return np.asfortranarray(values)
    if layout == "swapped":
        return values.astype(values.dtype.newbyteorder())
    if layout == "read-only":
        values.flags.writeable = False
    return values


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


@given(tensors=st.dictionaries(names, arrays(), max_size=4), metadata=st.dictionaries(texts, texts, max_size=3))
def test_whatever_is_saved_comes_back_bit_for_bit(folder, tensors, metadata):
    path = folder / "any.safetensors"
    serialize.save(path, tensors, metadata)
    loaded, notes = serialize.load(path)
    assert notes == metadata and loaded.keys() == tensors.keys()
    for name, values in tensors.items():
        native = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="))).reshape(values.shape)
        assert loaded[name].dtype == native.dtype and loaded[name].shape == values.shape
        assert loaded[name].tobytes() == native.tobytes()
    assert os.listdir(folder) == ["any.safetensors"]


def test_loaded_arrays_can_be_written_to(tmp_path):
    serialize.save(tmp_path / "a", {"x": np.ones(3)})
    first, _ = serialize.load(tmp_path / "a")
    first["x"][0] = 5.0
    assert serialize.load(tmp_path / "a")[0]["x"][0] == 1.0


def test_the_file_is_what_other_programs_read(tmp_path):
    tensors = {"weight": np.arange(6.0).reshape(2, 3).T, "step": np.array(3)}
    serialize.save(tmp_path / "a.safetensors", tensors, {"kind": "test"})
    read = require("safetensors.numpy").load_file(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(read["weight"], tensors["weight"])
    require("safetensors.numpy").save_file({"w": np.eye(2, dtype=np.float32)}, tmp_path / "theirs", {"by": "them"})
    arrays, metadata = serialize.load(tmp_path / "theirs")
    np.testing.assert_array_equal(arrays["w"], np.eye(2))
    assert metadata == {"by": "them"}


def test_a_model_with_tied_parameters_goes_round_as_one(tmp_path):
    def make():
        model = nn.Sequential(nn.Embedding(3, 2), nn.Linear(2, 3, bias=False))
        model[1].weight = model[0].weight
        return model

    source, target = make(), make()
    serialize.save(tmp_path / "tied", source.state_dict())
    target.load_state_dict(serialize.load(tmp_path / "tied")[0])
    assert target[1].weight is target[0].weight
    np.testing.assert_array_equal(target[0].weight.numpy(), source[0].weight.numpy())


# --- what cannot be stored -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [np.ones(2, complex), np.array(["a"]), np.array([None]), np.array(["2020"], "M8[Y]"), np.ones(1, np.longdouble)],
    ids=lambda values: str(values.dtype),
)
def test_dtypes_the_format_lacks_are_refused_before_a_file_is_touched(tmp_path, values):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(DtypeError, match="culprit cannot be stored"):
        serialize.save(path, {"fine": np.ones(2), "culprit": values})
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    "tensors, metadata",
    [
        ({1: np.ones(1)}, {}),
        ({"__metadata__": np.ones(1)}, {}),
        ({"\ud800": np.ones(1)}, {}),
        ({}, {"epoch": 3}),
        ({}, {3: "epoch"}),
        ({}, {"a": "\udfff"}),
    ],
)
def test_names_and_metadata_must_be_text(tmp_path, tensors, metadata):
    with pytest.raises(DtypeError):
        serialize.save(tmp_path / "a", tensors, metadata)
    assert os.listdir(tmp_path) == []


# --- damaged files -------------------------------------------------------------------------------------------------


@pytest.fixture
def whole(tmp_path):
    path = tmp_path / "whole.safetensors"
    serialize.save(path, {"a": np.arange(100.0), "b": np.ones((2, 3), np.float32)}, {"k": "v"})
    return path


def test_a_file_cut_off_anywhere_is_named_as_damaged(whole):
    data = whole.read_bytes()
    for length in range(0, len(data), 7):
        whole.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match=r"whole\.safetensors"):
            serialize.load(whole)


def test_a_cut_off_file_says_how_much_is_missing(whole):
    data = whole.read_bytes()
    whole.write_bytes(data[:-10])
    with pytest.raises(CheckpointError, match=rf"expected {len(data)} bytes, found {len(data) - 10}"):
        serialize.load(whole)


def test_bytes_behind_the_end_are_refused(whole):
    whole.write_bytes(whole.read_bytes() + b"!")
    with pytest.raises(CheckpointError, match="longer than its header says"):
        serialize.load(whole)


def test_no_damaged_header_byte_brings_down_more_than_a_typed_error(whole):
    data = whole.read_bytes()
    header = 8 + int.from_bytes(data[:8], "little")
    rng = np.random.default_rng(0)
    for position in range(header):
        damaged = bytearray(data)
        damaged[position] ^= int(rng.integers(1, 256))
        whole.write_bytes(bytes(damaged))
        try:
            serialize.load(whole)  # a changed letter of a name is another name, and no damage that could be seen
        except CheckpointError as error:
            assert "whole.safetensors" in str(error)


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "F64", "shape": [3], "data_offsets": [0, 16]}},
        {"a": {"dtype": "F64", "shape": [2], "data_offsets": [-16, 16]}},
        {"a": {"dtype": "BF16", "shape": [8], "data_offsets": [0, 16]}},
        {"a": {"dtype": "F64", "shape": [2]}},
        {"a": [1]},
        [1, 2],
        3,
    ],
)
def test_headers_that_contradict_themselves_are_refused(tmp_path, header):
    text = json.dumps(header).encode()
    (tmp_path / "a").write_bytes(struct.pack("<Q", len(text)) + text + bytes(16))
    with pytest.raises(CheckpointError):
        serialize.load(tmp_path / "a")


@pytest.mark.parametrize(
    "start, words",
    [
        (b"", "empty"),
        (b"PK\x03\x04" + bytes(30), "zip archive"),
        (b"\x80\x04\x95" + bytes(30), "pickle"),
        (b"\x93NUMPY" + bytes(30), r"np\.load"),
        (b"<html>not found</html>", "right file"),
    ],
)
def test_other_formats_are_told_apart(tmp_path, start, words):
    (tmp_path / "a").write_bytes(start)
    with pytest.raises(CheckpointError, match=words):
        serialize.load(tmp_path / "a")


# --- places --------------------------------------------------------------------------------------------------------


def test_a_missing_file_is_named_with_its_neighbours(whole):
    with pytest.raises(CheckpointError, match=r"no checkpoint .*epoch3\.safetensors\n.*whole\.safetensors"):
        serialize.load(whole.parent / "epoch3.safetensors")
    with pytest.raises(CheckpointError, match=r"folder .* does not exist"):
        serialize.load(whole.parent / "runs" / "epoch3.safetensors")


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(CheckpointError, match="given a folder"):
        serialize.save(tmp_path, {"a": np.ones(1)})
    with pytest.raises(CheckpointError, match="given a folder"):
        serialize.load(tmp_path)


def test_a_folder_that_is_missing_or_no_folder_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"make the folder first: .*runs"):
        serialize.save(tmp_path / "runs" / "a", {"a": np.ones(1)})
    with pytest.raises(CheckpointError, match="Not a directory"):
        serialize.save(tmp_path / "file" / "a", {"a": np.ones(1)})


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(28, "No space left on device")])
@pytest.mark.parametrize("where", ["open", "fsync", "replace"])
def test_whatever_fails_while_saving_leaves_the_old_file_and_nothing_else(whole, monkeypatch, where, error):
    before = whole.read_bytes()

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(builtins if where == "open" else os, where, fail)
    with pytest.raises(CheckpointError, match=error.strerror):
        serialize.save(whole, {"a": np.zeros(1000)})
    monkeypatch.undo()
    assert whole.read_bytes() == before and os.listdir(whole.parent) == [whole.name]


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_an_interrupt_leaves_the_old_file_and_nothing_else(whole, monkeypatch, where):
    before = whole.read_bytes()

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, where, interrupt)
    with pytest.raises(KeyboardInterrupt):
        serialize.save(whole, {"a": np.zeros(1000)})
    monkeypatch.undo()
    assert whole.read_bytes() == before and os.listdir(whole.parent) == [whole.name]


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_stays_a_link(whole):
    link = whole.parent / "latest"
    link.symlink_to(whole)
    serialize.save(link, {"a": np.zeros(2)})
    assert link.is_symlink() and list(serialize.load(whole)[0]) == ["a"]


@pytest.mark.skipif(os.name == "nt", reason="no such permissions there")
def test_the_file_has_the_permissions_of_any_new_file(tmp_path):
    serialize.save(tmp_path / "a", {})
    (tmp_path / "b").write_bytes(b"")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "safetensors", None)
    for call in (lambda: serialize.save(tmp_path / "a", {}), lambda: serialize.load(tmp_path / "a")):
        with pytest.raises(MissingExtraError, match=r"tinygrad-attn\[io\]"):
            call()


def test_arguments_in_pytorchs_order_are_told_apart(tmp_path: Any) -> None:
    with pytest.raises(DtypeError, match=r"save\(path, tensors\)"):
        serialize.save({"w": np.ones(2)}, str(tmp_path / "w.safetensors"))  # type: ignore[arg-type]


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps permissions otherwise")
def test_a_private_file_stays_private_when_it_is_saved_again(whole: Any) -> None:
    whole.chmod(0o600)
    serialize.save(whole, {"x": np.ones(1)})
    assert whole.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["a\0b", "a" * 300, "é" * 200], ids=["NUL", "long", "long in bytes"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Any, name: str) -> None:
    for use in (lambda path: serialize.save(path, {"x": np.ones(1)}), serialize.load):
        with pytest.raises(CheckpointError):
            use(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_what_is_no_file_is_not_replaced_by_one(tmp_path: Any) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="a device or a pipe"):
        serialize.save(tmp_path / "pipe", {"x": np.ones(1)})
    assert (tmp_path / "pipe").is_fifo()


def test_names_of_files_and_arrays_may_be_in_any_script(tmp_path: Any) -> None:
    path = tmp_path / "가중치 é 😀.safetensors"
    serialize.save(path, {"층.0/가중치": np.ones(2)}, {"언어": "한국어"})
    tensors, metadata = serialize.load(path)
    assert list(tensors) == ["층.0/가중치"] and metadata == {"언어": "한국어"}


def test_rows_of_different_lengths_and_metadata_without_names_are_refused(tmp_path: Any) -> None:
    with pytest.raises(DtypeError, match="ragged cannot be stored"):
        serialize.save(tmp_path / "file", {"ragged": [[1.0], [1.0, 2.0]]})
    with pytest.raises(DtypeError, match="metadata must be text by name"):
        serialize.save(tmp_path / "file", {"x": np.ones(1)}, ["epoch"])  # type: ignore[arg-type]
