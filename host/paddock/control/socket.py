"""Listen at a session's control socket, which costs nothing while nobody asks.

A peer must be of the host's own user, in its own user and pid namespaces, and in no worker's tree; or it is root. It
sends one line within `_SECONDS`, and gets one, or one every so often. A peer that sends more, or reads too slowly, is
cut. The socket is 0600, in a folder of the user's own; its name begins with the host's pid.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import BaseModel, ValidationError

from paddock.control.status import REQUEST_BYTES, LogLines, Refused, Request, cut
from paddock.workers.limits.process_tree import ancestors_of

_SECONDS: Final = 5.0  # for a request to come, and for an answer to be read
_CONNECTIONS: Final = 8
_NAMES: Final = 64  # sessions of one process
_CREDENTIALS: Final = struct.Struct("3i")
_NAMESPACES: Final = ("pid", "user")


class Peer(NamedTuple):
    """The process at the other end."""

    pid: int
    uid: int


Answer = Callable[[Request, Peer], Awaitable[BaseModel]]
"""Answers a request; its errors go to the peer as text.

Raises:
    LookupError: there is nothing of that name.
"""


class ControlSocket:
    """Serves connections; `inits` returns the pids of the processes above each worker."""

    def __init__(self, answer: Answer, inits: Callable[[], frozenset[int]]) -> None:
        self._answer = answer
        self._inits = inits
        self._open: set[asyncio.Task[None]] = set()

    @classmethod
    @asynccontextmanager
    async def listening(cls, folder: Path, answer: Answer, inits: Callable[[], frozenset[int]]) -> AsyncIterator[None]:
        """Listen in a folder, which is the user's own, until this is left.

        Raises:
            OSError: it cannot be.
        """
        control = cls(answer, inits)
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            listener, name = _bound(place)
            try:
                # `backlog` is also how many asyncio takes at once, before everything else has its turn.
                server = await asyncio.start_server(
                    control._serve, sock=listener, limit=REQUEST_BYTES, backlog=_CONNECTIONS
                )
                try:
                    yield
                finally:
                    server.close()
                    await control._end()
            finally:
                listener.close()
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=place)
        finally:
            os.close(place)

    async def _end(self) -> None:
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=0)  # so that each answer is waited for until it is read
        peer = _peer_of(writer.get_extra_info("socket"))
        task = asyncio.current_task()
        assert task is not None
        try:
            if refusal := _refusal(peer, self._inits()):
                await _send(writer, Refused(error=refusal))
            elif len(self._open) >= _CONNECTIONS:
                await _send(writer, Refused(error=f"{_CONNECTIONS} others are connected to this session"))
            else:
                self._open.add(task)
                await self._talk(reader, writer, peer)
        except asyncio.CancelledError:
            pass  # the session ends; before Python 3.12, streams report it as an error
        except (OSError, TimeoutError, ValueError):
            pass  # it has left, sent no line in time, or one that is too long, or does not read
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: Peer) -> None:
        async with asyncio.timeout(_SECONDS):
            line = await reader.readline()
        try:
            request = Request.model_validate_json(line)
        except ValidationError as error:
            await _send(writer, Refused(error=cut(f"no such request: {error.errors(include_url=False)[0]['msg']}")))
            return
        while True:
            answer = await self._answered(request, peer)
            await _send(writer, answer)
            if request.follow is None or request.get is None or isinstance(answer, Refused):
                return
            if isinstance(answer, LogLines):
                request = request.model_copy(update={"since": answer.positions})
            with suppress(TimeoutError):
                async with asyncio.timeout(request.follow):
                    await reader.read(1)
                    return  # it has left, or says more than one line

    async def _answered(self, request: Request, peer: Peer) -> BaseModel:
        try:
            return await self._answer(request, peer)
        except LookupError as error:
            return Refused(error=cut(str(error.args[0])))


async def _send(writer: asyncio.StreamWriter, answer: BaseModel) -> None:
    writer.write(answer.model_dump_json().encode() + b"\n")
    async with asyncio.timeout(_SECONDS):
        await writer.drain()


def _bound(folder: int) -> tuple[socket.socket, str]:
    """Return a socket that listens in a folder, and its name there."""
    for number in range(1, _NAMES + 1):
        name = f"{os.getpid()}.sock" if number == 1 else f"{os.getpid()}-{number}.sock"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # By the folder's descriptor: the path of a socket may have no more than 107 bytes. Nobody can connect
            # before it listens, and by then its mode is set.
            listener.bind(f"/proc/self/fd/{folder}/{name}")
            os.chmod(name, 0o600, dir_fd=folder)
            listener.listen(_CONNECTIONS)
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return listener, name
    raise OSError(errno.EADDRINUSE, f"this process has {_NAMES} control sockets already")


def _peer_of(sock: socket.socket) -> Peer:
    pid, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return Peer(pid, uid)


def _refusal(peer: Peer, inits: frozenset[int]) -> str:
    """Return why a peer is not served; nothing if it is."""
    if peer.uid not in (0, os.geteuid()):
        return f"this session is of uid {os.geteuid()}, and you are uid {peer.uid}"
    if peer.pid <= 0:
        return "you are in another pid namespace"
    try:
        if peer.uid == os.geteuid():  # another root may do anything to this process
            for kind in _NAMESPACES:
                if os.readlink(f"/proc/{peer.pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}"):
                    return f"you are in another {kind} namespace"
        if not inits.isdisjoint(ancestors_of(peer.pid)):
            return "you are a process of a module"
    except OSError:
        return "it cannot be seen who you are"
    return ""
