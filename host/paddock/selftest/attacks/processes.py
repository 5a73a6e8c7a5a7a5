"""Attacks on other processes: the host, and other processes of the user."""

from __future__ import annotations

import os
from functools import partial
from typing import Final

from paddock.selftest.attack import Attack, Outside, Sign
from paddock.selftest.attacks.grants import workspace
from paddock.selftest.attacks.keys import shifted
from paddock.selftest.expected_failures import forbidden_by, may_lack
from paddock.selftest.testbed.testbed import AttackTestbed


def _others(testbed: AttackTestbed) -> dict[str, int]:
    return {"the host": os.getpid(), "a process of the user": testbed.target_process.pid}


_attack = partial(Attack, family="processes")

PROCESSES: Final = (
    _attack(
        "processes.kill_the_host",
        "signals the host and another process of the user",
        arguments=lambda testbed: {"pids": _others(testbed)},
        marks=True,
    ),
    _attack(
        "processes.kill_everything",
        "signals every process that it can reach",
        arguments=lambda testbed: {"pid": -1},
        outside_arguments=lambda testbed: {"pid": -testbed.target_process.pid},
        sign=Sign.MARKS,
        marks=True,
    ),
    _attack(
        "processes.signal_through_a_file",
        "has the kernel signal a process for it",
        arguments=lambda testbed: {"pid": testbed.target_process.pid},
        sign=Sign.MARKS,
        marks=True,
    ),
    _attack(
        "processes.trace_a_process",
        "attaches to another process as a debugger does",
        arguments=lambda testbed: {"pids": _others(testbed)},
        outside_arguments=lambda testbed: {"pids": {"a process of the user": testbed.target_process.pid}},
        expected_failures=(forbidden_by("kernel.yama.ptrace_scope", "0", "1"),),
    ),
    _attack(
        "processes.read_memory_of_a_process",
        "reads and writes another process's memory",
        arguments=lambda testbed: {
            "pid": testbed.target_process.pid,
            "address": testbed.target_process.address,
            "content": testbed.secret,
        },
        expected_failures=(forbidden_by("kernel.yama.ptrace_scope", "0", "1"),),
    ),
    _attack(
        "memory.remember_what_others_were_told",
        "looks in its own memory for what another module was granted",
        arguments=lambda testbed: {"shifted": shifted(testbed.confidence)},
    ),
    _attack(
        "processes.steal_a_descriptor",
        "takes over a file that another process has open",
        arguments=lambda testbed: {
            "pid": testbed.target_process.pid,
            "descriptor": testbed.target_process.descriptor,
        },
        expected_failures=(
            forbidden_by("kernel.yama.ptrace_scope", "0", "1"),
            may_lack("kernel with kcmp or pidfd_getfd", "ENOSYS"),
        ),
    ),
    _attack(
        "processes.read_environment_of_a_process",
        "reads the environment and the memory map of other processes",
        arguments=lambda testbed: {"pids": {"the first process": 1, **_others(testbed)}},
        outside_arguments=lambda testbed: {"pids": {"a process of the user": testbed.target_process.pid}},
    ),
    _attack(
        "processes.change_limits_of_a_process",
        "lowers the limits and priorities of another process",
        arguments=lambda testbed: {"pid": testbed.target_process.pid},
        marks=True,
    ),
    _attack(
        "processes.renice_everything_of_the_user",
        "lowers the priority of everything that the user runs",
        # In namespaces of its own the module is the only process of its user.
        only_at=("landlock",),
        refusals=frozenset(("EPERM", "EACCES", "ENOSYS")),
    ),
)

# On the end of a module: leaving something behind, or not ending at all.
_ending = partial(Attack, family="endings", grants=workspace, sign=Sign.LIFE, outside=Outside.LIVES_ON)
ENDINGS: Final = (
    _ending(
        "endings.leave_a_daemon",
        "leaves a process behind that outlives it",
        arguments=lambda testbed: {"lock": str(testbed.lock("leave_a_daemon"))},
    ),
    _ending(
        "endings.leave_a_daemon_and_end_its_keeper",
        "leaves a process behind and kills the one that would end it",
        arguments=lambda testbed: {
            "lock": str(testbed.lock("leave_a_daemon_and_end_its_keeper")),
            "with_keeper": True,
        },
        outside_arguments=lambda testbed: {"with_keeper": False},
    ),
    _ending(
        "endings.refuse_to_end",
        "ignores signals and hangs wherever an end can be held up",
        arguments=lambda testbed: {"lock": str(testbed.lock("refuse_to_end"))},
    ),
)
