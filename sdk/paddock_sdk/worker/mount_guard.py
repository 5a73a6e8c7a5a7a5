"""Guard paths again, at once, when others replaced them inside the folders that workers may write to.

One process per host does this. It holds descriptors to enter each worker's file system, opened before the first line of
the module, and waits until the kernel reports that a mount was detached or that its mount point was moved. The new file
or folder of that name gets the mount as soon as it exists. Once it has it in each worker, the host gets a report. A
worker that waits for that moment may be quicker: the promise is only that the path does not stay open, and that the
report comes. The process ends with its control socket.

The host sends `{"watch": {"id", "session", "mounts", "unheld"}}` with three descriptors, where `unheld` are links that
become mounts now; the answer is `{"watching": id}`, after `{"id", "open", "problem"}` for each that does not. A report
is `{"id", "path", "what", "problem"}`, one for each guarded path that was replaced, and one more at the session's end,
`{"leave": session}`, if it changed since; then comes `{"left": session}`. `{"blind"}` means that the kernel gives no
more notices of moves.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import select
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from paddock_sandbox import prctl
from paddock_sandbox.profile import Mount
from paddock_sandbox.remounting import attached, is_elsewhere, is_gone, put_back
from paddock_sandbox.syscalls import call
from paddock_sandbox.title import set_title
from paddock_sdk.worker.fresh_process import prepare_process
from paddock_sdk.worker.init_socket import receive, report, unpack

_FDS: Final = 3  # the worker's mount namespace, its list of mounts, itself
_MOST_READ: Final = 1 << 20  # of one file, to describe its new content
_MOST_ENTRIES: Final = 256  # of one folder
_MOST_NAMED: Final = 5
_BLIND_MS: Final = 200  # between two looks, where the kernel does not report moves
_REST_MS: Final = 5  # after a notice without a change: others may make files beside a missing one all day
_ROUNDS: Final = 10  # the kernel detaches a mount a moment before the name is another file's
_ROUND_MS: Final = 1
_LEADS_ELSEWHERE: Final = "it is another link, itself guarded, and what that leads to is not"

# From <linux/inotify.h>.
_MOVED: Final = 0x0800 | 0x0400 | 0x0200_0000 | 0x2000_0000  # itself, or removed; no link followed, added to what is
_MADE_IN: Final = 0x0100 | 0x0080 | 0x0100_0000 | 0x2000_0000


def serve(control: int, host: int) -> NoReturn:
    """Guard until the host closes the control socket."""
    prctl.set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != host:
        os._exit(0)
    prepare_process()
    set_title(f"mount guard [host {host}]", "paddock-guard")
    _Guard(socket.socket(fileno=control)).run()
    os._exit(0)


@dataclass(frozen=True, slots=True)
class _State:
    """The earlier state of a guarded path: `parts` are the file's content, or that of each entry of the folder."""

    kind: int = 0
    size: int = 0
    parts: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str) -> _State:
        try:
            info = os.lstat(path)
            return cls(stat.S_IFMT(info.st_mode), info.st_size, dict(_parts(path, info)))
        except OSError:
            return cls()

    def difference(self, other: _State) -> str:
        """Describe in a few words what another state lost compared with this one."""
        if self.kind != other.kind:
            return "which is gone" if not other.kind else "by another kind of file" if self.kind else "which was gone"
        changed = [
            name for name in sorted({*self.parts, *other.parts}) if self.parts.get(name) != other.parts.get(name)
        ]
        if not changed:
            return "with the same content"
        if stat.S_ISLNK(self.kind):
            return "and leads elsewhere"
        if stat.S_ISDIR(self.kind):
            more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
            named = (os.fsencode(name).decode("utf-8", "backslashreplace") for name in changed[:_MOST_NAMED])
            return f"different in {', '.join(named)}{more}"
        return f"with other content, {self.size} bytes before and {other.size} now"


def _parts(path: str, info: os.stat_result) -> Iterator[tuple[str, bytes]]:
    if not stat.S_ISDIR(info.st_mode):
        yield "", _content(path, info)
        return
    with os.scandir(path) as entries:
        for entry in heapq.nsmallest(_MOST_ENTRIES, entries, key=lambda one: one.name):
            yield entry.name, _content(entry.path, entry.stat(follow_symlinks=False))


