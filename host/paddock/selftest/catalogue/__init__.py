"""Every attack there is, by family."""

from __future__ import annotations

from typing import Final

from ..attack import Attack
from .endings import ENDINGS
from .files import FILES
from .identity import IDENTITY
from .kernel import KERNEL
from .keys import KEYS
from .messages import MESSAGES
from .network import NETWORK
from .processes import PROCESSES
from .programs import PROGRAMS
from .resources import RESOURCES
from .unmapped import UNMAPPED
from .way_out import WAY_OUT

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
"""All of them, in the order in which people are told of them."""
