"""The pytest plugin for modules: it supplies the fixtures of structural and behavioural tests, in the test's process.

The module is the one whose repository holds the test's file, or the working directory, or the one that `--module-path`
names. A test that needs a module is skipped without one. So is one of the contract's own files where the module is of
another type. All other fixtures respect an author's own fixture `module_path`. Fixtures that mount something need
pytest-asyncio and report it if it is missing; everything else works without it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from paddock_sdk.kernel.settle import settled
from paddock_sdk.testing import EventRecorder, MockContextManager, MockCoordinator, MockProvider, MockTool
from paddock_sdk.validation import ValidationResult, validator_for
from paddock_sdk.validation.module_under_test import ModuleUnderTest
from paddock_sdk.validation.package_import import import_package, name_of, own_imports
from paddock_sdk.validation.validator import find_mount
from paddock_sdk.validation.validators import MountedObjectValidator, other_names

try:
    from pytest_asyncio import fixture as _async_fixture
    from pytest_asyncio import plugin as _asyncio_plugin
except ModuleNotFoundError:
    # The fixtures exist and never run: their dependency reports first what is missing.
    _async_fixture = pytest.fixture  # type: ignore[assignment]
    _asyncio_plugin = None  # type: ignore[assignment]

__all__ = [
    "context_module",
    "coordinator",
    "event_loop_is_there",
    "hook_cleanup",
    "is_module_context",
    "mock_deps",
    "module_path",
    "module_type",
    "module_under_test",
    "orchestrator_module",
    "provider_module",
    "pytest_addoption",
    "pytest_configure",
    "tool_module",
    "validate_structure",
]

# Before anything imports them: their failed assertions then show the compared values, like those of a test file.
pytest.register_assert_rewrite("paddock_sdk.validation.behavioral", "paddock_sdk.validation.structural")

# Where the contract keeps its own test files, each of one type of modules.
_CONTRACT_FILES = Path(__file__).parents[1] / "stand_in/amplifier_core/validation"


class _OtherNames(dict[str, str]):
    """The mounted name of each object that a fixture mounted under another name than its own, by that."""

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for own, name in self.items():
            terminalreporter.write_line(f"`{name}` is the name that it is mounted as, and its own name is `{own}`")


_OTHER_NAMES = pytest.StashKey[_OtherNames]()

_NO_PYTEST_ASYNCIO = (
    "this test mounts a module on an asyncio event loop, for which pytest needs the plugin pytest-asyncio: install it "
    "(`pip install pytest-asyncio`), and leave it enabled (no `-p no:asyncio`)"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("amplifier-module", "Amplifier modules")
    group.addoption(
        "--module-path",
        metavar="PATH",
        help="the module to validate: its package or its repository; by default the one around the tests",
    )
    group.addoption(
        "--module-config",
        metavar="JSON",
        type=json.loads,
        default={},
        help="the configuration that the fixtures mount the module with; by default an empty one",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "module_validation: what every module of a type has to have, or to do")
    if not _has_asyncio(config):
        config.addinivalue_line("markers", "asyncio: needs pytest-asyncio, which is not there")
    config.pluginmanager.register(config.stash.setdefault(_OTHER_NAMES, _OtherNames()))


@pytest.fixture
def module_under_test(request: pytest.FixtureRequest) -> ModuleUnderTest | None:
    """The module the test is about, or None."""
    named = request.config.getoption("--module-path")
    if named is not None:
        return ModuleUnderTest.at(request.config.invocation_params.dir / named)
    return ModuleUnderTest.around(request.path) or ModuleUnderTest.around(request.config.invocation_params.dir)


@pytest.fixture
def module_path(module_under_test: ModuleUnderTest | None) -> Path | None:
    """The package of the module the test is about."""
    return None if module_under_test is None else module_under_test.package


@pytest.fixture
def module_type(module_under_test: ModuleUnderTest | None) -> str | None:
    """The type of the module the test is about."""
    return None if module_under_test is None else module_under_test.type


@pytest.fixture
def is_module_context(module_under_test: ModuleUnderTest | None) -> bool:
    """Whether there is a module that the test is about."""
    return module_under_test is not None


@pytest.fixture
def coordinator() -> MockCoordinator:
    """The coordinator that the module is mounted on."""
    return MockCoordinator()


@pytest.fixture
def mock_deps() -> tuple[Any, dict[str, Any], dict[str, Any], Any]:
    """The arguments of an orchestrator's `execute`: a context, providers, tools and hooks."""
    return (
        MockContextManager(),
        {"default": MockProvider("default")},
        {"test_tool": MockTool("test_tool")},
        EventRecorder(),
    )


