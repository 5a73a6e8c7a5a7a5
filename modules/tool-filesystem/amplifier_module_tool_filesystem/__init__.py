"""Mount three tools for text files: `read_file`, `write_file`, `edit_file`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .edit import EditFile
from .read import ReadFile
from .settings import Settings
from .workspace import Workspace
from .write import WriteFile

__all__ = ["EditFile", "ReadFile", "Settings", "Workspace", "WriteFile", "mount"]
__amplifier_module_type__ = "tool"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount the three tools over one `Workspace`.

    Raises:
        ValueError: a setting has the wrong shape.
    """
    workspace = Workspace(Settings.of(config or {}), coordinator)
    for tool in (ReadFile(workspace), WriteFile(workspace), EditFile(workspace)):
        await coordinator.mount("tools", tool, name=tool.name)
