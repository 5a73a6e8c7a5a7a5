"""How handlers are registered, listed and removed."""

from __future__ import annotations

from integration.semantics.places import Place
from support.rows import each_row


@each_row(
    ("priorities", "order"),
    [([0, 0, 0], "abc"), ([2, 1, 0], "cba"), ([0, -10, 5, -10, 0], "bdaec"), ([1, True, 0], "cab")],
)
async def test_handlers_stand_by_priority_and_then_by_registration(
    place: Place, priorities: list[int], order: str
) -> None:
    assert await place.run("registrations.order", priorities=priorities) == list(order)


async def test_a_priority_that_is_no_integer_is_refused(place: Place) -> None:
    assert await place.run("registrations.bad_priorities") == {"refused": ["TypeError"] * 4, "listed": []}


async def test_everything_can_be_passed_by_keyword(place: Place) -> None:
    assert await place.run("registrations.by_keyword") == [["registered", "on"], ["registered", "on"]]


async def test_a_handler_without_a_name_gets_one_of_its_own(place: Place) -> None:
    assert await place.run("registrations.without_a_name") == {"prefixed": True, "different": True}


async def test_namesakes_are_removed_one_by_one(place: Place) -> None:
    assert await place.run("registrations.namesakes") == [
        ["same", "other", "same"],
        ["other", "same"],
        ["other", "same"],
        [["other", "same"], {"semantics:registered:other": []}],
        [[], True],
    ]


async def test_an_event_without_handlers_is_listed_when_asked_for(place: Place) -> None:
    assert await place.run("registrations.unheard_of") == {"semantics:never": []}


async def test_an_emit_under_way_keeps_the_handlers_it_started_with(place: Place) -> None:
    assert await place.run("registrations.coming_and_going") == {"during": ["first", "second"], "afterwards": ["third"]}


async def test_the_class_names_exactly_eight_events(place: Place) -> None:
    assert await place.run("registrations.class_attributes") == {
        name: [value, value]
        for name, value in {
            "SESSION_START": "session:start",
            "SESSION_END": "session:end",
            "PROMPT_SUBMIT": "prompt:submit",
            "TOOL_PRE": "tool:pre",
            "TOOL_POST": "tool:post",
            "CONTEXT_PRE_COMPACT": "context:pre_compact",
            "ORCHESTRATOR_COMPLETE": "orchestrator:complete",
            "USER_NOTIFICATION": "user:notification",
        }.items()
    }


async def test_a_registry_may_be_subclassed(place: Place) -> None:
    assert await place.run("registrations.subclass") == {"heard": ["SHOUTED"], "tuple": [1], "is": True}
