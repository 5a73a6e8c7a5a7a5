"""Hooks of the community, unmodified: gates, rewrites, background work, and what they reach in other processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest
from amplifier_core.interfaces import ApprovalRequest, ApprovalResponse

from integration.community import community, contents, listen, script, settled
from integration.conftest import OpenSession

_PLAIN = community("loop-plain")
_ANSWERS = [community("tool-answers")]


class Person:
    """An application's approval provider."""

    def __init__(self, *replies: ApprovalResponse | float) -> None:
        self.replies = list(replies)
        self.asked: list[ApprovalRequest] = []

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        self.asked.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, ApprovalResponse):
            return reply
        await asyncio.sleep(reply)
        return ApprovalResponse(approved=True)


async def test_an_approval_hook_asks_the_applications_provider(
    open_session: OpenSession,
) -> None:
    person = Person(ApprovalResponse(approved=True, remember=True), ApprovalResponse(approved=False, reason="not now"))
    calls = [{"answer": {"output": "first"}}], [{"answer": {"output": "second"}}], [{"patch": {"output": "free"}}]
    async with open_session(
        orchestrator=_PLAIN, providers=script(*calls), tools=_ANSWERS, hooks=[community("hooks-gatekeeper")]
    ) as session:
        events = listen(session, "approval:required", "approval:granted", "approval:denied")
        session.coordinator.session_state["require_approval_tools"] = {"answer"}
        register = session.coordinator.get_capability("approval.register_provider")
        await settled(register(person))
        await session.execute("go")
        said = await contents(session, "tool")
    assert said == ["first", "Denied by hook: not now", "free"]
    assert [(event.event, event.data["tool_name"]) for event in events] == [
        ("approval:required", "answer"),
        ("approval:granted", "answer"),
        ("approval:required", "answer"),
        ("approval:denied", "answer"),
    ]
    assert [type(request) for request in person.asked] == [ApprovalRequest, ApprovalRequest]
    # What it wrote to its home after the first is there at the second.
    assert [request.details["audit_lines"] for request in person.asked] == [0, 1]
    assert person.asked[0].details["input"] == {"output": "first"}


async def test_a_boundary_hook_denies_by_real_paths(open_session: OpenSession, tmp_path: Path) -> None:
    work = tmp_path / "work"
    inner = work / "inner"
    inner.mkdir(parents=True)
    (work / "fence.txt").touch()
    (inner / "way-out").symlink_to(tmp_path)
    for name in ("good", "bad"):
        ((work if name == "good" else tmp_path) / f"{name}.txt").write_text(name)
    steps = [{"peek": {"path": "good.txt"}}, {"peek": {"path": "inner/way-out/bad.txt"}}]
    async with open_session(
        orchestrator=_PLAIN,
        providers=script(steps),
        tools=[community("tool-mentions")],
        hooks=[community("hooks-fence")],
    ) as session:
        reached = await session.coordinator.get("tools", "peek").execute({"path": "inner/way-out/bad.txt"})
        assert reached.output == {"text": "bad"}  # without the hook
        contributed = await session.coordinator.collect_contributions("observability.events")
        await session.execute("go")
        good, bad = await contents(session, "tool")
    assert ["workspace_boundary:violation", "workspace_boundary:checked"] in contributed
    assert good == "{'text': 'good'}"
    assert bad.startswith(f"Denied by hook: inner/way-out/bad.txt is outside {work}")
    assert "has no attribute 'emit'" in bad


@pytest.mark.parametrize("is_granted", [True, False], ids=["granted", "not granted"])
async def test_a_hook_puts_a_question_to_a_provider_of_another_process(
    open_session: OpenSession, tmp_path: Path, is_granted: bool
) -> None:
    folder = tmp_path / "work" / ".amplifier" / "hooks"
    folder.mkdir(parents=True)
    (folder / "tool-pre.txt").write_text("may {tool_name} run?")
    grants = {"read": ["."], "call": ["providers"]} if is_granted else {"read": ["."]}
    steps = [{"answer": {"output": "yes"}}], "no, it may not: {messages}", "done"
    async with open_session(
        orchestrator=_PLAIN,
        providers=script(*steps),
        tools=_ANSWERS,
        hooks=[community("hooks-second-opinion", permissions=grants)],
    ) as session:
        assert session.coordinator.hooks.list_handlers("user:notification") == {
            "user:notification": ["second-opinion:user:notification"]
        }
        await session.execute("go")
        said = await contents(session, "tool")
        statuses = {status.module: status for status in session.modules}
    if is_granted:
        assert said == ["Denied by hook: terse said 'no, it may not: may answer run?'"]
    else:
        # A handler that raises is skipped, as the contract says; whoever runs the session is told why.
        assert said == ["yes"]
        [denial] = statuses["hooks-second-opinion"].denials
        assert denial["target"] == "providers:terse" and "call" in denial["grant"]


async def test_a_hook_that_looks_for_programs_by_name_finds_none_of_the_hosts(open_session: OpenSession) -> None:
    marker = f"a-program-of-the-host-{time.monotonic_ns()}"
    bystander = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()", marker], stdin=subprocess.PIPE)
    try:
        found = subprocess.run(["pgrep", "-f", marker], capture_output=True, text=True, timeout=60)
        assert str(bystander.pid) in found.stdout.split()  # outside it can be found
        watchman = community("hooks-watchman", config={"pattern": marker}, permissions={"run": ["pgrep", "pkill"]})
        async with open_session(
            orchestrator=_PLAIN, providers=script([{"answer": {}}]), tools=_ANSWERS, hooks=[watchman]
        ) as session:
            patrolled = listen(session, "watchman:patrolled")
            await session.execute("go")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.communicate()
    [event] = patrolled
    assert event.data["pgrep"] == [1, [], ""]  # it ran, and there was nothing
    assert event.data["pkill"] == [1, ""]
