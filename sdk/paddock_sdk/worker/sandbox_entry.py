"""Bring a worker from its fork to its entry: the last trusted steps before a module's code can run in it.

Everything here happens in the worker, in order, and each step has a name. A step that fails is reported over the init
socket and ends the process; the entry is reached only when all of them held.
"""

from __future__ import annotations

# The function that `signal` wraps. Between two forks every touched page is copied, and the wrapper's enums touch a
# hundred.
import _signal  # type: ignore[import-not-found]  # typeshed leaves it out
import atexit
import gc
import importlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from paddock_sandbox import lockdown, network, self_check, socket_broker, socket_memory
from paddock_sandbox.descriptors import close_all_but
from paddock_sandbox.mounts import SHARED_FOLDERS, attach_terminals, narrow_proc
from paddock_sandbox.profile import SandboxProfile
from paddock_sandbox.step_error import StepError
from paddock_sandbox.title import set_title
from paddock_sdk.worker.attempts import attempt_log
from paddock_sdk.worker.init_socket import (
    FAILED_BEFORE_ENTRY,
    PARTICULARS_LENGTH,
    hand_over,
    read_exactly,
    report_failure,
    say_ready,
    unpack,
)


def warm_up() -> None:
    """Run an event loop once, so that workers inherit its lazily built parts, and touch the memory that all touch.

    The template of commands has not imported asyncio, which would take a third of its start, and skips this.
    """
    if (asyncio := sys.modules.get("asyncio")) is not None:
        asyncio.run(asyncio.sleep(0))


def enter_sandbox_and_run(
    entry: str,
    profile: SandboxProfile,
    *,
    init: int,
    rpc: int,
    stdout: int,
    stderr: int,
    init_socket: int,
    counts_memory: bool,
    missing: Sequence[str] = (),
) -> NoReturn:
    """Take every step up to the entry, `module:function`, send `ready`, run it and end the process.

    `init` is the parent; `counts_memory` means that a control group limits the worker's memory; `missing` is what its
    file system lacks. Data for this worker alone, its environment above all, is the first to come over `rpc`: a
    template that had seen it would pass it on, in memory it no longer uses, to every worker it forks later.
    """
    step = "particulars"
    try:
        particulars, log = _read_particulars(rpc)
        steps: tuple[tuple[str, Callable[[], object]], ...] = (
            ("title", lambda: set_title(particulars["title"], particulars["short_name"])),
            ("attempt log", lambda: attempt_log.share(log)),
            ("new session", os.setsid),
            ("signals", _take_signals),
            ("standard streams", lambda: _take_standard_streams(stdout, stderr)),
            ("close descriptors", lambda: close_all_but(0, 1, 2, rpc, init_socket)),
            ("environment", lambda: _take_environment(particulars["environ"])),
            ("/proc", lambda: _narrow_proc(profile)),
            ("terminals", lambda: _attach_terminals(profile)),
            # While there are capabilities to make it with. The host has all of its sockets before any code of the
            # module runs, and the worker none: the self-check would find them.
            ("network", lambda: _make_network(profile, init_socket)),
            ("inquiry", lambda: _hand_over_inquiry(profile, init_socket, counts_memory=counts_memory)),
        )
        for name, take in steps:
            step = name
            take()
        step = "socket broker"  # while there are capabilities to make its root with
        broker = _start_broker(profile)
        # A pidfd goes on meaning its process when the number is used again, and lets the host act should the init be
        # stopped or killed; so the host has both before any code of the module runs.
        step = "pidfds"
        hand_over(init_socket, "pidfds", [os.pidfd_open(init), os.pidfd_open(os.getpid())])
        step = "lockdown"
        locked = lockdown.apply(profile, parent=init, counts_memory=counts_memory, broker=broker)
        step = "self-check"
        # Without isolation there is nothing to try, and an act that succeeds may leave its mark on the init.
        known = (0, 1, 2, rpc, init_socket)
        verdicts = (
            {} if profile.level == "none" else self_check.run(parent=init, descriptors=known, network=profile.network)
        )
        step = "home"
        _link_home(particulars["home_links"], particulars["environ"])
        step = "umask"  # the user's own: files in granted folders are for the same people as the user's
        os.umask(particulars["umask"])
        step = "working directory"
        working_dir = _enter(particulars["working_dir"], particulars["environ"])
        step = "runtime"
        module, _, function = entry.partition(":")
        serve: Callable[[socket.socket, str], None] = getattr(importlib.import_module(module), function)
        gc.enable()
        step = "ready"
        ready: dict[str, object] = {
            "lockdown": (locked.level, locked.steps, locked.protections),
            "verdicts": verdicts,
            "missing": (*missing, "/proc")
            if profile.level == "bwrap" and not os.path.exists("/proc/self")
            else missing,
            "working_dir": working_dir,
        }
        say_ready(init_socket, ready)
    except BaseException as error:  # after any error, the entry must not run
        report_failure(init_socket, step, error)
        os._exit(FAILED_BEFORE_ENTRY)
    code = 1
    try:
        code = _run_entry(serve, rpc, particulars["name"])
    finally:
        # The frames below belong to the init and the template; nothing may return or raise into them.
        os._exit(code)


