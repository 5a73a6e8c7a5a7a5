"""Decide which files the tools may touch, and touch them.

A path is judged by its real target: links are followed first, then the target must lie inside an allowed folder. Reads
never block on a pipe or a device and never exceed the size cap. Writes replace the file in one step, so that a reader
sees the old text or the new one, and a failed write leaves the old one. The check and the use are two steps; against a
process that swaps folders for links in between, only a sandbox helps.
"""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import Any, Literal

from . import text_file
from .failure import Failure, from_os_error
from .not_text import text_of, what_it_is
from .settings import Settings

logger = logging.getLogger(__name__)

Access = Literal["read", "write"]


class Workspace:
    """The files within reach of the tools. Reading and writing block: call them off the event loop."""

    def __init__(self, settings: Settings, coordinator: Any | None) -> None:
        self._settings = settings
        self._coordinator = coordinator
        # Tool calls of one reply run side by side; two edits of one file must not lose each other's change.
        self._writing = threading.RLock()

    @property
    def working_dir(self) -> Path:
        """The session's working directory as of now: the application may change it during a session."""
        lookup = getattr(self._coordinator, "get_capability", None)
        configured = lookup("session.working_dir") if lookup is not None else None
        return Path(configured) if configured else Path.cwd()

    @property
    def writing(self) -> threading.RLock:
        """The lock to hold from reading a file until its new text is written."""
        return self._writing

    def locate(self, file_path: str, access: Access, base: Path) -> Path:
        """Return the real path of an allowed file, whether it exists or not.

        Raises:
            Failure: it lies outside the allowed folders, or cannot be resolved.
        """
        settings = self._settings
        configured = settings.allowed_read_paths if access == "read" else settings.allowed_write_paths
        allowed = (".", *self._granted(access)) if configured is None else configured
        try:
            file_path.encode("utf-8")  # a result cannot contain other names
            real = Path(os.path.realpath(_absolute(file_path, base)))
            roots = [Path(os.path.realpath(_absolute(root, base))) for root in allowed]
        except (OSError, ValueError) as error:  # a name too long, a NUL or half a character in it
            raise Failure("invalid_path", f"Cannot use {file_path!a} as a path: {error}.") from error
        if not any(real.is_relative_to(root) for root in roots):
            led = "" if str(real) in (file_path, os.path.expanduser(file_path)) else f", which leads to `{real}`"
            limit = "" if configured is None else f" by the setting `allowed_{access}_paths`"
            where = f"{limit}: {', '.join(f'`{root}`' for root in dict.fromkeys(roots)) or 'none'}"
            message = f"May not {access} `{file_path}`{led}. Folders open to {access}{where}."
            raise Failure("not_allowed", message, access)
        return real

    def read(self, path: Path) -> tuple[str, text_file.Version]:
        """Return the text of a file that `locate` allowed, character by character, and the version that it is of.

        Raises:
            Failure: there is no such file, it is too large, or not UTF-8 text.
        """
        try:
            data, version = text_file.read(path, self._settings.max_read_bytes)
        except OSError as error:
            raise from_os_error(error, f"read `{path}`") from error
        text = text_of(data)
        if text is None:
            what = what_it_is(data)
            raise Failure("not_text", f"`{path}` is no UTF-8 text but {what} ({len(data)} bytes): leave it as it is.")
        return text, version

    def write(self, path: Path, text: str, expected: text_file.Version | None = None) -> int:
        """Replace a file that `locate` allowed, or make it and its folders; return its size in bytes.

        Raises:
            Failure: the text is too large or not encodable, the file is not the `expected` version, or the file system
                refuses.
        """
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise Failure("not_text", f"The text cannot be written as UTF-8: {error.reason}.") from error
        cap = self._settings.max_write_bytes
        if len(data) > cap:
            raise Failure("too_large", f"The text has {len(data)} bytes; files may be written up to {cap} bytes.")
        try:
            with self._writing:
                text_file.replace(path, data, expected)
        except OSError as error:
            raise from_os_error(error, f"write `{path}`") from error
        return len(data)

    async def emit(self, event: str, data: dict[str, Any]) -> None:
        """Emit the event for the outcome; a handler's failure does not undo it."""
        hooks = getattr(self._coordinator, "hooks", None)
        if hooks is None:
            return
        try:
            await hooks.emit(event, data)
        except Exception:
            logger.warning("tool-filesystem: could not emit %s", event, exc_info=True)

    def _granted(self, access: Access) -> list[str]:
        """Return the paths that the host granted this module; a host that grants none does not have the capability."""
        lookup = getattr(self._coordinator, "get_capability", None)
        granted = lookup("session.granted_paths") if lookup is not None else None
        return list(granted[access]) if isinstance(granted, dict) else []


def _absolute(path: str, base: Path) -> str:
    return os.path.join(base, os.path.expanduser(path))
