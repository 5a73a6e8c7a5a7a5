"""A pytest plugin: the structural and behavioural tests of the contract, over a module in a sandboxed worker.

`pytest -p paddock.authoring.sandboxed_plugin --module-path=PATH` supplies the fixtures that those tests ask for, as the
contract's own plugin does in its place, for a module whose code never runs in this process. The tests and what they
assert are the same. Each test has a worker of its own, which is granted nothing.

Tests lie outside the module's repository, and pytest is started outside of it: a test, a `conftest.py` or a
configuration in there is the module's code. If one of them lies there, the plugin refuses the run before any of it is
loaded; where tests are looked for around the repository, it is left out.
"""

from __future__ import annotations

import asyncio
import glob
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from paddock.authoring.module_folder import ModuleFolder, repository_of
from paddock.authoring.module_sandbox import ModuleSandbox, MountedModule
from paddock.plan.model import Kind
from paddock_sandbox.profile import ISOLATION_LEVELS
from paddock_sdk.validation import pytest_plugin as plain
from paddock_sdk.validation.module_under_test import ModuleUnderTest
from paddock_sdk.validation.pytest_plugin import (
    is_module_context,
    mock_deps,
    module_path,
    module_type,
    module_under_test,
)
from paddock_sdk.validation.result import ValidationResult

__all__ = [
    "context_module",
    "coordinator",
    "hook_cleanup",
    "is_module_context",
    "mock_deps",
    "module_folder",
    "module_path",
    "module_type",
    "module_under_test",
    "mounted",
    "orchestrator_module",
    "provider_module",
    "pytest_addoption",
    "pytest_configure",
    "pytest_ignore_collect",
    "pytest_load_initial_conftests",
    "sandbox",
    "sandboxes",
    "tool_module",
    "validate_structure",
]

