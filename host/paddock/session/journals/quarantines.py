"""The modules of a kept session that ended too often: they outlive its host, until a person lifts their quarantine.

They are in a file beside the session's journal, and not in it: a lift is a right, and no right comes from a journal. A
quarantine is of a name and a source, since code of another source is another module. The file is written by the host
that has the session, or by a person's command while none has it.
"""

from __future__ import annotations

import logging
import os
import shlex
from pathlib import Path
from typing import Final

from paddock.plan.problems import StrictModel
from paddock.session.journals.journal_file import JournalError
from paddock.state_folder import open_own
from paddock.workers.supervisor import Supervisor

SUFFIX: Final = ".quarantined"
_BYTES_MAX: Final = 1 << 20  # of a file; a plan's modules take far less

_log = logging.getLogger(__name__)


class _Quarantined(StrictModel):
    """The sources of the modules, by the modules' names."""

    modules: dict[str, str]


class Quarantines:
    """The quarantined modules of the session with this journal.

    Raises:
        JournalError: the file cannot be read.
    """

    def __init__(self, journal: Path, session_id: str) -> None:
        self._path = journal.with_suffix(SUFFIX)
        self._session = session_id
        self._sources = _read(self._path)

    @property
    def modules(self) -> tuple[str, ...]:
        """The names of the modules."""
        return tuple(self._sources)

    def hold(self, supervisor: Supervisor, source: str) -> None:
        """Start nothing of a module that is quarantined; from now on, remember one that gets so."""
        name = supervisor.spec.name
        line = shlex.join(["paddock", "sessions", "lift", self._session, name])
        supervisor.lifts = f"`/lift` in a chat, or for the next time that this session is resumed: `{line}`"
        if self._sources.get(name) == source:
            supervisor.quarantine()
        supervisor.on_exit(lambda report: self._add(name, source) if supervisor.quarantined else None)

    def lift(self, module: str) -> bool:
        """Forget that a module is quarantined; return whether it was.

        Raises:
            OSError: the file cannot be written.
        """
        if self._sources.pop(module, None) is None:
            return False
        self._write()
        return True

    def _add(self, name: str, source: str) -> None:
        self._sources[name] = source
        try:
            self._write()
        except OSError as error:
            _log.warning("that `%s` is quarantined could not be kept, and holds for this host alone: %s", name, error)

    def _write(self) -> None:
        if not self._sources:
            self._path.unlink(missing_ok=True)
            return
        unfinished = self._path.with_suffix(".unfinished-quarantine")
        unfinished.unlink(missing_ok=True)
        with open(unfinished, "xb", opener=open_own) as file:
            file.write(_Quarantined(modules=self._sources).model_dump_json().encode())
        os.replace(unfinished, self._path)


def _read(path: Path) -> dict[str, str]:
    try:
        with open(path, "rb", opener=open_own) as file:
            return _Quarantined.model_validate_json(file.read(_BYTES_MAX)).modules
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        problem = (error.strerror or str(error)) if isinstance(error, OSError) else "it names no modules"
        hint = f"remove it, which lifts the quarantine of each module in it: `{shlex.join(['rm', '-r', str(path)])}`"
        raise JournalError(path, problem, hint) from error
