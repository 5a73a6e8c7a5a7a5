"""Choose the versions that a module depends on, and make the folder with them.

Nothing of a package is executed for either. A folder's name is the digest of its contents and interpreter. It is made
once, read-only from then on, and visible only when complete.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paddock_sources.commands.command_runner import CommandAccess, CommandRunner
from paddock_sources.constraints import PROVIDED, Constraint, outside
from paddock_sources.environment.errors import InstallerError
from paddock_sources.environment.index import Index
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.locked import SITE, LockedDistribution, environment_digest
from paddock_sources.environment.requirements import Requirements
from paddock_sources.environment.site import check_distributions, clean_site
from paddock_sources.environment.task import Task, compile_code
from paddock_sources.environment.uv import ResolutionRequest, Uv
from paddock_sources.environment.wheels import PROGRAMS, unpack
from paddock_sources.errors import NotFetchedError, SourceError
from paddock_sources.progress import Phase, Progress, SilentProgress

if TYPE_CHECKING:
    from paddock_sources.cache import SourceCache

_NO_VERSIONS: Final = ("UnsolvableError", "NoWheelError")  # failures that constraints may be the cause of
_REMEMBERED_SECONDS: Final = 86_400.0
_REMEMBERED_FILE: Final = "chosen.json"  # a list of [name, version, [hash…]]
_MAX_REMEMBERED_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Environments:
    """Chooses packages of `index` for `python`, and keeps folders with them in `cache`; `runner` runs uv, sandboxed."""

    cache: SourceCache
    runner: CommandRunner
    index: Index
    python: Interpreter
    progress: Progress = field(default_factory=SilentProgress)
    uv: Uv | None = None

    def resolve(
        self,
        requirements: Requirements,
        *,
        constraints: Mapping[str, str] | None = None,
        bounds: Sequence[Constraint] = (),
        provided: Mapping[str, str] | None = None,
    ) -> tuple[LockedDistribution, ...]:
        """Return the versions of all packages that satisfy the requirements for the index, and of their dependencies.

        `constraints` are versions, by name, to keep to if the package is needed at all and there is a solution with
        them. `bounds` are what people allow, and are never left. `provided` are packages that the worker has from
        elsewhere, by name, with the version if it is known: they and their dependencies are left out. What was chosen
        for the same inputs within a day is chosen again; where nothing can be fetched, also what was chosen earlier.

        Raises:
            InstallerError: there is no solution, or none within the bounds (code `BoundsError`), a package would have
                to be built, or it could not be found out.
            SourceError: uv is not installed.
        """
        if not requirements.index:
            return ()
        subject = requirements.name or "the module"
        left_out = {**dict.fromkeys(PROVIDED, ""), **(provided or {})}
        bounds = tuple(one for one in bounds if one.name not in left_out)
        kept = {name: version for name, version in (constraints or {}).items() if name not in left_out}
        for name in set(outside(kept, bounds)):
            del kept[name]
        request = ResolutionRequest(requirements.index, kept, left_out, tuple(one.text for one in bounds))
        remembered = _RememberedChoice(self.cache, request, self.index, self.python)
        if (known := remembered.read()) is not None:
            return known
        program = self.uv or Uv.find(os.environ)

        # Only a further try shows whether what holds versions is the cause; and the caller needs its answer next.
        tries: list[tuple[Mapping[str, str], tuple[Constraint, ...]]] = [(kept, bounds)]
        tries += [({}, bounds)] if kept else []
        tries += [({}, ())] if bounds else []
        failures: list[InstallerError] = []
        for tried, within in tries:
            try:
                wanted = replace(request, constraints=tried, bounds=tuple(one.text for one in within))
                access = CommandAccess("uv", reads=(program.path,), environ=program.environ(self.index))
                with self._at_work(access, subject, "resolving dependencies of") as task:
                    locked = program.resolve(wanted, task)
            except NotFetchedError as error:
                if (known := remembered.read(of_any_age=True)) is not None:
                    return known
                raise error.of_packages(requirements.index, is_locked=False) from error
            except InstallerError as error:
                if error.code not in _NO_VERSIONS:
                    raise
                failures.append(error)
                continue
            if within == bounds:
                remembered.write(locked)
                return locked
            chosen = {one.name: one.version for one in locked}
            raise failures[-1].out_of_bounds(bounds, chosen) from failures[-1]
        raise failures[-1] from (failures[0] if len(failures) > 1 else None)

    def install(self, locked: Sequence[LockedDistribution], subject: str = "") -> Path:
        """Return the folder for `sys.path` with exactly these distributions, from the cache if it is there.

        Raises:
            InstallerError: one of them cannot be had, or differs from what was locked.
            SourceError: uv is not installed, one must not be unpacked, or its contents are not safe to use.
            CacheError: the folder cannot be kept.
        """
        from paddock_sources.cache import Bucket

        def build(folder: Path) -> None:
            site = folder / SITE
            site.mkdir()
            named = subject or (locked[0].name if locked else "the module")
            program = self.uv or Uv.find(os.environ)
            access = CommandAccess(
                "python",
                reads=(program.path, *PROGRAMS),
                writes=(site,),
                environ=program.environ(self.index),
            )
            try:
                with self._at_work(access, named, "installing") as task:
                    unpack(locked, site, task, program)
            except NotFetchedError as error:
                raise error.of_packages([f"{one.name} {one.version}" for one in locked], is_locked=True) from error
            clean_site(site)
            compile_code(site, self.runner, self.python)
            clean_site(site)
            check_distributions(site, locked)

        facts = {"distributions": [f"{one.name}=={one.version}" for one in sorted(locked)], "python": self.python.tag}
        digest = environment_digest(locked, self.python)
        return self.cache.store(Bucket.ENVIRONMENTS).add(digest, build, facts) / SITE

    def _at_work(self, access: CommandAccess, subject: str, phase: Phase) -> AbstractContextManager[Task]:
        return at_work(access, self.cache, self.runner, self.index, self.python, self.progress, subject, phase)


@contextmanager
def at_work(
    access: CommandAccess,
    cache: SourceCache,
    runner: CommandRunner,
    index: Index,
    python: Interpreter,
    progress: Progress | None,
    subject: str,
    phase: Phase,
    *,
    keeps_downloads: bool = True,
) -> Iterator[Task]:
    """Open a session with this access for one task, also to the index, with scratch that is gone afterwards.

    Unless it `keeps_downloads`, the scratch is its only folder. When it is left, nothing writes any more to what it
    could write to.
    """
    from paddock_sources.cache import Bucket
    from paddock_sources.cache.errors import adding_to

    progress = progress or SilentProgress()
    what = "installing what" if phase == "installing" else "choosing versions of what"
    attempted = f"{what} `{subject}` needs"
    try:
        with cache.downloads() as kept, cache.store(Bucket.ENVIRONMENTS).store_context.staging_area.place() as scratch:
            downloads = kept / access.name if keeps_downloads else scratch
            with adding_to(cache.folder):
                downloads.mkdir(mode=0o700, exist_ok=True)
            certificates = (index.ca_file,) if index.ca_file else ()
            access = replace(
                access,
                reads=(*access.reads, *python.prefixes, *certificates),
                writes=tuple(dict.fromkeys((scratch, downloads, *access.writes))),
                hosts=index.hosts,
                is_users_word=True,
                environ={**access.environ, "TMPDIR": str(scratch)},
            )
            with runner.open(access) as session:
                yield Task(
                    attempted, phase, subject, index, python, scratch, cache.folder, downloads, session, progress
                )
    finally:
        progress.finished(subject)


class _RememberedChoice:
    """The versions that were chosen for one request, remembered for a day, so that they are not chosen at each start.

    They are in the user's cache under the digest of all that decides about them: what was asked for, the index without
    credentials, the Python and the platform. People may edit the file, so it is read as strictly as a lock; what has
    another form counts as absent. A `cache` that recalls nothing takes note of choices all the same.
    """

    def __init__(
        self,
        cache: SourceCache,
        request: ResolutionRequest,
        index: Index,
        python: Interpreter,
    ) -> None:
        inputs = (asdict(request), index.shown, python.tag, python.platform, dict(python.markers))
        self._digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
        from paddock_sources.cache import Bucket

        self._store = cache.store(Bucket.RESOLUTIONS)
        self._recalls = cache.recalls

    def read(self, *, of_any_age: bool = False) -> tuple[LockedDistribution, ...] | None:
        """Return the choice of the last day; None where there is none."""
        marker = self._store.marker(self._digest) if self._recalls else None
        if marker is None or not (
            of_any_age or 0 <= self._store.store_context.clock() - marker.made_at < _REMEMBERED_SECONDS
        ):
            return None
        try:
            with open(self._store.place(self._digest) / _REMEMBERED_FILE, "rb") as file:
                written = json.loads(file.read(_MAX_REMEMBERED_BYTES))
            if not isinstance(written, list):
                return None
            found = tuple(LockedDistribution(name, version, tuple(hashes)) for name, version, hashes in written)
        except (OSError, ValueError, TypeError, RecursionError, SourceError):
            return None
        return found if len({one.name for one in found}) == len(found) else None

    def write(self, chosen: Sequence[LockedDistribution]) -> None:
        """Keep a choice in place of an earlier one; where nothing can be kept, it is made again the next time."""
        from paddock_sources.cache import CacheError

        text = json.dumps([[one.name, one.version, one.hashes] for one in chosen])

        def build(folder: Path) -> None:
            (folder / _REMEMBERED_FILE).write_text(text, encoding="utf-8")

        with suppress(CacheError):
            self._store.remove(self._digest)
            self._store.add(self._digest, build, {"distributions": [f"{one.name}=={one.version}" for one in chosen]})
