"""Remember the files, programs and hosts that module code tried to access and may not have got.

Inside a file system of its own a refusal looks like a missing file. So neither the module nor a reader of its errors
learns that a grant is missing. Python's audit events show the attempts; which of them were refused is found out later,
on request. The notes are in a log that outlasts the process, so that its host finds there the notes that were not sent.
This is advice and no defence: accesses past the interpreter are not seen here, and the memory is bounded. Noting never
raises, for any value and on any thread.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import re
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from paddock_sandbox.mounts import STAND_INS
from paddock_sandbox.syscalls import call
from paddock_sdk.worker.attempts.attempt_log import (
    MAX_TEXT_BYTES,
    MOST_PATHS,
    SOMEWHERE,
    AttemptLog,
    Kind,
    without_sockets,
)
from paddock_sdk.worker.attempts.kernel_limits import exit_code, is_full, limits_in
from paddock_sdk.worker.attempts.left_files import left_in

_MOST_REPORTED: Final = 64
_REFUSALS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_PORTS: Final = {"http": 80, "https": 443}
_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")  # noqa: S104 - nobody listens there
_INTERNET: Final = frozenset({2, 10})  # AF_INET and AF_INET6, which arrive as members or plain numbers
_LOOK: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PATH_WORDS: Final = ("path", "file", "dir", "folder", "cwd", "root")  # in the name of an argument that is one
_MAX_ARGUMENTS: Final = 64  # that are looked at, with those inside of others
_MAX_DEPTH: Final = 4
_NO_PATH: Final = "\0"  # which no path begins with
_FOR_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_IN_PATHS: Final[tuple[Kind, ...]] = ("read", "write")
_PATH_BYTES: Final = 4096  # the longest path that the kernel names
_MAX_CAUSES: Final = 8  # of one exception
_MAX_CHARACTERS: Final = 4096  # of a command line; a script may be long
_COMMAND: Final = re.compile(
    r"(?:^|[\s;&|(/])git(?P<options>(?:\s+-C\s+\S+|\s+-c\s+\S+|\s+--?[\w-]+(?:=\S+)?)*)\s+"
    r"(?:(?P<changing>add|am|checkout|cherry-pick|commit|fetch|gc|merge|mv|pull|rebase|reset|restore|revert|rm|switch"
    r"|update-index|update-ref)|blame|describe|diff|grep|log|ls-files|rev-list|rev-parse|shortlog|show|status)(?![\w-])"
)
_ENTERED: Final = re.compile(r"(?:^|[\s;&|(])cd\s+(\S+?)\s*(?:&&|;|\n)")
_ELSEWHERE: Final = re.compile(r"-C\s+(\S+)")
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w{0,199}", re.ASCII)
_LOOKUP_OF_VARIABLE: Final = type(os.environ).__getitem__.__code__

# Python keeps an audit hook for ever. So a process has only one, which looks here for the recorder.
_takers: Final[dict[str, Callable[..., None]]] = {}
_looking: Final[list[int]] = []  # threads that open files here, to see whether they can be


def _note(event: str, args: tuple[Any, ...]) -> None:
    take = _takers.get(event)
    if take is not None and not (_looking and threading.get_ident() in _looking):
        try:
            take(*args)
        except Exception:  # noqa: S110 - what module code is about to do is worth more than a note of it
            pass


@contextmanager
def _unnoticed() -> Iterator[None]:
    """Have no attempt noted of what this thread looks at meanwhile: it is none of the module's."""
    _looking.append(threading.get_ident())
    try:
        yield
    finally:
        _looking.remove(threading.get_ident())


