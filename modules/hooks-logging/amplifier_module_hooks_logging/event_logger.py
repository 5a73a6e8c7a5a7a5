"""Listen to the session's events and log them; never disturb a session that has begun.

A log that cannot be kept is an error at the start. A later failure of the file is reported once through `logging` and
swallowed. Modules may announce events of their own until the session begins, so the list of events is completed when
the first session event arrives.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from amplifier_core import events
from amplifier_core.models import HookResult

from .log_file import LogFile, is_temporary
from .log_line import line_for
from .settings import Settings

logger = logging.getLogger(__name__)

# Bounds on announced events, so that no module can keep this hook from an event: a host registers each handler by
# itself, and accepts no longer names.
_MAX_EVENTS = 500
_MAX_NAME = 200

NAME = "hooks-logging"
_ANNOUNCEMENTS = "observability.events"  # the capability and the contribution channel share the name
_BEGINNINGS = (events.SESSION_START, events.SESSION_RESUME, events.SESSION_FORK)


class EventLogger:
    """The hook: one handler registered for every selected event that is known."""

    def __init__(self, coordinator: Any, settings: Settings) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._file = LogFile(settings.max_file_bytes, settings.max_files)
        self._registered: dict[str, Callable[[], None]] = {}
        self._complained = False

    async def start(self) -> None:
        """Open the file, and register for the known events and for the session's beginning, which completes the list.

        Raises:
            ValueError: the file cannot be written, or would be deleted with this process.
        """
        if self._working_dir() is not None:  # else there is no session, and a test that mounts this may grant no file
            self._open(self._path())
        for event in _BEGINNINGS:
            self._register(event)
        for event in (*self._settings.plain_names, *filter(self._settings.wants, events.ALL_EVENTS)):
            self._register(event)
        await self._discover()

    async def handle(self, event: str, data: Any) -> HookResult:
        """Log the event and let the session go on, also after a failure."""
        try:
            if event in _BEGINNINGS:
                await self._discover()
            if self._settings.wants(event):
                line = line_for(event, data, self._settings.detail, self._settings.max_line_bytes)
                grows = self._file.append(self._path(), line)
                if grows is not None:
                    self._complain(grows, "put aside, and grows:")
        except Exception as problem:
            self._complain(problem)
        return HookResult(action="continue")

    def close(self) -> None:
        """Stop listening, bring the log to the disk and close it. May be called again."""
        registered, self._registered = self._registered, {}
        for unregister in registered.values():
            unregister()
        try:
            self._file.close()
        except OSError as problem:
            self._complain(problem)

    async def _discover(self) -> None:
        """Register for the events that other modules announced."""
        try:
            lookup = getattr(self._coordinator, "get_capability", None)
            announced = list(_names(lookup(_ANNOUNCEMENTS)) if lookup is not None else ())
            collect = getattr(self._coordinator, "collect_contributions", None)
            for contribution in (await collect(_ANNOUNCEMENTS)) if collect is not None else ():
                announced += _names(contribution)
        except Exception:
            logger.warning("hooks-logging: cannot ask the modules for their own events", exc_info=True)
            return
        new = dict.fromkeys(
            event for event in announced if event not in self._registered and self._settings.wants(event)
        )
        room = max(0, _MAX_EVENTS - len(self._registered))
        for event in list(new)[:room]:
            self._register(event)
        if len(new) > room:
            logger.warning(
                "hooks-logging: modules announce %d events too many, which are not logged; "
                "name those that matter in `events`",
                len(new) - room,
            )

    def _register(self, event: str) -> None:
        if event not in self._registered:
            register = self._coordinator.hooks.register
            self._registered[event] = register(event, self.handle, priority=self._settings.priority, name=NAME)

    def _open(self, path: Path) -> None:
        try:
            if is_temporary(path, self._folder()):
                raise OSError("this process has a file system of its own there, which goes with it")
            self._file.open(path)
        except OSError as error:
            raise ValueError(
                f"hooks-logging: `path`: {path} cannot be written ({error.strerror or error}); "
                "grant the module `write` for its folder, or name another"
            ) from error

    def _path(self) -> Path:
        return self._folder() / Path(self._settings.path).expanduser()

    def _folder(self) -> Path:
        return Path(self._working_dir() or Path.cwd())

    def _working_dir(self) -> str | None:
        lookup = getattr(self._coordinator, "get_capability", None)
        working_dir: str | None = lookup("session.working_dir") if lookup is not None else None
        return working_dir

    def _complain(self, problem: Exception, what: str = "written:") -> None:
        """Report the first problem; a full disk would otherwise be reported with every event."""
        level = logging.DEBUG if self._complained else logging.WARNING
        self._complained = True
        logger.log(level, "hooks-logging: %s cannot be %s %s", self._settings.path, what, problem)


def _names(announced: Any) -> Iterable[str]:
    if isinstance(announced, str):
        announced = [announced]
    if isinstance(announced, list | tuple | set | frozenset):
        return [name for name in announced if isinstance(name, str) and 0 < len(name) <= _MAX_NAME]
    return ()
