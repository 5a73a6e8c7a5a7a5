"""Mount four tools: `read_file`, `write_file` and `edit_file` for text files, `list_directory` for folders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .edit import EditFile
from .list import ListDirectory
from .read import ReadFile
from .settings import Settings
from .workspace import Workspace
from .write import WriteFile

__all__ = ["EditFile", "ListDirectory", "ReadFile", "Settings", "Workspace", "WriteFile", "mount"]
__amplifier_module_type__ = "tool"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount the tools over one `Workspace`.

    Raises:
        ValueError: a setting is unknown or has the wrong shape.
    """
    workspace = Workspace(Settings.of(config or {}), coordinator)
    for tool in (ReadFile(workspace), WriteFile(workspace), EditFile(workspace), ListDirectory(workspace)):
        await coordinator.mount("tools", tool, name=tool.name)
