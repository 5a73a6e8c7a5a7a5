"""The handling of a command's input and output, for every runner: bounded, and passed on as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from paddock_sources.commands.command_runner import MAX_STDERR_BYTES, CommandOutputError

_MAX_LINE_BYTES = 8 << 10  # of a line that is passed on; a longer one is passed on in pieces


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


def input_pieces(stdin: bytes | Iterable[bytes], most: int) -> Iterator[memoryview]:
    """Yield a command's input in pieces of at most so many bytes."""
    for chunk in (stdin,) if isinstance(stdin, (bytes, bytearray, memoryview)) else stdin:
        view = memoryview(chunk)
        for start in range(0, len(view), most):
            yield view[start : start + most]
