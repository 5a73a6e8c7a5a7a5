"""Who runs modules at less than full isolation is told what is missing, and which grants are not what they seem."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from paddock.cli.terminal.confinement_notes import tell_confinements
from paddock.cli.terminal.render import Screen
from paddock.isolation.compile import Confinement
from paddock.isolation.levels import guarantees_missing
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.policy.grants import Grants
from paddock.policy.guarded_paths import GuardedPaths
from paddock.policy.owner import Owner
from paddock_sandbox.profile import IsolationLevel, SandboxProfile


def entry(module: str = "tool-x", **keys: Any) -> ModuleEntry:
    return ModuleEntry.read({"module": module, **keys}, EntryPlace("tool", "tools[0]", Path("/")))


def confined(
    one: ModuleEntry, level: IsolationLevel = "ns", working_dir: Path = Path("/"), **parts: Any
) -> tuple[ModuleEntry, Confinement]:
    owner = Owner(os.geteuid(), Path("/nowhere"), lambda uid, gid: True)
    grants = Grants.of(one, working_dir, owner, lambda granted, is_written: None)
    return one, Confinement(SandboxProfile(level), working_dir, grants, **parts)


def told(*modules: tuple[ModuleEntry, Confinement], verbose: bool = False) -> str:
    stream = io.StringIO()
    tell_confinements(Screen(stream), modules, verbose=verbose)
    return stream.getvalue()


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")


def test_at_full_isolation_there_is_nothing_to_tell() -> None:
    assert told(confined(entry())) == ""


@pytest.mark.parametrize("level", ["bwrap", "landlock"])
def test_a_weaker_levels_gaps_are_reported_once(level: IsolationLevel) -> None:
    shown = told(confined(entry("tool-a"), level), confined(entry("tool-b")), confined(entry("tool-c"), level))
    first, *rest = shown.splitlines()
    assert first == f"warning: weaker isolation, level {level}: tool-a, tool-c; not given:"
    assert rest == [f"  - {sentence}" for sentence in guarantees_missing(level)]


def test_a_grant_by_way_of_a_link_is_told_unasked(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    one = entry(permissions={"read": ["real"], "write": ["link"]})
    shown = told(confined(one, working_dir=tmp_path))
    assert shown == f"warning: tool-x: write {tmp_path}/real (by way of {tmp_path}/link -> real)\n"


def test_what_other_programs_run_and_nothing_protects_is_told_unasked(tmp_path: Path) -> None:
    guarded = GuardedPaths(tmp_path, (tmp_path / ".bashrc",), (tmp_path / ".bashrc",), frozenset(), True)
    shown = told(confined(entry(), guarded=(guarded,)))
    assert f"your next shell may run {tmp_path}/.bashrc" in shown
    assert told(confined(entry(), guarded=(guarded,), protected=(tmp_path / ".bashrc",))) == ""


def test_every_grant_is_listed_when_more_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    one = entry(
        permissions={
            "read": ["a"],
            "run": ["*"],
            "env": ["LANG", "TOKEN=hidden"],
            "net": ["API.openai.com", "127.0.0.1:11434"],
            "secrets": ["KEY", {"name": "OPENAI_API_KEY", "inject": "api.openai.com"}],
            "call": ["tools"],
            "emit": ["artifact:*"],
            "hooks": ["tool:*"],
            "mount": ["providers"],
        }
    )
    shown = told(confined(one, working_dir=tmp_path), confined(entry("hooks-long-name")), verbose=True)
    assert [line.split(maxsplit=1) for line in shown.splitlines()] == [
        ["tool-x", f"read {tmp_path}/a"],
        ["tool-x", "run every program that it can see"],
        ["tool-x", "net api.openai.com:443"],
        ["tool-x", "net 127.0.0.1:11434"],
        ["tool-x", "env LANG"],
        ["tool-x", "env TOKEN"],
        ["tool-x", "secret KEY"],
        ["tool-x", "secret OPENAI_API_KEY, injected for api.openai.com: the module never has it"],
        ["tool-x", "call tools"],
        ["tool-x", "emit artifact:*"],
        ["tool-x", "hooks tool:*"],
        ["tool-x", "mount providers"],
        ["hooks-long-name", "nothing is granted"],
    ]


def test_a_name_in_a_grant_does_not_act_on_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "a\u202e").mkdir()
    one = entry(permissions={"read": [str(tmp_path)]})
    shown = told(
        confined(one, guarded=(GuardedPaths(tmp_path, (tmp_path / "a\u202e",), (), frozenset(), True),)), verbose=True
    )
    assert "\u202e" not in shown and r"a\u202e" in shown


@pytest.mark.parametrize("verbose", [False, True])
def test_that_a_module_may_connect_everywhere_is_told_unasked(verbose: bool) -> None:
    shown = told(confined(entry(permissions={"net": ["public"]})), verbose=verbose)
    assert "ANY public host" in shown and "tool-x" in shown
