"""What runs in the place of a worker: usual clients, in a network of their own or with nothing but a proxy.

    python inside.py CONNECTION

is a process that loads the clients, which is most of what they take, and becomes each place in a child. Its one
argument is JSON: `ports` to listen at, none for no network of its own; `environ`; `clients`; `urls`, what is asked for;
`key`, sent as a bearer's. The sockets of the network go through its stdin. It prints what each client got of each URL,
as JSON.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from paddock_sandbox.namespaces import leave_for_new_ipc
from paddock_sandbox.network import open_network
from paddock_sandbox.profile import NetworkAccess
from paddock_sandbox.syscalls import call
from support.warm_process import become_each, run_and_end

GATEWAY = "198.18.0.1"
SECONDS = 60
_CLONE_NEWNS, _CLONE_NEWNET = 0x2_0000, 0x4000_0000
_LOADED = ("urllib.request", "requests", "httpx", "aiohttp", "openai", "openai.resources.chat")


def serve() -> None:
    """Load the clients, then become each place that is asked for, until the connection is closed."""
    connection = socket.socket(fileno=int(sys.argv.pop()))
    for name in _LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is collected there is copied in each child
    if become_each(connection):
        run_and_end(main)


def main() -> None:
    """Be ready, wait for the host, and ask by every client."""
    line = socket.socket(fileno=0)
    given = json.loads(sys.argv[1])
    if given["ports"]:
        leave_for_new_ipc(os.geteuid(), os.getegid())
        call("unshare", _CLONE_NEWNET | _CLONE_NEWNS)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        sockets = open_network(NetworkAccess(tuple(given["ports"])))
        _see_only(f"nameserver {GATEWAY}\n", "/etc/resolv.conf")
        _see_only("127.0.0.1 localhost\n", "/etc/hosts")
        socket.send_fds(line, [b"ready"], [each.fileno() for each in sockets])
        for each in sockets:
            each.close()
    else:
        line.send(b"ready")
    assert line.recv(2) == b"go"
    os.environ.update(given["environ"])
    importlib.reload(sys.modules["aiohttp.connector"])  # reads whom to trust when it is loaded
    told = {url: {name: _answer(name, url, given["key"]) for name in given["clients"]} for url in given["urls"]}
    sys.stdout.write(json.dumps(told))


def _answer(client: str, url: str, key: str) -> str:
    try:
        return CLIENTS[client](url, key)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _see_only(text: str, path: str) -> None:
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    subprocess.run(["mount", "--bind", file.name, os.path.realpath(path)], check=True)
    os.unlink(file.name)


def by_urllib(url: str, key: str) -> str:
    import urllib.request

    request = urllib.request.Request(f"{url}/", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return str(answer.read().decode())


def by_requests(url: str, key: str) -> str:
    import requests

    with requests.Session() as session:
        headers = {"Authorization": f"Bearer {key}"}
        first = session.get(f"{url}/", headers=headers, timeout=SECONDS)
        second = session.post(f"{url}/length", data=b"x" * 300_000, headers=headers, timeout=SECONDS)
        assert second.text == "300000", second.text
        return first.text


def by_httpx(url: str, key: str) -> str:
    import httpx

    with httpx.Client(timeout=SECONDS) as client:
        return client.get(f"{url}/", headers={"Authorization": f"Bearer {key}"}).text


def by_httpx_async(url: str, key: str) -> str:
    import httpx

    async def ask() -> str:
        async with httpx.AsyncClient(timeout=SECONDS) as client:
            asked = [client.get(f"{url}/", headers={"Authorization": f"Bearer {key}"}) for _ in range(5)]
            (only,) = {answer.text for answer in await asyncio.gather(*asked)}
            return only

    return asyncio.run(ask())


def by_aiohttp(url: str, key: str) -> str:
    import aiohttp

    async def ask() -> str:
        headers = {"Authorization": f"Bearer {key}"}
        async with aiohttp.ClientSession(trust_env="HTTP_PROXY" in os.environ, headers=headers) as session:
            async with session.get(f"{url}/") as answer:
                return await answer.text()

    return asyncio.run(ask())


def by_websocket(url: str, key: str) -> str:
    import aiohttp

    async def ask() -> str:
        headers = {"Authorization": f"Bearer {key}"}
        async with aiohttp.ClientSession(trust_env="HTTP_PROXY" in os.environ, headers=headers) as session:
            async with session.ws_connect(f"{url}/ws") as ws:
                await ws.send_str("key?")
                return str(await ws.receive_str(timeout=SECONDS))

    return asyncio.run(ask())


def by_openai(url: str, key: str) -> str:
    import openai

    with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=SECONDS) as client:
        asked: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        whole = client.chat.completions.create(**asked).choices[0].message.content
        pieces = client.chat.completions.create(**asked, stream=True)
        streamed = "".join(piece.choices[0].delta.content or "" for piece in pieces)
        assert streamed == whole, (streamed, whole)
        return str(whole)


def by_curl(url: str, key: str) -> str:
    command = ["curl", "-sS", "--max-time", str(SECONDS), "-H", f"Authorization: Bearer {key}", f"{url}/"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout or done.stderr


CLIENTS: dict[str, Callable[[str, str], str]] = {
    "urllib": by_urllib,
    "requests": by_requests,
    "httpx": by_httpx,
    "httpx, async": by_httpx_async,
    "aiohttp": by_aiohttp,
    "websocket": by_websocket,
    "openai": by_openai,
    "curl": by_curl,
}


if __name__ == "__main__":
    serve()
