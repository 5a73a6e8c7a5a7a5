"""What a process does to itself is really done, in order, and a step that fails stops everything after it."""

from __future__ import annotations

import errno
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock_sandbox import landlock, lockdown
from paddock_sandbox.profile import NetworkAccess, SandboxProfile
from sandbox.subject import PATIENCE, USERS, ground, run

_SANDBOX = Path(lockdown.__file__).parents[1]

IMPORTS = """
import dataclasses, threading
from paddock_sandbox import lockdown, seccomp
from paddock_sandbox.lockdown import apply
from paddock_sandbox.step_error import StepError
from paddock_sandbox.profile import Mount, NetworkAccess, SandboxProfile
"""
PROGRAM = """
def profile(level, **parts):
    return SandboxProfile(level, scratch=given, **parts)

def shut_in(level, act=lambda: None, parent=None, **parts):
    "What act() returns in a child that shut itself in, with the report; or the step that failed."
    reading, writing = os.pipe()
    here = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            report = apply(profile(level, **parts), parent=here if parent is None else parent)
            said = {"returned": act(), "report": dataclasses.asdict(report)}
        except StepError as error:
            said = {"step": error.step, "error": errno.errorcode[error.errno], "text": str(error)}
        os.write(writing, json.dumps(said).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading) as pipe:
        return json.loads(pipe.read())
"""

OF_NONE = ["no_new_privs", "no core dumps", "die with the parent"]
OF_OTHERS = [
    *("one thread", "resource limits", "capabilities", "no_new_privs", "Landlock"),
    *("dumpable", "die with the parent", "seccomp"),
]
# Without namespaces each of them can be applied to any process, which is then at that level in all but its namespaces.
LEVELS = ["ns", "bwrap", "landlock"]


@pytest.fixture
def scratch(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A private folder: the user's where a test is about each of them."""
    with ground(request.getfixturevalue("user") if "user" in request.fixturenames else USERS[0]) as folder:
        yield folder


def told(program: str, scratch: Path, user: str = USERS[0]) -> Any:
    return run(PROGRAM + program, str(scratch), user=user, imports=IMPORTS)


def needs_landlock() -> None:
    if landlock.abi() == 0:
        pytest.skip(f"this kernel has no Landlock: its ABI is {landlock.abi()}")


def test_level_none_takes_three_steps_and_says_so(user: str, scratch: Path) -> None:
    program = """
def act():
    return prctl.is_no_new_privs(), resource.getrlimit(resource.RLIMIT_CORE), prctl.seccomp_mode(), outcome(open, "/")
resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
tell([resource.getrlimit(resource.RLIMIT_CORE)[1], prctl.seccomp_mode(), shut_in("none", act)])
"""
    allowed, filtered, done = told(program, scratch, user)
    no_new_privs, core, seccomp, opened = done["returned"]
    assert no_new_privs
    # With 0, a program that handles crashes would still be handed this one.
    assert core == [min(1, allowed) if allowed >= 0 else 1] * 2
    assert (seccomp, opened) == (filtered, "EISDIR")
    assert done["report"] == {"level": "none", "steps": OF_NONE, "protections": []}


@pytest.mark.parametrize("level", LEVELS)
def test_every_other_level_takes_all_steps_and_leaves_only_what_it_should(user: str, scratch: Path, level: str) -> None:
    needs_landlock()
    program = f"""
import ctypes
libc = ctypes.CDLL(None)
listening = socket.create_server(("127.0.0.1", 0))
def act(place=given):
    return {{
        "capabilities": sorted(capabilities.held().effective | capabilities.held().permitted),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "filter": prctl.seccomp_mode(),
        "privileges": prctl.is_no_new_privs(),
        "dumpable": libc.prctl(3, 0, 0, 0, 0) == 1,  # PR_GET_DUMPABLE
        "write here": outcome(open, f"{{place}}/file", "w"),
        "write elsewhere": outcome(open, "/var/tmp/paddock-test-lockdown", "w"),
        "make a socket": outcome(socket.socket),
        "execute": outcome(os.execv, sys.executable, ["python", "-c", ""]),
        "use a device": outcome(open, "/dev/null", "w"),
    }}
tell(shut_in({level!r}, act, rlimits=(Rlimit("NOFILE", 32),)))
"""
    done = told(program, scratch, user)
    report = done["report"]
    assert (report["level"], report["steps"]) == (level, OF_OTHERS)
    assert "file system" in report["protections"]
    assert report["protections"] == sorted(report["protections"])
    assert done["returned"] == {
        **{"capabilities": [], "files": [32, 32], "filter": 2, "privileges": True, "dumpable": True},
        **{"write here": "ok", "write elsewhere": "EACCES", "make a socket": "EACCES", "execute": "ENOENT"},
        **{"use a device": "ok"},
    }


def test_beside_the_host_only_what_is_named_can_be_read(user: str, scratch: Path) -> None:
    needs_landlock()
    folders = [scratch.parent / f"{scratch.name}-{name}" for name in ("granted", "other")]
    program = """
def act():
    return {name: outcome(os.listdir, f"{given}-{name}") for name in ("granted", "other")}
tell([act(), *(shut_in(level, act, mounts=(Mount(f"{given}-granted", "/elsewhere"),))["returned"] for level in
     ("landlock", "ns"))])
"""
    for folder in folders:
        folder.mkdir()
        folder.chmod(0o755)
    try:
        outside, beside, with_its_own_root = told(program, scratch, user)
    finally:
        for folder in folders:
            folder.rmdir()
    assert outside == with_its_own_root == {"granted": "ok", "other": "ok"}
    assert beside == {"granted": "ok", "other": "EACCES"}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("programs", "executed"),
    # What may be executed is no program, so the kernel says so.
    [("()", "ENOENT"), ("(f'{given}/other',)", "EACCES"), ("(f'{given}/it',)", "ENOEXEC"), ("('*',)", "ENOEXEC")],
    ids=["none", "another", "this one", "any that is seen"],
)
def test_only_the_programs_that_are_named_can_be_executed(
    scratch: Path, level: str, programs: str, executed: str
) -> None:
    needs_landlock()
    program = f"""
for name in ("it", "other"):
    with open(f"{{given}}/{{name}}", "w") as file:
        file.write("x")
    os.chmod(f"{{given}}/{{name}}", 0o755)
def act():
    return outcome(os.execv, f"{{given}}/it", ["it"])
tell([act(), shut_in({level!r}, act, programs={programs}, mounts=(Mount(given, given, mappable=True),))])
"""
    outside, inside = told(program, scratch)
    assert outside == "ENOEXEC"
    assert inside["returned"] == executed


