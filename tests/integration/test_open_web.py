"""What grants of public hosts give a module in its own process, above all `public`, and what they do not.

The servers are real and on this machine; names lead to public addresses, and a connection to one of those is led here,
at the two places where the host asks the system. All between the module and these is as it is in use.
"""

from __future__ import annotations

import errno
import shutil
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from integration.probe import call_once
from paddock.egress import dialer
from paddock.session.tool_call import ToolCallOutcome
from paddock_sandbox.profile import IsolationLevel
from support.examples import repeating
from support.vendored import lay_beside

_MODULE = Path(__file__).parents[1] / "fixtures" / "modules" / "tool-client"
_SITE = "93.184.216.34"
_ADDRESSES = {
    "pages.example.org": [[_SITE]],
    "inside.example.org": [["127.0.0.1"]],
    "metadata.example.org": [["169.254.169.254", "::ffff:169.254.169.254"]],
    "rebound.example.org": [[_SITE], ["127.0.0.1"]],
}


class _Site(BaseHTTPRequestHandler):
    """A page, and a way to send its readers elsewhere: `/to/HOST:PORT/PATH`."""

    def do_GET(self) -> None:
        self.server.asked.append((self.headers["host"], self.path))  # type: ignore[attr-defined]
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", f"http://{self.path.removeprefix('/to/')}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = b"a page"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


class World:
    """The site, what it was asked for, and every address that the host connected to."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.port = server.server_address[1]
        self.asked: list[tuple[str, str]] = server.asked  # type: ignore[attr-defined]
        self.connected: list[str] = []
        self._answers = {name: list(answers) for name, answers in _ADDRESSES.items()}
        self._connect = dialer._connect

    def look_up(self, name: str, *args: Any, **how: Any) -> list[Any]:
        answers = self._answers.get(name.removesuffix("."))
        if answers is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            (socket.AF_INET6 if ":" in one else socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in found
        ]

    async def connect(self, address: Any, port: int) -> socket.socket:
        self.connected.append(f"{address}:{port}")
        if str(address) != _SITE:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        return await self._connect(dialer.ip_address("127.0.0.1"), self.port)


@pytest.fixture(scope="module")
def client_module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("modules") / "amplifier-module-tool-client"
    shutil.copytree(_MODULE, root)
    lay_beside(root, "httpx", "requests")
    return root


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    server.asked = []  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    made = World(server)
    monkeypatch.setattr(dialer.socket, "getaddrinfo", made.look_up)
    monkeypatch.setattr(dialer, "_connect", made.connect)
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


async def reach(module: Path, client: str, url: str, level: IsolationLevel, net: str = "public") -> ToolCallOutcome:
    return await call_once(
        str(module), "reach", {"client": client, "url": url}, permissions={"net": [net]}, isolation=level
    )


@pytest.mark.exhaustive("raw")
@pytest.mark.parametrize("client", ["raw", "requests"])
async def test_usual_clients_reach_a_public_host_by_its_name(client_module: Path, world: World, client: str) -> None:
    reached = await reach(client_module, client, "http://pages.example.org/news", "ns")
    assert reached.result.success, reached.result.error
    assert "a page" in str(reached.result.output)
    assert world.asked == [("pages.example.org", "/news")]
    assert world.connected == [f"{_SITE}:80"]


async def test_without_namespaces_a_public_host_is_reached_by_the_proxy(client_module: Path, world: World) -> None:
    reached = await reach(client_module, "httpx", "http://pages.example.org/news", "landlock")
    assert reached.result.success, reached.result.error
    assert world.connected == [f"{_SITE}:80"]


_REFUSED = [
    ("requests", "http://pages.example.org/to/127.0.0.1:{port}/secret"),
    ("raw", "http://inside.example.org/secret"),
    ("raw", "http://169.254.169.254/latest/meta-data/"),
    ("requests", "http://pages.example.org/to/inside.example.org/secret"),
    ("requests", "http://rebound.example.org/to/rebound.example.org/secret"),
    ("requests", "http://metadata.example.org/latest/meta-data/"),
    ("raw", "http://127.0.0.1:{port}/secret"),
    ("raw", f"http://{_SITE}/secret"),
]


@pytest.mark.exhaustive("landlock")
@pytest.mark.parametrize(
    ("level", "client", "url"),
    [
        *(("ns", *one) for one in _REFUSED),
        *(("landlock", *one) for one in _REFUSED[:3]),
        *repeating(*(("landlock", *one) for one in _REFUSED[3:])),  # the gate is the same
    ],
    indirect=["level"],
)
async def test_nothing_but_public_hosts_is_reached_however_it_is_asked_for(
    client_module: Path, world: World, level: IsolationLevel, client: str, url: str
) -> None:
    url = url.format(port=world.port)
    asked_before = "rebound" in url or "/to/" in url
    outcome = await reach(client_module, client, url, level)
    assert not outcome.result.success
    assert "a page" not in str(outcome.result)
    assert [path for _, path in world.asked if not path.startswith("/to/")] == []
    if client == "requests":
        assert world.connected == [f"{_SITE}:80"] * asked_before
    else:
        assert world.connected == []
    names_resolve = level != "landlock"  # elsewhere a client without a proxy comes no further than the lookup
    if names_resolve or client == "requests" or "example.org" not in url:
        assert (outcome.result.error or {}).get("denials"), "the refusal is told"


async def test_a_program_that_shuns_internal_addresses_reaches_a_spelled_host(
    client_module: Path, world: World
) -> None:
    url = "http://pages.example.org/news"
    reached = await reach(client_module, "guarded", url, "ns", "pages.example.org:80")
    assert reached.result.success, reached.result.error
    assert "a page" in str(reached.result.output)
    assert world.connected == [f"{_SITE}:80"]
    assert not reached.denials
    for net in ("*.example.org:80", "public"):
        shunned = await reach(client_module, "guarded", url, "ns", net)
        assert "pages.example.org resolves to 198.18." in str(shunned.result.error)
    inside = await reach(client_module, "guarded", "http://inside.example.org/", "ns", "inside.example.org:80")
    assert "inside.example.org resolves to 198.18." in str(inside.result.error)
    assert world.connected == [f"{_SITE}:80"]


async def test_a_refused_port_of_a_host_is_told_by_its_name_alone(client_module: Path, world: World) -> None:
    refused = await reach(client_module, "raw", "http://pages.example.org:8080/", "ns", "pages.example.org:80")
    assert not refused.result.success
    assert [denial.target for denial in refused.denials] == ["pages.example.org:8080"]
    assert world.connected == []


async def test_a_real_address_leads_nowhere_until_its_name_was_looked_up(client_module: Path, world: World) -> None:
    refused = await reach(client_module, "raw", f"http://{_SITE}/news", "ns", "pages.example.org:80")
    assert not refused.result.success
    assert {denial.target for denial in refused.denials} == {f"{_SITE}:80"}
    assert (world.connected, world.asked) == ([], [])
