"""The journals of one user's sessions: a file for each, named by the session's id, in `journals` of the state folder.

There is no index: what is listed is what the files say. A journal that a host writes is never removed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from paddock.errors import KindError
from paddock.isolation.record import SessionInUseError
from paddock.session.journals.journal_file import JournalError, JournalFile, JournalInUseError, read_journal
from paddock.session.journals.kept_session import KeptSession, kept_session
from paddock.session.journals.session_journal import SessionJournal
from paddock.state_folder import make_private, state_folder
from paddock_sources.near import near

LAST: Final = "last"
SUFFIX: Final = ".journal"
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_SHORTEST: Final = 4  # characters of an id that may stand for it


def is_first(journal: Path) -> bool:
    """Whether a journal is the only one in its folder."""
    return sum(1 for _ in journal.parent.glob(f"*{SUFFIX}")) == 1


class UnknownSessionError(KindError):
    """Raised for an id that no journal has."""

    def __init__(self, asked: str, hints: list[str]) -> None:
        super().__init__("UnknownSessionError", f"there is no session `{asked:.200}` to go on with", hints=hints)


class Journals:
    """The journals in a folder; by default those of the user of `environ`."""

    def __init__(self, folder: Path | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._environ = environ

    def create(self, session_id: str) -> JournalFile:
        """Make the journal of a new session.

        Raises:
            SessionExistsError: there is one of this id.
            OSError: it cannot be made.
        """
        path = self.path_of(session_id)
        try:
            return JournalFile.create(path)
        except FileExistsError as error:
            hint = f"`paddock run --resume {session_id}` goes on with it; another one needs another id"
            problem = f"there is a session `{session_id}` already"
            raise KindError("SessionExistsError", problem, hints=[hint]) from error

    def resumed(self, session_id: str) -> SessionJournal:
        """Return the journal of a session to go on with it.

        Raises:
            SessionInUseError: another host has the session; the error says which.
            JournalError: it cannot be used.
            OSError: it cannot be read.
        """
        path = self.path_of(session_id)
        try:
            file, records, torn = JournalFile.open(path)
        except JournalInUseError:
            raise self._in_use(session_id) from None
        try:
            kept = kept_session(path, records)
        except JournalError:
            file.close()
            raise
        return SessionJournal(file, kept, torn)

    def path_of(self, session_id: str) -> Path:
        """Return where the journal of a session is, or would be.

        Raises:
            OSError: the folder cannot be made, or is somebody else's.
        """
        name = session_id
        if not _PLAIN_NAME.fullmatch(session_id):  # an application may call its sessions what it likes
            name = f"={hashlib.sha256(session_id.encode()).hexdigest()}"
        return self._made() / f"{name}{SUFFIX}"

    def find(self, asked: str) -> str:
        """Return the id of the one session that an id, the beginning of one, or `last` means.

        Raises:
            UnknownSessionError: none is meant, or several are.
        """
        ids = self.ids()
        if asked == LAST and ids:
            return ids[0]
        meant = [id for id in ids if id == asked] or [
            id for id in ids if len(asked) >= _SHORTEST and id.startswith(asked)
        ]
        if len(meant) == 1:
            return meant[0]
        if meant:
            raise UnknownSessionError(asked, [f"it is the beginning of several ids: {', '.join(sorted(meant)[:5])}"])
        close = near(asked, ids)
        hints = [f"did you mean `{close[0]}`?"] if close else []
        if len(asked) < _SHORTEST and any(id.startswith(asked) for id in ids):
            hints = [f"of an id, {_SHORTEST} characters at least stand for it"]
        raise UnknownSessionError(asked, [*hints, "`paddock sessions list` shows them all"])

    def ids(self) -> list[str]:
        """Return the ids of all sessions, the latest first."""
        return [path.stem for path in self._paths()]

    def read(self, session_id: str) -> tuple[KeptSession, bool]:
        """Return a session, and whether a host has it now.

        Raises:
            FileNotFoundError: there is none.
            JournalError: its journal cannot be used.
        """
        path = self.path_of(session_id)
        records, _, in_use = read_journal(path)
        return kept_session(path, records), in_use

    def all(self, on_unread: Callable[[JournalError], None]) -> Iterator[tuple[KeptSession, bool]]:
        """Yield each session and whether a host has it, the latest first; `on_unread` gets the others."""
        for path in self._paths():
            try:
                yield self.read(path.stem)
            except JournalError as error:
                on_unread(error)
            except FileNotFoundError:
                pass  # it was removed meanwhile

    def delete(self, session_id: str) -> None:
        """Remove the journal of a session, with its damaged ends.

        Raises:
            SessionInUseError: a host has it.
            FileNotFoundError: there is none.
            OSError: it cannot be removed.
        """
        path = self.path_of(session_id)
        file = None
        with suppress(JournalError):  # what is no journal is removed as well
            try:
                file, _, _ = JournalFile.open(path)
            except JournalInUseError:
                raise self._in_use(session_id) from None
        try:
            path.unlink()
            for torn in path.parent.glob(f"{path.stem}.torn-*"):
                torn.unlink()
        finally:
            if file is not None:
                file.close()

    def _in_use(self, session_id: str) -> SessionInUseError:
        pid = None
        with suppress(JournalError, OSError):
            pid = self.read(session_id)[0].metas[-1].pid
        return SessionInUseError(session_id, pid)

    def _paths(self) -> list[Path]:
        found = []
        with suppress(OSError), os.scandir(self._made()) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX):
                    with suppress(OSError):
                        found.append((entry.stat(follow_symlinks=False).st_mtime_ns, Path(entry.path)))
        return [path for _, path in sorted(found, reverse=True)]

    def _made(self) -> Path:
        folder = self._folder if self._folder is not None else state_folder(self._environ) / "journals"
        folder.mkdir(mode=0o700, exist_ok=True)
        make_private(folder)
        return folder