@pytest.fixture
def event_loop_is_there(request: pytest.FixtureRequest) -> None:
    if not _has_asyncio(request.config):
        pytest.fail(_NO_PYTEST_ASYNCIO, pytrace=False)


@pytest.fixture
def validate_structure(
    request: pytest.FixtureRequest, event_loop_is_there: None, module_path: Path | None, module_type: str | None
) -> Any:
    """An asynchronous function for a type of modules that returns its validator's result for the module."""

    async def validate(kind: str) -> ValidationResult:
        package, config = _package(request, module_path, module_type, kind), request.config.getoption("--module-config")
        return await validator_for(kind).validate(package, config=config)

    return validate


def _object_of(kind: str) -> Any:
    """Return the fixture of the first object that a module of this type mounts."""

    async def mounted(
        request: pytest.FixtureRequest,
        event_loop_is_there: None,
        module_path: Path | None,
        module_type: str | None,
        coordinator: MockCoordinator,
    ) -> AsyncIterator[Any]:
        package = _package(request, module_path, module_type, kind)
        config, validator = request.config.getoption("--module-config"), validator_for(kind)
        assert isinstance(validator, MountedObjectValidator)
        async with mounted_module(kind, package, coordinator, config):
            objects = validator.mounted(coordinator)
            if not objects:
                raise LookupError(
                    f"mount() mounted no {kind} with the configuration {config}. If it needs settings, give it some: "
                    "`--module-config JSON`. If it needs credentials or a service, set up its environment first"
                )
            request.config.stash[_OTHER_NAMES].update(other_names(kind, coordinator))
            yield objects[0]

    mounted.__doc__ = f"The {kind} that the module mounts, the first of several."
    return _async_fixture(mounted)


provider_module = _object_of("provider")
tool_module = _object_of("tool")
orchestrator_module = _object_of("orchestrator")
context_module = _object_of("context")


@_async_fixture
async def hook_cleanup(
    request: pytest.FixtureRequest,
    event_loop_is_there: None,
    module_path: Path | None,
    module_type: str | None,
    coordinator: MockCoordinator,
) -> AsyncIterator[Any]:
    """The value that the hook module's `mount` returned: a function that removes its handlers, or None."""
    package = _package(request, module_path, module_type, "hook")
    config = request.config.getoption("--module-config")
    async with mounted_module("hook", package, coordinator, config) as returned:
        yield returned


def _has_asyncio(config: pytest.Config) -> bool:
    return _asyncio_plugin is not None and config.pluginmanager.is_registered(_asyncio_plugin)


def _package(request: pytest.FixtureRequest, package: Path | None, found: str | None, kind: str) -> Path:
    """Return the module's package; skip the test without one, or if the contract's own file is about another type."""
    if package is None:
        pytest.skip("there is no module here: no folder above is named `amplifier-module-<type>-<name>`")
    if found not in (None, kind) and _CONTRACT_FILES in request.path.parents:
        pytest.skip(f"{package.name} is of type {found}, and this is for {kind}s")
    return package.resolve()


@asynccontextmanager
async def mounted_module(
    kind: str, package: Path, coordinator: MockCoordinator, config: Mapping[str, Any]
) -> AsyncIterator[Any]:
    """Mount the package's module with a configuration, and yield the result of `mount` if it can be called.

    A returned cleanup function is wrapped so that it runs once: a test may call it; otherwise the end of the test does.
    """
    with _imported(package) as module:
        returned = await settled(find_mount(module, package, None)(coordinator, dict(config)))
        cleanup = _once(returned) if callable(returned) and not validator_for(kind).is_module(returned) else None
        try:
            yield cleanup or (returned if callable(returned) else None)
        finally:
            if cleanup is not None:
                await settled(cleanup())
            await coordinator.cleanup()


@contextmanager
def _imported(package: Path) -> Iterator[ModuleType]:
    """Yield the import by the test's own file if there is one, so that classes compare as its author expects."""
    module = sys.modules.get(name_of(package))
    file = getattr(module, "__file__", None)
    if module is not None and file is not None and Path(file).resolve() in (package, package / "__init__.py"):
        yield module
        return
    with own_imports(package):
        yield import_package(package)


def _once(cleanup: Callable[[], Any]) -> Callable[[], Any]:
    waiting = [cleanup]
    return lambda: waiting.pop()() if waiting else None
