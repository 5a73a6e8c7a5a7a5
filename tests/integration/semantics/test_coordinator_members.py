"""What else a coordinator has: identity, state, attributes, capabilities, contributions."""

from __future__ import annotations

from integration.semantics.places import SESSION_ID, OpenPlace, Place, plan_of


async def test_the_session_keeps_the_identity_of_live_objects(place: Place) -> None:
    assert await place.run("members.identity") == {
        "ids": [SESSION_ID, None, SESSION_ID, None],
        "config": True,
        "live": [True] * 6,
    }


async def test_modules_see_what_the_application_changes_in_the_configuration(place: Place) -> None:
    assert await place.run("members.configured", key="project_name") == [None, None]
    place.coordinator.config["project_name"] = {"name": "changed after construction"}
    assert await place.run("members.configured", key="project_name") == [{"name": "changed after construction"}] * 2


async def test_what_belongs_to_the_session_cannot_be_assigned(place: Place) -> None:
    assert await place.run("members.read_only") == []


async def test_a_module_finds_a_loader(place: Place) -> None:
    assert await place.run("members.loader") == [True, "ModuleNotFoundError"]


async def test_what_belongs_to_the_application_can_be_assigned(place: Place) -> None:
    assert await place.run("members.writable") == {
        "loader": True,
        "approval_system": True,
        "display_system": True,
        "_current_turn_injections": True,
        "reset": True,
    }


async def test_there_are_no_injection_limits_unless_the_plan_has_them(open_place: OpenPlace) -> None:
    limits = {"injection_budget_per_turn": 10, "injection_size_limit": 20}
    async with open_place(plan_of(session=limits)) as place:
        assert await place.run("members.limits") == [10, 20]
        place.coordinator.config["session"]["injection_size_limit"] = 30
        del place.coordinator.config["session"]["injection_budget_per_turn"]
        assert await place.run("members.limits") == [None, 30]


async def test_session_state_is_one_dict_for_every_writer(place: Place) -> None:
    assert await place.run("members.state") == [
        {"turns": {"used": 0}, "done": []},
        {"turns": {"used": 1}, "done": ["first"]},
        {"turns": {"used": 7}, "done": ["first"]},
        "set",
        {"done": ["first"]},
        [None, [1]],
        None,
    ]


async def test_the_application_and_modules_share_session_state(place: Place) -> None:
    place.coordinator.session_state["goal"] = "by the application"
    assert (await place.run("members.state"))[0] == {"turns": {"used": 0}, "done": []}
    assert place.coordinator.session_state == {}


async def test_attributes_reach_other_modules_in_every_way_they_are_written(place: Place) -> None:
    assert await place.run("members.attributes") == [
        "absent",
        [],
        [{"task": "one", "done": True}],
        [{"task": "two"}],
        "by another",
        ["absent", False],
        "by task",
        "a default",
    ]


async def test_the_last_capability_of_a_name_counts_for_everyone(place: Place) -> None:
    assert await place.run("members.capabilities") == [
        [None, None],
        [["mine"], ["mine"]],
        [["mine", "another's"], ["mine", "another's"]],
        ["last", "last"],
        [None, None],
        True,
    ]


async def test_contributions_come_in_the_order_of_registration(place: Place) -> None:
    collected = ["synchronous", "asynchronous", {"from": "elsewhere"}, [1, 2], "asynchronous"]
    assert await place.run("members.contributions") == {
        "collected": collected,
        "names": ["first", "second", "third", "fourth", "fifth", "sixth", "first", "eighth"],
        "keys": ["callback", "name"],
        "unknown": [],
        "elsewhere": collected,
    }


async def test_what_cannot_be_called_is_no_cleanup_function(place: Place) -> None:
    assert await place.run("members.cleanups_that_are_none") == "no complaint"


async def test_a_coordinator_tells_names_and_presence(place: Place) -> None:
    assert await place.run("members.overview") == {
        "tools": [],
        "providers": [],
        "has_orchestrator": True,
        "has_context": True,
        "capabilities": ["companion"],
        "has_approval_provider": False,
        "has_display_service": False,
    }


async def test_a_module_sees_what_kind_of_session_it_is_in(place: Place) -> None:
    assert await place.run("members.session") == [True, False]
