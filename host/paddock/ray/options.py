"""How a cluster is used, as a person or an application says it; it loads nothing of Ray."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LeftOut = Callable[[str, str], object]
"""Called with the name of a node that gets no work, and why."""


@dataclass(frozen=True, slots=True)
class RayOptions:
    """How a cluster is used.

    Attributes:
        address: `HOST:PORT` of the cluster, or `auto` for that of this machine.
        per_node: how many attempts run at once on a node.
        sends_secrets: whether nodes get the values of secrets from here; by default each has its own.
        shared: folders that are the same on all nodes; each node is asked for a file that this run puts there.
        left_out: called with the name of a node that gets no work, and why.
        began: called once nodes are looked for.
        wait_seconds: how long a run waits for a node where none is left.
    """

    address: str = "auto"
    per_node: int = 8
    sends_secrets: bool = False
    shared: tuple[Path, ...] = ()
    left_out: LeftOut = lambda name, why: None
    began: Callable[[], object] = lambda: None
    wait_seconds: float = 60.0
