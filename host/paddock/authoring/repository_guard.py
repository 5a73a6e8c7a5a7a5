"""Keep pytest out of the repository of the tested module: everything there is the module's code.

pytest runs a `conftest.py` beside the files that it collects, and the options in a configuration name plugins. So
neither the configuration, nor a test, nor the folder that pytest was started in may lie in the repository; where tests
are looked for around it, it is left out. If `python -m pytest` was started in the repository, pytest imports the
plugins of a configuration there before any of Paddock's code: only this refusal reports that.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from paddock.authoring.module_folder import repository_of
from paddock_sdk.validation.module_under_test import ModuleUnderTest


def refuse_inside(config: pytest.Config) -> None:
    """Refuse a run that would load the module's code into this process; call it before a conftest is loaded.

    Raises:
        UsageError: the run would load the module's code.
    """
    options = config.known_args_namespace
    if options.pyargs:
        raise pytest.UsageError("--pyargs: name tests by their paths, so that it is known whose code they are")
    for what, place in _places(config):
        repository = _repository(config, place)
        if repository is not None and _is_inside(place, repository):
            raise pytest.UsageError(
                f"{what} `{place}` lies in the module's repository `{repository}`, of which nothing is run in "
                "pytest's own process: put the tests into a folder beside it, and start pytest there; or run the "
                "module's own tests with `paddock module test`"
            )


def is_of_module(path: Path, config: pytest.Config) -> bool:
    """Return whether a path lies in the repository of the named module, or in any where none is named."""
    repository = _repository(config, path)
    return repository is not None and _is_inside(path, repository)


def _repository(config: pytest.Config, place: Path) -> Path | None:
    """Return the repository of the named module, or, where none is named, the one around a place."""
    named = config.known_args_namespace.module_path
    if named is not None:
        return repository_of((config.invocation_params.dir / named).resolve())
    around = ModuleUnderTest.around(place)
    return None if around is None else repository_of(around.package)


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
    for tests in (*_paths_of(options.file_or_dir), *_test_paths(config)):
        yield "the test", started_in / tests
        yield from (("the folder of tests", one) for one in _searched(started_in / tests))
    yield from (("the folder of tests", one) for one in _searched(started_in))


def _test_paths(config: pytest.Config) -> Iterator[str]:
    """Yield the paths where the configuration looks for tests."""
    for pattern in config.getini("testpaths"):
        yield from glob.iglob(os.path.join(config.rootpath, pattern), recursive=True)


def _paths_of(arguments: Iterable[str]) -> Iterator[str]:
    """Yield the possible path in each argument, which may also contain the name of a test and its parameters."""
    for argument in arguments:
        path = argument.partition("::")[0]
        yield from {path, path.partition("[")[0]}


def _searched(folder: Path) -> Iterator[Path]:
    """Yield the folders in which pytest looks for a conftest before it collects anything."""
    if folder.is_dir():
        yield from (one for one in folder.glob("test*") if one.is_dir())


def _is_inside(place: Path, repository: Path) -> bool:
    return place.resolve().is_relative_to(repository)
