"""What models and servers do wrong, over both vendors' providers and two loops: the turn goes on, the model is told.

Each row is an answer of a server. The servers judge requests as strictly as their vendors do, so a conversation that
a slip had broken would be refused in the next request.
"""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import chain, repeat, zip_longest
from types import SimpleNamespace
from typing import Any

import pytest
from agent_loop.messages import well_formed
from amplifier_core.llm_errors import ContextLengthError, InvalidRequestError, InvalidToolCallError, LLMError
from amplifier_core.message_models import ChatRequest, Message
from amplifier_core.models import ToolResult
from amplifier_core.testing import EventRecorder, MockContextManager
from amplifier_module_context_simple import SimpleContextManager
from amplifier_module_loop_basic import BasicOrchestrator
from amplifier_module_loop_basic import LoopSettings as BasicSettings
from amplifier_module_loop_streaming import Settings as StreamingSettings
from amplifier_module_loop_streaming import StreamingOrchestrator
from hypothesis import given
from hypothesis import strategies as st

from modules.scene import VENDORS, Scene, openai_provider, scenes
from paddock.cli.terminal.answer_ends import AnswerEnds
from paddock.cli.terminal.render import Screen
from paddock_sdk.kernel.hooks import HookRegistry
from support.rows import each_row
from vendors.dialect import Reply
from vendors.openai_dialect import OpenAIDialect

_EMOJI = "\U0001f600"
_HIGH, _LOW = "\ud83d", "\ude00"  # its halves, as two deltas deliver them

_LOOPS: Mapping[str, Callable[[int], Any]] = {
    "loop-basic": lambda most: BasicOrchestrator(BasicSettings(max_iterations=most)),
    "loop-streaming": lambda most: StreamingOrchestrator(StreamingSettings(max_iterations=most)),
}


class _Look:
    name = "look"
    description = "looks"
    input_schema = {"type": "object", "properties": {"at": {}}}

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        self.seen.append(input)
        return ToolResult(success=True, output=f"saw {input.get('at')}" * input.get("times", 1))


@dataclass
class Play:
    """A turn that was played: the answer, the conversation, and what the parts saw."""

    scene: Scene[Any]
    look: _Look
    context: Any
    events: EventRecorder
    answers: list[str] = field(default_factory=list)

    @property
    def told(self) -> str:
        """The last request, as text."""
        return json.dumps(self.scene.sent[-1], ensure_ascii=False)


Open = Callable[..., Any]


@pytest.fixture(params=[f"{vendor}, {loop}" for vendor in VENDORS for loop in _LOOPS])
async def play(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    vendor, loop = request.param.split(", ")
    dialect, made = VENDORS[vendor]
    async with AsyncExitStack() as closing:
        begin = await closing.enter_async_context(scenes(dialect, made))

        async def played(
            turns: list[Any],
            *prompts: str,
            context: Any | None = None,
            script: dict[str, Any] | None = None,
            config: dict[str, Any] | None = None,
            requests: int = 4,
        ) -> Play:
            words = {"cut": "max_tokens" if vendor == "anthropic" else "length"}
            written = [
                {**turn, "finish": words.get(turn["finish"], turn["finish"])}
                if isinstance(turn, dict) and "finish" in turn
                else turn
                for turn in turns
            ]
            scene = begin(written, config, **(script or {}))
            play = Play(scene, _Look(), context or MockContextManager(), EventRecorder())
            for prompt in prompts or ("hello",):
                answer = await _LOOPS[loop](requests).execute(
                    prompt, play.context, {vendor: scene.provider}, {"look": play.look}, play.events
                )
                play.answers.append(answer)
            assert script is not None or not scene.server.refusals
            return play

        yield played


def _call(arguments: Any, *, name: str = "look", id: str = "") -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "id": id}


@dataclass(frozen=True)
class Slip:
    """A server's answer, and what the next request has to say of it."""

    turn: dict[str, Any]
    told: tuple[str, ...]


_SLIPS = {
    "no JSON": Slip({"tool_calls": [_call('{"at": ')]}, ("no JSON object", "`look`")),
    "a list": Slip({"tool_calls": [_call("[1]")]}, ("no JSON object", "[1]")),
    "a number": Slip({"tool_calls": [_call("7")]}, ("no JSON object",)),
    "cut off": Slip({"tool_calls": [_call('{"at": "he')], "finish": "cut"}, ("cut off", "max_output_tokens")),
    "cut off after words": Slip(
        {"text": "I look.", "tool_calls": [_call('{"at": "he')], "finish": "cut"}, ("cut off", "max_output_tokens")
    ),
    "cut off before anything": Slip({"tool_calls": [_call("{")], "finish": "cut"}, ("cut off",)),
    "no known tool": Slip({"tool_calls": [_call("{}", name="lok")]}, ("no tool named `lok`", "look")),
    "one of two broken": Slip({"tool_calls": [_call("{}"), _call('{"at"')]}, ("no JSON object",)),
}


