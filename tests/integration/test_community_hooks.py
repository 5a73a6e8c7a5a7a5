"""Hooks of the community, unmodified: gates, rewrites, background work, and what they reach in other processes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from amplifier_core.interfaces import ApprovalRequest, ApprovalResponse

from integration.community import community, contents, listen, messages, script, settled, until
from integration.conftest import OpenSession
from paddock import Session

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


@pytest.mark.exhaustive
async def test_an_approval_hook_refuses_without_an_answer_in_time(
    open_session: OpenSession,
) -> None:
    gatekeeper = community("hooks-gatekeeper", config={"timeout": 0.1})
    calls = [[{"answer": {"output": str(number)}}] for number in range(2)]
    async with open_session(
        orchestrator=_PLAIN, providers=script(*calls), tools=_ANSWERS, hooks=[gatekeeper]
    ) as session:
        session.coordinator.session_state["require_approval_tools"] = {"answer"}
        denied = listen(session, "approval:denied")
        session.coordinator.hooks.register("tool:pre", _hand_over_at_the_second(session, Person(5.0)), -20)
        await session.execute("go")
        said = await contents(session, "tool")
    assert said == ["Denied by hook: nobody is there to ask", "Denied by hook: nobody answered in time"]
    assert [event.data["reason"] for event in denied] == ["timeout"]


def _hand_over_at_the_second(session: Session, person: Person) -> Any:
    seen: list[str] = []

    async def handler(event: str, data: dict[str, Any]) -> None:
        seen.append(event)
        if len(seen) == 2:
            await settled(session.coordinator.get_capability("approval.register_provider")(person))

    return handler


@pytest.mark.exhaustive
async def test_a_redaction_hook_rewrites_every_event_for_those_who_hear_it_later(open_session: OpenSession) -> None:
    steps = [{"answer": {"output": "ask bob@example.org"}}], "alice@example.org wrote"
    async with open_session(
        orchestrator=_PLAIN, providers=script(*steps), tools=_ANSWERS, hooks=[community("hooks-scrub")]
    ) as session:
        assert session.coordinator.hooks.list_handlers("plan:start") == {"plan:start": ["hooks-scrub"]}
        early = listen(session, "prompt:submit", priority=1)
        late = listen(session, "prompt:submit", "tool:pre", "tool:post", "prompt:complete")
        answer = await session.execute("write to carol@example.org")
        said = await contents(session, "tool")
        session_id = session.session_id
    assert early[0].data["prompt"] == "write to carol@example.org"
    assert {event.data["session_id"] for event in late} == {session_id}
    by_name = {event.event: event.data for event in late}
    assert by_name["prompt:submit"]["prompt"] == "write to [hidden]"
    assert by_name["tool:pre"]["tool_input"] == {"output": "ask [hidden]"}
    assert by_name["tool:post"]["result"] == "ask [hidden]"
    assert by_name["prompt:complete"]["response_preview"] == "[hidden] wrote"
    assert said == ["ask [hidden]"]  # the loop stores what hooks made of the result
    assert answer == "alice@example.org wrote"


@pytest.mark.exhaustive
async def test_a_status_hook_reads_the_session_and_asks_git(open_session: OpenSession, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for command in (["init", "-q", "-b", "trunk"], ["config", "user.email", "a@b"], ["config", "user.name", "a"]):
        subprocess.run(["git", *command], cwd=work, check=True, timeout=60)
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "start"], cwd=work, check=True, timeout=60)
    bearings = community("hooks-bearings", permissions={"read": ["."], "run": ["git"]})
    async with open_session(orchestrator=_PLAIN, providers=script("ok"), hooks=[bearings]) as session:
        await session.execute("where am I")
        [injected, _] = await messages(session, "user")
        session_id = session.session_id
    assert injected["content"].splitlines() == [
        f"session: {session_id[:8]}",
        "child: no",
        f"folder: {work}",
        "platform: Linux",
        "git: trunk",
    ]
    assert injected["metadata"]["source"] == "hook"


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


@pytest.mark.exhaustive
async def test_an_unregister_object_is_the_cleanup_of_an_installed_module(
    open_session: OpenSession,
) -> None:
    long = {"stdout": "0123456789abcdef", "rc": 0}
    async with open_session(
        orchestrator=community("loop-brisk", config={"whole": True}),
        providers=script([{"answer": {"output": long}}], [{"answer": {"output": long}}], "done"),
        tools=_ANSWERS,
        hooks=[community("hooks-shorten")],
    ) as session:
        await session.execute("go")
        said = [json.loads(content)["output"] for content in await contents(session, "tool")]
        hooks = session.coordinator.hooks
        assert hooks.list_handlers("tool:post") == {"tool:post": ["hooks-shorten"]}
        await session.coordinator.cleanup()
        assert hooks.list_handlers("tool:post") == {"tool:post": []}
    assert said == [
        {"rc": 0, "stdout": "0123456789ab... (4 saved by 2.4.1)"},
        {"rc": 0, "stdout": "0123456789ab... (8 saved by 2.4.1)"},
    ]


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


@pytest.mark.exhaustive
async def test_work_begun_in_a_handler_goes_on_after_it(open_session: OpenSession) -> None:
    namer = community("hooks-namer", permissions={"call": ["providers", "context"]})
    async with open_session(orchestrator=_PLAIN, providers=script("good day", "Greetings"), hooks=[namer]) as session:
        named = listen(session, "session-naming:named")
        assert await session.execute("hello") == "good day"
        await until(named)
        [about] = [event.data for event in named]
    assert about["name"] == "Greetings"
    assert "emitter" not in about
    assert about["folder"].endswith(f"/.amplifier/sessions/{session.session_id}")


@pytest.mark.exhaustive
async def test_a_module_reads_the_plan_and_registers_hooks_when_ready(
    open_session: OpenSession,
) -> None:
    old = {"tool-answers": "use another", "provider-terse": "speak up", "hooks-sunset": "it is late"}
    async with open_session(
        orchestrator=_PLAIN,
        providers=script("{messages}"),
        hooks=[community("hooks-sunset", config={"old": old})],
        tools=_ANSWERS,
    ) as session:
        answer = await session.execute("hello")
    warning = (
        "Outdated: tools/tool-answers: use another; hooks/hooks-sunset: it is late; providers/provider-terse: speak up"
    )
    assert answer == f"{warning} | hello"


@pytest.mark.exhaustive
async def test_a_hook_paints_the_checklist_on_the_terminal_and_breaks_nothing(open_session: OpenSession) -> None:
    printed: list[Any] = []
    async with open_session(
        orchestrator=_PLAIN,
        providers=script([{"checklist": {"action": "write", "items": [{"text": "look"}]}}]),
        tools=[community("tool-checklist")],
        hooks=[community("hooks-ticker")],
        on_output=lambda *line: printed.append(line),
    ) as session:
        assert await session.execute("go") == "done"
    assert any("look (open)" in str(line) for line in printed)


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


async def test_a_hook_modules_tool_is_offered_and_run_like_any_other(open_session: OpenSession) -> None:
    steps = [{"answer": {}}, {"answer": {}}], [{"tally": {}}], "{offered}"
    async with open_session(
        orchestrator=_PLAIN, providers=script(*steps), tools=_ANSWERS, hooks=[community("hooks-toolbox")]
    ) as session:
        answer = await session.execute("go")
        said = await contents(session, "tool")
    assert said[-1] == "{'answer': 2}"
    assert answer.endswith("Tell how often each tool was called.")


@pytest.mark.exhaustive
async def test_a_handler_that_blocks_its_own_loop_delays_no_other_module(open_session: OpenSession) -> None:
    ponder = community("hooks-ponder", config={"seconds": 1.0})
    async with open_session(
        orchestrator=_PLAIN,
        providers=script([{"answer": {"output": "slow"}}]),
        tools=[*_ANSWERS, community("tool-courier")],
        hooks=[ponder],
    ) as session:
        after = listen(session, "tool:pre")
        post = session.coordinator.get("tools", "post")
        async with asyncio.TaskGroup() as tasks:
            turn = tasks.create_task(session.execute("go"))
            meanwhile = []
            while not turn.done():
                began = time.monotonic()
                await post.execute({"parcel": "x"})
                meanwhile.append(time.monotonic() - began)
        said = await contents(session, "tool")
    assert len(meanwhile) > 20 and max(meanwhile) < 0.5
    assert after[0].data["pondered"]
    assert said == ["slow"]
