"""The nodes of a cluster as the places of a run: who may work, and how much at once.

It knows no Ray: a node is a link that carries bytes. A node that differs from this machine, or isolates less than its
policy asks for, is left out by its name. A node that is lost is joined again when it comes back, as a new one: what ran
there has ended by then, and its attempts were given up.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeVar

import anyio
import anyio.to_thread

from paddock.batch.folder import TaskFolder
from paddock.batch.place import Acted, Attempt, NotBegunError, Place, PlaceLostError
from paddock.batch.result import TaskResult
from paddock.errors import KindError
from paddock.plan.problems import StrictModel
from paddock.ray.messages import Done, Event, Facts, Join, Lent, Order, Step, failed
from paddock.ray.options import RayOptions
from paddock.ray.packing import BrokenPackError, files_of, lay_out, pack, unpack
from paddock.ray.shipping import Shipment

_CALL_SECONDS: Final = 120.0  # a whole tree may have to cross
_BEGIN_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 1.0
_TRIES: Final = 3

_Answer = TypeVar("_Answer", bound=StrictModel)


class LinkLostError(Exception):
    """A node does not answer any more, or not as a node does."""


@dataclass(frozen=True, slots=True)
class Link:
    """The way to one node, as long as it is there.

    Attributes:
        name: the name of the node, for people.
        call: returns the answer of a method of `Node` to bytes, or raises `LinkLostError` if there is none.
    """

    name: str
    call: Callable[[str, bytes], Awaitable[bytes]]


Nodes = Callable[[], Awaitable[Mapping[str, Callable[[], Link]]]]
"""Returns what makes a link to each node that is there now, by an id that no two nodes ever share.

