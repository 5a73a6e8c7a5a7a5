"""The todo tool: what it stores, what it returns, and that a list that is not accepted changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from amplifier_core.models import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_todo import mount

pytestmark = pytest.mark.anyio

TODOS = [
    {"content": "Read the code", "status": "completed", "activeForm": "Reading the code"},
    {"content": "Run the tests", "status": "in_progress", "activeForm": "Running the tests"},
    {"content": "Write the README", "status": "pending", "activeForm": "Writing the README"},
]


class Desk:
    """The mounted tool and its coordinator."""

    def __init__(self, coordinator: Any) -> None:
        self.coordinator = coordinator
        self.tool = coordinator.get("tools")["todo"]

    async def __call__(self, **arguments: Any) -> ToolResult:
        result = await self.tool.execute(arguments)
        assert isinstance(result, ToolResult)
        return result


async def desk(config: dict[str, Any] | None = None) -> Desk:
    coordinator = MockCoordinator()
    await mount(coordinator, config)
    return Desk(coordinator)


@pytest.fixture
async def use() -> Desk:
    return await desk()


def refused(result: ToolResult) -> str:
    assert not result.success
    assert result.error is not None and result.error["type"] == "invalid_input"
    return str(result.error["message"])


async def test_create_stores_plain_dicts_where_hooks_read_them(use: Desk) -> None:
    assert use.coordinator.todo_state == []
    output = (await use(action="create", todos=TODOS)).output
    assert use.coordinator.todo_state == TODOS
    assert output == {
        "status": "created",
        "count": 3,
        "pending": 1,
        "in_progress": 1,
        "completed": 1,
        "todos": TODOS,
    }


async def test_update_puts_the_whole_list_in_the_place_of_the_old(use: Desk) -> None:
    await use(action="create", todos=TODOS)
    before = use.coordinator.todo_state
    output = (await use(action="update", todos=TODOS[:1])).output
    assert (output["status"], output["todos"]) == ("updated", TODOS[:1])
    assert use.coordinator.todo_state is not before
    assert len(before) == 3


async def test_list_changes_nothing(use: Desk) -> None:
    await use(action="create", todos=TODOS)
    output = (await use(action="list")).output
    assert (output["status"], output["todos"], use.coordinator.todo_state) == ("listed", TODOS, TODOS)


async def test_what_an_item_leaves_out_is_filled_in(use: Desk) -> None:
    await use(action="create", todos=[{"content": "Look", "note": "not kept"}])
    assert use.coordinator.todo_state == [{"content": "Look", "status": "pending", "activeForm": "Look"}]


async def test_several_items_in_progress_are_advice_and_no_error(use: Desk) -> None:
    result = await use(action="create", todos=[{"content": text, "status": "in_progress"} for text in "ab"])
    assert result.success
    assert "2 items are in_progress" in result.output["advice"]
    assert "advice" not in (await use(action="update", todos=TODOS)).output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "`action` must be one of create, update, list"),
        ({"action": "delete"}, "`action` must be one of"),
        ({"action": ["create"]}, "`action` must be one of"),
        ({"action": "create"}, "`todos` must be the whole list"),
        ({"action": "update", "todos": "all"}, "`todos` must be the whole list"),
        ({"action": "update", "todos": [*TODOS, "x"]}, "`todos[3]` must be an object"),
        ({"action": "update", "todos": [{"content": " "}]}, "`todos[0].content` must be a text"),
        ({"action": "update", "todos": [{"content": 5}]}, "`todos[0].content` must be a text"),
        ({"action": "update", "todos": [{"content": "a", "status": "done"}]}, "`todos[0].status` must be one of"),
        ({"action": "update", "todos": [{"content": "a", "status": []}]}, "`todos[0].status` must be one of"),
        ({"action": "update", "todos": [{"content": "a", "activeForm": 1}]}, "`todos[0].activeForm` must be a text"),
        ({"action": "update", "todos": [{"content": "a" * 501}]}, "has 501 characters; 500 are accepted"),
        ({"action": "update", "todos": [{"content": "a"}] * 101}, "has 101 items, and the list holds 100"),
    ],
)
async def test_what_is_not_accepted_is_named_and_changes_nothing(
    use: Desk, arguments: dict[str, Any], said: str
) -> None:
    await use(action="create", todos=TODOS)
    assert said in refused(await use(**arguments))
    assert use.coordinator.todo_state == TODOS


async def test_the_bounds_are_settings() -> None:
    use = await desk({"max_items": 1, "max_characters": 3})
    assert (await use(action="create", todos=[{"content": "abc"}])).success
    assert "the list holds 1" in refused(await use(action="create", todos=TODOS))
    assert "3 are accepted" in refused(await use(action="create", todos=[{"content": "abcd"}]))


@pytest.mark.parametrize("state", ["text", [1, {"status": "odd"}, {}], None])
async def test_a_list_that_another_module_broke_reads_as_what_is_left_of_it(use: Desk, state: Any) -> None:
    use.coordinator.todo_state = state
    assert (await use(action="list")).output["todos"] == []


async def test_mounting_again_keeps_the_list(use: Desk) -> None:
    await use(action="create", todos=TODOS)
    await mount(use.coordinator, None)
    assert use.coordinator.todo_state == TODOS


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"max_item": 5}, "there is no setting `max_item`; there are max_items, max_characters"),
        ({"max_items": 0}, "`max_items` must be a whole number above 0, not 0"),
        ({"max_items": True}, "`max_items` must be a whole number"),
        ({"max_characters": "9"}, "`max_characters` must be a whole number"),
    ],
)
async def test_a_wrong_setting_is_an_error_that_names_it(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="tool-todo: ") as caught:
        await mount(MockCoordinator(), config)
    assert said in str(caught.value)
