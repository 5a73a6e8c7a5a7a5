"""A git server on loopback that speaks HTTPS, with git's own `http-backend` behind it.

It serves every repository below a folder, in protocol version 2 where a client asks for that. Some may want a user and
a password. What can go wrong with a server is a `fault`, which counts from the next request on; how a request is called
there (`refs`, `list`, `fetch`) is what it asks for. Each wait has an end, and nothing is left open at the end.
"""

from __future__ import annotations

import base64
import os
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from host.egress.certificates import TestAuthority

SECONDS = 20.0  # for whatever this server waits for

_PIECE = 64 << 10
_MAX_REQUEST = 16 << 20

Asked = Literal["refs", "list", "fetch", "other"]
"""What a request asks for: what the server can do, a list of refs, objects, or anything else."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers with a status, headers and a body of its own, and never comes to git."""

    status: int
    at: tuple[Asked, ...] = ("refs", "list", "fetch", "other")
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class BreaksOff:
    """Is gone, without a word, after so many bytes of an answer."""

    after: int
    at: tuple[Asked, ...] = ("fetch",)


@dataclass(frozen=True, slots=True)
class Stalls:
    """Says nothing more after so many bytes of an answer, until `go_on` is set or the client is gone."""

    after: int = 0
    at: tuple[Asked, ...] = ("fetch",)
    go_on: threading.Event = field(default_factory=threading.Event)
    has_stalled: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Corrupts:
    """Turns round a byte of the pack, or of its end if it is not as long; without an `offset`, one of the protocol."""

    offset: int | None
    at: tuple[Asked, ...] = ("fetch",)


@dataclass(frozen=True, slots=True)
class Floods:
    """Answers `opening`, and then `piece` over and over, until the client has had enough."""

    piece: bytes
    opening: bytes = b""
    at: tuple[Asked, ...] = ("fetch",)


Fault = Answers | BreaksOff | Stalls | Corrupts | Floods


class GitServer:
    """Serves the repositories below `folder` until its block is left, with certificates of `authority`.

    `requests` says what was asked for, in turn, `authorizations` what was sent to be let in. `context` is what it
    proves who it is with.
    """

    def __init__(self, folder: Path, authority: TestAuthority) -> None:
        self.folder = folder
        self.authority = authority
        self.context = authority.server("127.0.0.1", "localhost")
        # To load those of the machine is a third of what a request takes git.
        self._no_authorities = authority.file.with_name("no_authorities")
        self._no_authorities.mkdir(exist_ok=True)
        self.fault: Fault | None = None
        self.requests: list[tuple[str, Asked]] = []
        self.authorizations: list[str] = []
        self.private: dict[str, str] = {}
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def host(self) -> str:
        """Where it listens, as `host:port`."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def environ(self) -> dict[str, str]:
        """What a client has to have in its environment to trust it."""
        return {"GIT_SSL_CAINFO": str(self.authority.file), "GIT_SSL_CAPATH": str(self._no_authorities)}

    def address(self, name: str, ref: str = "", *, subdirectory: str = "") -> str:
        """Return the source that a repository of it is."""
        inside = f"#subdirectory={subdirectory}" if subdirectory else ""
        return f"git+https://{self.host}/{name}" + (f"@{ref}" if ref else "") + inside

    def asked(self, *kinds: Asked) -> list[str]:
        """Return the repositories that were asked for these things, or for anything."""
        return [name for name, kind in self.requests if not kinds or kind in kinds]

    def forget(self) -> None:
        """Have counted nothing."""
        self.requests.clear()

    def impostor(self, folder: Path) -> ssl.SSLContext:
        """Return what somebody has who is not this server, but says so, by an authority that nobody knows."""
        folder.mkdir()
        return TestAuthority(folder).server("127.0.0.1")

    def __enter__(self) -> GitServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join(SECONDS)
        self._server.server_close()
        self._server.end_all()


def store_credentials(home: Path, server: GitServer, credentials: str) -> None:
    """Have git's own store, of the user whose home this is, know `user:password` for a server."""
    home.mkdir(parents=True, exist_ok=True)
    stored = home / "credentials"
    stored.write_text(f"https://{credentials}@{server.host}\n")
    (home / ".gitconfig").write_text(f"[credential]\n\thelper = store --file='{stored}'\n")


