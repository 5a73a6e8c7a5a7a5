"""Every command and snippet that README and the manuals show works as it is shown."""

from __future__ import annotations

import ast
import configparser
import importlib
import inspect
import json
import os
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

from integration.command_line import paddock, python
from integration.manual_pages import MANUALS, ROOT, Block, Command, blocks, commands, is_shown, links
from support.rows import each_row

_NAMED = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_PLAN = """
session: {orchestrator: loop-basic, context: context-simple}
providers:
  - module: provider-mock
    config: {responses: ["Hello."]}
tools:
  - module: tool-filesystem
"""
_TRIED_ELSEWHERE = {
    *("make", "mkdir", "cd", "export", "eval", "git", "pytest", "_PADDOCK_COMPLETE=fish_source"),
    *("python3", ".venv/bin/pip"),  # README's line to install it, which takes a registry of packages
}
_OPTIONS = json.loads((ROOT / "tests/blackbox/golden/command_options.json").read_text(encoding="utf-8"))


def _each(*kinds: str) -> list[object]:
    found = [(page, block) for page in MANUALS for block in blocks(page) if block.kind in kinds]
    return [pytest.param(block, id=f"{page.relative_to(ROOT)}:{block.line}") for page, block in found]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as the pages suppose it: a note, a plan, a broken plan, a module of one's own."""
    shout = next(block for block in blocks(ROOT / "README.md") if block.kind == "python module")
    files = {
        "notes.txt": "buy milk\n",
        "plan.yaml": _PLAN,
        "broken.yaml": _PLAN.replace("tools:", "tool:"),
        shout.value: shout.text,
        "data/figures.csv": "1\n",
        "logs/session.jsonl": "",
        "modules/amplifier-module-tool-mine/amplifier_module_tool_mine/__init__.py": shout.text,
        "out/.keep": "",
    }
    for name, text in files.items():
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "work"


@pytest.mark.exhaustive("testing-modules.md", "sdk/docs/application.md", "host/docs/chat.md")
@pytest.mark.parametrize("page", MANUALS, ids=_name)
def test_a_page_runs_from_top_to_bottom(page: Path, folder: Path) -> None:
    for block in blocks(page):
        place = f"{_name(page)}:{block.line}"
        match block.kind:
            case "console" | "console exit":
                for command in (those := commands(block)):
                    _run(command, folder, int(block.value or 0) if command is those[-1] else 0, place)
            case "python run":
                _run_program(block.text, folder, place)
            case "python module":
                (folder / block.value).parent.mkdir(parents=True, exist_ok=True)
                (folder / block.value).write_text(block.text, encoding="utf-8")
            case "yaml plan" if block is next(one for one in blocks(page) if one.kind == "yaml plan"):
                if page.name == "plans.md":  # its commands are about the plan that it begins with
                    (folder / "plan.yaml").write_text(block.text, encoding="utf-8")


def _run(command: Command, folder: Path, code: int, place: str) -> None:
    assert command.words[0] == "paddock", f"{place}: {command.words[0]} is not run here"
    done = paddock(*command.words[1:], stdin=command.stdin, cwd=folder)
    said = f"{done.stderr}\n{done.stdout}"
    assert done.returncode == code, f"{place}: {' '.join(command.words)} ended with {done.returncode}:\n{said}"
    missing = [line for line in command.shown if line != "…" and not is_shown(line, said)]
    assert not missing, f"{place}: {missing} is not shown by {' '.join(command.words)}:\n{said}"


def _run_program(text: str, folder: Path, place: str) -> None:
    done = python(text, cwd=folder, environ={})
    assert done.returncode == 0, f"{place}:\n{done.stderr}"


