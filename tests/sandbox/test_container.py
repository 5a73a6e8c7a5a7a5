"""The stand-in for an ordinary container refuses what one refuses, and lets a program run."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from paddock_sandbox.syscall_numbers import SYSCALL_NUMBERS
from sandbox.subject import PATIENCE
from support.mounted import mounted
from support.rows import each_row

_CONTAINER = Path(__file__).parents[1] / "container.py"
_CANNOT = 77
_BAD = 0xFFFF_FFFF

# Harmless where allowed: what they name does not exist, or is no address.
_CALLS = {
    "unshare": (0,),
    "setns": (-1, 0),
    "mount": (0, 0, 0, 0, 0),
    "umount2": (0, _BAD),
    "pivot_root": (0, 0),
    "open_tree": (-1, 0, _BAD),
    "move_mount": (-1, 0, -1, 0, _BAD),
    "fsopen": (0, _BAD),
    "fsmount": (-1, _BAD, _BAD),
    "mount_setattr": (-1, 0, _BAD, 0, 0),
    "clone": (0x1000_0000 | 0x1_0000, 0, 0, 0, 0),  # CLONE_NEWUSER, and CLONE_THREAD, which is too little alone
    "clone3": (0, 0),
}

_TELL = """
import ctypes, errno, json, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
def answer(number, arguments):
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    return "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()]
def refusal(path):
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError as error:
        return errno.errorcode[error.errno]
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
mounts = [line.split() for line in open("/proc/self/mountinfo")]
started = []
thread = threading.Thread(target=started.append, args=[True])
thread.start()
thread.join()
print(json.dumps({
    "answers": {name: answer(number, arguments) for name, (number, arguments) in json.loads(sys.argv[1]).items()},
    "uid": os.getuid(),
    "groups": os.getgroups(),
    "capabilities": {name: int(status[name], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb", "CapBnd")},
    "no_new_privs": status["NoNewPrivs"],
    "writable": [m[4] for m in mounts if m[m.index("-") + 1] in ("cgroup", "cgroup2") and "ro" not in m[5].split(",")],
    "sysctl": refusal("/proc/sys/vm/drop_caches"),
    "covered": [m[4] for m in mounts if m[4] in ("/proc/acpi", "/proc/keys", "/proc/timer_list", "/proc/kcore")],
    "thread": started,
}))
"""


def contained(*command: str, user: bool = False) -> subprocess.CompletedProcess[str]:
    arguments = ["--user"] if user else []
    done = subprocess.run(
        [sys.executable, str(_CONTAINER), *arguments, "--", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd="/",
    )
    if done.returncode == _CANNOT:
        pytest.skip(done.stderr.strip())
    return done


@cache
def interpreter(user: bool) -> str:
    """An interpreter that whoever is meant can reach."""
    tried: list[str] = []
    for path in (sys.executable, "/usr/bin/python3"):
        done = contained(path, "-I", "-S", "-c", "pass", user=user)
        if done.returncode == 0:
            return path
        tried.append(f"{path}: {done.stderr.strip()!r}")
    pytest.skip(f"an ordinary user can reach no interpreter here: {'; '.join(tried)}")


def _calls() -> str:
    numbers = SYSCALL_NUMBERS[platform.machine()]
    return json.dumps({name: (numbers[name], arguments) for name, arguments in _CALLS.items()})


def told(*, user: bool) -> Any:
    done = contained(interpreter(user), "-I", "-S", "-c", _TELL, _calls(), user=user)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@each_row(("user", "uid", "held"), [(False, 0, 0xA804_25FB), (True, 65534, 0)])
def test_a_container_refuses_covers_and_leaves_what_one_does(user: bool, uid: int, held: int) -> None:
    inside = told(user=user)
    assert inside["answers"] == dict.fromkeys(_CALLS, "EPERM") | {"clone3": "ENOSYS"}
    assert (inside["uid"], inside["thread"], inside["no_new_privs"]) == (uid, [True], "0")
    assert inside["groups"] == [] or not user
    assert inside["capabilities"] == {"CapPrm": held, "CapEff": held, "CapInh": 0, "CapAmb": 0, "CapBnd": 0xA804_25FB}
    assert inside["writable"] == []
    assert inside["sysctl"] == ("EACCES" if user else "EROFS")
    there = [path for path in ("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list") if os.path.exists(path)]
    assert sorted(inside["covered"]) == there
    outside = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _TELL, _calls()], capture_output=True, timeout=PATIENCE, check=True
    )
    assert set(json.loads(outside.stdout)["answers"].values()).isdisjoint({"EPERM", "ENOSYS"})


def test_the_machine_is_left_as_it_was(tmp_path_factory: pytest.TempPathFactory) -> None:
    before = mounted(tmp_path_factory.getbasetemp())
    contained("/bin/true")
    assert mounted(tmp_path_factory.getbasetemp()) == before


def test_where_no_container_can_be_set_up_it_says_why_and_runs_nothing() -> None:
    within = shlex.join([sys.executable, str(_CONTAINER), "--", "/bin/echo", "ran"])
    done = contained("/bin/sh", "-c", f"{within}; echo code $?")
    assert done.stdout == f"code {_CANNOT}\n"
    assert done.stderr == "container: cannot make a mount namespace: [Errno 1] unshare: Operation not permitted\n"
