"""What a network grant gives: every usual client works unchanged, at the granted hosts and nowhere else.

The servers are real, and so are the clients: each is called from inside a module's own process, which knows of no
proxy and no grant.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import OpenSession
from integration.probe import call_once
from paddock.egress import stream_redactor as echo_filter
from paddock.session.tool_call import ToolCallOutcome
from paddock_sandbox.profile import IsolationLevel
from support.examples import IN_FULL
from support.vendored import lay_beside
from vendors.echoing_server import OpenAIServer

_MODULE = Path(__file__).parents[1] / "fixtures" / "modules" / "tool-client"
_CLIENTS = {
    "ns": ("urllib", "requests", "httpx", "aiohttp", "raw", "curl") if IN_FULL else ("urllib", "raw", "curl"),
    "landlock": ("urllib", "requests", "httpx", "curl"),  # those that look for a proxy unasked
}


@pytest.fixture(scope="module")
def client_module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lay out the module with every client it may be asked to use."""
    root = tmp_path_factory.mktemp("modules") / "amplifier-module-tool-client"
    shutil.copytree(_MODULE, root)
    lay_beside(root, "aiohttp", "httpx", "openai", "requests")
    return root


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as listening:
        yield listening


async def reach(
    module: Path, client: str, url: str, level: IsolationLevel = "ns", *, permissions: dict[str, Any], **how: Any
) -> ToolCallOutcome:
    return await call_once(
        str(module), "reach", {"client": client, "url": url, **how}, permissions=permissions, isolation=level
    )


@pytest.mark.exhaustive("landlock")
async def test_every_usual_client_reaches_a_granted_host_and_no_other_port_of_it(
    client_module: Path, server: OpenAIServer, level: IsolationLevel, open_session: OpenSession
) -> None:
    has_curl = shutil.which("curl") is not None
    permissions = {"net": [f"127.0.0.1:{server.port}"], "run": ["curl"] if has_curl else []}
    tool = {"module": "tool-client", "source": str(client_module), "permissions": permissions}
    clients = [one for one in _CLIENTS[level] if one != "curl" or has_curl]
    wrong: dict[str, Any] = {}
    with OpenAIServer() as other:
        async with open_session(tools=[tool], isolation=level) as session:

            async def reached(client: str, url: str, **how: str) -> dict[str, Any]:
                order = {"tool": "reach", "input": {"client": client, "url": url, **how}}
                return dict(json.loads(await session.execute(json.dumps(order))))

            for client in clients:
                granted = await reached(client, f"{server.url}/models")
                refused = await reached(client, f"{other.url}/models")
                if not granted["success"] or "local-model" not in str(granted["output"]) or refused["success"]:
                    wrong[client] = granted, refused
            vendors = await reached("openai", server.url, api_key="key")
        assert not wrong and not other.asked
    assert (vendors["success"], vendors["output"]) == (True, "you said: hello"), vendors


@pytest.mark.exhaustive  # the gate's own test has a vendor's client
@pytest.mark.parametrize(
    "level", ["ns", pytest.param("landlock", marks=pytest.mark.exhaustive)], indirect=True
)  # the gate is the same
async def test_a_vendors_library_reads_each_event_before_the_next_is_sent(
    client_module: Path, level: IsolationLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(echo_filter, "HOLD_SECONDS", 3600.0)  # nothing arrives because time has passed
    monkeypatch.setenv("KEY", "sk-live-0123456789abcdef")
    with OpenAIServer(patient=True) as server:
        where = f"127.0.0.1:{server.port}"
        permissions = {"net": [where], "secrets": [{"name": "KEY", "inject": where}], "env": ["API_KEY=${KEY}"]}
        outcome = await reach(client_module, "openai streamed", server.url, level, permissions=permissions)
        assert outcome.result.success, outcome.result.error
        assert outcome.result.output == "you said: hello|"
        assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer sk-live-0123456789abcdef"}


async def test_a_refused_connection_is_told_with_the_line_that_allows_it(
    client_module: Path, server: OpenAIServer, a_level: IsolationLevel
) -> None:
    outcome = await reach(
        client_module, "urllib", f"{server.url}/models", a_level, permissions={"net": ["127.0.0.1:9"]}
    )
    assert not outcome.result.success
    denials = (outcome.result.error or {})["denials"]
    assert f'permissions: {{net: ["127.0.0.1:9", "127.0.0.1:{server.port}"]}}' in [
        denial["grant"] for denial in denials
    ]


@pytest.mark.exhaustive("landlock")
async def test_a_module_without_a_net_grant_has_no_socket_and_a_denial(
    client_module: Path, server: OpenAIServer, level: IsolationLevel
) -> None:
    outcome = await reach(client_module, "raw", f"{server.url}/models", level, permissions={})
    assert not outcome.result.success
    assert not server.asked
    denials = (outcome.result.error or {})["denials"]
    assert f'permissions: {{net: ["127.0.0.1:{server.port}"]}}' in [denial["grant"] for denial in denials]
