"""GitPython's git, with each command sent to a session of the `CommandRunner`, never to a shell.

This module imports GitPython, which takes a while: import it where git is needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, Self, cast

from paddock_sources.commands.command_runner import CommandResult, CommandSession


@contextmanager
def _nothing_run() -> Iterator[None]:
    """Hide git from GitPython during its import, which would run a git here, or another program of that name."""
    # A device is never executed; any other name could be a program's on some machine.
    meanwhile = {"GIT_PYTHON_GIT_EXECUTABLE": os.devnull, "GIT_PYTHON_REFRESH": "quiet"}
    before = {name: os.environ.get(name) for name in meanwhile}
    os.environ.update(meanwhile)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


with _nothing_run():
    from git import Git

_MAX_STDOUT_BYTES = 32 << 20  # of collected output; the receiver bounds output that is passed on
_UNBOUNDED = 1 << 40


class TakesBytes(Protocol):
    """A receiver of output as it arrives; its exception ends the command."""

    def write(self, data: memoryview, /) -> None: ...


class GitFailedError(Exception):
    """Raised when git ended with an error; `result` holds all its output."""

    def __init__(self, result: CommandResult) -> None:
        super().__init__(f"git ended with code {result.code}")
        self.result = result


class SandboxedGit(Git):
    """Runs git in `session` on the bare repository at `folder`.

    Each command has `seconds` unless `kill_after_timeout` is given; `listener` gets git's progress lines.
    """

    def __init__(
        self,
        session: CommandSession,
        folder: Path,
        *,
        seconds: float,
        listener: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(None)
        self.folder = folder
        self._listener = listener
        self._session = session
        self._seconds = seconds

    def execute(  # type: ignore[override]  # narrower: no shell, no process to hold, no environment of its own
        self,
        command: Sequence[str],
        istream: bytes | Iterable[bytes] | None = None,
        output_stream: TakesBytes | None = None,
        kill_after_timeout: float | None = None,
    ) -> bytes:
        """Run `git` with the arguments of `command`, and return all that it printed; see `git.Git.execute`.

        Raises:
            GitFailedError: it ended with an error.
            CommandError: it could not be run, or was ended.
        """
        argv = ["git", f"--git-dir={self.folder}", *(str(argument) for argument in command[1:])]
        result = self._session.run(
            argv,
            stdin=b"" if istream is None else istream,
            on_stdout=output_stream.write if output_stream is not None else None,
            on_stderr=self._listener,
            timeout=self._seconds if kill_after_timeout is None else kill_after_timeout,
            max_stdout_bytes=_MAX_STDOUT_BYTES if output_stream is None else _UNBOUNDED,
        )
        if result.code != 0:
            raise GitFailedError(result)
        return result.stdout

    def configured(self, *settings: str) -> Self:
        """Return this, with settings (`name=value`) for the next command alone."""
        self(c=list(settings))
        return self

    def text(self, command: str, *arguments: str, **options: Any) -> str:
        """Run a command and return its output as text, without the newline at its end."""
        return self.data(command, *arguments, **options).removesuffix(b"\n").decode("utf-8", errors="surrogateescape")

    def data(self, command: str, *arguments: str, **options: Any) -> bytes:
        """Run a command and return all that it printed."""
        return cast(bytes, self._call_process(command, *arguments, **options))
