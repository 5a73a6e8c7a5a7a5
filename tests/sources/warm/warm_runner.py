"""Run the Python programs that handle packages in a process that has loaded what they import: most of their work.

Each has the arguments, environment, input and folder that it would have. Other commands are run as `DirectRunner` does.
How the programs start, the tests of sandboxed ones show.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from paddock_sources.commands.command_runner import (
    Command,
    CommandAccess,
    CommandResult,
    CommandSession,
    CommandTimeoutError,
)
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.environment.interpreter import Interpreter
from support.warm_process import WarmProcess

_FLAGS = ("-I", "-S", "-B")
_QUIET = ("-W", "ignore")
_NO_AUTHORITIES = os.devnull  # to load a machine's own takes longer than all else that a short program does
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from sources.warm.warm_programs import serve; serve()"


class WarmRunner(DirectRunner):
    """Runs commands unconfined, those of Python in children of `process`."""

    def __init__(self, process: WarmProcess, python: Path) -> None:
        super().__init__()
        self._process = process
        self._command = (str(python), *_FLAGS)

    @contextmanager
    def open(self, access: CommandAccess) -> Iterator[CommandSession]:
        """Return a place where commands can be run; it is the whole machine."""
        with super().open(access) as cold:
            yield _WarmSession(self, cold, access)

    def program_of(self, argv: Sequence[str]) -> Sequence[str]:
        """Return the program of a command and its arguments; nothing, if it is none that the process can become."""
        program = argv[len(self._command) :]
        if tuple(program[: len(_QUIET)]) == _QUIET:
            program = program[len(_QUIET) :]
        return program if tuple(argv[: len(self._command)]) == self._command else ()

    def run(self, access: CommandAccess, program: Sequence[str], stdin: bytes, timeout: float) -> CommandResult:
        """Run a program of Python to its end."""
        own = {name: os.environ[name] for name in ("PATH", "HOME")}
        usual = {"LC_ALL": "C.UTF-8", "SSL_CERT_FILE": _NO_AUTHORITIES}
        with ExitStack() as stack:
            given, printed, errors = (
                stack.enter_context(open(os.memfd_create(name), "w+b", 0)) for name in ("stdin", "stdout", "stderr")
            )
            given.write(stdin)
            given.seek(0)
            streams = [file.fileno() for file in (given, printed, errors)]
            command = self._process.begin(program, streams, None, {**usual, **access.environ, **own})
            try:
                code = command.wait(timeout)
            except TimeoutError:
                os.kill(command.pid, signal.SIGKILL)
                command.wait()
                raise CommandTimeoutError(access.name, timeout) from None
            printed.seek(0)
            errors.seek(0)
            return CommandResult(code, printed.read(), errors.read())


class _WarmSession(CommandSession):
    def __init__(self, runner: WarmRunner, cold: CommandSession, access: CommandAccess) -> None:
        super().__init__(access.name)
        self._runner = runner
        self._cold = cold
        self._access = access

    def carry(self, command: Command) -> int:
        program = self._runner.program_of(command.argv)
        if not program:
            return self._cold.carry(command)
        stdin = command.stdin if isinstance(command.stdin, bytes) else b"".join(command.stdin)
        done = self._runner.run(self._access, program, stdin, command.timeout)
        command.output.take_stdout(memoryview(done.stdout))
        command.output.take_stderr(memoryview(done.stderr))
        return done.code


@contextmanager
def warm_runner() -> Iterator[WarmRunner]:
    """Start the process that becomes the programs; at the end it ends."""
    python = Interpreter.this().path
    with WarmProcess([str(python), *_FLAGS, *_QUIET, "-c", _PROGRAM, str(Path(__file__).parents[2])]) as process:
        yield WarmRunner(process, python)
