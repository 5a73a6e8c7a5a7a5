"""The targets of attacks, planted on the machine for the time of one run, and watched.

`marks` are the host's own observations of an attack, independent of the attacker's report: the differences from the
planted state. `renew` restores everything. Leaving the context removes all of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Self

from paddock.selftest.testbed.canaries import Canaries
from paddock.selftest.testbed.listeners import ForbiddenListeners
from paddock.selftest.testbed.network import AttackNetwork
from paddock.selftest.testbed.target import VARIABLE, TargetProcess
from paddock_sandbox import syscalls
from paddock_sources.cache.staging import remove

ATTACKER: Final = Path(__file__).resolve().parents[1] / "modules" / "tool-attacker"

CONFIDENCE: Final = "PADDOCK_SELFTEST_CONFIDENCE"
"""The variable that one module is granted, and no other."""

KEY: Final = "PADDOCK_SELFTEST_KEY"
"""The secret that no module receives, and that the host injects into some modules' requests to one service."""

_TIMES: Final = 1000
_LONGEST_FOLDER: Final = 60  # characters; with more, a socket in it would have too long a name
_CREATE: Final = 0o1000  # IPC_CREAT
_EXCLUSIVE: Final = 0o2000  # IPC_EXCL
_REMOVE: Final = 0  # IPC_RMID
_OWNERS: Final = 0o600
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - it is what others share that is wanted


class AttackTestbed:
    """One set of all targets."""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._fill(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _fill(self, stack: contextlib.ExitStack) -> None:
        mark = secrets.token_hex(8)
        self.secret = f"canary-{mark}"
        # Two: the second is in no attack's arguments, so a copy of it was left by another part.
        self.confidence = f"confidence-{mark[::-1]}"
        # Many copies, so that later uses of the memory do not overwrite all of them.
        # With letters that several kinds of text encode.
        self.key = f"sk/{mark}+{secrets.token_hex(8)}"
        self.environ = {VARIABLE: self.secret, CONFIDENCE: " ".join([self.confidence] * _TIMES), KEY: self.key}
        folder = tempfile.gettempdir()
        short = folder if len(folder) <= _LONGEST_FOLDER else "/tmp"  # noqa: S108 - made by mkdtemp
        self.folder = Path(tempfile.mkdtemp(prefix="paddock-selftest-", dir=short)).resolve()
        stack.callback(remove, self.folder)  # with a session's files there, which are read-only
        self.files = Canaries(self.folder, self.secret, self.key, ATTACKER)
        # Keeps a session's records away from those of real sessions, and its user's home from the real one.
        kept = dict.fromkeys(("XDG_CACHE_HOME", "XDG_CONFIG_HOME"), str(self.folder / "kept"))
        self.kept_here = {**kept, "XDG_STATE_HOME": str(self.files.state), "HOME": str(self.files.users_home)}
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()
        self.listeners = ForbiddenListeners(stack, mark, self.files.outside, self.files.workspace)
        self.network = AttackNetwork(stack, mark, self.key)
        self.shared_objects = SharedObjects(stack, mark, self.secret)
        self.target_process = TargetProcess(self.secret, self.files.key)
        stack.callback(lambda: self.target_process.end())
        self.descriptors = tuple(self._leave_open(stack))

    def _leave_open(self, stack: contextlib.ExitStack) -> Iterator[int]:
        """Open descriptors that a careless program would pass on to every process it starts."""
        opened = [
            os.open(self.files.key, os.O_RDONLY),
            os.open(self.files.home, os.O_RDONLY),
            os.dup(self.listeners.listener),
        ]
        for descriptor in opened:
            stack.callback(os.close, descriptor)
            os.set_inheritable(descriptor, True)
            yield descriptor

    def marks(self) -> tuple[str, ...]:
        """Return the differences from the planted state."""
        knocks = (*self.listeners.knocks(), *self.network.knocks())
        return (*self.files.changes(), *self.target_process.injuries(), *knocks)

    def renew(self) -> None:
        """Restore everything to its first state."""
        self.files.restore()
        self.target_process.heal()
        self.listeners.knocks()
        self.network.knocks()
        for path in self.scratch.iterdir():
            shutil.rmtree(path, ignore_errors=True)

    def lock(self, attack: str) -> Path:
        """Return the file that an attack's survivors would hold locked; `renew` leaves it as it is, and so its lock."""
        lock = self.files.locks / attack
        if not lock.exists():
            lock.touch()
            lock.chmod(0o666)
        return lock

    def is_lock_held(self, attack: str) -> bool:
        """Return whether any process holds the lock of an attack."""
        with self.lock(attack).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False


class SharedObjects:
    """One of each kind, containing a secret where possible, under names that contain `mark`; they go with `stack`.

    Every kind is tried; the attack on a kind that the machine lacks proves nothing there.
    """

    def __init__(self, stack: contextlib.ExitStack, mark: str, secret: str) -> None:
        self.key = secrets.randbelow(0x7FFFFFFF - 1) + 1
        self.queue = f"paddock-{mark}"
        self.file = _SHARED_MEMORY / f"paddock-{mark}"
        self._stack = stack
        kinds: tuple[Callable[[], object], ...] = (
            lambda: self._make_segment(secret),
            lambda: self._make("msg", self.key, _CREATE | _EXCLUSIVE | _OWNERS),
            lambda: self._make("sem", self.key, 1, _CREATE | _EXCLUSIVE | _OWNERS),
            self._make_queue,
            lambda: self._make_file(secret),
        )
        for make in kinds:
            with contextlib.suppress(OSError):
                make()

    def _make_segment(self, secret: str) -> None:
        number = self._make("shm", self.key, 4096, _CREATE | _EXCLUSIVE | _OWNERS)
        address = syscalls.call("shmat", number, None, 0)
        ctypes.memmove(address, secret.encode() + b"\0", len(secret) + 1)
        syscalls.call("shmdt", address)

    def _make(self, kind: str, *arguments: int) -> int:
        number = syscalls.call(f"{kind}get", *arguments)
        removal = (number, 0, _REMOVE) if kind == "sem" else (number, _REMOVE, None)
        self._stack.callback(syscalls.call, f"{kind}ctl", *removal)
        return number

    def _make_queue(self) -> None:
        name = self.queue.encode()
        os.close(syscalls.call("mq_open", name, os.O_CREAT | os.O_EXCL | os.O_RDWR, _OWNERS, None))
        self._stack.callback(syscalls.call, "mq_unlink", name)

    def _make_file(self, secret: str) -> None:
        descriptor = os.open(self.file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        self._stack.callback(self.file.unlink, missing_ok=True)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(secret)
