"""Find the sessions that run, by their control sockets, and ask them.

A user's own socket that nobody listens at is removed. Root also finds those of other users, in their usual folders: of
these it follows no link, removes nothing, and takes no answer but from a process of the folder's owner. All answers are
bounded in size and time, and read as data.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import stat
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from paddock.control.status import ANSWER_BYTES, Refused, Request, SessionStatus
from paddock.state_folder import control_paths

_NAME: Final = re.compile(r"[0-9]{1,10}(-[0-9]{1,2})?\.sock")
_SECONDS: Final = 3.0  # for a whole answer
_SOCKETS: Final = 256  # of this user
_SOCKETS_OF_OTHERS: Final = 32  # of each other one, who may have them say nothing
_USERS: Final = 1000
_AT_ONCE: Final = 16
_CREDENTIALS: Final = struct.Struct("3i")

_Answer = TypeVar("_Answer", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Place:
    """A control socket: its folder, its name there, and the user whose folder it is."""

    folder: Path
    name: str
    uid: int


class NoAnswerError(Exception):
    """Raised where a session gives no answer: it has ended, or does not serve us."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A session that answered."""

    place: Place
    status: SessionStatus


def seen(environ: Mapping[str, str]) -> tuple[list[Seen], list[str]]:
    """Return the sessions of this user, or for root of all users, and why others gave no answer, for people."""
    places = list(_places(environ))
    found, silent = [], []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for place, status in zip(places, pool.map(_status_of, places), strict=True):
            if isinstance(status, SessionStatus):
                found.append(Seen(place, status))
            elif status:
                silent.append(f"the session at {place.folder / place.name} {status}")
    return sorted(found, key=lambda one: (one.status.began, one.place.name)), silent


def ask(place: Place, request: Request, answer: type[_Answer]) -> _Answer:
    """Return a session's answer.

    Raises:
        NoAnswerError: it gave none; with its reason.
    """
    with _connected(place) as line:
        with suppress(BrokenPipeError):  # it refuses us, and does not wait to hear why
            line.sendall(request.model_dump_json(exclude_defaults=True).encode() + b"\n")
        text = _line_of(line)
    try:
        return answer.model_validate_json(text)
    except ValidationError:
        try:
            raise NoAnswerError(f"answered: {Refused.model_validate_json(text).error}")
        except ValidationError:
            raise NoAnswerError("gave an answer that is none") from None


def _status_of(place: Place) -> SessionStatus | str:
    """Return a session's status, or why there is none; nothing where nobody listens any more."""
    try:
        return ask(place, Request(get="status"), SessionStatus)
    except ConnectionRefusedError:
        if place.uid == os.geteuid():
            with suppress(OSError):
                (place.folder / place.name).unlink()
        return ""
    except FileNotFoundError:
        return ""
    except NoAnswerError as error:
        return str(error)
    except OSError as error:
        return f"gave no answer: {error.strerror or error}"


def _line_of(line: socket.socket) -> bytes:
    deadline = time.monotonic() + _SECONDS
    text = bytearray()
    while not text.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(0, "it took too long")
        line.settimeout(left)
        part = line.recv(1 << 16)
        if not part:
            raise NoAnswerError("gave no answer")
        text += part
        if len(text) > ANSWER_BYTES:
            raise NoAnswerError("gave an answer that is too large")
    return bytes(text)


@contextmanager
def _connected(place: Place) -> Iterator[socket.socket]:
    """Connect to the socket itself, not to what a link in its place leads to; its listener is of the same user."""
    folder = _opened(place.folder, place.uid)
    try:
        node = os.open(place.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        info = os.fstat(node)
        if not stat.S_ISSOCK(info.st_mode) or info.st_uid != place.uid:
            raise NoAnswerError("is no socket of its folder's owner")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(_SECONDS)
            line.connect(f"/proc/self/fd/{node}")
            credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            if _CREDENTIALS.unpack(credentials)[1] != place.uid:
                raise NoAnswerError("is another user's")
            yield line
    finally:
        os.close(node)


def _opened(folder: Path, uid: int) -> int:
    """Open a folder of a user's own.

    Raises:
        OSError: it is none.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if os.fstat(descriptor).st_uid != uid:
        os.close(descriptor)
        raise FileNotFoundError(folder)
    return descriptor


def _places(environ: Mapping[str, str]) -> Iterator[Place]:
    for uid, folder in _folders(environ):
        names: Sequence[str] = ()
        most = _SOCKETS if uid == os.geteuid() else _SOCKETS_OF_OTHERS
        with suppress(OSError):
            descriptor = _opened(folder, uid)
            try:
                with os.scandir(descriptor) as entries:
                    names = sorted(entry.name for entry, _ in zip(entries, range(most), strict=False))
            finally:
                os.close(descriptor)
        for name in names:
            if _NAME.fullmatch(name):
                yield Place(folder, name, uid)


def _folders(environ: Mapping[str, str]) -> Iterator[tuple[int, Path]]:
    own = dict.fromkeys(folder.resolve() for folder in control_paths(environ))
    for folder in own:
        yield os.geteuid(), folder
    if os.geteuid() == 0:
        for user, _ in zip(pwd.getpwall(), range(_USERS), strict=False):
            for folder in (Path(f"/run/user/{user.pw_uid}/paddock"), Path(user.pw_dir, ".local/state/paddock/run")):
                if user.pw_uid != 0 and folder not in own:
                    yield user.pw_uid, folder
