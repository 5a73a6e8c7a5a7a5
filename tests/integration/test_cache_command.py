"""`paddock cache`: what it prints, for people and for scripts, and what it leaves alone."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import paddock
from paddock_sources.cache import Bucket, SourceCache
from paddock_sources.snapshot import snapshot

KEY = "sha256:" + "e" * 64
URL = "https://host/repository"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PADDOCK_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def filled(folder: Path, tmp_path: Path) -> Path:
    """A cache with a snapshot, packages and a repository."""
    module = tmp_path / "module"
    module.mkdir()
    (module / "file.py").write_bytes(b"x" * 2048)
    with SourceCache(folder) as cache:
        snapshot(module, cache)
        cache.store(Bucket.ENVIRONMENTS).add(
            KEY, lambda at: (at / "site.py").write_bytes(b"y" * 100) and None, {"distributions": ["a==1", "b==2"]}
        )
        with cache.repositories.locked(URL, 1) as place:
            (place / "HEAD").write_bytes(b"ref")
    return folder


def done(*args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    finished = paddock("cache", *args)
    assert finished.returncode == code, finished.stderr
    return finished


def told(*args: str, code: int = 0) -> Mapping[str, Any]:
    finished = done(*args, "--json", code=code)
    assert finished.stdout.count("\n") == 1
    facts: Mapping[str, Any] = json.loads(finished.stdout)
    return facts


def damage(folder: Path) -> Path:
    place = SourceCache(folder).store(Bucket.ENVIRONMENTS).place(KEY)
    (place / "site.py").chmod(0o644)
    (place / "site.py").write_bytes(b"z" * 100)
    return place


def test_the_folder_is_printed_and_not_made(folder: Path) -> None:
    finished = done("dir")
    assert (finished.stdout, finished.stderr) == (f"{folder}\n", "")
    assert told("dir") == {"dir": str(folder), "error": None}
    assert not folder.exists()


def test_a_cache_that_is_not_there_is_an_empty_one(folder: Path) -> None:
    for command in ("size", "list", "verify", "prune", "clean"):
        assert told(command)["error"] is None
    assert not folder.exists()


def test_the_room_it_takes_is_told_by_kind(filled: Path) -> None:
    facts = told("size")
    assert facts["folders"]["trees-v2"] == 2048
    assert facts["folders"]["envs-v1"] == 100
    assert facts["bytes"] == sum(facts["folders"].values())
    lines = dict(line.split(None, 1) for line in done("size").stdout.splitlines())
    assert (lines["files"], lines["packages"]) == ("2 KiB", "100 bytes")


def test_what_is_in_it_is_listed(filled: Path) -> None:
    items = {item["kind"]: item for item in told("list")["items"]}
    assert set(items) == {"files", "packages", "repository"}
    assert items["repository"]["name"] == URL
    assert items["packages"]["name"] == KEY
    assert items["packages"]["facts"] == {"distributions": ["a==1", "b==2"]}
    assert not any(item["damaged"] for item in items.values())
    shown = done("list").stdout
    assert "eeeeeeeeeeee" in shown
    assert "a==1, b==2" in shown
    assert URL in shown


def test_a_sound_cache_is_verified(filled: Path) -> None:
    finished = done("verify")
    assert finished.stdout == ""
    assert "none is damaged" in finished.stderr
    assert told("verify") == {"ok": True, "damages": [], "error": None}


def test_what_is_damaged_is_named_with_what_to_do_which_helps(filled: Path) -> None:
    place = damage(filled)
    finished = done("verify", code=1)
    assert str(place) in finished.stdout.replace("\n", "")
    assert "not what was put there" in " ".join(finished.stdout.split())
    assert "error: 1 entry of the cache cannot be relied on" in finished.stderr
    assert "hint: `paddock cache prune`" in finished.stderr
    facts = told("verify", code=1)
    assert facts["ok"] is False
    assert [(one["kind"], one["name"], one["path"]) for one in facts["damages"]] == [("packages", KEY, str(place))]
    assert facts["error"]["type"] == "CacheDamagedError"
    assert [item["name"] for item in told("list")["items"] if item["damaged"]] == [KEY]
    done("prune")
    done("verify")


def test_only_what_was_not_used_for_long_is_pruned(filled: Path) -> None:
    marker = SourceCache(filled).store(Bucket.ENVIRONMENTS).place(KEY) / "ok"
    os.utime(marker, (0, 0))
    assert told("prune") == {"items": 1, "bytes": 100, "in_use": [], "error": None}
    assert {item["kind"] for item in told("list")["items"]} == {"files", "repository"}
    assert told("prune", "--older-than", "1w")["items"] == 0
    assert told("prune", "--older-than", "0s")["items"] == 2


@pytest.mark.parametrize("age", ["", "30", "30 years"])
def test_an_age_that_is_none_is_a_wrong_call(filled: Path, age: str) -> None:
    assert "--older-than takes an age" in done("prune", "--older-than", age, code=2).stderr
    assert len(told("list")["items"]) == 3


def test_cleaning_says_what_it_freed_and_leaves_what_is_in_use(filled: Path) -> None:
    with SourceCache(filled) as host:
        assert host.store(Bucket.ENVIRONMENTS).get(KEY) is not None
        finished = done("clean")
        assert finished.stdout.startswith("2 entries taken away, 2 KiB freed")
        assert "left, being in use: packages eeeeeeeeeeee" in finished.stderr
        assert told("clean") == {"items": 0, "bytes": 0, "in_use": [{"kind": "packages", "name": KEY}], "error": None}
        assert host.store(Bucket.ENVIRONMENTS).get(KEY) is not None
    assert told("clean")["items"] == 1
    assert told("list")["items"] == []


@pytest.mark.parametrize("command", ["list", "clean"])
def test_a_cache_that_others_may_write_to_is_an_error_that_says_what_to_do(filled: Path, command: str) -> None:
    filled.chmod(0o777)
    finished = done(command, code=1)
    assert finished.stdout == ""
    assert "error: " in finished.stderr
    assert f"chmod go-w {filled}" in finished.stderr
    error = told(command, code=1)["error"]
    assert error["cause"] == "CacheFolderError"
    assert any("chmod go-w" in hint for hint in error["hints"])


def test_what_is_in_its_facts_draws_nothing_on_a_terminal(folder: Path) -> None:
    with SourceCache(folder) as cache:
        cache.store(Bucket.ENVIRONMENTS).add(KEY, lambda at: None, {"distributions": ["\x1b[2Jfake"]})
    for args in (["list"], ["list", "--json"]):
        assert "\x1b" not in done(*args).stdout