def packet(content: bytes) -> bytes:
    """Return a packet of git's protocol."""
    return b"%04x%s" % (len(content) + 4, content)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def __init__(self, git: GitServer) -> None:
        self._git = git
        self._open: dict[threading.Thread, socket.socket] = {}
        self._lock = threading.Lock()
        self.is_ending = threading.Event()
        super().__init__(("127.0.0.1", 0), _handler(git, self.is_ending))

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(target=self._serve, args=(request, client_address), daemon=True)
        with self._lock:
            self._open[thread] = request
        thread.start()

    def end_all(self) -> None:
        """End every connection, and return when they have ended."""
        self.is_ending.set()
        with self._lock:
            left = dict(self._open)
        for connection in left.values():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in left:
            thread.join(SECONDS)
            assert not thread.is_alive(), "a connection did not end"

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        me = threading.current_thread()
        request.settimeout(SECONDS)
        try:
            with request, self._git.context.wrap_socket(request, server_side=True) as secured:
                with self._lock:
                    self._open[me] = secured
                self.finish_request(secured, client_address)
                with suppress(OSError):
                    secured.shutdown(socket.SHUT_WR)
        except (OSError, ValueError):
            pass  # the client is gone, or would not have us
        finally:
            with self._lock:
                self._open.pop(me, None)


class _GoneError(Exception):
    """Raised to end a connection without a word."""


