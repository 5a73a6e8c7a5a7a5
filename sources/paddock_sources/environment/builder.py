"""Choose the versions that a module depends on, and make the folder with them.

Nothing of a package is executed for either. A folder's name is the digest of its contents and interpreter. It is made
once, read-only from then on, and visible only when complete.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paddock_sources.commands.command_runner import CommandRunner
from paddock_sources.constraints import PROVIDED, Constraint, outside
from paddock_sources.environment.errors import ConstrainedError, InstallerError
from paddock_sources.environment.index import Index
from paddock_sources.environment.installer import Installer, ResolutionRequest, Task, compile_code, opened
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.locked import SITE, LockedDistribution, environment_digest, installed
from paddock_sources.environment.requirements import Requirements
from paddock_sources.environment.site import check_distributions, clean_site
from paddock_sources.environment.wheels import fetched
from paddock_sources.errors import NotFetchedError, SourceError
from paddock_sources.progress import Phase, Progress, SilentProgress

if TYPE_CHECKING:
    from paddock_sources.cache import SourceCache

__all__ = ["find_installer", "install", "installed", "resolve"]

_NO_VERSIONS: Final = ("UnsolvableError", "NoWheelError")  # failures that constraints may be the cause of


def resolve(
    requirements: Requirements,
    *,
    cache: SourceCache,
    runner: CommandRunner,
    index: Index,
    python: Interpreter,
    constraints: Mapping[str, str] | None = None,
    bounds: Sequence[Constraint] = (),
    provided: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    installer: Installer | None = None,
) -> tuple[LockedDistribution, ...]:
    """Return the versions of all packages that satisfy the requirements for the index, and of their dependencies.

    `constraints` are versions, by name, to keep to if the package is needed at all. `bounds` are what people allow, and
    are never left. `provided` are packages that the worker has from elsewhere, by name, with the version if it is
    known: they and their dependencies are left out.

    Raises:
        ConstrainedError: there is a solution, but none that keeps to the constraints.
        InstallerError: there is no solution, or none within the bounds (code `BoundsError`), a package would have to
            be built, or it could not be found out.
    """
    if not requirements.index:
        return ()
    installer = installer or find_installer(os.environ)
    subject = requirements.name or "the module"
    left_out = {**dict.fromkeys(PROVIDED, ""), **(provided or {})}
    bounds = tuple(one for one in bounds if one.name not in left_out)
    kept = {name: version for name, version in (constraints or {}).items() if name not in left_out}
    for name in set(outside(kept, bounds)):
        del kept[name]

    def solved(kept: Mapping[str, str], bounds: Sequence[Constraint]) -> tuple[LockedDistribution, ...]:
        wanted = ResolutionRequest(requirements.index, kept, left_out, tuple(one.text for one in bounds))
        with _at_work(installer, cache, runner, index, python, progress, subject, "resolving dependencies of") as task:
            return installer.resolve(wanted, task)

    # Only a further try shows whether what holds versions is the cause; and the caller needs its answer next.
    tries: list[tuple[Mapping[str, str], tuple[Constraint, ...]]] = [(kept, bounds)]
    tries += [({}, bounds)] if kept else []
    tries += [({}, ())] if bounds else []
    failures: list[InstallerError] = []
    for tried, within in tries:
        try:
            locked = solved(tried, within)
        except NotFetchedError as error:
            raise error.of_packages(requirements.index, is_locked=False) from error
        except InstallerError as error:
            if error.code not in _NO_VERSIONS:
                raise
            failures.append(error)
            continue
        if not failures:
            return locked
        if within == bounds:
            raise ConstrainedError(failures[0], locked) from failures[0]
        chosen = {one.name: one.version for one in locked}
        raise failures[-1].out_of_bounds(bounds, chosen) from failures[-1]
    raise failures[-1] from (failures[0] if len(failures) > 1 else None)


def install(
    locked: Sequence[LockedDistribution],
    *,
    cache: SourceCache,
    runner: CommandRunner,
    index: Index,
    python: Interpreter,
    progress: Progress | None = None,
    installer: Installer | None = None,
    subject: str = "",
) -> Path:
    """Return the folder for `sys.path` with exactly these distributions, from the cache if it is there.

    Raises:
        InstallerError: one of them cannot be had, or differs from what was locked.
        SourceError: one must not be unpacked, or its contents are not safe to use.
        CacheError: the folder cannot be kept.
    """
    from paddock_sources.cache import Bucket

    def build(folder: Path) -> None:
        site = folder / SITE
        site.mkdir()
        by = installer or find_installer(os.environ)
        named = subject or (locked[0].name if locked else "the module")
        try:
            with _at_work(by, cache, runner, index, python, progress, named, "installing", site) as task:
                by.install(locked, fetched(locked, task, attempt=by.name), site, task)
        except NotFetchedError as error:
            raise error.of_packages([f"{one.name} {one.version}" for one in locked], is_locked=True) from error
        except InstallerError as error:
            if error.code != "ModesRefusedError":
                raise
            # Where Landlock alone confines commands. pip can be kept from trying; uv cannot.
            from paddock_sources.environment.pip import Pip

            pip = Pip.find()
            if pip is None:
                raise
            shutil.rmtree(site)
            site.mkdir()
            with _at_work(pip, cache, runner, index, python, progress, named, "installing", site) as task:
                pip.install(locked, fetched(locked, task, attempt=pip.name), site, task)
        clean_site(site)
        compile_code(site, runner, python)
        clean_site(site)
        check_distributions(site, locked)

    facts = {"distributions": [f"{one.name}=={one.version}" for one in sorted(locked)], "python": python.tag}
    return cache.store(Bucket.ENVIRONMENTS).add(environment_digest(locked, python), build, facts) / SITE


@contextmanager
def _at_work(
    installer: Installer,
    cache: SourceCache,
    runner: CommandRunner,
    index: Index,
    python: Interpreter,
    progress: Progress | None,
    subject: str,
    phase: Phase,
    site: Path | None = None,
) -> Iterator[Task]:
    """Open a session for one task of an installer, with scratch that is gone afterwards."""
    from paddock_sources.cache import Bucket
    from paddock_sources.cache.errors import adding_to

    progress = progress or SilentProgress()
    what = "installing what" if phase == "installing" else "choosing versions of what"
    try:
        with cache.downloads() as kept, cache.store(Bucket.ENVIRONMENTS).store_context.staging_area.place() as scratch:
            downloads = kept / installer.name
            with adding_to(cache.folder):
                downloads.mkdir(mode=0o700, exist_ok=True)
            with opened(installer, runner, index, python, scratch=scratch, downloads=downloads, site=site) as session:
                attempted = f"{what} `{subject}` needs"
                yield Task(
                    attempted, phase, subject, index, python, scratch, cache.folder, downloads, session, progress
                )
    finally:
        progress.finished(subject)


def find_installer(environ: Mapping[str, str]) -> Installer:
    """Return the installer of this machine; `environ` has the PATH that is searched.

    Raises:
        SourceError: this machine has no installer.
    """
    from paddock_sources.environment.pip import Pip
    from paddock_sources.environment.uv import Uv

    found: Installer | None = Uv.find(environ) or Pip.find()
    if found is None:
        raise SourceError(
            "there is no installer of packages: neither uv nor pip was found",
            code="NoInstallerError",
            hints=["install uv beside paddock: `pip install 'paddock[uv]'`", "or pip: `python -m ensurepip`"],
        )
    return found
