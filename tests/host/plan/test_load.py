from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import PlanError, PlanProblem, render
from paddock.plan.limits import Totals
from paddock.plan.load import load_plan
from paddock.plan.model import MountPlan
from paddock.policy.limits import ResourceLimits
from support.rows import each_row


def plan(**keys: Any) -> dict[str, Any]:
    return {"session": {"orchestrator": "loop-basic", "context": "context-simple"}, **keys}


def load(written: Any) -> MountPlan:
    return load_plan(written)


def problems_of(written: Any) -> list[PlanProblem]:
    with pytest.raises(PlanError) as caught:
        load(written)
    return list(caught.value.problems)


def problem_of(written: Any) -> PlanProblem:
    (problem,) = problems_of(written)
    return problem


# -- what a good plan becomes


def test_what_all_modules_may_use_together_stands_at_the_top() -> None:
    totals = load(plan(limits={"memory_total": "2G", "tasks_total": 300})).totals
    assert (totals.memory_total, totals.tasks_total) == (2 << 30, 300)
    assert load(plan()).totals == load(plan(limits=None)).totals == Totals()


@each_row(
    ("written", "told"),
    [
        ({"memory_max": "1G"}, "it is for one module: write it in its entry"),
        ({"memory_totl": "1G"}, "did you mean `memory_total`?"),
        ({"memory_total": "1M"}, "write 8M or more"),
        ({"tasks_total": "many"}, "is not"),
        ([], "must be a table"),
    ],
)
def test_a_total_that_is_none_is_refused(written: object, told: str) -> None:
    problem = problem_of(plan(limits=written))
    assert problem.path.startswith("limits") and told in f"{problem.message} | {problem.hint}"


def test_every_entry_knows_its_kind_and_place() -> None:
    loaded = load(
        plan(
            providers=[{"module": "provider-a"}],
            tools=[{"module": "tool-a"}, {"module": "tool-b"}],
            hooks=[{"module": "hooks-a", "on_failure": "continue"}],
        )
    )
    assert [(entry.path, entry.kind, entry.module) for entry in loaded.entries()] == [
        ("session.orchestrator", "orchestrator", "loop-basic"),
        ("session.context", "context", "context-simple"),
        ("providers[0]", "provider", "provider-a"),
        ("tools[0]", "tool", "tool-a"),
        ("tools[1]", "tool", "tool-b"),
        ("hooks[0]", "hook", "hooks-a"),
    ]
    smallest = load(plan())
    assert smallest.providers == smallest.tools == smallest.hooks == smallest.notes == ()
    assert (smallest.agents, smallest.origin) == ({}, None)


def test_a_bare_id_and_a_table_mean_the_same() -> None:
    bare = load(
        {
            "session": {
                "orchestrator": "loop-basic",
                "orchestrator_source": "/modules/loop",
                "context": "context-simple",
                "context_source": "builtin:context-simple",
            },
            "orchestrator": {"config": {"max_iterations": 3}},
            "context": {"config": {"size": 1}},
        }
    )
    table = load(
        {
            "session": {
                "orchestrator": {"module": "loop-basic", "source": "/modules/loop", "config": {"max_iterations": 3}},
                "context": {"module": "context-simple", "source": "builtin:context-simple", "config": {"size": 1}},
            },
        }
    )
    for key in ("orchestrator", "context"):
        assert getattr(bare, key).model_dump() == getattr(table, key).model_dump()
        assert bare.raw["session"][key] == table.raw["session"][key]
    assert bare.raw["orchestrator"] == {"config": {"max_iterations": 3}}


def test_a_table_has_its_own_source_and_config_and_says_what_it_ignores() -> None:
    loaded = load(
        {
            "session": {
                "orchestrator": {"module": "loop-basic"},
                "orchestrator_source": "/elsewhere",
                "context": "context-simple",
            },
            "orchestrator": {"config": {"ignored": True}},
        }
    )
    assert loaded.orchestrator.source is None
    assert loaded.orchestrator.config == {}
    assert len([note for note in loaded.notes if "has no effect" in note]) == 2


def test_the_raw_plan_matches_the_entries_and_leaves_the_original_alone() -> None:
    written = plan(
        tools=[{"module": "tool-a", "config": None, "limits": {"memory_max": "9M"}}], agents={"a": {"x": 1}}, skills={}
    )
    before = copy.deepcopy(written)
    loaded = load(written)
    assert written == before
    assert loaded.raw["tools"] == before["tools"]
    assert loaded.raw["agents"] == {"a": {"x": 1}}
    assert loaded.raw["session"]["orchestrator"] == {"module": "loop-basic", "config": {}}
    loaded.raw["tools"][0]["module"] = "changed"
    assert written == before
    assert loaded.tools[0].module == "tool-a"


