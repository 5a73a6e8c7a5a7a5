"""Run the installed command as people and scripts do: as a process of its own, with pipes or a terminal around it.

In the tests beside this file it is one that has loaded Paddock already, but for those of how a command starts.

Where a machine reaches only a weaker isolation level than is used by default, the commands that start modules are told
to accept that; which level it is, the command itself finds out.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import pytest

from integration.policed_machine import PolicedMachine
from integration.warm_commands import WarmCommands
from paddock_sandbox.profile import IsolationLevel
from support.children import children_of_this_process
from support.warm_process import WarmCommand

_SECONDS = 200  # for one command; hit only by a hang
_ENDING_SECONDS = 60  # from the end of a host to the end of the last process that noticed it
_PR_SET_CHILD_SUBREAPER = 36
_COLUMNS = "400"  # no row ends within what is waited for, however long the path of a test's folder is
_warm: WarmCommands | None = None  # what becomes commands, but for a test of how they start
_PADDOCK = [sys.executable, "-c", "from paddock.cli import main; main()"]
# Takes the terminal on stdin as its own, so that a typed Ctrl-C is a signal, then becomes the command.
_ON_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


@contextmanager
def nothing_outlives_its_command(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if a command leaves a process that does not end at once, or a file in `scratch`, its temporary folder."""
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    # Orphans become children of this process, and can be seen.
    before = children_of_this_process()
    _adopt_orphans(True)
    try:
        yield
        # Also reaps, as the init of a machine does, those that ended in the moment after their command: first the
        # children of a host that was killed, then theirs, which are adopted as those end.
        alive: list[psutil.Process] = []
        while not alive and (left := _processes(children_of_this_process() - before)):
            _, alive = psutil.wait_procs(left, timeout=_ENDING_SECONDS)
    finally:
        _adopt_orphans(False)
    assert not alive, f"still there: {alive}"
    assert not list(scratch.iterdir())


def _processes(pids: set[int]) -> list[psutil.Process]:
    found = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
    return found


def _adopt_orphans(wanted: bool) -> None:
    assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0) == 0


def largest_worker(processes: set[psutil.Process]) -> psutil.Process:
    """Return the process that has most memory, which is the provider's, with its vendor's SDK, and not the command."""
    sizes: dict[psutil.Process, int] = {}
    starters = {os.getpid()} if _warm is None else {os.getpid(), _warm.pid}
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.ppid() not in starters:
                sizes[process] = process.memory_info().rss
    return max(sizes, key=lambda process: sizes[process])


@functools.cache
def diagnosis() -> Mapping[str, Any]:
    """Return what `paddock doctor` finds out about this machine, by trying it, once."""
    done = paddock("doctor", "--json")
    told: Mapping[str, Any] = json.loads(done.stdout)
    assert "levels" in told, done.stderr
    return told


def require_level(level: IsolationLevel) -> IsolationLevel:
    """Return a level of isolation that can be had here; skips where it cannot, which `none` always can."""
    found = next((one for one in diagnosis()["levels"] if one["level"] == level), {"reachable": True})
    if not found["reachable"]:
        pytest.skip(f"{level} cannot be had here: {found}")
    return level


def reachable_level() -> IsolationLevel:
    """Return the strongest level of isolation that can be had here; skips where there is none."""
    for found in diagnosis()["levels"]:
        if found["reachable"] and found["level"] != "none":
            level: IsolationLevel = found["level"]
            return level
    pytest.skip(f"nothing isolates modules here: {diagnosis()['levels']}")


def require_unreachable() -> Mapping[str, Any]:
    """Return what was found out about a level that cannot be had here; skips where all can."""
    levels = diagnosis()["levels"]
    found = next((one for one in levels if not one["reachable"]), None)
    had = ", ".join(one["level"] for one in levels)
    return found if found is not None else pytest.skip(f"every level of isolation can be had here: {had}")


def accepting(args: Sequence[str]) -> Sequence[str]:
    """Return the arguments with a weaker level accepted, where a command needs that on this machine."""
    is_start = args[:1] in (("batch",), ("call",), ("chat",), ("run",)) and "--help" not in args
    if not is_start or {"--isolation", "--trust-plan"} & set(args) or diagnosis()["ok"]:
        return args
    return [args[0], "--isolation", reachable_level(), *args[1:]]


