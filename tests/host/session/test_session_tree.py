"""Which sub-sessions there may be, under which ids, and what is remembered of those that ended."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from paddock.plan.load import load_plan
from paddock.session.session_plan import SessionPlan
from paddock.session.sub_sessions import session_tree
from paddock.session.sub_sessions.session_tree import SessionTree, SubSessionState
from support.rows import each_row

_PLAN = load_plan(
    {
        "session": {"orchestrator": "loop-a", "context": "context-a"},
        "agents": {"researcher": {}, "foundation:writer": {}},
    }
)


def _family() -> SessionTree:
    session_resources: Any = None  # nothing is started here
    return SessionTree("first", session_resources, {}, _PLAN.agents)


def _conversation(id: str, parent: str = "first", *, bytes: int = 10, told: int = 0) -> SubSessionState:
    plan = replace(SessionPlan.of(_PLAN), overrides={"session.orchestrator": {"x": "y" * told}})
    return SubSessionState(id, parent, "researcher", plan, 0, "", (), b"x" * bytes)


def test_an_agent_is_found_by_its_name_and_self_is_none() -> None:
    family = _family()
    assert family.agent("researcher") is _PLAN.agents["researcher"]
    assert family.agent("self") is None
    with pytest.raises(ValueError, match=r"no agent `resercher`, it has: researcher, .*did you mean `researcher`"):
        family.agent("resercher")


def test_an_id_says_whose_session_it_is_and_which_agents() -> None:
    family = _family()
    made = {family.new_id("first", "foundation:writer", None) for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch("first-[0-9a-f]{16}_foundation-writer", id) for id in made)


def test_an_id_that_a_session_has_is_refused() -> None:
    family = _family()
    family.keep(_conversation("ended"))
    with family.alive("running"):
        for id in ("first", "running", "ended"):
            with pytest.raises(ValueError, match=f"there is a session `{id}` already"):
                family.new_id("first", "researcher", id)
    assert family.new_id("first", "researcher", "running") == "running"


def test_there_are_only_so_many_at_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_tree, "SUB_SESSIONS_MAX", 2)
    family = _family()
    with family.alive("one"), family.alive("two"):
        with pytest.raises(RuntimeError, match="2 sub-sessions are running"), family.alive("three"):
            pass
    with family.alive("three"), pytest.raises(RuntimeError, match="`three` is running"), family.alive("three"):
        pass


def test_they_are_nested_only_so_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_tree, "_DEPTH_MAX", 2)
    family = _family()
    family.check_depth(2)
    with pytest.raises(RuntimeError, match="nested 2 deep"):
        family.check_depth(3)


def test_only_who_started_a_session_goes_on_with_it() -> None:
    family = _family()
    family.keep(_conversation("child"))
    family.keep(_conversation("grandchild", parent="child"))
    assert family.kept("first", "child").id == "child"
    assert family.kept("child", "grandchild").id == "grandchild"
    for parent, id in (("first", "grandchild"), ("child", "child"), ("first", "nobody")):
        with pytest.raises(
            ValueError, match=rf"no session `{id}` to go on with: .* none of that id .* `session\.spawn` starts another"
        ):
            family.kept(parent, id)


@each_row("what", ["bytes", "told"])
def test_the_oldest_conversations_are_forgotten_when_they_are_too_much(what: str) -> None:
    family = _family()
    large = {what: 25 << 20}
    for id in ("one", "two"):
        family.keep(_conversation(id, **large))
    family.keep(_conversation("one", **large))  # it went on, and is the newest
    family.keep(_conversation("three", **large))
    assert family.kept("first", "one") and family.kept("first", "three")
    with pytest.raises(ValueError):
        family.kept("first", "two")
    family.keep(_conversation("one"))
    family.keep(_conversation("four", **large))
    assert family.kept("first", "three") and family.kept("first", "four")


def test_only_so_many_conversations_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_tree, "_KEPT_MAX", 2)
    family = _family()
    for id in ("one", "two", "one", "three"):
        family.keep(_conversation(id))
    assert family.kept("first", "one") and family.kept("first", "three")
    with pytest.raises(ValueError, match="or it is forgotten, as the latest 2 are kept, of 64 MiB together"):
        family.kept("first", "two")


def test_what_a_session_was_to_know_is_let_go_when_it_has_said_something() -> None:
    conversation = replace(_conversation("one"), history=({"role": "user", "content": "x" * 10_000},), transcript=None)
    before = conversation.size()
    conversation.said(b"x")
    assert conversation.history == () and conversation.size() < before - 10_000
