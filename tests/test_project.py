"""What holds for the project as a whole: the way imports run, the length of files, what the papers around it say."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tinygrad_attn
from tests.conftest import require

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PACKAGES = ["tinygrad_attn", "transformer", "viz"]
SOURCES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
AROUND = [
    ROOT / "run.py",
    *sorted(file for folder in ("benchmarks", "docs", "examples") for file in (ROOT / folder).rglob("*.py")),
]


def named(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=named(file))


def imported_packages(file: Path) -> set[str]:
    """Top-level names of all imports in a file, also those inside functions."""
    found = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


def duplicates(body: list[ast.stmt], where: str) -> Iterator[str]:
    """Test names that stand twice in one module or class, where the second hides the first."""
    functions = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    counts = Counter(node.name for node in functions if node.name.startswith("test"))
    yield from (f"{where}: {name}" for name, count in counts.items() if count > 1)
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from duplicates(node.body, f"{where}::{node.name}")


def loaded_by(package: str) -> set[str]:
    """Top-level names of what `import package` loads in a new interpreter, the standard library left out.

    Compiled modules also register helpers that were imported from nowhere; those have no spec.
    """
    script = (
        "import sys; before = set(sys.modules); __import__(sys.argv[1]);"
        "loaded = {name for name, module in sys.modules.items() if getattr(module, '__spec__', None)} - before;"
        "print(*{name.split('.')[0] for name in loaded} - sys.stdlib_module_names)"
    )
    command = [sys.executable, "-c", script, package]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


# --- imports ---------------------------------------------------------------------------------------------------------


def test_importing_the_engine_loads_numpy_and_nothing_else() -> None:
    assert loaded_by("tinygrad_attn") == {"tinygrad_attn", "numpy"}


def test_importing_viz_loads_no_extra() -> None:
    assert loaded_by("viz") <= {"viz", "tinygrad_attn", "numpy", "graphviz"}


def test_importing_transformer_loads_neither_viz_nor_an_extra() -> None:
    assert loaded_by("transformer") <= {"transformer", "tinygrad_attn", "numpy"}


def test_the_command_line_says_its_commands_without_an_extra() -> None:
    assert loaded_by("transformer.cli") <= {"transformer", "viz", "tinygrad_attn", "numpy", "graphviz"}


@pytest.mark.parametrize("file", SOURCES, ids=named)
def test_imports_run_one_way(file: Path) -> None:
    place = file.relative_to(ROOT).parts
    above = {
        "tinygrad_attn": {"transformer", "viz"},
        "viz": {"transformer"},
        "transformer": set() if place[1] in ("lessons", "cli.py", "__main__.py") else {"viz"},
    }
    assert not imported_packages(file) & above[place[0]]


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", [*SOURCES, *TESTS, *AROUND], ids=named)
def test_no_file_is_longer_than_one_sitting(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("file", SOURCES, ids=named)
def test_every_file_says_what_lives_in_it(file: Path) -> None:
    assert ast.get_docstring(tree(file))


@pytest.mark.parametrize("file", SOURCES, ids=named)
def test_user_input_meets_typed_errors_never_a_bare_assert(file: Path) -> None:
    assert not [node.lineno for node in ast.walk(tree(file)) if isinstance(node, ast.Assert)]


@pytest.mark.parametrize("file", SOURCES, ids=named)
def test_nothing_is_pickled(file: Path) -> None:
    assert not imported_packages(file) & {"pickle", "cPickle", "dill", "joblib", "shelve"}


@pytest.mark.parametrize("file", TESTS, ids=named)
def test_no_test_hides_another_of_the_same_name(file: Path) -> None:
    assert not list(duplicates(tree(file).body, named(file)))


def test_a_hidden_test_is_found() -> None:
    twice = "    def test_ties(self): ...\n" * 2
    hidden = ast.parse(f"class TestMax:\n{twice}def test_ties(): ...")
    assert list(duplicates(hidden.body, "here")) == ["here::TestMax: test_ties"]


def test_run_py_parses_on_the_pythons_that_it_turns_away() -> None:
    ast.parse((ROOT / "run.py").read_text(encoding="utf-8"), feature_version=(3, 6))


# --- packaging and papers --------------------------------------------------------------------------------------------


def requirement(line: str) -> str:
    """The name in a requirement: `jax` of `jax>=0.4`, `tinygrad-attn[io]` with its extras."""
    return re.split(r"[<>=!~; ]", line)[0]


def test_the_core_needs_numpy_and_the_small_graphviz_package(pyproject: dict[str, Any]) -> None:
    assert {requirement(line) for line in pyproject["project"]["dependencies"]} == {"numpy", "graphviz"}


def test_each_extra_brings_what_it_is_named_for(pyproject: dict[str, Any]) -> None:
    extras = pyproject["project"]["optional-dependencies"]
    brought = {name: {requirement(line) for line in lines} for name, lines in extras.items()}
    peers = {"torch", "autograd", "mygrad", "jax"}
    assert brought == {
        "render": {"pygraphviz"},
        "plot": {"matplotlib"},
        "lesson": {"tinygrad-attn[plot,io]", "rich", "jinja2", "latex2mathml", "babel", "threadpoolctl", "hypothesis"},
        "io": {"safetensors"},
        "tokenizers": {"tokenizers"},
        "scipy": {"scipy"},
        "mpi": {"mpi4py", "mpich"},
        "bench": peers,
        "parity": peers | {"transformers"},
        "test": {"pytest", "hypothesis", "pytest-cov", "playwright"},
        "mutation": {"cosmic-ray"},
        "dev": {"ruff", "mypy", "import-linter", "build"},
        "all": {"tinygrad-attn[render,plot,lesson,io]"},
    }


def test_torch_is_pinned_to_one_release_wherever_it_is_asked_for(pyproject: dict[str, Any]) -> None:
    extras = pyproject["project"]["optional-dependencies"].values()
    asked = {line for lines in extras for line in lines if requirement(line) == "torch"}
    assert asked == {"torch==2.13.0"}
    assert "torch==2.13.0" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_three_packages_are_shipped_with_their_types(pyproject: dict[str, Any]) -> None:
    assert pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == PACKAGES
    assert all((ROOT / package / "py.typed").is_file() for package in PACKAGES)


def test_the_engine_and_the_changelog_know_the_version(pyproject: dict[str, Any]) -> None:
    version = pyproject["project"]["version"]
    assert tinygrad_attn.__version__ == version
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_two_commands_stand_on_the_first_screen_of_the_readme(readme: str) -> None:
    first_screen = "\n".join(readme.splitlines()[:24])
    assert "python3 run.py lesson" in first_screen
    assert "python3 run.py test" in first_screen


@pytest.mark.parametrize("paper", ["README.md", "CONTRIBUTING.md"])
def test_the_examples_in_the_papers_run_one_after_the_other(paper: str, tmp_path: Path) -> None:
    require("matplotlib")
    text = (ROOT / paper).read_text(encoding="utf-8")
    examples = re.findall(r"^( *)```python\n(.*?)^\1```", text, flags=re.MULTILINE | re.DOTALL)
    assert examples
    program = "\n".join(textwrap.dedent(example) for _, example in examples)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", env=environment, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("paper", ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in DOCS)])
def test_every_link_in_the_papers_leads_somewhere(paper: str) -> None:
    text = (ROOT / paper).read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert [target for target in targets if not (ROOT / paper).parent.joinpath(target).exists()] == []


def test_the_readme_lists_the_extras_that_exist(readme: str, pyproject: dict[str, Any]) -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", readme, flags=re.MULTILINE))
    assert listed == set(pyproject["project"]["optional-dependencies"])


@pytest.mark.parametrize("paper", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_inside_the_project_lead_somewhere(paper: str) -> None:
    text = (ROOT / paper).read_text(encoding="utf-8")
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    assert [target for target in targets if target and not (ROOT / target).exists()] == []
