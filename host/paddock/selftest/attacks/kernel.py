"""Attacks on the kernel: calls that no module needs, and privileges that none may have.

Most are calls with arguments that cannot have an effect. Outside, the kernel examines and refuses the arguments;
inside, the call must be refused before that. No attack here has an effect, wherever it is made.
"""

from __future__ import annotations

import platform
from functools import partial
from typing import Final

from paddock.selftest.attack import REFUSALS, Arguments, Attack
from paddock.selftest.expected_failures import forbidden_by, may_lack, needs

_BAD: Final = 8  # an address nothing is at
_MISSING: Final = "/there is no such place"


_UNHEARD: Final = frozenset(("EPERM", "EACCES", "ENOSYS"))
# The kernel reads only the lower half of a command's number; a call could evade a filter that reads all of it.
_TERMINAL_COMMANDS: Final = {
    "TIOCSTI": 0x5412,
    "TIOCSTI with high bits": 0x1_0000_5412,
    "TIOCLINUX": 0x541C,
    "TIOCLINUX with high bits": 0x7FFF_0000_0000_541C,
}


def _calls(*rows: tuple[int | str, ...]) -> Arguments:
    """Return arguments for `reach_the_kernel`: a row is the name of a call and its arguments."""
    return lambda testbed: {"calls": rows}


_attack = partial(Attack, family="kernel", refusals=_UNHEARD)
_reach = partial(_attack, "kernel_calls.reach_the_kernel")

KERNEL: Final = (
    _reach(
        "sets up io_uring, whose operations no filter of calls sees",
        own_name="use_io_uring",
        arguments=_calls(
            ("io_uring_setup", 1, 0), ("io_uring_enter", -1, 0, 0, 0, 0), ("io_uring_register", -1, 0, 0, 0)
        ),
        expected_failures=(forbidden_by("kernel.io_uring_disabled", "0"), may_lack("io_uring", "ENOSYS")),
    ),
    _reach(
        "looks into the session's keyring",
        own_name="steal_keys",
        arguments=_calls(("keyctl", 0, -3, 0), ("add_key", _BAD, 0, 0, 0, 0), ("request_key", _BAD, 0, 0, 0)),
        expected_failures=(may_lack("keyrings", "ENOSYS"),),
    ),
    _reach(
        "asks for eBPF, performance counters and page faults of its own",
        own_name="watch_the_machine",
        # The kernel refuses each for its arguments before it checks the caller.
        arguments=_calls(("bpf", 0, _BAD, 1 << 20), ("perf_event_open", 0, 0, 0, 0, -1), ("userfaultfd", 0x7FFF0001)),
        expected_failures=(
            forbidden_by("kernel.unprivileged_bpf_disabled", "0"),
            forbidden_by("kernel.perf_event_paranoid", "-1", "0", "1", "2"),
            may_lack("eBPF, counters or page faults for users", "ENOSYS"),
        ),
    ),
    _reach(
        "loads modules and another kernel",
        own_name="load_code_into_the_kernel",
        arguments=_calls(
            ("init_module", _BAD, 1, 0),
            ("finit_module", -1, 0, 0x7FFF),
            ("delete_module", _BAD, 0),
            ("kexec_load", 0, 0, 0, 0x7FFF),
            ("kexec_file_load", -1, -1, 0, 0, 0x7FFF),
        ),
        expected_failures=(
            needs("CAP_SYS_ADMIN"),
            needs("CAP_SYS_BOOT"),
            may_lack("loadable modules or kernels", "ENOSYS"),
        ),
    ),
    _reach(
        "mounts, unmounts and changes its root",
        own_name="change_what_is_mounted",
        arguments=_calls(
            ("mount", 0, _MISSING, 0, 0, 0),
            ("umount2", _MISSING, 0x7FFF),
            ("chroot", _MISSING),
            ("open_tree", -1, _MISSING, 0x7FFFFFFF),
            ("mount_setattr", -1, _MISSING, 0x7FFFFFFF, 0, 0),
        ),
        expected_failures=(may_lack("new calls for mounts", "ENOSYS"),),
    ),
    _reach(
        "makes file systems and moves mounts",
        own_name="make_file_systems",
        arguments=_calls(
            ("pivot_root", _MISSING, _MISSING),
            ("fsopen", _BAD, 0),
            ("fspick", -1, _MISSING, 0),
            ("fsmount", -1, 0, 0),
            ("move_mount", -1, _MISSING, -1, _MISSING, 0),
            ("fanotify_init", 0x7FFFFFFF, 0),
        ),
        expected_failures=(needs("CAP_SYS_ADMIN"), may_lack("new calls for mounts", "ENOSYS")),
    ),
    _attack(
        "kernel_calls.make_namespaces",
        "makes namespaces of its own, to be root there",
        expected_failures=(
            may_lack("user namespaces to spare", "ENOSPC", "EUSERS"),
            forbidden_by("kernel.apparmor_restrict_unprivileged_userns", "0"),
            forbidden_by("kernel.unprivileged_userns_clone", "1"),
        ),
    ),
    _reach(
        "makes a process by a call whose flags no filter can look at",
        own_name="use_a_newer_clone",
        arguments=_calls(("clone3", 0, 0)),
        # With any other answer the C library would not fall back to the older call.
        refusals=frozenset(("ENOSYS",)),
        expected_failures=(may_lack("clone3", "ENOSYS"),),
    ),
    _reach(
        "sets the machine's clock",
        own_name="set_the_clock",
        arguments=_calls(("settimeofday", _BAD, 0), ("clock_settime", 999, _BAD)),
    ),
    _reach(
        "restarts the machine and changes where it swaps to",
        own_name="take_down_the_machine",
        arguments=_calls(("reboot", 0, 0, 0, 0), ("swapon", _MISSING, 0x7FFFFFFF), ("swapoff", _MISSING)),
        expected_failures=(needs("CAP_SYS_ADMIN"), needs("CAP_SYS_BOOT"), may_lack("swap", "ENOSYS")),
    ),
    _attack(
        "kernel_calls.type_into_the_terminal",
        "pushes keys into a terminal, for the shell behind it to run",
        arguments=lambda testbed: {"commands": _TERMINAL_COMMANDS, "address": _BAD},
    ),
    *(
        _attack(
            "kernel_calls.call_as_another_architecture",
            "makes calls by the numbers of 32-bit programs",
            refusals=_UNHEARD | {"SIGSYS"},
            expected_failures=(may_lack("32-bit calls", "SIGSEGV", "ENOSYS"),),
        )
        for _ in ("x86_64",)
        if platform.machine() == "x86_64"
    ),
    _attack(
        "kernel_calls.hold_privileges",
        "uses capabilities, set-user-ID programs and threads that escaped the filter",
        refusals=frozenset(("EPERM",)),
        expected_failures=(needs("CAP_SYS_ADMIN"),),
    ),
    _attack(
        "kernel_calls.read_memory_shared_by_others",
        "opens shared memory, queues and semaphores of the machine",
        arguments=lambda testbed: {
            "key": testbed.shared_objects.key,
            "queue": testbed.shared_objects.queue,
            "file": str(testbed.shared_objects.file),
        },
        refusals=REFUSALS,
        expected_failures=(may_lack("such a means", "ENOSYS", "ENOENT"),),
    ),
)
