"""The shipped provider in a sandbox: a turn with tools over TLS, its thinking sent back as it came, the key put in."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from host.egress.certificates import TestAuthority
from integration.command_line import require_level
from integration.community import Heard, listen, messages, until
from integration.conftest import OpenSession
from integration.vendor_turns import assert_tried_again, cancel_in_the_midst, faults
from modules import shipped
from vendors.anthropic_dialect import AnthropicDialect
from vendors.script import Script
from vendors.server import VendorServer

_KEY = f"sk-ant-{os.urandom(24).hex()}"


@pytest.mark.exhaustive
async def test_thinking_is_sent_back_as_it_came_over_tls_with_an_injected_key(
    open_session: OpenSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_level("ns")
    authority = TestAuthority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    monkeypatch.setenv("ANTHROPIC_API_KEY", _KEY)
    call = {"name": "todo", "arguments": {"action": "list"}}
    thought = {"reasoning": ["hm, ", "so"], "text": "I look.", "tool_calls": [call]}
    turns = [{**thought, "faults": faults(after=4)}, "Nothing.", "Bye."]
    dialect = AnthropicDialect(frozenset({"binds_thinking"}))
    with VendorServer(Script(turns, key=_KEY), dialect, tls=authority.server("127.0.0.1")) as server:
        place = f"127.0.0.1:{server.port}"
        entry = {
            "module": "provider-anthropic",
            "source": str(shipped.beside_its_packages("provider-anthropic", tmp_path)),
            "config": {"base_url": server.url, "max_retry_delay": 0.1},
            "permissions": {
                "net": [place],
                "env": ["ANTHROPIC_API_KEY=${ANTHROPIC_API_KEY}"],
                "secrets": [{"name": "ANTHROPIC_API_KEY", "inject": place}],
            },
        }
        async with open_session(
            orchestrator={"module": "loop-streaming", "permissions": {}},
            context={"module": "context-simple", "permissions": {}},
            providers=[entry],
            tools=[{"module": "tool-todo", "permissions": {}}],
            isolation="ns",
        ) as session:
            retries = listen(session, "provider:retry")
            heard: list[Heard] = listen(session, "llm:stream_block_delta", "llm:response")
            await cancel_in_the_midst(session, heard, server)
            answers: list[str] = []
            async with anyio.create_task_group() as group:

                async def turn() -> None:
                    answers.append(await session.execute("look"))

                group.start_soon(turn)
                await until(heard)  # the first thought is here while the server keeps the rest back
                assert [(one.data["block_type"], one.data["text"]) for one in heard] == [("thinking", "hm, ")]
                server.release()
            answers.append(await session.execute("bye"))
            assert answers == ["Nothing.", "Bye."]
            costs = [one.data["usage"]["cost_usd"] for one in heard if one.event == "llm:response"]
            assert len(costs) == 3 and all(float(cost) > 0 for cost in costs)
            said = await messages(session)
            turn_with_tool = ["user", "assistant", "tool", "assistant"]
            assert [one["role"] for one in said] == ["user", *turn_with_tool, "user", "assistant"]
            assert_tried_again(retries)
        assert not server.refusals  # nor would the vendor take a signature with another conversation before it
        blocks = [one.body["messages"][1]["content"][0] for one in server.answers[-2:]]
        assert [block["thinking"] for block in blocks] == ["hm, so", "hm, so"]
        assert len({block["signature"] for block in blocks}) == 1
        assert {dialect.key(one.headers) for one in server.asked} == {_KEY}
    assert _KEY not in str(heard) and _KEY not in str(said)
