"""Who hears an event, in what order and context, and what it carries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from integration.semantics.places import SESSION_ID, Place
from support.rows import each_row

WHERES = ("in the same module", "in another module")
LISTENER = [{"name": "listener", "answer": {}}]


async def test_an_event_without_handlers_comes_back_bare(place: Place) -> None:
    outcome = await place.run("events.chain", where="in another module", handlers=[], data={"is": {"b": 1, "a": 2}})
    assert outcome["result"] == {"action": "continue", "data": {"a": 2, "b": 1}}
    assert list(outcome["result"]["data"]) == ["a", "b"]


@each_row("where", WHERES)
async def test_a_heard_event_carries_default_fields_and_the_time(place: Place, where: str) -> None:
    data = {"timestamp": "made up", "parent_id": "by the caller", "z": 1}
    outcome = await place.run("events.chain", where=where, handlers=LISTENER, data={"is": data})
    seen = outcome["heard"][0][1]
    assert seen == outcome["result"]["data"]
    assert list(seen) == ["parent_id", "session_id", "timestamp", "z"]
    assert (seen["parent_id"], seen["session_id"], seen["z"]) == ("by the caller", SESSION_ID, 1)
    stamp = datetime.fromisoformat(seen["timestamp"])
    assert stamp.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - stamp) < timedelta(minutes=1)


@each_row("where", WHERES)
@each_row("data", [None, [1, [2]], "text", 3, True], ids=repr)
async def test_data_that_is_no_mapping_comes_back_as_an_empty_mapping(place: Place, where: str, data: Any) -> None:
    outcome = await place.run("events.chain", where=where, handlers=LISTENER, data={"is": data})
    assert outcome == {"result": {"action": "continue", "data": {}}, "heard": [["listener", data]]}


async def test_default_fields_are_replaced_and_converted(place: Place) -> None:
    outcome = await place.run("events.default_fields")
    assert outcome == {"session_id": "another", "set": "{7}", "shared": "caller"}


@each_row("where", WHERES)
async def test_emitter_handlers_and_result_share_nothing(place: Place, where: str) -> None:
    assert await place.run("events.nothing_is_shared", where=where) == {
        "original": {"nested": {"list": [1]}},
        "is the same": False,
        "second heard": {"list": [1]},
        "returned": {"nested": {"list": [1]}, "added": True},
    }


async def test_handlers_of_two_modules_run_in_one_order(place: Place) -> None:
    order = [
        {"where": "in the same module", "name": "late", "priority": 5},
        {"where": "in another module", "name": "adds", "priority": 0, "adds": True},
        {"where": "in the same module", "name": "after it", "priority": 0},
        {"where": "in another module", "name": "early", "priority": -10},
    ]
    assert await place.run("events.across_modules", order=order) == {
        "listed": ["early", "adds", "after it", "late"],
        "heard": [["adds", False], ["after it", True], ["early", False], ["late", True]],
    }


async def test_a_handler_sees_its_emitters_context_and_leaves_it_as_it_was(place: Place) -> None:
    assert await place.run("events.moods") == {
        "heard": [["first", "set by the emitter"], ["second", "set by the emitter"]],
        "afterwards": "set by the emitter",
    }


@each_row("where", WHERES)
async def test_cancelling_the_emitter_cancels_the_handler_that_runs(place: Place, where: str) -> None:
    assert await place.run("events.cancelled_emitter", where=where) == {
        "emitter": "CancelledError",
        "heard": [["first", "ended"]],
        "again": {"still": "works"},
    }


@each_row("where", WHERES)
async def test_a_handler_may_emit(place: Place, where: str) -> None:
    outcome = await place.run("events.nested", where=where)
    assert outcome == {"heard": [["outer", 0], ["inner", 1]], "inner": [1, True]}


@each_row("where", WHERES)
async def test_emitters_at_the_same_time_get_their_own_data_back(place: Place, where: str) -> None:
    assert await place.run("events.at_once", where=where) == [[number, True] for number in range(20)]


async def test_emits_are_genuine_coroutines(place: Place) -> None:
    assert await place.run("events.coroutines") == [True, True, True]


COLLECTED: dict[str, tuple[list[dict[str, Any]], list[Any], list[Any]]] = {
    "nobody hears it": ([], [], []),
    "data in order, deny or not": (
        [
            {"name": "b", "priority": 2, "answer": {"result": {"action": "deny", "data": {"b": 2}}}},
            {"name": "a", "priority": 1, "answer": {"value": {"action": "continue", "data": {"a": 1}}}},
            {"name": "c", "priority": 3, "answer": {"result": {"action": "continue"}}},
            {"name": "d", "priority": 4, "answer": {}},
            {"name": "e", "priority": 5, "answer": {"result": {"data": {}}}},
        ],
        [{"a": 1}, {"b": 2}, {}],
        ["a", "b", "c", "d", "e"],
    ),
    "what is no answer, fails or takes too long is left out": (
        [
            {"name": "a", "answer": {"value": "text"}},
            {"name": "b", "answer": {"odd": "raises"}},
            {"name": "c", "answer": {"handler": "waits"}},
            {"name": "d", "answer": {"odd": "raises CancelledError"}},
            {"name": "e", "answer": {"result": {"data": {"e": 5}}}},
        ],
        [{"e": 5}],
        ["a", "b", "c", "d", "e"],
    ),
}


@each_row("where", WHERES)
@each_row("case", COLLECTED)
async def test_collecting_asks_everyone_for_data(place: Place, where: str, case: str) -> None:
    handlers, collected, heard = COLLECTED[case]
    outcome = await place.run("events.collected", where=where, handlers=handlers, timeout=0.3)
    assert outcome["collected"] == collected
    assert sorted(name for name, _ in outcome["heard"]) == heard
    # Neither default fields nor the time.
    assert all(data == {"tuple": [1, 2]} for _, data in outcome["heard"] if data != "ended")


CORRELATED: dict[str, tuple[list[list[Any]], list[Any]]] = {
    "a request, its troubles and its response are one call": (
        [
            ["llm:request", {}],
            ["provider:throttle", {}],
            ["provider:retry", {}],
            ["llm:response", {}],
            ["llm:response", {}],
        ],
        [0, 0, 0, 0, None],
    ),
    "a provider's error closes the call": (
        [["llm:request", {}], ["provider:error", {}], ["provider:retry", {}]],
        [0, 0, None],
    ),
    "without an open call there is no id": (
        [["llm:response", {}], ["provider:error", {}], ["provider:retry", {}], ["provider:throttle", {}]],
        [None, None, None, None],
    ),
    "an id of the emitter's own is adopted": (
        [["llm:request", {"request_id": "mine"}], ["llm:response", {}]],
        ["mine", "mine"],
    ),
    "a second request is a new call": (
        [["llm:request", {}], ["llm:request", {}], ["llm:response", {}]],
        [0, 1, 1],
    ),
    "other events carry none": ([["llm:request", {}], ["plan:start", {}], ["llm:response", {}]], [0, None, 0]),
}


@each_row("where", WHERES)
@each_row("case", CORRELATED)
async def test_events_of_one_call_carry_one_request_id(place: Place, where: str, case: str) -> None:
    emitted, expected = CORRELATED[case]
    assert await place.run("events.correlated", where=where, emitted=emitted) == expected


@each_row("where", WHERES)
async def test_tasks_have_calls_of_their_own(place: Place, where: str) -> None:
    outcome = await place.run("events.calls_of_two_tasks", where=where)
    assert outcome == {"within": [True, True], "between": False}
