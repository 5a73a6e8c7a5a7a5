"""A cluster in memory: nodes of this process behind links that can be cut, in place of Ray's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from paddock.batch.place import Acted, Attempt
from paddock.batch.result import TaskResult
from paddock.batch.task import Task
from paddock.ray.messages import Facts, Job
from paddock.ray.node import Node
from paddock.ray.packing import pack, unpack
from paddock.ray.pool import Link, LinkLostError
from paddock.ray.shipping import Shipment

OWN = Facts(paddock="1", python="3", policy="0")


class ScriptedPlace:
    """Does what prompts say: `act` asks, `both` twice at once, `wait` waits for `go`; notes what it did."""

    name = "scripted"

    def __init__(self) -> None:
        self.began: list[str] = []
        self.acts: list[str] = []
        self.ended: list[str] = []
        self.go = asyncio.Event()

    async def run(self, attempt: Attempt, folder: Path, acted: Acted) -> TaskResult:
        self.began.append(attempt.task.id)
        try:
            await self._follow(attempt, acted)
        finally:
            self.ended.append(attempt.task.id)
        (folder / "made").write_text(" ".join(attempt.task.files) or "nothing")
        return TaskResult(id=attempt.task.id, attempt=attempt.number, node=self.name, status="done")

    async def _follow(self, attempt: Attempt, acted: Acted) -> None:
        for word in attempt.task.prompt.split():
            if word == "wait":
                await self.go.wait()
            if word == "both":
                await asyncio.gather(acted("tool-x", "first"), acted("tool-y", "second"))
            if word == "act":
                await acted("tool-x", "write")
                self.acts.append(f"{attempt.task.id}#{attempt.number}")


class MemoryNode:
    """A node of this process; what it is and does can be set before it is joined."""

    def __init__(self, name: str, facts: Facts = OWN) -> None:
        self.name = name
        self.place = ScriptedPlace()
        self.facts = facts
        self.calls: list[str] = []
        self.cut = asyncio.Event()
        self.node = Node(self._opened, {})

    @asynccontextmanager
    async def _opened(self, plan: Path, environ: Mapping[str, str], job: Job) -> AsyncIterator[ScriptedPlace]:
        yield self.place

    async def call(self, method: str, argument: bytes) -> bytes:
        """As `Link.call`; joining answers with the facts of this twin."""
        self.calls.append(method)
        answer = await self._unless_cut(getattr(self.node, method)(argument))
        if method != "join":
            return answer
        lacking = unpack(answer, Facts)[0].lacking
        return pack(self.facts.model_copy(update={"lacking": lacking}))

    async def _unless_cut(self, answering: object) -> bytes:
        answer = asyncio.ensure_future(answering)  # type: ignore[arg-type]
        cut = asyncio.ensure_future(self.cut.wait())
        await asyncio.wait({answer, cut}, return_when=asyncio.FIRST_COMPLETED)
        if self.cut.is_set():
            raise LinkLostError("the node was killed")
        cut.cancel()
        return await answer  # type: ignore[no-any-return]


class MemoryCluster:
    """The nodes that are `there`, by their ids."""

    def __init__(self, *nodes: MemoryNode) -> None:
        self.there = {node.name: node for node in nodes}

    async def nodes(self) -> Mapping[str, Callable[[], Link]]:
        """As `Nodes`."""
        return {key: partial(Link, key, node.call) for key, node in self.there.items()}


def shipment(**lent: str) -> Shipment:
    """Return the code of a plan that needs none."""
    job = Job(plan="plan.yaml", commits=[], is_trusted=True, isolation=None, grants={})
    return Shipment(pack(job), {}, lent=lent)


def attempt(id: str, prompt: str, number: int = 1, base: Path = Path("/"), **files: str) -> Attempt:
    """Return an attempt at a task."""
    return Attempt(Task(id=id, prompt=prompt, files=files), number, base)