_CONNECTING = """
granted, other = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("127.0.0.1", 0))
ports = granted.getsockname()[1], other.getsockname()[1]
def connect(port):
    with socket.socket() as stream:
        stream.connect(("127.0.0.1", port))
def connect_with_the_first_data(port):
    with socket.socket() as stream:
        stream.setsockopt(socket.IPPROTO_TCP, 30, 1)  # TCP_FASTOPEN_CONNECT
        stream.connect(("127.0.0.1", port))
        stream.send(b"x")
def send(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", datagrams.getsockname())
def connect_by_sending(port):
    with socket.socket() as stream:
        stream.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", port))
def by_mptcp(port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as stream:
        stream.connect(("127.0.0.1", port))
def bind(port):
    with socket.socket() as stream:
        stream.bind(("127.0.0.1", 0))
def listen(port):
    with socket.socket() as stream:
        stream.listen()
def act():
    return {f"{act.__name__} {which}": outcome(act, port)
            for which, port in zip(("granted", "other"), ports)
            for act in (connect, connect_with_the_first_data, send, connect_by_sending, by_mptcp, bind, listen)}
"""


@pytest.mark.parametrize("level", LEVELS)
def test_only_granted_ports_can_be_connected_to(user: str, scratch: Path, level: str) -> None:
    if landlock.abi() < 4:
        pytest.skip(f"this kernel's Landlock is {landlock.abi()} < 4")
    program = f"{_CONNECTING}\ntell([act(), shut_in({level!r}, act, network=NetworkAccess(ports[:1]))])"
    outside, inside = told(program, scratch, user)
    refused = {
        **{"connect": "EACCES", "connect_with_the_first_data": "EACCES", "connect_by_sending": "ENOTSUP"},
        **{"by_mptcp": "EPROTONOSUPPORT", "bind": "EACCES", "listen": "EACCES", "send": "EACCES"},
    }
    free = {"connect granted", "connect_with_the_first_data granted"}
    if level != "landlock" and landlock.abi() < 10:  # afterwards names can be looked up, and no more
        free |= {"send granted", "send other"}
    assert inside["returned"] == {name: "ok" if name in free else refused[name.split()[0]] for name in outside}
    assert {name for name, became in outside.items() if became != "ok"} <= {"by_mptcp granted", "by_mptcp other"}


@pytest.mark.parametrize("level", LEVELS)
def test_without_landlock_ports_no_shared_network_is_used(scratch: Path, level: str) -> None:
    needs_landlock()
    program = (
        f"landlock.abi = lambda: min(3, {landlock.abi()})\ntell(shut_in({level!r}, network=NetworkAccess((443,))))"
    )
    done = told(program, scratch)
    if level != "landlock":
        assert done["report"]["steps"] == OF_OTHERS
        return
    assert (done["step"], done["error"].replace("EOPNOTSUPP", "ENOTSUP")) == ("Landlock", "ENOTSUP")
    assert (
        "connections can be bounded to a port from Landlock ABI 4 (Linux 6.7) on; this kernel has ABI " in done["text"]
    )


