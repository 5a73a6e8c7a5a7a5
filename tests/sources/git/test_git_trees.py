"""The files of a commit are its blobs and nothing else: unfiltered, unexpanded, and none that leads elsewhere."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from failures import failing
from paddock_sources.cache import UnsafeTreeError
from paddock_sources.git.git_config import GitLimits
from sources.git.conftest import MakeSource
from sources.git.origin_repository import OriginRepository
from sources.git.watched_runner import WatchedRunner

FILE, PROGRAM, LINK, SUBMODULE = "100644", "100755", "120000", "160000"


def names_below(root: Path) -> list[str]:
    return sorted(
        os.fspath(path.relative_to(root)) for path in root.rglob("*") if path.is_symlink() or not path.is_dir()
    )


def fetched(source: MakeSource, commit: str) -> Path:
    return source("odd").fetch(commit).root


def test_files_programs_and_links_are_what_they_are(origin: OriginRepository, source: MakeSource) -> None:
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
    root = fetched(source, commit)
    assert names_below(root) == ["deep/er/file", "deep/link", "old", "plain.py", "run", "\u00e9 odd name;$(x)"]
    assert (root / "plain.py").read_bytes() == b"plain\r\n\0"
    modes = {name: stat.S_IMODE((root / name).stat().st_mode) for name in ("plain.py", "run", "old")}
    assert modes == {"plain.py": 0o444, "run": 0o555, "old": 0o444}
    assert os.readlink(root / "deep/link") == "../plain.py"


def test_the_whole_commit_is_fetched_also_for_a_folder_of_it(origin: OriginRepository, source: MakeSource) -> None:
    origin.commit({"a/a.py": "1", "b/b.py": "2"})
    pin = source(address=f"{origin.address}@main#subdirectory=a").pin()
    assert names_below(source().fetch(pin.commit).root) == ["a/a.py", "b/b.py"]


LEADS_ELSEWHERE = (
    ("link", LINK, b"/etc/passwd"),
    ("link", LINK, b"../outside"),
    ("a/link", LINK, b"../../outside"),
    ("link", LINK, b""),
    ("link", LINK, b"a\0b"),
    ("..", FILE, b"x"),
    ("../up", FILE, b"x"),
    ("a/../../up", FILE, b"x"),
    (".git", FILE, b"x"),
    (".GIT", FILE, b"x"),
    ("a/.git/config", FILE, b"x"),
    ("git~1", FILE, b"x"),
    ("a\nb", FILE, b"x"),
    ("a\x1b[2Jb", FILE, b"x"),
    ("\udcff", FILE, b"x"),
    ("x" * 256, FILE, b"x"),
    ("/".join(["d" * 200] * 6), FILE, b"x"),
    ("/".join("d" * 70), FILE, b"x"),
)


def test_what_leads_elsewhere_or_is_no_name_is_refused_and_nothing_is_kept(
    origin: OriginRepository, source: MakeSource, tmp_path: Path
) -> None:
    ordinary = origin.commit_entries({"fine": (FILE, b"x"), "a/link": (LINK, b"../fine")})
    assert names_below(fetched(source, ordinary)) == ["a/link", "fine"]
    for path, mode, content in LEADS_ELSEWHERE:
        commit = origin.commit_entries({"fine": (FILE, b"x"), path: (mode, content)})
        with pytest.raises(Exception) as caught:  # by git's own checks, or by ours
            source("odd").fetch(commit)
        assert caught.value.code in ("UnsafeTreeError", "DamagedRepositoryError"), (path, content)
        assert str(caught.value).isprintable() or "\n" in str(caught.value), (path, content)
        assert len(list((tmp_path / "cache" / "trees-v2").iterdir())) == 1, (path, content)
        assert not list((tmp_path / "cache" / "tmp").iterdir()), (path, content)
        assert not (tmp_path / "up").exists() and not (tmp_path / "cache" / "up").exists(), (path, content)
    # None of them is refused for what another has left.
    assert names_below(fetched(source, origin.commit_entries({"other": (FILE, b"y")}))) == ["other"]


def test_names_that_are_one_on_some_machines_are_refused(origin: OriginRepository, source: MakeSource) -> None:
    trees: list[dict[str, tuple[str, bytes]]] = [
        {"a.py": (FILE, b"1"), "A.py": (FILE, b"2")},
        {"caf\u00e9": (FILE, b"1"), "cafe\u0301": (FILE, b"2")},
        {"Folder/a": (FILE, b"1"), "folder/b": (FILE, b"2")},
        {"link": (LINK, b"real"), "LINK/file": (FILE, b"2"), "real": (FILE, b"")},
        {"stra\u00dfe": (FILE, b"1"), "STRASSE": (FILE, b"2")},
    ]
    for entries in trees:
        commit = origin.commit_entries(entries)
        with pytest.raises(UnsafeTreeError):
            fetched(source, commit)


def test_nothing_is_written_through_a_link_that_the_tree_itself_has(
    origin: OriginRepository, source: MakeSource, tmp_path: Path
) -> None:
    commit = origin.commit_entries({"a": (LINK, os.fsencode(tmp_path)), "a/evil": (FILE, b"x")})
    with pytest.raises(Exception) as caught:
        fetched(source, commit)
    assert caught.value.code in ("UnsafeTreeError", "DamagedRepositoryError")
    assert not (tmp_path / "evil").exists()


def test_a_submodule_is_left_out_and_never_fetched(
    origin: OriginRepository, source: MakeSource, runner: WatchedRunner, tmp_path: Path
) -> None:
    other = OriginRepository(tmp_path / "other")
    inner = other.commit({"inner.py": "1"})
    modules = f'[submodule "sub"]\n\tpath = sub\n\turl = file://{other.folder}\n'.encode()
    commit = origin.commit_entries(
        {"a.py": (FILE, b"1"), "sub": (SUBMODULE, inner.encode()), ".gitmodules": (FILE, modules)}
    )
    assert names_below(fetched(source, commit)) == [".gitmodules", "a.py"]
    assert not any(str(other.folder) in argument for command in runner.commands for argument in command)


@pytest.mark.parametrize(
    "modules",
    [
        '[submodule "x"]\n\tpath = -evil\n\turl = ext::sh -c touch% X\n',
        '[submodule "../../x"]\n\tpath = sub\n\turl = https://h/r\n',
        '[submodule "x"]\n\tpath = sub\n\turl = --upload-pack=touch\n',
    ],
)
def test_submodules_that_would_do_harm_are_refused_by_git_itself(
    origin: OriginRepository, source: MakeSource, modules: str
) -> None:
    commit = origin.commit({".gitmodules": modules})
    with pytest.raises(Exception) as caught:
        source("main").fetch(commit)
    assert caught.value.code == "DamagedRepositoryError"


def test_attributes_filters_and_pointers_have_no_effect(
    origin: OriginRepository, source: MakeSource, tmp_path: Path
) -> None:
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
    root = fetched(source, commit)
    assert {path: (root / path).read_bytes().decode() for path in files} == files
    assert not marker.exists()


def test_hooks_and_programs_that_a_repository_configures_are_not_run(
    origin: OriginRepository, source: MakeSource, tmp_path: Path
) -> None:
    commit = origin.commit({"a.py": "1"})
    marker = tmp_path / "ran"
    for name in ("post-checkout", "reference-transaction", "pre-receive", "post-update", "pre-auto-gc"):
        hook = origin.folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
        hook.chmod(0o755)
    origin.git("config", "core.fsmonitor", f"touch {marker}")
    origin.git("config", "uploadpack.packObjectsHook", f"touch {marker}; exec")
    origin.git("config", "core.sshCommand", f"touch {marker}")
    assert source("main").fetch(commit)
    assert not marker.exists()


# -- bounds


def test_a_file_that_is_too_large_is_named(origin: OriginRepository, source: MakeSource) -> None:
    small = GitLimits(blob_bytes=1000)
    fits = origin.commit({"data/fits": "x" * 1000})
    assert source("main", limits=small).fetch(fits)
    large = origin.commit({"data/large": "x" * 1001, "data/larger": "y" * 5000})
    with pytest.raises(UnsafeTreeError, match="data/large"):
        source("main", limits=small).fetch(large)
    origin.git("config", "uploadpack.allowFilter", "false")
    other = origin.commit({"data/other": "z" * 3000, "data/large": "", "data/larger": ""})
    with pytest.raises(UnsafeTreeError, match="data/other"):
        source("main", limits=small).fetch(other)


def test_more_files_than_there_may_be_are_refused_while_they_are_counted(
    origin: OriginRepository, source: MakeSource
) -> None:
    small = GitLimits(files=10)
    commit = origin.commit({f"{number}.py": "" for number in range(10)})
    assert source("main", limits=small).fetch(commit)
    with failing("TooLargeError", "more than 10 files"):
        source("main", limits=small).fetch(origin.commit({"one-more.py": ""}))


def test_a_repository_that_unfolds_into_countless_files_is_refused_soon(
    origin: OriginRepository, source: MakeSource
) -> None:
    """A few kilobytes of objects: each folder has ten times the same one, ten deep."""
    tree = origin.tree([origin.line(FILE, origin.put("blob", b""), "x")])
    for _ in range(10):
        tree = origin.tree([origin.line("40000", tree, f"d{number}") for number in range(10)])
    origin.commit_tree(tree, "refs/heads/bomb")
    with failing("TooLargeError"):
        source("bomb").pin()


def test_a_pack_that_is_larger_than_it_may_be_is_cut_off(
    origin: OriginRepository, source: MakeSource, runner: WatchedRunner
) -> None:
    origin.commit({"a.py": "1"})
    source("main", limits=GitLimits(pack_bytes=12345)).pin()
    assert runner.reaches[-1].written_bytes == 12345
