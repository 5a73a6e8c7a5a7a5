"""Ray: the only file that imports it. One actor a node carries the bytes of driver and node.

An actor is never asked for all of a node's processors, so that it can begin again after the node was busy; Ray begins
it again where its process ended, and repeats no call. What an actor gets and gives are bytes: Ray pickles them, and
Paddock unpickles nothing.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Self

import anyio
import anyio.to_thread

from paddock.errors import KindError
from paddock.ray.node import Node
from paddock.ray.pool import Link, LinkLostError

_CONNECT_SECONDS: Final = 5.0
_GREETING: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_SETTINGS: Final = b"\x04"  # the type of the first frame of HTTP/2
_SHARE: Final = 0.5  # of a node's processors, and at most one
_AT_ONCE: Final = 1000  # calls of one actor: its attempts, and answers to each


class RayCluster:
    """The nodes of the cluster at an address; see `pool.Nodes`."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._actors: dict[str, Any] = {}

    @classmethod
    @asynccontextmanager
    async def connected(cls, address: str) -> AsyncIterator[Self]:
        """Connect to a cluster, unless the application has; leaving disconnects, which ends all that runs for it.

        Raises:
            KindError: Ray is not installed, or does not answer at the address.
        """
        try:
            import ray
        except ImportError as error:
            hint = "in a clone of Paddock, install the extra: `pip install '.[ray]'`"
            raise KindError("RayMissingError", "Ray is not installed beside Paddock", hints=[hint]) from error
        is_own = not ray.is_initialized()
        if is_own:
            await anyio.to_thread.run_sync(connect, ray, address)
        cluster = cls(ray)
        try:
            yield cluster
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(cluster._close, is_own)

    async def nodes(self) -> Mapping[str, Callable[[], Link]]:
        """Return the nodes that are alive and offer processors."""
        try:
            listed = await anyio.to_thread.run_sync(self._ray.nodes)
        except Exception as error:  # Ray raises errors of many classes
            raise LinkLostError(_cause(error)) from error
        return {row["NodeID"]: partial(self._link, row) for row in listed if row["Alive"] and _processors(row) > 0}

    async def addresses(self) -> frozenset[str]:
        """Return the addresses of all nodes that the cluster ever had."""
        listed = await anyio.to_thread.run_sync(self._ray.nodes)
        named = (row[key] for row in listed for key in ("NodeManagerAddress", "NodeManagerHostname"))
        return frozenset(filter(None, named))

    def _link(self, row: Mapping[str, Any]) -> Link:
        key = row["NodeID"]
        if key not in self._actors:
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            options = self._ray.remote(Node).options(
                num_cpus=min(1.0, _processors(row) * _SHARE),
                max_restarts=-1,
                max_task_retries=0,
                max_concurrency=_AT_ONCE,
                scheduling_strategy=NodeAffinitySchedulingStrategy(key, soft=False),
            )
            self._actors[key] = options.remote()
        return Link(f"{row['NodeManagerHostname']}/{key[:8]}", partial(_called, self._actors[key]))

    def _close(self, is_own: bool) -> None:
        for actor in self._actors.values():
            self._ray.kill(actor)
        if is_own:
            self._ray.shutdown()


async def _called(actor: Any, method: str, argument: bytes) -> bytes:
    """Call a method of an actor; see `pool.Link`."""
    try:
        answer = await getattr(actor, method).remote(argument)
    except Exception as error:  # Ray raises errors of many classes, and those of the actor's own process
        raise LinkLostError(_cause(error)) from None
    if not isinstance(answer, bytes):
        raise LinkLostError("an answer is not bytes")
    return answer


def _processors(row: Mapping[str, Any]) -> float:
    return float(row.get("Resources", {}).get("CPU", 0.0))


def _cause(error: BaseException) -> str:
    lines = str(error).strip().splitlines()  # Ray puts the actor's own traceback behind its words
    return f"{type(error).__name__}: {lines[-1][:300]}" if lines else type(error).__name__


def connect(ray: Any, address: str) -> None:
    """Connect this process to the cluster at an address; blocks, for a bounded time.

    Raises:
        KindError: Ray does not answer there.
    """
    host, _, port = address.rpartition(":")
    if address != "auto":
        if "/" in address or not host or not port.isdecimal():
            raise _no_cluster(address, "an address is `HOST:PORT`, or `auto` for the cluster of this machine")
        try:
            _greet(host, int(port))
        except (OSError, OverflowError) as error:
            raise _no_cluster(address, str(error)) from error
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        ray.init(address, log_to_driver=False, logging_level="error", configure_logging=False)
    except Exception as error:  # Ray raises errors of many classes
        raise _no_cluster(address, _cause(error)) from error


def _greet(host: str, port: int) -> None:
    """Find out whether a server of gRPC answers, as Ray's is: Ray itself would try for minutes.

    Raises:
        OSError: none does.
    """
    with socket.create_connection((host, port), _CONNECT_SECONDS) as connection:
        connection.sendall(_GREETING)
        if connection.recv(9)[3:4] != _SETTINGS:
            raise OSError("what listens there is not Ray")


def _no_cluster(address: str, problem: str) -> KindError:
    return KindError(
        "NoClusterError",
        f"no Ray cluster answers at `{address}`: {problem}",
        hints=["start one: `ray start --head`, and give the address that it prints: `--ray HOST:PORT`"],
    )
