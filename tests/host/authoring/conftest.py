"""Trials of modules that each test writes down in full, at the strongest level of isolation that this machine has."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from host.authoring.installed_wheels import TEST_RUNNERS, index_of
from integration.command_line import reachable_level
from paddock.authoring.module_folder import ModuleFolder
from paddock.authoring.provided import FetchOptions
from paddock.authoring.suite import SuiteOutcome, run_behavior_tests, run_own_tests
from paddock.authoring.trial import TrialContext
from paddock.authoring.validation import validate
from paddock.authorization.authorizer import Authorizer
from paddock.module_sources.provisioning import SourceOptions
from paddock.plan.model import Kind
from paddock_sdk.validation.result import ValidationResult
from sources.index_server import IndexServer

_SECONDS = 200  # for one trial; hit only by a hang

_T = TypeVar("_T")


@dataclass
class Trials:
    """Runs trials of modules in `folder`; `printed` is what the last one's worker printed."""

    folder: Path
    printed: list[str] = field(default_factory=list)
    offline: bool = False

    def write(self, module_id: str, code: str, files: dict[str, str] | None = None, project: str = "") -> Path:
        """Write a module of one file, laid out as the community does, and return its repository."""
        root = self.folder / f"amplifier-module-{module_id}"
        package = f"amplifier_module_{module_id.replace('-', '_')}"
        written = {
            "pyproject.toml": f'[project]\nname = "amplifier-module-{module_id}"\nversion = "1.0"\n'
            f'[project.entry-points."amplifier.modules"]\n{module_id} = "{package}:mount"\n{project}',
            f"{package}/__init__.py": textwrap.dedent(code),
            **{path: textwrap.dedent(text) for path, text in (files or {}).items()},
        }
        for path, text in written.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        return root

    async def validate(self, path: Path, kind: Kind | None = None, **limits: str) -> ValidationResult:
        """Validate a module."""
        folder = ModuleFolder.at(path)
        return await _bounded(validate(await self._trial_context(limits), folder, folder.kind(kind)))

    async def test(self, path: Path, *args: str, **limits: str) -> SuiteOutcome:
        """Run a module's own tests."""
        return await _bounded(run_own_tests(await self._trial_context(limits), ModuleFolder.at(path), args))

    async def behave(self, path: Path) -> SuiteOutcome:
        """Run the tests of a module's kind."""
        folder = ModuleFolder.at(path)
        return await _bounded(run_behavior_tests(await self._trial_context({}), folder, folder.kind()))

    async def _trial_context(self, limits: dict[str, str]) -> TrialContext:
        environ = dict(os.environ)
        self.printed.clear()
        return TrialContext(
            await Authorizer.at_work(self.folder, environ, None),
            FetchOptions(environ, SourceOptions(offline=self.offline)),
            limits,
            reachable_level(),  # type: ignore[arg-type]
            lambda line: self.printed.append(line.text),
        )


async def _bounded(work: Coroutine[Any, Any, _T]) -> _T:
    with anyio.fail_after(_SECONDS):
        return await work


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which what tests are run with is installed once, for all processes of a run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache-of-trials"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@pytest.fixture(autouse=True)
def _starts_are_warm(warm_starts: None) -> None:
    """Have all trials here begin warm."""


@pytest.fixture
def trials(tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Trials:
    """What runs trials of modules in a folder of the test's own."""
    monkeypatch.setenv("PADDOCK_CACHE_DIR", str(shared_cache))
    return Trials(tmp_path)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexServer]:
    """An index with what runs tests, and no more."""
    with index_of(monkeypatch, *TEST_RUNNERS) as index:
        yield index
