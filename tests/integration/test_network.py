"""What a network grant gives: every usual client works unchanged, at the granted hosts and nowhere else.

The servers are real, and so are the clients: each is called from inside a module's own process, which knows of no
proxy and no grant.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from paddock.egress import stream_redactor as echo_filter
from paddock.session.tool_call import ToolCallOutcome, ToolCallSession
from paddock_sandbox.profile import IsolationLevel
from support.vendored import lay_beside
from vendors.echoing_server import OpenAIServer

_SECONDS = 200  # for one call; hit only by a hang
_MODULE = Path(__file__).parents[1] / "fixtures" / "modules" / "tool-client"
_NO_CURL = pytest.mark.skipif(shutil.which("curl") is None, reason=f"there is no curl in {os.get_exec_path()}")
_CURL = pytest.param("curl", marks=_NO_CURL)
_CLIENTS = ("urllib", "requests", "httpx", "aiohttp", "raw", _CURL)
_GO_BY_THE_PROXY = ("urllib", "requests", "httpx", _CURL)  # those that look for one unasked


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
    call = ToolCallSession(
        str(module), "reach", {"client": client, "url": url, **how}, permissions=permissions, isolation=level
    )
    with anyio.fail_after(_SECONDS):
        return await call.run()


@pytest.mark.parametrize("client", _CLIENTS)
async def test_every_usual_client_reaches_a_granted_host_and_no_other_port_of_it(
    client_module: Path, server: OpenAIServer, client: str
) -> None:
    permissions: dict[str, Any] = {"net": [f"127.0.0.1:{server.port}"], "run": ["curl"] if client == "curl" else []}
    reached = await reach(client_module, client, f"{server.url}/models", permissions=permissions)
    assert reached.result.success, reached.result.error
    assert "local-model" in str(reached.result.output)

    with OpenAIServer() as other:
        refused = await reach(client_module, client, f"{other.url}/models", permissions=permissions)
        assert not refused.result.success
        assert not other.asked


@pytest.mark.parametrize("client", _GO_BY_THE_PROXY)
async def test_without_namespaces_clients_reach_granted_hosts_by_the_proxy(
    client_module: Path, server: OpenAIServer, client: str
) -> None:
    permissions: dict[str, Any] = {"net": [f"127.0.0.1:{server.port}"], "run": ["curl"] if client == "curl" else []}
    reached = await reach(client_module, client, f"{server.url}/models", "landlock", permissions=permissions)
    assert reached.result.success, reached.result.error

    with OpenAIServer() as other:
        refused = await reach(client_module, client, f"{other.url}/models", "landlock", permissions=permissions)
        assert not refused.result.success
        assert not other.asked


async def test_a_vendors_own_library_works_unchanged(
    client_module: Path, server: OpenAIServer, level: IsolationLevel
) -> None:
    permissions = {"net": [f"127.0.0.1:{server.port}"]}
    outcome = await reach(client_module, "openai", server.url, level, permissions=permissions, api_key="key")
    assert outcome.result.success, outcome.result.error
    assert outcome.result.output == "you said: hello"


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
    client_module: Path, server: OpenAIServer, level: IsolationLevel
) -> None:
    outcome = await reach(client_module, "urllib", f"{server.url}/models", level, permissions={"net": ["127.0.0.1:9"]})
    assert not outcome.result.success
    denials = (outcome.result.error or {})["denials"]
    assert f'permissions: {{net: ["127.0.0.1:9", "127.0.0.1:{server.port}"]}}' in [
        denial["grant"] for denial in denials
    ]


async def test_a_module_without_a_net_grant_has_no_socket_and_a_denial(
    client_module: Path, server: OpenAIServer, level: IsolationLevel
) -> None:
    outcome = await reach(client_module, "raw", f"{server.url}/models", level, permissions={})
    assert not outcome.result.success
    assert not server.asked
    denials = (outcome.result.error or {})["denials"]
    assert f'permissions: {{net: ["127.0.0.1:{server.port}"]}}' in [denial["grant"] for denial in denials]
