"""Usual clients, unchanged, reach what was granted: in a network of their own, by its proxy, and by a proxy alone."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal

import anyio
import pytest
from aiohttp import web

from host.egress.certificates import TestAuthority
from host.egress.ground import LOOPBACK, SITE, Ledger, Names, redirect
from host.egress.inside import CLIENTS
from paddock.egress.gate import EgressGate
from paddock.egress.injection import KeyInjection
from paddock.egress.rules import NetRules
from paddock.plan.net_rule import NetRule
from support.warm_process import WarmProcess

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
async def site(context: Any) -> AsyncIterator[tuple[int, set[tuple[str, str]]]]:
    """Have a server of an application; it keeps by which names it was called, and the keys that it was sent."""
    keys: set[tuple[str, str]] = set()

    def keep(request: web.Request) -> None:
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        keys.add((request.host.partition(":")[0], key))

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


async def told_inside(
    places: WarmProcess, gate: EgressGate, way: Way, certificates: Path, urls: list[str], clients: list[str]
) -> dict[str, dict[str, str]]:
    """Return what each client got of each URL that ran in the place of a worker."""
    environ = dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"), str(certificates))
    if way == "token":
        gate.listen()
    if way != "direct":
        environ |= dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"), gate.proxy_url)
    given = {
        "ports": [] if way == "token" else gate.ports,
        "environ": environ,
        "clients": clients,
        "urls": urls,
        "key": PLACEHOLDER,
    }
    ours, theirs = socket.socketpair()
    with ours, theirs, TemporaryFile() as out, TemporaryFile() as problems:
        streams = [each.fileno() for each in (theirs, out, problems)]
        inside = places.begin([json.dumps(given)], streams, Path("/"), {"PATH": os.environ["PATH"], "HOME": "/nowhere"})
        theirs.close()
        try:
            with anyio.fail_after(PATIENCE):
                said, fds, _, _ = await asyncio.to_thread(socket.recv_fds, ours, 5, 64)
                if fds:
                    dns, *listeners = (socket.socket(fileno=fd) for fd in fds)
                    gate.attach(listeners, dns)
                if said:
                    ours.send(b"go")
                code = await asyncio.to_thread(inside.wait, PATIENCE)
        finally:
            if inside.poll() is None:
                os.kill(inside.pid, signal.SIGKILL)
                inside.wait(PATIENCE)
        out.seek(0)
        problems.seek(0)
        assert (said, code) == (b"ready", 0), problems.read().decode()
        told: dict[str, dict[str, str]] = json.load(out)
    return told


@pytest.fixture(scope="module")
def places() -> Iterator[WarmProcess]:
    """The process that becomes each place of a worker."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HOME": "/nowhere"}
    alone = ["env", "-i", *(f"{name}={value}" for name, value in environ.items())]
    with WarmProcess([*alone, sys.executable, str(INSIDE)]) as process:
        yield process


@pytest.fixture(params=["direct", "proxy", "token"])
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    if found != "token" and (problem := why_no_network_of_its_own()):
        pytest.skip(f"no network of its own: {problem}")
    return found


@asynccontextmanager
async def gate_to(
    tls_port: int, port: int, authority: TestAuthority, *injections: KeyInjection
) -> AsyncIterator[tuple[EgressGate, Ledger]]:
    """Have a gate to two names at one public address, at the ports of the web, where two servers here are."""
    ledger = Ledger()
    rules = ("api.test", "api.test:80", "keyed.test")
    gate = EgressGate(
        "tool-x",
        NetRules([NetRule.parse(rule) for rule in rules]),
        audit=ledger,
        on_denial=ledger.deny,
        injections=injections,
        resolve=Names({"api.test": [[SITE]], "keyed.test": [[SITE]]}),
        upstream_tls=authority.client(),
    )
    with pytest.MonkeyPatch.context() as patch:
        servers = {(SITE, 443): (LOOPBACK, tls_port), (SITE, 80): (LOOPBACK, port)}
        redirect(patch, lambda host, asked: servers.get((host, asked), (host, asked)))
        try:
            yield gate, ledger
        finally:
            await gate.aclose()


EVERY = [name for name in CLIENTS if name != "curl" or shutil.which("curl")]


# What is granted, and what the gate speaks of it; some ask a proxy for a tunnel for any protocol.
GRANTED = {"https://api.test": "tls", "http://api.test": "http", "https://keyed.test": "inject"}
DENIED = "https://evil.test"


async def test_each_client_reaches_what_was_granted_and_no_more(
    way: Way, authority: TestAuthority, places: WarmProcess, tmp_path: Path
) -> None:
    injection = KeyInjection("KEY", PLACEHOLDER, KEY, NetRule.parse("keyed.test"))
    async with (
        site(authority.server("api.test", "keyed.test")) as (tls_port, tls_keys),
        site(None) as (port, keys),
        gate_to(tls_port, port, authority, injection) as (gate, ledger),
    ):
        certificates = tmp_path / "certificates.pem"
        certificates.write_text(authority.file.read_text() + gate.ca_pem)
        told = await told_inside(places, gate, way, certificates, [*GRANTED, DENIED], EVERY)
    assert {url: told[url] for url in GRANTED} == {url: dict.fromkeys(EVERY, "hello") for url in GRANTED}
    assert keys == {("api.test", PLACEHOLDER)}
    assert tls_keys == {("api.test", PLACEHOLDER), ("keyed.test", KEY)}
    assert {record["way"] for record in ledger.records} == {"direct" if way == "direct" else "proxy"}
    spoken = {
        (record["destination"], record["protocol"]) for record in ledger.records if record["outcome"] != "refused"
    }
    assert gate.used == {"net": {"api.test", "api.test:80", "keyed.test"}, "secrets": {"KEY"}}
    ports = {"https": 443, "http": 80}
    assert spoken == {
        (f"{host}:{ports[scheme]}", protocol)
        for url, protocol in GRANTED.items()
        for scheme, _, host in [url.partition("://")]
    }
    assert all(text and text != "hello" for text in told[DENIED].values()), told
    assert {denial.target for denial in ledger.denials} == ({"evil.test"} if way == "direct" else {"evil.test:443"})
