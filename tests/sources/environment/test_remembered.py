"""Versions that were chosen are taken again for the same inputs, within a day, as they are written in the cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from failures import failing
from paddock_sources.cache import Bucket, SourceCache
from paddock_sources.constraints import Constraint
from paddock_sources.environment.builder import Environments
from paddock_sources.environment.index import Index
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.locked import LockedDistribution
from paddock_sources.environment.requirements import Requirements
from sources.index_server import IndexServer
from sources.warm.warm_runner import WarmRunner
from support.rows import each_row

_DAY = 86_400


class Chooser:
    """Chooses with one index and one cache, whose time of day is `now`."""

    def __init__(self, server: IndexServer, folder: Path, python: Interpreter, runner: WarmRunner) -> None:
        self.server = server
        self.now = 1e9
        self.folder = folder
        self.python = python
        self.runner = runner

    def cache(self, *, recalls: bool = True) -> SourceCache:
        return SourceCache(self.folder, clock=lambda: self.now, recalls=recalls)

    def choose(self, *, recalls: bool = True, **changed: Any) -> tuple[tuple[LockedDistribution, ...], bool]:
        """Return what is chosen, and whether the index was asked."""
        self.server.requests.clear()
        given: dict[str, Any] = {
            "lines": ("branch",),
            "index": Index.of({"PIP_INDEX_URL": self.server.url}),
            "python": self.python,
            "constraints": {},
            "bounds": (),
            "provided": {"amplifier-core": "2.0.2"},
            **changed,
        }
        needs = Requirements("tool-demo", "1", given.pop("lines"))
        with self.cache(recalls=recalls) as cache:
            environments = Environments(cache, self.runner, given.pop("index"), given.pop("python"))
            chosen = environments.resolve(needs, **given)
        return chosen, bool(self.server.requests)

    @property
    def file(self) -> Path:
        """The one choice that is kept."""
        (found,) = self.folder.glob(f"{Bucket.RESOLUTIONS.value}/*/chosen.json")
        return found


@pytest.fixture
def chooser(tmp_path: Path, python: Interpreter, runner: WarmRunner) -> Iterator[Chooser]:
    with IndexServer() as server:
        for version in ("1.0", "2.0"):
            server.add_wheel("leaf", version)
        server.add_wheel("branch", "1.0", requires=["leaf>=1"])
        yield Chooser(server, tmp_path / "cache", python, runner)


def test_the_same_is_chosen_for_a_day_without_asking_the_index(chooser: Chooser) -> None:
    first, asked = chooser.choose()
    assert asked and [one.name for one in first] == ["branch", "leaf"]
    chooser.server.add_wheel("leaf", "3.0")
    chooser.now += _DAY - 1
    assert chooser.choose() == (first, False)
    chooser.now += 2
    later, asked = chooser.choose()
    assert asked and {one.name: one.version for one in later}["leaf"] == "3.0"
    assert chooser.choose() == (later, False)
    chooser.now -= 10 * _DAY  # the clock was wrong
    assert chooser.choose() == (later, True)


def test_what_is_to_be_locked_is_chosen_anew_and_remembered(chooser: Chooser) -> None:
    chooser.choose()
    chooser.server.add_wheel("leaf", "3.0")
    fresh, asked = chooser.choose(recalls=False)
    assert asked and {one.name: one.version for one in fresh}["leaf"] == "3.0"
    assert chooser.choose() == (fresh, False)


@each_row(
    "change",
    [
        lambda chooser: {"lines": ("branch", "leaf<2")},
        lambda chooser: {"constraints": {"leaf": "1.0"}},
        lambda chooser: {"bounds": (Constraint.parse("leaf<2", "plan.yaml:7"),)},
        lambda chooser: {"provided": {"amplifier-core": "2.0.2", "leaf": ""}},
        lambda chooser: {"index": Index.of({"PIP_INDEX_URL": chooser.server.url.replace("127.0.0.1", "localhost")})},
        lambda chooser: {"python": replace(chooser.python, tag="cpython-3")},
        lambda chooser: {"python": replace(chooser.python, platform="another")},
        lambda chooser: {"python": replace(chooser.python, marker_values={"platform_release": "0"})},
    ],
    ids=["requirements", "constraints", "bounds", "provided", "index", "python", "platform", "markers"],
)
def test_each_input_makes_it_another_choice(chooser: Chooser, change: Callable[[Chooser], dict[str, Any]]) -> None:
    chooser.choose()
    assert chooser.choose(**change(chooser))[1]
    assert not chooser.choose()[1]  # and the first is still known


def test_credentials_of_the_index_are_no_part_of_it(chooser: Chooser) -> None:
    secret = Index.of({"PIP_INDEX_URL": chooser.server.url.replace("//", "//me:s3cret-word@")})
    assert chooser.choose(index=secret)[1]
    assert not chooser.choose()[1]
    kept = [path.read_bytes() for path in chooser.folder.rglob("resolutions-v1/**/*") if path.is_file()]
    assert kept and not any(b"s3cret" in content for content in kept)


@each_row(
    "edit",
    [
        lambda text: "",
        lambda text: text[:-2],
        lambda text: "{}",
        lambda text: "[" * 100_000,
        lambda text: "[1]",
        lambda text: text.replace("branch", "../branch"),
        lambda text: text.replace("branch", "leaf"),
        lambda text: text.replace("1.0", "1.0 ; --index-url"),
        lambda text: text.replace("sha256:", "md5:"),
        lambda text: text.replace('"branch"', "7"),
        lambda text: json.dumps([[name, version, []] for name, version, _ in json.loads(text)]),
        lambda text: " " * (9 << 20) + text,
    ],
)
def test_a_choice_that_is_not_as_it_was_written_counts_as_none(chooser: Chooser, edit: Callable[[str], str]) -> None:
    chosen, _ = chooser.choose()
    edited = edit(chooser.file.read_text())
    assert edited != chooser.file.read_text()
    chooser.file.chmod(0o600)
    chooser.file.write_text(edited)
    assert chooser.choose() == (chosen, True)
    assert chooser.choose() == (chosen, False)


def test_only_files_with_the_hashes_of_the_choice_are_installed(chooser: Chooser) -> None:
    chooser.choose()
    chooser.file.chmod(0o600)
    written = json.loads(chooser.file.read_text())
    for one in written:
        one[2] = ["sha256:" + "0" * 64]
    chooser.file.write_text(json.dumps(written))
    chosen, asked = chooser.choose()
    assert not asked and {one.hashes for one in chosen} == {("sha256:" + "0" * 64,)}
    index = Index.of({"PIP_INDEX_URL": chooser.server.url})
    with chooser.cache() as cache, failing("HashMismatchError"):
        Environments(cache, chooser.runner, index, chooser.python).install(chosen)