def _handler(git: GitServer, is_ending: threading.Event) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = SECONDS

        def do_GET(self) -> None:
            self._serve(b"")

        def do_POST(self) -> None:
            self._serve(self._body())

        def _serve(self, body: bytes) -> None:
            path, _, query = self.path.partition("?")
            asked = _asked(path, query, body)
            name = path.split("/info/", 1)[0].removesuffix("/git-upload-pack").strip("/")
            git.requests.append((name, asked))
            git.authorizations += self.headers.get_all("Authorization", [])
            fault = git.fault if git.fault is not None and asked in git.fault.at else None
            try:
                if isinstance(fault, Answers):
                    self._refuse(fault.status, fault.headers, fault.body)
                elif not self._may_see(name):
                    self._refuse(401, {"WWW-Authenticate": 'Basic realm="git"'})
                elif isinstance(fault, Floods):
                    self._flood(fault)
                else:
                    self._run(path, query, body, fault)
            except _GoneError:
                self.close_connection = True
                # Reset, as by a machine that went down.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
            except OSError:
                self.close_connection = True

        def _body(self) -> bytes:
            if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                return self.rfile.read(min(int(self.headers.get("Content-Length", 0)), _MAX_REQUEST))
            body = b""
            while (size := int(self.rfile.readline(100), 16)) > 0 and len(body) < _MAX_REQUEST:
                body += self.rfile.read(size)
                self.rfile.readline(100)
            self.rfile.readline(100)
            return body

        def _may_see(self, name: str) -> bool:
            wanted = git.private.get(name)
            given = self.headers.get("Authorization", "")
            return wanted is None or given == "Basic " + base64.b64encode(wanted.encode()).decode()

        def _refuse(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
            self.send_response(status)
            for header, value in headers.items():
                self.send_header(header, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _flood(self, fault: Floods) -> None:
            self._begin(200, {"Content-Type": "application/x-git-upload-pack-result"})
            self._send(fault.opening)
            while not is_ending.is_set():
                self._send(fault.piece)

        def _run(self, path: str, query: str, body: bytes, fault: Fault | None) -> None:
            with tempfile.TemporaryFile() as given:
                given.write(body)
                given.seek(0)
                with subprocess.Popen(
                    ["git", "http-backend"],
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=self._environ(path, query, len(body)),
                    bufsize=0,
                ) as process:
                    try:
                        assert process.stdout is not None
                        self._pass_on(iter(lambda: process.stdout.read(_PIECE), b""), fault)  # type: ignore[union-attr]
                    finally:
                        process.kill()

        def _pass_on(self, pieces: Iterator[bytes], fault: Fault | None) -> None:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = next(pieces, b"")
                if not piece:
                    self._refuse(500, {})
                    return
                head += piece
            head, _, first = head.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self._begin(int(headers.pop("Status", "200").split()[0]), headers)
            for piece in _spoiled(_joined(first, pieces), fault):
                if piece is None:
                    self._stall(fault)
                else:
                    self._send(piece)
            self.wfile.write(b"0\r\n\r\n")

        def _stall(self, fault: Fault | None) -> None:
            assert isinstance(fault, Stalls)
            fault.has_stalled.set()
            left = SECONDS
            while not fault.go_on.wait(0.02) and not is_ending.is_set() and left > 0:
                left -= 0.02
            if not fault.go_on.is_set():
                raise _GoneError

        def _begin(self, status: int, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for header, value in headers.items():
                if header.lower() != "content-length":
                    self.send_header(header, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()

        def _send(self, piece: bytes) -> None:
            if piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

        def _environ(self, path: str, query: str, length: int) -> dict[str, str]:
            settings = {
                "safe.directory": "*",
                "uploadpack.allowFilter": "true",
                "uploadpack.allowAnySHA1InWant": "true",
            }
            configured = {"GIT_CONFIG_COUNT": str(len(settings))}
            for number, (name, value) in enumerate(settings.items()):
                configured |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
            return configured | {
                "PATH": os.environ["PATH"],
                "HOME": "/dev/null",
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_CONFIG_GLOBAL": "/dev/null",
                "GIT_PROJECT_ROOT": str(git.folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(length),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "REMOTE_ADDR": "127.0.0.1",
                "REMOTE_USER": "",
            }

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _asked(path: str, query: str, body: bytes) -> Asked:
    if path.endswith("/info/refs") and query == "service=git-upload-pack":
        return "refs"
    if path.endswith("/git-upload-pack"):
        return "list" if b"command=ls-refs" in body[:200] else "fetch"
    return "other"


def _joined(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from pieces


def _spoiled(pieces: Iterator[bytes], fault: Fault | None) -> Iterator[bytes | None]:
    """Yield an answer as a fault makes of it, and None where it comes to a halt."""
    match fault:
        case BreaksOff(after=after):
            yield from _first(pieces, after)
            raise _GoneError
        case Stalls(after=after):
            rest = bytearray()
            yield from _first(pieces, after, rest)
            yield None
            yield bytes(rest)
            yield from pieces
        case Corrupts(offset=offset):
            whole = bytearray(b"".join(pieces))
            places = list(_places_of_pack(whole))
            at = places[0] - 5 if offset is None else places[min(offset, len(places) - 1)]
            whole[at] ^= 0xFF
            yield bytes(whole)
        case _:
            yield from pieces


def _places_of_pack(answer: bytes) -> Iterator[int]:
    """Yield where the bytes of the pack are, which comes in packets that begin with a 1."""
    at = 0
    while at < len(answer):
        size = int(answer[at : at + 4], 16)
        if size > 4 and answer[at + 4] == 1:
            yield from range(at + 5, at + size)
        at += max(size, 4)


def _first(pieces: Iterator[bytes], size: int, rest: bytearray | None = None) -> Iterator[bytes]:
    """Yield the first bytes; of the last piece that is taken, put what is over into `rest`."""
    while size > 0 and (piece := next(pieces, b"")):
        yield piece[:size]
        if rest is not None:
            rest += piece[size:]
        size -= len(piece)