def test_other_top_level_keys_are_passed_on_with_a_note() -> None:
    loaded = load(plan(session_id="abc", bundle_name="x", skills={"dirs": ["a"]}))
    assert loaded.raw["skills"] == {"dirs": ["a"]}
    assert loaded.notes == tuple(
        f"`{key}` is passed on to the modules as it is" for key in ("session_id", "bundle_name", "skills")
    )


@each_row("key", ["bundle", "includes", "mcpServers", "permissions", "limits"])
def test_a_key_of_another_place_is_an_error(key: str) -> None:
    with pytest.raises(PlanError) as refused:
        load(plan(**{key: {"a": "b"}}))
    assert [one.path for one in refused.value.problems] == [key]


def test_session_settings_of_the_contract_are_kept() -> None:
    settings = {"injection_budget_per_turn": 10, "injection_size_limit": None, "metadata": {"a": 1}, "raw": True}
    written = plan()
    written["session"].update(settings)
    loaded = load(written)
    assert {key: loaded.raw["session"][key] for key in settings} == settings


# -- files and relative sources


@each_row(
    ("source", "text"),
    [
        ("./modules/tool-a", "{folder}/modules/tool-a"),
        ({"type": "file", "path": "./modules/tool-a"}, "{folder}/modules/tool-a"),
        (
            {"type": "git", "url": "https://host/org/many", "ref": "v1", "subdirectory": "tool-a"},
            "git+https://host/org/many@v1#subdirectory=tool-a",
        ),
        ({"type": "package", "name": "some-package"}, "some-package"),
    ],
)
def test_a_source_that_is_a_table_is_the_text_that_says_the_same(
    tmp_path: Path, source: str | dict[str, str], text: str
) -> None:
    file = tmp_path / "plan.json"
    written = plan(tools=[{"module": "tool-a", "source": source}])
    written["session"]["context_source"] = source
    file.write_text(json.dumps(written))
    loaded = load(file)
    assert loaded.origin == file.resolve()
    expected = text.format(folder=tmp_path.resolve())
    assert (loaded.tools[0].source, loaded.context.source) == (expected, expected)
    assert loaded.raw["tools"][0]["source"] == loaded.raw["session"]["context_source"] == expected


@each_row(
    ("source", "said"),
    [
        ({"type": "svn"}, "`{type: svn}` is not a module source"),
        ({"type": "git"}, "it has no `url`"),
        (7, "must be text, is a number"),
        ([], "must be text, is a list"),
    ],
)
def test_a_source_that_is_neither_text_nor_table_is_refused(source: object, said: str) -> None:
    problem = problem_of(plan(tools=[{"module": "tool-a", "source": source}]))
    assert problem.path == "tools[0].source" and said in problem.message


def test_a_relative_source_of_a_mapping_starts_at_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(plan(tools=[{"module": "tool-a", "source": "./t"}])).tools[0].source == str(tmp_path.resolve() / "t")


@each_row("source", ["builtin:tool-a", "/abs/tool", "git+https://host/org/repo@v1#subdirectory=a", "some-package"])
def test_a_source_that_is_not_relative_is_kept_as_written(source: str) -> None:
    assert load(plan(tools=[{"module": "tool-a", "source": source}])).tools[0].source == source


# -- what is wrong with a bad one


