"""The commands that run in the background: a bounded number, by ids that are given once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from .failure import Failure
from .process import Process
from .settings import Settings

_MAX_ENDED = 32  # whose last output waits to be read; beyond, the oldest are dropped


@dataclass(frozen=True, slots=True)
class Job:
    """A command in the background; `ended` is done once its shell has ended, and all that it left running."""

    id: str
    process: Process
    ended: asyncio.Task[None]

    async def wait(self, seconds: float) -> None:
        """Wait for its end for so long at most."""
        await asyncio.wait([self.ended], timeout=seconds)

    async def end(self) -> None:
        """End it now, and return when it has ended."""
        await self.process.stop()
        await asyncio.wait([self.ended])


class Jobs:
    """The jobs of one mounted module; `end_all` ends them with it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._jobs: dict[str, Job] = {}
        self._started = 0

    def require_room(self) -> None:
        """Do nothing where one more job may be started.

        Raises:
            Failure: too many run.
        """
        running = [id for id, job in self._jobs.items() if not job.ended.done()]
        if len(running) >= self._settings.max_jobs:
            raise Failure(
                "too_many_jobs", f"{len(running)} jobs run already: {', '.join(running)}. End one with bash_kill."
            )

    def add(self, process: Process) -> Job:
        """Keep a command that was started."""
        self._started += 1
        job = Job(f"job-{self._started}", process, asyncio.create_task(_run_to_end(process)))
        self._jobs[job.id] = job
        ended = [id for id, one in self._jobs.items() if one.ended.done()]
        for id in ended[:-_MAX_ENDED]:
            del self._jobs[id]
        return job

    def get(self, id: str) -> Job:
        """Return a job.

        Raises:
            Failure: no job has that id.
        """
        job = self._jobs.get(id)
        if job is None:
            raise Failure("no_such_job", f"There is no job `{id}`; there are: {', '.join(self._jobs) or 'none'}.")
        return job

    async def end_all(self) -> None:
        """End all jobs."""
        await asyncio.gather(*(job.end() for job in self._jobs.values()), return_exceptions=True)
        self._jobs.clear()


async def _run_to_end(process: Process) -> None:
    try:
        await process.wait()
    finally:
        await process.stop()
