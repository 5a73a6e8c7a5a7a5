"""The task tool: what it asks of the application, what it returns, and how each failure reads."""

from __future__ import annotations

import asyncio
import inspect
import re
from typing import Any

import pytest
from amplifier_core.models import HookResult, ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_task import mount

pytestmark = pytest.mark.anyio

AGENTS = {
    "researcher": {"description": "finds\nthings out", "instruction": "You search."},
    "tester": {"description": "runs tests " + "x" * 500},
    "odd one": None,
}


class Application:
    """Answers for an application: what it was asked to start, and a session whose tool asks."""

    def __init__(self, agents: Any = AGENTS) -> None:
        self.coordinator = MockCoordinator()
        if agents is not None:
            self.coordinator.config["agents"] = agents
        self.asked: list[dict[str, Any]] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.answer: Any = {"output": "done", "session_id": "s-1", "status": "success", "turn_count": 2}

    async def mount(self, config: dict[str, Any] | None = None, *, offers: bool = True) -> Application:
        if offers:
            self.coordinator.register_capability("session.spawn", self.act)
            self.coordinator.register_capability("session.resume", self.act)
        await mount(self.coordinator, config)
        for event in ("spawned", "resumed", "completed"):
            self.coordinator.hooks.register(f"task:agent_{event}", self._hear)
        return self

    async def act(self, **asked: Any) -> Any:
        self.asked.append(asked)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return await self.answer() if callable(self.answer) else self.answer

    async def _hear(self, event: str, data: dict[str, Any]) -> HookResult:
        self.events.append((event, data))
        return HookResult()

    @property
    def tool(self) -> Any:
        return self.coordinator.get("tools")["task"]

    async def call(self, **arguments: Any) -> ToolResult:
        result = await self.tool.execute(arguments)
        assert isinstance(result, ToolResult)
        return result

    async def failed(self, kind: str, **arguments: Any) -> str:
        result = await self.call(**arguments)
        assert not result.success and result.error is not None
        assert result.error["type"] == kind
        return str(result.error["message"])


@pytest.fixture
async def app() -> Application:
    return await Application().mount()


async def test_the_agents_of_now_are_in_the_description_and_the_schema(app: Application) -> None:
    assert inspect.iscoroutinefunction(app.tool.execute)
    assert "\n- researcher: finds things out\n- tester: runs tests x" in app.tool.description
    assert "\n- odd one: no description" in app.tool.description
    assert len(app.tool.description) < 1500
    assert app.tool.input_schema["properties"]["agent"]["enum"] == list(AGENTS)
    app.coordinator.config["agents"] = {"late": {"description": "came later"}}
    assert app.tool.description.endswith("\n- late: came later")
    assert app.tool.input_schema["properties"]["agent"]["enum"] == ["late"]
    assert await app.coordinator.collect_contributions("observability.events") == [
        ["task:agent_spawned", "task:agent_resumed", "task:agent_completed"]
    ]


async def test_an_agent_is_spawned_as_the_contract_has_it(app: Application) -> None:
    result = await app.call(agent="researcher", instruction="find it")
    assert result.output == {"response": "done", "session_id": "s-1", "status": "success", "turn_count": 2}
    (asked,) = app.asked
    session_id = asked.pop("sub_session_id")
    assert re.fullmatch(r"test-session-[0-9a-f]{16}_researcher", session_id)
    assert asked == {
        "agent_name": "researcher",
        "instruction": "find it",
        "parent_session": app.coordinator.session,
        "agent_configs": AGENTS,
        "tool_inheritance": {"exclude_tools": ["tool-task"]},
        "hook_inheritance": {},
    }
    (began, first), (ended, last) = app.events
    assert (began, ended) == ("task:agent_spawned", "task:agent_completed")
    about = {"agent": "researcher", "sub_session_id": session_id, "parent_session_id": "test-session"}
    assert first.items() >= about.items()
    assert last.items() >= {**about, "success": True, "status": "success"}.items()


async def test_a_session_is_resumed_by_its_id(app: Application) -> None:
    assert (await app.call(session_id="s-1", prompt="go on")).success
    assert app.asked == [{"sub_session_id": "s-1", "instruction": "go on"}]
    assert [event for event, _ in app.events] == ["task:agent_resumed", "task:agent_completed"]


async def test_what_agents_go_without_is_a_setting() -> None:
    app = await Application().mount({"exclude_tools": [], "exclude_hooks": ["hooks-logging"]})
    await app.call(agent="tester", instruction="test")
    assert app.asked[0]["tool_inheritance"] == {}
    assert app.asked[0]["hook_inheritance"] == {"exclude_hooks": ["hooks-logging"]}