@pytest.mark.exhaustive("loop-streaming")
@pytest.mark.parametrize("case", _SLIPS)
async def test_the_model_is_told_of_its_slip(play: Open, case: str) -> None:
    slip = _SLIPS[case]
    played = await play([slip.turn, "done"])
    assert played.answers == ["done"] and not played.look.seen
    assert len(played.scene.sent) == 2 and not played.scene.slept  # told at once, instead of asked again
    assert [word for word in slip.told if word not in played.told] == []
    (failed,) = [data for name, data in played.events.events if name == "tool:error"]
    assert failed["tool_name"] == slip.turn["tool_calls"][0]["name"]


async def test_a_turn_of_nothing_but_slips_ends_at_its_bound(play: Open) -> None:
    slip = {"tool_calls": [_call('{"at": ')]}
    played = await play([slip] * 4 + ["enough"])
    assert played.answers == ["enough"] and len(played.scene.sent) == 5


async def test_a_conversation_that_is_too_long_is_sent_once_more_in_half(play: Open) -> None:
    look = {"tool_calls": [_call({"at": "it", "times": 5000})]}
    played = await play([look, "done"], script={"context_tokens": 4000}, context=SimpleContextManager())
    assert played.answers == ["done"] and "[shortened" in played.told
    whole = await played.context.get_messages()
    assert "[shortened" not in json.dumps(whole) and not played.scene.slept


@pytest.mark.exhaustive("loop-streaming")
@pytest.mark.parametrize("play", [f"openai, {loop}" for loop in _LOOPS], indirect=True)  # for servers of one's own
async def test_a_small_model_that_slips_in_every_way_finishes_a_long_task(play: Open) -> None:
    slips = [slip.turn for slip in _SLIPS.values()]
    work = [{"tool_calls": [_call({"at": step, "times": 900})]} for step in range(10)]  # more than it can take at once
    turns = [turn for pair in zip_longest(slips, work) for turn in pair if turn is not None]
    small = {"context_window": 8192, "max_output_tokens": 1024}
    script = {"context_tokens": 8192}
    played = await play([*turns, "done"], context=SimpleContextManager(), script=script, config=small, requests=30)
    assert played.answers == ["done"] and [one["at"] for one in played.look.seen] == list(range(10))
    assert not played.scene.server.refusals and not played.scene.slept and "[shortened" in played.told


def _said(*deltas: Mapping[str, Any], finish: str | None = None, **more: Any) -> list[dict[str, Any]]:
    """Return chunks of a server, one for each delta; the last one has the reason for the end."""
    ends = [None] * (len(deltas) - 1) + [finish]
    return [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": end}], **more}
        for delta, end in zip(deltas, ends, strict=True)
    ]


def _part(index: int | None, id: str | None, name: str | None, arguments: Any) -> dict[str, Any]:
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"tool_calls": [call if index is None else {"index": index, **call}]}


_NOTHING: dict[str, Any] = dict.fromkeys(("content", "role", "function_call", "tool_calls", "audio", "refusal"))
_BOTH = [{"at": 1}, {"at": 2}]

