"""Every place of a plan has the line it stands on, in all three formats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomlkit
import yaml
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import PlanError, render
from paddock.plan.formats.document import read_document
from paddock.plan.load import load_plan
from paddock.plan.problems import path_text
from paddock.plan.source_map import Location, Positions

YAML = """\
# a plan
session:
  orchestrator: loop-basic
  context: {module: context-simple,
            config: {size: 1}}
shared: &shared
  read: [.]
tools:
- module: tool-a
  limits:
    memory_max: 1M
  permissions: *shared
-
  module: tool-b
  permissions:
    <<: *shared
    net:
    - one.example
    - two.example
  "a key": {"b.c": 1}
"""
JSON = """\
{
\t"session": {"orchestrator": "loop-basic",
\t            "context": {"module": "context-simple"}},
\t"tools": [
\t\t{"module": "tool-a", "limits":
\t\t  {"memory_max": "1M"}},
\t\t{
\t\t\t"config": {"text": "a } \\" , : [\\n", "\\u006bey": [1, [2,
\t\t\t  3], {"x": null}]},
\t\t\t"module": "tool-b"
\t\t}
\t]
}
"""
TOML = '''\
# a plan with [brackets] and = signs
title = """
[not.a.header]
x = 1 """ # five quotes could end it
[session]
orchestrator = "loop-basic"
context = { module = "context-simple", config = {size = 1, at.once = 2} }

[[tools]]
module = "tool-a"
limits.memory_max = "1M"
permissions.net = [ # a comment, with a ]
  "one.example",
  "two.example:8443", ["a",
  "b"]
]
[tools.config]
"a key"."b.c" = 1979-05-27T07:32:00.5Z
'single' = -1.5e3

[[tools]]
module = 'tool-b'
[[tools.config.deep]]
x = 1
[[tools.config.deep]]
y = [{a = 1}, {b = 2,
c = 3}]
'''.replace(",\nc = 3", ", c = 3")


@pytest.mark.parametrize(
    ("name", "text", "path", "line"),
    [
        ("plan.yaml", YAML, "session", 2),
        ("plan.yaml", YAML, "session.context", 4),
        ("plan.yaml", YAML, "session.context.config.size", 5),
        ("plan.yaml", YAML, "tools[0]", 9),
        ("plan.yaml", YAML, "tools[0].limits.memory_max", 11),
        ("plan.yaml", YAML, "tools[0].permissions", 12),
        ("plan.yaml", YAML, "tools[0].permissions.read[0]", 7),
        ("plan.yaml", YAML, "tools[1].module", 14),
        ("plan.yaml", YAML, "tools[1].permissions.read", 7),
        ("plan.yaml", YAML, "tools[1].permissions.net[1]", 19),
        ("plan.yaml", YAML, "tools[1].permissions.net[7]", 17),
        ("plan.yaml", YAML, "tools[1].permissions.run[0]", 15),
        ("plan.yaml", YAML, 'tools[1]["a key"]["b.c"]', 20),
        ("plan.yaml", YAML, "tools[9]", 8),
        ("plan.yaml", YAML, "hooks[0].module", None),
        ("plan.yaml", YAML, "", None),
        ("plan.json", JSON, "session.context.module", 3),
        ("plan.json", JSON, "tools[0].limits", 5),
        ("plan.json", JSON, "tools[0].limits.memory_max", 6),
        ("plan.json", JSON, "tools[1]", 7),
        ("plan.json", JSON, "tools[1].config.key[1][1]", 9),
        ("plan.json", JSON, "tools[1].config.key[2].x", 9),
        ("plan.json", JSON, "tools[1].module", 10),
        ("plan.toml", TOML, "title", 2),
        ("plan.toml", TOML, "session.orchestrator", 6),
        ("plan.toml", TOML, "session.context.config.size", 7),
        ("plan.toml", TOML, "session.context.config.at.once", 7),
        ("plan.toml", TOML, "tools[0]", 9),
        ("plan.toml", TOML, "tools[0].limits.memory_max", 11),
        ("plan.toml", TOML, "tools[0].permissions.net[1]", 14),
        ("plan.toml", TOML, "tools[0].permissions.net[2][1]", 15),
        ("plan.toml", TOML, 'tools[0].config["a key"]["b.c"]', 18),
        ("plan.toml", TOML, "tools[0].config.single", 19),
        ("plan.toml", TOML, "tools[1].module", 22),
        ("plan.toml", TOML, "tools[1].config.deep[0].x", 24),
        ("plan.toml", TOML, "tools[1].config.deep[1].y[1].c", 26),
        ("plan.toml", TOML, "x", None),
    ],
)
def test_a_place_is_found_on_its_line(tmp_path: Path, name: str, text: str, path: str, line: int | None) -> None:
    (tmp_path / name).write_text(text)
    positions = read_document(tmp_path / name, converts=True).positions
    assert positions.line_of(path) == line
    assert positions.place_of(path) == Location(str(tmp_path / name), line)


NAMES = st.sampled_from(["module", "a", "b-c", "1", "a key", "b.c", 'q"]', "[0]", "ü", "x=y", "#no", "'", "\\", ""])
VALUES = st.recursive(
    st.integers(0, 9) | st.sampled_from(["text", "# [", "two\nlines", '"""', "a: b", "{x}"]) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=15,
)


