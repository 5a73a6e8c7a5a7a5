"""What the session of an agent mounts: chosen among what the plan has, and never anything besides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock.plan.load import load_plan
from paddock.plan.model import EntryPlace, ModuleEntry, MountPlan
from paddock.session.journals.context_journal import closing_messages
from paddock.session.session_plan import SessionPlan
from paddock.session.sub_sessions.agent_plan import plan_of
from paddock.session.sub_sessions.provider_preference import ProviderWish
from paddock.session.sub_sessions.spawn_payload import MAX_BYTES, SpawnPayload
from paddock.session.sub_sessions.spawn_request import InheritedModules, SpawnRequest
from support.rows import each_row

_HERE = Path("/")
_PASSED_ON = ("orchestrator_config", "parent_messages", "session_metadata")


def _plan(agents: dict[str, Any] | None = None, **sections: Any) -> MountPlan:
    session = {"orchestrator": "loop-a", "context": "context-a", "metadata": {"of": "plan"}}
    plan = {
        "session": session,
        "orchestrator": {"config": {"x": 1}},
        "providers": [{"module": "provider-a"}, {"module": "provider-b", "config": {"priority": 3}}],
        "tools": [{"module": f"tool-{name}"} for name in "abc"],
        "hooks": [{"module": "hooks-a"}, {"module": "hooks-guard", "on_failure": "deny"}],
        "skills": {"dirs": ["here"]},
        "agents": agents or {},
        **sections,
    }
    return load_plan(plan)


def _request(*, above: int = 0, **wishes: Any) -> SpawnRequest:
    passed_on = {name: wishes.pop(name, None) for name in _PASSED_ON}
    keywords = {
        "agent_name": "a",
        "instruction": "go",
        "sub_session_id": None,
        "tool_inheritance": None,
        "hook_inheritance": None,
        "provider_preferences": None,
        "self_delegation_depth": 0,
    }
    return SpawnRequest.read(**{**keywords, **wishes}, payload=SpawnPayload.read(**passed_on, above=above))


def _made(plan: MountPlan, agent: str | None = None, **wishes: Any) -> SessionPlan:
    return plan_of(SessionPlan.of(plan), plan.agents[agent] if agent else None, _request(**wishes))


def _names(plan: SessionPlan) -> list[str]:
    return [entry.module for entry in plan.entries()]


def test_without_wishes_a_session_is_mounted_once_more_as_it_is() -> None:
    plan = _plan()
    made = _made(plan)
    assert list(made.entries()) == list(plan.own_entries())
    assert made.overrides == {}


def test_no_configuration_that_modules_see_has_the_value_of_a_variable() -> None:
    granted = {"permissions": {"env": ["LANG", "TOKEN=s3cret", "KEY=${KEY}"], "secrets": ["KEY"]}}
    plan = _plan({"a": {"tools": [{"module": "tool-d", **granted}]}}, tools=[{"module": "tool-a", **granted}])
    shown = SessionPlan.of(plan)
    assert shown.raw["tools"][0]["permissions"]["env"] == ["LANG", "TOKEN=…", "KEY=${KEY}"]
    assert "s3cret" in str(plan.raw)
    assert "s3cret" not in str(shown.raw) + str(_made(plan, "a").raw)
    assert shown.tools[0].permissions.env[1] == "TOKEN=s3cret"


def test_an_agents_entries_are_in_the_places_of_the_plans_and_behind_them() -> None:
    agent = {
        "session": {"context": "context-b"},
        "providers": [{"module": "provider-b", "config": {"y": 1}}],
        "tools": [{"module": "tool-new"}, {"module": "tool-b", "config": {"y": 2}}],
    }
    made = _made(_plan({"a": agent}), "a")
    assert _names(made) == [
        *("loop-a", "context-b", "provider-a", "provider-b"),
        *("tool-a", "tool-b", "tool-c", "tool-new"),
        *("hooks-a", "hooks-guard"),
    ]
    assert [entry.path for entry in made.tools] == ["tools[0]", "agents.a.tools[1]", "tools[2]", "agents.a.tools[0]"]
    assert made.providers[1].config == {"priority": 3, "y": 1}


def test_the_configuration_matches_the_mounts_and_keeps_the_rest() -> None:
    agent = {"description": "does", "tools": [{"module": "tool-b", "config": {"y": 2}}], "skills": {"max": 2}}
    plan = _plan({"a": agent})
    before = repr(plan.raw)
    made = _made(plan, "a", tool_inheritance=["tool-c"], orchestrator_config={"z": 3}, session_metadata={"for": "b"})
    raw = made.raw
    assert [entry["module"] for entry in raw["tools"]] == ["tool-b", "tool-c"]
    assert raw["tools"][0]["config"] == {"y": 2}
    assert raw["session"]["orchestrator"] == {"module": "loop-a", "config": {"x": 1, "z": 3}}
    assert raw["session"]["metadata"] == {"of": "plan", "for": "b"}
    assert raw["skills"] == {"dirs": ["here"], "max": 2}
    assert raw["agents"] == {"a": agent}
    raw["skills"]["dirs"].append("there")
    assert repr(plan.raw) == before


@each_row(
    ("written", "left"),
    [
        (None, "abc"),
        ("all", "abc"),
        ("none", ""),
        ({}, "abc"),
        (["tool-a", "c"], "ac"),
        ({"inherit_tools": ["tool-b"]}, "b"),
        ({"inherit_tools": "none"}, ""),
        ({"exclude_tools": ["tool-b", "tool-unknown"]}, "ac"),
        ({"exclude_tools": "all"}, ""),
        ({"exclude_tools": "none", "inherit_tools": "all"}, "abc"),
        ({"exclude_tools": ["a"], "inherit_tools": ["tool-a", "tool-b"]}, "b"),
    ],
)
def test_tools_are_inherited_as_written(written: Any, left: str) -> None:
    assert [entry.module for entry in _made(_plan(), tool_inheritance=written).tools] == [f"tool-{x}" for x in left]


@each_row("written", [7, ["tool-a", 3], {"inherit": ["tool-a"]}, {"exclude_tools": 3}, "some"])
def test_inheritance_that_is_not_understood_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="inheritance of tools"):
        InheritedModules.read("tools", written)


def test_an_agents_own_modules_stay_whatever_is_wished() -> None:
    agent = {"tools": [{"module": "tool-own"}], "hooks": [{"module": "hooks-own", "on_failure": "continue"}]}
    made = _made(_plan({"a": agent}), "a", tool_inheritance="none", hook_inheritance={"exclude_hooks": "all"})
    assert [entry.module for entry in made.tools] == ["tool-own"]
    assert [entry.module for entry in made.hooks] == ["hooks-a", "hooks-guard", "hooks-own"]


@each_row(
    ("hook", "stays"),
    [({}, True), ({"on_failure": "deny"}, True), ({"on_failure": "continue"}, False)],
    ids=["as it is by default", "deny", "continue"],
)
def test_a_hook_is_left_out_only_if_the_plan_allows_it(hook: dict[str, Any], stays: bool) -> None:
    plan = _plan(hooks=[{"module": "hooks-a", **hook}])
    for wish in ("none", ["hooks-b"], {"exclude_hooks": ["a"]}, {"inherit_hooks": "none"}):
        assert bool(_made(plan, hook_inheritance=wish).hooks) is stays


@each_row(("heard", "stays"), [(["tool:post"], False), (["tool:pre"], True), (["prompt:*"], True), (["*"], True)])
def test_a_tool_that_is_granted_a_gate_is_not_left_out(heard: list[str], stays: bool) -> None:
    plan = _plan(tools=[{"module": "tool-a", "permissions": {"hooks": heard}}])
    assert bool(_made(plan, tool_inheritance="none").tools) is stays


def test_a_hook_that_guards_the_first_session_guards_every_one_below_it() -> None:
    below = SessionPlan.of(_plan(hooks=[{"module": "hooks-a"}, {"module": "hooks-b", "on_failure": "continue"}]))
    for _ in range(3):
        below = plan_of(below, None, _request(hook_inheritance="none", tool_inheritance="none"))
        assert [entry.module for entry in below.hooks] == ["hooks-a"]


def test_what_a_session_was_started_without_those_below_it_do_not_have() -> None:
    plan = _plan({"a": {"tools": [{"module": "tool-own"}]}})
    middle = _made(plan, "a", tool_inheritance=["tool-c"], orchestrator_config={"z": 3})
    below = plan_of(middle, None, _request())
    assert [entry.module for entry in below.tools] == ["tool-c", "tool-own"]
    assert below.overrides == {"session.orchestrator": {"z": 3}}
    assert below.raw["session"]["orchestrator"]["config"] == {"x": 1, "z": 3}


@each_row(
    ("preferences", "told"),
    [
        ([], {}),
        ([{"provider": "unknown", "model": "m"}], {}),
        ([{"provider": "b", "model": "m"}], {"providers[1]": {"priority": 0, "default_model": "m"}}),
        ([{"provider": "provider-a", "model": None}], {"providers[0]": {"priority": 0}}),
        ([{"provider": "a", "model": "m-*"}], {"providers[0]": {"priority": 0}}),
        (
            [{"provider": "x", "model": "m"}, {"provider": "a", "model": "n"}, {"provider": "b", "model": "o"}],
            {"providers[0]": {"priority": 0, "default_model": "n"}},
        ),
        (
            [
                {
                    "provider": "a",
                    "model": "m",
                    "config": {"temperature": 0.5, "base_url": "https://elsewhere", "reasoning_effort": {"x": 1}},
                }
            ],
            {"providers[0]": {"priority": 0, "default_model": "m", "temperature": 0.5}},
        ),
    ],
)
def test_the_provider_that_is_wanted_most_goes_first(preferences: list[Any], told: dict[str, Any]) -> None:
    assert _made(_plan(), provider_preferences=preferences).overrides == told


def test_an_instance_of_a_provider_is_preferred_by_its_name() -> None:
    entry = ModuleEntry.read(
        {"module": "provider-a", "instance_id": "fast"}, EntryPlace("provider", "providers[0]", _HERE)
    )
    assert ProviderWish("fast", "", {}).is_of(entry)
    assert not ProviderWish("slow", "", {}).is_of(entry)


@each_row("written", ["a", {"model": "m"}, {"provider": 1}, {"provider": "a", "config": []}, object()])
def test_a_preference_that_is_none_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="provider preference"):
        _request(provider_preferences=[written])


@each_row(
    ("wishes", "error"),
    [
        ({"agent_name": None}, TypeError),
        ({"instruction": ["go"]}, TypeError),
        ({"sub_session_id": 5}, TypeError),
        ({"sub_session_id": ""}, ValueError),
        ({"sub_session_id": "a b"}, ValueError),
        ({"sub_session_id": "a\n"}, ValueError),
        ({"sub_session_id": "x" * 600}, ValueError),
        ({"sub_session_id": "é"}, ValueError),
        ({"orchestrator_config": "x"}, TypeError),
        ({"orchestrator_config": {"x": object()}}, ValueError),
        ({"session_metadata": {"x": float("nan")}}, ValueError),
        ({"parent_messages": [1]}, TypeError),
        ({"parent_messages": [{"role": "user", "content": object()}]}, ValueError),
        ({"provider_preferences": "a"}, TypeError),
        ({"provider_preferences": [{"provider": "a", "model": "m"}] * 101}, TypeError),
        ({"provider_preferences": [{"provider": "a", "model": "m" * 1001}]}, ValueError),
        ({"provider_preferences": [{"provider": "a", "model": "m", "config": {"top_p": "x" * 1001}}]}, ValueError),
        ({"self_delegation_depth": -1}, ValueError),
        ({"self_delegation_depth": True}, ValueError),
        ({"self_delegation_depth": "1"}, ValueError),
    ],
)
def test_a_request_is_text_and_plain_data(wishes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        _request(**wishes)


_HALF = "x" * (MAX_BYTES // 2)


@each_row(
    "wishes",
    [
        {"orchestrator_config": {"a": _HALF, "b": _HALF}},
        {"orchestrator_config": {"a": _HALF}, "session_metadata": {"b": _HALF}},
        {"parent_messages": [{"content": _HALF}], "session_metadata": {"b": _HALF}},
        {"parent_messages": [{"content": [[] for _ in range(MAX_BYTES // 128)]}]},
        {"parent_messages": [{"role": "user"}] * (MAX_BYTES // 128)},
        {"orchestrator_config": {_HALF: _HALF}},
    ],
    ids=["one", "two", "messages", "lists", "tables", "keys"],
)
def test_what_is_passed_on_is_bounded_in_memory(wishes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="parent_messages, orchestrator_config and session_metadata take more than 4 "):
        _request(**wishes)


def test_what_sessions_up_the_line_were_given_counts_too() -> None:
    plan = SessionPlan.of(_plan())
    first = plan_of(plan, None, _request(orchestrator_config={"a": _HALF}, parent_messages=[{"content": "a" * 1000}]))
    assert first.overrides["session.orchestrator"] == {"a": _HALF}
    assert len(_HALF) < first.passed_on < len(_HALF) + 1000  # the conversation is the one session's alone
    with pytest.raises(ValueError, match="with what the sessions above it were given"):
        _request(orchestrator_config={"b": _HALF}, above=first.passed_on)
    _request(orchestrator_config={"b": _HALF})


class _Odd:
    """What a context may hold in place of a message: asking it for anything is a mistake."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"it was asked for {name}")


@each_row(
    "messages",
    [_Odd(), 5, {"a": 1}, "text", None, [_Odd(), 1, None, "x"], [{"tool_calls": _Odd(), "content": _Odd()}]],
    ids=["object", "number", "table", "text", "nothing", "list", "parts"],
)
def test_what_is_no_message_leaves_no_call_open(messages: Any) -> None:
    assert closing_messages(messages) == []


def test_calls_that_nothing_answers_are_closed_whatever_is_beside_them() -> None:
    call = {"id": "1", "name": _Odd(), "tool": "look"}
    messages = [
        _Odd(),
        {"role": _Odd(), "tool_calls": [_Odd(), call, {"id": "2"}]},
        {"role": "tool", "tool_call_id": "2"},
    ]
    (answer,) = closing_messages(messages)
    assert (answer["tool_call_id"], answer["name"]) == ("1", "look")
