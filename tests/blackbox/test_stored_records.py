"""What an earlier Paddock stored is read by this one, which stores the same: nothing is asked or fetched again.

`golden/records.json` has the lock file, the accepted plan, the cache, a session's record and a kept home, as commands
wrote them. `golden/journals.json` has a journal of each version of its format, with all kinds of records in the later
ones; what is there stays, and a new version is added.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from blackbox.commands import World
from blackbox.frozen import frozen, text_of
from blackbox.stored_records import KEPT, make, orders, packed, shape, unpack

pytestmark = pytest.mark.usefixtures("level_ns")
_RECORDS = frozen("records")
_JOURNALS = frozen("journals")
_SESSION = next(json.loads(file["text"])["id"] for name, file in _RECORDS.items() if "/sessions/" in name)


@pytest.fixture
def stored(world: World) -> World:
    """A world with the files of an earlier Paddock, and no repository to fetch from."""
    unpack(_RECORDS, world.with_modules())
    return world


def _result(response: str) -> Any:
    [result] = json.loads(response)
    return result["output"]


def test_an_accepted_plan_runs_from_the_cache_in_its_kept_home(stored: World) -> None:
    lock = (stored.work / "paddock.lock").read_text()
    done = stored.run("run", "plan.yaml", orders(None), "--locked", "--offline", "--json")
    assert done.code == 0, done.stderr
    assert _result(done.json["response"]) == KEPT
    assert (stored.work / "paddock.lock").read_text() == lock
    assert len([*stored.state.glob("homes/*")]) == 1
    [started] = [line for line in stored.audit() if line["event"] == "session.started"][1:]
    assert "grants.toml" in started["accepted"]
    # The same with one more byte is another plan, which nobody accepted.
    with (stored.work / "plan.yaml").open("a") as plan:
        plan.write("\n")
    assert stored.run("run", "plan.yaml", orders(None), "--offline", "--json").code == 4


def test_commands_about_sources_read_the_lock_file_and_the_cache(stored: World) -> None:
    listed = stored.run("list", "--json")
    [acts] = [one for one in listed.json["modules"] if one["module"] == "tool-acts"]
    assert acts["locked"]["requested_kind"] == "tag" and acts["pin"] == "tag"
    assert stored.run("lock", "--check", "--json").code == 0
    assert stored.run("sync", "--offline", "--json").code == 0
    checked = stored.run("cache", "verify", "--json")
    assert (checked.code, checked.json["ok"]) == (0, True)
    kinds = [one["kind"] for one in stored.run("cache", "list", "--json").json["items"]]
    assert sorted(set(kinds)) == ["files", "metadata", "repository"]
    # One changed byte of it is noticed.
    [path] = stored.cache.glob("trees-v2/*/tree.d/amplifier_module_tool_acts/__init__.py")
    path.chmod(0o644)
    path.write_text(path.read_text() + "#")
    assert stored.run("cache", "verify", "--json").json["ok"] is False


def test_verify_finds_the_repository_as_it_was_locked(stored: World) -> None:
    done = stored.with_repository().run("verify", "--json")
    assert done.code == 0, done.stderr
    assert [(one["module"], one["state"]) for one in done.json["modules"]] == [("tool-acts", "ok")]


def test_why_explains_the_session_of_an_earlier_paddock(stored: World) -> None:
    allowed = stored.run("why", "tool-acts", "read", "/etc/hosts", "--session", _SESSION, "--json")
    refused = stored.run("why", "tool-acts", "net", "other.example.org", "--json")
    assert (allowed.code, allowed.json["allowed"], allowed.json["session"]["id"]) == (0, True, _SESSION)
    assert (refused.code, refused.json["allowed"], refused.json["session"]["id"]) == (4, False, _SESSION)
    assert any(rule["file"].endswith("grants.toml") for rule in allowed.json["rules"])


def test_what_is_stored_now_is_as_it_was(world: World) -> None:
    now = shape(packed(make(world)), world)
    was = shape(_RECORDS, world)
    assert [*now] == [*was]
    assert {name: text_of(now[name]) for name in now if now[name] != was[name]} == {}


def test_a_session_that_an_earlier_paddock_kept_is_shown(stored: World) -> None:
    [kept] = stored.run("sessions", "list", "--json").json["sessions"]
    assert (kept["state"], kept["turns"], kept["unknown"]) == ("ended", 1, [])
    shown = stored.run("sessions", "show", kept["id"], "--json").json
    assert [turn["outcome"] for turn in shown["session"]["turns"]] == ["answer"]
    assert [call["outcome"] for call in shown["session"]["calls"]] == ["ended"]


@pytest.mark.parametrize("version", [*_JOURNALS])
def test_a_journal_of_each_format_is_shown_as_it_was(version: str, world: World) -> None:
    kept = _JOURNALS[version]
    folder = world.state / "journals"
    folder.mkdir(parents=True, mode=0o700)
    (folder / f"{kept['list']['id']}.journal").write_bytes(base64.b64decode(kept["base64"]))
    assert world.run("sessions", "list", "--json").json["sessions"] == [kept["list"]]
    assert world.run("sessions", "show", kept["list"]["id"], "--json").json == kept["show"]
