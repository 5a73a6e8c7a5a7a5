"""Attacks on the end of a module: leaving something behind, or not ending at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paddock.selftest.attack import Attack, Outside, Sign
from paddock.selftest.attacks.grants import workspace
from paddock.selftest.testbed.testbed import AttackTestbed


def _with_keeper(testbed: AttackTestbed, is_attacked: bool) -> Mapping[str, Any]:
    return {"lock": str(testbed.lock("leave_a_daemon_and_end_its_keeper")), "with_keeper": is_attacked}


ENDINGS: Final = (
    Attack(
        "leave_a_daemon",
        "endings",
        "endings.leave_a_daemon",
        "leaves a process behind that outlives it",
        arguments=lambda testbed: {"lock": str(testbed.lock("leave_a_daemon"))},
        grants=workspace,
        sign=Sign.LIFE,
        outside=Outside.LIVES_ON,
    ),
    Attack(
        "leave_a_daemon_and_end_its_keeper",
        "endings",
        "endings.leave_a_daemon_and_end_its_keeper",
        "leaves a process behind and kills the one that would end it",
        arguments=lambda testbed: _with_keeper(testbed, True),
        outside_arguments=lambda testbed: _with_keeper(testbed, False),
        grants=workspace,
        sign=Sign.LIFE,
        outside=Outside.LIVES_ON,
    ),
    Attack(
        "refuse_to_end",
        "endings",
        "endings.refuse_to_end",
        "ignores signals and hangs wherever an end can be held up",
        arguments=lambda testbed: {"lock": str(testbed.lock("refuse_to_end"))},
        grants=workspace,
        sign=Sign.LIFE,
        outside=Outside.LIVES_ON,
    ),
)
