"""What attacks are aimed at, planted on the machine for the time of one campaign, and watched.

`marks` is the host's own opinion of an attack, whatever the attacker says: what on the stage is not as it was.
`renew` has everything as it was again. Leaving removes all of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from paddock.selftest.testbed.canaries import Canaries
from paddock.selftest.testbed.commons import SharedObjects
from paddock.selftest.testbed.doors import ForbiddenListeners
from paddock.selftest.testbed.neighbourhood import AttackNetwork
from paddock.selftest.testbed.target import VARIABLE, TargetProcess
from paddock_sources.cache.staging import remove

ATTACKER: Final = Path(__file__).resolve().parents[1] / "modules" / "tool-attacker"

CONFIDENCE: Final = "PADDOCK_SELFTEST_CONFIDENCE"
"""The variable that one module is granted, and no other."""

KEY: Final = "PADDOCK_SELFTEST_KEY"
"""The secret that no module is told, and that the host puts into what some of them ask of one service."""

_TIMES: Final = 1000
_LONGEST_FOLDER: Final = 60  # characters; with more, a socket in it would have too long a name


class AttackTestbed:
    """One set of everything that can be attacked."""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._fill(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def _fill(self, stack: contextlib.ExitStack) -> None:
        mark = secrets.token_hex(8)
        self.secret = f"canary-{mark}"
        # Two, of which the second is never in an attack's arguments: where it is found, it was left by somebody else.
        self.confidence = f"confidence-{mark[::-1]}"
        # Many times over, so that what is done next with the memory it was in does not cover all of it.
        # With letters that texts of many kinds spell otherwise.
        self.key = f"sk/{mark}+{secrets.token_hex(8)}"
        self.environ = {VARIABLE: self.secret, CONFIDENCE: " ".join([self.confidence] * _TIMES), KEY: self.key}
        folder = tempfile.gettempdir()
        short = folder if len(folder) <= _LONGEST_FOLDER else "/tmp"  # noqa: S108 - made by mkdtemp
        self.folder = Path(tempfile.mkdtemp(prefix="paddock-selftest-", dir=short)).resolve()
        stack.callback(remove, self.folder)  # with what a session keeps there, which is read-only
        self.files = Canaries(self.folder, self.secret, self.key, ATTACKER)
        # What is kept of a session, which nobody wants to find where that of real ones is.
        self.kept_here = {
            name: str(self.folder / "kept") for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
        }
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()
        self.compiled = self.folder / "compiled"
        self.compiled.mkdir()
        self.lock = self.files.workspace / "lock"
        self.doors = ForbiddenListeners(mark, self.files.outside, self.files.workspace)
        stack.callback(self.doors.close)
        self.network = AttackNetwork(mark, self.key)
        stack.callback(self.network.close)
        self.commons = SharedObjects(mark, self.secret)
        stack.callback(self.commons.close)
        self.target_process = TargetProcess(self.secret, self.files.key)
        stack.callback(lambda: self.target_process.end())
        self.descriptors = tuple(self._leave_open(stack))

    def _leave_open(self, stack: contextlib.ExitStack) -> Iterator[int]:
        """Open what a careless program would hand on to every process it starts."""
        opened = [
            os.open(self.files.key, os.O_RDONLY),
            os.open(self.files.home, os.O_RDONLY),
            os.dup(self.doors.listener),
        ]
        for descriptor in opened:
            stack.callback(os.close, descriptor)
            os.set_inheritable(descriptor, True)
            yield descriptor

    def marks(self) -> tuple[str, ...]:
        """Return what is not as it was."""
        return (*self.files.changes(), *self.target_process.injuries(), *self.doors.knocks(), *self.network.knocks())

    def renew(self) -> None:
        """Have everything as it was at first."""
        self.files.restore()
        self.target_process.heal()
        self.doors.knocks()
        self.network.knocks()
        for path in self.scratch.iterdir():
            shutil.rmtree(path, ignore_errors=True)
        self.lock.touch()
        self.lock.chmod(0o666)

    def is_lock_held(self) -> bool:
        """Say whether any process holds the lock, which those that want to live on take."""
        with self.lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False
