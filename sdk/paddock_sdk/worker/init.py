"""Stand between the host and one worker: start it, wait for it, and leave nothing of its tree behind.

The init is the one trusted process of a worker's tree: it runs no module code, adopts every orphan of the tree and
talks to the host over the init socket. In namespaces of its own it is their process 1. It obeys `terminate` and `kill`,
kills the tree when the init socket closes, however the host ended, and sends `exited` once every descendant is dead and
reaped. It lives as long as its worker, so it touches next to no memory after its fork. It is not in the worker's
control group: at the memory limit the kernel may end any process there, and without the init the others would live on.
"""

from __future__ import annotations

# The function that `signal` wraps. Between two forks every touched page is copied, and the wrapper's enums touch a
# hundred.
import _signal  # type: ignore[import-not-found]  # typeshed leaves it out
import os
import resource
import select
import signal
import time
from contextlib import suppress
from typing import Any, NoReturn

from paddock_sandbox import capabilities, prctl
from paddock_sandbox.cgroup import Cgroup
from paddock_sandbox.descriptors import close_all_but
from paddock_sandbox.profile import SandboxProfile
from paddock_sandbox.title import set_title
from paddock_sdk.worker import sandbox_entry
from paddock_sdk.worker.init_socket import FAILED_BEFORE_ENTRY, report, report_failure

_COMMAND_BYTES = 64
_SWEEP_SECONDS = 5.0  # only a descendant stuck in the kernel outlives its SIGKILL by this much
_SWEEP_POLL_MS = 5  # an orphan may arrive without a signal of its own: look again this soon
_REAPED_AT_ONCE = 64  # a tree that dies faster than it is reaped must not keep the init from its socket or its deadline
SHORT_NAME = "paddock-init"
_FIRST_PID = 1  # ours in a pid namespace of our own


def run(
    request: dict[str, Any],
    *,
    rpc: int,
    stdout: int,
    stderr: int,
    init_socket: int,
) -> NoReturn:
    """Start the worker the request describes, where we are, see its tree to its end, report it and end the process."""
    group = None
    try:
        set_title(f"init of {request['title']}", SHORT_NAME)
        prepare_for_children()
        init = os.getpid()
        group = None if request["cgroup"] is None else Cgroup.from_dict(request["cgroup"])
        worker = os.fork()
        if worker == 0:
            if group is not None:
                group.place(os.getpid())
            profile = SandboxProfile.from_dict(request["profile"])
            sandbox_entry.enter_sandbox_and_run(
                request["entry"],
                profile,
                init=init,
                rpc=rpc,
                stdout=stdout,
                stderr=stderr,
                init_socket=init_socket,
                counts_memory=group is not None and "memory" in group.controllers,
            )
        if request["profile"]["level"] == "bwrap":
            capabilities.drop_all()  # bubblewrap left some for the worker to make its mounts and network with
        supervise_until_exit(worker, init_socket, group)
    except BaseException as error:  # no other process is left to report it or to end the tree
        report_and_exit(init_socket, error, group)


def report_and_exit(init_socket: int, error: BaseException, group: Cgroup | None = None) -> NoReturn:
    """Report the error, end the tree and the process."""
    try:
        report_failure(init_socket, "init", error)
        os.close(init_socket)
        while _sweep(group):
            pass
    finally:
        os._exit(FAILED_BEFORE_ENTRY)  # not back into the template, whose copy this process is


def prepare_for_children() -> None:
    """Be ready for the end of a child, and for the orphans of the tree."""
    # Before the fork: another member of the worker's process group would be signalled along with it.
    if os.getsid(0) != os.getpid():
        os.setsid()
    prctl.become_child_subreaper()
    # Children are reaped by us, where the template leaves its own to the kernel.
    _signal.signal(_signal.SIGCHLD, _notice)


def supervise_until_exit(worker: int, init_socket: int, group: Cgroup | None = None) -> NoReturn:
    """Obey the host until the worker ends, end its leftovers, report it and end the process.

    The worker's group is needed where there is no pid namespace, which the kernel ends as a whole.
    """
    # Turns SIGCHLD into something poll() sees.
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    close_all_but(0, 1, 2, init_socket, woken, wake)
    os.chdir("/")

    poller = select.poll()
    poller.register(init_socket, select.POLLIN)
    poller.register(woken, select.POLLIN)
    ended = _reap(worker, wake)  # it may have been quicker than the pipe
    while ended is None:
        for fd, _ in poller.poll():
            if fd == woken:
                with suppress(BlockingIOError):
                    while os.read(woken, 512):
                        pass
                ended = _reap(worker, wake)
            elif not _obey(init_socket, worker):
                poller.unregister(init_socket)
    left_behind = _sweep(group)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    exited = {
        **ended,
        "peak_rss": used.ru_maxrss * 1024,
        "user_time": used.ru_utime,
        "system_time": used.ru_stime,
        "left_behind": left_behind,
    }
    report(init_socket, {"exited": exited})
    os.close(init_socket)
    while left_behind:  # the host has its report, and waits no longer
        left_behind = _sweep(group)
    os._exit(0)


def drop_privileges() -> None:
    """Keep only what an init needs, and stay out of reach of the worker, which has the same user id."""
    capabilities.drop_all()
    prctl.give_up_new_privileges()
    prctl.set_dumpable(False)


def _notice(signal_number: int, frame: object) -> None:
    """Do nothing: any handler makes the interpreter write to the wake-up descriptor."""


def _obey(init_socket: int, worker: int) -> bool:
    """Carry out one command; kill the worker and return False once the host is gone."""
    try:
        command = os.read(init_socket, _COMMAND_BYTES)
    except OSError:
        command = b""
    _send(worker, signal.SIGTERM if command == b"terminate" else signal.SIGKILL)
    return command != b""


def _reap(worker: int, wake: int) -> dict[str, object] | None:
    """Reap ended children; return how the worker ended, once it has. If there may be more, `wake` is written to."""
    for _ in range(_REAPED_AT_ONCE):
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        if ended.si_pid == worker:
            # Before it is reaped: until then its group's number cannot mean another group.
            _send(worker, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
            return {"code": code, "signal": None} if code >= 0 else {"code": None, "signal": -code}
        os.waitpid(ended.si_pid, 0)
    os.write(wake, b"0")
    return None


def _sweep(group: Cgroup | None) -> int:
    """Kill and reap every descendant; return how many would not die in time."""
    deadline = time.monotonic() + _SWEEP_SECONDS
    if group is not None and _children():
        # Nothing forks any more in the group that is being killed; signals may never catch up with forks.
        with suppress(OSError):  # the group cannot be read; then it is for the signals
            group.kill()
    while True:
        # Only our own children: their numbers are ours until we reap them, and their orphans become ours.
        if os.getpid() == _FIRST_PID:
            try:
                os.kill(-1, signal.SIGKILL)  # every other process at once: none escapes by forking meanwhile
                children = [-1]
            except ProcessLookupError:
                children = []
        else:
            children = _children()
            for child in children:
                _send(child, signal.SIGKILL)
        try:
            for _ in range(_REAPED_AT_ONCE):
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
        except ChildProcessError:
            return 0
        if time.monotonic() > deadline:
            return len(children)
        select.poll().poll(_SWEEP_POLL_MS)


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", "rb") as listing:
        return [int(pid) for pid in listing.read().split()]


def _send(child: int, number: int) -> None:
    """Signal a child that is not reaped, with its process group: groups stay in their session, so within our tree."""
    try:
        group = os.getpgid(child)
        if group == os.getpgrp():
            os.kill(child, number)  # it had not yet made a session of its own
        else:
            os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass
