"""Who gets work in a cluster, and what becomes of attempts whose node is lost, above links in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest

from failures import failing
from host.ray.links import OWN, MemoryCluster, MemoryNode, attempt, shipment
from paddock.batch.place import NotBegunError, PlaceLostError, StaleAttemptError
from paddock.ray import node as node_side
from paddock.ray import pool as driver_side
from paddock.ray.messages import Done, Facts
from paddock.ray.options import RayOptions
from paddock.ray.packing import pack
from paddock.ray.pool import Link, Pool


@asynccontextmanager
async def _pool(*nodes: MemoryNode, **options: Any) -> AsyncIterator[tuple[Pool, MemoryCluster]]:
    cluster = MemoryCluster(*nodes)
    async with Pool.opened(cluster.nodes, shipment(), RayOptions(**options), OWN) as pool:
        yield pool, cluster


async def _yes(module: str, tool: str) -> None:
    pass


async def test_a_result_comes_back_with_its_files_and_the_nodes_name(tmp_path: Path) -> None:
    (tmp_path / "given").write_text("x")
    out = tmp_path / "out"
    out.mkdir()
    async with _pool(MemoryNode("a")) as (pool, _):
        place = await pool.take()
        result = await place.run(attempt("t", "act", base=tmp_path, name="given"), out, _yes)
    assert (result.status, result.node, (out / "made").read_text()) == ("done", "a", "name")


async def test_each_node_gets_as_many_attempts_as_it_may(tmp_path: Path) -> None:
    async with _pool(MemoryNode("a"), MemoryNode("b"), per_node=2) as (pool, _):
        names = sorted([(await pool.take()).name for _ in range(4)])
        taking = asyncio.ensure_future(pool.take())
        done, _ = await asyncio.wait({taking}, timeout=0.05)
        taking.cancel()
    assert (names, done) == (["a", "a", "b", "b"], set())


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (Facts(paddock="2", python="3", policy="0"), "it has Paddock 2, and this machine 1"),
        (Facts(paddock="1", python="4", policy="0"), "it has Python 4, and this machine 3"),
        (Facts(paddock="1", python="3", policy="1"), "it has the policy 1, and this machine 0"),
        (Facts(paddock="1", python="3", policy="0", problem="`ns`: no"), "`ns`: no"),
    ],
)
async def test_a_node_that_differs_is_left_out_by_its_name(facts: Facts, told: str) -> None:
    """And a run without any other fails with what is missing."""
    left_out: list[tuple[str, str]] = []
    async with _pool(MemoryNode("b", facts), left_out=lambda *row: left_out.append(row), wait_seconds=0) as (pool, _):
        with failing("NoPlaceError", "b: ") as caught:
            await pool.take()
    assert told in str(caught.value) and left_out == [("b", told)]


async def test_an_attempt_on_a_lost_node_is_lost(tmp_path: Path) -> None:
    """The node goes on for a while: its question stays without an answer, and it does not act."""
    node = MemoryNode("a")
    async with _pool(node) as (pool, cluster):
        place = await pool.take()
        running = asyncio.ensure_future(place.run(attempt("t", "wait act"), tmp_path, _yes))
        while not node.place.began:
            await asyncio.sleep(0)
        cluster.there.clear()
        node.cut.set()
        with pytest.raises(PlaceLostError) as caught:
            await running
        node.place.go.set()
    assert not isinstance(caught.value, NotBegunError) and node.place.acts == []


async def test_a_lost_node_that_comes_back_ends_what_ran_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_side, "_LOOK_SECONDS", 0.01)
    node = MemoryNode("a")
    async with _pool(node) as (pool, _):
        place = await pool.take()
        running = asyncio.ensure_future(place.run(attempt("t", "wait act"), tmp_path, _yes))
        while not node.place.began:
            await asyncio.sleep(0)
        node.cut.set()
        with pytest.raises(PlaceLostError):
            await running
        node.cut.clear()
        back = await pool.take()
        node.place.go.set()
        result = await back.run(attempt("t", "act", 2), tmp_path, _yes)
    assert back is not place and result.attempt == 2 and node.place.acts == ["t#2"]


async def test_modules_that_begin_to_act_at_once_are_asked_about_one_by_one(tmp_path: Path) -> None:
    asked: list[str] = []

    async def note(module: str, tool: str) -> None:
        await asyncio.sleep(0)
        asked.append(tool)

    node = MemoryNode("a")
    async with _pool(node) as (pool, _):
        place = await pool.take()
        result = await place.run(attempt("t", "both"), tmp_path, note)
    assert result.status == "done" and sorted(asked) == ["first", "second"]


async def test_an_attempt_that_was_given_up_does_not_act(tmp_path: Path) -> None:
    async def no(module: str, tool: str) -> None:
        raise StaleAttemptError

    node = MemoryNode("a")
    async with _pool(node) as (pool, _):
        place = await pool.take()
        with pytest.raises(StaleAttemptError):
            await place.run(attempt("t", "act"), tmp_path, no)
    assert node.place.began == ["t"] and node.place.acts == []


async def test_a_node_without_an_answer_ends_the_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_side, "_ANSWER_SECONDS", 0.01)
    node = MemoryNode("a")

    async def late(module: str, tool: str) -> None:
        await asyncio.Event().wait()

    async with _pool(node) as (pool, _):
        place = await pool.take()
        running = asyncio.ensure_future(place.run(attempt("t", "act"), tmp_path, late))
        while not node.place.ended:
            await asyncio.sleep(0.01)
        running.cancel()
    assert node.place.acts == []


async def test_what_never_began_is_told_from_what_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_side, "_BEGIN_SECONDS", 0.01)
    node = MemoryNode("a")
    async with _pool(node) as (pool, _):
        place = await pool.take()
        await node.node.leave(b"")  # as one whose process was started again
        with pytest.raises(NotBegunError, match="no plan"):
            await place.run(attempt("t", "act"), tmp_path, _yes)
    assert node.place.began == []


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\xff" * 100,
        pack(OWN),
        pack(OWN)[:-1],
        msgpack.packb((b"[1, 2]", ())),
    ],
    ids=["nothing", "noise", "another table", "cut off", "no table"],
)
async def test_what_is_no_answer_loses_the_node(answer: bytes, tmp_path: Path) -> None:
    node = MemoryNode("a")

    async def call(method: str, argument: bytes) -> bytes:
        return pack(Done()) if method == "begin" else answer

    async with _pool(node) as (pool, _):
        place = await pool.take()
        place._link = Link("a", call)  # type: ignore[attr-defined]
        with pytest.raises(PlaceLostError):
            await place.run(attempt("t", "act"), tmp_path, _yes)


async def test_no_node_within_the_wait_is_an_error() -> None:
    async with _pool(wait_seconds=0) as (pool, _):
        with failing("NoPlaceError", "no node is there"):
            await pool.take()


async def test_lent_secrets_are_passed_in_one_call_and_never_shown(tmp_path: Path) -> None:
    node = MemoryNode("a")
    sent = shipment(KEY="hunter2")
    async with Pool.opened(MemoryCluster(node).nodes, sent, RayOptions(), OWN) as pool:
        await pool.take()
    assert node.calls.count("lend") == 1 and "hunter2" not in repr(sent)
