"""What one module used of the machine, over all its lives that have ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from paddock.plan.units import size_text
from paddock.session.module import HostedModule


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """Processor time and peak memory of its process tree, the calls made to it, and its further starts.

    Memory is what `memory_max` limits, or None where nothing measured it.
    """

    cpu_seconds: float = 0.0
    peak_memory_bytes: int | None = None
    calls: int = 0
    restarts: int = 0

    @classmethod
    def of(cls, module: HostedModule) -> Self:
        """Return the use of a module up to its latest end."""
        process = module.supervisor
        return cls(process.cpu_seconds, process.peak_memory_bytes, module.calls, process.restarts)

    def describe(self) -> str:
        """Return it as one short line for people."""
        memory = "unknown memory" if self.peak_memory_bytes is None else f"{size_text(self.peak_memory_bytes)} at most"
        calls = "1 call" if self.calls == 1 else f"{self.calls} calls"
        restarts = "1 restart" if self.restarts == 1 else f"{self.restarts} restarts"
        return f"{self.cpu_seconds:.2f} s of processor time, {memory}, {calls}, {restarts}"

    def as_dict(self) -> dict[str, object]:
        """Return it for scripts."""
        return {
            "cpu_seconds": round(self.cpu_seconds, 3),
            "peak_memory_bytes": self.peak_memory_bytes,
            "calls": self.calls,
            "restarts": self.restarts,
        }
