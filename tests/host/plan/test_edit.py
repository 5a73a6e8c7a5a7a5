"""An entry that is put into a plan, or taken out: nothing else of the plan changes, or nothing is written."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import PlanError
from paddock.plan.edit import PlanNotEditedError, grant_line, with_entry, with_keys, with_permissions, without_entry
from paddock.plan.formats.yaml_items import with_item, without_item
from paddock.plan.load import load_plan
from paddock.plan.permissions import Permissions
from paddock.plan.writing import PlannedModule, plan_text
from support.rows import each_row

SESSION = "session: {orchestrator: loop-basic, context: context-simple}\n"
ENTRY = {"module": "tool-new", "source": "git+https://example.org/new@v1"}
ADDED = "- module: tool-new\n    source: git+https://example.org/new@v1\n"


def added(folder: Path, text: str, kind: Any = "tool") -> str:
    path = folder / "plan.yaml"
    path.write_bytes(text.encode())
    edit = with_entry(path, kind, ENTRY)
    assert path.read_bytes() == text.encode()
    plan = edit.write()
    assert [entry.module for entry in plan.entries()].count("tool-new") == 1
    return path.read_bytes().decode()


LIST = f"{SESSION}tools:\n  - module: a\n"
FLAT = f"{SESSION}tools:\n- module: a\n"
LACKS = "    # it goes without much\n"
COMMENTED = f"{SESSION}tools:\n  # first\n  - module: a # why\n{LACKS}"
LITERAL = f"{LIST}    config:\n      text: |\n        # not a comment\n\n        - nor an item\n"
KEEPING = f"{LIST}    config:\n      text: |+\n        line\n\n"
ON_A_LINE = f"{SESSION}tools: [{{module: a}}, {{module: b}}"
ALL_ON_A_LINE = "{session: {orchestrator: loop-basic, context: context-simple}"
IN_FLOW = "{module: tool-new, source: 'git+https://example.org/new@v1'}"
BEYOND = f"{LIST}    config: {{x: 🦊}} # über\n"

# A plan's text, and what it is once the entry was added.
YAML = {
    "no section": (SESSION, f"{SESSION}\ntools:\n  {ADDED}"),
    "no newline at the end": (SESSION.rstrip(), f"{SESSION}\ntools:\n  {ADDED}"),
    "an empty list": (f"{SESSION}tools: [] # none\nx: 1\n", f"{SESSION}tools: # none\n  {ADDED}x: 1\n"),
    "a list": (LIST, f"{LIST}  {ADDED}"),
    "a list without indentation": (
        f"{FLAT}\n# hooks\nhooks: []\n",
        f"{FLAT}{ADDED.replace('    source', '  source')}\n# hooks\nhooks: []\n",
    ),
    "comments after it": (f"{COMMENTED}\n  # - module: b\n# end\n", f"{COMMENTED}  {ADDED}\n  # - module: b\n# end\n"),
    "a text of several lines": (f"{LITERAL}\nx: 1\n", f"{LITERAL}  {ADDED}\nx: 1\n"),
    "a text that keeps its blank lines": (f"{KEEPING}x: 1\n", f"{KEEPING}  {ADDED}x: 1\n"),
    "an anchor": (
        f"{SESSION}tools:\n  - &one\n    module: a\n",
        f"{SESSION}tools:\n  - &one\n    module: a\n  {ADDED}",
    ),
    "a list on one line": (f"{ON_A_LINE}] # both\n", f"{ON_A_LINE}, {IN_FLOW}] # both\n"),
    "all on one line": (f"{ALL_ON_A_LINE}}}\n", f"{ALL_ON_A_LINE}, tools: [{IN_FLOW}]}}\n"),
    "the end of a document": (f"---\n{SESSION}...\n", f"---\n{SESSION}\ntools:\n  {ADDED}...\n"),
    "a byte order mark": (f"\ufeff{SESSION}", f"\ufeff{SESSION}\ntools:\n  {ADDED}"),
    "other ends of lines": (LIST.replace("\n", "\r\n"), f"{LIST}  {ADDED}".replace("\n", "\r\n")),
    "letters beyond": (BEYOND, f"{BEYOND}  {ADDED}"),
}


@each_row("case", YAML)
def test_a_yaml_plan_keeps_every_character(case: str, tmp_path: Path) -> None:
    before, after = YAML[case]
    assert added(tmp_path, before) == after


@each_row(
    "text",
    [
        f"{SESSION}tools: &shared\n  - module: a\nmine: *shared\n",
        f"shared: &shared\n  - module: a\n{SESSION}tools: *shared\n",
        f"{SESSION}tools:\n  -\n    module: a\n",
    ],
)
def test_an_uncertain_place_leaves_the_plan_and_shows_the_lines(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    assert len(load_plan(path).tools) == 1
    with pytest.raises(PlanNotEditedError) as caught:
        with_entry(path, "tool", ENTRY)
    assert "- module: tool-new" in caught.value.lines and "source:" in caught.value.lines[-1]
    assert path.read_text() == text and os.listdir(tmp_path) == ["plan.yaml"]


@each_row(("kind", "section"), [("provider", "providers"), ("tool", "tools"), ("hook", "hooks")])
def test_each_kind_has_its_section(kind: str, section: str, tmp_path: Path) -> None:
    assert yaml.safe_load(added(tmp_path, SESSION, kind=kind))[section] == [ENTRY]


@each_row("kind", ["orchestrator", "context"])
def test_of_what_a_session_has_one_it_is_told_what_to_write_instead(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(SESSION)
    with pytest.raises(PlanNotEditedError, match=f"has one {kind}") as caught:
        with_entry(path, kind, ENTRY)
    assert caught.value.lines[-1].startswith(f"{kind}: {{module: tool-new")
    assert path.read_text() == SESSION


def test_a_module_that_is_there_is_not_added_again(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(f"{SESSION}hooks:\n  - module: tool-new\n")
    with pytest.raises(PlanNotEditedError, match=r"already, at .*plan\.yaml:3"):
        with_entry(path, "tool", ENTRY)


def test_what_is_no_plan_is_not_edited(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("tools: []\n")
    with pytest.raises(PlanError):
        with_entry(path, "tool", ENTRY)


def test_a_plan_that_changes_meanwhile_is_left_as_it_became(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(SESSION)
    edit = with_entry(path, "tool", ENTRY)
    path.write_text(f"{SESSION}# changed\n")
    with pytest.raises(PlanNotEditedError, match="at this moment"):
        edit.write()
    assert path.read_text() == f"{SESSION}# changed\n" and os.listdir(tmp_path) == ["plan.yaml"]


def test_a_plan_keeps_its_rights_and_the_link_that_leads_to_it(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    real = tmp_path / "kept" / "real.yaml"
    real.write_text(SESSION)
    real.chmod(0o640)
    link = tmp_path / "plan.yaml"
    link.symlink_to(real)
    with_entry(link, "tool", ENTRY).write()
    assert link.is_symlink() and stat.S_IMODE(real.stat().st_mode) == 0o640
    assert "tool-new" in real.read_text() and os.listdir(tmp_path / "kept") == ["real.yaml"]


# -- taking out ----------------------------------------------------------------------------

TWO = """\
session: {orchestrator: loop-basic, context: context-simple}
tools:
  # about a
  - module: a
    config: {x: 1} # of a
    # it goes without much

  # - module: never
  # about b
  - module: b
