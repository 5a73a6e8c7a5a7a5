"""`paddock init --from`: a plan in TOML or JSON is written as YAML that says the same, or an error says why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from paddock.cli.init.conversion import yaml_text
from paddock.cli.init.init_command import init
from paddock.plan.formats.bounded_yaml import read_yaml
from paddock.plan.load import load_plan

SESSION = '[session]\norchestrator = "loop-basic"\ncontext = "context-simple"\n'
TOML = f"""\
# mine
{SESSION}
[[tools]]
module = "tool-x"
source = "./x"
permissions = {{read = ["."], net = ["a.example:443"]}}
config = {{on = "no", size = 1.5, text = '''one
two'''}}
"""
SAID = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "tools": [
        {
            "module": "tool-x",
            "source": "./x",
            "permissions": {"read": ["."], "net": ["a.example:443"]},
            "config": {"on": "no", "size": 1.5, "text": "one\ntwo"},
        }
    ],
}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def converted(*args: str) -> Result:
    # As the program does: a command returns its exit code.
    return CliRunner().invoke(init, ["--from", *args], standalone_mode=False)


@pytest.mark.parametrize(("name", "text"), [("plan.toml", TOML), ("plan.json", json.dumps(SAID))], ids=["TOML", "JSON"])
def test_the_new_plan_says_the_same_and_the_old_one_stays(name: str, text: str) -> None:
    Path(name).write_text(text)
    done = converted(name)
    assert (done.exception, done.return_value) == (None, 0)
    assert read_yaml(Path("plan.yaml").read_text())[0] == SAID
    assert Path(name).read_text() == text
    assert load_plan("plan.yaml").tools[0].source == str(Path("x").resolve())
    assert "text: |-\n" in Path("plan.yaml").read_text()
    assert f"plan.yaml is written, and {name} stays as it is" in done.output
    assert f"accepted anew: what you accepted and granted for {name} does not count for it" in done.output
    assert "add `--trust-plan`" in done.output and "paddock run plan.yaml" in done.output
    assert ("comments of plan.toml are not carried over" in done.output) == (name == "plan.toml")


def test_a_plan_that_is_there_stays_unless_it_is_to_be_replaced() -> None:
    Path("plan.toml").write_text(TOML)
    Path("plan.yaml").write_text("mine")
    done = converted("plan.toml")
    assert done.return_value == 1 and "`plan.yaml` is there already" in done.stderr
    assert Path("plan.yaml").read_text() == "mine"
    assert converted("plan.toml", "other.yaml").return_value == 0
    assert Path("plan.yaml").read_text() == "mine" and len(load_plan("other.yaml").tools) == 1
    assert converted("plan.toml", "--force").return_value == 0
    assert len(load_plan("plan.yaml").tools) == 1


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("plan.toml", None, "cannot be read: no such file"),
        ("plan.toml", b"a = \n", "plan.toml:1: not TOML"),
        ("plan.toml", b"a = 1\na = 2\n", "plan.toml:2: not TOML"),
        ("plan.toml", b"a = '\xff'", "not UTF-8 text, at byte 5"),
        ("plan.toml", b"#" * (1024 * 1024 + 1), "larger than 1024 KiB"),
        ("plan.toml", b"a." * 12_000 + b"b = 1", "nested too deeply"),
        ("plan.toml", b"[session]\n", "plan.toml:1: session.orchestrator: is missing"),
        ("plan.toml", f"{SESSION}\n[own]\nday = 2024-01-01\n".encode(), "plan.toml:6: own.day: is a date"),
        ("plan.toml", f"{SESSION}\n[own]\nsize = inf\n".encode(), "plan.toml:6: own.size: is not a finite number"),
        ("plan.json", b"[1]", "must be a table"),
        ("plan.json", b'"plan.toml"', "must be a table"),
        ("anchros", None, "the bundle `anchors` may be meant"),
        (".", None, "is a folder without a bundle"),
        ("plan.ini", b"", "plans are .yaml, .yml or .json files"),
        ("git+https://u:p@host/plan.toml", None, "is an address; `--from` takes the file of a plan"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_file_that_is_no_plan_is_told_with_its_place(name: str, text: bytes | None, told: str) -> None:
    if text is not None:
        Path(name).write_bytes(text)
    done = converted(name)
    assert done.return_value == 1 and told in done.stderr
    assert "u:p" not in done.stderr and not Path("plan.yaml").exists()


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["plan.yaml"], "is in YAML already"),
        (["plan.toml", "below/plan.yaml"], "`paddock init --from {folder}/plan.toml`"),
        (["below/link.toml"], "`paddock init --from {folder}/plan.toml`"),
        (["plan.toml", "--tool", "tool-x"], "leave out the options that choose others"),
        (["plan.toml", "--no-log"], "leave out the options that choose others"),
        (["plan.toml", "plan.json"], "is written as YAML"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_conversion_that_makes_no_sense_is_told(args: list[str], told: str, tmp_path: Path) -> None:
    Path("plan.toml").write_text(TOML)
    Path("below").mkdir()
    Path("below/link.toml").symlink_to("../plan.toml")
    if args[0] == "plan.yaml":
        Path("plan.yaml").write_text("mine")
    done = converted(*args)
    assert done.exception is not None
    assert told.format(folder=tmp_path.resolve()) in done.exception.format_message()  # type: ignore[attr-defined]
    assert sorted(path.name for path in Path().rglob("*.yaml")) == (["plan.yaml"] if args[0] == "plan.yaml" else [])


_TEXTS = st.text(max_size=12) | st.sampled_from(
    ["yes", "=", "<<", "1_0", "0x1", "1:30", "~", "", " a\n b \n", "\u202e"]
)
_VALUES = st.recursive(
    _TEXTS | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(_TEXTS, _VALUES, max_size=4))
def test_any_content_reads_as_it_was(content: dict[str, Any]) -> None:
    text = yaml_text(content)
    assert read_yaml(text)[0] == content
    assert all(map(str.isprintable, text.split("\n")))