@each_row("block", _each("console shown"))
def test_commands_that_are_only_shown_exist_with_their_options(block: Block) -> None:
    for line in commands(block):
        words = " ".join(line.words).split(" && ")
        for command in words:
            name, *rest = command.split()
            if name != "paddock":
                assert name in _TRIED_ELSEWHERE
                continue
            of = next(key for key in (" ".join(rest[:2]), rest[0]) if key in _OPTIONS)
            known = {word for option in _OPTIONS[of]["options"] for word in option.replace(",", " ").split()}
            ours = rest[: rest.index("--")] if "--" in rest else rest
            assert {word.partition("=")[0] for word in ours if word.startswith("-") and len(word) > 1} <= known


@each_row("block", _each("ini unit", "yaml ci"))
def test_commands_of_units_and_pipelines_exist_with_their_options(block: Block) -> None:
    if block.kind == "ini unit":
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str  # type: ignore[assignment, method-assign]
        unit.read_string(block.text)
        lines = [unit["Service"]["ExecStart"].removeprefix("/opt/agent/bin/")]
    else:
        steps = yaml.safe_load(block.text)["steps"]
        lines = [line for step in steps for line in step["run"].splitlines()]
        for step in steps:
            assert {*re.findall(r"\$(\w+)", step["run"])} == {*step.get("env", {})}
    for name, *rest in map(shlex.split, lines):
        if name == "paddock":
            known = {word for option in _OPTIONS[rest[0]]["options"] for word in option.replace(",", " ").split()}
            assert {word for word in rest if word.startswith("-")} <= known
        else:
            assert name in ("trap", "git", "echo")


@each_row("block", _each("yaml plan", "yaml entry"))
def test_a_plan_is_read_as_it_is_shown(block: Block, folder: Path) -> None:
    from paddock.plan.load import load_plan

    text = block.text
    if block.kind == "yaml entry":
        text = "session: {orchestrator: loop-basic, context: context-simple}\ntools:\n" + text
    (folder / "shown.yaml").write_text(text, encoding="utf-8")
    assert load_plan(folder / "shown.yaml") is not None


@each_row("block", _each("json client"))
def test_the_file_of_a_client_is_read_as_it_is_shown(block: Block) -> None:
    from paddock.cli.mcp.client_file import ClientFile

    servers = ClientFile.read(block.text.encode(), ROOT / ".mcp.json").servers
    assert servers
    assert not [one.problem for one in servers if one.problem]


@pytest.mark.parametrize("block", _each("toml policy", "toml secrets", "toml sources", "toml manifest"))
def test_a_file_is_read_as_it_is_shown(block: Block, folder: Path) -> None:
    config = Path(os.environ["HOME"]) / ".config/paddock"
    config.mkdir(parents=True)
    (config / f"{block.word}.toml").write_text(block.text, encoding="utf-8")
    (config / f"{block.word}.toml").chmod(0o600)
    if block.word == "manifest":
        (folder / "amplifier-module-tool-shout/pyproject.toml").write_text(
            f'[project]\nname = "amplifier-module-tool-shout"\nversion = "1"\n{block.text}', encoding="utf-8"
        )
        said = paddock("add", "./amplifier-module-tool-shout", "--json", cwd=folder)
        assert "api.example.org" in said.stdout
    else:
        said = paddock("policy", "check", str(config / f"{block.word}.toml"))
        assert said.returncode == 0 and "warning" not in said.stdout


@each_row("block", _each("python signature"))
def test_a_signature_is_shown_as_it_is(block: Block) -> None:
    module, _, name = block.value.rpartition(".")
    shown: dict[str, object] = {}
    exec(compile(f"from __future__ import annotations\n{block.text}", block.value, "exec"), shown)
    said, real = (inspect.signature(one) for one in (shown[name], getattr(importlib.import_module(module), name)))
    assert [str(one) for one in said.parameters.values()] == [str(one) for one in real.parameters.values()]


