"""Of a shipped module a lock file says what it depends on, where it depends on anything, and nothing else."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from paddock_sources import SourceUri, parse_source
from paddock_sources.builtin import BuiltinSource
from paddock_sources.cache import SourceCache
from paddock_sources.errors import SourceError
from paddock_sources.lock.lock_file import LockFile
from paddock_sources.lock.lock_text import LockTextError, parse_lock
from paddock_sources.lock.locked_module import LockedDependency, LockedModule
from paddock_sources.locked_sources import LockedSources
from paddock_sources.provisioner import Provisioner
from sources.provisioners import provisioner_of
from support.rows import each_row

_HASH = f"sha256:{'0' * 64}"
_EVIL = (LockedDependency("httpx", "0.27.0", (_HASH,)),)


@pytest.fixture
def provisioner(tmp_path: Path) -> Provisioner:
    """Provide two shipped modules: one that depends on a package, and one that does not."""
    shipped = tmp_path / "builtin"
    for name, needs in (("tool-plain", "[]"), ("tool-needy", '["httpx>=0.27"]')):
        package = shipped / name / f"amplifier_module_{name.replace('-', '_')}"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("async def mount(coordinator, config=None): ...\n")
        (shipped / name / "pyproject.toml").write_text(
            f'[project]\nname = "amplifier-module-{name}"\nversion = "1"\ndependencies = {needs}\n'
        )
    return provisioner_of(SourceCache(tmp_path / "cache"), None, offline=True, builtin=BuiltinSource(shipped))


def _sources(provisioner: Provisioner, folder: Path, *locked: str) -> LockedSources:
    modules = tuple(LockedModule(f"builtin:{name}", dependencies=_EVIL) for name in locked)
    return LockedSources(provisioner, LockFile().with_modules(modules), folder)


def _uris(*names: str) -> Collection[SourceUri]:
    return [parse_source(f"builtin:{name}") for name in names]


def test_a_lock_file_adds_nothing_to_a_module_that_depends_on_nothing(provisioner: Provisioner, tmp_path: Path) -> None:
    sources = _sources(provisioner, tmp_path, "tool-plain")
    (uri,) = _uris("tool-plain")
    assert sources.provide(uri, "tool-plain").libraries == ()
    assert sources.pinned([uri]) == {} and sources.news == ()


def test_what_a_shipped_module_depends_on_is_a_pin_to_be_accepted(provisioner: Provisioner, tmp_path: Path) -> None:
    uris = _uris("tool-plain", "tool-needy")
    assert _sources(provisioner, tmp_path).pinned(uris) == {"builtin:tool-needy": None}
    pinned = _sources(provisioner, tmp_path, "tool-needy").pinned(uris)
    assert pinned["builtin:tool-needy"] is not None and pinned["builtin:tool-needy"].dependencies == _EVIL


def test_what_was_not_locked_of_a_shipped_module_is_not_taken_offline(provisioner: Provisioner, tmp_path: Path) -> None:
    (uri,) = _uris("tool-needy")
    with pytest.raises(SourceError):
        _sources(provisioner, tmp_path).provide(uri, "tool-needy")


@each_row("key", ["tree", "commit", "nothing"])
def test_a_lock_file_says_nothing_of_the_code_of_a_shipped_module(key: str) -> None:
    said = "" if key == "nothing" else f'{key} = "{_HASH if key == "tree" else "0" * 40}"\n'
    needs = "" if key == "nothing" else f'[[module.dependency]]\nname = "x"\nversion = "1"\nhashes = ["{_HASH}"]\n'
    with pytest.raises(LockTextError, match="only its dependencies"):
        parse_lock(f'version = 1\n[[module]]\nsource = "builtin:tool-needy"\n{said}{needs}')
