"""Decide where the tools may search. A path is judged by where it really leads: links are followed first."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .failure import Failure
from .settings import Settings


class Places:
    """The files and folders within reach of the tools."""

    def __init__(self, settings: Settings, coordinator: Any | None) -> None:
        self._settings = settings
        self._coordinator = coordinator

    @property
    def working_dir(self) -> Path:
        """The session's working directory as of now: the application may change it during a session."""
        lookup = getattr(self._coordinator, "get_capability", None)
        configured = lookup("session.working_dir") if lookup is not None else None
        return Path(configured) if configured else Path.cwd()

    def locate(self, path: str, base: Path) -> Place:
        """Return an allowed file or folder that is there, by its real path.

        Raises:
            Failure: it lies outside the allowed folders, or there is nothing.
        """
        try:
            real = Path(os.path.realpath(_absolute(path, base)))
            roots = [Path(os.path.realpath(_absolute(root, base))) for root in self._allowed()]
        except (OSError, ValueError) as error:  # a name too long
            raise Failure("invalid_path", f"Cannot use {path!a} as a path: {error}.") from error
        if not any(real.is_relative_to(root) for root in roots):
            led = "" if str(real) in (path, os.path.expanduser(path)) else f", which leads to `{real}`"
            allowed = ", ".join(f"`{root}`" for root in dict.fromkeys(roots)) or "none"
            limit = "" if self._settings.allowed_paths is None else " by the setting `allowed_paths`"
            raise Failure("not_allowed", f"May not search `{path}`{led}. Folders open to search{limit}: {allowed}.")
        if not os.path.lexists(real):
            raise Failure("not_found", f"There is no `{path}` to search.")
        home = Path(os.path.realpath(base))
        text = os.fspath(real.relative_to(home)) if real.is_relative_to(home) else os.fspath(real)
        return Place(real, "" if text == "." else text)

    def _allowed(self) -> tuple[str, ...]:
        if self._settings.allowed_paths is not None:
            return self._settings.allowed_paths
        lookup = getattr(self._coordinator, "get_capability", None)
        granted = lookup("session.granted_paths") if lookup is not None else None  # a host that grants none has it not
        return (".", *(granted["read"] if isinstance(granted, dict) else ()))


@dataclass(frozen=True, slots=True)
class Place:
    """A file or folder to search: its path, and how paths in it are shown.

    They are shown relative to the working directory if it lies in there.
    """

    path: Path
    prefix: str

    def file(self, names: tuple[str, ...]) -> str:
        """Return the path of a file by its names from the place; no names stand for the place itself."""
        return os.path.join(self.path, *names)

    def shown(self, names: tuple[str, ...]) -> str:
        """Return the path of a file as other tools take it, with bytes that are no text as such."""
        text = os.path.join(self.prefix, *names)
        return text if text.isascii() else os.fsencode(text).decode("utf-8", "backslashreplace")


def _absolute(path: str, base: Path) -> str:
    return os.path.join(base, os.path.expanduser(path))
