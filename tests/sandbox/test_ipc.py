"""What the System V objects of a namespace may take is bounded, or known not to be."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.subject import ORDINARY, run

_PROGRAM = f"""
import mmap
from paddock_sandbox import ipc, namespaces
_NEWUSER, _NEWIPC = 0x10000000, 0x08000000
libc = ctypes.CDLL(None, use_errno=True)

def make(name, *arguments):
    made = libc[name](0, *arguments, 0o1600)
    return "made" if made >= 0 else errno.errorcode[ctypes.get_errno()]

def objects():
    found = [make("shmget", ctypes.c_size_t(size)) for size in (4096, 6 << 20, 6 << 20)]
    found += [make("msgget") for _ in range(5)] + [make("semget", 16000), make("semget", 3)]
    return found

if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid({ORDINARY}, {ORDINARY}, {ORDINARY})
    os.setresuid({ORDINARY}, {ORDINARY}, {ORDINARY})
    prctl.set_dumpable(True)
uid, gid = os.getuid(), os.getgid()
none = outcome(call, "unshare", _NEWUSER | _NEWIPC)
if none != "ok":
    tell({{"none": none}})
    sys.exit()
namespaces.map_own_ids(uid, gid)
told = {{"before": ipc.are_bounded(), "unbounded": objects()}}
try:
    ipc.enter_bounded_namespace()
    told["objects"] = objects()
except OSError as error:
    told["refused"] = str(error)
tell({{**told, "after": ipc.are_bounded()}})
"""


def test_objects_of_a_bounded_namespace_take_no_more() -> None:
    told: dict[str, Any] = run(_PROGRAM)
    if "none" in told:
        pytest.skip(f"no IPC namespace can be made here: unshare: {told['none']}")
    assert told["before"] is False
    assert set(told["unbounded"]) == {"made"}
    if "refused" in told:
        assert told["after"] is False
        pytest.skip(f"this kernel lets nobody set them: {told['refused']}")
    assert told["after"] is True
    assert told["objects"] == ["made", "made", "ENOSPC", *["made"] * 4, "ENOSPC", "EINVAL", "made"]
