"""What the chain of the audit log costs: a line that is linked to the one before it, beside one that is not."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from bench.row import Row, Target
from bench.sampling import Effort, Samples, interleave
from bench.timing import called
from paddock.audit import AuditLog
from paddock.state_folder import open_own

_ROUNDS: Final = 50
_LINES: Final = 200  # a block
_FACTS: Final = {"module": "tool-x", "operation": "read", "target": "/home/user/.ssh/id_x", "seen_by": "host"}


class _Unlinked(AuditLog):
    """Writes the same lines, each to the file's end, and looks at no other line and no other host."""

    def _write(self, lines: Sequence[str]) -> None:
        descriptor = open_own(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, "".join(f"{line}}}\n" for line in lines).encode())
        finally:
            os.close(descriptor)


async def measure_audit(effort: Effort) -> list[Row]:
    """Measure one line of a denial, linked and not."""
    with tempfile.TemporaryDirectory() as folder:
        samples = await _lines(Path(folder), effort.of(_ROUNDS))
    return [
        Row.compared(
            "a line of the audit log, linked to the one before, to a plain one",
            "A line about a denial under the lock of all hosts, with the digest of the line before it, beside the same "
            "without.",
            "us",
            samples,
            ("linked", "plain"),
            Target(2.0),
        )
    ]


async def _lines(folder: Path, rounds: int) -> Samples:
    # No time passes for the rate limit but what pays for each line.
    seconds = iter(range(0, 1 << 40, 1000))
    linked = AuditLog("a session", path=folder / "linked", clock=lambda: float(next(seconds)))
    plain = _Unlinked("a session", path=folder / "plain", clock=lambda: float(next(seconds)))
    cases = {"linked": linked, "plain": plain}
    return await interleave(
        {name: called(partial(log.record, "denial", **_FACTS), _LINES) for name, log in cases.items()}, rounds
    )
