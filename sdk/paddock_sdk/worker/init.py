"""Stand between the host and one worker: start it, wait for it, and leave nothing of its tree behind.

The one trusted process of a worker's tree: it runs no module code, adopts every orphan of the tree and talks to the
host over the lifeline, a SOCK_SEQPACKET socket. In namespaces of its own it is their process 1 and makes the worker's
file system. It obeys `terminate` and `kill`, kills the tree when the lifeline
closes, however the host ended, and says `exited` once every descendant is dead and reaped. The worker itself says
`ready` there, or `failed` with the step and its errno (exit code 70), and lets go of it before any code of the module
can run. It lives as long as its worker, so it touches next to no memory after its fork.
"""

from __future__ import annotations

# What `signal` wraps. Between two forks every page touched is copied, and the wrapper's enums touch a hundred of them.
import _signal  # type: ignore[import-not-found]  # typeshed leaves it out
import atexit
import gc
import importlib
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import msgpack

from paddock_sandbox import capabilities, lockdown, mounts, namespaces, prctl, self_check
from paddock_sandbox.descriptors import close_all_but
from paddock_sandbox.profile import SandboxProfile

FAILED_BEFORE_ENTRY = 70  # EX_SOFTWARE of sysexits.h: nothing of the module has run
REQUEST_BYTES = 1 << 18  # a name, two paths and an environment; the host refuses longer ones before sending
_COMMAND_BYTES = 64
_DETAIL_CHARS = 2000
_SWEEP_SECONDS = 5.0  # only a descendant stuck in the kernel outlives its SIGKILL by this much
_FIRST_PID = 1  # ours in a pid namespace of our own
_SWEEP_POLL_MS = 5  # an orphan may be handed over without a signal of its own: look again this soon


def run(
    request: dict[str, Any], *, rpc: int, stdout: int, stderr: int, lifeline: int, trees: Sequence[int] = ()
) -> NoReturn:
    """Start the worker the request describes, see its whole tree to its end, report it and end the process.

    `trees` are the sources of its mounts where somebody else had to open them.
    """
    try:
        profile = SandboxProfile.from_dict(request["profile"])
        missing = _make_home(profile, request, trees) if profile.level == "ns" else ()
        exited = _see_to_the_end(request, profile, missing, rpc, stdout, stderr, lifeline)
    except BaseException as error:  # nobody else is left to report it or to end the tree
        report_failure(lifeline, "init", error)
        _sweep()
        os._exit(FAILED_BEFORE_ENTRY)
    report(lifeline, {"exited": exited})
    os._exit(0)


def prepare_process() -> None:
    """Make of a fresh interpreter what every worker is to start from; done once before all forks."""
    # The meaning signals have in a freshly started Python, whatever was inherited.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # What the C library needed of it is read; a worker's environment is its request's alone.
    os.environ.clear()
    os.umask(0o077)
    # A pipe is block-buffered by default; a person following the log wants each line when it is printed.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)
    # Compiled files would be written beside sources that are shared, verified or somebody's working copy.
    sys.dont_write_bytecode = True


def report(lifeline: int, message: dict[str, object]) -> None:
    """Send one message to the host; that the host is gone is seen elsewhere, and is no error here."""
    try:
        os.write(lifeline, msgpack.packb(message))
    except OSError:
        pass


def report_failure(lifeline: int, step: str, error: BaseException) -> None:
    """Tell the host which step failed before the entry was reached, with the error number where there is one."""
    number = error.errno if isinstance(error, OSError) and error.errno is not None else 0
    detail = f"{type(error).__name__}: {error}"[:_DETAIL_CHARS]
    report(lifeline, {"failed": {"step": getattr(error, "step", step), "errno": number, "detail": detail}})


