"""The contract's models and exceptions on the wire: each comes back as itself, everything else as something safe."""

from __future__ import annotations

import asyncio
import builtins
import concurrent.futures
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, PrivateAttr, computed_field

from paddock.errors import CallRefusedError, Denial
from paddock_sdk.contract import approval, boundary_errors, content_models, llm_errors, module_sources
from paddock_sdk.contract.content_models import ContentBlockType
from paddock_sdk.contract.message_models import (
    ChatRequest,
    ChatResponse,
    Message,
    TextBlock,
    ToolCall,
)
from paddock_sdk.contract.models import ModelInfo, SessionStatus, ToolResult
from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.protocol import RemoteProtocolError
from paddock_sdk.protocol.body import Codec, EncodeError
from paddock_sdk.protocol.caps import Ext
from support.rows import each_row

from .model_table import KEEPING, SMALLEST

CODEC = Codec(ContractVocabulary())
VOCABULARY = ContractVocabulary()


def crossed(value: Any) -> Any:
    """Return what `value` is on the other side."""
    return CODEC.decode(CODEC.encode(value, live_objects=False)[0])


# -- models ------------------------------------------------------------------------------------


@each_row("model", SMALLEST, ids=lambda model: model.__name__)
def test_a_model_comes_back_as_itself_with_what_was_set(model: type[BaseModel]) -> None:
    sent = model.model_validate(SMALLEST[model])
    back = crossed(sent)
    assert type(back) is model
    if model is SessionStatus:
        back.started_at = sent.started_at  # a default that is the time of its making
    assert back == sent
    assert back.model_fields_set - {"started_at"} == sent.model_fields_set
    assert back.model_dump() == sent.model_dump()


@each_row("model", KEEPING, ids=lambda model: model.__name__)
def test_fields_beyond_the_contracts_cross_where_a_model_keeps_them(model: type[BaseModel]) -> None:
    sent = model.model_validate({**SMALLEST[model], "vendor_field": {"nested": [1, None]}})
    assert crossed(sent).model_dump() == sent.model_dump()
    assert crossed(sent).vendor_field == {"nested": [1, None]}


def test_models_in_declared_lists_cross_without_names_of_their_own() -> None:
    class Own(Message):
        """A message of a module's own, which a reader has to get as one of the contract's."""

    blocks: list[Any] = [TextBlock(text="a default type"), TextBlock(type="text", text="a given type")]
    sent = ChatRequest(messages=[Message(role="user", content=blocks, vendor=[1]), Own(role="user", content="own")])
    body, _ = CODEC.encode(sent)
    assert (body.count(b"Message"), body.count(b"TextBlock")) == (1, 1)
    back = CODEC.decode(body)
    assert back.model_dump() == sent.model_dump()
    assert [type(message) for message in back.messages] == [Message, Message]
    assert [block.model_fields_set for block in back.messages[0].content] == [{"text"}, {"type", "text"}]
    assert back.messages[0].model_fields_set == sent.messages[0].model_fields_set


def test_a_model_that_a_list_does_not_declare_keeps_its_name() -> None:
    message = Message(role="user", content=[], metadata={"first": [Message(role="user", content="x")]})
    message.content.append(ToolCall(id="1", name="t", arguments={}))  # type: ignore[union-attr, arg-type]
    assert crossed(Message(role="user", content="", metadata=message.metadata)).metadata == message.metadata
    with pytest.raises(RemoteProtocolError):
        crossed(message)


def test_a_list_or_mapping_filled_in_place_crosses() -> None:
    info = ModelInfo(id="m", display_name="M", context_window=1, max_output_tokens=1)
    info.capabilities.append("tools")
    info.defaults["temperature"] = 0.1
    assert crossed(info).capabilities == ["tools"]
    assert crossed(info).defaults == {"temperature": 0.1}


