"""What a git source is at one moment: the commit, and how it was named."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

RefKind = Literal["branch", "tag", "commit", "default"]


@dataclass(frozen=True, slots=True)
class GitPin:
    """A ref, resolved. `committed_at` is what the commit says of itself, None where that is not known.

    `is_reachable` is False for an impostor that was allowed. `is_outside` says that git ran with all that the user may
    touch, for ssh's sake.
    """

    requested_ref: str
    kind: RefKind
    commit: str
    committed_at: datetime | None = None
    is_reachable: bool = True
    is_outside: bool = False