def _read_particulars(rpc: int) -> tuple[dict[str, Any], int]:
    """Return the data for this worker alone, and the descriptor that came with it: of the log of attempts."""
    line = socket.socket(fileno=rpc)
    try:
        length, (log,), _, _ = socket.recv_fds(line, PARTICULARS_LENGTH.size, 1)
    finally:
        line.detach()
    length += read_exactly(rpc, PARTICULARS_LENGTH.size - len(length))
    particulars: dict[str, Any] = unpack(read_exactly(rpc, *PARTICULARS_LENGTH.unpack(length)))
    return particulars, log


def _take_signals() -> None:
    signal.set_wakeup_fd(-1)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)


def _take_standard_streams(stdout: int, stderr: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for source, standard in ((null, 0), (stdout, 1), (stderr, 2)):
        os.dup2(source, standard)


def _take_environment(environ: dict[str, str]) -> None:
    for name, value in environ.items():
        os.environ[name] = value
    if "TZ" in environ:
        time.tzset()


def _narrow_proc(profile: SandboxProfile) -> None:
    if profile.level == "bwrap":  # bubblewrap knows only the whole
        narrow_proc()


def _attach_terminals(profile: SandboxProfile) -> None:
    if profile.has_terminals:
        with suppress(StepError):  # AppArmor may allow no mount behind bubblewrap; programs then find none to open
            attach_terminals()


def _make_network(profile: SandboxProfile, init_socket: int) -> None:
    if profile.network is not None and profile.has_own_network:
        sockets = network.open_network(profile.network)
        if sockets:
            hand_over(init_socket, "network", [each.detach() for each in sockets])


def _start_broker(profile: SandboxProfile) -> socket.socket | None:
    """Start what names sockets for a worker that serves, in sight of the private folder and its parts."""
    if not profile.serves:
        return None
    private = (profile.scratch, *(SHARED_FOLDERS if profile.level == "ns" else ()))
    # A granted folder in the place of one of them is none.
    return socket_broker.start([folder for folder in private if not profile.is_mounted(folder)])


def _hand_over_inquiry(profile: SandboxProfile, init_socket: int, *, counts_memory: bool) -> None:
    """Pass the host a descriptor to count an own network namespace's sockets with, without a control group."""
    if profile.level in ("ns", "bwrap") and not counts_memory:
        try:
            inquiry = socket_memory.open_inquiry()
        except OSError:
            return  # a kernel without; the host takes each socket for full
        hand_over(init_socket, "inquiry", [inquiry.detach()])


def _link_home(links: dict[str, str], environ: dict[str, str]) -> None:
    """Link granted files of the user's own into the home, where the name is free."""
    home = environ.get("HOME", "")
    for name, target in links.items() if os.path.isabs(home) else ():
        place = os.path.join(home, name)
        try:
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            os.symlink(target, place)
        except OSError:
            continue  # it exists: the user's home itself, or a file that the module left in its kept home


def _enter(working_dir: str, environ: dict[str, str]) -> str:
    """Change to the folder the host chose, or home should it be gone; return which it is."""
    for folder in (working_dir, environ.get("HOME", "/")):
        try:
            os.chdir(folder)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        return folder
    os.chdir("/")
    return "/"


def _run_entry(entry: Callable[[socket.socket, str], None], rpc: int, name: str) -> int:
    """Run the entry, then what a Python program does at its end, except taking the interpreter apart."""
    code = 0
    try:
        entry(socket.socket(fileno=rpc), name)
    except SystemExit as error:
        if isinstance(error.code, int):
            code = error.code & 0xFF
        elif error.code is not None:
            print(error.code, file=sys.stderr)  # noqa: T201 - what Python does with `sys.exit("text")`
            code = 1
    except BaseException:  # this is the top of the process
        sys.excepthook(*sys.exc_info())
        code = 1
    # Like an interpreter: wait for threads that are not daemons, then run the functions registered for the end.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a closed or broken stream loses its last bytes, not the exit code
            stream.flush()
    return code
