"""A module in a folder, run from there or from a snapshot: the same module, and which of the two it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from failures import failing
from paddock_sources import FileSource
from paddock_sources.cache import SourceCache
from sources.module_folder import MOUNT, make_module


def layouts(root: Path) -> dict[str, Path]:
    flat = make_module(root / "amplifier-module-tool-demo")
    below = make_module(root / "below", package="src/amplifier_module_tool_demo")
    dashed = make_module(root / "dashed-name")
    (dashed / "__init__.py").touch()  # does not make a package of what cannot be one
    bare = root / "bare_package"
    bare.mkdir()
    (bare / "__init__.py").write_text(MOUNT, encoding="utf-8")
    return {
        "repository": flat,
        "repository with src": below,
        "package in a repository": flat / "amplifier_module_tool_demo",
        "package below src": below / "src/amplifier_module_tool_demo",
        "package alone": bare,
        "repository with a stray file": dashed,
    }


@pytest.mark.parametrize(
    "layout",
    [
        "repository",
        "repository with src",
        "package in a repository",
        "package below src",
        "package alone",
        "repository with a stray file",
    ],
)
def test_a_snapshot_is_the_same_module_in_another_place(tmp_path: Path, cache: SourceCache, layout: str) -> None:
    folder = layouts(tmp_path / "code")[layout]
    direct = FileSource(folder).resolve("tool-demo")
    copied = FileSource(folder, cache=cache).resolve("tool-demo")
    assert copied.tree.startswith("sha256:")
    entry = cache.trees.tree(copied.tree)
    assert entry is not None
    places = (copied.root, copied.package_dir, copied.import_root)
    assert all(place.is_relative_to(entry.root) for place in places)
    assert copied.import_root / copied.package == copied.package_dir
    assert copied.package_dir.relative_to(copied.import_root) == direct.package_dir.relative_to(direct.import_root)
    assert (copied.package_dir / "__init__.py").read_bytes() == (direct.package_dir / "__init__.py").read_bytes()
    where = {"root": direct.root, "package_dir": direct.package_dir, "import_root": direct.import_root, "tree": ""}
    assert replace(copied, **where) == direct  # type: ignore[arg-type]
    assert not copied.is_live


def test_what_was_resolved_stays_as_it_was(tmp_path: Path, cache: SourceCache) -> None:
    folder = make_module(tmp_path / "repo")
    resolved = FileSource(folder, cache=cache).resolve("tool-demo")
    (folder / "amplifier_module_tool_demo/__init__.py").write_text("raise SystemExit\n", encoding="utf-8")
    assert (resolved.package_dir / "__init__.py").read_text(encoding="utf-8") == MOUNT
    again = FileSource(folder, cache=cache).resolve("tool-demo")
    assert again.tree != resolved.tree
    assert again.source == resolved.source == str(folder)


def test_a_live_folder_is_the_users_own_and_marked(tmp_path: Path, cache: SourceCache) -> None:
    folder = make_module(tmp_path / "repo").resolve()
    live = FileSource(folder, cache=cache, live=True).resolve("tool-demo")
    assert (live.root, live.is_live, live.tree) == (folder, True, "")
    assert not cache.folder.exists()
    assert not FileSource(folder).resolve("tool-demo").is_live


def test_a_link_to_a_folder_stands_for_the_real_one(tmp_path: Path, cache: SourceCache) -> None:
    folder = make_module(tmp_path / "repo").resolve()
    (tmp_path / "link").symlink_to(folder)
    resolved = FileSource(tmp_path / "link", cache=cache).resolve("tool-demo")
    assert resolved == FileSource(folder, cache=cache).resolve("tool-demo")
    assert resolved.source == str(folder)


def test_a_source_with_a_name_keeps_it(tmp_path: Path, cache: SourceCache) -> None:
    folder = make_module(tmp_path / "repo")
    assert (
        FileSource(folder, source="builtin:tool-demo", cache=cache).resolve("tool-demo").source == "builtin:tool-demo"
    )


def test_what_cannot_be_run_is_refused_as_without_a_cache(tmp_path: Path, cache: SourceCache) -> None:
    (tmp_path / "empty").mkdir()
    make_module(tmp_path / "resolver", init='__amplifier_module_type__ = "resolver"\n' + MOUNT)
    for folder, module_id, code in (
        ("missing", "tool-demo", "ManifestError"),
        ("missing", "../x", "ModuleIdError"),
        ("empty", "tool-demo", "ModuleLayoutError"),
        ("resolver", "tool-demo", "RefusedKindError"),
    ):
        for options in ({}, {"cache": cache}, {"cache": cache, "live": True}):
            with failing(code):
                FileSource(tmp_path / folder, **options).resolve(module_id)  # type: ignore[arg-type]
