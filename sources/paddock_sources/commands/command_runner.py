"""The interface through which programs run that handle untrusted data: git, uv, and our own for packages.

Implementations sandbox the programs; this file does not know how. It bounds their output, and passes it on as it
arrives. All methods block. They are called in threads, possibly in several at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from paddock_sources.errors import SourceError

MAX_STDOUT_BYTES = 64 << 20
MAX_STDERR_BYTES = 64 << 10  # the end of it is kept
_MAX_LINE_BYTES = 8 << 10  # of a line that is passed on; a longer one is passed on in pieces


@dataclass(frozen=True, slots=True)
class CommandAccess:
    """The access of one session's commands, besides the system's programs, which all of them may run.

    `name` is for messages (`git`). `reads` and `writes` are absolute paths that exist, files or folders; programs below
    them may be run as well. `hosts` are `host:port`, the only ones the commands can connect to. A name leads to a
    private address only if the user named the host (`is_users_word`); otherwise such an address is named literally.
    `environ` is their whole environment, except for PATH, HOME and what it takes to reach the hosts. `written_bytes`
    bounds each file they write.
    """

    name: str
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    written_bytes: int = 2 << 30
    is_users_word: bool = False


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended: `code` is negative for a signal. `refused` are hosts that it tried to reach in vain."""

    code: int
    stdout: bytes
    stderr: bytes
    refused: tuple[str, ...] = ()


class CommandError(SourceError):
    """Raised when a command could not be run, or was ended early; `problem` says why."""

    def __init__(self, name: str, problem: str, *, hints: Iterable[str] = ()) -> None:
        self.name = name
        self.problem = problem
        super().__init__(f"{name}: {problem}", hints=hints)


class CommandMissingError(CommandError):
    """Raised when there is no such program as `program`; one that is there and may not be run is not missing."""

    def __init__(self, name: str, program: str, reason: str) -> None:
        self.program = program
        super().__init__(name, f"`{program}` cannot be started: {reason}", hints=[f"install `{program}`"])


class CommandTimeoutError(CommandError):
    """Raised when a command was ended because it took more than `seconds`."""

    def __init__(self, name: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(name, f"it was ended because it took more than {seconds:g} s")


class CommandOutputError(CommandError):
    """Raised when a command was ended because it printed more than it may."""


class CommandOutput:
    """Collects the output of the command `name`, or passes it on; see `CommandSession.run`."""

    def __init__(
        self,
        name: str,
        on_stdout: Callable[[memoryview], None] | None,
        on_stderr: Callable[[str], None] | None,
        max_stdout_bytes: int,
    ) -> None:
        self._name = name
        self._on_stdout = on_stdout
        self._on_stderr = on_stderr
        self._max_stdout_bytes = max_stdout_bytes
        self._printed = 0
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._line = bytearray()

    @property
    def stdout(self) -> bytes:
        """The output that was not passed on."""
        return bytes(self._stdout)

    @property
    def stderr(self) -> bytes:
        """The end of the standard error output."""
        return bytes(self._stderr[-MAX_STDERR_BYTES:])

    def take_stdout(self, data: memoryview) -> None:
        """Add a piece of output; it is not kept beyond the call.

        Raises:
            CommandOutputError: there is more output than allowed.
        """
        self._printed += len(data)
        if self._printed > self._max_stdout_bytes:
            raise CommandOutputError(
                self._name, f"it was ended because it printed more than {self._max_stdout_bytes} bytes"
            )
        if self._on_stdout is None:
            self._stdout += data
        else:
            self._on_stdout(data)

    def take_stderr(self, data: memoryview) -> None:
        """Take messages that were printed."""
        self._stderr += data
        if len(self._stderr) > 2 * MAX_STDERR_BYTES:
            del self._stderr[:-MAX_STDERR_BYTES]
        if self._on_stderr is not None:
            self._line += data
            *lines, rest = self._line.replace(b"\r", b"\n").split(b"\n")
            self._line = bytearray(rest)
            for line in lines:
                self._pass_on(line)
            while len(self._line) > _MAX_LINE_BYTES:
                piece = bytes(self._line[:_MAX_LINE_BYTES])
                del self._line[:_MAX_LINE_BYTES]
                self._pass_on(piece)

    def finish(self) -> None:
        """Pass on the last output, which has no end of a line."""
        if self._line:
            line, self._line = bytes(self._line), bytearray()
            self._pass_on(line)

    def _pass_on(self, line: bytes | bytearray) -> None:
        if line and self._on_stderr is not None:
            self._on_stderr(line.decode("utf-8", errors="replace"))


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its input, which may be made as it goes, what takes its output, and the seconds that it has."""

    argv: Sequence[str]
    stdin: bytes | Iterable[bytes]
    output: CommandOutput
    timeout: float


class CommandSession:
    """A place where commands can be run, one at a time.

    `level` is the isolation level of its commands, `none` where they are not sandboxed. `refused` are the hosts that
    they tried to reach in vain.
    """

    def __init__(self, name: str, level: str = "none") -> None:
        self.level = level
        self.refused: Mapping[str, None] = {}
        self._name = name

    def seen_as(self, path: Path) -> Path:
        """Return a path by which this process sees what the commands see at `path`."""
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
        """Run a command to its end.

        `on_stdout` gets the output as it arrives, instead of having it collected. `on_stderr` gets each line of the
        standard error, ended by a newline or a carriage return. An exception of either ends the command and propagates.

        Raises:
            CommandError: it could not be started or was ended; nothing of it is left running.
        """
        output = CommandOutput(self._name, on_stdout, on_stderr, max_stdout_bytes)
        code = self.carry(Command(argv, stdin, output, timeout))
        output.finish()
        return CommandResult(code, output.stdout, output.stderr, tuple(self.refused))

    def carry(self, command: Command) -> int:
        """Run a command to its end with all its output but the rest of a line taken; return its exit code."""
        raise NotImplementedError


class CommandRunner(Protocol):
    """Opens places where commands can be run."""

    def open(self, access: CommandAccess) -> AbstractContextManager[CommandSession]:
        """Return a session, which is set up when it is entered; leaving it ends all that still runs in it.

        Raises:
            CommandError: entering raises it when no such session can be had. Leaving raises it when something may still
                run: do not use the folders it could write to then.
        """
        ...


@dataclass(frozen=True, slots=True)
class RefusingRunner:
    """Refuses to run anything, with a reason; that only matters where something has to be run."""

    why: Callable[[str], SourceError]

    def open(self, access: CommandAccess) -> AbstractContextManager[CommandSession]:
        """Raise the reason for this command."""
        raise self.why(access.name)


@dataclass(frozen=True, slots=True)
class UserHostsRunner:
    """Runs commands whose hosts the user named."""

    runner: CommandRunner

    def open(self, access: CommandAccess) -> AbstractContextManager[CommandSession]:
        """Open a session of the other runner, on the user's word."""
        return self.runner.open(replace(access, is_users_word=True))
