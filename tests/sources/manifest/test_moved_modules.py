"""A module whose folder a later commit does not have: the error names the folder that holds it now, as data says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from failures import failing
from paddock_sources import FileSource, SourceError, parse_source
from paddock_sources.cache import SourceCache
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.manifest.moved import hints_beside, moved_within
from paddock_sources.provisioner import Provisioner
from sources.git_repositories import below, module_files, repository
from sources.manifest.test_held_modules import THREE, folder_of
from sources.module_folder import make_module
from sources.provisioners import provisioner_of


def provisioner(cache: SourceCache) -> Provisioner:
    return provisioner_of(cache, DirectRunner(), environ=dict(os.environ))


def test_an_old_address_names_the_new_folder_and_old_locks_go_on(tmp_path: Path) -> None:
    joined = folder_of(tmp_path / "joined", THREE)
    files = {str(path.relative_to(joined)): path.read_text() for path in joined.rglob("*") if path.is_file()}
    origin = repository(tmp_path / "origin", below("modules/tool-c", module_files("tool-c")))
    with SourceCache(tmp_path / "cache") as cache:
        old = f"git+file://{origin.folder}@main#subdirectory=modules/tool-c"
        made = provisioner(cache)
        locked = made.lock(parse_source(old))
        origin.git("rm", "-rq", "modules/tool-c")
        origin.commit({**below("modules/all", files)}, "joined")
        assert made.provide(parse_source(old), "tool-c", locked).commit == locked.commit
        with failing("SourceUriError", "there is no folder `modules/tool-c` in it") as caught:
            made.lock(parse_source(old))
        new = old.replace("tool-c", "all")
        assert caught.value.hints == (f"its module is in another folder: `{new}`",)
        again = made.lock(parse_source(new))
        assert made.provide(parse_source(new), "tool-c", again).package == "amplifier_module_tool_c"


@pytest.mark.parametrize("left", ["nothing", "leftovers"])
def test_a_folder_that_is_gone_names_the_one_beside_it(tmp_path: Path, left: str) -> None:
    folder_of(tmp_path / "all", THREE)
    gone = tmp_path / "tool-c"
    if left == "leftovers":
        (gone / "__pycache__").mkdir(parents=True)
    uri = parse_source(str(gone)).held()
    with SourceCache(tmp_path / "cache") as cache, pytest.raises(SourceError) as caught:
        provisioner(cache).provide(uri, "my-tool", None)
    hint = f"module `tool-c` is in another folder: `{tmp_path / 'all'}`"
    assert caught.value.hints[0] == hint
    if left == "nothing":
        assert hints_beside(gone / "amplifier_module_tool_c") == (hint,)


def test_a_folder_that_is_a_project_is_taken_at_its_word(tmp_path: Path) -> None:
    root = make_module(tmp_path / "tool-c", "tool-c")
    make_module(tmp_path / "copy-of-it", "tool-c")
    assert hints_beside(root) == ()
    with failing("ModuleLayoutError") as caught:
        (root / "amplifier_module_tool_c" / "__init__.py").unlink()
        FileSource(root).resolve("tool-c")
    assert "another folder" not in str(caught.value.hints)


def test_a_strangers_folders_are_looked_at_within_bounds(tmp_path: Path) -> None:
    folder_of(tmp_path / "a/b/c/d/deep", THREE)
    (tmp_path / "link").symlink_to(tmp_path / "a/b/c/d")
    folder_of(tmp_path / ".hidden/inside", THREE)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "pyproject.toml").write_text("[")
    assert moved_within(tmp_path, "modules/tool-c") is None
    folder_of(tmp_path / "a/b/near", THREE)
    assert moved_within(tmp_path, "modules/tool-c") == "a/b/near"
    assert moved_within(tmp_path, "modules/tool-other") is None
    for number in range(200):
        (tmp_path / f"0{number}").mkdir()
        (tmp_path / f"0{number}" / "pyproject.toml").write_text("")
    assert moved_within(tmp_path, "modules/tool-c") is None


def test_only_a_few_projects_that_name_a_module_are_parsed(tmp_path: Path) -> None:
    folder_of(tmp_path / "with-it", THREE)
    for number in range(5):
        assert moved_within(tmp_path, "modules/tool-c") == "with-it"
        (tmp_path / f"0{number}").mkdir()
        (tmp_path / f"0{number}" / "pyproject.toml").write_text("# tool-c\n")
    assert moved_within(tmp_path, "modules/tool-c") is None


@pytest.mark.skipif(os.geteuid() == 0, reason=f"user {os.geteuid()}, root, can look into every folder")
def test_a_closed_folder_beside_a_missing_one_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    folder_of(tmp_path / "with-it", THREE)
    (hint,) = hints_beside(tmp_path / "tool-c")
    assert hint.endswith(f"`{tmp_path / 'with-it'}`")
