"""The journals of one user's sessions: a file for each, named by the session's id, in `journals` of the state folder.

There is no index: what is listed is what the files say. A journal that a host writes is never removed. Beyond a bound,
the oldest sessions go, and none that was interrupted in the last seven days.
"""

from __future__ import annotations

import logging
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, Self

from paddock.errors import KindError
from paddock.isolation.record import LAST, SessionInUseError, meant_id, stem_of
from paddock.policy.journal_rule import JournalRule
from paddock.session.journals.journal_file import (
    UNFINISHED,
    JournalError,
    JournalFile,
    JournalInUseError,
    Kind,
    read_ends,
    read_journal,
)
from paddock.session.journals.kept_session import KeptSession, kept_session
from paddock.session.journals.quarantines import SUFFIX as QUARANTINES
from paddock.session.journals.session_journal import SessionJournal
from paddock.state_folder import make_private, state_folder, state_path

_log = logging.getLogger(__name__)

SIZE_MAX: Final = 256 << 20  # bytes of all journals together, where no policy says another size
COUNT_MAX: Final = 1000  # journals
SUFFIX: Final = ".journal"
_HASHED: Final = re.compile(r"=[0-9a-f]{64}")
_INTERRUPTED_SECONDS: Final = 7 * 86_400  # for which a session stays that its host's end interrupted
_AT_A_GLANCE: Final = (Kind.META, Kind.TURN, Kind.END, Kind.OVER, Kind.CALL, Kind.RESULT)
SHORT_ID: Final = 8  # characters of an id: enough to tell two sessions apart by eye
_LOOKED_AT: Final = 10  # of the latest sessions, for one that was interrupted
_BELOW: Final = ".sub-sessions"  # a folder beside a journal, with those of its sub-sessions
_TOLD: Final = "removals-told"  # a file beside the journals: somebody was told that old ones are removed


class _File(NamedTuple):
    """A file of a session, by when it was changed last."""

    changed: float
    path: Path
    size: int


def _name_of(session_id: str) -> str:
    """Return the name of a session's file, without its end, for an id or such a name."""
    return session_id if _HASHED.fullmatch(session_id) else stem_of(session_id)


class UnknownSessionError(KindError):
    """Raised for an id that no journal has."""

    def __init__(self, asked: str, hints: list[str]) -> None:
        super().__init__("UnknownSessionError", f"there is no session `{asked:.200}` to go on with", hints=hints)


