"""Start commands in the session's working directory, and describe in words how they ended."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from amplifier_core.models import ToolResult

from .failure import Failure
from .process import Process
from .settings import Settings

_CANNOT_RUN = (126, 127)  # exit codes of shells for a program that may not be executed, or does not exist
_OF_SYSTEM = ("/usr/", "/bin/", "/sbin/")
_REFUSED = re.compile(r"^\S*sh: (?:(?:\w+ )?\d+: )?(?P<program>[^:\s]+): ", re.MULTILINE)


class Shell:
    """The shell that commands are passed to: bash, or sh on a system without it."""

    def __init__(self, coordinator: Any, settings: Settings) -> None:
        self._coordinator = coordinator
        self._settings = settings

    @property
    def folder(self) -> Path:
        """The working directory of the session, as it is now; else that of the process."""
        lookup = getattr(self._coordinator, "get_capability", None)
        configured = lookup("session.working_dir") if lookup is not None else None
        return Path(configured) if configured else Path.cwd()

    async def start(self, command: str) -> Process:
        """Start a command.

        Raises:
            Failure: there is no shell, or no folder to start in.
        """
        shell = shutil.which("bash") or shutil.which("sh") or "bash"
        folder = self.folder
        try:
            return await Process.start(shell, command, folder, self._settings.max_output_bytes)
        except OSError as error:
            reason = error.strerror or str(error)
            if error.filename is not None and Path(error.filename) == folder:
                raise Failure("no_folder", f"Cannot start in `{folder}`: {reason}.") from error
            raise Failure(
                "no_shell",
                f"Cannot start `{shell}`: {reason}. No command can run; the plan has to grant programs to tool-bash.",
            ) from error

    def result(self, process: Process, timed_out_after: int = 0) -> ToolResult:
        """Return the result of a command that was stopped or came to its end."""
        output = {"stdout": process.stdout.take(), "stderr": process.stderr.take(), "returncode": process.returncode}
        if timed_out_after:
            output["timed_out"] = True
            message = (
                f"The command was ended after {timed_out_after} seconds. Set a longer timeout, or run_in_background."
            )
            return ToolResult(success=False, output=output, error={"type": "timeout", "message": message})
        if process.returncode == 0:
            return ToolResult(success=True, output=output)
        return ToolResult(success=False, output=output, error=self._error(process.returncode, output["stderr"]))

    def _error(self, returncode: int | None, stderr: str) -> dict[str, Any]:
        refused = _REFUSED.search(stderr) if returncode in _CANNOT_RUN else None
        if refused is None:
            return {"type": "exit_code", "message": f"The command ended with exit code {returncode}."}
        program = refused["program"]
        if program.startswith(_OF_SYSTEM):
            program = os.path.basename(program)  # of these, plans know the names
        # The shell was refused it and not this process: this event lets auditors of executed programs see it.
        path = os.path.join(self.folder, program) if "/" in program else program
        sys.audit("os.exec", path, [program], None)
        message = (
            f"`{program}` is not there, or was not granted: exit code {returncode}. Where it is there, the plan has to "
            f"grant it to tool-bash, as in `run: [{program}]`."
        )
        return {"type": "not_executed", "message": message, "program": program}