def test_a_subclass_crosses_as_the_class_of_the_contract_it_is_nearest_to() -> None:
    class RichResponse(ChatResponse):
        reasoning_summary: str = ""

    class StrictResult(ToolResult):
        extra_note: str = "note"

    rich = RichResponse(content=[TextBlock(text="x")], reasoning_summary="short")
    back = crossed(rich)
    assert type(back) is ChatResponse
    assert back.reasoning_summary == "short", "the model keeps what it does not know"
    strict = crossed(StrictResult(output=1, extra_note="kept at home"))
    assert type(strict) is ToolResult
    assert strict == ToolResult(output=1)


def test_a_model_of_the_modules_own_crosses_as_its_data() -> None:
    class Inner(BaseModel):
        number: int

    class Own(BaseModel):
        name: str
        inner: Inner

    assert crossed({"own": Own(name="x", inner=Inner(number=1))}) == {"own": {"name": "x", "inner": {"number": 1}}}


def test_an_own_classs_data_crosses_again_as_it_came() -> None:
    class Inner(BaseModel):
        number: int
        when: datetime

        @computed_field  # type: ignore[prop-decorator]
        @property
        def doubled(self) -> int:
            return self.number * 2

    class Own(BaseModel):
        inner: Inner
        items: list[int] = Field(default_factory=list)
        hidden: Any = Field(default_factory=object, exclude=True)

    when = datetime(2024, 2, 29)
    once = crossed(Own(inner=Inner(number=1, when=when), items=[1]))
    for back in (once, crossed(once)):
        assert (back.inner.number, back.inner.when, back.inner.doubled) == (1, when, 2)
        assert back["items"] == [1]
        assert not hasattr(back, "hidden")
        assert json.loads(json.dumps({**back, "inner": None})) == {"inner": None, "items": [1]}
    once.inner.number = 7
    assert once["inner"]["number"] == 7
    del once.inner
    assert "inner" not in once
    with pytest.raises(AttributeError, match="no field 'inner'"):
        del once.inner


@dataclass
class Point:
    x: int
    y: int
    raw: Any = None


@each_row("value", [Point(1, 2, raw=object()), SimpleNamespace(x=1, y=2)], ids=["data class", "names"])
def test_data_classes_cross_as_data_where_no_object_may_stand(value: Any) -> None:
    back = crossed({"at": [value]})["at"][0]
    assert (back.x, back.y) == (1, 2)
    assert back == {"x": 1, "y": 2}
    _, live = CODEC.encode(value)
    assert live == [value]
    body, live = CODEC.encode([value, abs], live_objects=lambda item: item is abs)
    assert live == [abs]
    assert CODEC.decode(body, live) == [{"x": 1, "y": 2}, abs]


def test_a_subclasss_properties_cross_as_fields() -> None:
    class Rich(ChatResponse):
        content_blocks: list[Any] | None = None
        raw: Any = None
        _client: Any = PrivateAttr(default_factory=object)

        @property
        def text(self) -> str:
            return "".join(block.text for block in self.content if isinstance(block, TextBlock))

        @property
        def failing(self) -> str:
            raise OSError("not today")

    sent = Rich(
        content=[TextBlock(text="hello")],
        content_blocks=[content_models.TextContent(text="hello", raw=object())],
        raw=object(),
        metadata={"state": {"id": "r1"}},
    )
    back = crossed(sent)
    assert type(back) is ChatResponse
    assert back.text == "hello"
    assert back.content_blocks[0].to_dict() == {"type": "text", "text": "hello"}
    assert back.content_blocks[0].type.value == "text"
    assert back.metadata == {"state": {"id": "r1"}}
    assert not hasattr(back, "failing") and not hasattr(back, "raw")
    assert crossed(back) == back


def test_a_class_with_a_contract_name_crosses_as_data() -> None:
    class ToolResult(BaseModel):  # a namesake
        success: str = "perhaps"

    assert crossed(ToolResult()) == {"success": "perhaps"}


