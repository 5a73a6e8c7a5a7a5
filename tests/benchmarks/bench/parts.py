"""Runs the parts of a benchmark one after the other, each on its own: none stops or outlasts the rest.

A part that raises, or exceeds its time, is an error in the result and the next one begins. The whole is bounded too:
parts for which no time is left are errors. Cancelled, the part at work is cancelled and nothing else begins.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from bench.row import Gap, NotMeasured, Row
from bench.sampling import Effort

Part = Callable[[Effort], Awaitable[list[Row | Gap]]]

_PART_SECONDS: Final = 180.0  # several times what the longest takes; hit only by a hang


async def run_parts(parts: Mapping[str, Part], effort: Effort, seconds: float) -> list[Row | Gap]:
    """Return what the parts found within so many seconds; which part is at work is said on stderr."""
    clock = asyncio.get_running_loop().time
    began = clock()
    found: list[Row | Gap] = []
    for name, part in parts.items():
        started = clock()
        left = seconds - (started - began)
        if left <= 0:
            found.append(Gap(name, f"the {seconds:g} s for all parts were over", is_error=True))
            continue
        try:
            async with asyncio.timeout(min(_PART_SECONDS, left)) as bound:
                found += await part(effort)
        except NotMeasured as reason:
            found.append(Gap(name, str(reason), is_error=False))
        except Exception as error:
            if bound.expired():
                reason = f"not done after {clock() - started:.0f} s"
            else:
                traceback.print_exc()
                reason = f"{type(error).__name__}: {error}"
            found.append(Gap(name, reason, is_error=True))
        print(f"{name}: {clock() - started:.1f} s", file=sys.stderr, flush=True)
    return found
