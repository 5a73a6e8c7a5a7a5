"""The arguments of the command `chat`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock_sandbox.profile import IsolationLevel


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The arguments of the command: each of `grants` is MODULE=PRESET, `sources` are the flags about module sources."""

    plan: Path
    working_dir: Path | None
    isolation: IsolationLevel | None
    is_trusted: bool
    grants: Sequence[str]
    sources: Mapping[str, bool]
    is_verbose: bool
