"""The tool that runs a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amplifier_core.models import ToolResult

from .arguments import checked
from .failure import Failure
from .jobs import Jobs
from .settings import Settings
from .shell import Shell


class Bash:
    """`bash`: run a shell command to its end, or start it in the background."""

    name = "bash"
    description = (
        "Run a shell command in the working directory and return its stdout, stderr and returncode. Each command has a "
        "shell of its own: `cd` and variables do not last, and nothing can be typed into it. What it leaves running is "
        "ended with it, but for a process in a session of its own (setsid), which may run until this module ends; "
        "start servers and long builds with run_in_background and read them with bash_output. Of long output the "
        "beginning and the end are kept."
    )

    def __init__(self, shell: Shell, jobs: Jobs, settings: Settings) -> None:
        self._shell = shell
        self._jobs = jobs
        self._settings = settings
        self.input_schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "description": "The command, as typed into a shell."},
                "timeout": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": settings.max_timeout_seconds,
                    "default": settings.timeout_seconds,
                    "description": "After how many seconds the command is ended; not for jobs in the background.",
                },
                "run_in_background": {
                    "type": "boolean",
                    "default": False,
                    "description": "Return at once, with the id of a job for bash_output and bash_kill.",
                },
            },
            "required": ["command"],
        }

    async def execute(self, input: Mapping[str, Any]) -> ToolResult:
        """Run the command, and return its output and how it ended; a command that fails is a failed result."""
        try:
            arguments = checked(self.input_schema, input)
            if arguments["run_in_background"]:
                self._jobs.require_room()
                job = self._jobs.add(await self._shell.start(arguments["command"]))
                return ToolResult(success=True, output={"job_id": job.id, "status": "running"})
            process = await self._shell.start(arguments["command"])
        except Failure as failure:
            return failure.result()
        try:
            ended = await process.wait(arguments["timeout"])
        finally:
            await process.stop()
        return self._shell.result(process, timed_out_after=0 if ended else arguments["timeout"])
