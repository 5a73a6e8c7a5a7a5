"""A file of questions and answers, one JSON object a line.

Lines are only added, each with one write, so sessions may share a file. Only its owner can read a file made here: calls
quote what people work on.
"""

from __future__ import annotations

import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class AuditFile:
    """The open file."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def opened(cls, path: str, coordinator: Any) -> AuditFile:
        """Open a file, or make it; a relative path starts at the session's working directory.

        Raises:
            ValueError: it cannot be written.
        """
        lookup = getattr(coordinator, "get_capability", None)
        working_dir = lookup("session.working_dir") if lookup is not None else None
        file = Path(working_dir or Path.cwd()) / Path(path).expanduser()
        try:
            if working_dir is not None and _is_temporary(file, Path(working_dir)):
                raise OSError("this process has a file system of its own there, which goes with it")
            file.parent.mkdir(parents=True, exist_ok=True)
            return cls(file, os.open(file, _FLAGS, 0o600))
        except OSError as error:
            raise ValueError(
                f"hooks-approval: `audit_path`: {file} cannot be written ({error.strerror or error}); "
                "grant the module `write` for its folder, or leave the setting out"
            ) from error

    def add(self, entry: dict[str, Any]) -> None:
        """Add a line.

        Raises:
            OSError: it could not be written.
        """
        line = json.dumps({"ts": datetime.now(UTC).isoformat(), **entry}, ensure_ascii=True, default=str) + "\n"
        left = line.encode("ascii")
        while left:  # a nearly full disk takes part of a line
            left = left[os.write(self._descriptor, left) :]

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _is_temporary(path: Path, working_dir: Path) -> bool:
    """Return whether a file is deleted with this process: in a sandbox, the home is the folder for temporary files.

    If the working directory itself is in that folder, as in a test, nothing is meant to outlive the process.
    """
    home = Path.home()
    if home != Path(tempfile.gettempdir()) or not home.is_mount():
        return False
    device = home.stat().st_dev
    nearest = next(place for place in (path, *path.parents) if place.exists())
    return nearest.stat().st_dev == device and not (working_dir.exists() and working_dir.stat().st_dev == device)
