"""`run.py`: what it does to a machine that has Python and nothing else, and what it says when that is too little."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


class Machine:
    """A checkout of its own, and pip and venv replaced by a record of what was asked of them."""

    def __init__(self, run: ModuleType, root: Path) -> None:
        self.run = run
        self.root = root
        self.installed: list[str] = []
        self.made = 0
        self.pip_says: str | None = None
        self.pip_is_there = True

    def quietly(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        code, output = 0, "pip 24.0 from somewhere" if self.pip_is_there else "python: No module named pip"
        if "ensurepip" in command:
            self.pip_is_there = True
        elif "venv" in command:
            self.made += 1
            python = Path(self.run.script("python"))
            python.parent.mkdir(parents=True, exist_ok=True)
            python.touch()
        elif "install" in command:
            self.installed.append(command[-1].partition("[")[2].rstrip("]"))
            if self.pip_says is not None:
                code, output = 1, self.pip_says
            if not self.pip_is_there:
                code = 1
        return subprocess.CompletedProcess(command, code, stdout=output)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    spec = importlib.util.spec_from_file_location("run_under_test", ROOT / "run.py")
    assert spec is not None and spec.loader is not None
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    (tmp_path / "pyproject.toml").write_text("[project]")
    machine = Machine(run, tmp_path)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(run, "STAMP", tmp_path / ".venv" / "stamp.json")
    monkeypatch.setattr(run, "LOG", tmp_path / ".venv" / "install.log")
    monkeypatch.setattr(run, "run_quietly", machine.quietly)
    return machine


def test_a_second_call_finds_everything_ready(machine: Machine) -> None:
    first = machine.run.prepare(["all"])
    assert machine.run.prepare(["all"]) == first
    assert (machine.made, machine.installed) == (1, ["all"])


def test_what_an_earlier_call_installed_stays_installed(machine: Machine) -> None:
    machine.run.prepare(["all", "test"])
    (machine.root / "pyproject.toml").write_text("[project]  # changed")
    machine.run.prepare(["all"])
    assert machine.installed == ["all,test", "all,test"]


def test_a_changed_pyproject_is_installed_again_into_the_same_environment(machine: Machine) -> None:
    machine.run.prepare(["all"])
    (machine.root / "pyproject.toml").write_text("[project]  # changed")
    machine.run.prepare(["all"])
    assert (machine.made, machine.installed) == (1, ["all", "all"])


@pytest.mark.parametrize("fact", ["root", "python"])
def test_an_environment_of_another_folder_or_python_is_made_anew(machine: Machine, fact: str) -> None:
    machine.run.prepare(["all"])
    stamp = machine.run.STAMP.read_text()
    machine.run.STAMP.write_text(stamp.replace(f'"{fact}": "', f'"{fact}": "other'))
    machine.run.prepare(["all"])
    assert machine.made == 2


@pytest.mark.parametrize("content", ['{"root": ', "[]", ""])
def test_a_damaged_stamp_is_no_stamp(machine: Machine, content: str) -> None:
    machine.run.prepare(["all"])
    machine.run.STAMP.write_text(content)
    machine.run.prepare(["all"])
    assert machine.installed == ["all", "all"]


def test_a_failed_install_is_one_line_with_the_reason_and_is_tried_again(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.pip_says = "Collecting numpy\nERROR: No matching distribution found for numpy\nhint: see above"
    with pytest.raises(SystemExit) as stopped:
        machine.run.prepare(["all"])
    assert stopped.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "No matching distribution found for numpy" in said
    assert str(machine.run.LOG) in said
    machine.pip_says = None
    machine.run.prepare(["all"])
    assert machine.installed == ["all", "all"]


def test_an_environment_without_pip_is_given_it(machine: Machine) -> None:
    machine.pip_is_there = False
    machine.run.prepare(["all"])
    assert machine.installed == ["all"]
    assert machine.run.STAMP.exists()


def test_a_python_that_cannot_make_environments_is_told_what_to_install(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ensurepip" else object())
    with pytest.raises(SystemExit) as stopped:
        machine.run.prepare(["all"])
    assert stopped.value.code == 2
    assert "-venv" in capsys.readouterr().err
    assert not (machine.root / ".venv").exists()


def test_an_unknown_command_is_answered_with_those_that_exist(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["run.py", "lessons"])
    with pytest.raises(SystemExit) as stopped:
        machine.run.main()
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert all(command in said for command in ("lesson", "test", "check", "setup"))


def test_programs_are_found_where_each_system_puts_them(machine: Machine) -> None:
    assert Path(machine.run.script("python", Path("venv"), windows=True)) == Path("venv", "Scripts", "python.exe")
    assert Path(machine.run.script("python", Path("venv"), windows=False)) == Path("venv", "bin", "python")
