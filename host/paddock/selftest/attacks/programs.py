"""Attacks with programs: without a grant for any, and by means of a granted one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import partial
from typing import Final

from paddock.selftest.attack import Attack
from paddock.selftest.testbed.testbed import AttackTestbed

_SHELL: Final = shutil.which("bash") or "/bin/sh"


def _with_a_shell(testbed: AttackTestbed) -> Mapping[str, list[str]]:
    return {"run": [os.path.basename(_SHELL)]}


_attack = partial(Attack, family="programs")

PROGRAMS: Final = (
    _attack("programs.run_a_shell", "runs a shell", arguments=lambda testbed: {"shell": "/bin/sh"}),
    _attack(
        "programs.run_code_from_memory",
        "runs a program that is in no file",
    ),
    _attack(
        "programs.run_its_own_program",
        "writes a program and runs it",
    ),
    _attack(
        "programs.run_its_own_program",
        "writes a program and runs it, where a shell was granted",
        own_name="run_its_own_program_beside_a_granted_one",
        grants=_with_a_shell,
    ),
    _attack(
        "programs.run_code_from_memory",
        "runs a program that is in no file, where a shell was granted",
        own_name="run_code_from_memory_beside_a_granted_program",
        grants=_with_a_shell,
    ),
    _attack(
        "programs.break_out_with_a_shell",
        "has a granted shell read, write, signal and connect",
        arguments=lambda testbed: {
            "shell": _SHELL,
            "path": str(testbed.files.notes),
            "pid": testbed.target_process.pid,
            "port": testbed.listeners.ports["the loopback address"][1],
        },
        grants=_with_a_shell,
        marks=True,
    ),
)
