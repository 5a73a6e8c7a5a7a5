"""Keep pytest out of the repository of the module that tests are about: all that lies there is the module's code.

A `conftest.py` is run by whichever pytest collects beside it, and the options in a configuration name plugins. So
neither the configuration, nor a test, nor the place that pytest was started in may lie in the repository, and where
tests are looked for around it, it is left out. Plugins that a configuration there names are imported before anything
of ours is, if `python -m pytest` was started in the repository: nothing but this refusal tells of them.
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
    """Refuse a run that would have code of the module in this process; to be called before a conftest is loaded.

    Raises:
        UsageError: it would.
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
    """Return whether a path lies in the repository of the module that is named, or in any where none is."""
    repository = _repository(config, path)
    return repository is not None and _is_inside(path, repository)


def _repository(config: pytest.Config, place: Path) -> Path | None:
    """Return the repository of the module that is named; where none is, of the one that is around a place."""
    named = config.known_args_namespace.module_path
    if named is not None:
        return repository_of((config.invocation_params.dir / named).resolve())
    around = ModuleUnderTest.around(place)
    return None if around is None else repository_of(around.package)


def _places(config: pytest.Config) -> Iterator[tuple[str, Path]]:
    """Yield from where pytest takes code: each place, and what it is."""
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
    """Yield what the configuration says that tests are in."""
    for pattern in config.getini("testpaths"):
        yield from glob.iglob(os.path.join(config.rootpath, pattern), recursive=True)


def _paths_of(arguments: Iterable[str]) -> Iterator[str]:
    """Yield what may be the path in each argument, which can go on with the name of a test and its parameters."""
    for argument in arguments:
        path = argument.partition("::")[0]
        yield from {path, path.partition("[")[0]}


def _searched(folder: Path) -> Iterator[Path]:
    """Yield the folders in which pytest looks for a conftest before it collects anything."""
    if folder.is_dir():
        yield from (one for one in folder.glob("test*") if one.is_dir())


def _is_inside(place: Path, repository: Path) -> bool:
    return place.resolve().is_relative_to(repository)