def _content(path: str, info: os.stat_result) -> bytes:
    """Return a value that identifies a content: for anything but a small file, only its size and kind."""
    facts = b"%d %d" % (stat.S_IFMT(info.st_mode), 0 if stat.S_ISDIR(info.st_mode) else info.st_size)
    if stat.S_ISLNK(info.st_mode):
        return facts + os.fsencode(os.readlink(path))
    if stat.S_ISREG(info.st_mode) and info.st_size <= _MOST_READ:
        with suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(fd, "rb") as file:
                if stat.S_ISREG(os.fstat(fd).st_mode):  # no pipe by now
                    return facts + hashlib.sha256(file.read(_MOST_READ)).digest()
    return facts


def _identity(path: str) -> tuple[int, int] | None:
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino


class _Worker:
    """One worker whose mounts are watched."""

    def __init__(self, number: int, mounts: list[Mount], unheld: list[Mount], fds: list[int], session: int = 0) -> None:
        self.number = number
        self.session = session
        self.namespace, self.mountinfo, self.pidfd = fds
        results = zip(unheld, put_back(self.namespace, unheld) if unheld else (), strict=True)
        self.open = {link: problem for link, problem in results if problem}
        self.mounts = [mount for mount in mounts if mount not in self.open]
        self.before = {mount.source: _State.of(mount.source) for mount in self.mounts if not mount.writable}
        self.seen = {source: _identity(source) for source in self.before}
        # Replaced before it was first looked at here, so its earlier state is unknown.
        self.replaced_early = frozenset(mount.source for mount in self.missing())
        self.news: set[str] = set()  # what was replaced, and nobody was told of yet
        self.problems: dict[str, str] = {}  # why what is open is so
        self.reported: dict[str, tuple[_State, str]] = {}

    def missing(self) -> list[Mount]:
        """Return the mounts that are gone and have something to be on again."""
        there = attached(self.mountinfo)
        return [mount for mount in self.mounts if mount.target not in there and not is_gone(mount)]

    def replaced(self) -> list[str]:
        """Return the paths that are another file or folder than when last seen."""
        now = {source: _identity(source) for source in self.before}
        changed = [source for source, identity in self.seen.items() if None not in (identity, now[source])]
        changed = [source for source in changed if now[source] != self.seen[source]]
        self.seen |= {source: identity for source, identity in now.items() if identity is not None}
        return changed

    def what_became_of(self, path: str, now: _State) -> str:
        """Describe in a few words what a guarded path is now, compared with its earlier state."""
        if path in self.replaced_early and now == self.before[path]:
            return "while nothing watched it"
        return self.before[path].difference(now)

    def put_back(self) -> bool:
        """Attach missing mounts, and note what was replaced and why what stays open does; return whether any missed."""
        changed = set(self.replaced())  # before the looks: what is replaced after the last of them is for the next time
        tried: set[str] = set()
        for _ in range(_ROUNDS):
            missing = self.missing()
            real = [mount for mount in missing if not is_elsewhere(mount)]
            self.problems = {mount.source: "a link leads there now" for mount in missing if mount not in real}
            changed |= self.problems.keys()
            if not real:
                break
            tried.update(mount.source for mount in real)
            results = zip(real, put_back(self.namespace, real), strict=True)
            self.problems |= {mount.source: problem for mount, problem in results if problem}
            select.poll().poll(_ROUND_MS)
        self.news |= self.before.keys() & (changed | tried)  # a folder around a guarded path is no news by itself
        return bool(tried)

    def bare(self) -> Iterator[str]:
        """Yield the guarded paths that are not, for no known reason, and those where nothing is."""
        there = attached(self.mountinfo)
        for mount in self.mounts:
            if mount.target not in there and (is_gone(mount) or mount.source not in self.problems):
                yield mount.source

    def close(self) -> None:
        for fd in (self.namespace, self.mountinfo, self.pidfd):
            os.close(fd)


