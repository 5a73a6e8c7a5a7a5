"""Attacks on a key that the host puts into requests, and that the module itself is never told.

The key is given with each letter as the one after it, here as where memory is looked through: it is found only where
somebody else has left it.
"""

from __future__ import annotations

import base64
import gzip
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import unquote_to_bytes

from .memory import SHIFT, found, guessed, mapped
from .talk import ask_proxy, asked, connect, must_reach, proxy_credentials, connect_to_proxy, tunnel
from .way import RefusedError, Way

__all__ = ["find_a_key", "have_a_key_shown", "take_a_key_elsewhere"]

_Place = Sequence[object]  # a host and a port

_MAX_FILE = 4 << 20  # bytes
_MAX_FILES = 4000


def find_a_key(shifted: str, folders: Sequence[str], vault: _Place | None, variable: str) -> Iterator[Way]:
    """Look for a key wherever a process can look, after it was used if it may be."""
    wanted = shifted.encode()
    if vault is not None:
        with _line_to(*_of(vault)) as line:
            asked(line, _asking(vault, "/told/nothing", os.environ[variable]).replace(b"/told/nothing", b"/"))
    yield "in its environment", lambda: found(_environment(), wanted)
    yield "in its memory, as it is mapped", lambda: found(mapped(), wanted)
    yield "in its memory, around what it knows", lambda: found(guessed(), wanted)
    yield "in files", lambda: found(_files([*folders, *_own_folders()]), wanted)


def have_a_key_shown(shifted: str, vault: _Place, variable: str, ways: Sequence[str]) -> Iterator[Way]:
    """Have the service that is told the key say it again, in one way after another."""
    must_reach(*_of(vault))
    for way in ways:
        yield f"in the {way}", partial(_shown, vault, variable, way, shifted.encode())
        yield f"in the {way}, by a page", partial(_shown, vault, variable, way, shifted.encode(), as_page=True)


def take_a_key_elsewhere(vault: _Place, granted: _Place, variable: str) -> Iterator[Way]:
    """Have the key put in where it is not for, or where it is kept for others to read."""
    must_reach(*_of(granted))
    host, port = _of(granted)
    key = os.environ[variable]
    yield "another service", lambda: _said(granted, _asking(granted, "/", key))
    yield "another service, by a tunnel", lambda: _said(granted, _asking(granted, "/", key), by_tunnel=True)
    yield "another service, as a page", lambda: _paged(_as_page(granted, "/", key))
    yield "another service's name", lambda: _said(vault, _asking(granted, "/", key))
    yield "another service's page", lambda: _said(vault, _as_page(granted, "/", key))
    yield "after a request of its own", lambda: _paged(_as_page(vault, "/", key), _as_page(granted, "/", key))
    yield "in its path", lambda: _said(vault, _asking(vault, f"/{key}", ""))
    body = f"key={key}".encode()
    head = f"POST / HTTP/1.1\r\nHost: {{}}:{{}}\r\nContent-Length: {len(body)}\r\n\r\n".format(*vault).encode()
    yield "in its body", lambda: _said(vault, head + body)
    yield "in a host", lambda: ask_proxy(f"{key}@{host}:{port}", by_tunnel=False)


def _of(place: _Place) -> tuple[str, int]:
    host, port = place
    return str(host), int(str(port))


def _asking(place: _Place, path: str, key: str) -> bytes:
    host, port = _of(place)
    return f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {key}\r\n\r\n".encode()


def _as_page(place: _Place, path: str, key: str) -> bytes:
    host, port = _of(place)
    asking = _asking(place, f"http://{host}:{port}{path}", key)
    return asking.removesuffix(b"\r\n") + proxy_credentials() + b"\r\n"


def _line_to(host: str, port: int) -> object: ...


def _shown(vault: _Place, variable: str, way: str, wanted: bytes, *, as_page: bool = False) -> str:
    key = os.environ[variable]
    path = f"/told/{way}"
    if as_page:
        with connect_to_proxy() as line:
            answer = asked(line, _as_page(vault, path, key))
    else:
        answer = _ask(vault, _asking(vault, path, key))
    read = _READERS.get(way, bytes)(answer)
    if wanted in read.translate(SHIFT):
        return "the key"
    if key.encode() in read:
        raise RuntimeError("the key was not put in")
    raise RefusedError("ENOENT", f"it is not in {read[-60:]!r}")
