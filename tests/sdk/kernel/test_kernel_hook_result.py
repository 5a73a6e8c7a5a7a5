"""What happens to a hook's result, row by row."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from paddock_sdk.contract.approval import ApprovalTimeoutError
from paddock_sdk.contract.models import ContextInjection, HookResult
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from support.rows import each_row


class Context:
    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def add_message(self, message: dict[str, Any]) -> None:
        self.messages.append(message)


class Display:
    def __init__(self) -> None:
        self.shown: list[tuple[str, str, str]] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.shown.append((message, level, source))


class Approval:
    def __init__(self, reply: Any) -> None:
        self.reply = reply
        self.asked: list[tuple[Any, ...]] = []

    async def request_approval(self, *asked: Any) -> Any:
        self.asked.append(asked)
        if isinstance(self.reply, BaseException):
            raise self.reply
        return self.reply


class Stage:
    """A coordinator with a context, a display and limits."""

    def __init__(self, reply: Any = "Allow", **session: Any) -> None:
        self.context, self.display, self.approval = Context(), Display(), Approval(reply)
        self.coordinator = ModuleCoordinator(
            SimpleNamespace(session_id="s", parent_id=None, config={"session": session}), self.approval, self.display
        )
        self.coordinator.mount("context", self.context)

    async def process(self, result: Any, event: str = "tool:post", hook_name: str = "h") -> HookResult:
        return await self.coordinator.process_hook_result(result, event, hook_name)

    @property
    def contents(self) -> list[str]:
        return [message["content"] for message in self.context.messages]


def inject(text: str | None = None, **fields: Any) -> HookResult:
    return HookResult(action="inject_context", context_injection=text, **fields)


async def test_a_mapping_is_not_a_result() -> None:
    with pytest.raises(AttributeError):
        await Stage().process({"action": "continue"})


@each_row("action", ["continue", "deny", "modify"])
async def test_other_actions_come_back_unchanged_and_inject_nothing(action: Any) -> None:
    stage = Stage()
    result = HookResult(action=action, context_injection="text", data={"a": 1})
    assert await stage.process(result) is result
    assert stage.contents == []


# Injections.


async def test_a_lasting_injection_is_written_and_nothing_is_left_of_it() -> None:
    stage = Stage()
    before = datetime.now(UTC)
    left = await stage.process(inject("te\x00xt\x1b", context_injection_role="user", data={"kept": 1}))
    assert left == HookResult(action="continue", data={"kept": 1})
    (message,) = stage.context.messages
    stamp = datetime.fromisoformat(message["metadata"].pop("timestamp"))
    assert before <= stamp <= before + timedelta(seconds=30)
    assert message == {
        "role": "user",
        "content": "text",
        "metadata": {
            "source": "hook",
            "hook_name": "h",
            "event": "tool:post",
            "requested_role": "user",
            "ephemeral": False,
            "persisted": True,
        },
    }


async def test_an_ephemeral_injection_is_left_to_the_orchestrator() -> None:
    stage = Stage()
    result = inject("te\x00xt", ephemeral=True, append_to_last_tool_result=True)
    left = await stage.process(result)
    item = ContextInjection(
        content="text", ephemeral=True, append_to_last_tool_result=True, hook_name="h", event="tool:post"
    )
    assert left == inject("text", ephemeral=True, append_to_last_tool_result=True, context_injections=[item])
    assert stage.contents == []
    assert stage.coordinator._current_turn_injections == 1


async def test_of_a_mixed_list_only_the_ephemeral_items_are_left() -> None:
    stage = Stage()
    left = await stage.process(
        inject(
            "ignored",
            context_injections=[
                ContextInjection(content="lasting", role="user", hook_name="first", event="tool:pre"),
                ContextInjection(content="passing\x00", ephemeral=True, role="assistant"),
                ContextInjection(content=""),
                ContextInjection(content="also passing", ephemeral=True, append_to_last_tool_result=True),
            ],
        )
    )
    assert stage.contents == ["lasting"]
    assert stage.context.messages[0]["metadata"]["hook_name"] == "first"
    assert stage.context.messages[0]["metadata"]["event"] == "tool:pre"
    assert left == inject(
        "passing\n\nalso passing",
        context_injection_role="assistant",
        ephemeral=True,
        append_to_last_tool_result=True,
        context_injections=[
            ContextInjection(content="passing", role="assistant", ephemeral=True),
            ContextInjection(content="also passing", ephemeral=True, append_to_last_tool_result=True),
        ],
    )


@pytest.mark.parametrize(
    "result",
    [
        inject("x" * 11, user_message="shown?"),
        inject("x" * 11, ephemeral=True),
        inject(context_injections=[ContextInjection(content="x" * 6), ContextInjection(content="x" * 5)]),
    ],
    ids=["lasting", "ephemeral", "all together"],
)
async def test_too_long_an_injection_is_refused_and_leaves_no_trace(
    result: HookResult, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(injection_size_limit=10)
    with pytest.raises(ValueError, match="Context injection exceeds 10 characters"):
        await stage.process(result)
    assert stage.contents == []
    assert stage.display.shown == []
    assert stage.coordinator._current_turn_injections == 0
    assert caplog.records[0].levelno == logging.ERROR


async def test_the_size_is_counted_after_cleaning() -> None:
    stage = Stage(injection_size_limit=10)
    await stage.process(inject("x" * 10 + "\x00" * 5))
    assert stage.contents == ["x" * 10]


async def test_the_budget_only_warns(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(injection_budget_per_turn=3)
    await stage.process(inject("x" * 15))
    assert stage.coordinator._current_turn_injections == 3
    assert caplog.text == ""
    await stage.process(inject("x" * 4))
    assert stage.coordinator._current_turn_injections == 4
    assert "budget" in caplog.text
    assert len(stage.contents) == 2


# Messages.


@each_row("action", ["continue", "deny", "modify", "inject_context"])
async def test_a_message_is_shown_for_every_action_but_a_question(action: Any) -> None:
    stage = Stage()
    await stage.process(HookResult(action=action, user_message="hello", user_message_level="warning"))
    assert stage.display.shown == [("hello", "warning", "hook:h")]


async def test_a_message_may_name_its_source() -> None:
    stage = Stage()
    await stage.process(HookResult(user_message="hello", user_message_source="mine"))
    assert stage.display.shown == [("hello", "info", "hook:mine")]


async def test_a_question_shows_no_message() -> None:
    stage = Stage()
    await stage.process(HookResult(action="ask_user", user_message="hello"))
    assert stage.display.shown == []


async def test_without_a_display_a_message_is_no_error() -> None:
    stage = Stage()
    stage.coordinator.display_system = None
    await stage.process(HookResult(user_message="hello", suppress_output=True))


# Approvals.


@pytest.mark.parametrize(
    ("reply", "action", "warns"),
    [
        ("Allow", "continue", False),
        ("ALLOW ONCE", "continue", False),
        ("allow always", "continue", False),
        ("Deny", "deny", False),
        ("deny", "deny", False),
        ("Yes", "deny", True),
        ("", "deny", True),
        ("allowed", "deny", True),
        (" allow", "deny", True),
    ],
)
async def test_only_a_reply_that_says_allow_allows(
    reply: str, action: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    prompt = "p" * 300
    result = HookResult(action="ask_user", approval_prompt=prompt, data={"dropped": 1}, user_message="dropped")
    answer = await Stage(reply).process(result)
    reason = None if action == "continue" else "User denied: " + "p" * 200
    assert answer == HookResult(action=action, reason=reason)  # type: ignore[arg-type]
    assert bool(caplog.records) == warns


@each_row(
    ("default", "expected"),
    [
        ("allow", HookResult()),
        ("deny", HookResult(action="deny", reason="Approval timeout - denied by default: Really?")),
    ],
)
async def test_without_an_answer_the_default_counts(default: Any, expected: HookResult) -> None:
    result = HookResult(action="ask_user", approval_prompt="Really?", approval_default=default)
    assert await Stage(ApprovalTimeoutError()).process(result) == expected


async def test_without_an_approval_system_the_answer_is_no() -> None:
    stage = Stage()
    stage.coordinator.approval_system = None
    assert await stage.process(HookResult(action="ask_user")) == HookResult(
        action="deny", reason="No approval system available"
    )


@each_row("reply", [True, None, 1])
async def test_a_reply_that_is_no_text_is_an_error(reply: Any) -> None:
    with pytest.raises(TypeError):
        await Stage(reply).process(HookResult(action="ask_user"))
