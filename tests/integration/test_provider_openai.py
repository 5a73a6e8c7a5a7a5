"""The shipped provider in a sandbox: an answer streams to the application over TLS, with a key that it never holds."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from amplifier_core import llm_errors
from amplifier_core.message_models import ChatRequest, Message

from host.egress.certificates import TestAuthority
from integration.command_line import require_level
from integration.community import Heard, listen, messages, until
from integration.conftest import OpenSession
from integration.vendor_turns import assert_tried_again, cancel_in_the_midst, faults
from modules import shipped
from vendors.openai_dialect import OpenAIDialect
from vendors.script import Script
from vendors.server import VendorServer

_MUCH = "x" * 10_000_000
_KEY = f"sk-live-{os.urandom(24).hex()}"


@pytest.mark.exhaustive  # test_provider_anthropic.py has the same turns, and test_chat.py this provider
async def test_an_answer_streams_over_tls_with_a_key_put_in_on_the_way(
    open_session: OpenSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_level("ns")
    authority = TestAuthority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    monkeypatch.setenv("OPENAI_API_KEY", _KEY)
    call = {"name": "todo", "arguments": {"action": "list"}}
    turns = [
        {"text": ["I look", " first"], "tool_calls": [call], "faults": faults(after=2)},
        {"text": "done", "usage": {"input": 10, "output": 2}},
        {"text": [_MUCH]},
        "still here",
    ]
    script = Script(turns, key=_KEY)
    with VendorServer(script, OpenAIDialect(), tls=authority.server("127.0.0.1")) as server:
        place = f"127.0.0.1:{server.port}"
        entry = {
            "module": "provider-openai",
            "source": str(shipped.beside_its_packages("provider-openai", tmp_path)),
            "config": {"base_url": server.url, "default_model": "small", "max_retry_delay": 0.1},
            "permissions": {
                "net": [place],
                "env": ["OPENAI_API_KEY=${OPENAI_API_KEY}"],
                "secrets": [{"name": "OPENAI_API_KEY", "inject": place}],
            },
        }
        elsewhere = {
            **entry,
            "instance_id": "elsewhere",
            "config": {**entry["config"], "base_url": "https://127.0.0.1:9/v1", "priority": 200, "max_retries": 0},
            "permissions": {},
        }
        async with open_session(
            orchestrator={"module": "loop-streaming", "permissions": {}},
            context={"module": "context-simple", "permissions": {}},
            providers=[entry, elsewhere],
            tools=[{"module": "tool-todo", "permissions": {}}],
            isolation="ns",
        ) as session:
            retries = listen(session, "provider:retry")
            heard: list[Heard] = listen(session, "llm:stream_block_delta", "llm:response", "tool:post")
            await cancel_in_the_midst(session, heard, server)
            answers: list[str] = []
            async with anyio.create_task_group() as group:

                async def turn() -> None:
                    answers.append(await session.execute("look"))

                group.start_soon(turn)
                await until(heard)  # the first piece is here while the server keeps the rest back
                assert [one.data["text"] for one in heard] == ["I look"]
                server.release()
            assert answers == ["done"]
            names = [one.event for one in heard]
            assert names.count("llm:response") == 2 and names.count("tool:post") == 1
            said = [one["role"] for one in await messages(session)]
            assert said == ["user", "assistant", "user", "assistant", "tool", "assistant"]
            assert_tried_again(retries)
            assert [await session.execute("say much"), await session.execute("go on")] == [_MUCH, "still here"]
            other = session.coordinator.get("providers", "elsewhere")
            with pytest.raises(llm_errors.NetworkError, match=r"127\.0\.0\.1:9.*net: "):
                await other.complete(ChatRequest(messages=[Message(role="user", content="hello")]))
        assert not server.refusals
        assert {one.headers["authorization"] for one in server.asked} == {f"Bearer {_KEY}"}
    assert _KEY not in str(heard)