class Journals:
    """The journals in a folder; by default those of the user of `environ`."""

    def __init__(self, folder: Path | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._environ = environ

    @property
    def folder(self) -> Path:
        """Where they are, or would be, as it is named."""
        return self._folder or state_path(os.environ if self._environ is None else self._environ) / "journals"

    @classmethod
    def below(cls, journal: Path) -> Self:
        """Return those of the sub-sessions of a session, which count as a part of it and are removed with it."""
        return cls(journal.with_suffix(_BELOW))

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

    def begun(self, session_id: str, rule: JournalRule) -> SessionJournal | None:
        """Return the journal of a new session; where it cannot be made and need not be, say so and return None.

        Raises:
            SessionExistsError: there is one of this id.
            JournalError: it cannot be made, and the rule requires it.
        """
        try:
            journal = SessionJournal(self.create(session_id))
        except OSError as error:
            if rule.required:
                place = Path(error.filename or f"{session_id}{SUFFIX}")
                raise JournalError(place, str(error), "a policy requires it: make room for it") from error
            _log.warning("this session is not kept, as its journal cannot be made: %s", error)
            return None
        journal.rule = rule
        return journal

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
        kept.torn, kept.is_cut = torn, torn is not None
        return SessionJournal(file, kept)

    def path_of(self, session_id: str) -> Path:
        """Return where the journal of a session is, or would be.

        Raises:
            OSError: the folder cannot be made, or is somebody else's.
        """
        return self._made() / f"{_name_of(session_id)}{SUFFIX}"

    def find(self, asked: str, folder: Path | None = None) -> str:
        """Return the id of the one session that an id, the beginning of one, or `last` means.

        `last` is the latest with turns whose modules worked in `folder`, by default the current one: a conversation of
        another project would see this one's modules, and a chat in which nothing was said is none to go on with.

        Raises:
            UnknownSessionError: none is meant, or several are.
        """
        if asked == LAST:
            return self._latest((folder or Path.cwd()).resolve())
        ids = self.ids()
        name, hints = meant_id(_name_of(asked) if _name_of(asked) in ids else asked, ids)
        if name is None:
            raise UnknownSessionError(asked, [*hints, "`paddock sessions list` shows them all"])
        return self._glance(self.path_of(name))[0].id if _HASHED.fullmatch(name) else name

    def interrupted_in(self, folder: Path, besides: str) -> KeptSession | None:
        """Return the latest session of a folder with turns, `besides` one, if its host was killed.

        It is looked for among the latest of the user alone, since this is done at every start.
        """
        for kept, in_use in islice(self.all(), _LOOKED_AT):
            if kept.was_said_in(folder) and kept.id != besides:
                return kept if kept.was_interrupted and not in_use else None
        return None

    def _latest(self, folder: Path) -> str:
        for kept, _ in self.all():
            if kept.was_said_in(folder):
                return kept.id
        hints = ["`paddock sessions list` shows those of all folders; name one by its id"]
        raise UnknownSessionError(LAST, [f"no session of {folder} had a turn", *hints])

    def ids(self) -> list[str]:
        """Return the ids of all sessions, the latest first; those that are no names of files as a digest."""
        return [file.path.stem for file in self._files()]

    def read(self, session_id: str) -> tuple[KeptSession, bool]:
        """Return a session, and whether a host has it now.

        Raises:
            FileNotFoundError: there is none.
            JournalError: its journal cannot be used.
        """
        return self.read_at(self.path_of(session_id))

    @staticmethod
    def read_at(path: Path) -> tuple[KeptSession, bool]:
        """Return the session of a journal that may be anywhere, as `read` does, and with its errors."""
        records, is_cut, in_use = read_journal(path)
        kept = kept_session(path, records)
        kept.is_cut = is_cut
        return kept, in_use

    def _glance(self, path: Path) -> tuple[KeptSession, bool]:
        """Return what the first and the last records of a session tell, without its conversation, as `read` does.

        One whose last records do not tell how many turns and hosts it had is read as a whole.
        """
        first, last, in_use = read_ends(path)
        kinds = {record.kind for record in last}
        if kinds & {Kind.TURN, Kind.END}:
            told = [record for record in (*first, *last[:-1]) if record.kind in _AT_A_GLANCE]
            kept = kept_session(path, [*told, last[-1]])
            if kept.reached.host == 1 or Kind.META in kinds:
                return kept, in_use
        return self.read(path.stem)

    def all(self, on_unread: Callable[[JournalError], None] = lambda error: None) -> Iterator[tuple[KeptSession, bool]]:
        """Yield each session without its conversation, and whether a host has it, the latest first.

        `on_unread` gets those that cannot be read. Of turns, only the first one's prompt and the last one's end are
        told; of calls, those near the end of the file.
        """
        for file in self._files():
            try:
                yield self._glance(file.path)
            except JournalError as error:
                on_unread(error)
            except FileNotFoundError:
                pass  # it was removed meanwhile

    def delete(self, session_id: str) -> None:
        """Remove the journal of a session, with its damaged ends, its quarantines and its sub-sessions.

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
                if torn.suffix.removeprefix(".torn-").isdigit():  # an application may give an id that looks like one
                    torn.unlink()
            for beside in (QUARANTINES, UNFINISHED):
                path.with_suffix(beside).unlink(missing_ok=True)
            shutil.rmtree(path.with_suffix(_BELOW), ignore_errors=True)
        finally:
            if file is not None:
                file.close()

    def prune(self, rule: JournalRule, most: int = COUNT_MAX) -> list[str]:
        """Remove the oldest sessions beyond the bounds of a rule, and beyond `most`; return the names of their files.

        Raises:
            OSError: one cannot be removed.
        """
        size = rule.size or (math.inf if rule.is_forever else SIZE_MAX)
        count = math.inf if rule.is_forever else most
        before = time.time() - (math.inf if rule.keep is None else rule.keep)
        removed, taken = [], 0
        for number, file in enumerate(self._files(), 1):
            taken += file.size
            if (number > count or taken > size or file.changed < before) and self._may_go(file.path):
                with suppress(SessionInUseError, FileNotFoundError):  # another host came first
                    self.delete(file.path.stem)
                    removed.append(file.path.stem)
        return removed

    def _may_go(self, path: Path) -> bool:
        """Whether a session is over; what cannot be read is for its user to remove."""
        try:
            kept, in_use = self._glance(path)
        except (JournalError, OSError):
            return False
        return not in_use and not (kept.was_interrupted and time.time() - kept.last < _INTERRUPTED_SECONDS)

    def is_first_removal(self) -> bool:
        """Whether nobody was told yet that sessions are removed; from now on somebody was."""
        try:
            (self._made() / _TOLD).touch(0o600, exist_ok=False)
        except OSError:
            return False
        return True

    def _in_use(self, session_id: str) -> SessionInUseError:
        pid = None
        with suppress(JournalError, OSError):
            pid = self.read(session_id)[0].metas[-1].pid
        return SessionInUseError(session_id, pid)

    def _files(self) -> list[_File]:
        """Return the files of all sessions, the latest first."""
        found = []
        with suppress(OSError), os.scandir(self._made()) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX):
                    with suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        path = Path(entry.path)
                        found.append(_File(status.st_mtime, path, status.st_size + _bytes_below(path)))
        return sorted(found, reverse=True)

    def _made(self) -> Path:
        folder = self._folder if self._folder is not None else state_folder(self._environ) / "journals"
        make_private(folder)
        return folder


def _bytes_below(journal: Path) -> int:
    """Return how many bytes the sub-sessions of a session take."""
    with suppress(OSError), os.scandir(journal.with_suffix(_BELOW)) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
    return 0