# How servers on one's own machine were seen to stream two calls, {"at": 1} and {"at": 2}.
_SERVERS: Mapping[str, list[dict[str, Any]]] = {
    "Ollama, each call at index 0, then `stop`": _said(
        {"role": "assistant", "content": "", "reasoning": "hm"},
        {"role": "assistant", "content": "", **_part(0, "call_a", "look", '{"at":1}')},
        {"role": "assistant", "content": "", **_part(0, "call_b", "look", '{"at":2}')},
        {"role": "assistant", "content": ""},
        finish="stop",
        system_fingerprint="fp_ollama",
    ),
    "Ollama of old, without an index": _said(
        {"content": "", **_part(None, "call_a", "look", '{"at":1}')},
        {"content": "", **_part(None, "call_b", "look", '{"at":2}')},
        finish="stop",
    ),
    "vLLM, the end in the chunk of the last arguments": _said(
        {"role": "assistant", "content": "", "tool_calls": []},
        _part(0, "chatcmpl-tool-a", "look", ""),
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"at": 1}'}}]},
        _part(1, "chatcmpl-tool-b", "look", '{"at": '),
        {"tool_calls": [{"index": 1, "function": {"arguments": "2}"}}]},
        finish="tool_calls",
    ),
    "llama.cpp, with its timings and thoughts": _said(
        {"role": "assistant", "content": None},
        {"reasoning_content": "hm"},
        _part(0, "a", "look", "{"),
        {"tool_calls": [{"index": 0, "function": {"arguments": '"at":1}'}}]},
        _part(1, "b", "look", '{"at":2}'),
        {},
        finish="tool_calls",
        timings={"prompt_n": 10, "predicted_ms": 2.5},
    ),
    "llama.cpp, a call that has no id": _said(
        _part(0, "", "look", '{"at":1}'), _part(1, "", "look", '{"at":2}'), {}, finish="stop"
    ),
    "LM Studio, ids of digits": _said(
        {"role": "assistant"},
        _part(0, "365174485", "look", ""),
        {"tool_calls": [{"index": 0, "type": "function", "function": {"arguments": '{"at":1}'}}]},
        _part(1, "365174486", "look", ""),
        {"tool_calls": [{"index": 1, "type": "function", "function": {"arguments": '{"at":2}'}}]},
        {},
        finish="tool_calls",
    ),
    "LiteLLM, each key in each delta, and an end of another vendor": [
        {"id": "", "model": "", "choices": [], "usage": None},
        *_said(
            {**_NOTHING, "role": "assistant", "content": ""},
            {**_NOTHING, **_part(0, "call_a", "look", "")},
            {**_NOTHING, **_part(0, None, None, '{"at": 1}')},
            {**_NOTHING, **_part(1, "call_b", "look", '{"at": 2}')},
            _NOTHING,
            finish="end_turn",
        ),
    ],
    "LiteLLM, arguments as an object": _said(
        _part(0, "call_a", "look", {"at": 1}), _part(1, "call_b", "look", {"at": 2}), {}, finish="tool_calls"
    ),
}


class _Recorded(OpenAIDialect):
    """Streams these chunks as its first answer."""

    def __init__(self, chunks: Iterable[dict[str, Any]], quirks: frozenset[str]) -> None:
        super().__init__(quirks)
        self._chunks = chunks

    def events(self, reply: Reply) -> Iterator[str]:
        if reply.number > 1:
            yield from super().events(reply)
            return
        for chunk in self._chunks:
            yield f"data: {json.dumps(chunk)}\n\n"
        yield "data: [DONE]\n\n"


@each_row("server", _SERVERS)
async def test_the_calls_of_a_local_server_are_made_as_it_means_them(server: str) -> None:
    async with scenes(lambda quirks: _Recorded(_SERVERS[server], quirks), openai_provider) as begin:
        scene, look = begin(["recorded", "done"]), _Look()
        context: Any = MockContextManager()
        answer = await _LOOPS["loop-streaming"](4).execute(
            "hello", context, {"openai": scene.provider}, {"look": look}, EventRecorder()
        )
        assert answer == "done" and look.seen == _BOTH
        assert not scene.server.refusals and not scene.slept


async def test_a_call_without_an_end_is_not_heard_out_and_told() -> None:
    endless = chain(_said(_part(0, "a", "look", "")), repeat(_said(_part(0, "a", None, "x" * 100_000))[0]))
    async with scenes(lambda quirks: _Recorded(endless, quirks), openai_provider) as begin:
        scene = begin(["done"])
        with pytest.raises(InvalidToolCallError, match="more than 4,000,000 characters") as caught:
            await scene.provider.complete(ChatRequest(messages=[Message(role="user", content="hello")]))
        assert len(caught.value.raw_arguments or "") < 1000
        again = await scene.provider.complete(ChatRequest(messages=[Message(role="user", content="hello")]))
        assert again.content[0].text == "done" and not scene.slept


async def test_a_provider_that_shows_and_does_not_answer_is_named() -> None:
    async def complete(request: ChatRequest, **kwargs: Any) -> None:
        await events.emit("llm:stream_block_delta", {"block_index": 0, "block_type": "text", "text": "so"})

    events, context = EventRecorder(), MockContextManager()
    for make in _LOOPS.values():
        with pytest.raises(LLMError, match="gave no answer: it returned NoneType"):
            await make(4).execute("hello", context, {"mute": SimpleNamespace(complete=complete)}, {}, events)
    assert {one["role"] for one in await context.get_messages()} <= {"user", "assistant"}


