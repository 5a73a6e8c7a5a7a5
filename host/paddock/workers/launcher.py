"""The seam between who wants a module process and how one comes to be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import anyio

from paddock.errors import LaunchError
from paddock.workers.limits.tree_limits import TreeLimits
from paddock.workers.output import OutputLine
from paddock.workers.output_rate import OutputRate
from paddock.workers.pipes import ChildPipes
from paddock.workers.process import ModuleProcess
from paddock.workers.runtime import WorkerRuntime
from paddock_sandbox import self_check
from paddock_sandbox.profile import SandboxProfile
from paddock_sdk.worker.init_socket import PARTICULARS_LENGTH, pack

_START_SECONDS = 30.0  # an exec'd runtime on a machine under heavy load; a usual start takes milliseconds

# Fits the default buffer of a unix socket (208 KiB), because a request is one datagram.
_REQUEST_BYTES = 128 << 10


MODULE_ENTRY: Final = "paddock_sdk.worker.main:serve"
_OUTPUT_AT_ONCE: Final = 16  # times what may be printed in a second


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What a process is to be: its name in messages, where it works, its whole environment, and how it is shut in.

    `entry` is the function that it runs once it is shut in, as `module:function`. `tree_limits` is what all its
    processes together may use.

    A working directory the worker may not enter is replaced by the root. `home_links` are made in its home, by their
    names in there.
    """

    name: str
    working_dir: Path
    environ: Mapping[str, str]
    runtime: WorkerRuntime
    entry: str = MODULE_ENTRY
    profile: SandboxProfile = field(default_factory=SandboxProfile)
    tree_limits: TreeLimits = field(default_factory=TreeLimits)
    home_links: Mapping[str, str] = field(default_factory=dict)
    log_limit_bytes: int = 1 << 16
    on_line: Callable[[OutputLine], None] | None = None
    output_per_second: int | None = None  # bytes that are handed on, and sixteen times that at once; None: all

    def rate(self) -> OutputRate | None:
        """Return the rate of what one process prints."""
        per_second = self.output_per_second
        return OutputRate(per_second, _OUTPUT_AT_ONCE * per_second) if per_second is not None else None

    def request(self) -> bytes:
        """Return the request as whoever forks the worker reads it: nothing of what only the worker may know.

        Raises:
            LaunchError: The profile is too large to hand over.
        """
        return self._packed("profile", {"entry": self.entry, "profile": self.profile.as_dict()})

    def particulars(self) -> bytes:
        """Return what the worker itself is told, with its length in front.

        Raises:
            LaunchError: The environment is too large to hand over.
        """
        told = {
            "name": self.name,
            "working_dir": str(self.working_dir),
            "environ": dict(self.environ),
            "home_links": dict(self.home_links),
        }
        packed = self._packed("environment", told)
        return PARTICULARS_LENGTH.pack(len(packed)) + packed

    def _packed(self, what: str, message: Mapping[str, object]) -> bytes:
        packed = pack(message)
        if len(packed) > _REQUEST_BYTES:
            raise LaunchError(
                self.name,
                "request",
                f"its {what} takes {len(packed)} bytes, {_REQUEST_BYTES} can be handed over",
                hints=["grant it fewer or shorter paths and environment variables"],
            )
        return packed


class Launcher(Protocol):
    """Starts processes. Each belongs to who asked for it; the launcher keeps nothing but its own means."""

    async def launch(self, spec: LaunchSpec) -> ModuleProcess:
        """Return a process that has locked itself down and is entering its entry.

        A failed or cancelled launch leaves neither a process nor a descriptor behind.

        Raises:
            LaunchError: No such process could be made; the step that failed is named.
        """
        ...

    async def aclose(self) -> None:
        """Release the launcher's own means, bounded in time; processes it launched go on."""
        ...


async def launch_through(spec: LaunchSpec, hand_over: Callable[[ChildPipes], Awaitable[None]]) -> ModuleProcess:
    """Wire a process up, have the worker's ends handed over, and return it once it enters its entry.

    The part all launchers share: when anything goes wrong, or the caller is cancelled, the tree is ended and
    everything released.

    Raises:
        LaunchError: A step failed or took too long.
        OSError: The hand-over failed.
    """
    particulars = spec.particulars()
    try:
        child_pipes = ChildPipes()
    except OSError as error:
        raise LaunchError(spec.name, "sockets and pipes", str(error)) from error
    process = ModuleProcess(spec.name, child_pipes, spec.log_limit_bytes, spec.on_line, spec.rate())
    try:
        with anyio.fail_after(_START_SECONDS):
            try:
                child_pipes.tell_worker(particulars)
                await hand_over(child_pipes)
            finally:
                child_pipes.close_worker_ends()
            await process.entered()
            _require_it_holds(spec, process)
    except TimeoutError:
        await process.abandon()
        raise LaunchError(spec.name, "start", f"it was not ready within {_START_SECONDS:g} s") from None
    except BaseException:
        await process.abandon()
        raise
    return process


def _require_it_holds(spec: LaunchSpec, process: ModuleProcess) -> None:
    """Refuse a worker that says itself that it can do what its level promises to refuse."""
    breaches = self_check.breaches(spec.profile, process.ready.verdicts)
    if process.ready.lockdown.level != spec.profile.level:
        breaches = (f"its level, which is {process.ready.lockdown.level}", *breaches)
    if breaches:
        raise LaunchError(
            spec.name, "self-check", f"not as isolation {spec.profile.level} promises: {', '.join(breaches)}"
        )
