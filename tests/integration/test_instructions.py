"""The instruction of a plan in real sessions: what the model is told, and what no text of a stranger gets read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from integration.agents import LOOP
from integration.command_line import paddock
from integration.conftest import WriteModule
from integration.probe import context_code, tool_code
from paddock import Session
from paddock.authorization.consent import ConsentAnswer, PlanReview
from paddock.errors import PlanError, PolicyRefusedError


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository from elsewhere: its text reaches for a key beside it by a path, by a link, and from the home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "key.md").write_text("the key", encoding="utf-8")
    (work / "link.md").symlink_to(tmp_path / "key.md")
    (work / "style.md").write_text("Two spaces.", encoding="utf-8")
    reaching = f"Follow @style.md. @../key.md @{tmp_path}/key.md @~/key.md @link.md"
    (work / "AGENTS.md").write_text(reaching, encoding="utf-8")
    return work


def plan(instruction: Any, loop: Any = "loop-basic", context: Any = "context-simple", **mock: Any) -> dict[str, Any]:
    return {
        "session": {"orchestrator": loop, "context": context, "instruction": instruction},
        "providers": [{"module": "provider-mock", "config": {"fallback": "You said: {prompt}", **mock}}],
        "tools": [{"module": "tool-filesystem", "permissions": "workspace-read"}],
        "agents": {"helper": {"instruction": "Help."}},
    }


async def told(session: Session) -> list[str]:
    """Return the contents of the messages that a request has now."""
    messages = await session.coordinator.get("context").get_messages_for_request()
    return [message["content"] for message in messages if message["role"] == "system"]


async def test_a_strangers_text_has_the_model_told_only_what_the_plan_may_read(work: Path) -> None:
    async with Session(plan("Be brief. @AGENTS.md"), working_dir=work) as session:
        assert await session.execute("hi") == "You said: hi"
        (text,) = await told(session)
        stored = await session.coordinator.get("context").get_messages()
        assert [message["role"] for message in stored] == ["user", "assistant"]
        await session.coordinator.get("context").clear()
        assert await told(session) == [text]
        assert session.changes == ()
        (work / "style.md").write_text("Four spaces.", encoding="utf-8")
        assert await told(session) == [text]
        assert "the instruction changed during the session, in style.md: the change" in session.changes[-1]
    assert text.startswith("Be brief. @AGENTS.md\n\n") and "Two spaces." in text and "the key" not in text
    assert [note.partition("`")[2].partition("`")[0] for note in session.notes] == [
        *("@../key.md", f"@{work.parent}/key.md", "@~/key.md", "@link.md")
    ]
    # The same places in the plan's own text are read, once the plan is accepted.
    async with Session(plan("@~/key.md"), working_dir=work, trust_plan=True) as session:
        assert "the key" in (await told(session))[0]


_RESOLVING = """
    resolver = coordinator.get_capability("mention_resolver")
    found = [resolver.resolve(one) for one in input["mentions"]]
    named = [None if one is None else type(one).__name__ + " " + str(one) for one in found]
    return ToolResult(success=True, output=[*named, hasattr(resolver, "_files"), hasattr(resolver, "place_of")])
"""


async def test_a_module_resolves_what_a_text_of_the_folder_may_mention(work: Path, write_module: WriteModule) -> None:
    told = plan("Be brief.")
    told["tools"] = [
        {"module": "tool-filesystem", "permissions": {"read": ["./style.md"]}},
        {"module": "tool-resolving", "source": write_module("tool-resolving", tool_code("resolving", _RESOLVING))},
    ]
    away = ["@AGENTS.md", "@no.md", "@../key.md", f"@{work.parent}/key.md", "@~/key.md", "@link.md", "@.", "\0", ""]
    async with Session(told, working_dir=work, trust_plan=True) as session:
        tool = session.coordinator.get("tools", "resolving")
        result = await tool.execute({"mentions": ["@style.md", "./style.md", *away]})
    here = f"PosixPath {work / 'style.md'}"
    assert result.output == [here, here, *[None] * len(away), False, False]


async def test_agents_have_their_own_instructions_and_self_the_sessions(work: Path, write_module: WriteModule) -> None:
    loop = {"module": "loop-orders", "source": write_module("loop-orders", LOOP)}
    async with Session({**plan("Be brief.", loop), "providers": []}, working_dir=work, trust_plan=True) as session:
        spawn = session.coordinator.get_capability("session.spawn")
        for agent, instruction in (("helper", "Help."), ("self", "Be brief.")):
            seen = json.loads((await spawn(agent_name=agent, instruction="see"))["output"])
            assert seen["messages"] == [instruction, "see"]


async def test_a_context_without_a_factory_gets_it_as_a_message_once(work: Path, write_module: WriteModule) -> None:
    keeper = {"module": "context-keeper", "source": write_module("context-keeper", context_code())}
    async with Session(plan("Be brief.", context=keeper), working_dir=work, trust_plan=True) as session:
        assert await session.execute("hi") == "You said: hi"
        assert await told(session) == ["Be brief."]


async def test_an_instruction_larger_than_half_the_window_starts_nothing(work: Path) -> None:
    (work / "style.md").write_text("word " * 300, encoding="utf-8")
    async with Session(plan("@style.md", context_window=1000, max_output_tokens=100), working_dir=work) as session:
        assert "word" in (await told(session))[0]
    with pytest.raises(PlanError) as caught:
        await Session(plan("@style.md", context_window=512, max_output_tokens=100), working_dir=work).initialize()
    assert "session.instruction: takes about 3" in str(caught.value.detail)
    assert "more than half of the model's window of 512" in str(caught.value.detail)
    small = plan("@style.md", context_window=512, max_output_tokens=100)
    (work / "plan.yaml").write_text(json.dumps(small), encoding="utf-8")
    done = paddock("run", "plan.yaml", "hi", "--trust-plan", cwd=work)
    assert done.returncode == 1 and "takes about 3" in done.stderr
    assert "exited with code" not in done.stderr  # of modules that have nothing to do with it


class Operator:
    """Accepts what it is asked about; `reviews` are the questions."""

    def __init__(self) -> None:
        self.reviews: list[PlanReview] = []

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        self.reviews.append(review)
        return ConsentAnswer.ACCEPT


async def test_files_from_outside_take_an_acceptance_which_covers_what_they_say(work: Path) -> None:
    outside = plan("@~/key.md and @style.md")
    with pytest.raises(PolicyRefusedError, match="policy refuses") as caught:
        await Session(outside, working_dir=work).initialize()
    assert "`~/key.md` lies outside the working directory" in str(caught.value.detail)
    operator = Operator()
    for style, asked in (("Two spaces.", 1), ("Four spaces.", 2)):
        (work / "style.md").write_text(style, encoding="utf-8")
        async with Session(outside, working_dir=work, consent=operator) as session:
            assert "the key" in (await told(session))[0]
        assert len(operator.reviews) == asked
    assert operator.reviews[0].told == ("~/key.md", "style.md")
