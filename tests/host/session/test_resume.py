"""What has changed since a session last ran, and what became of its open tool calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock.errors import KindError
from paddock.rpc.marshal import Marshaller
from paddock.session.journals.journal_file import JournalError, Kind, Record
from paddock.session.journals.kept_session import (
    Call,
    End,
    KeptModule,
    KeptSession,
    Meta,
    Result,
    Turn,
    encoded,
    kept_session,
)
from paddock.session.journals.resume import (
    NOT_STARTED,
    STOPPED,
    UNKNOWN,
    CallOutcomes,
    Resume,
    differences,
)
from paddock_sdk.contract.models import ToolResult
from support.rows import each_row

_MARSHALLER = Marshaller()
_BEFORE = Meta(
    paddock="1",
    session="s-1",
    pid=7,
    plan="/p/plan.yaml",
    digest="d1",
    working_dir="/p",
    modules={
        "tool-bash": KeptModule(kind="tool", source="git+https://h/x@1", commit="a" * 40, grants={"read": ["."]}),
        "hooks-x": KeptModule(kind="hook", source="./x", tree="t1"),
    },
)


def _now(**modules: dict[str, Any] | None) -> Meta:
    """Return what a host writes later, with modules that differ, or are gone."""
    kept = {name: one.model_dump() for name, one in _BEFORE.modules.items()}
    for name, change in modules.items():
        key = name.replace("_", "-")
        if change is None:
            del kept[key]
        else:
            kept[key] = {**kept.get(key, {"kind": "tool", "source": "./new"}), **change}
    return Meta.model_validate({**_BEFORE.model_dump(), "modules": kept})


@each_row(
    ("now", "told"),
    [
        (_BEFORE, []),
        (_BEFORE.model_copy(update={"digest": "d2"}), ["the plan has changed: /p/plan.yaml"]),
        (_BEFORE.model_copy(update={"plan": "/q.yaml"}), ["the plan is /q.yaml, and was /p/plan.yaml"]),
        (_BEFORE.model_copy(update={"working_dir": "/q"}), ["modules work in /q, and did in /p"]),
        (_now(hooks_x=None), ["hooks-x is gone"]),
        (_now(tool_new={}), ["tool-new is new: it will see the earlier conversation"]),
        (
            _now(tool_new={"grants": {"net": ["h.example"]}}),
            ["tool-new is new: it will see the earlier conversation, and may send it: net: [h.example]"],
        ),
        (_now(hooks_x={"tree": "t2"}), ["hooks-x runs other code: ./x t2, and before ./x t1"]),
        (
            _now(hooks_x={"grants": {"net": ["h.example"]}}),
            ["hooks-x may newly send: it will see the earlier conversation; net: [h.example]"],
        ),
        (_now(tool_bash={"grants": {"read": [".", "/x"]}}), ["tool-bash is granted read: [., /x], and before [.]"]),
        (_now(tool_bash={"grants": {}}), ["tool-bash is granted read: nothing, and before [.]"]),
    ],
)
async def test_each_difference_is_told(now: Meta, told: list[str]) -> None:
    assert list(differences(_BEFORE, now)) == told
    asked: list[tuple[str, ...]] = []

    async def ask(changes: Any) -> bool:
        asked.append(tuple(changes))
        return False

    await Resume("s-1", accept_changes=True, ask=ask).check(_BEFORE, now)
    if told:
        with pytest.raises(KindError, match="was of another plan") as caught:
            await Resume("s-1", ask=ask).check(_BEFORE, now)
        assert list(caught.value.detail) == told
        assert "--accept-changes" in caught.value.hints[-1]
    else:
        await Resume("s-1", ask=ask).check(_BEFORE, now)
    assert asked == ([tuple(told)] if told else [])


async def test_a_refusal_tells_the_plan_and_the_folder_that_it_had() -> None:
    elsewhere = _BEFORE.model_copy(update={"plan": "/q.yaml", "working_dir": "/q"})
    with pytest.raises(KindError, match="was of another plan") as caught:
        await Resume("s-1").check(_BEFORE, elsewhere)
    assert caught.value.hints[:2] == (
        "to go on with the plan that it had, name that one: `/p/plan.yaml`",
        "to have modules work where they did: `-C /p`",
    )
    with pytest.raises(KindError, match="was of another plan") as caught:
        await Resume("s-1").check(_BEFORE, _BEFORE.model_copy(update={"digest": "d2"}))
    assert len(caught.value.hints) == 1


def _asking(*calls: tuple[str, str, Any]) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": id, "name": tool, "arguments": given} for id, tool, given in calls],
    }


def _add(message: dict[str, Any]) -> tuple[Kind, bytes]:
    return Kind.ADD, bytes(_MARSHALLER.encode([[message], {}]).body)


def _call(number: int, tool: str, given: Any, id: str | None = None) -> tuple[Kind, bytes]:
    ambient = [] if id is None else [{"dispatch_context": {"tool_call_id": id}}]
    body = _MARSHALLER.encode([[given], {}, *ambient]).body
    return Kind.CALL, encoded(Call(call=number, module="tool-x", tool=tool), bytes(body))


def _unreadable(number: int, tool: str) -> tuple[Kind, bytes]:
    return Kind.CALL, encoded(Call(call=number, module="tool-x", tool=tool), b"\xc1")


def _result(number: int, output: object = None) -> tuple[Kind, bytes]:
    answer = b"" if output is None else bytes(_MARSHALLER.encode(ToolResult(output=output)).body)
    return Kind.RESULT, encoded(Result(call=number), answer)


def _kept(*written: tuple[Kind, bytes]) -> KeptSession:
    records = [(Kind.META, encoded(_BEFORE)), *written]
    return kept_session(Path("s-1.journal"), [Record(kind, 1.0, body) for kind, body in records])


@each_row(
    ("calls", "answers"),
    [
        pytest.param([], [NOT_STARTED], id="no call"),
        pytest.param([_call(1, "mark", {"a": 1}, "c1")], [UNKNOWN], id="begun"),
        pytest.param([_call(1, "mark", {"a": 1}, "c1"), _result(1, "done")], ["done"], id="ended"),
        pytest.param([_call(1, "mark", {"a": 1}, "c1"), _result(1)], [STOPPED], id="stopped"),
        pytest.param([_call(1, "mark", {"a": 1}), _result(1, "done")], ["done"], id="known by its input"),
        pytest.param([_call(1, "mark", {"changed": 1}), _result(1, "done")], [UNKNOWN], id="input changed by a hook"),
        pytest.param([_call(1, "mark", {"changed": 1}, "c1"), _result(1, "done")], ["done"], id="known by its id"),
        pytest.param([_call(1, "other", {"a": 1}, "c9")], [NOT_STARTED], id="another tool"),
        pytest.param([_call(1, "mark", {"a": 1}, "c9")], [UNKNOWN], id="a call with an id that nothing asked for"),
        pytest.param([_unreadable(1, "mark")], [UNKNOWN], id="unreadable"),
    ],
)
def test_an_open_call_is_answered_by_what_is_known_of_it(calls: list[tuple[Kind, bytes]], answers: list[str]) -> None:
    kept = _kept(_add({"role": "user", "content": "go"}), _add(_asking(("c1", "mark", {"a": 1}))), *calls)
    outcomes = CallOutcomes(kept, _MARSHALLER)
    closing = outcomes.closing(kept.messages())
    assert [(one["tool_call_id"], one["content"]) for one in closing] == [("c1", answers[0])]
    assert outcomes.lines[0].startswith("mark {'")
    assert all(line.endswith("the conversation does not have it") for line in outcomes.lines[1:])


def test_a_call_that_began_before_the_conversation_was_set_counts() -> None:
    request = _asking(("c1", "mark", {"a": 1}), ("c2", "mark", {"a": 2}))
    compacted = Kind.SET, bytes(_MARSHALLER.encode([[[request]], {}]).body)
    kept = _kept((Kind.TURN, encoded(Turn(prompt="go"))), _add(request), _call(1, "mark", {"a": 1}, "c1"), compacted)
    outcomes = CallOutcomes(kept, _MARSHALLER)
    assert [message["content"] for message in outcomes.closing(kept.messages())] == [
        UNKNOWN,
        NOT_STARTED,
    ]


def test_a_damaged_journal_says_of_no_call_that_it_did_not_run() -> None:
    kept = _kept(_add(_asking(("c1", "mark", {"a": 1}))))
    kept.is_cut = True
    assert [one["content"] for one in CallOutcomes(kept, _MARSHALLER).closing(kept.messages())] == [UNKNOWN]


@each_row(
    ("told", "content", "lines"),
    [
        ([("c1", "harmless", {})], UNKNOWN, ["mark {'a': 1}: outcome unknown: it may have run; the model is told so"]),
        ([("c2", "mark", {})], UNKNOWN, ["mark {}: outcome unknown", "mark {'a': 1}: outcome unknown"]),
        ([], None, ["mark {'a': 1}: outcome unknown: it may have run; the conversation does not have it"]),
    ],
    ids=["another tool", "another id", "no call"],
)
def test_a_context_that_lies_hides_no_call_that_was_under_way(
    told: list[tuple[str, str, Any]], content: str | None, lines: list[str]
) -> None:
    kept = _kept(_add(_asking(("c1", "mark", {"a": 1}))), _call(1, "mark", {"a": 1}, "c1"))
    outcomes = CallOutcomes(kept, _MARSHALLER)
    closing = outcomes.closing([_asking(*told)])
    assert [one["content"] for one in closing] == ([] if content is None else [content])
    assert len(outcomes.lines) == len(lines)
    assert all(line.startswith(start) for line, start in zip(outcomes.lines, lines, strict=True))


def test_a_line_of_what_became_of_a_call_is_short() -> None:
    kept = _kept(_add(_asking(("c1", "m" * 5000, {"a": "x" * 5000}))))
    outcomes = CallOutcomes(kept, _MARSHALLER)
    outcomes.closing(kept.messages())
    assert len(outcomes.lines[0]) < 1000


def test_a_context_that_asks_for_much_hides_nothing_and_tells_little() -> None:
    asked = [(f"c{number}", "mark", {}) for number in range(5000)]
    kept = _kept(_add(_asking(*asked)), _call(1, "mark", {}, "c4999"))
    outcomes = CallOutcomes(kept, _MARSHALLER)
    assert len(outcomes.closing(kept.messages())) == 5000
    assert len(outcomes.lines) < 30
    assert any("it may have run" in line for line in outcomes.lines)
    assert "4979 more" in outcomes.lines[-1]


@each_row("args", [{"a": 1}, 1, 1.5, True, [7], "text"])
def test_a_call_without_a_list_of_arguments_is_passed_over(args: object) -> None:
    written = Kind.ADD, bytes(_MARSHALLER.encode([args, {}]).body)
    kept = _kept(_add(_asking(("c1", "mark", {}))), written, _call(1, "mark", {}, "c1"))
    assert [one["content"] for one in CallOutcomes(kept, _MARSHALLER).closing(kept.messages())] == [UNKNOWN]


def test_a_call_of_an_earlier_request_does_not_answer_a_later_one() -> None:
    answered = {"role": "tool", "tool_call_id": "c1", "content": "first"}
    kept = _kept(
        _add(_asking(("c1", "mark", {"a": 1}))),
        _call(1, "mark", {"a": 1}),
        _result(1, "first"),
        _add(answered),
        _add(_asking(("c2", "mark", {"a": 1}))),
    )
    assert [one["content"] for one in CallOutcomes(kept, _MARSHALLER).closing(kept.messages())] == [NOT_STARTED]


def test_two_equal_calls_are_answered_each_by_its_own() -> None:
    kept = _kept(
        _add(_asking(("c1", "mark", {}), ("c2", "mark", {}))),
        _call(1, "mark", {}, "c2"),
        _call(2, "mark", {}, "c1"),
        _result(1, "of two"),
    )
    closing = CallOutcomes(kept, _MARSHALLER).closing(kept.messages())
    assert [one["content"] for one in closing] == [UNKNOWN, "of two"]


def test_what_a_journal_tells_of_turns() -> None:
    turn, end = (Kind.TURN, encoded(Turn(prompt="one"))), (Kind.END, encoded(End(outcome="answer", turn=1)))
    assert _kept(turn).interruption == "its host was killed during turn 1"
    assert _kept(turn, end).interruption == "its host was killed after turn 1"
    assert _kept().interruption == "its host was killed"
    over = _kept(turn, end, (Kind.OVER, b""))
    assert not over.was_interrupted and over.interruption == "" and [one.prompt for one in over.turns] == ["one"]
    assert _kept(turn, end, (Kind.OVER, b""), (Kind.META, encoded(_BEFORE))).was_interrupted  # by its second host


@each_row(
    ("kind", "body"),
    [
        (Kind.META, b"{}"),
        (Kind.TURN, b"[]"),
        (Kind.END, encoded(End(outcome="answer"))),
        (Kind.CALL, b"\xff"),
    ],
    ids=["meta", "turn", "end without a turn", "call"],
)
def test_a_record_of_another_form_is_refused(kind: Kind, body: bytes) -> None:
    with pytest.raises(JournalError, match="record 2 is not of its form"):
        _kept((kind, body))


@each_row("at", [-1.0, 1e300, float("inf"), float("nan")])
def test_a_time_that_no_clock_tells_is_refused(at: float) -> None:
    with pytest.raises(JournalError, match="record 1 is not of its form"):
        kept_session(Path("x"), [Record(int(Kind.META), at, encoded(_BEFORE))])


def test_a_kind_of_a_later_version_is_passed_over() -> None:
    records = [Record(int(Kind.META), 1.0, encoded(_BEFORE)), Record(99, 1.0, b"?")]
    assert kept_session(Path("x"), records).id == "s-1"


def test_a_damaged_message_and_one_with_live_objects_are_left_out() -> None:
    said = {"role": "user", "content": "still here"}
    assert _kept((Kind.ADD, b"\xc1\xc1"), (Kind.ADD, b""), _add(said)).messages() == [said]


def test_texts_with_halves_of_characters_leave_a_journal_readable() -> None:
    meta, end = _BEFORE.model_copy(update={"plan": "/a/\udcff"}), End(outcome="error", error="a module's \udfff")
    heads = ((Kind.META, meta), (Kind.TURN, Turn(prompt="\ud800")), (Kind.END, end))
    kept = kept_session(Path("s.journal"), [Record(kind, 0.0, encoded(head)) for kind, head in heads])
    assert (kept.metas, kept.turns[0].prompt, kept.turns[0].end) == ([meta], "\ud800", end)
