"""The streaming loop: how a reply is shown while it comes, and what is left of one that is broken off."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from amplifier_core.llm_errors import ProviderUnavailableError, StreamError
from amplifier_core.message_models import ChatResponse, TextBlock, ThinkingBlock, Usage
from amplifier_core.testing import MockTool
from loop_stage import calls
from loop_streaming_stage import Stage

pytestmark = pytest.mark.anyio

_PIECES = ("llm:stream_block_start", "llm:stream_block_delta", "llm:stream_block_end")
_BLOCKS = ("content_block:start", "content_block:end")


# --- a reply as it comes


async def test_the_answer_is_announced_word_by_word_and_stored_whole() -> None:
    stage = Stage("over the stones")
    stage.record(*_PIECES, *_BLOCKS)
    assert await stage.play() == "over the stones"
    pieces = [(data["sequence"], data["text"]) for data in stage.emitted(_PIECES[1])]
    assert pieces == [(0, "over "), (1, "the "), (2, "stones")]
    assert [name for name, _ in stage.events] == [_PIECES[0], *[_PIECES[1]] * 3, _PIECES[2], *_BLOCKS]
    assert {data["block_index"] for _, data in stage.events} == {0}
    assert stage.emitted("content_block:end")[0]["block"] == {"type": "text", "text": "over the stones"}
    assert stage.said == [("user", "go"), ("assistant", "over the stones")]


async def test_each_piece_is_heard_before_the_next_is_taken() -> None:
    taken: list[str] = []

    async def second() -> dict[str, str]:
        taken.append("second")
        return {"content": "b"}

    stage = Stage([{"content": "a"}, second])
    stage.hook(_PIECES[1], lambda data: taken.append(data["text"]))
    await stage.play()
    assert taken == ["a", "second", "b"]


async def test_thinking_text_and_calls_are_blocks_in_the_order_of_the_reply() -> None:
    whole = calls("look", text="let me see")
    whole.content.insert(0, ThinkingBlock(thinking="hm, yes", signature="sig"))
    whole.usage = Usage(input_tokens=1, output_tokens=2, total_tokens=3)
    pieces = [
        {"block_type": "thinking", "content": "hm, "},
        {"block_type": "thinking", "content": "yes"},
        {"type": "text_delta", "text": "let me see"},
        whole,
    ]
    stage = Stage(pieces, "done", tools=[MockTool("look")])
    stage.record(*_PIECES, *_BLOCKS)
    assert await stage.play() == "done"
    first = [data for _, data in stage.events if data["iteration"] == 1]
    assert [(data["block_type"], data["block_index"]) for data in first] == [
        *[("thinking", 0)] * 4,
        *[("text", 1)] * 3,
        *[("thinking", 0)] * 2,
        *[("text", 1)] * 2,
        *[("tool_call", 2)] * 2,
    ]
    ends = [data for data in stage.emitted("content_block:end") if data["iteration"] == 1]
    assert [data["block"]["type"] for data in ends] == ["thinking", "text", "tool_call"]
    assert [data.get("usage", {}).get("total_tokens") for data in ends] == [None, None, 3]
    assert stage.context.messages[1]["content"][0] == {"type": "thinking", "thinking": "hm, yes", "signature": "sig"}
    assert stage.provider.tools == [["look"], ["look"]]


async def test_a_stream_without_a_response_at_its_end_is_a_response() -> None:
    stage = Stage(["plain ", {"delta": "words"}, {"type": "ping"}])
    assert await stage.play() == "plain words"
    assert stage.said[-1] == ("assistant", "plain words")


async def test_a_stream_may_be_what_a_coroutine_returns() -> None:
    stage = Stage("over the stones")
    stream = stage.provider.stream

    async def opened(request: Any, tools: Any) -> Any:
        return stream(request, tools)

    stage.provider.stream = opened
    assert await stage.play() == "over the stones"


async def test_a_provider_that_cannot_stream_is_asked_for_the_whole_answer() -> None:
    class Whole:
        async def complete(self, request: Any, **kwargs: Any) -> ChatResponse:
            return ChatResponse(content=[TextBlock(text="at once")])

    stage = Stage()
    stage.provider = Whole()
    stage.record(*_BLOCKS)
    assert await stage.play() == "at once"
    assert [name for name, _ in stage.events] == [*_BLOCKS]


# --- a reply that is broken off


async def test_a_cancelled_reply_leaves_what_was_shown_and_closes_the_stream() -> None:
    shown, never = asyncio.Event(), asyncio.Event()

    async def hang() -> Any:
        shown.set()
        await never.wait()

    stage = Stage([{"content": "half an "}, {"content": "answer"}, hang])
    stage.record(*_PIECES, "message.end")
    turn = await stage.begun(shown)
    stage.coordinator.cancellation.request_immediate()

    assert await turn == "half an answer"
    assert stage.said == [("user", "go"), ("assistant", "half an answer")]
    assert stage.provider.closed == 1
    assert not stage.emitted(_PIECES[2])
    assert stage.emitted("message.end")[0]["status"] == "cancelled"


async def test_a_stream_that_fails_is_announced_raised_and_what_was_shown_stays() -> None:
    stage = Stage([{"content": "half"}, ProviderUnavailableError("gone")], "recovered")
    stage.record("provider:error", *_BLOCKS, "error")
    with pytest.raises(ProviderUnavailableError):
        await stage.play()
    assert [name for name, _ in stage.events] == ["provider:error", "error"]
    assert stage.said == [("user", "go"), ("assistant", "half")]
    assert await stage.play("again") == "recovered"


_LOST = [ProviderUnavailableError("it died", retryable=True, retry_after=0.0), StreamError("cut")]


@pytest.mark.parametrize("error", _LOST, ids=["died", "cut"])
async def test_an_answer_that_is_lost_in_the_middle_is_asked_for_again(error: Exception) -> None:
    stage = Stage([{"content": "half"}, error], [{"content": "whole"}])
    stage.record(*_PIECES, "content_block:discarded")
    assert await stage.play() == "whole"
    assert [data.get("text") for name, data in stage.events if name not in _PIECES[::2]] == ["half", None, "whole"]
    assert stage.said == [("user", "go"), ("assistant", "whole")]


async def test_a_stream_that_never_began_is_not_asked_for_again() -> None:
    stage = Stage([StreamError("cut")], [{"content": "whole"}])
    with pytest.raises(StreamError):
        await stage.play()


# --- a reply whose pieces its provider announces


_SHOWN = (_PIECES[1], *_BLOCKS, "content_block:discarded")


async def test_pieces_that_the_provider_announces_are_announced_once() -> None:
    stage = Stage.announced([["over ", "the stones"]])
    stage.record(*_SHOWN)
    assert await stage.play() == "over the stones"
    assert [name for name, _ in stage.events] == [_SHOWN[0], _SHOWN[0], *_BLOCKS]
    assert stage.said == [("user", "go"), ("assistant", "over the stones")]


async def test_a_cancelled_reply_leaves_what_its_provider_showed() -> None:
    shown, never = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        shown.set()
        await never.wait()

    stage = Stage.announced([["half an ", "answer", hang]], [["whole"]])
    turn = await stage.begun(shown)
    stage.coordinator.cancellation.request_immediate()
    assert await turn == "half an answer"
    assert stage.said == [("user", "go"), ("assistant", "half an answer")]
    stage.coordinator.cancellation.reset()
    assert await stage.play("again") == "whole"
    assert stage.said[2:] == [("user", "again"), ("assistant", "whole")]


@pytest.mark.parametrize(
    ("tries", "kept"),
    [
        pytest.param([["half"]], "half", id="the-only-try"),
        pytest.param([["void"], ["ha", "lf"]], "half", id="a-second-try"),
        pytest.param([["one", 1, "two"], [1, "half"]], "one\n\nhalf", id="a-second-try-of-the-rest"),
    ],
)
async def test_a_reply_that_fails_leaves_what_counts_of_it(tries: list[list[Any]], kept: str) -> None:
    tries[-1].append(StreamError("cut"))
    stage = Stage.announced(tries)
    with pytest.raises(StreamError):
        await stage.play()
    assert stage.said == [("user", "go"), ("assistant", kept)] and len(stage.provider.requests) == 1


async def test_what_a_provider_showed_before_it_died_is_void() -> None:
    stage = Stage.announced([["half", _LOST[0]]], [["whole"]])
    stage.record(*_SHOWN)
    assert await stage.play() == "whole"
    assert [name for name, _ in stage.events][:3] == [_SHOWN[0], "content_block:discarded", _SHOWN[0]]
    assert stage.said == [("user", "go"), ("assistant", "whole")]


async def test_a_graceful_cancel_takes_the_answer_to_its_end() -> None:
    async def cancel() -> dict[str, str]:
        stage.coordinator.cancellation.request_graceful()
        return {"content": "all "}

    stage = Stage([cancel, {"content": "of it"}])
    assert await stage.play() == "all of it"
    assert stage.said[-1] == ("assistant", "all of it")


@pytest.mark.parametrize("step", range(0, 60, 3))
async def test_cancelled_at_any_step_no_call_stays_open(step: int) -> None:
    pieces = [{"content": "hm"}, calls("a", "b", text="hm")]
    stage = Stage(pieces, pieces, "done", tools=[MockTool("a"), MockTool("b")])
    turn = asyncio.create_task(stage.play())
    for _ in range(step):
        await asyncio.sleep(0)
    turn.cancel()
    await asyncio.wait([turn])
    stage.assert_whole()
