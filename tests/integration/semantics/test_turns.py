"""What is announced of a session's turns: start, resume, fork, configuration, cancellation, end."""

from __future__ import annotations

from typing import Any

import pytest

from integration.semantics.places import PLAIN, OpenPlace, plan_of
from paddock_sdk.kernel.coordinator import ModuleCoordinator

ANNOUNCED = ("session:start", "session:resume", "session:fork", "session:config", "session:end", "cancel:completed")


class Announcements:
    """What an application hears of a session."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.turns = 0

    def __call__(self, coordinator: ModuleCoordinator) -> None:
        for event in ANNOUNCED:
            coordinator.hooks.register(event, self._on_event, name="application")

    def _on_event(self, event: str, data: dict[str, Any]) -> None:
        assert data.pop("timestamp")
        if event in ("session:start", "session:resume"):
            assert data.pop("config")["session"]["orchestrator"]["module"] == "loop-scenarios"
        if event == "session:end":
            self.turns = data.pop("stats")["turns"]
        self.heard.append((event, data))

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.heard]


IDS = {"session_id": "semantics", "parent_id": None}
CHILD = {"session_id": "semantics", "parent_id": "the-parent"}
METADATA = {"metadata": {"ticket": 7}}

LIVES: dict[str, tuple[dict[str, Any], dict[str, Any], list[tuple[str, dict[str, Any]]]]] = {
    "a session": ({}, {}, [("session:start", IDS), ("session:end", IDS)]),
    "a session with metadata": (
        METADATA,
        {},
        [("session:start", {**IDS, **METADATA}), ("session:end", IDS)],
    ),
    "a resumed session": ({}, {"is_resumed": True}, [("session:resume", IDS), ("session:end", IDS)]),
    "a child": (
        METADATA,
        {"parent_id": "the-parent"},
        [
            ("session:fork", {**CHILD, "parent": "the-parent", **METADATA}),
            ("session:start", {**CHILD, **METADATA}),
            ("session:end", CHILD),
        ],
    ),
}


@pytest.mark.parametrize("case", LIVES)
async def test_a_session_announces_its_life_once(open_place: OpenPlace, case: str) -> None:
    session, options, expected = LIVES[case]
    announcements = Announcements()
    async with open_place(plan_of(session=session), prepare=announcements, **options) as place:
        for _ in range(2):
            assert await place.run("initialization.nothing") == "nothing"
    assert announcements.heard == expected
    assert announcements.turns == 2


async def test_a_session_that_runs_no_turn_announces_its_end_alone(open_place: OpenPlace) -> None:
    announcements = Announcements()
    async with open_place(prepare=announcements):
        pass
    assert announcements.events == ["session:end"]


async def test_a_raw_session_shows_its_plan_each_turn_without_secrets(open_place: OpenPlace) -> None:
    announcements = Announcements()
    plan = {**plan_of(session={"raw": True}), "project": {"api_key": "s3cret", "name": "x"}}
    async with open_place(plan, prepare=announcements) as place:
        for _ in range(2):
            await place.run("initialization.nothing")
    assert announcements.events == ["session:start", "session:config", "session:config", "session:end"]
    shown = announcements.heard[1][1]
    assert shown["session_id"] == "semantics"
    assert shown["raw"]["project"] == {"api_key": "[REDACTED]", "name": "x"}
    assert shown["raw"]["session"]["orchestrator"]["module"] == "loop-scenarios"


async def test_an_orchestrator_that_fails_leaves_the_session_usable(open_place: OpenPlace) -> None:
    async with open_place() as place:
        with pytest.raises(Exception, match="nobody knows the way") as caught:
            await place.run("initialization.fails", text="nobody knows the way")
        if place.name == PLAIN:
            # What the contract's own session class does; Paddock's hands over the exception itself.
            assert str(caught.value) == "Execution failed: LookupError: nobody knows the way"
        else:
            assert type(caught.value) is LookupError
        assert await place.run("initialization.nothing") == "nothing"


async def test_a_cancelled_turn_that_fails_is_announced_with_its_error(open_place: OpenPlace) -> None:
    announcements = Announcements()
    async with open_place(prepare=announcements) as place:
        with pytest.raises(Exception, match="stopped"):
            await place.run("initialization.fails_cancelled", text="stopped")
    assert [data for event, data in announcements.heard if event == "cancel:completed"] == [
        {**IDS, "was_immediate": True, "error": "LookupError: stopped"}
    ]


async def test_modules_of_a_child_know_their_parent(open_place: OpenPlace) -> None:
    async with open_place(parent_id="the-parent") as place:
        outcome = await place.run("members.identity")
    assert outcome["ids"] == ["semantics", "the-parent"] * 2
