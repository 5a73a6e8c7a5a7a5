"""Usual clients, unchanged, reach what was granted: in a network of their own, by its proxy, and by a proxy alone."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from aiohttp import web

from host.egress.certificates import TestAuthority
from host.egress.ground import LOOPBACK, Ledger, Names, redirect_ports
from host.egress.inside import CLIENTS
from paddock.egress.gate import EgressGate
from paddock.egress.injection import KeyInjection
from paddock.egress.rules import NetRules
from paddock.plan.net_rule import NetRule

PATIENCE = 60.0
INSIDE = Path(__file__).with_name("inside.py")
KEY = "sk-of-the-operator"
PLACEHOLDER = "paddock-secret-KEY-00112233"

Way = Literal["direct", "proxy", "token"]


@cache
def why_no_network_of_its_own() -> str:
    unshare = shutil.which("unshare")
    if unshare is None:
        return "there is no `unshare`"
    tried = subprocess.run([unshare, "-Urnm", "true"], capture_output=True, text=True)
    return tried.stderr.strip()


@asynccontextmanager
async def site(context: Any) -> AsyncIterator[tuple[int, list[str]]]:
    """Have a server of an application; it keeps the keys that it was sent."""
    keys: list[str] = []

    def keep(request: web.Request) -> str:
        keys.append(request.headers.get("Authorization", "").removeprefix("Bearer "))
        return keys[-1]

    async def hello(request: web.Request) -> web.Response:
        keep(request)
        return web.Response(text="hello")

    async def length(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    async def chat(request: web.Request) -> web.StreamResponse:
        keep(request)
        if not (await request.json()).get("stream"):
            message = {"role": "assistant", "content": "hello"}
            return web.json_response(
                {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 1,
                    "model": "m",
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                }
            )
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for piece in ("hel", "lo"):
            event = {
                "id": "1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "m",
                "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}],
            }
            await answer.write(f"data: {json.dumps(event)}\n\n".encode())
        await answer.write(b"data: [DONE]\n\n")
        return answer

    async def ws(request: web.Request) -> web.WebSocketResponse:
        keep(request)
        answer = web.WebSocketResponse()
        await answer.prepare(request)
        async for message in answer:
            assert message.data == "key?"
            await answer.send_str("hello")
        return answer

    app = web.Application()
    app.add_routes([web.get("/", hello), web.post("/length", length), web.post("/v1/chat/completions", chat)])
    app.add_routes([web.get("/ws", ws)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        listener = socket.create_server((LOOPBACK, 0))
        await web.SockSite(runner, listener, ssl_context=context).start()
        yield listener.getsockname()[1], keys
    finally:
        await runner.cleanup()


async def told_inside(gate: EgressGate, way: Way, certificates: Path, url: str, clients: list[str]) -> dict[str, str]:
    """Return what each client got that ran in the place of a worker."""
    environ = dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"), str(certificates))
    if way == "token":
        gate.listen()
    if way != "direct":
        environ |= dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"), gate.proxy_url)
    given = {
        "ports": [] if way == "token" else gate.ports,
        "environ": environ,
        "clients": clients,
        "url": url,
        "key": PLACEHOLDER,
    }
    ours, theirs = socket.socketpair()
    with ours, theirs:
        program = [sys.executable, str(INSIDE), str(theirs.fileno()), json.dumps(given)]
        process = await asyncio.create_subprocess_exec(
            *([] if way == "token" else ["unshare", "-Urnm"]),
            *program,
            pass_fds=[theirs.fileno()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "HOME": "/nowhere"},
        )
        theirs.close()
        try:
            with anyio.fail_after(PATIENCE):
                said, fds, _, _ = await asyncio.to_thread(socket.recv_fds, ours, 5, 64)
                if fds:
                    dns, *listeners = (socket.socket(fileno=fd) for fd in fds)
                    gate.attach(listeners, dns)
                if said:
                    ours.send(b"go")
                out, problems = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert said == b"ready", problems.decode()
    assert process.returncode == 0, problems.decode()
    told: dict[str, str] = json.loads(out)
    return told


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path)


@pytest.fixture(params=["direct", "proxy", "token"])
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    if found != "token" and (problem := why_no_network_of_its_own()):
        pytest.skip(f"no network of its own: {problem}")
    return found


@asynccontextmanager
async def gate_to(
    port: int, authority: TestAuthority, *injections: KeyInjection
) -> AsyncIterator[tuple[EgressGate, Ledger]]:
    """Have a gate to the names `api.test` at the ports of the web, which are the server's port here."""
    ledger = Ledger()
    rules = ("api.test", "api.test:80", f"{LOOPBACK}:443", f"{LOOPBACK}:80")
    gate = EgressGate(
        "tool-x",
        NetRules([NetRule.parse(rule) for rule in rules]),
        audit=ledger,
        on_denial=ledger.deny,
        injections=injections,
        resolve=Names.all_here("api.test"),
        upstream_tls=authority.client(),
    )
    with pytest.MonkeyPatch.context() as patch:
        redirect_ports(patch, p443=port, p80=port)
        try:
            yield gate, ledger
        finally:
            await gate.aclose()


EVERY = [name for name in CLIENTS if name != "curl" or shutil.which("curl")]


@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_what_was_granted_is_reached_by_every_client(way: Way, scheme: str, authority: TestAuthority) -> None:
    async with site(authority.server("api.test") if scheme == "https" else None) as (port, keys):
        async with gate_to(port, authority) as (gate, ledger):
            told = await told_inside(gate, way, authority.file, f"{scheme}://api.test", EVERY)
    assert told == dict.fromkeys(EVERY, "hello")
    assert {*keys} == {PLACEHOLDER}
    assert not ledger.denials
    protocols = {record["protocol"] for record in ledger.records}
    # Some ask a proxy for a tunnel whatever they speak in it.
    assert protocols == ({"tls"} if scheme == "https" else {"http"})
    assert {record["way"] for record in ledger.records} == {"direct" if way == "direct" else "proxy"}


async def test_the_key_is_put_in_for_every_client(way: Way, authority: TestAuthority, tmp_path: Path) -> None:
    injection = KeyInjection("KEY", PLACEHOLDER, KEY, NetRule.parse("api.test"))
    async with (
        site(authority.server("api.test")) as (port, keys),
        gate_to(port, authority, injection) as (gate, ledger),
    ):
        certificates = tmp_path / "certificates.pem"
        certificates.write_text(gate.ca_pem)
        told = await told_inside(gate, way, certificates, "https://api.test", EVERY)
    assert told == dict.fromkeys(EVERY, "hello")
    assert {*keys} == {KEY}
    assert {record["protocol"] for record in ledger.records} == {"inject"}


async def test_what_was_not_granted_is_reached_by_none_and_each_says_something(
    way: Way, authority: TestAuthority
) -> None:
    async with site(None) as (port, keys), gate_to(port, authority) as (gate, ledger):
        told = await told_inside(gate, way, authority.file, "https://evil.test", EVERY)
    assert not keys
    assert all(text and text != "hello" for text in told.values()), told
    targets = {denial.target for denial in ledger.denials}
    assert targets == ({"evil.test"} if way == "direct" else {"evil.test:443"})