@each_row(
    ("written", "places"),
    [
        *((written, [""]) for written in ([], None, 5, {1, 2})),
        ({}, ["session"]),
        ({"session": None}, ["session"]),
        ({"session": []}, ["session"]),
        ({"session": {}}, ["session.orchestrator", "session.context"]),
        ({"session": {"orchestrator": "", "context": None}}, ["session.context", "session.orchestrator"]),
        ({"session": {"orchestrator": 5, "context": ["x"]}}, ["session.orchestrator", "session.context"]),
        (
            {"session": {"orchestrator": {}, "context": {"module": None}}},
            ["session.orchestrator", "session.context.module"],
        ),
        (plan(tools=None), ["tools"]),
        (plan(tools="tool-a"), ["tools"]),
        (plan(hooks={"module": "x"}), ["hooks"]),
        (plan(tools=["tool-a", 5, None, []]), ["tools[0]", "tools[1]", "tools[2]", "tools[3]"]),
        (plan(tools=[{}]), ["tools[0]"]),
        (plan(tools=[{"module": ""}]), ["tools[0].module"]),
        (plan(tools=[{"module": "a\nb"}]), ["tools[0].module"]),
        (plan(tools=[{"module": "../x"}]), ["tools[0].module"]),
        (plan(tools=[{"module": "tool-a", "source": ""}]), ["tools[0].source"]),
        (plan(tools=[{"module": "tool-a", "source": "~/x"}]), ["tools[0].source"]),
        (plan(tools=[{"module": "tool-a", "source": {"type": "git"}}]), ["tools[0].source"]),
        (plan(tools=[{"module": "tool-a", "config": "x"}]), ["tools[0].config"]),
        (plan(tools=[{"module": "tool-a", "on_failure": "deny"}]), ["tools[0].on_failure"]),
        (plan(providers=[{"module": "provider-a", "instance_id": " "}]), ["providers[0].instance_id"]),
        (
            plan(tool=[], providers=[{"module": "provider-a", "instanceid": "x"}], tools=["tool-a"], hooks={}),
            ["", "providers[0]", "tools[0]", "hooks"],
        ),
        (plan(agents=[]), ["agents"]),
        (plan(orchestrator=[]), ["orchestrator"]),
        (plan(orchestrator={"config": 5}), ["orchestrator.config"]),
        (plan(context={"permissions": {}}), ["context.permissions"]),
        (plan(tools=[{"module": "tool-a", "config": {"x": float("nan")}}]), ["tools[0].config.x"]),
        (plan(tools=[{"module": b"tool-a"}]), ["tools[0].module"]),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_what_is_wrong_is_reported_where_it_stands(written: object, places: list[str]) -> None:
    assert [problem.path for problem in problems_of(written)] == places


@each_row(
    ("key", "value"),
    [
        ("metadata", []),
        ("raw", "yes"),
        ("injection_size_limit", "1K"),
        ("injection_budget_per_turn", -1),
        ("injection_size_limit", True),
    ],
)
def test_a_session_setting_of_the_wrong_type_is_refused(key: str, value: object) -> None:
    written = plan()
    written["session"][key] = value
    assert problem_of(written).path == f"session.{key}"


def test_a_string_entry_is_told_how_to_be_written() -> None:
    assert problem_of(plan(tools=["tool-a"])).hint == "write `module: tool-a`"


def test_a_problem_of_a_bare_id_is_reported_where_its_part_stands() -> None:
    written = plan(orchestrator={"config": {"key": "${MISSING:-x}"}})
    written["session"]["context_source"] = "~/c"
    assert [problem.path for problem in problems_of(written)] == ["orchestrator.config.key", "session.context_source"]


@each_row(
    ("written", "path", "meant"),
    [
        (plan(tool=[]), "", "tools"),
        (plan(Tools=[]), "", "tools"),
        (plan(provider=[]), "", "providers"),
        (plan(sesion={}), "", "session"),
        (plan(tools=[{"module": "tool-a", "confg": {}}]), "tools[0]", "config"),
        (plan(tools=[{"module": "tool-a", "permission": {}}]), "tools[0]", "permissions"),
        (plan(tools=[{"module": "tool-a", "limits": {"memory": "1M"}}]), "tools[0].limits", "memory_max"),
    ],
)
def test_a_misspelt_key_is_met_with_the_one_meant(written: dict[str, Any], path: str, meant: str) -> None:
    problem = problem_of(written)
    assert problem.path == path
    assert problem.hint == f"did you mean `{meant}`?"


def test_a_key_unlike_any_other_lists_the_known_ones() -> None:
    written = plan()
    written["session"]["zzz"] = 1
    problem = problem_of(written)
    assert problem.path == "session"
    assert "orchestrator" in problem.hint


def test_a_plan_cannot_draw_on_the_terminal_through_its_errors() -> None:
    with pytest.raises(PlanError) as caught:
        load(plan(tools=[{"module": "tool-a", "\x1b[2J\u202ekey": 1}]))
    assert "\x1b" not in render(caught.value) + str(caught.value)
    assert "\u202e" not in render(caught.value)


@each_row(
    "written",
    [
        plan(**{"module-source-resolver": {}}),
        plan(resolvers=[]),
        plan(tools=[{"module": "module-source-resolver"}]),
        plan(tools=[{"module": "resolver-mine"}]),
    ],
)
def test_a_resolver_is_refused(written: dict[str, Any]) -> None:
    assert "belongs to the application" in problem_of(written).hint


# -- several instances of a provider


def test_a_provider_may_be_listed_again_under_an_instance_id() -> None:
    loaded = load(
        plan(
            providers=[
                {"module": "provider-a"},
                {"module": "provider-a", "instance_id": "second"},
                {"module": "provider-b"},
            ]
        )
    )
    assert [entry.instance_id for entry in loaded.providers] == [None, "second", None]


def test_only_one_entry_of_a_provider_may_omit_its_instance_id() -> None:
    found = problems_of(plan(providers=[{"module": "provider-a"}, {"module": "provider-a"}, {"module": "provider-a"}]))
    assert [problem.path for problem in found] == ["providers[1]", "providers[2]"]
    assert "providers[0]" in found[0].message


def test_tools_may_be_listed_twice_and_an_instance_id_on_them_is_noted() -> None:
    loaded = load(plan(tools=[{"module": "tool-a"}, {"module": "tool-a", "instance_id": "x"}]))
    assert any("tools[1].instance_id" in note for note in loaded.notes)


# -- references to secrets


def with_config(config: Any, permissions: Any = None) -> dict[str, Any]:
    return plan(providers=[{"module": "provider-a", "config": config, "permissions": permissions}])


def test_a_granted_reference_stays_one_in_the_plan() -> None:
    config = {"api_key": "${KEY}", "deep": [{"url": "https://x/${KEY}"}]}
    loaded = load(with_config(config, {"secrets": ["KEY"]}))
    assert loaded.providers[0].config == config
    assert loaded.raw["providers"][0]["config"] == config
    assert "s3cret" not in repr(loaded)


@each_row(
    ("permissions", "environ", "said"),
    [
        (None, {"KEY": "x"}, "not granted"),
        ("shell", {"KEY": "x"}, "not granted"),
        ({"env": ["KEY"]}, {"KEY": "x"}, "not granted"),
        ({"secrets": ["OTHER"]}, {"KEY": "x"}, "not granted"),
        ({"secrets": ["KEY"]}, {}, "`KEY` is not set"),
        ({"secrets": [{"name": "KEY", "inject": "host"}]}, {}, "`KEY` is not set"),
    ],
)
def test_a_bad_secret_reference_is_a_problem_of_its_entry_only(
    permissions: object, environ: dict[str, str], said: str
) -> None:
    (entry,) = load(with_config({"list": [{"k": "a${KEY}b"}]}, permissions)).providers
    (problem,) = entry.config_problems(environ)
    assert problem.path == "providers[0].config.list[0].k"
    assert said in problem.message


@each_row("reference", ["${KEY:default}", "${KEY:-default}", "${KEY-}", "${KEY:?}"])
def test_a_reference_with_a_default_is_not_taken_for_text(reference: str) -> None:
    problem = problem_of(with_config({"k": reference}, {"secrets": ["KEY"]}))
    assert "default" in problem.message
    assert problem.hint == "write ${KEY}"


def test_an_entry_of_a_server_leaves_its_command_to_its_source() -> None:
    written = with_config({}, None)
    written["tools"] = [
        {"module": "tool-a", "source": "mcp+pypi:mcp-a==1", "config": {"command": ["a"], "bin": "b"}},
        {"module": "tool-b", "source": "builtin:tool-mcp", "config": {"command": ["a"], "without_scripts": True}},
    ]
    server, own = load(written).tools
    (problem,) = server.config_problems({})
    assert (problem.path, "says itself how" in problem.message) == ("tools[0].config.command", True)
    assert "`source: builtin:tool-mcp`" in problem.hint and own.config_problems({}) == ()
    rules = load(written).rules_by_entry()
    assert (rules(server).programs, rules(server).without_scripts) == (frozenset("b"), False)
    assert (rules(own).programs, rules(own).without_scripts) == (frozenset(), True)
    plain = ResourceLimits.of(own)
    assert ResourceLimits.of(server).tasks_max > plain.tasks_max


# -- anything at all

JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=10)
    | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3),
    max_leaves=12,
)
KEYS = st.sampled_from(
    ["module", "source", "config", "permissions", "limits", "instance_id", "replaces", "spawn", "state"]
)
ENTRY = st.dictionaries(KEYS, JUNK | st.sampled_from(["tool-a", "./x", "${KEY}", "1M"]), max_size=5)
SECTION = st.lists(ENTRY | JUNK, max_size=3) | JUNK


@given(
    st.fixed_dictionaries(
        {"session": st.fixed_dictionaries({"orchestrator": ENTRY | JUNK, "context": st.just("context-simple")}) | JUNK},
        optional={
            "providers": SECTION,
            "tools": SECTION,
            "hooks": SECTION,
            "agents": JUNK,
            "orchestrator": JUNK,
            "x": JUNK,
        },
    )
    | JUNK
)
def test_any_value_is_a_plan_or_a_plan_error(written: Any) -> None:
    try:
        loaded = load_plan({"": written} if isinstance(written, str) else written)
    except PlanError as error:
        assert error.problems
        assert render(error).startswith("error: plan has ")
    else:
        json.dumps(loaded.raw, allow_nan=False)
        for section in ("providers", "tools", "hooks"):
            assert len(getattr(loaded, section)) == len(loaded.raw.get(section, []))
