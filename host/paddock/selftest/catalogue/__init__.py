"""Every attack there is, by family."""

from __future__ import annotations

from typing import Final

from ..attack import Attack
from .endings import ENDINGS
from .files import FILES
from .kernel import KERNEL
from .messages import MESSAGES
from .network import NETWORK
from .processes import PROCESSES
from .programs import PROGRAMS
from .resources import RESOURCES

__all__ = ["CATALOGUE"]

CATALOGUE: Final[tuple[Attack, ...]] = (
    *FILES,
    *PROCESSES,
    *KERNEL,
    *PROGRAMS,
    *NETWORK,
    *RESOURCES,
    *ENDINGS,
    *MESSAGES,
)
"""All of them, in the order in which people are told of them."""
