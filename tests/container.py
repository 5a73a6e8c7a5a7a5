"""Run a command as an ordinary container would: `python tests/container.py [--user] -- COMMAND [ARGUMENT...]`.

For trying Paddock where most people will try it first. The command has a mount namespace of its own with the parts of
/proc and /sys covered that container engines cover, all control groups and /proc/sys read-only, the capabilities that
Docker leaves to root, and a system call filter that refuses what Docker's default one does. With `--user` it runs as
uid and gid 65534 without any capability. Nothing else is shut off: files, processes and the network are the machine's.

Needs root to set that up; where it cannot be set up, says what is missing and exits with 77, having run nothing.
Otherwise the program becomes the command, so that signals and the exit code are the command's own; 127 when there is
no such command.
"""

from __future__ import annotations

import argparse
import os
import platform
import struct
import sys
from collections.abc import Callable
from errno import ENOSYS, EPERM
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "host"))

from paddock_sandbox import capabilities, prctl, seccomp
from paddock_sandbox.bpf import Branch, Load, Program, Return, Test, assemble, choose
from paddock_sandbox.syscall_numbers import SYSCALL_NUMBERS
from paddock_sandbox.syscalls import call

CANNOT = 77
NOBODY = 65534

# What Docker leaves to root: CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE NET_RAW
# SYS_CHROOT MKNOD AUDIT_WRITE SETFCAP.
CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31})
_CAPABILITY_HEADER = struct.pack("=Ii", 0x2008_0522, 0)

# Covered where they exist: files by /dev/null, folders by an empty one.
COVERED = (
    "/proc/acpi /proc/asound /proc/interrupts /proc/kcore /proc/keys /proc/latency_stats /proc/sched_debug "
    "/proc/scsi /proc/timer_list /proc/timer_stats /sys/firmware /sys/devices/virtual/powercap"
).split()
READ_ONLY = "/proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger".split()

REFUSED = (
    "unshare setns mount umount2 pivot_root open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick "
    "mount_setattr "
    "acct add_key bpf clock_settime fanotify_init finit_module init_module delete_module io_uring_enter "
    "io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie "
    "get_mempolicy mbind set_mempolicy migrate_pages move_pages open_by_handle_at perf_event_open pidfd_getfd "
    "quotactl quotactl_fd reboot request_key setdomainname sethostname settimeofday swapoff swapon syslog "
    "userfaultfd vhangup"
).split()
_NEW_NAMESPACES = 0x7E02_0000  # CLONE_NEW*
_ALLOW, _ERRNO = 0x7FFF_0000, 0x0005_0000  # SECCOMP_RET_*
_NUMBER, _FIRST_ARGUMENT = 0, 16  # in struct seccomp_data

_CLONE_NEWNS = 0x2_0000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 4, 8, 0x1000, 0x4000, 0x4_0000
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 1


def main() -> None:
    """Set the container up and become the command."""
    parser = argparse.ArgumentParser(description="Run a command as an ordinary container would.")
    parser.add_argument("--user", action="store_true", help=f"as uid and gid {NOBODY}, without capabilities")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    if os.geteuid() != 0:
        _cannot("it takes root to set up a container here")
    _step("make a mount namespace", _own_mounts)
    _step("cover parts of /proc and /sys", _cover)
    _step("make control groups read-only", _read_only_control_groups)
    # Before the capability to install it is gone: without it, the filter would cost the right to new privileges.
    _step("install the filter of system calls", lambda: seccomp.install(_filter(platform.machine())))
    _step("drop capabilities", _drop_capabilities)
    if options.user:
        _step(f"become user {NOBODY}", _become_nobody)
    try:
        os.execvp(options.command[0], options.command)
    except OSError as error:
        print(f"container: {options.command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


def _step(name: str, act: Callable[[], None]) -> None:
    try:
        act()
    except (OSError, NotImplementedError) as error:
        _cannot(f"cannot {name}: {error}")


def _cannot(reason: str) -> None:
    print(f"container: {reason}", file=sys.stderr)
    sys.exit(CANNOT)


def _own_mounts() -> None:
    call("unshare", _CLONE_NEWNS)
    call("mount", None, b"/", None, _MS_REC | _MS_PRIVATE, None)


def _cover() -> None:
    for path in filter(os.path.exists, COVERED):
        if os.path.isdir(path):
            flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
            call("mount", b"tmpfs", path.encode(), b"tmpfs", flags, b"size=0")
        else:
            call("mount", b"/dev/null", path.encode(), None, _MS_BIND, None)
    for path in filter(os.path.exists, READ_ONLY):
        call("mount", path.encode(), path.encode(), None, _MS_BIND | _MS_REC, None)
        _make_read_only(path)


def _read_only_control_groups() -> None:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        kind, path = fields[fields.index("-") + 1], fields[4]
        if kind in ("cgroup", "cgroup2") or path == "/sys/fs/cgroup":
            _make_read_only(path.replace("\\040", " "))


def _make_read_only(path: str) -> None:
    attributes = struct.pack("=4Q", _MOUNT_ATTR_RDONLY, 0, 0, 0)  # struct mount_attr: to set, to clear, and no more
    call("mount_setattr", _AT_FDCWD, path.encode(), _AT_RECURSIVE, attributes, len(attributes))


def _filter(machine: str) -> bytes:
    if machine not in SYSCALL_NUMBERS:
        raise NotImplementedError(f"no table of system calls for the architecture {machine}")
    refused, unknown, allowed = Return(_ERRNO | EPERM), Return(_ERRNO | ENOSYS), Return(_ALLOW)
    answers: dict[str, Program] = {
        **dict.fromkeys(REFUSED, refused),
        "clone": Load(_FIRST_ARGUMENT, Branch(Test.ANY_BIT, _NEW_NAMESPACES, yes=refused, no=allowed)),
        "clone3": unknown,
    }
    known = {number: answers[name] for name, number in SYSCALL_NUMBERS[machine].items() if name in answers}
    ranges: dict[int, Program] = {0: allowed}
    for number in sorted(known):
        ranges |= {number: known[number], number + 1: allowed}
    return assemble(Load(_NUMBER, choose([*ranges.items()])))


def _drop_capabilities() -> None:
    held = capabilities.held()
    prctl.clear_ambient_set()
    for capability in held.bounding - CAPABILITIES:
        prctl.drop_from_bounding_set(capability)
    kept = sum(1 << capability for capability in held.permitted & CAPABILITIES)
    call("capset", _CAPABILITY_HEADER, struct.pack("=6I", kept, kept, 0, 0, 0, 0))  # effective, permitted, none else


def _become_nobody() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


if __name__ == "__main__":
    main()
