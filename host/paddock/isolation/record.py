"""The record of a session for later questions: its modules, their grants, and the rules that decided them.

There is a file for each session, for the user alone, written in one step and read strictly: a damaged file is no
record. It contains secrets by name only. Keeping a record never raises: a session is worth more than its record. As
long as a session runs it locks its file, so that no other session removes it.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AwareDatetime, BeforeValidator, Field, ValidationError

from paddock.errors import KindError, PaddockError
from paddock.isolation.compile import Confinement
from paddock.isolation.denials.explained_module import ExplainedModule
from paddock.isolation.fixed_paths import FixedPaths, ModuleCode
from paddock.plan.model import EntryPlace, Kind, ModuleEntry
from paddock.plan.permissions import Permissions, grants_of
from paddock.plan.problems import StrictModel, path_text
from paddock.plan.secret_references import names_referred_to
from paddock.plan.source_map import Positions
from paddock.policy.limits import ResourceLimits
from paddock.policy.owner import Owner
from paddock.policy.rule import ConsultedRule
from paddock.state_folder import make_private, open_own, state_folder
from paddock_sandbox.profile import IsolationLevel, Mount, SandboxProfile
from paddock_sources import Resolution
from paddock_sources.lock.lock_file import LOCK_FILE
from paddock_sources.similar_names import near

LAST: Final = "last"  # in place of an id
_VERSION: Final = 1
_SHORTEST: Final = 4  # characters of an id that may stand for it
_NAMED: Final = 8  # ids, of those that are known
_KEPT: Final = 50  # sessions; the oldest of those that have ended are removed
_MAX_FILE_BYTES: Final = 2 << 20  # a session of a dozen modules takes a hundred KiB
_MAX_CHARACTERS: Final = 4096  # PATH_MAX
_MAX_MODULES: Final = 200
_MAX_PLACES: Final = 1000  # of one module: mounts, programs
_MAX_RULES: Final = 200
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_REFERENCE: Final = re.compile(r"\$\{\w+\}", re.ASCII)  # the name of a secret, not a secret
_HEAD_BYTES: Final = 32 << 10  # of a record, with all that comes before its modules: five texts, and their escapes
_RUNS: Final = b'"ended":null'
_HIDDEN: Final = "…"  # stands for the value of a variable

_log = logging.getLogger(__name__)


def _plain(text: str) -> str:
    """Return text that any file can hold: invalid UTF-8 as escapes, and of a long text a part."""
    if not text.isascii():
        text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"


_Text = Annotated[str, BeforeValidator(lambda value: _plain(value) if isinstance(value, str) else value)]
_Paths = Annotated[tuple[_Text, ...], Field(max_length=_MAX_PLACES)]


class RuleRecord(StrictModel):
    """A rule that was consulted: its place, its text, and its result."""

    file: _Text
    line: int | None
    text: _Text
    outcome: _Text

    @classmethod
    def of(cls, consulted: ConsultedRule) -> Self:
        """Return the record of a rule."""
        location = consulted.rule.location
        return cls(file=location.file, line=location.line, text=consulted.rule.text, outcome=consulted.outcome)


class CodeRecord(StrictModel):
    """Where a module's code is."""

    root: _Text
    imported: _Text
    package: _Text

    @classmethod
    def of(cls, resolution: Resolution) -> Self:
        """Return the record of a resolved module's code."""
        code = ModuleCode.of(resolution)
        return cls(root=str(code.root), imported=str(code.imported), package=str(code.package))