def places(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, *path, key)


def json_key(key: str) -> str:
    return json.dumps(key)


@given(st.dictionaries(NAMES.filter(bool), VALUES, max_size=4))
def test_whatever_is_written_each_key_is_found_where_it_stands(
    tmp_path_factory: pytest.TempPathFactory, written: dict[str, Any]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    texts = {
        "any.json": json.dumps(written, indent="\t"),
        "any.yaml": yaml.safe_dump(written, allow_unicode=True, width=10_000),
        "any.toml": tomlkit.dumps(written),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
        positions = read_document(folder / name, converts=True).positions
        lines = text.split("\n")
        for path in places(written):
            line = positions.line_of(path_text(*path))
            assert line is not None and 1 <= line <= len(lines)
            if name == "any.json" and isinstance(path[-1], str) and path_text(*path).count('"]') < 2:
                assert json_key(path[-1]) in lines[line - 1]
            if name != "any.json" and path[-1] in ("module", "a", "b-c"):
                assert str(path[-1]) in lines[line - 1]


def test_what_is_no_file_has_no_lines() -> None:
    assert Positions("the plan").place_of("tools[0]") == Location("the plan", None)
    assert (Location("p.yaml", 3).text, Location("p.yaml").text) == ("p.yaml:3", "p.yaml")


def test_a_key_that_goes_on_for_long_costs_nothing_for_each_thing_below_it(tmp_path: Path) -> None:
    key = "k" * 500_000
    (tmp_path / "plan.json").write_text(json.dumps({key: list(range(50_000))}))
    positions = read_document(tmp_path / "plan.json").positions
    assert positions.line_of(f"{key}[49999]") == 1


def test_the_problems_of_a_plan_are_told_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(YAML.replace("1M", "much").replace("module: tool-b", "module: tool-b\n  confg: {}"))
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    shown = render(caught.value)
    assert f"{path}:11: tools[0].limits.memory_max: `much` is not understood" in shown
    assert f"{path}:15: tools[1]: unknown key `confg`" in shown
    first = caught.value.problems[0].as_dict()
    assert (first["path"], first["line"]) == ("tools[0].limits.memory_max", 11)


def test_the_problems_of_a_mapping_have_no_line() -> None:
    with pytest.raises(PlanError) as caught:
        load_plan({"session": {}})
    assert {problem.line for problem in caught.value.problems} == {None}


def test_a_plan_knows_its_lines_and_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("session: {orchestrator: loop-basic,\n  context: context-simple}\n")
    plan = load_plan(path)
    assert plan.place_of("session.context") == Location(str(path), 2)
    assert plan.digest.startswith("sha256:") and plan.digest == load_plan(path).digest


def test_a_digest_stands_for_every_byte_and_for_where_the_plan_is(tmp_path: Path) -> None:
    text = "session: {orchestrator: loop-basic, context: context-simple}\n"
    places = [tmp_path / "a" / "plan.yaml", tmp_path / "b" / "plan.yaml", tmp_path / "b" / "other.yaml"]
    for place in places:
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    digests = [load_plan(place).digest for place in places]
    places[0].write_text(text + "# nothing\n")
    digests.append(load_plan(places[0]).digest)
    assert len(set(digests)) == len(digests)


def test_the_digest_of_a_mapping_stands_for_what_it_says_and_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"session": {"context": "context-simple", "orchestrator": "loop-basic"}, "tools": []}
    same = {"tools": [], "session": {"orchestrator": "loop-basic", "context": "context-simple"}}
    other = {**plan, "tools": [{"module": "tool-a", "source": "./a"}]}
    digest = load_plan(plan).digest
    assert digest == load_plan(same).digest != load_plan(other).digest
    monkeypatch.chdir(tmp_path)
    assert load_plan(plan).digest != digest
