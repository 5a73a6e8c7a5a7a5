"""Which levels this machine must be able to give, found out without any code of ours.

A test that skips because a level could not be had would also skip if the level were broken.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import sys
from typing import NoReturn

import pytest

_SECONDS = 60
_LANDLOCK_NEEDED = 6  # the version that keeps signals and abstract sockets inside
_LANDLOCK_CREATE_RULESET = 444  # the same on every architecture
# Namespaces of every kind, then the mount that needs them, as an ordinary user may make them.
_MAKE_NAMESPACES = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
user, group = os.getuid(), os.getgid()
if libc.unshare(0x7E020000) != 0:
    sys.exit(f"unshare: {os.strerror(ctypes.get_errno())}")
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) != 0:
    sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
"""


def skip_or_fail(level: str, why: object) -> NoReturn:
    """Skip, unless the machine has all that the level takes: then it is the level that is broken."""
    missing = _missing(level)
    if not missing:
        pytest.fail(f"the machine has what level {level} takes, and yet: {why}")
    pytest.skip(f"{missing}; {why}")


def _missing_for_bubblewrap() -> str:
    if os.geteuid() == 0:
        return "root has no use of bwrap"
    program = shutil.which("bwrap", path=os.defpath)
    if program is None:
        return "bubblewrap is not installed"
    if "--bind-fd" not in subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout:
        return "bubblewrap is of before 0.10"
    command = [program, "--unshare-all", "--ro-bind", "/", "/", "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    return f"bubblewrap: {done.stderr.strip()}" if done.returncode else ""


@functools.cache
def _missing(level: str) -> str:
    if level == "bwrap":
        return _missing_for_bubblewrap() or _missing("landlock")
    if level == "ns":
        command = [sys.executable, "-I", "-S", "-c", _MAKE_NAMESPACES]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        return done.stderr.strip().splitlines()[-1] if done.returncode else ""
    version = ctypes.CDLL(None).syscall(_LANDLOCK_CREATE_RULESET, None, 0, 1)
    return "" if version >= _LANDLOCK_NEEDED else f"Landlock is of version {version}"
