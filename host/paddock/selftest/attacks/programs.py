"""Attacks with programs: without a grant for any, and by means of a granted one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Final

from paddock.selftest.attack import Attack
from paddock.selftest.testbed.testbed import AttackTestbed

_SHELL: Final = shutil.which("bash") or "/bin/sh"


def _with_a_shell(testbed: AttackTestbed) -> Mapping[str, list[str]]:
    return {"run": [os.path.basename(_SHELL)]}


PROGRAMS: Final = (
    Attack(
        "run_a_shell", "programs", "programs.run_a_shell", "runs a shell", arguments=lambda stage: {"shell": "/bin/sh"}
    ),
    Attack("run_code_from_memory", "programs", "programs.run_code_from_memory", "runs a program that is in no file"),
    Attack("run_its_own_program", "programs", "programs.run_its_own_program", "writes a program and runs it"),
    Attack(
        "run_its_own_program_beside_a_granted_one",
        "programs",
        "programs.run_its_own_program",
        "writes a program and runs it, where a shell was granted",
        grants=_with_a_shell,
    ),
    Attack(
        "run_code_from_memory_beside_a_granted_program",
        "programs",
        "programs.run_code_from_memory",
        "runs a program that is in no file, where a shell was granted",
        grants=_with_a_shell,
    ),
    Attack(
        "break_out_with_a_shell",
        "programs",
        "programs.break_out_with_a_shell",
        "has a granted shell read, write, signal and connect",
        arguments=lambda testbed: {
            "shell": _SHELL,
            "path": str(testbed.files.notes),
            "pid": testbed.target_process.pid,
            "port": testbed.doors.ports["the loopback address"][1],
        },
        grants=_with_a_shell,
        marks=True,
    ),
)
