"""Attacks on the end of a module: leaving something behind, or not ending at all."""

from __future__ import annotations

from typing import Final

from paddock.selftest.attack import Attack, Outside, Sign
from paddock.selftest.attacks.grants import workspace

ENDINGS: Final = (
    Attack(
        "leave_a_daemon",
        "endings",
        "endings.leave_a_daemon",
        "leaves a process behind that outlives it",
        arguments=lambda testbed: {"lock": str(testbed.lock)},
        grants=workspace,
        sign=Sign.LIFE,
        outside=Outside.LIVES_ON,
    ),
    Attack(
        "leave_a_daemon_and_end_its_keeper",
        "endings",
        "endings.leave_a_daemon_and_end_its_keeper",
        "leaves a process behind and kills the one that would end it",
        arguments=lambda testbed: {"lock": str(testbed.lock), "with_keeper": True},
        outside_arguments=lambda testbed: {"lock": str(testbed.lock), "with_keeper": False},
        grants=workspace,
        sign=Sign.LIFE,
        outside=Outside.LIVES_ON,
    ),
    Attack(
        "refuse_to_end",
        "endings",
        "endings.refuse_to_end",
        "ignores signals and hangs wherever an end can be held up",
        arguments=lambda testbed: {"lock": str(testbed.lock)},
        grants=workspace,
        sign=Sign.LIFE,
        outside=Outside.LIVES_ON,
    ),
)
