"""Mount a context that keeps the conversation in a file, and shows the model as much of it as fits."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from amplifier_module_context_simple import Settings
from amplifier_module_context_simple.context import EVENTS

from .context import PersistentContextManager
from .conversation_file import ConversationFile, ConversationFileError
from .file_settings import MODULE, FileSettings, MemorySettings

__all__ = ["ConversationFileError", "FileSettings", "PersistentContextManager", "Settings", "mount"]
__amplifier_module_type__ = "context"

logger = logging.getLogger(__name__)


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> Callable[[], None]:
    """Mount a `PersistentContextManager` as the session's context; return a function that closes its file.

    Raises:
        ValueError: a setting is unknown, has the wrong shape, or names a tokenizer that is not at hand.
        ConversationFileError: the file is another session's, damaged, of a newer version, or refused by the system.
    """
    config = config or {}
    settings, file_settings = MemorySettings.of(config, others=FileSettings.names()), FileSettings.of(config)
    lookup = getattr(coordinator, "get_capability", None)
    working_dir = lookup("session.working_dir") if lookup is not None else None
    path = file_settings.file_of(
        str(getattr(coordinator, "session_id", "") or "session"),
        getattr(coordinator, "parent_id", None),
        Path(working_dir or Path.cwd()),
    )
    _check_is_kept(path, in_session=working_dir is not None)
    file, loaded = await ConversationFile.opened(path, file_settings.fsync)
    try:
        hooks = getattr(coordinator, "hooks", None)
        await coordinator.mount("context", PersistentContextManager(file, loaded, settings, hooks=hooks))
        if hasattr(coordinator, "register_contributor"):
            coordinator.register_contributor("observability.events", MODULE, lambda: list(EVENTS))
    except BaseException:
        file.close()
        raise
    return file.close


def _check_is_kept(path: Path, *, in_session: bool) -> None:
    """Warn about a file in a home that is deleted with this process, and refuse such a file elsewhere.

    A sandbox that keeps nothing has its home as the folder for temporary files.

    Raises:
        ConversationFileError: the file is elsewhere, and was meant to be kept.
    """
    home = Path.home()
    if home != Path(tempfile.gettempdir()):
        return
    nearest = next(place for place in (path, *path.parents) if place.exists())
    if path.is_relative_to(home):
        logger.warning(
            "%s: %s goes when the session ends: `state: keep` in the module's entry keeps it, or a `path` in a folder "
            "that the entry's permissions let it write",
            MODULE, path,
        )  # fmt: skip
    elif in_session and home.is_mount() and nearest.stat().st_dev == home.stat().st_dev:
        raise ConversationFileError(
            f"{MODULE}: `path`: {path} cannot be kept: this process has a file system of its own there, which goes "
            "with it; grant the module `write` for its folder, or name another"
        )