@each_row(
    "block",
    [
        content_models.TextContent(text="hi"),
        content_models.ThinkingContent(text="hm"),
        content_models.ToolCallContent(id="1", name="t", arguments={"a": 1}),
        content_models.ToolResultContent(tool_call_id="1", output=[1], error="e"),
        content_models.ContentBlock(type=ContentBlockType.TEXT),
    ],
    ids=lambda block: type(block).__name__,
)
def test_streamed_content_crosses_without_what_its_provider_keeps_in_it(block: Any) -> None:
    block.raw = object()
    back = crossed(block)
    assert type(back) is type(block)
    assert back.raw is None
    assert back.to_dict() == block.to_dict()
    assert type(back.type) is ContentBlockType


def test_a_subclass_of_streamed_content_crosses_as_the_contracts() -> None:
    @dataclass
    class Fancy(content_models.TextContent):
        colour: str = "red"

    assert crossed(Fancy(text="x")) == content_models.TextContent(text="x")


def test_what_is_no_model_and_no_exception_is_not_the_vocabularys() -> None:
    for value in (object(), 1, "x", {}, type, ToolResult, lambda: 1):
        assert VOCABULARY.to_wire(value) is None


# -- exceptions --------------------------------------------------------------------------------

_LLM_ERRORS = [
    value for value in vars(llm_errors).values() if isinstance(value, type) and issubclass(value, llm_errors.LLMError)
]
_SIMPLE_ERRORS = [
    approval.ApprovalTimeoutError,
    module_sources.ModuleNotFoundError,
    module_sources.ModuleLoadError,
    boundary_errors.ModuleGoneError,
    boundary_errors.DeadlockError,
    boundary_errors.RefusedError,
]
_BUILTIN_ERRORS = [
    value
    for value in vars(builtins).values()
    if isinstance(value, type)
    and issubclass(value, Exception)
    and value is not Exception
    and not issubclass(value, BaseExceptionGroup | UnicodeError)
]
_PARTICULAR_ERRORS: list[Exception] = [
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    UnicodeEncodeError("ascii", "é", 0, 1, "ordinal not in range"),
    UnicodeTranslateError("é", 0, 1, "no"),
    UnicodeError("plain"),
    SyntaxError("bad", ("file.py", 3, 4, "x = =")),
    FileNotFoundError(2, "No such file or directory", "/nowhere"),
    OSError(28, "No space left on device"),
    KeyError("missing"),
    ImportError("no such name", name="x", path="/y"),
    StopIteration("value"),
    ValueError("one", 2, [3, {"four": (5, None)}]),
    ValueError(),
]


