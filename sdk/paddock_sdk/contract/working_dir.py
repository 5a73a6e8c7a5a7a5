"""The folder a session works in, which applications and modules agree on by a coordinator capability.

The capability's value is text; it may change while a session lasts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

__all__ = ["get_working_dir", "set_working_dir"]

_CAPABILITY: Final = "session.working_dir"


def get_working_dir(coordinator: Any, fallback: str | os.PathLike[str] | None = None) -> Path:
    """Return the session's folder; if it is not set, the fallback, or else this process's."""
    folder = coordinator.get_capability(_CAPABILITY)
    if folder:
        return Path(folder)
    return Path.cwd() if fallback is None else Path(fallback)


def set_working_dir(coordinator: Any, path: str | os.PathLike[str]) -> None:
    """Set the folder the session works in."""
    coordinator.register_capability(_CAPABILITY, os.fspath(path))