class AttemptRecorder:
    """Notes the attempts of this process's module in `log`."""

    def __init__(self, log: AttemptLog | None = None) -> None:
        self._log = AttemptLog() if log is None else log
        self._reported = 0
        self._own_code: tuple[str, ...] = ()
        self._home = _NO_PATH
        self._private = ""
        self._unopened: list[tuple[Kind, int, str]] = []
        self._wanted: set[str] = set()  # of the files that a stand-in may be there for

    def install(self, own_code: Iterable[str] = (), granted: object = None) -> None:
        """Take notes from now on, for the life of the process; the folders of its own code are left out.

        Of the `granted` paths, by `read` and `write`, it is noted in which something was opened.
        """
        self._watch(granted)
        self._own_code = tuple(os.path.join(os.path.realpath(folder), "") for folder in own_code)
        home = os.environ.get("HOME", "")
        self._home = os.path.join(home, "") if os.path.isabs(home) else _NO_PATH
        self._private = os.environ.get("TMPDIR", "")
        if not _takers:
            sys.addaudithook(_note)
            os.register_at_fork(after_in_child=self._log.go_on_as_fork)
        _takers.update(self._made_takers())

    def note_arguments(self, arguments: object, folder: str, kind: Kind = "read") -> None:
        """Note the paths of a failed call, relative to `folder`: to look whether one is there is no event."""
        for path in _paths_in(arguments):
            place = os.path.normpath(os.path.join(folder, os.path.expanduser(path)))
            if place in STAND_INS:  # a person means the machine's, and the tool itself may have refused it
                self._wanted.add(place)
            self._note(kind, place)

    def note_failure(self, error: BaseException) -> None:
        """Note the kernel's limits, and the missing variable, that an exception is about."""
        self.note_result(error, has_failed=True)
        try:
            if (name := _missing_variable(error)) is not None:
                self._log.note("env", name)
        except Exception:  # noqa: S110 - an object of the module's own in the place of a failure
            pass

    def note_result(self, result: object, *, has_failed: bool) -> bool:
        """Note the limits that a failed result, or any of a program, is about; return whether it is about one."""
        try:
            found = limits_in(result, self._private) if has_failed or exit_code(result) is not None else []
            for key in found:
                self._log.note("limit", key)
            return bool(found)
        except Exception:  # as above
            return False

    def note_end(self) -> None:
        """Note, at the end of the module, the files in its private folder, and whether that is full."""
        if self._private:
            for path in left_in(self._private):
                if (text := _text_of("left", path)) is not None:
                    self._log.note("left", text)
            if is_full(self._private):
                self._log.note("limit", "tmp_max")

    def mark(self) -> int:
        """Return a number for this moment, to ask for later attempts with."""
        return self._log.last

    @property
    def has_news(self) -> bool:
        """Whether there are notes that have not been fetched yet."""
        return self.mark() > self._reported

    def news(self) -> list[list[str]]:
        """Return the targets noted since the last call, as far as they are out of reach."""
        return self.since(self._reported)

    def mark_passed_on(self) -> None:
        """Mark all fetched notes as sent, so that the host does not look for them in the log."""
        self._log.mark_passed_on(self._reported)

    def since(self, mark: int) -> list[list[str]]:
        """Return kinds and targets of attempts since `mark` that are, or may be, out of reach; the latest only.

        Targets that turn out to be within reach are removed from the log.
        """
        noted = self._log.after(mark)
        self._reported = max(self._reported, self.mark())
        found: dict[tuple[Kind, str], None] = {}
        judged: dict[tuple[Kind, str], bool] = {}
        for number, kind, text in reversed(noted):
            one = (kind, text)
            if one not in judged:
                if len(found) == _MOST_REPORTED:
                    continue
                judged[one] = kind not in ("read", "write") or text in self._wanted or _is_out_of_reach(kind, text)
                if judged[one]:
                    found[one] = None
            if not judged[one]:
                self._log.erase(number)
        return [[kind, text] for kind, text in without_sockets(reversed(found))]

    def _note(self, kind: Kind, target: Any) -> None:
        text = _text_of(kind, target)
        if text is None:
            return
        if kind in ("read", "write"):
            if text.startswith(self._own_code):
                return
            if self._unopened:
                self._note_opened(kind, text)
            # Looked at now: the module's own home goes with the process, and the user's may have such a file as well.
            if kind == "read" and text.startswith(self._home) and not _is_out_of_reach(kind, text):
                return
        self._log.note(kind, text)

    def _watch(self, granted: object) -> None:
        paths = granted if isinstance(granted, dict) else {}
        self._unopened = [
            (kind, place, path)
            for kind in _IN_PATHS
            for place, path in enumerate(paths.get(kind, ())[:MOST_PATHS])
            if type(path) is str
        ]

    def _note_opened(self, kind: Kind, text: str) -> None:
        opened = {one for one in self._unopened if one[0] == kind and f"{text}/".startswith(f"{one[2]}/")}
        if opened:
            self._unopened = [one for one in self._unopened if one not in opened]
            for _, place, _ in opened:
                self._log.note_path(kind, place)

    def _made_takers(self) -> dict[str, Callable[..., None]]:
        note = self._note

        def path(kind: Kind) -> Callable[..., None]:
            def take(name: object, *rest: object) -> None:
                # A name below an open folder, given by its descriptor, is not this process's own.
                if any(type(one) is int and one >= 0 for one in rest[-1:]):
                    self._log.note_path(kind, SOMEWHERE)
                elif type(name) is str:
                    note(kind, name)

            return take

        read, write = path("read"), path("write")

        def on_open(name: object, mode: object, flags: int) -> None:
            if type(name) is not str or name.endswith(".pyc"):
                return
            kind: Kind = "write" if flags & _FOR_WRITING else "read"
            if mode is None and not name.startswith("/"):
                self._log.note_path(kind, SOMEWHERE)
                return  # `os.open`, whose event does not contain the folder
            if name.startswith("<") and name.endswith(">"):
                return  # the compiler, which looks for the line that is wrong: `<unknown>` is the name in `ast.parse`
            note(kind, name)

        def on_two(source: object, target: object, *rest: object) -> None:
            write(target, *rest[-1:])

        def on_popen(program: object, args: object, folder: object = None, *rest: object) -> None:
            if args == ["uname", "-p"]:
                return  # `platform.platform()`, which vendors' clients call and which does without
            # A program that cannot start only for its folder is not one whose refusals go unreported.
            if folder is None or os.access(folder, os.X_OK) or not _is_executable(program):  # type: ignore[arg-type]
                note("run", program)
            if folder is not None:
                note("read", os.fspath(folder))  # type: ignore[call-overload]
            on_command(args, folder)

        def on_exec(program: object, args: object = None, *rest: object) -> None:
            note("run", program)
            on_command(args)

        def on_system(command: object) -> None:
            note("run", "sh")
            on_command(command)

        def on_command(command: object, folder: Any = None) -> None:
            with _unnoticed():
                wanted = wanted_of_repository(command, os.fspath(folder) if folder is not None else _current_folder())
            if wanted is not None:
                note(*wanted)

        def on_socket(sock: object, family: int, *rest: object) -> None:
            if family in _INTERNET:
                note("net", None)

        def on_connect(sock: object, address: object) -> None:
            if type(address) is tuple and len(address) >= 2:
                note("net", address[:2])

        def on_bind(sock: object, address: object) -> None:
            # Of a port that the kernel chooses at any address, as clients do, there is nothing to say.
            if type(address) is tuple and len(address) >= 2 and (address[0] not in _ANY_ADDRESS or address[1]):
                note("serve", (address[0] or "0.0.0.0", address[1]))  # noqa: S104 - what it means

        def on_lookup(host: object, port: object = None, *rest: object) -> None:
            note("net", (host, port))

        return {
            "open": on_open,
            "os.listdir": lambda name: read(name),
            "os.scandir": lambda name: read(name),
            "os.chdir": lambda name: read(name),
            "os.mkdir": lambda name, mode, folder: write(name, folder),
            "os.remove": lambda name, folder: write(name, folder),
            "os.rmdir": lambda name, folder: write(name, folder),
            "os.truncate": lambda name, length: write(name),
            "os.rename": on_two,
            "os.link": on_two,
            "os.symlink": on_two,
            "subprocess.Popen": on_popen,
            "os.exec": on_exec,
            "os.posix_spawn": on_exec,
            "os.system": on_system,
            "socket.__new__": on_socket,
            "socket.connect": on_connect,
            "socket.bind": on_bind,
            "socket.sendto": on_connect,
            "socket.getaddrinfo": on_lookup,
            "socket.gethostbyname": on_lookup,
        }


