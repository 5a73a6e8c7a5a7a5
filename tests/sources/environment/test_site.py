from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from failures import failing
from paddock_sources.environment.locked import LockedDistribution
from paddock_sources.environment.site import check_distributions, clean_site

HASH = "sha256:" + "a" * 64


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site" / "package").mkdir(parents=True)
    (tmp_path / "site" / "package" / "__init__.py").write_text("")
    return tmp_path / "site"


def test_code_and_data_stay_and_what_runs_at_start_or_is_for_people_goes(site: Path) -> None:
    (site / "bin").mkdir()
    (site / "bin" / "tool").write_text("#!/bin/sh\n")
    for name in ("evil.pth", "Other.PTH"):
        (site / name).write_text("import os\n")
    for folder in ("package/bin", "package-1.0.dist-info"):
        (site / folder).mkdir()
        (site / folder / "RECORD").write_text("")
    clean_site(site)
    assert sorted(path.relative_to(site).as_posix() for path in site.rglob("*")) == [
        "package",
        "package-1.0.dist-info",
        "package-1.0.dist-info/RECORD",
        "package/__init__.py",
        "package/bin",
        "package/bin/RECORD",
    ]


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(path.parent, os.O_PATH)
        listener.bind(f"/proc/self/fd/{here}/{path.name}")  # its own path may be too long for an address
        os.close(here)


def _setuid(path: Path) -> None:
    path.write_text("")
    path.chmod(0o4755)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.symlink_to("/etc/passwd"), "neither a file nor a folder"),
        (lambda path: path.symlink_to("__init__.py"), "neither a file nor a folder"),
        (lambda path: path.symlink_to(".."), "neither a file nor a folder"),
        (os.mkfifo, "neither a file nor a folder"),
        (_socket, "neither a file nor a folder"),
        (lambda path: os.link(path.parent / "__init__.py", path), "another name"),
        (_setuid, "another user's rights"),
        (lambda path: (path.parent / "a\x1b[31m").write_text(""), "has a character"),
        (lambda path: path.mkdir() or [(path / str(n)).write_text("") for n in range(10)], "one file too many"),
        (lambda path: path.write_text("x" * 2000), "too large"),
    ],
)
def test_what_no_package_may_hold_is_refused(site: Path, make: Callable[[Path], object], problem: str) -> None:
    clean_site(site, max_files=10, max_bytes=1000)
    make(site / "package" / "thing")
    with failing("UnsafeSiteError", problem):
        clean_site(site, max_files=10, max_bytes=1000)
    assert Path("/etc/passwd").exists()


def test_folders_without_end_are_refused(site: Path) -> None:
    deep = site
    for _ in range(70):
        deep = deep / "d"
    deep.mkdir(parents=True)
    with failing("UnsafeSiteError", "folders deep"):
        clean_site(site)


def test_a_link_in_place_of_the_scripts_is_refused_and_not_followed(site: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("")
    (site / "bin").symlink_to(tmp_path / "mine")
    with failing("UnsafeSiteError"):
        clean_site(site)
    assert (tmp_path / "mine" / "file").exists()


@pytest.mark.parametrize(
    ("folders", "problem"),
    [
        (["a_b-1.0.dist-info"], None),
        (["A.b-1.0.0.dist-info"], None),
        ([], "is missing"),
        (["a_b-2.0.dist-info"], "was not asked for"),
        (["a_b-1.0.dist-info", "evil-1.0.dist-info"], "was not asked for"),
        (["a_b-1.0.dist-info", "paddock_sdk-nonsense.dist-info"], "was not asked for"),
    ],
)
def test_a_site_holds_what_was_asked_for_and_nothing_else(site: Path, folders: list[str], problem: str | None) -> None:
    for folder in folders:
        (site / folder).mkdir()
    locked = [LockedDistribution("a-b", "1.0", (HASH,))]
    if problem is None:
        check_distributions(site, locked)
        return
    with failing("UnsafeSiteError", problem):
        check_distributions(site, locked)
