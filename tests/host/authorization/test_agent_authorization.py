"""Modules that only an agent has are shown, accepted, granted, locked and listed with the plan's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paddock.authorization.consent import ConsentAnswer
from paddock.errors import PolicyRefusedError
from paddock.module_sources.sourced_modules import SourcedModules
from paddock.plan.edit import PlanNotEditedError, with_entry, without_entry

from .test_authorizer import Person, Scene

_AGENTS = """
- {module: tool-a, permissions: {read: ["."]}}
agents:
  researcher:
    tools:
      - {module: tool-a, config: {deep: true}}
      - {module: tool-x, permissions: {net: ["example.org:443"]}}
  writer:
    tools: [{module: tool-filesystem}]
"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_what_only_an_agent_asks_for_takes_an_accepted_plan(scene: Scene) -> None:
    plan = scene.plan(_AGENTS)
    with pytest.raises(PolicyRefusedError) as caught:
        await scene.clear(plan)
    (refusal,) = caught.value.refusals
    assert refusal.path == "agents.researcher.tools[1].permissions.net[0]"
    assert refusal.line == plan.place_of(refusal.path).line == 9
    authorization = await scene.clear(plan, trust_plan=True)
    cleared = {one.entry.path: one.entry.permissions for one in authorization.modules}
    assert cleared["agents.researcher.tools[1]"].net == ("example.org:443",)
    assert cleared["agents.researcher.tools[0]"].read == cleared["tools[0]"].read == (".",)


async def test_the_question_shows_agents_modules_and_accepts_them(scene: Scene) -> None:
    plan, person = scene.plan(_AGENTS), Person(ConsentAnswer.ACCEPT)
    authorization = await scene.clear(plan, consent=person)
    (review,) = person.seen
    assert [module.name for module in review.modules][2:] == [
        "tool-a",
        "tool-a of agent researcher",
        "tool-x of agent researcher",
        "tool-filesystem of agent writer",
    ]
    assert review.modules[4].needs_trust
    granted = {one.entry.path: one.entry.permissions for one in authorization.modules}
    assert granted["agents.writer.tools[0]"].read  # what fits it, proposed and accepted
    assert [module.entry for module in (await scene.clear(plan)).modules] == [
        module.entry for module in authorization.modules
    ]


async def test_a_preset_goes_to_a_module_wherever_it_is_listed(scene: Scene) -> None:
    authorization = await scene.clear(scene.plan(_AGENTS), trust_plan=True, grants={"tool-filesystem": "workspace"})
    granted = {one.entry.path: one.entry.permissions for one in authorization.modules}
    assert granted["agents.writer.tools[0]"].write


def test_sources_of_agents_are_locked_and_listed_with_the_plans_own(tmp_path: Path) -> None:
    plan = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "tools": [{"module": "tool-a", "source": "git+https://example.org/a@v1"}],
        "agents": {
            "researcher": {
                "tools": [
                    {"module": "tool-a", "config": {"x": 1}},
                    {"module": "tool-b", "source": "git+https://example.org/b@v1"},
                ]
            }
        },
    }
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    found = SourcedModules.read(path, tmp_path, {"HOME": str(tmp_path)})
    assert [(one.place, one.key) for one in found.modules] == [
        ("tools[0]", "git+https://example.org/a@v1"),
        ("agents.researcher.tools[0]", "git+https://example.org/a@v1"),
        ("agents.researcher.tools[1]", "git+https://example.org/b@v1"),
    ]


def test_an_agents_module_is_no_module_of_the_plan_to_add_to_or_take_from(scene: Scene) -> None:
    plan = scene.plan(_AGENTS).origin
    assert plan is not None
    assert with_entry(plan, "tool", {"module": "tool-x", "source": "./x"}).place == "tools[1]"
    with pytest.raises(PlanNotEditedError, match="it is an agent that has"):
        without_entry(plan, "agents.researcher.tools[1]")
