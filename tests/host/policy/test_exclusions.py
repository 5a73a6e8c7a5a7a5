"""Which files and folders are excluded from a granted one, and which words are refused."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from paddock.plan.families import EXCLUDED_SECRETS
from paddock.plan.permissions import Permissions
from paddock.plan.problems import NotAcceptedError
from paddock.policy import exclusions
from paddock.policy.exclusions import Exclusions, ExclusionSearch
from paddock.policy.owner import Owner
from paddock.policy.path_walk import GrantedPath
from support.rows import each_row

_KEY = "-----BEGIN RSA PRIVATE KEY-----\nx\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    return work


def _look(folder: Path, *words: str, granted: tuple[str, ...] = (".",)) -> Exclusions:
    owner = Owner.current({"HOME": str(folder.parent)})
    search = ExclusionSearch([GrantedPath.resolve(one, folder, owner) for one in granted], folder, owner)
    for word in words:
        search.exclude(word)
    return search.result


def _names(folder: Path, *words: str, granted: tuple[str, ...] = (".",)) -> set[str]:
    return {str(one.place.relative_to(folder)) for one in _look(folder, *words, granted=granted).found}


def _make(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@each_row(
    ("name", "text", "is_secret"),
    [
        (".env", "K=1", True),
        ("deep/in/it/.env.local", "K=1", True),
        (".env.example", "K=1", False),
        (".env.production.sample", "K=1", False),
        (".envrc", "K=1", False),
        (".netrc", "machine x", True),
        (".pypirc", "[pypi]", True),
        (".npmrc", "//registry.npmjs.org/:_authToken=npm_x", True),
        (".npmrc", '//registry.npmjs.org/:_authToken="${NPM_TOKEN}"', False),
        (".npmrc", "# _password=x\nsave-exact=true", False),
        (".npmrc", "a=b\n_auth = eDp5", True),
        ("id_ed25519", "anything", True),
        ("id_ed25519_work", "anything", True),
        ("id_rsa.pub", "ssh-rsa x", False),
        ("server.pem", _KEY, True),
        ("ca.pem", "-----BEGIN CERTIFICATE-----", False),
        ("node_modules/thing/.env", "K=1", False),
    ],
)
def test_the_presets_exclude_secret_files(folder: Path, name: str, text: str, is_secret: bool) -> None:
    _make(folder, {name: text})
    assert (name in _names(folder, EXCLUDED_SECRETS)) == is_secret


def _git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=me", "-c", "user.email=me@here", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *named, *words], check=True, capture_output=True, timeout=100)


def test_what_git_has_as_it_is_is_no_secret(folder: Path) -> None:
    _make(folder, {"a/.env": "K=1", "a/b/.env": "K=1", ".env": "K=2", "empty/.env": ""})
    _git(folder, "init", "-q")
    _git(folder, "add", "a/.env", ".env", "empty")
    (folder / ".env").write_text("K=changed since")
    assert _names(folder, EXCLUDED_SECRETS) == {".env", "a/b/.env", "empty/.env"}
    _git(folder, "commit", "-qm", "one")
    tree = folder.parent / "tree"
    _git(folder, "worktree", "add", "-q", str(tree))
    (tree / "new").mkdir()
    _make(tree, {"new/.env": "K=3"})
    assert _names(tree, EXCLUDED_SECRETS) == {"new/.env", "empty/.env"}


def test_a_path_or_a_name_is_excluded(folder: Path) -> None:
    _make(folder, {"keys/a": "", "keys/.env": "", "x/keys/b": "", "x/c.key": "", "x/d": ""})
    assert _names(folder, "!keys") == {"keys", "x/keys"}
    assert _names(folder, "!./keys") == {"keys"}
    assert _names(folder, "!*.key", f"!{folder}/x/d") == {"x/c.key", "x/d"}


def test_what_is_granted_by_itself_is_not_excluded_by_a_name(folder: Path) -> None:
    _make(folder, {".env": "K=1", "x/.env": "K=1"})
    for word in (EXCLUDED_SECRETS, "!.env"):
        assert _names(folder, word, granted=(".", "./.env")) == {"x/.env"}


def test_a_link_is_excluded_with_the_file_that_it_leads_to(folder: Path) -> None:
    _make(folder, {"kept/for dev": "K=1", "../elsewhere": "K=1"})
    (folder / ".env").symlink_to("kept/for dev")
    (folder / ".netrc").symlink_to("../elsewhere")
    assert _names(folder, EXCLUDED_SECRETS) == {"kept/for dev"}


@each_row(
    ("word", "granted", "said"),
    [
        ("!missing", (".",), "excludes nothing that is granted"),
        ("!./missing", (".",), "does not exist"),
        ("!../work/file", (".",), "has `..` in it"),
        ("!*", (".",), "excludes everything"),
        ("!", (".",), "excludes everything"),
        ("!./", (".",), "which is granted"),
        ("!~/work", (".",), "which is granted"),
        ("!~/beside", (".",), "excludes nothing that is granted"),
        ("!x", (".", "./x/y"), "which is granted"),
        ("!./link", (".",), "is a link"),
        ("!*.txt", (".",), "excludes 120 files and folders, and at most 100 can be"),
        ("!./x/*", (".",), "has a star in a path"),
        ("!@tokens", (".",), "is not known"),
    ],
)
def test_a_word_that_cannot_be_kept_is_refused(folder: Path, word: str, granted: tuple[str, ...], said: str) -> None:
    _make(folder, {"file": "", "x/y/z": "", "../beside": "", **{f"many/{one}.txt": "" for one in range(120)}})
    if not (folder / "link").is_symlink():
        (folder / "link").symlink_to("file")
    with pytest.raises((NotAcceptedError, ValidationError), match=said.replace("*", r"\*")):
        _look(folder, *Permissions(read=(word,)).read, granted=granted)


def test_an_exclusion_without_a_granted_folder_says_to_grant_one(folder: Path) -> None:
    with pytest.raises(NotAcceptedError) as refused:
        _look(folder, "!.env", granted=())
    assert refused.value.accepted == "grant a folder to read as well"


def test_nothing_is_excluded_under_write() -> None:
    with pytest.raises(ValidationError, match="excludes nothing under `write`"):
        Permissions(write=(".", "!.env"))


def test_a_folder_that_holds_too_much_is_said_to(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusions, "_MAX_ENTRIES", 10)
    _make(folder, {".env": "K=1", **{f"many/{one}": "" for one in range(10)}, "x/.env": "K=1"})
    found = _look(folder, EXCLUDED_SECRETS)
    assert found.incomplete == (folder,) and folder / ".env" in {one.place for one in found.found}
    with pytest.raises(NotAcceptedError, match="cannot be looked for in all of"):
        _look(folder, "!.env")
    assert _names(folder, "!./x/.env") == {"x/.env"}


def test_the_oldest_secret_files_are_excluded_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusions, "MAX_EXCLUDED", 2)
    for name in ("c", "b", "a"):
        _make(folder, {f"{name}/.env": "K=1"})
    os.utime(folder / "a/.env", (0, 0))
    assert _names(folder, EXCLUDED_SECRETS) == {"c/.env", "b/.env"}
    assert _look(folder, EXCLUDED_SECRETS).left_open == (folder / "a/.env",)
