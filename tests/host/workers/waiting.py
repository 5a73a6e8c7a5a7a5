"""Bounded waits for what a process tree does, proven by the kernel."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from paddock.workers.exit_report import ExitStatus
from paddock.workers.process import ModuleProcess

PATIENCE = 60.0


async def answer(process: ModuleProcess) -> bytes:
    """Return all the worker sends before it closes its socket."""
    received = b""
    with anyio.fail_after(PATIENCE):
        while data := await asyncio.get_running_loop().sock_recv(process.rpc, 1 << 16):
            received += data
    return received


async def said(process: ModuleProcess) -> bytes:
    """Return the next four bytes that the worker sends."""
    with anyio.fail_after(PATIENCE):
        return await asyncio.get_running_loop().sock_recv(process.rpc, 4)


async def here(process: ModuleProcess) -> None:
    """Return once the worker has said that it is where the test wants it."""
    assert await said(process) == b"here"


async def ended(process: ModuleProcess) -> ExitStatus:
    with anyio.fail_after(PATIENCE):
        return await process.wait()


def children_of(pid: int) -> list[int]:
    """Return the children of a process with one thread."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def fifo(path: Path) -> Iterator[int]:
    """Yield the reading end of a new fifo, before anybody writes to it."""
    os.mkfifo(path)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def pidfd_of(pid: int) -> Iterator[int]:
    fd = os.pidfd_open(pid)
    try:
        yield fd
    finally:
        os.close(fd)


async def nobody_holds(fifo: int) -> None:
    """Return once every process that had the fifo open is gone; one must have had it."""
    with anyio.fail_after(PATIENCE):
        await anyio.wait_readable(fifo)
    assert os.read(fifo, 1) == b""


async def gone(pidfd: int) -> None:
    """Return once the process a pidfd means is dead."""
    with anyio.fail_after(PATIENCE):
        await anyio.wait_readable(pidfd)
