"""A conversation in a file, in sandboxed workers that are killed: it outlasts them, and nothing is in it twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import OpenSession
from integration.session_internals import kill


def _said(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"message {number}"}


async def test_a_killed_context_keeps_earlier_sessions_and_doubles_nothing(
    open_session: OpenSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "work/.amplifier/talk.jsonl"
    file.parent.mkdir(parents=True)
    entry = {
        "module": "context-persistent",
        "config": {"path": "./.amplifier/talk.jsonl"},
        "permissions": {"write": ["./.amplifier"]},
    }
    reply = {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}]}
    async with open_session(context=entry) as session:
        context = session.coordinator.get("context")
        await context.add_message(_said(1))
        await context.add_message(reply)
    async with open_session(context=entry) as session:
        context = session.coordinator.get("context")
        await context.set_messages([_said(1)])  # what an application replays
        for number in (2, 3):
            await kill(session, kind="context")
            await context.add_message(_said(number))
        assert await context.get_messages() == [_said(1), reply, _said(2), _said(3)]
        status = next(module for module in session.modules if module.kind == "context")
        assert status.restarts == 2
    kept = [json.loads(line) for line in file.read_text().splitlines()]
    assert kept[1:] == [{"add": _said(1)}, {"add": reply}, {"add": _said(2)}, {"add": _said(3)}]


async def test_a_killed_context_without_grants_has_every_message_once(open_session: OpenSession) -> None:
    async with open_session(context={"module": "context-persistent", "permissions": "isolated"}) as session:
        context = session.coordinator.get("context")
        await context.set_messages([_said(0)])
        await context.add_message(_said(1))
        await kill(session, kind="context")
        await context.add_message(_said(2))
        await kill(session, kind="context")
        assert await context.get_messages() == [_said(0), _said(1), _said(2)]


async def test_a_resumed_sub_session_has_its_own_file_and_doubles_nothing(
    open_session: OpenSession, tmp_path: Path
) -> None:
    folder = tmp_path / "work/.amplifier"
    folder.mkdir(parents=True)
    entry = {
        "module": "context-persistent",
        "config": {"path": "./.amplifier/talk.jsonl"},
        "permissions": {"write": ["./.amplifier"]},
    }
    async with open_session(
        orchestrator={"module": "loop-basic"},
        context=entry,
        providers=[{"module": "provider-mock", "config": {"fallback": "fine"}}],
        agents={"helper": {"description": "helps", "instruction": "be brief"}},
    ) as session:
        await session.execute("hello")
        spawn, resume = map(session.coordinator.get_capability, ("session.spawn", "session.resume"))
        helped = await spawn(
            agent_name="helper", instruction="do", parent_session=session.coordinator.session, agent_configs={}
        )
        await resume(sub_session_id=helped["session_id"], instruction="again")
    said = {
        path.name: [json.loads(line)["add"]["role"] for line in path.read_text().splitlines()[1:]]
        for path in folder.iterdir()
    }
    assert said == {
        "talk.jsonl": ["user", "assistant"],
        f"talk.{helped['session_id']}.jsonl": ["system", "user", "assistant", "user", "assistant"],
    }
