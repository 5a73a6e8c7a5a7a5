"""The agents of a plan: what is read of them, what they have from the plan, and every mistake in them."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.errors import PlanError
from paddock.plan.load import load_plan
from paddock.plan.model import MountPlan
from support.rows import each_row


def _load(agents: Any, **sections: Any) -> MountPlan:
    plan = {"session": {"orchestrator": "loop-a", "context": "context-a"}, **sections, "agents": agents}
    return load_plan(plan)


def _problems(agents: Any, **sections: Any) -> dict[str, str]:
    with pytest.raises(PlanError) as caught:
        _load(agents, **sections)
    return {problem.path: problem.message for problem in caught.value.problems}


def test_an_agents_entries_stand_behind_the_plans_own_at_their_places() -> None:
    agent = {
        "description": "finds out",
        "session": {"orchestrator": "loop-b", "context": {"module": "context-b"}},
        "providers": [{"module": "provider-a"}],
        "tools": [{"module": "tool-a"}, {"module": "tool-b"}],
        "hooks": [{"module": "hooks-a"}],
    }
    plan = _load({"researcher": agent, "a: b": {"tools": [{"module": "tool-c"}]}}, tools=[{"module": "tool-z"}])
    assert [entry.path for entry in plan.own_entries()] == ["session.orchestrator", "session.context", "tools[0]"]
    assert [(entry.path, entry.module, entry.agent) for entry in plan.entries()][3:] == [
        ("agents.researcher.session.orchestrator", "loop-b", "researcher"),
        ("agents.researcher.session.context", "context-b", "researcher"),
        ("agents.researcher.providers[0]", "provider-a", "researcher"),
        ("agents.researcher.tools[0]", "tool-a", "researcher"),
        ("agents.researcher.tools[1]", "tool-b", "researcher"),
        ("agents.researcher.hooks[0]", "hooks-a", "researcher"),
        ('agents["a: b"].tools[0]', "tool-c", "a: b"),
    ]
    assert plan.raw["agents"]["researcher"] == agent
    assert not plan.notes


@each_row(
    ("agent", "instruction"),
    [
        ({}, ""),
        ({"instruction": "be kind"}, "be kind"),
        ({"system": {"instruction": "be brief"}}, "be brief"),
        ({"instruction": "be kind", "system": {"instruction": "be brief"}}, "be kind"),
    ],
)
def test_an_agent_is_told_its_instruction(agent: dict[str, Any], instruction: str) -> None:
    assert _load({"a": agent}).agents["a"].instruction == instruction


def test_an_entry_over_the_plans_has_whatever_it_says_nothing_of() -> None:
    base = {
        "module": "tool-a",
        "source": "/code/a",
        "config": {"deep": {"a": 1, "b": 2}, "list": [1]},
        "permissions": {"read": ["."]},
        "limits": {"memory_max": "64M"},
        "isolation": "landlock",
        "replaces": "shell",
        "state": "keep",
    }
    over = {"module": "tool-a", "config": {"deep": {"b": 3}, "list": [2]}}
    plan = _load(
        {
            "same": {"tools": [over]},
            "granted": {"tools": [{**over, "permissions": {"net": ["a.example:443"]}, "limits": {"tasks_max": 4}}]},
            "elsewhere": {"tools": [{**over, "source": "/code/b"}]},
            "trusted": {"tools": [{**over, "source": "/code/b", "replaces": "bash"}]},
        },
        tools=[base],
    )
    same, granted, elsewhere, trusted = (agent.tools[0] for agent in plan.agents.values())
    assert same.config == {"deep": {"a": 1, "b": 3}, "list": [2]}
    assert (same.source, same.permissions, same.limits, same.isolation, same.replaces, same.state) == (
        "/code/a",
        plan.tools[0].permissions,
        plan.tools[0].limits,
        "landlock",
        ("shell",),
        "keep",
    )
    assert (granted.source, granted.permissions.read, granted.permissions.net) == ("/code/a", (), ("a.example:443",))
    assert (granted.limits.memory_max, granted.limits.tasks_max) == (None, 4)
    # What was granted, it was to the code at the plan's source.
    assert (elsewhere.source, elsewhere.permissions.read, elsewhere.isolation) == ("/code/b", (), None)
    assert (elsewhere.replaces, elsewhere.state, elsewhere.limits) == ((), "ephemeral", plan.tools[0].limits)
    assert (trusted.replaces, trusted.state) == (("bash",), "ephemeral")
    assert plan.tools[0].config == base["config"]


def test_instances_and_repeated_modules_go_over_their_own_like() -> None:
    plan = _load(
        {
            "a": {
                "providers": [{"module": "provider-a", "instance_id": "two", "config": {"x": 2}}],
                "hooks": [{"module": "hooks-a"}, {"module": "hooks-a", "config": {"x": 2}}, {"module": "hooks-a"}],
            }
        },
        providers=[{"module": "provider-a", "instance_id": name, "config": {"n": name}} for name in ("one", "two")],
        hooks=[{"module": "hooks-a", "config": {"n": number}} for number in (1, 2)],
    )
    agent = plan.agents["a"]
    assert [entry.config for entry in agent.providers] == [{"n": "two", "x": 2}]
    assert [entry.config for entry in agent.hooks] == [{"n": 1}, {"n": 2, "x": 2}, {}]


@each_row(
    "agent",
    [
        {"session": {"orchestrator": {"module": "loop-a", "config": {"x": 2}}}},
        {"session": {"orchestrator": {"config": {"x": 2}}}},
        {"orchestrator": {"config": {"x": 2}}},
        {"session": {"orchestrator": "loop-a"}, "orchestrator": {"config": {"x": 2}}},
    ],
    ids=["table", "no module", "config alone", "bare id"],
)
def test_the_plans_orchestrator_can_be_configured_anew(agent: dict[str, Any]) -> None:
    plan = _load({"a": agent}, orchestrator={"config": {"x": 1, "y": 1}})
    orchestrator = plan.agents["a"].orchestrator
    assert orchestrator is not None and orchestrator.module == "loop-a"
    assert orchestrator.config == {"x": 2, "y": 1}
    assert plan.agents["a"].context is None


def test_every_mistake_in_an_agent_is_told_with_its_place() -> None:
    problems = _problems(
        {
            "a": {
                "tools": [{"module": "tool-a", "permission": {}}, {"config": {}}, "tool-b"],
                "hooks": {"module": "hooks-a"},
                "instruction": 7,
                "sesion": {},
                "resolver": {},
                "session": {"orchestrater": "x"},
                "system": "be kind",
            },
            "b": "an agent",
            "": {"description": "nobody"},
            "c": {"providers": [{"module": "provider-a"}, {"module": "provider-a"}]},
            "d": {
                "tools": [{"module": "tool-a", "on_failure": "deny"}, {"module": "tool-b", "config": {"k": "${A:-b}"}}]
            },
        }
    )
    assert problems == {
        "agents.a.tools[0]": "unknown key `permission`",
        "agents.a.tools[1]": "`module` is missing",
        "agents.a.tools[2]": "must be a table, is text",
        "agents.a.hooks": "must be a list, is a table",
        "agents.a.instruction": "must be text, is a number",
        "agents.a": "unknown key `sesion`",
        "agents.a.resolver": "a plan cannot bring a resolver",
        "agents.a.session": "unknown key `orchestrater`",
        "agents.a.system": "must be a table, is text",
        "agents.b": "must be a table, is text",
        "agents": "an agent has no name",
        "agents.c.providers[1]": "`provider-a` is already listed without an instance_id, at agents.c.providers[0]",
        "agents.d.tools[0].on_failure": "is for hooks and what is granted `hooks`; this is a tool",
        "agents.d.tools[1].config.k": "`${A:-b}` has a default, which is not supported",
    }


def test_what_other_programs_say_of_agents_is_passed_on() -> None:
    agents = {"dirs": ["./agents"], "a": {"model_role": "fast", "agents": "none"}}
    plan = _load(agents)
    assert list(plan.agents) == ["a"] and plan.raw["agents"] == agents
    assert [note.partition("`")[2].partition("`")[0] for note in plan.notes] == ["agents.dirs", "agents.a.agents"]
