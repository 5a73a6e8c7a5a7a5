"""Run commands unconfined, as the user would: for the user's own keys, agents and helpers.

Never for commands that handle untrusted data. The contract's bounds hold all the same. When a command has ended, its
process group has ended too.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from paddock_sources.commands.command_output import CommandOutput, input_pieces
from paddock_sources.commands.command_runner import (
    MAX_STDOUT_BYTES,
    CommandAccess,
    CommandError,
    CommandMissingError,
    CommandResult,
    CommandSession,
    CommandTimeoutError,
)

_READ_BYTES = 128 << 10
_GLANCE_SECONDS = 0.1  # between two looks at whether the caller still wants it
_GRACE_SECONDS = 0.5  # from the polite signal to the kill
_LAST_WORDS_SECONDS = 1.0  # for output that a process outside the group still holds open


class DirectRunner:
    """Runs commands unconfined; of the access, only the name and the environment count.

    Args:
        environ: the user's own environment; commands get its HOME, and its PATH without relative folders.
        check: called several times a second while a command runs; its exception ends the command and propagates.
    """

    def __init__(self, environ: Mapping[str, str] | None = None, *, check: Callable[[], None] = lambda: None) -> None:
        self._environ = os.environ if environ is None else environ
        self._check = check

    @contextmanager
    def open(self, access: CommandAccess) -> Iterator[CommandSession]:
        """Return a place where commands can be run; it is the whole machine."""
        own = {"PATH": _absolute_folders(self._environ.get("PATH", ""))}
        if "HOME" in self._environ:
            own["HOME"] = self._environ["HOME"]
        yield _DirectSession(access.name, {"LC_ALL": "C.UTF-8", **access.environ, **own}, self._check)


def _absolute_folders(path: str) -> str:
    """Return a PATH without relative folders: the current folder may be a stranger's project."""
    # An empty PATH would mean the current folder.
    return os.pathsep.join(filter(os.path.isabs, path.split(os.pathsep))) or os.defpath


class _DirectSession:
    """See `CommandSession`."""

    level = "none"

    def __init__(self, name: str, environ: Mapping[str, str], check: Callable[[], None]) -> None:
        self._name = name
        self._environ = environ
        self._check = check

    def seen_as(self, path: Path) -> Path:
        return path

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | Iterable[bytes] = b"",
        on_stdout: Callable[[memoryview], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
        timeout: float = 60.0,
        max_stdout_bytes: int = MAX_STDOUT_BYTES,
    ) -> CommandResult:
        output = CommandOutput(self._name, on_stdout, on_stderr, max_stdout_bytes)
        try:
            process = subprocess.Popen(  # noqa: S603 - what to run is the caller's to say
                list(argv),
                bufsize=0,
                env=dict(self._environ),
                stdin=subprocess.PIPE if stdin != b"" else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = ((error.strerror or str(error)) if isinstance(error, OSError) else str(error)).lower()
            if isinstance(error, FileNotFoundError):
                raise CommandMissingError(self._name, argv[0], reason) from error
            raise CommandError(self._name, f"`{argv[0]}` cannot be started: {reason}") from error
        run = _Run(self._name, process, input_pieces(stdin, _READ_BYTES), output)
        try:
            code = run.finish(timeout, self._check)
        except BaseException:
            run.end(_GRACE_SECONDS)
            raise
        finally:
            run.close()
        output.finish()
        return CommandResult(code, output.stdout, output.stderr)


class _Run:
    """One process on its way to its end."""

    def __init__(
        self, name: str, process: subprocess.Popen[bytes], pieces: Iterator[memoryview], output: CommandOutput
    ) -> None:
        assert process.stdout is not None and process.stderr is not None
        self._name = name
        self._process = process
        self._pieces = pieces
        self._piece = memoryview(b"")
        self._stdin = process.stdin
        self._outputs: dict[int, tuple[IO[bytes], Callable[[memoryview], None]]] = {
            process.stdout.fileno(): (process.stdout, output.take_stdout),
            process.stderr.fileno(): (process.stderr, output.take_stderr),
        }
        self._pidfd = os.pidfd_open(process.pid)
        if self._stdin is not None:
            os.set_blocking(self._stdin.fileno(), False)

    def finish(self, timeout: float, check: Callable[[], None]) -> int:
        """Carry input and output to and fro until it has ended; return its exit code.

        Raises:
            CommandTimeoutError: it takes too long.
        """
        deadline = time.monotonic() + timeout
        give_up = float("inf")
        while self._process.returncode is None or (self._outputs and time.monotonic() < give_up):
            check()
            left = deadline - time.monotonic()
            if left <= 0:
                raise CommandTimeoutError(self._name, timeout)
            ready = self._wait(min(left, _GLANCE_SECONDS))
            if self._stdin is not None and self._stdin.fileno() in ready:
                self._write()
            for fd in [fd for fd in self._outputs if fd in ready]:
                self._read(fd)
                if self._process.returncode is not None:
                    give_up = time.monotonic() + _LAST_WORDS_SECONDS
            if self._pidfd in ready and self._process.returncode is None:
                self._kill()  # kills what it left behind, while its number cannot mean another process
                self._process.wait()
                give_up = time.monotonic() + _LAST_WORDS_SECONDS
        return self._process.returncode

    def end(self, grace: float) -> None:
        """End its process group: ask, and `grace` seconds later kill."""
        if self._process.returncode is not None:
            return
        self._signal(signal.SIGTERM)
        dead = select.poll()
        dead.register(self._pidfd, select.POLLIN)
        dead.poll(grace * 1000)
        self._kill()
        self._process.wait()

    def close(self) -> None:
        """Close all descriptors."""
        self._close_input()
        for pipe, _ in self._outputs.values():
            pipe.close()
        os.close(self._pidfd)

    def _wait(self, seconds: float) -> dict[int, int]:
        poller = select.poll()
        for fd in self._outputs:
            poller.register(fd, select.POLLIN)
        if self._process.returncode is None:
            poller.register(self._pidfd, select.POLLIN)
        if self._stdin is not None:
            poller.register(self._stdin, select.POLLOUT)
        return dict(poller.poll(seconds * 1000))

    def _read(self, fd: int) -> None:
        pipe, take = self._outputs[fd]
        data = os.read(fd, _READ_BYTES)
        if data:
            take(memoryview(data))
        else:
            del self._outputs[fd]
            pipe.close()

    def _write(self) -> None:
        assert self._stdin is not None
        if not self._piece:
            self._piece = next(self._pieces, memoryview(b""))
        try:
            written = os.write(self._stdin.fileno(), self._piece) if self._piece else 0
        except BlockingIOError:
            return
        except OSError:
            written = 0  # the command reads no further
        self._piece = self._piece[written:]
        if written == 0:
            self._close_input()

    def _close_input(self) -> None:
        if self._stdin is not None:
            self._stdin.close()
            self._stdin = None

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass
