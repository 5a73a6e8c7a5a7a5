"""Compose the text about time and place for the model.

At `prompt:submit` it becomes part of the conversation, once for each prompt; at `provider:request` it is ephemeral, in
each request anew. A fact that cannot be had is left out; the session goes on without it.
"""

from __future__ import annotations

import logging
import platform
from datetime import datetime
from pathlib import Path
from typing import Any

from amplifier_core import events
from amplifier_core.models import HookResult

from .git_status import GitStatus, git_status
from .settings import Settings

logger = logging.getLogger(__name__)

_MAX_CHARACTERS = 200  # of a line: names of files and branches come from a repository, which a stranger may have made


class StatusContext:
    """The handler, for one session."""

    def __init__(self, coordinator: Any, settings: Settings) -> None:
        self._coordinator = coordinator
        self._settings = settings

    async def on_event(self, event: str, data: Any) -> HookResult:
        """Inject the status."""
        try:
            lines = await self._lines()
        except Exception:
            logger.warning("hooks-status-context: there is no status this time", exc_info=True)
            lines = []
        if not lines:
            return HookResult(action="continue")
        return HookResult(
            action="inject_context",
            context_injection="\n".join(["Status, added automatically and not by the person:", *lines]),
            context_injection_role="user",
            ephemeral=event == events.PROVIDER_REQUEST,
            suppress_output=True,
        )

    async def _lines(self) -> list[str]:
        include = self._settings.include
        lookup = getattr(self._coordinator, "get_capability", None)
        configured = lookup("session.working_dir") if lookup is not None else None
        folder = Path(configured) if configured else Path.cwd()
        lines = []
        if "date" in include:
            lines.append(f"date: {datetime.now().astimezone():%A, %Y-%m-%d %H:%M %z}")
        if "working_dir" in include:
            lines.append(f"working directory: {_line(str(folder))}")
        if "platform" in include:
            lines.append(f"platform: {platform.system()} {platform.machine()}")
        if "git" in include:
            status = await git_status(folder, self._settings.git_timeout)
            if status is not None:
                lines += git_lines(status, self._settings.max_status_lines)
        return lines


def git_lines(status: GitStatus, max_lines: int) -> list[str]:
    """Return the state of a repository as lines for the model, with at most `max_lines` changed files."""
    lines = [f"git branch: {_line(status.branch)}"]
    if not status.changes:
        return [*lines, "git status: nothing changed"]
    at_least = "at least " if status.is_cut else ""
    lines.append(f"git status: {at_least}{len(status.changes)} changed")
    lines += [f"  {_line(change)}" for change in status.changes[:max_lines]]
    if len(status.changes) > max_lines:
        lines.append(f"  … and {len(status.changes) - max_lines} more")
    return lines


def _line(text: str) -> str:
    line = "".join(character if character.isprintable() else "�" for character in text)
    return line if len(line) <= _MAX_CHARACTERS else f"{line[:_MAX_CHARACTERS]}…"
