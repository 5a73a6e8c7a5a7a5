"""The balance fails on each bound that `make lint` holds, and on nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_BALANCE = Path(__file__).with_name("balance.py")
_CODE = "def first(value):\n    return value + 1\n"  # of two statements and ten tokens
_ATTACKER = "host/paddock/selftest/modules/tool-attacker/amplifier_module_tool_attacker"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with one file, whose size is recorded."""
    write(tmp_path, "host/paddock/first.py", _CODE)
    recorded = {
        "lines": 2,
        "code_lines": 2,
        "import_lines": 0,
        "statements": 2,
        "tokens": 10,
        "data_files": 0,
        "data_lines": 0,
    }
    write(tmp_path, "tests/packaging/size.json", json.dumps({"commit": "0123abcd", **recorded}))
    return tmp_path


def write(tree: Path, name: str, text: str) -> None:
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text(text, encoding="utf-8")


def balance(tree: Path, *options: str) -> tuple[int, str, str]:
    """Return the exit code, the balance, and what is out of bounds."""
    done = subprocess.run(
        [sys.executable, _BALANCE, *options, tree], capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


def rows(printed: str) -> dict[str, list[str]]:
    return {line[:24].strip(): line[24:].split() for line in printed.splitlines()[1:]}


def test_growth_within_the_bounds_is_shown_and_passes(tree: Path) -> None:
    write(tree, "sdk/paddock_sdk/second.py", f'"""A docstring\nof two lines."""\n\n# a comment\n{_CODE}')
    write(tree, "modules/tool-x/pyproject.toml", "[project]\nname = 'x'\n")
    for name in ("README.md", "tests/test_x.py", "__pycache__/x.py", ".cache/x.json"):
        write(tree, f"modules/tool-x/{name}", _CODE)
    code, printed, excesses = balance(tree)
    assert (code, excesses) == (0, "")
    assert rows(printed) == {
        "lines": ["8", "2", "+6"],
        "code lines": ["4", "2", "+2"],
        "import lines": ["0", "0", "+0"],
        "statements a code line": ["1.000", "1.000", "+0.0%"],
        "tokens a code line": ["5.000", "5.000", "+0.0%"],
        "data files": ["1", "0", "+1"],
        "data lines": ["2", "0", "+2"],
    }


def test_a_formatted_string_is_one_token_in_all_versions(tree: Path) -> None:
    write(tree, "host/paddock/first.py", "name = f'{one!r:>{width}} of {f\"{two}\"}'\n")
    assert json.loads(balance(tree, "--json")[1])["tokens"] == 3


def test_density_is_the_same_however_imports_are_laid_out(tree: Path) -> None:
    imports = (
        "from os import path, sep\n",
        "from os import (\n    path,\n    sep,\n)\n",
        '__all__ = [\n    "path",\n    "sep",\n]\n',
        "",
    )
    densities = set[str]()
    for text in imports:
        write(tree, "host/paddock/first.py", text + _CODE)
        densities.add(str([rows(balance(tree)[1])[f"{name} a code line"] for name in ("statements", "tokens")]))
    assert len(densities) == 1


def test_a_file_that_is_too_long_fails_by_name(tree: Path) -> None:
    write(tree, "host/paddock/first.py", _CODE * 300)
    assert balance(tree)[0] == 0
    write(tree, "host/paddock/first.py", _CODE * 300 + "\n")
    code, _, excesses = balance(tree)
    assert code == 1 and "host/paddock/first.py has 601 lines, more than 600" in excesses


def test_a_folder_that_is_too_full_fails_by_name(tree: Path) -> None:
    for folder, most in (("host/paddock/rpc", 25), (_ATTACKER, 30)):
        for number in range(most):
            write(tree, f"{folder}/part_{number}.py", _CODE)
        write(tree, f"{folder}/data.json", "{}")
        assert balance(tree)[0] == 0, folder
        write(tree, f"{folder}/more.py", _CODE)
        code, _, excesses = balance(tree)
        assert code == 1 and f"{folder} has {most + 1} Python files, more than {most}" in excesses
        (tree / folder / "more.py").unlink()


@pytest.mark.parametrize(
    ("name", "dense"), [("statements", "x = 1; y = 2\n"), ("tokens", "x = [1, 2, 3, 4, 5, 6, 7, 8]\n")]
)
def test_code_that_is_denser_fails_and_says_in_what(tree: Path, name: str, dense: str) -> None:
    plain = _CODE * 100
    write(tree, "host/paddock/first.py", f"{plain}{dense}")
    assert balance(tree)[0] == 0
    write(tree, "host/paddock/first.py", f"{plain}{dense * 10}")
    code, _, excesses = balance(tree)
    assert code == 1 and f" {name} a line of code, more than " in excesses and excesses.count("\n") == 1
