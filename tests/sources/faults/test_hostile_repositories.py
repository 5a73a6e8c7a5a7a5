"""Whatever a repository is, it is refused with an error for people or taken as it is, and nothing of it is run."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock_sources import GitUri, SourceError
from paddock_sources.cache import SourceCache
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.provisioner import Provisioner
from sources.faults.hostile_repositories import CANARY, HOSTILE, Hostile
from sources.git.origin_repository import OriginRepository
from sources.git_repositories import git_uri
from sources.provisioners import provisioner_of

# Those that are about what git unpacks, and whom that could harm; what they come to without is shown in full.
SHUT_IN = (
    "nothing wrong",
    "a tree that is ten thousand million files",
    "folders deeper than git can go",
    "a name that leads up",
    "a link to an absolute path",
    "hooks and programs in its configuration",
    "a submodule that is a program",
)
TRIALS = [
    *(
        pytest.param(row, "direct", id=f"{row}-direct", marks=[pytest.mark.exhaustive] * (row.what in SHUT_IN))
        for row in HOSTILE
    ),
    *(pytest.param(row, "shut in", id=f"{row}-shut-in") for row in HOSTILE if row.what in SHUT_IN),
]


def outcome(provisioner: Provisioner, uri: GitUri, left_out: str) -> tuple[str, str]:
    """Do all that is done with a module before it runs, and return how that ended."""
    try:
        locked = provisioner.lock(uri)
        provisioner.request(locked)
        provisioner.supply(uri).module_ids(uri, locked)
        resolution = provisioner.provide(uri, "tool-greet", locked)
    except SourceError as error:
        return error.code, "\n".join([str(error), *error.hints])
    tree = resolution.root.resolve()
    assert resolution.package_dir.is_relative_to(tree) and resolution.import_root.is_relative_to(tree)
    for path in tree.rglob("*"):
        mode = path.lstat().st_mode
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
        assert not mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWUSR)
        assert path.resolve().is_relative_to(tree)
    assert not left_out or not os.path.lexists(tree / left_out)
    return "", ""


@pytest.fixture
def _canary(tmp_path: Path) -> Iterator[None]:
    yield
    assert not list(tmp_path.rglob(CANARY)) and not Path("/tmp", CANARY).exists()


@pytest.mark.usefixtures("_canary")
@pytest.mark.parametrize(("row", "how"), TRIALS)
def test_a_hostile_repository_does_no_harm(
    row: Hostile, how: str, tmp_path: Path, cache: SourceCache, request: pytest.FixtureRequest
) -> None:
    runner = request.getfixturevalue("shut_in") if how == "shut in" else DirectRunner()
    origin = OriginRepository(tmp_path / "tool-greet")
    row.make(origin)
    uri = git_uri(f"{origin.address}@main")
    name, told = outcome(
        provisioner_of(cache, runner, DirectRunner(), environ={"PATH": os.environ["PATH"]}), uri, row.left_out
    )
    assert (name in row.refused) if row.refused else not name, told or name
    assert all(char.isprintable() or char == "\n" for char in told)
    assert len(told) < 4000
    assert cache.upkeep.verify() == ()
    assert not list((tmp_path / "cache").glob("tmp/*"))
    assert {path.name for path in tmp_path.iterdir()} <= {"cache", "tool-greet"}
