"""All attacks, by family."""

from __future__ import annotations

from typing import Final

from paddock.selftest.attack import Attack
from paddock.selftest.attacks.files import FILES
from paddock.selftest.attacks.identity import IDENTITY
from paddock.selftest.attacks.kernel import KERNEL
from paddock.selftest.attacks.keys import KEYS
from paddock.selftest.attacks.messages import MESSAGES
from paddock.selftest.attacks.network import NETWORK
from paddock.selftest.attacks.processes import ENDINGS, PROCESSES
from paddock.selftest.attacks.programs import PROGRAMS
from paddock.selftest.attacks.resources import RESOURCES
from paddock.selftest.attacks.unmapped import UNMAPPED
from paddock.selftest.attacks.way_out import WAY_OUT

__all__ = ["CATALOGUE"]

CATALOGUE: Final[tuple[Attack, ...]] = (
    *FILES,
    *PROCESSES,
    *KERNEL,
    *PROGRAMS,
    *NETWORK,
    *WAY_OUT,
    *KEYS,
    *RESOURCES,
    *UNMAPPED,
    *ENDINGS,
    *MESSAGES,
    *IDENTITY,
)
"""All attacks, in the order of the reports."""