@each_row("kind", [*_BUILTIN_ERRORS, *_SIMPLE_ERRORS], ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_an_exception_comes_back_as_itself_with_its_words(kind: type[Exception]) -> None:
    sent = kind("what went wrong")
    back = crossed(sent)
    assert type(back) is kind
    assert back.args == sent.args
    assert str(back) == str(sent)
    assert back.remote_type == kind.__name__


@each_row("sent", _PARTICULAR_ERRORS, ids=repr)
def test_an_exception_made_of_several_arguments_says_the_same(sent: Exception) -> None:
    back = crossed(sent)
    assert type(back) is type(sent)
    assert back.args == sent.args
    assert str(back) == str(sent)


@each_row("kind", _LLM_ERRORS, ids=lambda kind: kind.__name__)
def test_a_models_failure_keeps_what_a_retry_is_decided_by(kind: type[llm_errors.LLMError]) -> None:
    plain = crossed(kind("short"))
    assert type(plain) is kind and str(plain) == "short"
    assert plain.retryable is kind("x").retryable
    details: dict[str, Any] = {"provider": "p", "model": "m", "status_code": 429, "retryable": not kind.retryable}
    back = crossed(kind("long", **details))
    assert {name: getattr(back, name) for name in details} == details
    assert repr(back) == repr(kind("long", **details))


def test_a_rate_limit_says_how_long_to_wait() -> None:
    back = crossed(llm_errors.RateLimitError("slow down", retry_after=1.5, delay_multiplier=2.0))
    assert (back.retry_after, back.delay_multiplier, back.retryable) == (1.5, 2.0, True)
    call = crossed(llm_errors.InvalidToolCallError("bad", tool_name="t", raw_arguments="{"))
    assert (call.tool_name, call.raw_arguments) == ("t", "{")


def test_an_unknown_exception_comes_back_as_its_nearest_known_ancestor() -> None:
    class Throttled(llm_errors.RateLimitError):
        def __init__(self, seconds: float) -> None:
            super().__init__(f"wait {seconds} s", provider="vendor", retry_after=seconds)

    class Missing(KeyError):
        pass

    class Custom(Exception):
        pass

    throttled = crossed(Throttled(2.0))
    assert type(throttled) is llm_errors.RateLimitError
    assert (throttled.retryable, throttled.retry_after, throttled.provider) == (True, 2.0, "vendor")
    assert throttled.remote_type == "Throttled"
    missing = crossed(Missing("x"))
    assert (type(missing), missing.remote_type, missing.args) == (KeyError, "Missing", ("x",))
    custom = crossed(Custom("out of order"))
    assert (type(custom), str(custom), custom.remote_type) == (RuntimeError, "Custom: out of order", "Custom")


def test_an_exception_with_words_of_its_own_keeps_them() -> None:
    class Coded(llm_errors.LLMError):
        def __init__(self, code: int, reason: str) -> None:
            self.code, self.reason = code, reason

        def __str__(self) -> str:
            return f"E{self.code}: {self.reason}"

    back = crossed(Coded(7, "overloaded"))
    assert type(back) is llm_errors.LLMError
    assert (str(back), back.code, back.reason, back.remote_type) == ("E7: overloaded", 7, "overloaded", "Coded")


def test_a_group_comes_back_with_the_exceptions_in_it() -> None:
    inner = ExceptionGroup("inner", [TimeoutError("too slow")])
    limited = llm_errors.RateLimitError("slow down", retry_after=2.0)
    sent = ExceptionGroup("several", [ValueError("one"), limited, inner])
    sent.add_note("while trying")
    back = crossed(sent)
    assert type(back) is ExceptionGroup
    assert (back.message, back.remote_type, back.__notes__) == ("several", "ExceptionGroup", ["while trying"])
    one, limit, nested = back.exceptions
    assert (type(one), str(one)) == (ValueError, "one")
    assert (type(limit), limit.retry_after) == (llm_errors.RateLimitError, 2.0)
    assert (nested.message, [type(item) for item in nested.exceptions]) == ("inner", [TimeoutError])


def test_a_group_brings_along_nothing_that_cancels_and_has_bounds() -> None:
    back = crossed(BaseExceptionGroup("ending", [asyncio.CancelledError(), ValueError("one")]))
    assert type(back) is ExceptionGroup
    assert [type(item) for item in back.exceptions] == [RuntimeError, ValueError]
    error: Exception = ValueError("x" * 100_000)
    for _ in range(6):
        error = ExceptionGroup("x" * 100_000, [error] * 40)
    body, _ = CODEC.encode(error, live_objects=False)
    assert len(body) < 2**20
    assert type(CODEC.decode(body)) is ExceptionGroup


@each_row("args", [["words", [["one"]]], ["words", [1]]])
def test_a_group_of_what_are_no_exceptions_is_refused(args: list[Any]) -> None:
    content = [["ExceptionGroup", "BaseExceptionGroup", "Exception"], "words", args, {}, ""]
    with pytest.raises(ValueError, match="no exceptions"):
        VOCABULARY.from_wire(Ext.ERROR, content)


def test_an_ancestor_that_wants_other_arguments_still_comes_back() -> None:
    class Odd(UnicodeDecodeError):
        def __new__(cls, *args: Any) -> Any:
            return UnicodeDecodeError.__new__(cls, "utf-8", b"", 0, 1, "x")

        def __init__(self, said: str) -> None:
            super().__init__("utf-8", b"", 0, 1, said)
            self.args = (said,)

    back = crossed(Odd("just words"))
    assert type(back) is UnicodeDecodeError
    assert back.args == ("just words",)


def test_a_cancellation_crosses_as_one_and_its_namesakes_do_not() -> None:
    assert type(crossed(asyncio.CancelledError())) is asyncio.CancelledError
    assert isinstance(crossed(concurrent.futures.CancelledError()), Exception)
    namesake = type("CancelledError", (ValueError,), {})
    assert type(crossed(namesake("x"))) is ValueError
    for end in (SystemExit(3), KeyboardInterrupt(), GeneratorExit()):
        assert type(crossed(end)) is RuntimeError


def test_the_two_errors_of_one_name_are_told_apart() -> None:
    assert type(crossed(builtins.ModuleNotFoundError("x", name="y"))) is builtins.ModuleNotFoundError
    assert type(crossed(module_sources.ModuleNotFoundError("x"))) is module_sources.ModuleNotFoundError


def test_an_error_of_the_hosts_comes_back_as_the_contracts_with_its_hints() -> None:
    back = crossed(CallRefusedError(Denial("call", "context", "tool-x", grant='permissions: {call: ["context"]}')))
    assert type(back) is boundary_errors.RefusedError
    assert isinstance(back, PermissionError)
    assert str(back) == "module `tool-x` may not call `context`"
    assert 'permissions: {call: ["context"]}' in back.hints[0]


def test_the_traceback_of_where_it_happened_comes_along_cut_to_its_end() -> None:
    def fails(depth: int) -> None:
        if depth:
            fails(depth - 1)
        raise ValueError("deep")

    with pytest.raises(ValueError, match="deep") as caught:
        fails(200)
    trace = crossed(caught.value).remote_traceback
    assert "in fails" in trace and trace.endswith("ValueError: deep\n")
    assert len(trace) <= 8000


def test_a_traceback_ends_where_a_modules_code_does() -> None:
    def of_a_module() -> None:
        crossed(object())

    with pytest.raises(EncodeError) as caught:
        of_a_module()
    trace = crossed(caught.value).remote_traceback
    assert "in of_a_module" in trace and "body.py" not in trace
    assert trace.endswith(f"{caught.value}\n")


def test_of_hidden_code_nothing_is_told_but_the_words_of_what_it_raised() -> None:
    def fails() -> None:
        raise ValueError("in words")

    with pytest.raises(ValueError, match="in words") as caught:
        fails()
    elsewhere = Codec(ContractVocabulary(hidden=(str(Path(__file__).parents[3] / "nowhere"),)))
    here = Codec(ContractVocabulary(hidden=(str(Path(__file__).parents[3]),)))
    assert "in fails" in CODEC.decode(elsewhere.encode(caught.value)[0]).remote_traceback
    hidden = CODEC.decode(here.encode(caught.value)[0])
    assert (str(hidden), hidden.remote_traceback) == ("in words", "")


def test_an_exceptions_live_values_become_words_or_are_left_out() -> None:
    class Response:
        def __str__(self) -> str:
            return "a response"

    class Speechless:
        def __str__(self) -> str:
            raise RuntimeError("no words")

    error = ValueError(Response(), Speechless(), {"data": 1})
    error.response = Response()  # type: ignore[attr-defined]
    error.status = 500  # type: ignore[attr-defined]
    back = crossed(error)
    assert back.args == ("a response", "Speechless", {"data": 1})
    assert back.status == 500
    assert not hasattr(back, "response")


def test_an_exception_that_crosses_twice_keeps_its_first_name_and_place() -> None:
    class Custom(Exception):
        pass

    once = crossed(Custom("x"))
    twice = crossed(once)
    assert twice.remote_type == "Custom"
    assert twice.remote_traceback == once.remote_traceback


@each_row("claim", [None, 5, ["x"], {}, b"x"])
def test_no_sender_takes_an_exceptions_origin_away(claim: object) -> None:
    sent = ValueError("x")
    sent.__dict__.update(remote_type=claim, remote_traceback=claim)
    back = crossed(sent)
    assert back.remote_type == "ValueError"
    assert "ValueError: x" in back.remote_traceback


@each_row("claim", [None, "Other"])
def test_an_exceptions_origin_is_never_read_from_its_attributes(claim: object) -> None:
    content = [["ValueError"], "x", ["x"], {"remote_type": claim, "remote_traceback": claim}, "where"]
    back = VOCABULARY.from_wire(Ext.ERROR, content)
    assert (vars(back)["remote_type"], vars(back)["remote_traceback"]) == ("ValueError", "where")


class _Hoarder(Exception):
    def __init__(self) -> None:
        super().__init__(*(f"{number:08}" * 500 for number in range(50)))
        self.small = "kept"
        self.large = "x" * 70_000
        for number in range(50):
            setattr(self, f"log_{number}", "y" * 4000)


class _Speechless:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@each_row(
    "error",
    [
        pytest.param(ValueError("x" * 5_000_000), id="a long text"),
        pytest.param(ValueError("\U0001f40e" * 5_000_000), id="a long text of wide characters"),
        pytest.param(ValueError([0] * 300_000), id="a long list"),
        pytest.param(ValueError(*range(300_000)), id="many arguments"),
        pytest.param(ValueError(10**2000), id="a number too long to be sent"),
        pytest.param(ValueError(10**10_000), id="a number too long to be said"),
        pytest.param(ValueError(_Speechless()), id="an argument without words"),
        pytest.param(ValueError(b"x" * 1_000_000), id="bytes"),
        pytest.param(_Hoarder(), id="large attributes"),
        pytest.param(type("Long" * 100_000, (ValueError,), {})(), id="a long name"),
    ],
)
def test_an_exception_with_too_much_in_it_is_told_in_part(error: Exception) -> None:
    codec = Codec(ContractVocabulary())
    body, _ = codec.encode(error, live_objects=False)
    assert len(body) < 224 * 1024
    told = codec.decode(body)
    assert isinstance(told, ValueError if isinstance(error, ValueError) else RuntimeError)


def test_the_frames_of_a_traceback_are_not_pushed_out_by_a_long_message() -> None:
    def where_it_happened() -> None:
        raise ValueError("x" * 100_000)

    with pytest.raises(ValueError) as raised:
        where_it_happened()
    assert "in where_it_happened" in crossed(raised.value).remote_traceback


# -- hostile content ---------------------------------------------------------------------------

_HOSTILE: list[tuple[Ext, Any]] = [
    (Ext.MODEL, None),
    (Ext.MODEL, []),
    (Ext.MODEL, ["ToolResult"]),
    (Ext.MODEL, ["ToolResult", []]),
    (Ext.MODEL, ["NoSuchModel", {}]),
    (Ext.MODEL, ["os.system", {"command": "true"}]),
    (Ext.MODEL, ["BaseModel", {}]),
    (Ext.MODEL, [["ToolResult"], {}]),
    (Ext.MODEL, [1, {}]),
    (Ext.MODEL, ["", [1]]),
    (Ext.MODEL, ["ToolResult", {"success": "maybe"}]),
    (Ext.MODEL, ["ToolResult", {"content": [{"type": "unknown"}]}]),
    (Ext.MODEL, ["ToolResult", {"content": [{"type": "image", "source": {"type": "url"}}]}]),
    (Ext.MODEL, ["HookResult", {"action": "detonate"}]),
    (Ext.MODEL, ["ChatResponse", {}]),
    (Ext.MODEL, ["Message", {"role": "user", "content": [{"type": "nonsense"}]}]),
    (Ext.MODEL, ["Message", {1: 2, "role": "user", "content": "x"}]),
    (Ext.MODEL, ["Usage", {"input_tokens": 1, "output_tokens": 1, "total_tokens": 1, "cost_usd": 0.1}]),
    (Ext.MODEL, ["TextContent", {"type": "no such type"}]),
    (Ext.MODEL, ["TextContent", {"type": ["text"]}]),
    (Ext.ERROR, None),
    (Ext.ERROR, []),
    (Ext.ERROR, [["ValueError"], "x", [], {}]),
    (Ext.ERROR, ["ValueError", "x", [], {}, ""]),
    (Ext.ERROR, [["ValueError"], 1, [], {}, ""]),
    (Ext.TUPLE, ["not the vocabulary's"]),
]


@each_row(("extension", "content"), _HOSTILE, ids=lambda given: str(given)[:50])
def test_content_that_is_no_model_or_exception_is_a_value_error(extension: Ext, content: Any) -> None:
    with pytest.raises(ValueError):
        VOCABULARY.from_wire(extension, content)


_LINEAGES: list[list[Any]] = [
    *([], [None], [["ValueError"]], [{"a": 1}], ["NoSuchError"], ["os.system"], ["type"]),
    *(["Exception"], ["BaseException"], ["SystemExit", "BaseException"], ["ExceptionGroup"]),
]


@each_row("lineage", _LINEAGES, ids=str)
def test_an_error_of_no_known_lineage_is_a_runtime_error(lineage: list[Any]) -> None:
    error = VOCABULARY.from_wire(Ext.ERROR, [lineage, "said", ["arg"], {"a": 1}, "trace"])
    assert type(error) is RuntimeError
    assert "said" in str(error)


def test_no_attribute_from_the_wire_replaces_an_exceptions_own() -> None:
    attributes = {"args": [1], "add_note": 1, "with_traceback": 2, "__class__": 3, "__cause__": 4, "__notes__": 5, 6: 7}
    error = VOCABULARY.from_wire(Ext.ERROR, [["ValueError"], "x", ["x"], {**attributes, "fine": 1}, "trace"])
    assert isinstance(error, ValueError)
    assert error.args == ("x",)
    error.add_note("still works")
    assert vars(error).keys() - {"__notes__"} == {"fine", "remote_type", "remote_traceback"}


unhurried = settings(deadline=None)  # the first use of a model builds its validator

plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)
names = st.sampled_from([*(model.__name__ for model in SMALLEST), "TextContent", "ToolCallContent", "ContentBlock", ""])
field_names = st.sampled_from(
    sorted({name for model in SMALLEST for name in model.model_fields} | {"type", "raw", "id"})
)
errors = st.sampled_from([*vars(builtins), *vars(llm_errors), "CancelledError", "Unknown"])


