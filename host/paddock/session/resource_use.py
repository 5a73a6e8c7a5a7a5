"""What one module used, of the machine and of its grants, over all its lives that have ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from paddock.plan.units import size_text
from paddock.policy.grants import Grants
from paddock.session.module import HostedModule
from paddock_sdk.worker.attempts.attempt_log import MOST_PATHS, SOMEWHERE

if TYPE_CHECKING:
    from paddock.egress.gate import EgressGate


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


def record_use(module: HostedModule, grants: Grants, gate: EgressGate | None) -> None:
    """Write the one line of the audit log on a module that has ended: which of its grants served it, and its peaks.

    Grants go by their places in their families; of `unseen` families that is not known. Programs are some it started.
    """
    use, opened, programs = module.authority.use, module.supervisor.opened_paths, list(module.attempts.programs)
    for family, written in {**grants.opened(opened), **({} if gate is None else gate.used)}.items():
        use.note_written(family, written)
    for name in programs:
        use.note("run", name)
    unseen = [
        family
        for family, names in grants.named().items()
        if len(names) > MOST_PATHS or SOMEWHERE in opened.get(family, ())
    ]
    if unseen == ["read"]:
        unseen.append("write")  # a grant to write may have served a reader
    if programs:
        unseen.append("run")  # a program may start others
    module.audit.record(
        "module.used",
        module=module.name,
        grants=use.as_dict(),
        unseen=unseen,
        programs=programs,
        **ResourceUse.of(module).as_dict(),
    )
