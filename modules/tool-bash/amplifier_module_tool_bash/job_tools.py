"""The tools for commands in the background: read the output of one, end one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from amplifier_core.models import ToolResult

from .arguments import checked
from .failure import Failure
from .jobs import Job, Jobs
from .settings import Settings

_JOB = {"type": "string", "minLength": 1, "description": "The id that bash returned."}


class BashOutput:
    """`bash_output`: a job's output since the last reading."""

    name = "bash_output"
    description = (
        "Read what a background job printed since the last time, and whether it still runs. With wait_seconds, wait "
        "for its end so long."
    )

    def __init__(self, jobs: Jobs, settings: Settings) -> None:
        self._jobs = jobs
        self.input_schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                "job_id": _JOB,
                "wait_seconds": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": settings.max_timeout_seconds,
                    "default": 0,
                    "description": "How long to wait for the job's end.",
                },
            },
            "required": ["job_id"],
        }

    async def execute(self, input: Mapping[str, Any]) -> ToolResult:
        """Return the job's state and its new output; a job that failed is no failure of this tool."""
        try:
            arguments = checked(self.input_schema, input)
            job = self._jobs.get(arguments["job_id"])
        except Failure as failure:
            return failure.result()
        await job.wait(arguments["wait_seconds"])
        return _state(job)


class BashKill:
    """`bash_kill`: end a job."""

    name = "bash_kill"
    description = "End a background job with all that it started, and read the last that it printed."
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"job_id": _JOB},
        "required": ["job_id"],
    }

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def execute(self, input: Mapping[str, Any]) -> ToolResult:
        """End the job, and return its last output; one that had ended already stays as it was."""
        try:
            job = self._jobs.get(checked(self.input_schema, input)["job_id"])
        except Failure as failure:
            return failure.result()
        await job.end()
        return _state(job)


def _state(job: Job) -> ToolResult:
    process, has_ended = job.process, job.ended.done()
    state: dict[str, Any] = {"job_id": job.id, "status": "ended" if has_ended else "running"}
    state |= {"stdout": process.stdout.take(), "stderr": process.stderr.take()}
    state["returncode"] = process.returncode if has_ended else None
    return ToolResult(success=True, output=state)
