"""Notice and reap the end of a process that the host itself started, without a thread and without waiting.

The interpreter's own watchers take a thread per child; a pidfd becomes readable on the loop instead.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess

import anyio


class Reaper:
    """Watches one child from its start; the child is reaped on the loop as soon as it has ended."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(child.pid)
        self._ended = asyncio.Event()
        self._loop.add_reader(self._pidfd, self._reap)

    @property
    def has_ended(self) -> bool:
        """True once the child is reaped."""
        return self._child.returncode is not None

    async def ends_within(self, seconds: float) -> bool:
        """Wait for the child's end, at most this long; return whether it ended."""
        with anyio.move_on_after(seconds):
            await self._ended.wait()
        return self.has_ended

    def kill(self) -> None:
        """Kill the child itself, nothing it started; an ended child is left alone."""
        if not self.has_ended:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _reap(self) -> None:
        if self._child.poll() is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._ended.set()
