"""Files come into a folder whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import require
from tinygrad_attn.errors import OptionError
from transformer.lessons.publish import check_folder, is_marked, marked, publish

FILES = {"index.html": b"page", "picture.txt": b"text"}


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_new_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    written = publish(tmp_path / "a" / "b", FILES)
    assert content(tmp_path / "a" / "b") == FILES
    assert [path.name for path in written] == list(FILES)
    assert [entry.name for entry in (tmp_path / "a").iterdir()] == ["b"]


def test_files_of_the_same_name_are_replaced_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_bytes(b"mine")
    (tmp_path / "out" / "index.html").write_bytes(b"old")
    publish(tmp_path / "out", FILES)
    assert content(tmp_path / "out") == {**FILES, "mine": b"mine"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("exists", [True, False])
def test_when_writing_fails_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool) -> None:
    folder = tmp_path / "out"
    if exists:
        publish(folder, {"index.html": b"old"})
    write = Path.write_bytes

    def fill_up(self: Path, data: Any) -> int:
        if self.name == "picture.txt":
            raise OSError(28, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", fill_up)
    with pytest.raises(OSError, match="No space"):
        publish(folder, FILES)
    assert folder.exists() == exists
    assert not exists or content(folder) == {"index.html": b"old"}
    assert [entry.name for entry in tmp_path.iterdir()] == (["out"] if exists else [])


def test_a_folder_that_can_be_written_is_found_so_and_left_as_it_is(tmp_path: Path) -> None:
    check_folder(tmp_path / "new" / "deep")
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_found_before(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(OptionError, match="is a file"):
            check_folder(place)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a file system that nobody can write to")
def test_a_folder_that_cannot_be_written_is_found_before() -> None:
    with pytest.raises(OptionError, match=rf"^--out /proc/{os.getpid()}/lesson: nothing can be written in \S+: [^/]*$"):
        check_folder(Path(f"/proc/{os.getpid()}/lesson"))


IMAGE = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + bytes(17) + b"\0\0\0\0IEND\xae\x42\x60\x82"
CONTENTS = [b'<!doctype html><meta charset="utf-8"><p>', b"<svg></svg>\n", IMAGE]


@pytest.mark.parametrize("content", CONTENTS, ids=["page", "drawing", "image"])
def test_what_was_published_is_known_again_and_nothing_else(tmp_path: Path, content: bytes) -> None:
    assert is_marked(marked(content)) and not is_marked(content)
    publish(tmp_path / "out", {"a": content})
    check_folder(tmp_path / "out", ["a", "b"])
    (tmp_path / "out" / "a").write_bytes(content)
    with pytest.raises(OptionError, match="a there is not from a lesson"):
        check_folder(tmp_path / "out", ["a", "b"])
    check_folder(tmp_path / "out", ["a", "b"], force=True)


def test_a_marked_image_is_still_one() -> None:
    matplotlib = require("matplotlib.image")
    np = require("numpy")
    import io

    blank = io.BytesIO()
    matplotlib.imsave(blank, np.zeros((2, 3)), format="png", metadata={"Software": None})
    assert not is_marked(blank.getvalue())
    shown = matplotlib.imread(io.BytesIO(marked(blank.getvalue())), format="png")
    assert shown.shape == (2, 3, 4)


def test_a_folder_in_the_place_of_a_file_is_refused_even_with_force(tmp_path: Path) -> None:
    (tmp_path / "index.html").mkdir()
    with pytest.raises(OptionError, match="is a folder"):
        check_folder(tmp_path, ["index.html"], force=True)


def test_a_link_that_leads_nowhere_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "index.html").symlink_to(tmp_path / "gone")
    with pytest.raises(OptionError, match="not from a lesson"):
        check_folder(tmp_path, ["index.html"])
