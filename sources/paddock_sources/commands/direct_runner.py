"""Run commands unconfined, as the user would: for the user's own keys, agents and helpers.

Never for commands that handle untrusted data. The contract's bounds hold all the same. When a command has ended, its
process group has ended too.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress

from paddock_sources.commands.command_pipes import CommandPipes
from paddock_sources.commands.command_runner import (
    Command,
    CommandAccess,
    CommandError,
    CommandMissingError,
    CommandSession,
)

_GRACE_SECONDS = 0.5  # from the polite signal to the kill


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
        # Without relative folders: the current folder may be a stranger's project, and an empty PATH would mean it.
        folders = filter(os.path.isabs, self._environ.get("PATH", "").split(os.pathsep))
        own = {"PATH": os.pathsep.join(folders) or os.defpath}
        if "HOME" in self._environ:
            own["HOME"] = self._environ["HOME"]
        yield _DirectSession(access.name, {"LC_ALL": "C.UTF-8", **access.environ, **own}, self._check)


class _DirectSession(CommandSession):
    def __init__(self, name: str, environ: Mapping[str, str], check: Callable[[], None]) -> None:
        super().__init__(name)
        self._environ = environ
        self._check = check

    def carry(self, command: Command) -> int:
        program = command.argv[0]
        with closing(CommandPipes(self._name, command)) as pipes:
            given, printed, messages = pipes.theirs
            try:
                process = subprocess.Popen(  # noqa: S603 - what to run is the caller's to say
                    list(command.argv),
                    env=dict(self._environ),
                    stdin=given,
                    stdout=printed,
                    stderr=messages,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                reason = (getattr(error, "strerror", None) or str(error)).lower()
                if isinstance(error, FileNotFoundError):
                    raise CommandMissingError(self._name, program, reason) from error
                raise CommandError(self._name, f"`{program}` cannot be started: {reason}") from error
            pipes.close_theirs()
            pidfd = os.pidfd_open(process.pid)
            try:
                return pipes.carry(pidfd, lambda: _kill(process), self._check)
            except BaseException:
                _end(process, pidfd)
                raise
            finally:
                os.close(pidfd)


def _end(process: subprocess.Popen[bytes], pidfd: int) -> None:
    """End its process group: ask, and kill a moment later."""
    if process.returncode is None:
        _signal(process, signal.SIGTERM)
        dead = select.poll()
        dead.register(pidfd, select.POLLIN)
        dead.poll(_GRACE_SECONDS * 1000)
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> int:
    """Kill its group, also what it left behind, while its number cannot mean another process; return its code."""
    _signal(process, signal.SIGKILL)
    return process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
