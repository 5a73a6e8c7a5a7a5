"""Start so many modules, one after the other, between two system calls that mark the beginning and the end."""

from __future__ import annotations

import asyncio
import os
import sys

from bench.stage import Stage
from bench.system_calls import BEGIN, END

# Until the template has made the next worker ahead. To look for that would be counted.
_SPARE_SECONDS = 0.3


async def _start(count: int) -> None:
    async with Stage.open() as stage:
        names = [f"traced_{number}" for number in range(count + 1)]
        starts = [await stage.cast("tool", "tool-trivial", {"name": name}) for name in names]
        for number, (name, start) in enumerate(zip(names, starts, strict=True)):
            if number == 1:  # the first one started the template
                os.access(BEGIN, os.F_OK)
            module = await start()
            await stage.tool(name).execute({})
            await stage.stop([module], [name])
            await asyncio.sleep(_SPARE_SECONDS)
        os.access(END, os.F_OK)


if __name__ == "__main__":
    asyncio.run(_start(int(sys.argv[1])))