def _make_home(profile: SandboxProfile, request: dict[str, Any], trees: Sequence[int]) -> tuple[str, ...]:
    """Take the ids that the new user namespace has for us, and make its file system; return what it lacks."""
    if trees:
        namespaces.become_mapped_root()
    else:
        namespaces.map_own_ids(*request["ids"])
        trees = mounts.open_trees(profile)
    socket.sethostname("paddock")
    return mounts.enter(profile, trees)


def _see_to_the_end(
    request: dict[str, Any],
    profile: SandboxProfile,
    missing: tuple[str, ...],
    rpc: int,
    stdout: int,
    stderr: int,
    lifeline: int,
) -> dict[str, object]:
    # Before the fork: a group that the worker shares with anybody but us would be signalled along with it.
    if os.getsid(0) != os.getpid():
        os.setsid()
    prctl.become_child_subreaper()
    # Children are reaped by us, where the template leaves its own to the kernel.
    _signal.signal(_signal.SIGCHLD, _notice)
    init = os.getpid()
    worker = os.fork()
    if worker == 0:
        _become_worker(request, profile, missing, init, rpc, stdout, stderr, lifeline)
    if profile.level == "ns":
        _give_up_powers()

    # Turns SIGCHLD into something poll() sees.
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    close_all_but(0, 1, 2, lifeline, woken, wake)
    os.chdir("/")

    poller = select.poll()
    poller.register(lifeline, select.POLLIN)
    poller.register(woken, select.POLLIN)
    ended = _reap(worker)  # it may have been quicker than the pipe
    while ended is None:
        for fd, _ in poller.poll():
            if fd == woken:
                _drain(woken)
                ended = _reap(worker)
            elif not _obey(lifeline, worker):
                poller.unregister(lifeline)
    left_behind = _sweep()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        **ended,
        "peak_rss": used.ru_maxrss * 1024,
        "user_time": used.ru_utime,
        "system_time": used.ru_stime,
        "left_behind": left_behind,
    }


def _give_up_powers() -> None:
    """Keep nothing but what an init needs, and out of reach of the worker, which has the same user id."""
    capabilities.drop_all()
    prctl.give_up_new_privileges()
    prctl.set_dumpable(False)


def _notice(signal_number: int, frame: object) -> None:
    """Do nothing: a handler of any kind is what makes the interpreter write to the wake-up descriptor."""


def _drain(woken: int) -> None:
    try:
        while os.read(woken, 512):
            pass
    except BlockingIOError:
        pass


def _obey(lifeline: int, worker: int) -> bool:
    """Carry out one command; kill the worker and return False once the host is gone."""
    try:
        command = os.read(lifeline, _COMMAND_BYTES)
    except OSError:
        command = b""
    _send(worker, signal.SIGTERM if command == b"terminate" else signal.SIGKILL)
    return command != b""


