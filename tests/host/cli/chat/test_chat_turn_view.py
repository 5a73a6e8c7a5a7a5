"""What is shown of a turn's events: text once, one line for each call, hints honoured, and nothing of bad values."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.cli.chat.conversation_screen import ConversationScreen
from paddock.cli.chat.tool_call import CallEnd, Change
from paddock.cli.chat.turn_view import TurnView
from paddock.policy.secrets.values import SecretValues
from support.rows import each_row

_OWN = "session"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class Drawn(ConversationScreen):
    """Keeps what is drawn, in order: texts, `|` for their ends, thoughts, notices, calls and changes."""

    def __init__(self) -> None:
        self.parts: list[Any] = []

    def say(self, text: str, *, is_thought: bool = False) -> None:
        self.parts.append(("thought", text) if is_thought else text)

    def end_text(self) -> None:
        self.parts.append("|")

    def notice(self, text: str, *, is_warning: bool = False) -> None:
        self.parts.append(("warning" if is_warning else "note", text))

    def show_call(self, call: CallEnd) -> None:
        self.parts.append(call)

    def show_change(self, change: Change) -> None:
        self.parts.append(change)

    def taken(self) -> list[Any]:
        parts, self.parts = self.parts, []
        return parts


class View(TurnView):
    def __init__(self, **more: Any) -> None:
        self.drawn = Drawn()
        super().__init__(self.drawn, _OWN, **more)


def _view(files: dict[str, str] | None = None, *, verbose: bool = False) -> View:
    return View(folder="/code", is_verbose=verbose, read=(files or {}).get, clock=Clock())


def _played(view: View, *events: tuple[str, dict[str, Any]], answer: str | None = None) -> list[Any]:
    view.begin()
    for event, data in events:
        view.take(event, {"session_id": _OWN, **data}, "loop")
    view.end(answer)
    *parts, end = view.drawn.taken()
    assert end == "|"  # every turn ends with one
    return parts


def _previewed(view: View, prompt: str) -> Change | None:
    view.preview(prompt)
    parts = view.drawn.taken()
    return parts[0] if parts else None


def _text(shown: list[Any]) -> str:
    return "".join(part for part in shown if isinstance(part, str))


def _delta(text: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "content_block:delta", {"block_type": "text", "delta": text, **more}


def _end(text: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "content_block:end", {"block_type": "text", "block": {"type": "text", "text": text, **more}}


_REQUEST = ("provider:request", {"provider": "mock"})


@each_row(
    ("events", "answer", "expected"),
    [
        pytest.param([_REQUEST, _delta("Hel"), _delta("lo"), _end("Hello")], "Hello", "Hello|", id="pieces-then-whole"),
        pytest.param([_REQUEST, _end("Hello")], "Hello", "Hello|", id="whole-block-alone"),
        pytest.param([_REQUEST], "Hello", "Hello", id="answer-alone"),
        pytest.param([_REQUEST, _delta("Hel"), _end("Hello")], "Hello", "Hello|", id="pieces-lack-the-end"),
        pytest.param([_REQUEST, _end("One"), _end("Two")], "One\n\nTwo", "One|Two|", id="answer-of-two-blocks"),
        pytest.param([_REQUEST, _end("One"), _REQUEST, _end("Two")], "Two", "One|Two|", id="two-requests"),
        pytest.param([_REQUEST, _end("One"), _REQUEST, _end("One")], "One", "One|One|", id="said-twice"),
        pytest.param([_REQUEST, _delta("Half")], "Half", "Half|", id="broken-off"),
        pytest.param(
            [
                _REQUEST,
                ("llm:stream_block_delta", {"text": "Hi"}),
                _delta("Hi"),
                ("llm:stream_block_end", {}),
                _end("Hi"),
            ],
            "Hi",
            "Hi|",
            id="told-of-by-provider-and-loop",
        ),
        pytest.param([_REQUEST, _delta("x", delta=5)], None, "", id="delta-is-no-text"),
        pytest.param([_REQUEST, ("content_block:end", {"block": "no table"})], None, "", id="block-is-no-table"),
        pytest.param([_REQUEST, _delta("theirs", session_id="below")], None, "", id="of-a-session-below"),
    ],
)
def test_a_text_is_shown_once(events: list[tuple[str, dict[str, Any]]], answer: str | None, expected: str) -> None:
    assert _text(_played(_view(), *events, answer=answer)) == expected


@each_row(
    ("hint", "for_user", "for_developer"),
    [("internal", "", ""), ("developer", "", "seen"), ("user", "seen", "seen"), ("", "seen", "seen")],
)
def test_hints_say_who_a_text_is_for(hint: str, for_user: str, for_developer: str) -> None:
    blocks = [_REQUEST, _end("seen", **({"visibility": hint} if hint else {}))]
    assert _text(_played(_view(), *blocks, answer="seen")).strip("|") == for_user
    assert _text(_played(_view(verbose=True), *blocks, answer="seen")).strip("|") == for_developer


def test_a_hint_at_a_blocks_start_counts_for_its_pieces() -> None:
    start = ("content_block:start", {"block_index": 0, "visibility": "internal"})
    assert _text(_played(_view(verbose=True), _REQUEST, start, _delta("secret plan", block_index=0))) == "|"


def test_thinking_is_for_developers_unless_a_hint_says_more() -> None:
    thought = ("thinking:delta", {"text": "hm"})
    assert _played(_view(), _REQUEST, thought) == ["|"]
    assert ("thought", "hm") in _played(_view(verbose=True), _REQUEST, thought)
    block = {"type": "thinking", "thinking": "hm", "visibility": "user"}
    assert ("thought", "hm") in _played(_view(), _REQUEST, ("content_block:end", {"block": block}))


def _calls(shown: list[Any]) -> list[CallEnd]:
    return [part for part in shown if isinstance(part, CallEnd)]


def _call(event: str, name: str = "bash", call_id: str = "1", **more: Any) -> tuple[str, dict[str, Any]]:
    return event, {"tool_name": name, "tool_call_id": call_id, **more}


def test_a_call_is_one_line_with_its_outcome() -> None:
    view = _view()
    given = {"tool_input": {"command": "pytest -q"}}
    (done,) = _calls(
        _played(view, _call("tool:pre", **given), _call("tool:post", **given, result={"success": True, "output": "x"}))
    )
    assert (done.name, done.argument, done.outcome, done.seconds) == ("bash", "pytest -q", "ok", 1.0)
    result = {"success": False, "error": {"message": "exit\ncode 1"}}
    (failed,) = _calls(_played(view, _call("tool:pre", **given), _call("tool:post", **given, result=result)))
    assert (failed.outcome, failed.reason) == ("failed", "exit code 1")
    (raised,) = _calls(_played(view, _call("tool:pre", **given), _call("tool:error", error={"msg": "no such tool"})))
    assert (raised.outcome, raised.reason) == ("failed", "no such tool")


def test_a_call_without_an_answer_is_shown_as_refused_or_stopped() -> None:
    block = {"type": "tool_call", "id": "1", "name": "bash", "input": {"command": "rm x"}}
    asked = ("content_block:end", {"block": block})
    (refused,) = _calls(_played(_view(), asked, _call("approval:denied", reason="the person said no"), _REQUEST))
    assert (refused.outcome, refused.reason, refused.seconds) == ("refused", "the person said no", None)
    (stopped,) = _calls(_played(_view(), asked, _call("tool:pre", tool_input={"command": "rm x"})))
    assert (stopped.outcome, stopped.reason) == ("failed", "stopped before it was done")


def test_an_edit_shows_the_change_in_its_file() -> None:
    files = {"/code/a.txt": "one\ntwo\nthree\n"}
    given = {"tool_input": {"file_path": "/code/a.txt", "old_string": "two", "new_string": "2"}}
    events = (
        _call("tool:pre", "edit_file", **given),
        _call("tool:post", "edit_file", **given, result={"success": True}),
    )
    (done,) = _calls(_played(_view(files), *events))
    assert done.argument == "a.txt" and done.change is not None
    assert done.change.lines == ("@ line 1", " one", "-two", "+2", " three")


def test_a_change_that_was_shown_with_a_question_is_not_shown_again() -> None:
    view = _view({"/code/a.txt": "one\n"})
    given = {"tool_input": {"file_path": "/code/a.txt", "content": "two\n"}}
    pre, post = _call("tool:pre", "write_file", **given), _call("tool:post", "write_file", **given, result={})
    view.begin()
    view.foresee({"session_id": _OWN, **pre[1]})
    assert _previewed(view, "may something else run?") is None
    change = _previewed(view, 'may it run with file_path: "/code/a.txt"?')
    assert change is not None and change.lines == ("@ line 1", "-one", "+two")
    assert _previewed(view, 'may it run with file_path: "/code/a.txt"?') is None
    view.take(*pre)
    view.take(*post)
    assert [call.change for call in _calls(view.drawn.taken())] == [None]


def test_a_preview_follows_what_earlier_calls_changed() -> None:
    files = {"/code/a.txt": "one\n"}
    view = _view(files)
    arguments = {"file_path": "/code/a.txt", "old_string": "two", "new_string": "three"}
    view.foresee({"tool_name": "edit_file", "tool_call_id": "1", "tool_input": arguments})
    files["/code/a.txt"] = "two\n"
    change = _previewed(view, "may it change /code/a.txt?")
    assert change is not None and not change.doubt and change.lines == ("@ line 1", "-two", "+three")


@each_row(
    ("output", "said", "left_out"),
    [
        ({"stdout": "out", "stderr": "one\ntwo\n"}, ("one", "two"), 0),
        ({"stdout": "out", "stderr": " \n"}, ("out",), 0),
        ({"stderr": "\n".join("abcdefg")}, tuple("abcde"), 2),
        ({"stderr": 7}, (), 0),
        ("text", (), 0),
    ],
)
def test_a_failed_command_shows_what_it_wrote(output: Any, said: tuple[str, ...], left_out: int) -> None:
    result = {"success": False, "output": output, "error": {"message": "ended with exit code 1"}}
    events = _call("tool:pre", "bash"), _call("tool:post", "bash", result=result)
    (done,) = _calls(_played(_view(), *events))
    assert (done.reason, done.said, done.left_out) == ("ended with exit code 1", said, left_out)


def test_a_question_about_one_of_several_calls_shows_no_guess() -> None:
    view = _view()
    for call_id, path in (("1", "a"), ("2", "ab")):
        view.foresee({"tool_name": "w", "tool_call_id": call_id, "tool_input": {"path": path, "content": "x"}})
    assert _previewed(view, "write ab?") is None


def test_a_call_of_a_session_below_is_nested_and_a_hidden_one_not_shown() -> None:
    below = {"session_id": "below", "tool_input": {}}
    (nested,) = _calls(_played(_view(), _call("tool:pre", **below), _call("tool:post", **below, result={})))
    assert nested.is_nested
    hidden = {"visibility": "internal", "tool_input": {}}
    assert not _calls(_played(_view(), _call("tool:pre", **hidden), _call("tool:post", **hidden, result={})))


def test_retries_and_notifications_are_a_line_each() -> None:
    retry = ("provider:retry", {"delay": 2.4, "error": {"msg": "overloaded"}})
    told = ("user:notification", {"message": "build\nis green", "level": "warning"})
    assert _played(_view(), retry, told) == [
        ("note", "the provider retries in 2 s: overloaded"),
        ("warning", "loop: build is green"),
    ]


def test_events_of_any_shape_are_passed_over() -> None:
    view = _view()
    for event in view.events:
        for data in (None, [], "x", {}, {"tool_input": 5, "block": [], "error": 3, "delta": {}, "result": [1]}):
            view.take(event, data, None)
    view.end("x")


def test_what_a_view_knows_of_calls_is_bounded() -> None:
    view = _view()
    for number in range(5000):
        view.take("tool:pre", {"tool_name": "t", "tool_call_id": str(number), "tool_input": {}})
    view.end(None)
    assert len(_calls(view.drawn.taken())) == 256


def test_an_answer_that_begins_anew_is_another_text() -> None:
    retry = ("provider:retry", {"delay": 0, "error": {"msg": "it broke off"}})
    assert _text(_played(_view(), _REQUEST, _delta("Hel"), retry, _delta("Hello"), _end("Hello"))) == "Hel|Hello|"


def test_an_answer_that_is_void_is_marked_and_the_next_is_shown_whole() -> None:
    void = ("content_block:discarded", {})
    first, second = ("llm:stream_block_delta", {"text": "Hel"}), ("llm:stream_block_delta", {"text": "Hello"})
    shown = _played(_view(), _REQUEST, first, void, second, _end("Hello"), answer="Hello")
    assert _text(shown) == "Hel|Hello|" and len([part for part in shown if part[0] == "note"]) == 1
    assert _played(_view(), _REQUEST, void, second, _end("Hello"), answer="Hello") == ["Hello", "|"]  # none was shown


def test_a_text_ends_where_its_call_begins_although_nothing_says_so() -> None:
    first, second = ("llm:stream:chunk", {"content": "Let me look."}), ("llm:stream:chunk", {"content": "Seen."})
    shown = _played(_view(), first, _call("tool:pre"), _call("tool:post", result={}), second, answer="Seen.")
    assert _text(shown) == "Let me look.|Seen.|"


_KEY = "sk-123456"


@each_row(
    "event",
    [
        ("tool:post", {"result": {"success": False, "error": {"message": "x" * 295 + _KEY}}}),
        ("tool:post", {"result": {"success": False, "output": "x" + " " * 1194 + _KEY}}),
        ("tool:error", {"error": {"msg": "x" * 295 + _KEY}}),
        ("tool:post", {"tool_name": "x" * 295 + _KEY, "tool_call_id": "other"}),
        ("approval:denied", {"reason": "x" * 295 + _KEY}),
        ("provider:retry", {"error": {"msg": "x" * 295 + _KEY}}),
        ("user:notification", {"message": "x" * 295 + _KEY}),
    ],
)
def test_what_is_cut_is_masked_before(event: tuple[str, dict[str, Any]]) -> None:
    name, data = event
    view = View(mask=SecretValues({"KEY": _KEY}).mask)
    asked = ("content_block:end", {"block": {"type": "tool_call", "id": "1", "name": "bash", "input": {}}})
    shown = _played(view, asked, (name, {"tool_call_id": "1", "tool_name": "bash", **data}))
    assert "sk-" not in str(shown) and "x" in str(shown)


def test_the_change_of_a_path_that_is_masked_is_shown_with_its_question() -> None:
    view = View(folder="/code", mask=SecretValues({"KEY": _KEY}).mask)
    view.foresee({"tool_name": "w", "tool_call_id": "1", "tool_input": {"path": f"/code/{_KEY}", "content": "x"}})
    change = _previewed(view, f"write /code/{_KEY}?")
    assert change is not None and change.path == "[secret KEY]"