async def test_a_window_too_small_for_the_prompt_is_told_and_the_next_one_fits(play: Open) -> None:
    context, small = SimpleContextManager(), {"context_tokens": 512}
    with pytest.raises(ContextLengthError):
        await play(["never"], "word " * 4000, context=context, script=small)
    played = await play(["yes"], "short", context=context, script=small)
    assert played.answers == ["yes"]


@pytest.mark.exhaustive("loop-streaming")
async def test_much_text_in_one_piece_is_an_answer_and_the_next_turn_goes_on(play: Open) -> None:
    much = "x" * 10_000_000
    played = await play([{"text": [much]}, "again"], "hello", "go on", script={})
    assert played.answers == [much, "again"]


async def test_two_calls_of_one_id_are_both_answered(play: Open) -> None:
    calls = [_call('{"at": 1}', id="same"), _call('{"at": 2}', id="same")]
    played = await play([{"tool_calls": calls}, "done"])
    assert played.answers == ["done"] and played.look.seen == [{"at": 1}, {"at": 2}]
    assert "saw 1" in played.told and "saw 2" in played.told


async def test_halves_of_a_character_are_joined_over_deltas(play: Open) -> None:
    played = await play([{"text": ["so ", _HIGH, f"{_LOW}!"]}, "again"], "hello", "go on")
    assert played.answers == [f"so {_EMOJI}!", "again"]
    assert _EMOJI in played.told and len(played.scene.sent) == 2
    assert "".join(text for _, text in played.scene.shown) == f"so {_EMOJI}!again"


@pytest.mark.exhaustive("loop-streaming")
@pytest.mark.parametrize("half", [_HIGH, _LOW])
async def test_half_a_character_ends_no_conversation(play: Open, half: str) -> None:
    calls = {"tool_calls": [_call(json.dumps({"at": f"x{half}y"}))]}
    played = await play([{"text": [f"a{half}", " b"]}, calls, "done", "end"], f"p{half}q", "two", "three")
    assert played.answers == ["a\ufffd b", "done", "end"]
    assert played.look.seen == [{"at": "x\ufffdy"}] and not played.scene.slept
    assert [word for word in ("p\ufffdq", "a\ufffd b", "saw x\ufffdy") if word not in played.told] == []
    json.dumps(await played.context.get_messages(), ensure_ascii=False).encode()


async def test_what_cannot_be_sent_is_not_blamed_on_the_server() -> None:
    for dialect, made in VENDORS.values():
        async with scenes(dialect, made) as begin:
            scene = begin(["never"])
            with pytest.raises(InvalidRequestError, match=r"cannot be written .*nothing was sent") as caught:
                await scene.provider.complete(ChatRequest(messages=[Message(role="user", content=f"x{_HIGH}")]))
            assert not scene.sent and not scene.slept and "base_url" not in str(caught.value)


@given(st.lists(st.one_of(st.characters(categories=None), st.sampled_from([_HIGH, _LOW])), max_size=12).map("".join))
def test_every_text_becomes_well_formed_and_no_other_changes(text: str) -> None:
    made = well_formed({"a": [text]})["a"][0]
    made.encode()
    assert made == well_formed(made)
    if all(not "\ud800" <= letter <= "\udfff" for letter in text):
        assert made == text


@each_row(
    ("vendor", "end", "told"),
    [
        ("openai", "length", "as long as the model may write"),
        ("openai", "content_filter", "held back a part"),
        ("openai", "abort", "a reason that is not known: `abort`"),
        ("anthropic", "max_tokens", "as long as the model may write"),
        ("anthropic", "model_context_window_exceeded", "fills the model's window"),
        ("anthropic", "paused", "a reason that is not known: `paused`"),
    ],
)
async def test_an_end_of_a_vendor_that_is_no_ordinary_one_is_told(vendor: str, end: str, told: str) -> None:
    dialect, made = VENDORS[vendor]
    async with scenes(dialect, made) as begin:
        scene, hooks = begin([{"text": "so far", "finish": end}] * 4), HookRegistry()
        coordinator = SimpleNamespace(hooks=hooks)
        session: Any = SimpleNamespace(coordinator=coordinator, mask=str)
        ends, stream = AnswerEnds(session), io.StringIO()
        await _LOOPS["loop-basic"](4).execute("hello", MockContextManager(), {vendor: scene.provider}, {}, hooks)
    ends.tell(Screen(stream))
    assert told in " ".join(stream.getvalue().split())
