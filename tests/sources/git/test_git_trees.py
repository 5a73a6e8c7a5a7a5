"""The files of a commit are its blobs and nothing else: unfiltered, unexpanded, and none that leads elsewhere."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from failures import failing
from paddock_sources.cache import UnsafeTreeError
from paddock_sources.git.git_config import GitLimits
from sources.git.conftest import Origin
from sources.git.origin_repository import OriginRepository

FILE, PROGRAM, LINK, SUBMODULE = "100644", "100755", "120000", "160000"


def names_below(root: Path) -> list[str]:
    return sorted(
        os.fspath(path.relative_to(root)) for path in root.rglob("*") if path.is_symlink() or not path.is_dir()
    )


def fetched(origin: Origin, commit: str) -> Path:
    return origin.source("odd").fetch(commit).root


def test_files_programs_and_links_are_what_they_are(origin: Origin) -> None:
    commit = origin.commit_entries(
        {
            "plain.py": (FILE, b"plain\r\n\0"),
            "run": (PROGRAM, b"#!/bin/sh\n"),
            "old": ("100664", b"old"),
            "deep/er/file": (FILE, b""),
            "deep/link": (LINK, b"../plain.py"),
            "\u00e9 odd name;$(x)": (FILE, b"odd"),
        }
    )
    root = fetched(origin, commit)
    assert names_below(root) == ["deep/er/file", "deep/link", "old", "plain.py", "run", "\u00e9 odd name;$(x)"]
    assert (root / "plain.py").read_bytes() == b"plain\r\n\0"
    modes = {name: stat.S_IMODE((root / name).stat().st_mode) for name in ("plain.py", "run", "old")}
    assert modes == {"plain.py": 0o444, "run": 0o555, "old": 0o444}
    assert os.readlink(root / "deep/link") == "../plain.py"


def test_the_whole_commit_is_fetched_also_for_a_folder_of_it(origin: Origin) -> None:
    origin.commit({"a/a.py": "1", "b/b.py": "2"})
    pin = origin.source(address=f"{origin.address}@main#subdirectory=a").pin()
    assert names_below(origin.source().fetch(pin.commit).root) == ["a/a.py", "b/b.py"]


def test_a_submodule_is_left_out_and_never_fetched(origin: Origin, tmp_path: Path) -> None:
    other = OriginRepository(tmp_path / "other")
    inner = other.commit({"inner.py": "1"})
    modules = f'[submodule "sub"]\n\tpath = sub\n\turl = file://{other.folder}\n'.encode()
    commit = origin.commit_entries(
        {"a.py": (FILE, b"1"), "sub": (SUBMODULE, inner.encode()), ".gitmodules": (FILE, modules)}
    )
    assert names_below(fetched(origin, commit)) == [".gitmodules", "a.py"]
    assert not any(str(other.folder) in argument for command in origin.runner.commands for argument in command)


def test_attributes_filters_and_pointers_have_no_effect(origin: Origin, tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"
    files = {
        ".gitattributes": "*.py filter=evil ident text eol=crlf\n*.bin filter=lfs\nversion export-subst\n"
        "left-out export-ignore\n*.u16 working-tree-encoding=UTF-16\n",
        "a.py": "# $Id$\nline\n",
        "model.bin": pointer,
        "version": "$Format:%H$\n",
        "left-out": "kept\n",
        "text.u16": "plain\n",
    }
    commit = origin.commit_entries({path: (FILE, content.encode()) for path, content in files.items()})
    marker = tmp_path / "ran"
    origin.git("config", "filter.evil.smudge", f"touch {marker}; cat")
    origin.git("config", "filter.evil.clean", f"touch {marker}; cat")
    root = fetched(origin, commit)
    assert {path: (root / path).read_bytes().decode() for path in files} == files
    assert not marker.exists()


# -- bounds


def test_a_file_that_is_too_large_is_named(origin: Origin) -> None:
    small = GitLimits(blob_bytes=1000)
    fits = origin.commit({"data/fits": "x" * 1000})
    assert origin.source("main", limits=small).fetch(fits)
    large = origin.commit({"data/large": "x" * 1001, "data/larger": "y" * 5000})
    with pytest.raises(UnsafeTreeError, match="data/large"):
        origin.source("main", limits=small).fetch(large)
    origin.git("config", "uploadpack.allowFilter", "false")
    other = origin.commit({"data/other": "z" * 3000, "data/large": "", "data/larger": ""})
    with pytest.raises(UnsafeTreeError, match="data/other"):
        origin.source("main", limits=small).fetch(other)


def test_more_files_than_there_may_be_are_refused_while_they_are_counted(origin: Origin) -> None:
    small = GitLimits(files=10)
    commit = origin.commit({f"{number}.py": "" for number in range(10)})
    assert origin.source("main", limits=small).fetch(commit)
    with failing("TooLargeError", "more than 10 files"):
        origin.source("main", limits=small).fetch(origin.commit({"one-more.py": ""}))


def test_a_pack_that_is_larger_than_it_may_be_is_cut_off(origin: Origin) -> None:
    origin.commit({"a.py": "1"})
    origin.source("main", limits=GitLimits(pack_bytes=12345)).pin()
    assert origin.runner.reaches[-1].written_bytes == 12345