def test_each_block_says_how_it_is_tried() -> None:
    known = {"console", "console exit", "console shown", "python run", "python module", "python signature"}
    known |= {
        "text order",
        "text way",
        "ini unit",
        "yaml ci",
        "yaml plan",
        "yaml entry",
        "json client",
        "toml policy",
        "toml secrets",
        "toml sources",
        "toml manifest",
    }
    unknown = [f"{_name(page)}:{block.line}" for page in MANUALS for block in blocks(page) if block.kind not in known]
    assert not unknown


@each_row("page", [page for page in MANUALS if page.parent != ROOT], ids=_name)
def test_a_manual_begins_with_what_one_can_do_after_it(page: Path) -> None:
    title, empty, first = page.read_text(encoding="utf-8").splitlines()[:3]
    assert title.startswith("# ") and not empty and first.startswith(("After this page", "Modules written for"))


@each_row("page", MANUALS, ids=_name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link in links(page):
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if heading:
            headings = [line for line in target.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
            assert heading in [line.lstrip("# ").lower().replace(" ", "-") for line in headings], link


def test_readme_is_short_and_leads_to_every_manual() -> None:
    page = ROOT / "README.md"
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 230
    reached = {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}
    assert {one for one in MANUALS if one != page} <= reached


def test_readme_begins_with_how_to_install_and_a_refusal() -> None:
    first, second, third = blocks(ROOT / "README.md")[:3]
    assert first.text == "$ python3 -m venv .venv && .venv/bin/pip install . && export PATH=$PWD/.venv/bin:$PATH\n"
    refused, allowed = commands(second)[0], commands(third)[0]
    fix = refused.shown[-1].partition("to allow it, add ")[2]
    assert fix and allowed.words == (*refused.words, fix)


@each_row(
    ("page", "heading"),
    [("README.md", "## Permissions and limits"), ("host/docs/limits.md", "## Limits of a plan")],
)
def test_the_table_of_limits_names_every_limit(page: str, heading: str) -> None:
    from paddock.plan.limits import Limits

    section = (ROOT / page).read_text(encoding="utf-8").partition(f"{heading}\n")[2].partition("\n## ")[0]
    assert {name for name in Limits.model_fields if f"`{name}`" not in section} == set()


@each_row("page", ["README.md", "host/docs/permissions.md"])
def test_the_table_of_permissions_names_every_family(page: str) -> None:
    from paddock.plan.permissions import Permissions

    rows = [line.split("|")[1] for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]
    named = {word.strip(" `") for row in rows for word in row.split(",")}
    assert set(Permissions.model_fields) - {"preset"} <= named


def test_the_table_of_policy_keys_names_every_key(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("zzz = 1\n[[module]]\nmatch = '*'\nzzz = 1\n", encoding="utf-8")
    said = paddock("policy", "check", str(tmp_path / "policy.toml")).stderr
    known = [line.split(", ") for line in re.findall(r"known here: (.*)$", said, re.MULTILINE)]
    assert len(known) == 2, said
    page = (ROOT / "host/docs/policy.md").read_text(encoding="utf-8")
    keys = {*known[0], *known[1]} - {"module"}
    assert {key for key in keys if f"| `{key}` |" not in page and f"`{key}` |" not in page} == set()


def test_the_order_of_packages_is_the_one_that_is_enforced() -> None:
    shown = next(block for block in blocks(ROOT / "host/docs/developing.md") if block.kind == "text order")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["name"] == "The host's stages are entered forwards")
    assert shown.text.splitlines() == layers


@each_row("block", _each("text way"))
def test_each_step_of_a_way_is_in_the_file_that_is_named(block: Block) -> None:
    for line in block.text.splitlines():
        path, name = line.split()
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        for part in name.split("."):
            scope = [node for node in ast.walk(tree) if isinstance(node, _NAMED) and node.name == part]
            assert scope, f"{line}: there is no {part}"
            tree = ast.Module(scope[0].body, [])


def test_each_test_that_the_page_for_maintainers_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "host/docs/developing.md").read_text(encoding="utf-8")))
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    assert named and {name for name in named if not any(f"def {name}(" in text for text in texts)} == set()
