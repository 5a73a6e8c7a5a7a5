"""The mount points: what they hold, how it gets there, and when."""

from __future__ import annotations

from integration.semantics.places import OpenPlace, Place
from support.rows import each_row


async def test_there_are_exactly_six_points_and_they_are_live(place: Place) -> None:
    assert await place.run("mounts.points") == {
        "keys": ["context", "hooks", "module-source-resolver", "orchestrator", "providers", "tools"],
        "hooks": True,
        "live": [True] * 6,
        "kinds": {"tools": True, "providers": True},
        "resolver": None,
        "is one": True,
    }


@each_row("point", ["tools", "providers"])
async def test_a_point_with_names_takes_the_given_one_or_the_objects_own(place: Place, point: str) -> None:
    assert await place.run("mounts.by_name", point=point) == [
        {"own": "first"},
        {"own": "first", "given": "first"},
        {"own": "first", "given": "second"},
        [True, True, None],
        {"own": "first"},
        {},
    ]


async def test_an_impossible_call_raises_when_it_is_made(place: Place) -> None:
    outcome = await place.run("mounts.impossible")
    assert {name: raised[:1] for name, raised in outcome.items()} == {
        "mount without any name": ["ValueError"],
        "mount with a name that is no text": ["TypeError"],
        "mount an object whose name is no text": ["TypeError"],
        "mount hooks": ["ValueError"],
        "mount nowhere": ["ValueError"],
        "mount a session": ["ValueError"],
        "get from nowhere": ["ValueError"],
        "unmount without a name": ["ValueError"],
        "unmount from nowhere": ["ValueError"],
        "get_mounted from nowhere": ["ValueError"],
    }
    assert outcome["mount without any name"][1].startswith("Name required for")
    for name in ("mount nowhere", "get from nowhere", "unmount from nowhere"):
        assert outcome[name][1] == "Unknown mount point: agents"


async def test_a_single_point_is_replaced_and_ignores_names(place: Place) -> None:
    assert await place.run("mounts.single") == [[True, True], [None, {}], [True]]


async def test_the_hook_registry_cannot_be_unmounted(place: Place) -> None:
    assert await place.run("mounts.hooks_stay") == {"awaited": [], "same": True}


async def test_mounting_takes_effect_before_it_is_awaited_and_needs_no_await(place: Place) -> None:
    assert await place.run("mounts.before_the_await") == {
        "at once": True,
        "gone": None,
        "never awaited": True,
        "awaited": [[]] * 6,
    }


async def test_writing_to_the_mount_points_mounts_for_everyone(place: Place) -> None:
    assert await place.run("mounts.direct_writes") == {
        "steps": [[names, names, True] for names in (["a"], ["a", "b"], ["b"], [], ["d"], [])],
        "popped": True,
    }


async def test_the_mount_points_may_be_assigned_as_a_whole(open_place: OpenPlace) -> None:
    async with open_place() as place:
        assert await place.run("mounts.reassigned") == {
            "tools": [["new"], ["new"], True],
            "context": True,
            "hooks": True,
        }


async def test_a_tool_that_was_written_into_the_mount_points_can_be_called(place: Place) -> None:
    assert await place.run("mounts.called_from_elsewhere") == ["ToolResult", True, "written, given {'number': 1}"]


async def test_what_the_contract_does_not_have_is_not_there(place: Place) -> None:
    assert await place.run("mounts.absent") == []