class ModuleRecord(StrictModel):
    """The grants of one module: `permissions` are those in effect, `written` its plan's, without values of variables.

    `place` is the place of its entry in the plan, `line` the line of its permissions, or of what they would stand in.
    `references` are the names for which its configuration and variables have a `${NAME}`.
    """

    name: _Text
    module: _Text
    kind: Kind
    place: _Text
    source: _Text
    code: CodeRecord
    level: IsolationLevel
    permissions: Permissions
    written: Permissions
    limits: dict[_Text, float | None]
    mounts: Annotated[tuple[tuple[_Text, _Text, bool, bool], ...], Field(max_length=_MAX_PLACES)]
    programs: _Paths
    protected: _Paths
    scratch: _Text
    line: int | None = None
    references: _Paths | None = None
    closed: Annotated[tuple[tuple[_Text, _Text], ...], Field(max_length=_MAX_PLACES)] = ()
    consulted: Annotated[tuple[RuleRecord, ...], Field(max_length=_MAX_RULES)] = ()

    @classmethod
    def of(
        cls,
        entry: ModuleEntry,
        resolution: Resolution,
        confinement: Confinement,
        limits: ResourceLimits,
        consulted: Iterable[ConsultedRule] = (),
        *,
        written: Permissions | None = None,
        positions: Positions | None = None,
    ) -> Self:
        """Return the record of a sandboxed module; `entry` has the permissions in effect.

        `written` are the permissions of its plan, where the operator gave it more, and `positions` those of its plan.
        """
        profile = confinement.profile
        return cls(
            name=entry.instance_id or entry.module,
            module=entry.module,
            kind=entry.kind,
            place=entry.path,
            source=resolution.source,
            code=CodeRecord.of(resolution),
            level=profile.level,
            permissions=_without_values(entry.permissions),
            written=_without_values(entry.permissions if written is None else written),
            limits=limits.by_name,
            mounts=tuple(
                (mount.source, mount.target, mount.writable, mount.mappable) for mount in profile.mounts[:_MAX_PLACES]
            ),
            programs=profile.programs[:_MAX_PLACES],
            protected=tuple(map(str, confinement.protected)),
            scratch=profile.scratch,
            line=None if positions is None else _own_line(positions, path_text(entry.path, "permissions")),
            references=names_referred_to(entry.config, grants_of(entry.permissions))[:_MAX_PLACES],
            closed=tuple((place.source, place.target) for place in profile.closed[:_MAX_PLACES]),
            consulted=tuple(RuleRecord.of(one) for one in consulted)[:_MAX_RULES],
        )

    @property
    def entry(self) -> ModuleEntry:
        """The plan entry with the permissions in effect, as far as it decides what the module may do."""
        place = EntryPlace(self.kind, self.place, Path("/"))
        return ModuleEntry.read({"module": self.module, "permissions": self.permissions}, place)

    @property
    def profile(self) -> SandboxProfile:
        """The module's profile, as far as it decides what the module may reach."""
        mounts = tuple(Mount(*mount) for mount in self.mounts)
        closed = tuple(Mount(source, target, closed=True) for source, target in self.closed)
        return SandboxProfile(self.level, mounts, self.programs, scratch=self.scratch, closed=closed)


class SessionRecord(StrictModel):
    """One session: `plan` is the file it came from, if any; without `ended` it runs, or its host was killed.

    `own_names` has the mounted names of tools that call themselves otherwise, by their own.
    """

    version: Literal[1] = _VERSION
    id: _Text
    plan: _Text | None
    digest: _Text
    working_dir: _Text
    home: _Text
    pid: int
    started: AwareDatetime
    ended: AwareDatetime | None = None
    modules: Annotated[tuple[ModuleRecord, ...], Field(max_length=_MAX_MODULES)] = ()
    own_names: dict[_Text, _Text] = Field(default={}, max_length=_MAX_PLACES)

    @classmethod
    def begin(
        cls,
        session_id: str,
        modules: Iterable[ModuleRecord],
        *,
        working_dir: Path,
        home: Path,
        plan: Path | None = None,
        digest: str = "",
    ) -> Self:
        """Return the record of a session of this process that begins now."""
        return cls(
            id=session_id,
            plan=None if plan is None else str(plan),
            digest=digest,
            working_dir=str(working_dir),
            home=str(home),
            pid=os.getpid(),
            started=_now(),
            modules=tuple(modules)[:_MAX_MODULES],
        )

    def end(self) -> Self:
        """Return the record of the same session, which ends now."""
        return self.model_copy(update={"ended": _now()})

    def tools(self, own_names: Mapping[str, str]) -> Self:
        """Return it with the mounted names of tools, by their own; modules choose these, and odd ones are left out."""
        kept = {own: name for own, name in islice(own_names.items(), _MAX_PLACES) if _PLAIN_NAME.fullmatch(own)}
        return self.model_copy(update={"own_names": kept})

    def module(self, name: str) -> ModuleRecord | None:
        """Return the record of the module that goes by `name`: its place in the plan, its instance, or else its id."""
        by_name = (one for one in self.modules if name in (one.place, one.name))
        return next(by_name, None) or next((one for one in self.modules if one.module == name), None)

    def subject(self, module: ModuleRecord, installation: Iterable[Path]) -> ExplainedModule:
        """Return one of the session's modules for an explanation; `installation` is Paddock's own files."""
        entry = module.entry
        codes = [module, *(one for one in self.modules if one is not module)]
        files = [Path(self.plan), Path(self.plan).parent / LOCK_FILE] if self.plan is not None else []
        kept = [(path, "which the session depends on") for path in files]
        installed = [(path, "which Paddock runs from") for path in installation]
        return ExplainedModule(
            entry=entry,
            profile=module.profile,
            working_dir=Path(self.working_dir),
            owner=replace(Owner.current({}), home=Path(self.home)),
            fixed=FixedPaths(tuple(_code_of(one) for one in codes), (*kept, *installed)),
            protected=tuple(map(Path, module.protected)),
            written=module.written,
            references=module.references,
        )