def paddock(
    *args: str, stdin: str = "", cwd: Path | None = None, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    if _warm is not None:
        return _warm.run(accepting(args), stdin, cwd, {**os.environ, **(environ or {})})
    return subprocess.run(
        [*_PADDOCK, *accepting(args)],
        input=stdin,
        cwd=cwd,
        env={**os.environ, **(environ or {})},
        capture_output=True,
        encoding="utf-8",
        timeout=_SECONDS,
        check=False,
    )


def redirected(*args: str, stdout: int, stderr: int) -> int:
    """Run a command to its end with an empty stdin and these descriptors, and return its exit code."""
    if _warm is None:
        done = subprocess.run(
            [*_PADDOCK, *accepting(args)], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, timeout=_SECONDS
        )
        return done.returncode
    with open(os.devnull) as nothing:
        return _warm.begin(accepting(args), [nothing.fileno(), stdout, stderr], None, os.environ).wait(_SECONDS)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Return once something is so."""
    deadline = time.monotonic() + _ENDING_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def without_reader() -> int:
    """Return a pipe to write to that has no reader any more."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def policed_paddock(
    machine: PolicedMachine, system: Path, *args: str, cwd: Path, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end on a machine whose operator's policy is in the folder `system`."""
    if _warm is not None:
        return _warm.run(args, "", cwd, {**os.environ, **environ}, machine=machine.places(system))
    return machine.run(system, [*_PADDOCK, *args], folder=cwd, environ=environ)


def python(
    code: str, *args: str, cwd: Path, environ: Mapping[str, str], on: tuple[PolicedMachine, Path] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program that uses Paddock to its end, on a machine with an operator's policy if it is to be on one."""
    environ = {**os.environ, **environ}
    if _warm is not None:
        places = None if on is None else on[0].places(on[1])
        return _warm.run(["-c", code, *args], "", cwd, environ, machine=places)
    command = [sys.executable, "-c", code, *args]
    if on is not None:
        return on[0].run(on[1], command, folder=cwd, environ=environ)
    return subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, encoding="utf-8", timeout=_SECONDS, check=False
    )


class Terminal:
    """A command on a terminal of its own; stdout and stderr are both the terminal.

    With a `program`, it is that code in place of the command, with the same arguments.
    """

    def __init__(
        self,
        *args: str,
        environ: Mapping[str, str] | None = None,
        seconds: float = _SECONDS,
        program: str | None = None,
    ) -> None:
        self.shown = ""
        self._master, slave = pty.openpty()
        self._deadline = time.monotonic() + seconds
        env = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": _COLUMNS, **(environ or {})}
        self._process: subprocess.Popen[bytes] | WarmCommand
        given = [*accepting(args)]
        if _warm is not None:
            given = given if program is None else ["-c", program, *given]
            self._process = _warm.begin(given, [slave] * 3, None, env, on_terminal=True)
        else:
            started = _PADDOCK if program is None else [sys.executable, "-c", program]
            command = [sys.executable, "-c", _ON_TERMINAL, *started, *given]
            self._process = subprocess.Popen(
                command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
            )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._master)

    @property
    def pid(self) -> int:
        """The command's process."""
        return self._process.pid

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def until(self, text: str) -> str:
        """Return what was shown before `text` and after what was waited for before, once `text` was shown."""
        while text not in self.shown:
            assert self._read(), f"ended without showing {text!r}:\n{self.shown}"
        before, _, self.shown = self.shown.partition(text)
        return before

    def exit_code(self) -> int:
        """Return how the command ended, once it has; `shown` then holds all that was not waited for."""
        while self._read():
            pass
        return self._process.wait(max(0.1, self._deadline - time.monotonic()))

    def _read(self) -> bool:
        left = self._deadline - time.monotonic()
        assert left > 0 and select.select([self._master], [], [], left)[0], f"nothing more came:\n{self.shown}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the last of those that had it open has closed it
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)