# end
other: 1
"""
WITHOUT = {
    (TWO, 0): TWO.replace("  # about a\n  - module: a\n    config: {x: 1} # of a\n    # it goes without much\n", ""),
    (TWO, 1): TWO.replace("  # about b\n  - module: b\n", ""),
    (f"{SESSION}tools: # mine\n  - module: a\nother: 1\n", 0): f"{SESSION}tools: [] # mine\nother: 1\n",
    (f"{SESSION}tools:\n- module: a\n", 0): f"{SESSION}tools: []\n",
    (f"{SESSION}tools: [{{module: a}}, {{module: b}}]\n", 0): f"{SESSION}tools: [{{module: b}}]\n",
    (f"{SESSION}tools: [{{module: a}}, {{module: b}}]\n", 1): f"{SESSION}tools: [{{module: a}}]\n",
    (f"{SESSION}tools: [{{module: a}}]\n", 0): f"{SESSION}tools: []\n",
}


@each_row(("text", "index"), WITHOUT)
def test_of_a_yaml_plan_the_entry_goes_and_its_comment(text: str, index: int, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    without_entry(path, f"tools[{index}]").write()
    assert path.read_text() == WITHOUT[text, index]


def test_what_a_session_needs_is_not_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(SESSION)
    with pytest.raises(PlanNotEditedError, match="a session needs"):
        without_entry(path, "session.context")


_NAMES = st.sampled_from(["tools", "hooks", "more", "providers"])
# Without what ends lines in YAML and nowhere else: where there is such a thing, no place is certain.
_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x85\u2028\u2029"), max_size=12)
_SCALARS = st.one_of(st.integers(), st.booleans(), st.none(), _TEXTS)
_CONTENT = st.dictionaries(_TEXTS, _SCALARS | st.lists(_SCALARS, max_size=3), max_size=3)
_PLANS = st.dictionaries(_NAMES, st.lists(_CONTENT.map(lambda one: {"module": "a", **one}), max_size=3), max_size=4)


@settings(deadline=None)
@given(_PLANS.filter(bool), st.booleans() | st.none(), st.integers(0, 2))
def test_whatever_a_text_says_one_of_the_proposals_is_right(plan: dict[str, Any], flow: Any, index: int) -> None:
    text = yaml.safe_dump(plan, default_flow_style=flow, allow_unicode=True)
    expected = {**plan, "tools": [*plan.get("tools", []), ENTRY]}
    assert any(yaml.safe_load(proposed) == expected for proposed in with_item(text, "tools", ENTRY))
    if index < len(plan.get("tools", [])):
        left = {**plan, "tools": [one for at, one in enumerate(plan["tools"]) if at != index]}
        assert any(yaml.safe_load(proposed) == left for proposed in without_item(text, "tools", index))


@each_row(
    ("name", "line"),
    [
        ("plan.yaml", "permissions: {net: ['a.example:443'], secrets: [K]}"),
        ("plan.json", '"permissions": {"net": ["a.example:443"], "secrets": ["K"]}'),
    ],
)
def test_the_line_that_would_grant_is_as_the_plan_is_written(name: str, line: str) -> None:
    permissions = Permissions.model_validate({"net": ["a.example:443"], "secrets": ["K"]})
    assert grant_line(Path(name), permissions) == line


# -- what an entry is granted ------------------------------------------------------------------

GRANTED = "permissions: {read: [., /data]}"
TABLE = f"{LIST}    permissions: # what\n      # those here\n      read: # these\n        - . # all\n"
MORE = "\n        - /data"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LIST, f"{LIST}    {GRANTED}\n"),
        (f"{LIST}    permissions: workspace # enough\nx: 1\n", f"{LIST}    {GRANTED} # enough\nx: 1\n"),
        (f"{TABLE}x: 1\n", f"{TABLE.replace('all', 'all' + MORE)}x: 1\n"),
        (f"{LIST}    permissions:\n      read: [.] # why\n", f"{LIST}    permissions:\n      read: [., /data] # why\n"),
        (f"{LIST}    permissions:\n      write: [.]\n", f"{LIST}    {GRANTED}\n"),
        (f"{ON_A_LINE}]\n", f"{SESSION}tools: [{{module: a, {GRANTED}}}, {{module: b}}]\n"),
        (f"{COMMENTED}# end\n", f"{COMMENTED.removesuffix(LACKS)}    {GRANTED}\n# end\n"),
        (f"{LIST}  - module: b\n", f"{LIST}    {GRANTED}\n  - module: b\n"),
        (f"{LITERAL}\nx: 1\n", f"{LITERAL}    {GRANTED}\n\nx: 1\n"),
    ],
    ids=[
        "none before",
        "a preset",
        "a table",
        "a list on a line",
        "a family that goes",
        "on a line",
        "comments",
        "before another",
        "a text of several lines",
    ],
)
def test_what_a_yaml_entry_is_granted_is_all_that_changes(text: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    with_permissions(path, "tools[0]", Permissions.model_validate({"read": (".", "/data")})).write()
    assert path.read_text(encoding="utf-8") == expected


def test_a_comment_of_init_that_a_grant_makes_untrue_goes(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    modules = [
        PlannedModule("orchestrator", "loop-basic"),
        PlannedModule("context", "context-simple"),
        PlannedModule("tool", "a", permissions=Permissions.model_validate({"preset": "workspace"}), purpose="edits"),
        PlannedModule("tool", "b", lacks=("the network",), purpose="fetches"),
        PlannedModule("tool", "c"),
    ]
    path.write_text(plan_text(modules), encoding="utf-8")
    for place in ("tools[0]", "tools[1]", "tools[2]"):
        with_permissions(path, place, Permissions.model_validate({"read": (".", "/data")})).write()
    assert path.read_text(encoding="utf-8").partition("tools:\n")[2] == (
        f"  # edits\n  - module: a\n    {GRANTED}\n  # fetches\n  - module: b\n    {GRANTED}\n"
        f"  - module: c\n    {GRANTED}\n"
    )
    assert path.read_text(encoding="utf-8").count("# no permissions") == 2  # of those that were granted nothing more


def test_an_edit_is_undone_unless_the_plan_changed_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(LIST, encoding="utf-8")
    edit = with_permissions(path, "tools[0]", Permissions.model_validate({"preset": "workspace"}))
    assert edit.write().digest == load_plan(path).digest
    edit.undo()
    assert path.read_text(encoding="utf-8") == LIST
    with pytest.raises(PlanNotEditedError):
        edit.undo()


def test_a_home_that_stays_is_written_with_the_grants(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("session: {orchestrator: a, context: b}\ntools:\n  - module: x # one\n")
    edit = with_permissions(path, "tools[0]", Permissions.model_validate({"read": ["."]}), keeps_home=True)
    edit.write()
    (entry,) = load_plan(path).tools
    assert (entry.state, entry.permissions) == ("keep", Permissions.model_validate({"read": ["."]}))
    assert "# one" in path.read_text()


def test_an_entry_that_is_no_item_of_a_list_is_told_what_to_write(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(LIST)
    with pytest.raises(PlanNotEditedError) as error:
        with_permissions(path, "session.context", Permissions.model_validate({"preset": "workspace"}))
    assert "permissions: workspace" in error.value.lines and path.read_text() == LIST


# -- JSON ----------------------------------------------------------------------------------

_GRANTS = Permissions.model_validate({"read": ["."], "secrets": [{"name": "KEY", "inject": "host"}]})
_JSON_EDITS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "an entry": (
        lambda path: with_entry(path, "tool", ENTRY),
        ["in `tools`, the entry to add by hand is", *json.dumps(ENTRY, indent=2).split("\n")],
    ),
    "an entry in place of another": (
        lambda path: with_entry(path, "provider", {"module": "p"}, instead_of=0),
        ["in `providers`, in place of `providers[0]`, the entry to add by hand is", "{", '  "module": "p"', "}"],
    ),
    "an orchestrator": (
        lambda path: with_entry(path, "orchestrator", {"module": "o"}),
        ["to have the new one in its place, write there:", '"orchestrator": {"module": "o"}'],
    ),
    "no entry": (
        lambda path: without_entry(path, "tools[1]"),
        ["the entry to take out by hand is `tools[1]`, at plan.json:5"],
    ),
    "grants": (
        lambda path: with_permissions(path, "tools[1]", _GRANTS, keeps_home=True),
        ["write at `tools[1]`:", f'"permissions": {json.dumps(_GRANTS.as_written())}', '"state": "keep"'],
    ),
}


@pytest.mark.parametrize("case", _JSON_EDITS)
def test_a_plan_in_json_stays_and_its_owner_is_told_what_to_write(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("plan.json")
    path.write_text("""\
{"session": {"orchestrator": "loop-basic", "context": "context-simple"},
 "providers": [{"module": "provider-mock"}],
 "tools": [
   {"module": "a"},
   {"module": "b"}]}
""")
    before = path.read_bytes()
    edit, lines = _JSON_EDITS[case]
    with pytest.raises(PlanNotEditedError) as caught:
        edit(path)
    assert list(caught.value.lines) == lines and path.read_bytes() == before
    if case != "an orchestrator":  # that is told in YAML as well
        assert caught.value.hints[0].startswith("`paddock init --from plan.json` writes it as YAML")


# -- in memory -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plan.yaml", "plan.json"])
def test_values_for_one_session_are_in_no_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    content = {
        "session": {"orchestrator": "a", "context": "b"},
        "providers": [{"module": "p", "config": {"default_model": "small", "x": "${KEY}"}}],
        "tools": [{"module": "t", "permissions": "workspace"}],
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    before, whole = path.read_bytes(), load_plan(path)
    model = with_keys(path, before, {"providers[0]": {"config": {"default_model": "large"}}})
    assert model.providers[0].config == {"default_model": "large", "x": "${KEY}"} and model.digest == whole.digest
    granted = with_keys(path, before, {"tools[0]": {"permissions": {"read": ["."]}}})
    assert granted.tools[0].permissions.read == (".",) and granted.digest != whole.digest
    assert path.read_bytes() == before and with_keys(path, before, {}).raw == whole.raw
