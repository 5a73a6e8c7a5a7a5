"""The provider-independent envelope: messages, content blocks, requests and responses.

All parts of a conversation accept unknown keys and return them when dumped, because providers keep their own state in
them. Message content is never None and a block of unknown type is refused. Classes are declared cheaply: each one's
validator is built when it is first used. This file does not know tools' results, hooks or sessions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from paddock_sdk.contract.block_models import (
    FIRST_ERROR,
    Envelope,
    FieldsByName,
    ImageBlock,
    Money,
    TextBlock,
    Visibility,
)

__all__ = [
    "ChatRequest",
    "ChatResponse",
    "Degradation",
    "ImageBlock",
    "Message",
    "ReasoningBlock",
    "RedactedThinkingBlock",
    "ResponseFormat",
    "ResponseFormatJson",
    "ResponseFormatJsonSchema",
    "ResponseFormatText",
    "TextBlock",
    "ThinkingBlock",
    "ToolCall",
    "ToolCallBlock",
    "ToolResultBlock",
    "ToolSpec",
    "Usage",
]


class ThinkingBlock(Envelope):
    """A model's visible reasoning, with the signature its provider wants back."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: str | None = None
    content: list[Any] | None = None
    visibility: Visibility = None


class RedactedThinkingBlock(Envelope):
    """Reasoning that only its provider can read."""

    type: Literal["redacted_thinking"] = "redacted_thinking"
    data: str
    visibility: Visibility = None


class ToolCallBlock(Envelope):
    """A model's wish to run a tool."""

    type: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    input: FieldsByName
    visibility: Visibility = None


class ToolResultBlock(Envelope):
    """A tool's answer; `output` is required, None included."""

    type: Literal["tool_result"] = "tool_result"
    tool_call_id: str
    output: Any
    visibility: Visibility = None


class ReasoningBlock(Envelope):
    """Reasoning in the form of the responses API: content and summary items."""

    type: Literal["reasoning"] = "reasoning"
    content: list[Any]
    summary: list[Any]
    visibility: Visibility = None


ContentBlockUnion: TypeAlias = Annotated[
    TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolCallBlock | ToolResultBlock | ImageBlock | ReasoningBlock,
    Field(discriminator="type"),
]


class Message(Envelope):
    """One entry of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "function", "tool"]
    content: str | Annotated[list[ContentBlockUnion], FIRST_ERROR]
    name: str | None = None
    tool_call_id: str | None = None
    metadata: FieldsByName | None = None


class ToolSpec(Envelope):
    """A tool as it is described to a model; `parameters` is a JSON schema."""

    name: str
    parameters: FieldsByName
    description: str | None = None


class ResponseFormatText(BaseModel):
    """Ask for free text."""

    model_config = ConfigDict(defer_build=True)

    type: Literal["text"] = "text"


class ResponseFormatJson(BaseModel):
    """Ask for any JSON."""

    model_config = ConfigDict(defer_build=True)

    type: Literal["json"] = "json"


class ResponseFormatJsonSchema(BaseModel):
    """Ask for JSON of one schema, which may be passed as `json_schema` or as `schema`."""

    model_config = ConfigDict(defer_build=True, populate_by_name=True)

    type: Literal["json_schema"] = "json_schema"
    # Not named `schema`, which pydantic's own class method already is.
    json_schema: FieldsByName = Field(validation_alias="schema", serialization_alias="schema")
    strict: bool | None = None


ResponseFormat: TypeAlias = ResponseFormatText | ResponseFormatJson | ResponseFormatJsonSchema


class ChatRequest(Envelope):
    """A request to a provider for a completion."""

    messages: Annotated[list[Message], FIRST_ERROR]
    tools: Annotated[list[ToolSpec], FIRST_ERROR] | None = None
    response_format: ResponseFormat | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    conversation_id: str | None = None
    stream: bool | None = False
    metadata: FieldsByName | None = None
    model: str | None = None
    tool_choice: str | FieldsByName | None = None
    stop: Annotated[list[str], FIRST_ERROR] | None = None
    reasoning_effort: str | None = None
    timeout: float | None = None


class ToolCall(Envelope):
    """A tool call as a provider parsed it out of a response.

    Its arguments can be read as `input` as well, their name in the contract's first edition.
    """

    id: str
    name: str
    arguments: FieldsByName

    if not TYPE_CHECKING:  # where a checker reads it, any name would be an attribute

        def __getattr__(self, name: str) -> Any:
            # Not a property: a provider may set an `input` of its own, which is kept like every other key.
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name == "input" and "arguments" in self.__dict__:
                    return self.arguments
                raise


class Usage(Envelope):
    """Tokens, and their price if the provider knows it."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost_usd: Money | None = None


class Degradation(Envelope):
    """A request that was met differently: what it asked for, the replacement, and the reason."""

    requested: str
    actual: str
    reason: str


class ChatResponse(Envelope):
    """A provider's answer; providers subclass it to carry more."""

    content: Annotated[list[ContentBlockUnion], FIRST_ERROR]
    tool_calls: Annotated[list[ToolCall], FIRST_ERROR] | None = None
    usage: Usage | None = None
    degradation: Degradation | None = None
    finish_reason: str | None = None
    metadata: FieldsByName | None = None
