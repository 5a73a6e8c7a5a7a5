"""A module may print as much as it likes: the host reads it in turns and keeps a bounded end of it."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from host.workers.conftest import Launch
from host.workers.waiting import PATIENCE
from paddock.workers.output import OutputLine


class Ticks:
    """Counts the turns the loop takes while something else goes on."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        while True:
            self.count += 1
            await anyio.lowlevel.checkpoint()


async def test_a_flood_on_both_streams_is_read_in_turns_with_everything_else(launch: Launch) -> None:
    ticks = Ticks()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ticks.run)
            process = await launch("floods", log_limit_bytes=1 << 16)
            before = ticks.count
            status = await process.wait()
            turns = ticks.count - before
            tasks.cancel_scope.cancel()
    assert status.code == 0
    output = process.output
    assert output.total_bytes > 16 << 20
    assert output.total_bytes - output.dropped_bytes <= 1 << 16
    # At most one bounded read of each stream happens in one turn of the loop.
    assert turns >= output.total_bytes // (2 << 14)
    assert output.tail(1, "stderr") == ("last words",)


async def test_every_line_is_handed_over_while_the_module_runs(launch: Launch) -> None:
    lines: list[OutputLine] = []
    process = await launch("floods", log_limit_bytes=1 << 10, on_line=lines.append)
    with anyio.fail_after(PATIENCE):
        await process.wait()
    assert sum(line.text == "x" * 1023 for line in lines) == 4 << 10
    assert sum(line.text == "y" * 1023 for line in lines) == 4 << 10
    # The binary flood has no newline; it comes in pieces rather than growing without end.
    assert max(len(line.text) for line in lines) < 1 << 15
    assert OutputLine("stderr", "last words") in lines
