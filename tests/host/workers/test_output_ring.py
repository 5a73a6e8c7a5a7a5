"""The ring keeps the end of what two pipes carried: in order, bounded, and counting what it lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.workers.waiting import PATIENCE
from paddock.workers.output import OutputLine, OutputRate, OutputRing

Write = Callable[[str, bytes], None]


@contextmanager
def pipes() -> Iterator[tuple[int, int, dict[str, int]]]:
    """Yield both reading ends, which the ring takes over, and the writing ends by stream."""
    out, out_writer = os.pipe()
    err, err_writer = os.pipe()
    writers = {"stdout": out_writer, "stderr": err_writer}
    try:
        yield out, err, writers
    finally:
        for fd in writers.values():
            os.close(fd)


async def read_all(ring: OutputRing, size: int) -> None:
    with anyio.fail_after(PATIENCE):
        while ring.total_bytes < size:
            await anyio.lowlevel.checkpoint()


async def kept(
    writes: list[tuple[str, bytes]],
    limit_bytes: int = 1 << 16,
    on_line: Callable[[OutputLine], None] | None = None,
) -> OutputRing:
    """Return a ring, closed again, that has read these writes one after the other."""
    with pipes() as (out, err, writers):
        ring = OutputRing(out, err, limit_bytes, on_line)
        written = 0
        for stream, data in writes:
            os.write(writers[stream], data)
            written += len(data)
            await read_all(ring, written)
    ring.close()
    return ring


async def test_lines_keep_their_order_and_stream() -> None:
    ring = await kept([("stdout", b"a"), ("stderr", b"error\n"), ("stdout", b"b\nc")])
    assert list(ring) == [OutputLine("stderr", "error"), OutputLine("stdout", "ab"), OutputLine("stdout", "c")]


async def test_the_tail_is_the_last_lines_of_one_stream_or_both() -> None:
    ring = await kept([("stdout", b"1\n2\n"), ("stderr", b"oops\n"), ("stdout", b"3\n")])
    assert ring.tail(2) == ("oops", "3")
    assert ring.tail(2, "stdout") == ("2", "3")
    assert ring.tail(9, "stderr") == ("oops",)
    assert ring.tail(0) == ()


async def test_more_than_the_limit_drops_the_oldest_bytes_and_counts_them() -> None:
    ring = await kept([("stdout", b"0123456789" * 200), ("stderr", b"x" * 300)], limit_bytes=1000)
    assert ring.dropped_bytes == 1300
    assert [line.text for line in ring] == ["0123456789" * 70, "x" * 300]


async def test_many_tiny_writes_cost_no_more_than_the_limit() -> None:
    writes = [(stream, b".") for _ in range(500) for stream in ("stdout", "stderr")]
    ring = await kept(writes, limit_bytes=640)
    # Ten pieces at most: each is charged for its own bookkeeping.
    assert ring.total_bytes - ring.dropped_bytes == 10


async def test_text_that_is_no_utf8_is_shown_as_far_as_it_goes() -> None:
    ring = await kept([("stdout", b"caf\xc3\xa9 \xff\r\n")])
    assert [line.text for line in ring] == ["café \ufffd"]


async def test_a_live_line_is_handed_over_once_and_whole() -> None:
    lines: list[OutputLine] = []
    ring = await kept([("stdout", b"hel"), ("stderr", b"x\n"), ("stdout", b"lo\nand")], on_line=lines.append)
    assert lines == [OutputLine("stderr", "x"), OutputLine("stdout", "hello"), OutputLine("stdout", "and")]
    assert len(list(ring)) == 3


async def test_the_end_of_both_pipes_is_told_once() -> None:
    ends: list[str] = []
    with pipes() as (out, err, _):
        ring = OutputRing(out, err, 1 << 10)
        ring.when_drained(lambda: ends.append("first"))
    with anyio.fail_after(PATIENCE):
        while not ends:
            await anyio.lowlevel.checkpoint()
    ring.when_drained(lambda: ends.append("late"))
    ring.close()
    with anyio.fail_after(PATIENCE):
        while len(ends) < 2:
            await anyio.lowlevel.checkpoint()
    assert ends == ["first", "late"]


async def test_a_pipe_somebody_else_holds_open_can_be_given_up() -> None:
    with pipes() as (out, err, writers):
        ring = OutputRing(out, err, 1 << 10)
        os.write(writers["stdout"], b"said in time\n")
        await read_all(ring, 13)
        ring.close()
        with pytest.raises(BrokenPipeError):
            os.write(writers["stdout"], b"too late\n")
    assert ring.tail(1) == ("said in time",)


_writes = st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(min_size=1, max_size=300)), max_size=30)


@given(writes=_writes, limit_bytes=st.integers(min_value=1, max_value=2000))
def test_all_output_is_kept_or_counted_within_the_limit(writes: list[tuple[str, bytes]], limit_bytes: int) -> None:
    ring = anyio.run(kept, writes, limit_bytes)
    remaining = ring.total_bytes - ring.dropped_bytes
    assert remaining <= limit_bytes
    assert ring.total_bytes == sum(len(data) for _, data in writes)
    if not ring.dropped_bytes:
        for stream in ("stdout", "stderr"):
            everything = b"".join(data for to, data in writes if to == stream).decode("utf-8", errors="replace")
            said = "\n".join(line.text for line in ring if line.stream == stream)
            assert said.replace("\r", "") == everything.removesuffix("\n").replace("\r", "")


async def test_what_is_beyond_the_rate_is_kept_and_counted_and_not_handed_on() -> None:
    lines: list[str] = []
    with pipes() as (out, err, writers):
        rate = OutputRate(per_second=1, at_once=10_000)
        ring = OutputRing(out, err, 1 << 16, lambda line: lines.append(line.text), rate)
        os.write(writers["stdout"], b"first\n")
        await read_all(ring, 6)
        for number in range(1, 5):
            os.write(writers["stderr"], b"flood\n" * 1000)
            await read_all(ring, 6 + 6000 * number)
        os.write(writers["stderr"], b"last words\n")
        await read_all(ring, 6 + 24_000 + 11)
    ring.close()
    assert lines[0] == "first"
    assert "flood" not in lines
    assert sum(int(line.split()[1]) for line in lines if line.startswith("[paddock: ")) == 4001 - lines.count(
        "last words"
    )
    assert ring.left_out.startswith("[paddock: 400")
    assert ring.tail(1) == ("last words",)


async def test_a_flood_that_is_over_leaves_the_rest_as_it_was() -> None:
    lines: list[str] = []
    with pipes() as (out, err, writers):
        ring = OutputRing(out, err, 1 << 16, lambda line: lines.append(line.text), OutputRate(1_000_000, 1000))
        os.write(writers["stdout"], b"x" * 60_000 + b"\n")
        with anyio.fail_after(PATIENCE):
            while not any(line.startswith("[paddock: 1 lines") for line in lines):
                await anyio.sleep(0.01)
            os.write(writers["stdout"], b"again\n")
            while "again" not in lines:
                await anyio.sleep(0.01)
    ring.close()


@given(writes=_writes, looks=st.sets(st.integers(0, 30)), limit_bytes=st.sampled_from([200, 1 << 16]))
def test_looks_one_after_the_other_find_each_line_once(
    writes: list[tuple[str, bytes]], looks: set[int], limit_bytes: int
) -> None:
    found: list[OutputLine] = []
    lost = position = 0

    def look(ring: OutputRing) -> None:
        nonlocal lost, position
        lines, missed = ring.since(position)
        found.extend(lines)
        lost += missed
        position = ring.position

    async def looked() -> OutputRing:
        with pipes() as (out, err, writers):
            ring = OutputRing(out, err, limit_bytes)
            for number, (stream, data) in enumerate(writes):
                os.write(writers[stream], data)
                await read_all(ring, ring.total_bytes + len(data))
                if number in looks:
                    look(ring)
        ring.close()
        look(ring)
        return ring

    ring = anyio.run(looked)
    assert ring.since(position) == ([], 0)
    if not ring.dropped_bytes:
        assert sorted(found, key=str) == sorted(ring, key=str) and not lost
    assert lost <= ring.dropped_bytes
