"""Start a module's processes with what is guarded in its folders as it is by then, and have that guarded again."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import replace

import anyio.to_thread

from paddock.workers.launcher import Launcher, LaunchSpec
from paddock.workers.mount_guard import MountGuard
from paddock.workers.process import ModuleProcess
from paddock_sandbox.profile import Mount
from paddock_sandbox.remounting import is_elsewhere, is_gone, kept_inside


class GuardedLauncher:
    """A launcher for modules that may write to folders with something guarded in them."""

    def __init__(self, launcher: Launcher, guard: MountGuard) -> None:
        self._launcher = launcher
        self._guard = guard

    async def launch(self, spec: LaunchSpec) -> ModuleProcess:
        """Return a process that can change nothing guarded; see `Launcher.launch`.

        What the user removed since the session began is nothing that a later life fails over; should it come back, it
        is guarded again.
        """
        inside = (*kept_inside(spec.profile.mounts), *spec.profile.links)
        if inside:
            self._guard.prepare()
        gone = await anyio.to_thread.run_sync(_gone, inside, spec.profile.links) if inside else frozenset()
        if gone:
            mounts = tuple(mount for mount in spec.profile.mounts if mount not in gone)
            links = tuple(link for link in spec.profile.links if link not in gone)
            spec = replace(spec, profile=replace(spec.profile, mounts=mounts, links=links))
        process = await self._launcher.launch(spec)
        # Bubblewrap mounts nothing over a link, whatever the kernel lets others do.
        unheld = spec.profile.links if spec.profile.level == "bwrap" else ()
        if inside:
            try:
                await self._guard.follow(spec.name, process, inside, unheld)
            except BaseException:
                await process.abandon()
                raise
        return process

    async def aclose(self) -> None:
        """Leave everything to who made the launcher and the guard; both outlive this."""


def _gone(mounts: Iterable[Mount], links: Collection[Mount]) -> frozenset[Mount]:
    return frozenset(
        mount
        for mount in mounts
        if is_gone(mount) or is_elsewhere(mount) or (os.path.islink(mount.source) and mount not in links)
    )