@pytest.mark.parametrize("agent", ["absent", "Researcher", None])
async def test_an_agent_that_does_not_exist_lists_those_that_do(app: Application, agent: str | None) -> None:
    said = await app.failed("unknown_agent", agent=agent, instruction="go")
    assert "- researcher: finds things out\n- tester:" in said
    assert not app.asked


@pytest.mark.parametrize("agents", [None, {}, "text"])
async def test_a_plan_without_agents_is_an_error_that_shows_some(agents: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = await Application(agents).mount()
    assert "the plan has no agents" in caplog.text and "`agents: {researcher:" in caplog.text
    assert "`agents: {researcher:" in await app.failed("no_agents", agent="researcher", instruction="go")
    assert "no agents" in app.tool.description
    assert "enum" not in app.tool.input_schema["properties"]["agent"]


async def test_a_host_that_starts_no_sub_sessions_is_named() -> None:
    app = await Application().mount(offers=False)
    assert "`session.spawn`" in await app.failed("not_available", agent="tester", instruction="go")
    assert "`session.resume`" in await app.failed("not_available", session_id="s-1", instruction="go")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"agent": "tester"}, "`instruction` is missing"),
        ({"agent": "tester", "instruction": "  "}, "`instruction` is missing"),
        ({"agent": "tester", "instruction": 5}, "`instruction` must be a text, not int"),
        ({"agent": ["tester"], "instruction": "go"}, "`agent` must be a text, not list"),
        ({"session_id": 1, "instruction": "go"}, "`session_id` must be a text, not int"),
    ],
)
async def test_input_of_the_wrong_shape_is_named(app: Application, arguments: dict[str, Any], said: str) -> None:
    assert said in await app.failed("invalid_input", **arguments)


@pytest.mark.parametrize("answer", [RuntimeError("16 sub-sessions are running"), "text", None])
async def test_what_fails_below_is_a_failed_result(app: Application, answer: Any) -> None:
    app.answer = answer
    said = await app.failed("delegation_failed", agent="tester", instruction="go")
    assert ("16 sub-sessions" if isinstance(answer, Exception) else "answered with a") in said
    assert app.events[-1][0] == "task:agent_completed"
    assert app.events[-1][1]["success"] is False


async def test_a_long_answer_is_cut_and_says_so() -> None:
    app = await Application().mount({"max_answer_characters": 5})
    app.answer = {"output": "x" * 12}
    output = (await app.call(agent="tester", instruction="go")).output
    assert output["response"].startswith("xxxxx… [7 more characters")
    assert output["session_id"] == app.asked[0]["sub_session_id"]


async def test_tasks_run_side_by_side(app: Application) -> None:
    both = asyncio.Barrier(2)

    async def meet() -> dict[str, Any]:
        await both.wait()
        return {"output": "met"}

    app.answer = meet
    async with asyncio.timeout(60):
        results = await asyncio.gather(*(app.call(agent=agent, instruction="go") for agent in ("tester", "researcher")))
    assert [result.output["response"] for result in results] == ["met", "met"]
    assert len({asked["sub_session_id"] for asked in app.asked}) == 2


async def test_cancelling_a_call_cancels_the_sub_session(app: Application) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    app.answer = wait
    task = asyncio.ensure_future(app.call(agent="tester", instruction="go"))
    async with asyncio.timeout(60):
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert ended.is_set()
    assert app.events[-1][0] == "task:agent_completed"


async def test_an_event_that_cannot_be_emitted_does_not_undo_what_was_delegated(app: Application) -> None:
    app.answer = {"output": "done", "status": float("nan")}  # which the kernel refuses as an event's data
    assert (await app.call(agent="tester", instruction="go")).output["response"] == "done"
    assert [event for event, _ in app.events] == ["task:agent_spawned"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"exclude": []},
            "there is no setting `exclude`; there are exclude_tools, exclude_hooks, max_answer_characters",
        ),
        ({"exclude_tools": "all"}, "`exclude_tools` must be a list of module ids, not 'all'"),
        ({"exclude_hooks": [1]}, "`exclude_hooks` must be a list of module ids"),
        ({"max_answer_characters": 0}, "`max_answer_characters` must be a whole number above 0, not 0"),
    ],
)
async def test_a_wrong_setting_is_an_error_that_names_it(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="tool-task: ") as caught:
        await mount(MockCoordinator(), config)
    assert said in str(caught.value)