@pytest.mark.parametrize(
    ("level", "step"), [*(("none", step) for step in OF_NONE), *(("landlock", step) for step in OF_OTHERS)]
)
def test_no_step_is_taken_after_one_that_failed(scratch: Path, level: str, step: str) -> None:
    needs_landlock()
    program = f"""
taken = []
def replace(place, function, name):
    def take(*arguments, **named):
        taken.append(name)
        if name == {step!r}:
            raise OSError(errno.EIO, "injected")
    setattr(place, function, take)
replace(lockdown, "_require_one_thread", "one thread")
replace(rlimits, "apply", "no core dumps" if {level!r} == "none" else "resource limits")
replace(capabilities, "drop_all", "capabilities")
replace(prctl, "give_up_new_privileges", "no_new_privs")
landlock.restrict = lambda rules: taken.append("Landlock") or frozenset()
if {step!r} == "Landlock":
    replace(landlock, "restrict", "Landlock")
replace(prctl, "set_dumpable", "dumpable")
replace(lockdown, "_die_with", "die with the parent")
replace(seccomp, "install", "seccomp")
try:
    apply(profile({level!r}), parent=os.getppid())
except StepError as error:
    tell([error.step, errno.errorcode[error.errno], str(error), taken])
"""
    steps = OF_NONE if level == "none" else OF_OTHERS
    failed, number, text, taken = told(program, scratch)
    assert (failed, number) == (step, "EIO")
    assert text == f"[Errno {errno.EIO}] {step}: injected"
    assert taken == steps[: steps.index(step) + 1]


def test_a_process_with_a_second_thread_is_not_locked_in(scratch: Path) -> None:
    program = """
idle = threading.Event()
threading.Thread(target=idle.wait, daemon=True).start()
try:
    apply(profile("landlock"), parent=os.getppid())
except StepError as error:
    tell([error.step, errno.errorcode[error.errno], str(error), prctl.is_no_new_privs()])
os._exit(0)
"""
    step, number, text, was_given_up = told(program, scratch)
    assert (step, number, was_given_up) == ("one thread", "EBUSY", False)
    assert "the process has 2 threads" in text


def test_an_architecture_without_a_filter_is_not_locked_in_without_one(scratch: Path) -> None:
    needs_landlock()
    program = """
import platform
platform.machine = lambda: "pdp11"
tell(shut_in("ns"))
"""
    failed = told(program, scratch)
    assert (failed["step"], failed["error"]) == ("seccomp", "ENOSYS")
    assert "pdp11" in failed["text"]


def test_a_process_whose_parent_ended_first_is_not_locked_to_a_stranger(user: str, scratch: Path) -> None:
    for level, gone in (("none", "os.getpid() + 1"), ("none", "1" if os.getpid() != 1 else "2")):
        failed = told(f"tell(shut_in({level!r}, parent={gone}))", scratch, user)
        assert (failed["step"], failed["error"]) == ("die with the parent", "ESRCH")
        assert "die with the parent: the parent ended first" in failed["text"]


@pytest.mark.parametrize("level", ["none", "landlock"])
def test_a_process_dies_with_its_parent(level: str, scratch: Path) -> None:
    needs_landlock()
    reading, writing = os.pipe()
    program = f"""
import os, signal, sys
sys.path.append({str(_SANDBOX)!r})
from paddock_sandbox.lockdown import apply
from paddock_sandbox.profile import SandboxProfile
parent = os.getpid()
ready, readied = os.pipe()
if os.fork() == 0:
    apply(SandboxProfile({level!r}, scratch={str(scratch)!r}), parent=parent)
    os.write(readied, b"x")
    while True:
        signal.pause()
os.read(ready, 1)
"""
    try:
        subprocess.run([sys.executable, "-I", "-S", "-c", program], pass_fds=(writing,), timeout=PATIENCE, check=True)
        os.close(writing)
        readable, _, _ = select.select([reading], [], [], PATIENCE)
        assert readable and os.read(reading, 1) == b"", "the child holds its pipe after its parent's end"
    finally:
        os.close(reading)


def test_the_filter_depends_on_sharing_programs_and_network() -> None:
    compiled = {
        lockdown.filter_of(SandboxProfile(level, programs=programs, network=network))
        for level in ("ns", "landlock")
        for programs in ((), ("/bin/true",))
        for network in (None, NetworkAccess((443,)))
    }
    assert len(compiled) == 8
    assert lockdown.filter_of(SandboxProfile("ns", network=NetworkAccess((), serves=True))) not in compiled
    assert lockdown.filter_of(SandboxProfile("bwrap")) == lockdown.filter_of(SandboxProfile("ns"))