class _Guard:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._workers: list[_Worker] = []
        self._past: list[_Worker] = []
        self._notices = -1
        self._is_blind = False

    def run(self) -> None:
        while True:
            poller = select.poll()
            poller.register(self._control, select.POLLIN)
            if self._notices >= 0:
                poller.register(self._notices, select.POLLIN)
            for worker in self._workers:
                poller.register(worker.mountinfo, select.POLLPRI)
                poller.register(worker.pidfd, select.POLLIN)
            ready = {fd for fd, _ in poller.poll(_BLIND_MS if self._is_blind else None)}
            if self._control.fileno() in ready and not self._take():
                break
            is_of_moves = ready == {self._notices}
            self._listen()  # before looking, so that no change is missed between the two
            if not self._mend() and is_of_moves:
                select.poll().poll(_REST_MS)
            for worker in [worker for worker in self._workers if worker.pidfd in ready]:
                self._workers.remove(worker)
                worker.close()
                if worker.reported:
                    self._past.append(worker)
        self._mend()
        self._report_later_changes([*self._past, *self._workers])

    def _take(self) -> bool:
        """Take one worker more; return False once the host is done."""
        data, fds = receive(self._control, _FDS)
        if not data:
            return False
        message = unpack(data)
        if "leave" in message:
            self._leave(message["leave"])
            return True
        asked = message["watch"]
        mounts, unheld = ([Mount(*one) for one in asked[kind]] for kind in ("mounts", "unheld"))
        worker = _Worker(asked["id"], mounts, unheld, fds, asked["session"])
        self._workers.append(worker)
        for link, problem in worker.open.items():
            self._report({"id": worker.number, "open": link.source, "problem": problem})
        self._mend()  # the module's first line runs as soon as the host knows that its folders are watched
        self._report({"watching": asked["id"]})
        return True

    def _leave(self, session: int) -> None:
        """Report the last changes in a session's folders, and forget its workers."""
        self._mend()
        leaving = [worker for worker in (*self._past, *self._workers) if worker.session == session]
        self._report_later_changes(leaving)
        self._past = [worker for worker in self._past if worker not in leaving]
        for worker in [worker for worker in self._workers if worker in leaving]:
            self._workers.remove(worker)
            worker.close()
        self._report({"left": session})

    def _listen(self) -> None:
        """Ask for a notice of each move of a guarded path, and of new files where one is missing."""
        if self._notices >= 0:
            os.close(self._notices)
            self._notices = -1
        wanted: dict[str, int] = {}
        places = {mount.source: mount for worker in self._workers for mount in worker.mounts}
        for source, mount in places.items():
            if not is_gone(mount):
                wanted[source] = wanted.get(source, 0) | _MOVED
                continue
            above = os.path.dirname(source)
            while not os.path.isdir(above):
                above = os.path.dirname(above)
            wanted[above] = wanted.get(above, 0) | _MADE_IN
        if not wanted:
            return
        try:
            self._notices = call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self._look_by_itself(error)
            return
        for path, mask in wanted.items():
            try:
                call("inotify_add_watch", self._notices, os.fsencode(path), mask)
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:
                self._look_by_itself(error)  # for this one; a module may close its own folders to us, and no others

    def _look_by_itself(self, error: OSError) -> None:
        if not self._is_blind:
            self._report({"blind": error.strerror})
        self._is_blind = True

    def _mend(self) -> bool:
        """Put back the mounts that are gone and have something to be on; return whether there were any."""
        found = False
        for worker in self._workers:
            with suppress(OSError):  # gone with its worker
                found = worker.put_back() or found
        self._tell_news()
        return found

    def _tell_news(self) -> None:
        """Report what was replaced, in the state that no worker can write to any more; the rest is for a later look."""
        states = {path: _State.of(path) for worker in self._workers for path in worker.news}
        if not states:
            return
        waiting: set[str] = set()  # looked for after the states: people are told of a path, whichever worker is meant
        for worker in self._workers:
            with suppress(OSError):
                waiting.update(worker.bare())
        for worker in self._workers:
            for path in sorted(worker.news - waiting):
                now, problem = states[path], worker.problems.get(path, "")
                if stat.S_ISLNK(now.kind) and now != worker.before[path]:
                    problem = problem or _LEADS_ELSEWHERE
                if worker.reported.get(path) != (now, problem):
                    worker.reported[path] = (now, problem)
                    what = worker.what_became_of(path, now)
                    self._report({"id": worker.number, "path": path, "what": what, "problem": problem})
            worker.news &= waiting

    def _report_later_changes(self, workers: list[_Worker]) -> None:
        """Report changes made after a path was guarded again: a process that had the new file open can still write."""
        for worker in workers:
            for path, (then, problem) in worker.reported.items():
                now = _State.of(path)
                if now != then:
                    what = worker.what_became_of(path, now)
                    self._report({"id": worker.number, "path": path, "what": what, "problem": problem})

    def _report(self, message: dict[str, Any]) -> None:
        report(self._control.fileno(), message)