def _reap(worker: int) -> dict[str, object] | None:
    """Reap whatever has ended; return how the worker did, once it has."""
    while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
        if ended.si_pid == worker:
            # Before it is reaped: until then its group's number cannot mean anybody else.
            _send(worker, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
            return {"code": code, "signal": None} if code >= 0 else {"code": None, "signal": -code}
        os.waitpid(ended.si_pid, 0)
    return None


def _sweep() -> int:
    """Kill and reap every descendant; return how many would not die in time."""
    deadline = time.monotonic() + _SWEEP_SECONDS
    while True:
        # Only our own children: their numbers are ours until we reap them, and what they leave behind becomes ours.
        if os.getpid() == _FIRST_PID:
            children = _kill_all()
        else:
            children = _children()
            for child in children:
                _send(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            return 0
        if time.monotonic() > deadline:
            return len(children)
        select.poll().poll(_SWEEP_POLL_MS)


def _kill_all() -> list[int]:
    """Kill every other process of our namespace, at once; nothing that forks meanwhile gets away."""
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return []
    return [-1]


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", "rb") as listing:
        return [int(pid) for pid in listing.read().split()]


def _send(child: int, number: int) -> None:
    """Signal a child that is not reaped, with its process group: groups stay in their session, so within our tree."""
    try:
        group = os.getpgid(child)
        if group == os.getpgrp():
            os.kill(child, number)  # it did not get as far as a session of its own
        else:
            os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def _become_worker(
    request: dict[str, Any],
    profile: SandboxProfile,
    missing: tuple[str, ...],
    init: int,
    rpc: int,
    stdout: int,
    stderr: int,
    lifeline: int,
) -> NoReturn:
    """Take every step between the fork and the entry, say `ready`, run the entry and end the process."""
    step = "entry"
    try:
        steps: tuple[tuple[str, Callable[[], object]], ...] = (
            ("new session", os.setsid),
            ("signals", _take_signals),
            ("standard streams", lambda: _take_standard_streams(stdout, stderr)),
            ("close descriptors", lambda: close_all_but(0, 1, 2, rpc, lifeline)),
            ("environment", lambda: _take_environment(request["environ"])),
        )
        for name, take in steps:
            step = name
            take()
        # A pidfd goes on meaning its process when the number is used again, and lets the host act should the init be
        # stopped or killed; so the host has both before any code of the module runs.
        step = "pidfds"
        pidfds = [os.pidfd_open(init), os.pidfd_open(os.getpid())]
        step = "lockdown"
        locked = lockdown.apply(profile, parent=init)
        step = "self-check"
        verdicts = self_check.run(parent=init, descriptors=(0, 1, 2, rpc, lifeline, *pidfds))
        step = "working directory"
        working_dir = _enter(request["working_dir"], request["environ"])
        step = "runtime"
        entry = _load(request["entry"])
        gc.enable()
        step = "ready"
        ready = {"lockdown": locked.as_dict(), "verdicts": verdicts, "missing": missing, "working_dir": working_dir}
        _say_ready(lifeline, ready, pidfds)
    except BaseException as error:  # whatever it is, the entry must not run
        report_failure(lifeline, step, error)
        os._exit(FAILED_BEFORE_ENTRY)
    code = 1
    try:
        code = _run_entry(entry, rpc, request["name"])
    finally:
        # The frames below belong to the init and the template; nothing may return or raise into them.
        os._exit(code)


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


def _enter(working_dir: str, environ: dict[str, str]) -> str:
    """Change to the working directory, or home where the worker may not read it; return which it is."""
    for folder in (working_dir, environ.get("HOME", "/")):
        try:
            # Opened and not just entered: without namespaces, entering is not refused.
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        try:
            os.fchdir(fd)
            return folder
        finally:
            os.close(fd)
    os.chdir("/")
    return "/"


def _say_ready(lifeline: int, ready: dict[str, object], pidfds: list[int]) -> None:
    with socket.socket(fileno=lifeline) as line:
        socket.send_fds(line, [msgpack.packb({"ready": ready})], pidfds)
    for pidfd in pidfds:
        os.close(pidfd)


def _load(entry: str) -> Callable[[socket.socket, str], None]:
    module, _, function = entry.partition(":")
    loaded: Callable[[socket.socket, str], None] = getattr(importlib.import_module(module), function)
    return loaded


def _run_entry(entry: Callable[[socket.socket, str], None], rpc: int, name: str) -> int:
    """Run the entry, then what a Python program does at its end, short of taking the interpreter apart."""
    code = 0
    try:
        entry(socket.socket(fileno=rpc), name)
    except SystemExit as error:
        code = _exit_code(error.code)
    except BaseException:  # this is the top of the process
        sys.excepthook(*sys.exc_info())
        code = 1
    # As an interpreter does: wait for threads that are not daemons, then run what was registered for the end.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass  # a closed or broken stream loses its last bytes, not the exit code
    return code


def _exit_code(status: object) -> int:
    if status is None:
        return 0
    if isinstance(status, int):
        return status & 0xFF
    print(status, file=sys.stderr)  # noqa: T201 - what Python does with `sys.exit("text")`
    return 1
