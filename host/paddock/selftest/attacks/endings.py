"""Attacks on the end of a module: leaving something behind, or not ending at all."""

from __future__ import annotations

from functools import partial
from typing import Final

from paddock.selftest.attack import Attack, Outside, Sign
from paddock.selftest.attacks.grants import workspace

_attack = partial(Attack, family="endings", grants=workspace, sign=Sign.LIFE, outside=Outside.LIVES_ON)

ENDINGS: Final = (
    _attack(
        "endings.leave_a_daemon",
        "leaves a process behind that outlives it",
        arguments=lambda testbed: {"lock": str(testbed.lock("leave_a_daemon"))},
    ),
    _attack(
        "endings.leave_a_daemon_and_end_its_keeper",
        "leaves a process behind and kills the one that would end it",
        arguments=lambda testbed: {
            "lock": str(testbed.lock("leave_a_daemon_and_end_its_keeper")),
            "with_keeper": True,
        },
        outside_arguments=lambda testbed: {"with_keeper": False},
    ),
    _attack(
        "endings.refuse_to_end",
        "ignores signals and hangs wherever an end can be held up",
        arguments=lambda testbed: {"lock": str(testbed.lock("refuse_to_end"))},
    ),
)