def _is_out_of_reach(kind: str, path: str) -> bool:
    try:
        with _unnoticed():
            mode = os.stat(path).st_mode
            if kind == "write":
                # Not by opening it: a program that watches the file would take it for changed.
                return not os.access(path, os.W_OK) or _sees_what_it_may_not_read()
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                # A visible file may still be refused, which only opening it shows; opening has no side effect.
                os.close(os.open(path, _LOOK))
    except FileNotFoundError:
        return True
    except OSError as error:
        return error.errno in _REFUSALS or error.errno in (errno.ENOTDIR, errno.ELOOP)
    except ValueError:
        return False  # no path at all
    return False


@functools.cache
def _sees_what_it_may_not_read() -> bool:
    """Whether this process is confined by rules that permissions do not show, so that only its host knows."""
    try:
        os.close(os.open("/", _LOOK))
    except OSError:
        return True
    return False


def _is_executable(program: Any) -> bool:
    path = os.fsdecode(program)
    return any(os.access(os.path.join(folder, path), os.X_OK) for folder in os.get_exec_path())


def _text_of(kind: str, target: Any) -> str | None:
    """Return the text of a target for a report, None for one that is not reported."""
    try:
        text = _destination(target) if kind in ("net", "serve") else _path(kind, target)
    except Exception:  # an object of the module's own in the place of a path
        return None
    return text if text is not None and len(text) <= MAX_TEXT_BYTES and text.isprintable() else None


def _path(kind: str, target: Any) -> str | None:
    if type(target) is bytes:
        target = os.fsdecode(target)
    elif kind == "run" and isinstance(target, os.PathLike):
        target = os.fspath(target)
    if type(target) is not str or not target:
        return None
    if kind == "run" and "/" not in target:
        return target
    return os.path.normpath(target if target.startswith("/") else os.path.join(_current_folder(), target))


