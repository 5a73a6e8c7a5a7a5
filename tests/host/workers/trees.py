"""Small process trees for tests: an init that adopts all orphans, and below it what a test wants."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import paddock_sandbox
from paddock_sandbox.syscalls import call

_HOST = Path(paddock_sandbox.__file__).parents[1]

_INIT = f"""
import ctypes, mmap, os, signal, sys, threading, time
sys.path.append({str(_HOST)!r})
from paddock_sandbox import prctl

PREPARATION
prctl.become_child_subreaper()
begin = os.pipe()
worker = os.fork()
if worker == 0:
    def here():
        print("here", flush=True)
    def wait():
        while True:
            signal.pause()
    sys.stdin.close()
    os.close(begin[1])
    here()
    os.read(begin[0], 1)
PROGRAM
    wait()
def reap(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
signal.signal(signal.SIGCHLD, reap)
for line in sys.stdin:
    os.write(begin[1], b"x")
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
while True:
    listed = open(f"/proc/self/task/{{os.getpid()}}/children").read().split()
    for child in map(int, listed):
        os.kill(child, signal.SIGKILL)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        break
    time.sleep(0.001)
"""


class RunningTree:
    """A tree whose worker waits until it is told to begin."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.init_pid = process.pid
        self._process = process

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def is_here(self) -> None:
        """Return once somebody in the tree has said that it is where the test wants it."""
        assert self.says() == "here"

    def says(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def require_telling_who_borrows() -> None:
    """Skip the test where the kernel does not say which processes use one memory."""
    try:
        call("kcmp", os.getpid(), os.getpid(), 1, 0, 0)
    except OSError as error:
        pytest.skip(f"who shares memory cannot be asked here: {error}")


@contextmanager
def tree(program: str, preparation: str = "") -> Iterator[RunningTree]:
    """Run a program as the worker of a tree; what is left of it in the end is killed."""
    indented = "".join(f"    {line}\n" for line in program.strip().splitlines())
    text = _INIT.replace("PREPARATION", preparation).replace("PROGRAM", indented.rstrip("\n"))
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdin is not None
        try:
            running = RunningTree(process)
            running.is_here()
            yield running
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