It raises `LinkLostError` if the cluster does not answer.
"""


class NodePlace:
    """A node that was joined; see `Place`."""

    def __init__(self, link: Link) -> None:
        self.is_lost = False
        self.taken = 0
        self.name = link.name
        self._link = link

    async def run(self, attempt: Attempt, folder: Path, acted: Acted) -> TaskResult:
        """Run an attempt on the node; see `Place`."""
        ticket = secrets.token_hex(16)
        order = Order(
            ticket=ticket,
            number=attempt.number,
            task=attempt.task,
        )
        try:
            packed = await anyio.to_thread.run_sync(_packed, order, attempt.base)
        except (KindError, BrokenPackError) as error:
            return failed(order, error, self.name)
        has_begun = is_over = False
        try:
            if problem := (await self._call("begin", packed, Done, _BEGIN_SECONDS)).problem:
                is_over = True
                raise LinkLostError(problem)
            has_begun = True
            step = Step(ticket=ticket)
            while True:
                told = await self._link.call("go_on", pack(step))  # for as long as the session takes
                event, brought = await anyio.to_thread.run_sync(unpack, told, Event)
                if event.kind == "asked":
                    await acted(event.module, event.tool)
                    step = Step(ticket=ticket, may_act=True)
                    continue
                is_over = True
                if event.result is None:
                    raise LinkLostError("the node ended the attempt")
                if (event.result.id, event.result.attempt) != (attempt.task.id, attempt.number):
                    raise BrokenPackError("a result is that of another attempt")
                await anyio.to_thread.run_sync(lay_out, brought, folder)
                return event.result.model_copy(update={"node": self.name})
        except (LinkLostError, BrokenPackError, OSError) as error:
            self.is_lost = True
            raise (PlaceLostError if has_begun else NotBegunError)(f"{self.name}: {error}") from error
        finally:
            if not is_over and not self.is_lost:
                with anyio.CancelScope(shield=True), suppress(LinkLostError, BrokenPackError), anyio.move_on_after(5):
                    await self._call("end", pack(Step(ticket=ticket)), Done)

    async def join(self, shipment: Shipment, own: Facts) -> str:
        """Compare the node, and send it the plan with all its code; return why it gets no work, empty if it does.

        Raises:
            LinkLostError: it is gone.
        """
        join = Join(
            tokens=dict(shipment.tokens),
            trees=[*shipment.trees],
        )
        facts = await self._call("join", pack(join), Facts)
        if differs := facts.differences(own):
            return differs
        for tree in filter(None, map(shipment.trees.get, facts.lacking)):
            if problem := (await self._call("take", await anyio.to_thread.run_sync(tree.packed), Done)).problem:
                return problem
        if shipment.lent:
            await self._call("lend", pack(Lent(values=dict(shipment.lent))), Done)
        return (await self._call("prepare", shipment.job, Done)).problem

    async def leave(self) -> None:
        """Have the node end all that runs there."""
        with suppress(LinkLostError, BrokenPackError), anyio.move_on_after(30):
            await self._call("leave", pack(Done()), Done)

    async def _call(
        self,
        method: str,
        packed: bytes,
        answer: type[_Answer],
        seconds: float = _CALL_SECONDS,
    ) -> _Answer:
        try:
            async with asyncio.timeout(seconds):
                answered = await self._link.call(method, packed)
        except TimeoutError:
            raise LinkLostError(f"no answer to `{method}` within {seconds:.0f} seconds") from None
        return unpack(answered, answer)[0]


class Pool:
    """The places of a run; `opened` makes it. See `Places`."""

    def __init__(
        self,
        nodes: Nodes,
        shipment: Shipment,
        options: RayOptions,
        own: Facts,
    ) -> None:
        self._nodes = nodes
        self._shipment = shipment
        self._options = options
        self._own = own
        self._places: dict[str, NodePlace] = {}
        self._joining: dict[str, asyncio.Task[None]] = {}
        self._left_out: dict[str, str] = {}
        self._failures: Counter[str] = Counter()
        self._changed = asyncio.Event()
        self._problem = "no node is there"

    @classmethod
    @asynccontextmanager
    async def opened(cls, nodes: Nodes, shipment: Shipment, options: RayOptions, own: Facts) -> AsyncIterator[Self]:
        """Look for nodes until this is left; then all that runs on them has ended."""
        pool = cls(nodes, shipment, options, own)
        await pool._look()
        watching = asyncio.create_task(pool._watch())
        try:
            yield pool
        finally:
            for task in (watching, *pool._joining.values()):
                task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.gather(watching, *pool._joining.values(), return_exceptions=True)
                await asyncio.gather(*(place.leave() for place in pool._places.values()))

    async def take(self) -> Place:
        """Wait for a node with room; see `Places`."""
        latest = time.monotonic() + self._options.wait_seconds
        while True:
            usable = [one for one in self._places.values() if not one.is_lost]
            free = [one for one in usable if one.taken < self._options.per_node]
            if free:
                place = min(free, key=lambda one: one.taken)
                place.taken += 1
                return place
            if usable or self._joining:
                latest = time.monotonic() + self._options.wait_seconds
            elif time.monotonic() > latest:
                missing = "; ".join(self._left_out.values()) or self._problem
                problem = f"no place runs tasks any more: {missing}"
                raise KindError("NoPlaceError", problem, hints=["`ray status` shows the nodes of the cluster"])
            self._changed.clear()
            with anyio.move_on_after(_LOOK_SECONDS):
                await self._changed.wait()

    def give_back(self, place: Place) -> None:
        """Take back the room of an attempt; see `Places`."""
        assert isinstance(place, NodePlace)
        place.taken -= 1
        self._changed.set()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self._look()

    async def _look(self) -> None:
        """Join nodes that have come, and drop those that are gone."""
        try:
            there = await self._nodes()
        except LinkLostError as error:
            there, self._problem = {}, f"the cluster does not answer: {error}"
        for key in [key for key, place in self._places.items() if place.is_lost or key not in there]:
            self._places.pop(key).is_lost = True
        for key, link in there.items():
            if key not in self._places and key not in self._joining and key not in self._left_out:
                self._joining[key] = asyncio.create_task(self._join(key, link))

    async def _join(self, key: str, make: Callable[[], Link]) -> None:
        link = make()
        place = NodePlace(link)
        try:
            why = await place.join(self._shipment, self._own)
            if why:
                self._leave_out(key, link.name, why)
            else:
                self._places[key] = place
        except (LinkLostError, BrokenPackError) as error:
            self._problem = f"{link.name}: {error}"
            self._failures[key] += 1
            if self._failures[key] >= _TRIES:
                self._leave_out(key, link.name, str(error))
        finally:
            del self._joining[key]
            self._changed.set()

    def _leave_out(self, key: str, name: str, why: str) -> None:
        self._left_out[key] = f"{name}: {why}"
        self._options.left_out(name, why)


def _packed(order: Order, base: Path) -> bytes:
    """Return an order with the files of its task; blocks.

    Raises:
        KindError: one is missing, or no ordinary file.
        BrokenPackError: they are too large.
    """
    work = TaskFolder()
    try:
        work.fill(order.task.files, base)
        return pack(order, files_of(work.path))
    finally:
        work.remove()
