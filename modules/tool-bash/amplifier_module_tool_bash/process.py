"""A shell command as a process group of its own, and its output.

The group is one thing: the command's leftover processes end with it. A process that left the group ends with the
module's process tree. Output is always read on, so that no command waits for a reader, and kept within bounds.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

_TERM_SECONDS = 2.0  # from SIGTERM to SIGKILL
_LOOK_SECONDS = 0.02  # between looks whether a group is gone, since the system gives no notice
_DRAIN_SECONDS = 2.0  # for output in transit; a process that left the group may keep the pipe open for ever
_CHUNK_BYTES = 65_536


class KeptOutput:
    """The first and the last bytes of a stream: `limit` in all, half of them each. The rest is counted."""

    def __init__(self, limit: int) -> None:
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self._total += len(data)
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        # Cut at twice the length, so that not every small piece moves the whole tail.
        if len(self._tail) > 2 * self._tail_limit:
            del self._tail[: -self._tail_limit]

    def take(self) -> str:
        """Return the text kept since the last call, with a line about the amount that is missing in between."""
        tail = self._tail[-self._tail_limit :]
        left_out = self._total - len(self._head) - len(tail)
        if left_out:
            text = f"{_text(self._head)}\n[... {left_out} bytes are left out here ...]\n{_text(tail)}"
        else:
            text = _text(self._head + tail)
        self._head, self._tail, self._total = bytearray(), bytearray(), 0
        return text


def _text(data: bytearray) -> str:
    return data.decode("utf-8", errors="replace")


class Process:
    """A command that was started; `stop` has to be called in the end."""

    def __init__(self, process: asyncio.subprocess.Process, stdout: KeptOutput, stderr: KeptOutput) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self._process = process
        self._readers: list[asyncio.Task[None]] = []

    @classmethod
    async def start(cls, shell: str, command: str, folder: Path, max_output_bytes: int) -> Process:
        """Start a command in a folder, with nothing to read.

        Raises:
            OSError: the shell or the folder is not there, or may not be used.
        """
        # The pipes are ours and not the event loop's: it may wait for their end before it reports the command's.
        ends = [os.pipe(), os.pipe()]
        try:
            process = await asyncio.create_subprocess_exec(
                *(shell, "-c", command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=ends[0][1],
                stderr=ends[1][1],
                cwd=folder,
                start_new_session=True,
            )
        except BaseException:
            for read_end, _ in ends:
                os.close(read_end)
            raise
        finally:
            for _, write_end in ends:
                os.close(write_end)
        started = cls(process, KeptOutput(max_output_bytes), KeptOutput(max_output_bytes))
        for (read_end, _), kept in zip(ends, (started.stdout, started.stderr), strict=True):
            started._readers.append(asyncio.create_task(_read(read_end, kept)))
        return started

    @property
    def returncode(self) -> int | None:
        """How the shell ended: its exit code, or the negative number of a signal; None while it runs."""
        return self._process.returncode

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for the shell's end, for so long at most if that is given, and return whether it came."""
        try:
            await asyncio.wait_for(self._process.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """End all processes of the command: SIGTERM, then SIGKILL; and read their remaining output."""
        try:
            if self._signal(signal.SIGTERM) and not await self._is_gone_within(_TERM_SECONDS):
                self._signal(signal.SIGKILL)
            await self._process.wait()
        finally:
            self._signal(signal.SIGKILL)  # also where this was cancelled
            _, pending = await asyncio.wait(self._readers, timeout=_DRAIN_SECONDS)
            for reader in pending:
                reader.cancel()

    async def _is_gone_within(self, seconds: float) -> bool:
        clock = asyncio.get_running_loop().time
        deadline = clock() + seconds
        while clock() < deadline:
            if not self._signal(0):
                return True
            await asyncio.sleep(_LOOK_SECONDS)
        return False

    def _signal(self, number: int) -> bool:
        """Send a signal to the group, and return whether there is one."""
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


async def _read(read_end: int, kept: KeptOutput) -> None:
    """Read a pipe to its end, and keep as much of it as fits."""
    reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    try:
        while data := await reader.read(_CHUNK_BYTES):
            kept.add(data)
    finally:
        transport.close()
