"""Modules that keep each to its own limits, and together go beyond a total: one of them ends, the session goes on."""

from __future__ import annotations

from typing import Any

import pytest

from integration.conftest import OpenSession, WriteModule
from integration.probe import called
from paddock import Host, Policy, Session
from paddock.workers import worker_host
from paddock.workers.exit_report import ExitReason, ExitReport
from paddock_sandbox.cgroup import CgroupHome

_TAKES = """
    import asyncio
    import threading

    from amplifier_core.models import ToolResult

    class Taker:
        description = "takes what it is told to, and keeps it"
        input_schema = {"type": "object"}

        def __init__(self, name):
            self.name, self.kept = name, []

        async def execute(self, input):
            self.kept.append(b"x" * (input.get("mib", 0) << 20))
            wait = threading.Event().wait
            for _ in range(input.get("threads", 0)):
                threading.Thread(target=wait, daemon=True).start()
            if input.get("stays"):
                await asyncio.Event().wait()
            return ToolResult(output=sum(map(len, self.kept)) >> 20)

    async def mount(coordinator, config):
        await coordinator.mount("tools", Taker(config["name"]))
"""
Totals = dict[str, Any]
Tools = list[dict[str, Any]]


@pytest.fixture(params=["control group", "no control group"])
def has_groups(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param == "no control group":
        monkeypatch.setattr(worker_host, "find_groups", CgroupHome)
    return request.param == "control group"


@pytest.fixture
def tools(write_module: WriteModule) -> Tools:
    source = write_module("tool-taker", _TAKES)
    return [{"module": "tool-taker", "source": source, "config": {"name": name}} for name in ("modest", "greedy")]


def ends(session: Session) -> list[ExitReport]:
    return [report for module in session.modules for report in module.exit_reports]


@pytest.mark.exhaustive("no control group-memory", "no control group-tasks")
@pytest.mark.parametrize(
    ("total", "modest", "greedy", "reason", "raised"),
    [
        ({"memory_total": "130M"}, {"mib": 30}, {"mib": 110}, ExitReason.MEMORY, "260M"),
        ({"tasks_total": 30}, {"threads": 6}, {"threads": 24}, ExitReason.TASKS, "60"),
    ],
    ids=["memory", "tasks"],
)
async def test_the_greediest_of_a_session_ends_at_its_total(
    open_session: OpenSession,
    tools: Tools,
    has_groups: bool,
    total: Totals,
    modest: dict[str, int],
    greedy: dict[str, int],
    reason: ExitReason,
    raised: str,
) -> None:
    async with open_session(tools=tools) as session:
        await called(session, "modest", **modest)
        await called(session, "greedy", **greedy)
        assert (await called(session, "greedy"))["output"] == greedy.get("mib", 0) and not ends(session)
    async with open_session(tools=tools, limits=total) as session:
        await called(session, "modest", **modest)
        failed = await called(session, "greedy", **greedy, stays=True)
        assert (await called(session, "modest"))["output"] == modest.get("mib", 0)
        (report,) = ends(session)
    (name,) = total
    assert report.limit is not None and failed["error"]["report"]["limit"]["name"] == name
    assert (report.reason, report.limit.name, report.limit.mechanism) == (reason, name, "watchdog")
    assert f"({name} {report.limit.configured}, {report.limit.observed} seen in all modules" in report.describe()
    assert "most in tool-taker " in report.describe()
    assert report.hints == (f"to allow the session more, write at the top of its plan: limits: {{{name}: {raised}}}",)


async def test_sessions_of_a_user_share_a_total(open_session: OpenSession, tools: Tools, has_groups: bool) -> None:
    modest, greedy = tools
    policy = Policy.parse('user_limits = {memory_total = "130M"}', "a policy")
    async with Host() as host:
        async with (
            open_session(tools=[modest], policy=policy, host=host) as one,
            # Where control groups count, it is held by two hosts as well.
            open_session(tools=[greedy], policy=policy, **({} if has_groups else {"host": host})) as two,
        ):
            await called(one, "modest", mib=30)
            await called(two, "greedy", mib=110, stays=True)
            assert (await called(one, "modest"))["output"] == 30 and not ends(one)
            (report,) = ends(two)
    assert report.limit is not None and report.limit.among == "all sessions of this user"
    assert report.hints == (
        "end other sessions (`paddock top` shows them), or change a policy:1: user_limits.memory_total = 130 MiB",
    )


async def test_a_module_that_no_task_is_left_for_does_not_start(
    open_session: OpenSession, tools: Tools, caplog: pytest.LogCaptureFixture
) -> None:
    policy = Policy.parse("max_limits = {tasks_total = 3}", "a policy")
    async with open_session(tools=tools, policy=policy) as session:
        assert (await called(session, "modest"))["success"]
        (report,) = ends(session)
    told = "limits: 3 processes and threads are in all modules of this session, and `tasks_total` is 3"
    assert (report.reason, report.detail) == (ExitReason.START, told)
    assert "hint: to allow the session more, change a policy:1: max_limits.tasks_total = 3" in caplog.text