@unhurried
@given(names, st.dictionaries(field_names, plain, max_size=5))
def test_a_model_of_any_fields_is_rebuilt_or_a_value_error(name: str, fields: dict[str, Any]) -> None:
    try:
        VOCABULARY.from_wire(Ext.MODEL, [name, fields])
    except ValueError:
        pass


@unhurried
@given(
    st.lists(errors | plain, max_size=4),
    st.text(max_size=5),
    st.lists(plain, max_size=5),
    st.dictionaries(st.text(max_size=8) | st.integers(), plain, max_size=4),
)
def test_an_error_of_any_content_is_an_exception(
    lineage: list[Any], message: str, args: list[Any], attributes: dict[Any, Any]
) -> None:
    error = VOCABULARY.from_wire(Ext.ERROR, [lineage, message, args, attributes, "trace"])
    assert isinstance(error, Exception | asyncio.CancelledError)
    str(error), repr(error)


@unhurried
@given(st.sampled_from([Ext.MODEL, Ext.ERROR]), plain)
def test_any_content_in_a_body_is_a_value_or_a_protocol_error(extension: Ext, content: Any) -> None:
    body = msgpack.packb(msgpack.ExtType(extension, CODEC.encode(content)[0]))
    try:
        CODEC.decode(body)
    except RemoteProtocolError:
        pass