class DamagedRecordError(PaddockError):
    """Raised for an invalid file in the place of a record."""

    exit_code = 1

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(
            f"`{path}` is no record of a session: {reason}", hints=["remove it; the next session makes one"]
        )


class SessionInUseError(KindError):
    """Raised for a session id that another host has at this time."""

    def __init__(self, session_id: str, pid: int | None, since: datetime | None = None) -> None:
        whose = "another process" if pid is None else f"pid {pid}"
        first = "end it first" if pid is None else f"end it first: `kill {pid}`"
        began = "" if since is None else f" since {since.isoformat(timespec='seconds')}"
        super().__init__(
            "SessionInUseError",
            f"session `{session_id:.200}` is in use by {whose}{began}",
            hints=[first, "or give this session an id of its own"],
        )


class SessionRecords:
    """The records of a user's sessions, in `folder`; by default `sessions` in the state folder named by `environ`."""

    def __init__(self, folder: Path | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._environ = environ
        self._has_failed = False
        self._held: int | None = None

    def keep(self, record: SessionRecord) -> None:
        """Write a record, in place of the session's earlier one, and remove the oldest beyond the bound."""
        try:
            folder = self._made()
            path = folder / _file_name(record.id)
            descriptor = _write(
                path, record.model_dump_json(exclude=None if record.own_names else {"own_names"}).encode()
            )
            self._release()
            if record.ended is None:
                self._held = descriptor
            else:
                os.close(descriptor)
            _prune(folder, path)
        except (OSError, ValueError) as error:
            if not self._has_failed:
                self._has_failed = True
                _log.warning("no record of this session is kept, and `paddock why` cannot explain it: %s", error)

    def find(self, asked: str, folder: Path) -> SessionRecord:
        """Return the record of the session that an id, the beginning of one, or `last` (the newest of a folder) means.

        Raises:
            KindError: none is meant, or several are.
        """
        unread: list[str] = []
        records = self.all(lambda error: unread.append(error.summary))
        if asked == LAST:
            meant = [one for one in records if one.working_dir == str(folder)]
            problem, hints = f"no session is known that ran in `{folder}`", ["name one of another folder by its id"]
        else:
            ids = [one.id for one in records]
            found, hints = meant_id(asked, ids)
            meant = [one for one in records if one.id == found]
            problem = f"no session `{asked:.200}` is known"
            if ids and not hints:
                hints = [f"sessions known: {', '.join(ids[:_NAMED])}"]
        if meant:
            return meant[0]
        raise KindError("NothingToExplainError", problem, detail=unread[:3], hints=hints)

    def all(self, on_unread: Callable[[DamagedRecordError], None] | None = None) -> tuple[SessionRecord, ...]:
        """Return every record there is, the newest session first; `on_unread` gets those that cannot be read."""
        folder = self._existing()
        if folder is None:
            return ()
        records = []
        with suppress(OSError):
            for path in folder.glob("*.json"):
                try:
                    records.append(_read(path))
                except DamagedRecordError as error:
                    if on_unread is not None:
                        on_unread(error)
        found = [record for record in records if record is not None]
        return tuple(sorted(found, key=lambda record: record.started, reverse=True))

    def check_free(self, session_id: str) -> None:
        """Refuse an id that another host has; an application may have two sessions of one.

        Raises:
            SessionInUseError: it has it now.
        """
        folder = self._existing()
        if folder is None:
            return
        path = folder / _file_name(_plain(session_id))
        with suppress(OSError), open(path, "rb", opener=open_own) as file:
            if not _is_held(file.fileno()):
                return
            with suppress(DamagedRecordError):
                record = _read(path)
                if record is not None and record.ended is None and record.pid != os.getpid():
                    raise SessionInUseError(session_id, record.pid, record.started)

    def take_lost(self) -> list[SessionRecord]:
        """Return the records of sessions whose hosts ended without a word, and end them: nobody else returns them."""
        found = []
        folder = self._existing()
        for path in folder.glob("*.json") if folder is not None else ():
            with suppress(OSError, DamagedRecordError), open(path, "rb", opener=open_own) as file:
                head, _, _ = file.read(_HEAD_BYTES).partition(b'"modules":')
                if _RUNS not in head or _is_held(file.fileno()):
                    continue
                record = _read(path)
                if record is not None and record.ended is None:
                    os.close(_write(path, record.end().model_dump_json().encode()))
                    found.append(record)
        return found

    def _release(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _made(self) -> Path:
        folder = self._folder if self._folder is not None else state_folder(self._environ) / "sessions"
        make_private(folder)
        return folder

    def _existing(self) -> Path | None:
        with suppress(OSError):
            return self._made()
        return None


def _code_of(module: ModuleRecord) -> ModuleCode:
    code = module.code
    return ModuleCode(module.module, Path(code.root), Path(code.imported), Path(code.package))


def _now() -> datetime:
    return datetime.now(UTC)


def _without_values(permissions: Permissions) -> Permissions:
    return permissions.model_copy(update={"env": tuple(map(_without_value, permissions.env))})


def _without_value(grant: str) -> str:
    name, is_set, value = grant.partition("=")
    return grant if not is_set or _REFERENCE.fullmatch(value) else f"{name}={_HIDDEN}"


def meant_id(asked: str, ids: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the one of `ids` that an id, or the beginning of one, means; None if there is not one, with hints."""
    if asked in ids:
        return asked, []
    begun = sorted(id for id in ids if asked and id.startswith(asked))
    if not begun:
        return None, [f"did you mean `{close}`?" for close in near(asked, ids)]
    if len(asked) < _SHORTEST:
        return None, [f"of an id, {_SHORTEST} characters at least stand for it"]
    if len(begun) > 1:
        return None, [f"it is the beginning of several ids: {', '.join(begun[:5])}"]
    return begun[0], []


def stem_of(session_id: str) -> str:
    """Return the name of a session's file, without its end: an application may call its sessions what it likes."""
    if _PLAIN_NAME.fullmatch(session_id):
        return session_id
    return f"={hashlib.sha256(session_id.encode(errors='surrogatepass')).hexdigest()}"


def _file_name(session_id: str) -> str:
    return f"{stem_of(session_id)}.json"


def _write(path: Path, content: bytes) -> int:
    """Write the file, and return its descriptor, which holds a lock on it."""
    if len(content) > _MAX_FILE_BYTES:
        raise ValueError(f"it would take more than {_MAX_FILE_BYTES >> 20} MiB")
    unfinished = path.with_suffix(".unfinished")
    with suppress(FileNotFoundError):
        unfinished.unlink()
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with suppress(OSError):  # a file system without locks: the record may be removed before its session ends
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.replace(unfinished, path)
    except BaseException:
        os.close(descriptor)
        with suppress(OSError):
            unfinished.unlink()
        raise
    return descriptor


def _is_held(descriptor: int) -> bool:
    """Whether a session that runs holds the record; if none does, nobody can until this is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _prune(folder: Path, newest: Path) -> None:
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # another session has renamed or removed it meanwhile
                found = entry.stat(follow_symlinks=False)
                files.append((found.st_mtime_ns, entry.path, found.st_ino))
    kept = 0
    for _, path, inode in sorted(files, reverse=True):
        is_record = path.endswith(".json")  # what another session just writes may replace one, and is none yet
        kept += is_record
        if kept + (not is_record) > _KEPT and path != str(newest):
            with suppress(OSError):
                _remove_unless_held(path, inode)


def _remove_unless_held(path: str, inode: int) -> None:
    with open(path, "rb", opener=open_own) as file:
        descriptor = file.fileno()
        if not _is_held(descriptor) and os.fstat(descriptor).st_ino == os.lstat(path).st_ino == inode:
            os.unlink(path)


def _read(path: Path) -> SessionRecord | None:
    try:
        with open(path, "rb", opener=open_own) as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedRecordError(path, (error.strerror or str(error)).lower()) from error
    if len(content) > _MAX_FILE_BYTES:
        raise DamagedRecordError(path, "it is too large")
    try:
        return SessionRecord.model_validate_json(content)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        version = next((problem["input"] for problem in problems if problem["loc"] == ("version",)), None)
        if isinstance(version, int):
            said = f"it is of version {version}, and this Paddock reads version {_VERSION}: use the one that wrote it"
            raise DamagedRecordError(path, said) from error
        raise DamagedRecordError(path, _first(problems)) from error


def _first(problems: Iterable[Mapping[str, Any]]) -> str:
    problem = next(iter(problems))
    place = ".".join(map(str, problem["loc"]))
    return f"{place}: {problem['msg']}" if place else str(problem["msg"])


def _own_line(positions: Positions, path: str) -> int | None:
    """Return the line of a place in the plan's own file; None where another file, as a bundle's, has it."""
    file, line = positions.spot_of(path)
    return None if file else line
