"""Run an operator's command that prints a secret, such as `pass show x`, and return its output.

The command is found and run in the operator's own environment, without a shell and without a terminal, in the home
folder: nothing in the folder that a session works in influences it. It ends within a bounded time and leaves nothing of
its process group behind. No error contains its output.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import anyio

from paddock.text import reason_of

MAX_BYTES: Final = 64 * 1024
TIMEOUT_SECONDS: Final = 30.0

_CHUNK_BYTES: Final = 8192
_MAX_ERROR_BYTES: Final = 8192  # of stderr, only the end is kept; its last line is shown
_MAX_SHOWN_CHARACTERS: Final = 200
_DRAIN_SECONDS: Final = 1.0  # for the rest in the pipes when the command has ended; a process it left may hold them
_REAP_SECONDS: Final = 2.0
_SHORTEST_HIDDEN: Final = 4  # characters of a line of the output, which stderr may repeat


class NoSecretError(Exception):
    """Raised where a secret was looked for and is unavailable; `problem` says why, without a command's output."""

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem = problem
        self.hint = hint
        super().__init__(problem)


def find_program(name: str, environ: Mapping[str, str]) -> str:
    """Return the file of a command's first word: an absolute path, or a name to be looked up in PATH.

    Raises:
        NoSecretError: there is none.
    """
    if os.path.isabs(name):
        if os.path.isfile(name) and os.access(name, os.X_OK):
            return name
        raise NoSecretError(f"`{name}` is no program", "name one that is there and can be executed")
    if "/" in name:
        raise NoSecretError(f"`{name}` is a relative path", "write an absolute path, or a name to be found in PATH")
    # A relative folder in PATH depends on the current folder, which may be another person's project.
    folders = [folder for folder in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]
    found = shutil.which(name, path=os.pathsep.join(folders)) if folders else None
    if found is None:
        raise NoSecretError(
            f"there is no program `{name}` in {', '.join(f'`{folder}`' for folder in folders) or 'PATH'}",
            "install it, or write its absolute path",
        )
    return found


async def run_secret_command(
    argv: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    *,
    timeout: float = TIMEOUT_SECONDS,
) -> bytes:
    """Return a command's output; it is ended if the wait is cancelled.

    Raises:
        NoSecretError: it could not be run, failed, or took too long, or printed too much.
    """
    program = find_program(argv[0], environ)
    try:
        # The operator's own command, from a file that only they can write; starting it takes a millisecond.
        child = subprocess.Popen(  # noqa: ASYNC220, S603
            [*argv],
            executable=program,
            env=dict(environ),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a process group to end as a whole, and no terminal on which the command could ask
        )
    except (OSError, ValueError) as error:
        raise NoSecretError(f"`{argv[0]}` cannot be run: {reason_of(error)}") from None
    output = _Output()
    try:
        await output.listen(child, timeout)
    except OSError as error:  # of a host that has no descriptors left, for example
        raise NoSecretError(f"`{argv[0]}` cannot be listened to: {reason_of(error)}") from None
    finally:
        status = _end(child)
    return output.result(argv[0], status, timeout)


def _end(child: subprocess.Popen[bytes]) -> int:
    """End the rest of a command, and return its own exit code, if it exited by itself."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
    for pipe in (child.stdout, child.stderr):
        assert pipe is not None
        pipe.close()
    try:
        return child.wait(_REAP_SECONDS)
    except subprocess.TimeoutExpired:  # a command that runs as another user, as sudo does, cannot be killed from here
        return -signal.SIGKILL


@dataclass(slots=True)
class _Output:
    """A command's output so far, and whether it has ended."""

    printed: bytearray = field(default_factory=bytearray, repr=False)
    complaint: bytearray = field(default_factory=bytearray, repr=False)
    has_ended: bool = False

    async def listen(self, child: subprocess.Popen[bytes], timeout: float) -> None:
        """Read until the command has ended and its pipes are empty, or too much was read, or it takes too long."""
        assert child.stdout is not None and child.stderr is not None
        with (
            open(os.pidfd_open(child.pid), "rb") as end,  # noqa: ASYNC230 - a descriptor to wait for, and no file
            anyio.move_on_after(timeout) as scope,
        ):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, child.stdout, scope)
                tasks.start_soon(self._complain, child.stderr)
                await anyio.wait_readable(end)
                self.has_ended = True
                scope.deadline = min(scope.deadline, anyio.current_time() + _DRAIN_SECONDS)

    async def _read(self, pipe: IO[bytes], scope: anyio.CancelScope) -> None:
        async for chunk in _chunks(pipe):
            self.printed += chunk
            if len(self.printed) > MAX_BYTES:
                scope.cancel()

    async def _complain(self, pipe: IO[bytes]) -> None:
        async for chunk in _chunks(pipe):
            self.complaint += chunk
            del self.complaint[:-_MAX_ERROR_BYTES]

    def result(self, name: str, status: int, timeout: float) -> bytes:
        if len(self.printed) > MAX_BYTES:
            raise NoSecretError(f"`{name}` prints more than {MAX_BYTES // 1024} KiB", "it is to print the secret alone")
        if not self.has_ended:
            raise NoSecretError(
                f"`{name}` had not ended after {timeout:g} s{self._last_line()}",
                "it cannot ask anything, for it has no terminal: unlock what it needs first, and try again",
            )
        if status != 0:
            how = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
            raise NoSecretError(f"`{name}` {how}{self._last_line()}", "run it by hand to see what is wrong")
        return bytes(self.printed)

    def _last_line(self) -> str:
        """Return the last line of its stderr, without anything that it also printed to stdout."""
        lines = self.complaint.decode("utf-8", "replace").strip().splitlines()
        line = lines[-1].strip() if lines else ""
        for printed in sorted(self.printed.decode("utf-8", "replace").split(), key=len, reverse=True):
            if len(printed) >= _SHORTEST_HIDDEN:
                line = line.replace(printed, "…")
        shown = line if len(line) <= _MAX_SHOWN_CHARACTERS else line[:_MAX_SHOWN_CHARACTERS] + "…"
        return f": {shown}" if shown else ""


async def _chunks(pipe: IO[bytes]) -> AsyncIterator[bytes]:
    # The command can open its pipe anew, and read what was readable here.
    os.set_blocking(pipe.fileno(), False)
    while True:
        await anyio.wait_readable(pipe)
        try:
            chunk = os.read(pipe.fileno(), _CHUNK_BYTES)
        except BlockingIOError:
            continue
        if not chunk:
            return
        yield chunk
