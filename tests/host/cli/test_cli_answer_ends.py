"""What a person is told of the end of an answer: each that is no ordinary one, once, and another model that answers."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

from paddock.cli.terminal.answer_ends import AnswerEnds
from paddock.cli.terminal.render import Screen
from support.rows import each_row


def _told(*heard: tuple[str, Any]) -> str:
    handlers: dict[str, Any] = {}
    hooks = SimpleNamespace(register=lambda event, take, **_: handlers.__setitem__(event, take))
    session: Any = SimpleNamespace(
        coordinator=SimpleNamespace(hooks=hooks), mask=lambda text: text.replace("sk-1", "…")
    )
    ends, stream = AnswerEnds(session), io.StringIO()
    for event, data in heard:
        handlers[event](event, data)
    ends.tell(Screen(stream))
    before = stream.getvalue()
    ends.tell(Screen(stream))
    assert stream.getvalue() == before  # once
    return " ".join(before.split())


@each_row("reason", ["stop", "end_turn", "tool_calls", "STOP", None, 7, ""])
def test_an_ordinary_end_is_not_told(reason: Any) -> None:
    assert _told(("llm:response", {"finish_reason": reason}), ("provider:response", None)) == ""


@each_row(
    ("reason", "told"),
    [
        ("length", "was cut off"),
        ("MAX_TOKENS", "was cut off"),
        ("model_context_window_exceeded", "fills the model's window"),
        ("content_filter", "held back a part"),
        ("refusal", "refused to answer"),
        ("abort sk-1 \x1b[2J", r"not known: `abort … \x1b[2J`"),
    ],
)
def test_every_other_end_is_told_once(reason: str, told: str) -> None:
    of_loop = {"response": {"finish_reason": reason, "content": [{"type": "text"}]}}
    shown = _told(("llm:response", {"finish_reason": reason}), ("provider:response", of_loop))
    assert told in shown and shown.count("warning:") == 1


def test_an_empty_answer_and_another_model_are_told() -> None:
    of_loop = {"response": {"finish_reason": "stop", "content": []}, "tool_calls": False}
    thoughts = {"response": {"finish_reason": "stop", "content": [{"type": "thinking", "thinking": "hm"}]}}
    for empty in (of_loop, thoughts):
        assert "answer is empty" in _told(("provider:response", empty))
    assert _told(("provider:response", {**of_loop, "tool_calls": True})) == ""
    models = [("llm:response", {"model": "small", "response_model": name}) for name in ("small-1", "small-1", "large")]
    assert _told(*models[:2]) == "" and "now answers with the model `large`" in _told(*models)
