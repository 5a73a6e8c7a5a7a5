"""Try a place for real: make a group there, limit it, and move a process into it."""

from __future__ import annotations

import os
import subprocess
import sys

from paddock_sandbox.cgroup.group import Cgroup
from paddock_sandbox.cgroup.place import CgroupPlace

_MEMORY_BYTES = 64 << 20  # several times what the idle process needs
_TASKS = 8
_SHARE = 0.5

_IDLE = "import sys; sys.stdin.buffer.read()"  # until the pipe closes, as it does however this process ends


class GroupTrial:
    """Tries places with one idle process, started when first needed; as a context, leaves neither it nor a group."""

    def __init__(self, prefix: str) -> None:
        self._name = f"{prefix}trial-{os.urandom(4).hex()}"
        self._groups: list[Cgroup] = []
        self._idle: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> GroupTrial:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process, then remove the groups it was in."""
        if self._idle is not None:
            with self._idle:  # closes its pipe and waits for its end
                self._idle.kill()
        for group in self._groups:
            group.remove()

    def __call__(self, place: CgroupPlace) -> None:
        """Return if groups with the place's controllers can be made there.

        Raises:
            OSError: They cannot.
        """
        group = Cgroup.make([place], self._name)
        try:
            group.limit(
                _MEMORY_BYTES if "memory" in place.controllers else None,
                _TASKS if "pids" in place.controllers else None,
                _SHARE if "cpu" in place.controllers else None,
            )
            group.place(self._process().pid)
        except BaseException:
            group.remove()
            raise
        # It cannot be removed while the process is in it.
        self._groups.append(group)

    def _process(self) -> subprocess.Popen[bytes]:
        if self._idle is None:
            self._idle = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-I", "-S", "-c", _IDLE],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        return self._idle
