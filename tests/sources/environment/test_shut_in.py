"""Both installers at each isolation level, as the host runs them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from failures import failing
from paddock.isolation.commands.source_commands import SourceCommands
from paddock_sources.cache import SourceCache
from paddock_sources.environment import Index, Installer, Interpreter, Requirements
from paddock_sources.environment.builder import install, resolve
from paddock_sources.environment.pip import Pip
from sources.index_server import IndexServer
from support.examples import repeating
from support.shut_in_commands import LEVELS, commands_at


@pytest.fixture(scope="module", params=LEVELS)
def runner(request: pytest.FixtureRequest) -> Iterator[SourceCommands]:
    with commands_at(request.param) as runner:
        yield runner


# At `landlock` uv leaves the installing to pip, so that its row shows both there.
@pytest.mark.parametrize(
    ("runner", "installer"),
    [
        ("ns", "uv"),
        ("ns", "pip"),
        ("bwrap", "uv"),
        ("landlock", "uv"),
        *repeating(("bwrap", "pip"), ("landlock", "pip")),
    ],
    indirect=True,
)
def test_a_sandboxed_installer_reaches_its_index_and_nothing_else(
    runner: SourceCommands, installer: Installer, python: Interpreter, tmp_path: Path
) -> None:
    with IndexServer() as files, IndexServer(file_host=files.host) as server:
        for one in (files, server):
            one.add_wheel("leaf", "1.0")
            one.add_wheel("branch", "1.0", requires=["leaf>=1", "amplifier-core>=1.5"])
        both = Index(server.url, (server.host, files.host))
        how = {"cache": SourceCache(tmp_path / "cache"), "runner": runner, "python": python, "installer": installer}
        wanted = Requirements("tool-demo", "1", ("branch",))
        locked = resolve(wanted, index=both, **how)  # type: ignore[arg-type]
        assert [(one.name, one.version) for one in locked] == [("branch", "1.0"), ("leaf", "1.0")]
        assert locked[1].hashes == server.hashes_of("leaf", "1.0")
        site = install(locked, index=both, **how)  # type: ignore[arg-type]
        assert (site / "leaf" / "__init__.py").is_file()
        assert len(list((site / "leaf" / "__pycache__").glob("__init__.*.pyc"))) == 1
        assert files.requests
        # An index that sends it elsewhere is not followed.
        files.requests.clear()
        how["cache"] = SourceCache(tmp_path / "other")
        with failing("IndexAccessError", files.host):
            resolve(wanted, index=Index.of({"PIP_INDEX_URL": server.url}), **how)  # type: ignore[arg-type]
        assert not files.requests


# Another pip, but the same sandbox: once is enough.
@pytest.mark.parametrize("runner", ["ns", *repeating(*LEVELS[1:])], indirect=True)
def test_the_pip_that_came_with_python_works_shut_in_as_well(
    runner: SourceCommands, index: Index, python: Interpreter, tmp_path: Path
) -> None:
    bundled = Pip.bundled()
    if bundled is None:
        pytest.skip(f"this Python came without pip: {sys.executable} has no ensurepip wheel")
    wanted = Requirements("tool-demo", "1", ("leaf<2",))
    cache = SourceCache(tmp_path / "cache")
    (leaf,) = resolve(wanted, cache=cache, runner=runner, index=index, python=python, installer=bundled)
    assert leaf.version == "1.0"