_IN_PROCESS: Final = "amplifier_module"  # the contract's own plugin, which would run modules here


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.set_blocked(_IN_PROCESS)
    plain.pytest_addoption(parser)
    parser.getgroup("amplifier-module").addoption(
        "--module-isolation",
        metavar="LEVEL",
        choices=ISOLATION_LEVELS,
        help="the isolation level of the module, accepted however weak it is; by default the strongest there is",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Refuse a run that would load the module's code into this process, before a conftest is loaded.

    pytest runs a `conftest.py` beside the files that it collects, and the options in a configuration name plugins. If
    `python -m pytest` was started in the repository, pytest imports the plugins of a configuration there before any of
    Paddock's code: only this refusal reports that.
    """
    options = early_config.known_args_namespace
    if options.pyargs:
        raise pytest.UsageError("--pyargs: name tests by their paths, so that it is known whose code they are")
    for what, place in _places(early_config):
        repository = _repository_around(early_config, place)
        if repository is not None:
            raise pytest.UsageError(
                f"{what} `{place}` lies in the module's repository `{repository}`, of which nothing is run in "
                "pytest's own process: put the tests into a folder beside it, and start pytest there; or run the "
                "module's own tests with `paddock module test`"
            )


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if _repository_around(config, collection_path) is not None else None


def pytest_configure(config: pytest.Config) -> None:
    plain.pytest_configure(config)


@pytest.fixture(scope="session")
def sandboxes(pytestconfig: pytest.Config) -> Iterator[Callable[[ModuleFolder], ModuleSandbox]]:
    """A function that returns the sandbox of a module, made when it is first asked for."""
    level, config = pytestconfig.getoption("--module-isolation"), pytestconfig.getoption("--module-config")
    made: dict[Path, ModuleSandbox] = {}
    with ExitStack() as stack:

        def sandbox_of(folder: ModuleFolder) -> ModuleSandbox:
            if folder.package_dir not in made:
                made[folder.package_dir] = stack.enter_context(ModuleSandbox.open(folder, folder.kind(), level, config))
            return made[folder.package_dir]

        yield sandbox_of


@pytest.fixture
def module_folder(module_under_test: ModuleUnderTest | None) -> ModuleFolder:
    """The module under test; a named module that is missing is an error."""
    if module_under_test is None:
        pytest.skip("there is no module here: name one with `--module-path`")
    return ModuleFolder.at(module_under_test.package)


@pytest.fixture
def sandbox(sandboxes: Callable[[ModuleFolder], ModuleSandbox], module_folder: ModuleFolder) -> ModuleSandbox:
    """The sandbox of the module under test."""
    return sandboxes(module_folder)


@pytest.fixture
def mounted(sandbox: ModuleSandbox) -> Iterator[MountedModule]:
    """The module, mounted for this test alone."""
    with sandbox.mounted() as module:
        yield module


@pytest.fixture
def coordinator(mounted: MountedModule) -> Any:
    """The coordinator that the module is mounted on."""
    return mounted.coordinator


@pytest.fixture
def validate_structure(request: pytest.FixtureRequest, module_folder: ModuleFolder) -> Any:
    """Return an asynchronous function of a kind that validates the module in a sandbox."""

    async def validate(kind: str) -> ValidationResult:
        _want(kind, module_folder)
        sandbox: ModuleSandbox = request.getfixturevalue("sandbox")
        return await asyncio.wrap_future(sandbox.validate())

    return validate


@pytest.fixture
def hook_cleanup(request: pytest.FixtureRequest, module_folder: ModuleFolder) -> Any:
    """A function that unmounts the hook module, or None where it registered no cleanup."""
    return _mounted("hook", request, module_folder).cleanup


def _object_of(kind: Kind) -> Any:
    @pytest.fixture(name=f"{kind}_module")
    def module(request: pytest.FixtureRequest, module_folder: ModuleFolder) -> Any:
        found = _mounted(kind, request, module_folder).object
        if found is None:
            pytest.fail(f"the module mounted no {kind}", pytrace=False)
        return found

    return module


tool_module = _object_of("tool")
provider_module = _object_of("provider")
orchestrator_module = _object_of("orchestrator")
context_module = _object_of("context")


def _mounted(kind: Kind, request: pytest.FixtureRequest, module_folder: ModuleFolder) -> MountedModule:
    # Checked first: a module of another kind is not started for a test that is skipped.
    _want(kind, module_folder)
    mounted: MountedModule = request.getfixturevalue("mounted")
    return mounted


def _want(kind: str, module_folder: ModuleFolder) -> None:
    if (found := module_folder.kind()) != kind:
        pytest.skip(f"the module is a {found}, and this is for modules of kind {kind}")


def _repository_around(config: pytest.Config, place: Path) -> Path | None:
    """Return the repository that a place lies in: that of the named module, or any where none is named."""
    named = config.known_args_namespace.module_path
    if named is not None:
        package = (config.invocation_params.dir / named).resolve()
    elif (around := ModuleUnderTest.around(place)) is not None:
        package = around.package
    else:
        return None
    repository = repository_of(package)
    return repository if place.resolve().is_relative_to(repository) else None


def _places(config: pytest.Config) -> Iterator[tuple[str, Path]]:
    """Yield the places from which pytest takes code: each place, and its role."""
    started_in = config.invocation_params.dir
    yield "the working directory", started_in
    if config.inipath is not None:
        yield "the configuration", config.inipath
    yield "the root directory", config.rootpath
    options = config.known_args_namespace
    if options.confcutdir is not None:
        yield "the folder for conftest files", started_in / options.confcutdir
    # An argument may also contain the name of a test and its parameters.
    paths = [argument.partition("::")[0] for argument in options.file_or_dir]
    paths += [path.partition("[")[0] for path in paths]
    for pattern in config.getini("testpaths"):
        paths += glob.glob(os.path.join(config.rootpath, pattern), recursive=True)
    for tests in paths:
        yield "the test", started_in / tests
        yield from (("the folder of tests", one) for one in _searched(started_in / tests))
    yield from (("the folder of tests", one) for one in _searched(started_in))


def _searched(folder: Path) -> Iterator[Path]:
    """Yield the folders in which pytest looks for a conftest before it collects anything."""
    if folder.is_dir():
        yield from (one for one in folder.glob("test*") if one.is_dir())
