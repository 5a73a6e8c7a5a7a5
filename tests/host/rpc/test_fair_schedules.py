"""Honest workers, whatever they do in whatever order and however fast, are never ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.rpc.peer import Encoded
from paddock.token_bucket import TokenBucket
from paddock_sdk.protocol import Kind
from support.scripted_end import ASYNC

from .conftest import Network, mirror
from .scripted_worker import ScriptedWorker

_WORKERS = 3
_RUNTIME = 30.0
_LOOK = 0.01  # seconds of the time that is made up here; each is a turn of the loop

Act = tuple[str, int, int]
_acts = st.lists(
    st.tuples(st.sampled_from(["call", "ask", "tell", "host", "cancel"]), st.integers(0, 2), st.integers(0, 2)),
    min_size=3,
    max_size=40,
)


class _Clock:
    """The loop's time, which goes on when nothing is left to do, to the next thing that is due."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._now = 0.0
        loop.time = lambda: self._now  # type: ignore[method-assign]
        selector: Any = loop._selector  # type: ignore[attr-defined]
        self._select: Callable[[float | None], Any] = selector.select
        selector.select = self._wait

    def _wait(self, timeout: float | None) -> Any:
        ready = self._select(0)
        if not ready and timeout is not None and timeout > 0:
            self._now += timeout
        return ready if ready or timeout is not None else self._select(None)


async def _serve(worker: ScriptedWorker, seconds: float) -> None:
    """Answer one request after the other, each in its time, as a module does that blocks its loop over it."""
    while True:
        while not worker.heard(Kind.REQUEST):
            await asyncio.sleep(_LOOK)
        request = await worker.request_from_host()
        if seconds:
            await asyncio.sleep(seconds)
        if worker.connection.is_serving(request.id):
            worker.respond(request.id, "answer")


async def _run(acts: list[Act], seconds: list[float]) -> None:
    with contextlib.ExitStack() as stack:
        async with asyncio.TaskGroup() as tasks:
            network = Network(tasks, stack)
            workers, handles = [], []
            for number in range(_WORKERS):
                budget = TokenBucket(per_second=2000, at_once=500)
                workers.append(await network.connect(f"worker{number}", runtime_max=_RUNTIME, work=budget))
                handles.append(await network.handle_of(workers[-1][1], workers[-1][1].own(5, {"work": ASYNC})))
            targets: dict[tuple[int, int], int] = {}
            for caller, (peer, worker) in enumerate(workers):
                for callee, handle in enumerate(handles):
                    if caller != callee:
                        mirror(peer, Encoded(b"\xc0", (handle,)), may_call=True)
                        targets[caller, callee] = (await worker.take(Kind.MIRROR)).handles[0].id
            serving = [
                asyncio.ensure_future(_serve(worker, pause))
                for (_, worker), pause in zip(workers, seconds, strict=True)
            ]
            asked: list[tuple[ScriptedWorker, int]] = []
            hosts: list[asyncio.Future[Any]] = []
            for act, one, other in acts:
                worker = workers[one][1]
                if act == "call" and one != other:
                    asked += [(worker, worker.call_object(targets[one, other])) for _ in range(60)]
                elif act == "ask":
                    asked.append((worker, worker.request(0, 7, [1] * 300)))
                elif act == "tell":
                    worker.notify(7, [1] * 300)
                elif act == "host":
                    nothing = network.marshaller.encode([[], {}])
                    hosts += [
                        asyncio.ensure_future(network.host_calls.call(handles[one], 0, nothing)) for _ in range(60)
                    ]
                elif act == "cancel" and asked:
                    caller, id = asked.pop()
                    if frame := caller.connection.send_cancel(id):
                        caller.write(frame)
            await asyncio.gather(*hosts)
            while any(peer.incoming for peer, _ in workers):
                await asyncio.sleep(0.01)
            assert network.failure_policy.violations == []
            assert network.failure_policy.overdue == []
            assert all(peer.is_open and not peer.waiting for peer, _ in workers)
            for task in serving:
                task.cancel()
            await network.close()


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(_acts, st.lists(st.sampled_from([0.0, 0.02, 0.4]), min_size=_WORKERS, max_size=_WORKERS))
def test_no_schedule_of_honest_workers_ends_one(acts: list[Act], seconds: list[float]) -> None:
    loop = asyncio.new_event_loop()
    _Clock(loop)
    try:
        loop.run_until_complete(_run(acts, seconds))
    finally:
        loop.close()