def _current_folder() -> str:
    """Return the folder that relative paths start at.

    Raises:
        OSError: it is gone, or lies too deep to be named.
    """
    # Not `os.getcwd()`: below 4096 characters of path the C library finds each name of it by reading its folder. Nor
    # `/proc/self/cwd`: not every level has a /proc.
    path = ctypes.create_string_buffer(_PATH_BYTES)
    call("getcwd", path, _PATH_BYTES)
    return os.fsdecode(path.value)


def _destination(target: Any) -> str | None:
    if target is None:
        return ""
    host, port = target
    if type(host) is bytes:
        host = host.decode("ascii")
    if type(host) is not str or not host:
        return None
    if type(port) in (str, bytes):
        text = port if type(port) is str else port.decode("ascii")
        port = int(text) if text.isdigit() else _PORTS.get(text)
    written = f"[{host.partition('%')[0]}]" if ":" in host else host
    return f"{written}:{port}" if type(port) is int and port > 0 else written


def _paths_in(arguments: object) -> Iterator[str]:
    """Yield the texts in a call's arguments whose names say that they are paths, the outermost first.

    The items of a list go by the list's name. How many values are looked at, and how deep, is bounded.
    """
    waiting: deque[tuple[str, object, int]] = deque([("", arguments, 0)] if type(arguments) is dict else ())
    for _ in range(_MAX_ARGUMENTS):
        if not waiting:
            return
        name, value, depth = waiting.popleft()
        if type(value) is str:
            if any(word in name for word in _PATH_WORDS):
                yield value
        elif depth < _MAX_DEPTH:
            room = _MAX_ARGUMENTS - len(waiting)
            if type(value) is dict:
                named = ((key.lower(), item) for key, item in islice(value.items(), room) if type(key) is str)
                waiting.extend((key, item, depth + 1) for key, item in named)
            elif type(value) is list:
                waiting.extend((name, item, depth + 1) for item in islice(value, room))


def _missing_variable(error: BaseException) -> str | None:
    """Return the environment variable whose absence led to an exception: one that `os.environ` itself raised."""
    cause: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if type(cause) is KeyError and cause.args and type(name := cause.args[0]) is str and _VARIABLE.fullmatch(name):
            trace = cause.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            if trace is not None and trace.tb_frame.f_code is _LOOKUP_OF_VARIABLE:
                return name
        cause = None if cause is None else cause.__cause__ or cause.__context__
    return None


def wanted_of_repository(command: Any, folder: str) -> tuple[Kind, str] | None:
    """Return what a command started in `folder` is to do with a repository: a text, or a list of words.

    That is to write to git's folder or to read it; the other one that it borrows from; a `.git` where there is none.
    Only git gets the kernel's refusal of what is in its folder, so the names in the command line are looked at.
    """
    if isinstance(command, (str, bytes)):
        words = [command]
    elif isinstance(command, (list, tuple)):
        words = list(command)
    else:
        return None
    line = " ".join(os.fsdecode(word) for word in words if isinstance(word, (str, bytes)))[:_MAX_CHARACTERS]
    commands = list(_COMMAND.finditer(line))
    found = next((one for one in commands if one["changing"]), commands[0] if commands else None)
    if found is None:
        return None
    for elsewhere in (*_ENTERED.findall(line[: found.start() + 1]), *_ELSEWHERE.findall(found["options"])):
        folder = os.path.join(folder, elsewhere.strip("'\""))
    git = _git_folder(os.path.abspath(folder))
    if git is None or found["changing"]:
        return ("read", os.path.abspath(os.path.join(folder, ".git"))) if git is None else ("write", git)
    borrowing = os.path.join(git, "objects", "info", "alternates")
    borrowed = _read(borrowing).partition("\n")[0] if os.path.isfile(borrowing) else ""
    return "read", os.path.abspath(os.path.join(git, "objects", borrowed)) if borrowed else git


def _git_folder(folder: str) -> str | None:
    """Return the folder that git would write to in a working tree, or in a folder below one."""
    while True:
        git = os.path.join(folder, ".git")
        if os.path.isdir(git):
            return git
        if os.path.isfile(git):
            key, _, place = _read(git).partition(":")
            return _common(os.path.normpath(os.path.join(folder, place.strip()))) if key == "gitdir" else None
        if folder == os.path.dirname(folder):
            return None
        folder = os.path.dirname(folder)


def _common(git: str) -> str:
    """Return the folder of a repository that has commits: of a further working tree that of the first one.

    Its folder may be out of sight. Then its name says that it is one.
    """
    if os.path.isdir(git):
        common = os.path.join(git, "commondir")
        return os.path.normpath(os.path.join(git, _read(common).strip())) if os.path.isfile(common) else git
    around = os.path.dirname(git)
    return os.path.dirname(around) if os.path.basename(around) == "worktrees" else git


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(_PATH_BYTES)
