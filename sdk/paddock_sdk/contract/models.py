"""The values that modules pass to the kernel: results of tools and hooks, descriptions of providers and sessions.

Unknown keyword arguments are ignored. A tool result's text for the model never holds control characters. Its optional
content is limited to text and inline images, so that nothing in it makes a reader fetch anything. Classes are declared
cheaply: each one's validator is built when it is first used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from paddock_sdk.contract.block_models import FIRST_ERROR, FieldsByName, ImageBlock, Money, TextBlock

__all__ = [
    "ConfigField",
    "ContextInjection",
    "HookResult",
    "ModelInfo",
    "ModuleInfo",
    "Pricing",
    "ProviderInfo",
    "SessionStatus",
    "ToolResult",
]

_DEFERRED = ConfigDict(defer_build=True)

_PlainBlock: TypeAlias = Annotated[TextBlock | ImageBlock, Field(discriminator="type")]

# C0 without tab, newline and carriage return; DEL and C1; lone surrogates, which no UTF-8 encoder accepts.
# Compiled at its first use (and kept by `re`), so that importing the models does not pay for it.
_UNPRINTABLE = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]"


def _sanitize_for_llm(text: str) -> str:
    return re.sub(_UNPRINTABLE, "", text)


def _json_fallback(value: object) -> str:
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"a tool's output holds a {type(value).__name__}, which is not JSON serializable")


def _plain_block(block: TextBlock | ImageBlock) -> TextBlock | ImageBlock:
    """Return the block without the keys it need not have; refuse an image that is not inline."""
    if isinstance(block, TextBlock):
        return TextBlock(text=block.text, visibility=block.visibility)
    source = block.source
    media_type, data = source.get("media_type"), source.get("data")
    if source.get("type") != "base64" or not isinstance(media_type, str) or not isinstance(data, str):
        raise ValueError(
            "an image in a tool result has to be inline: its source needs type 'base64' and the strings "
            "'media_type' and 'data'"
        )
    return ImageBlock(source={"type": "base64", "media_type": media_type, "data": data}, visibility=block.visibility)


class ToolResult(BaseModel):
    """A tool's answer."""

    # Errors hide the input because it is a tool's output: files and secrets, which must not reach a log.
    model_config = ConfigDict(defer_build=True, hide_input_in_errors=True, validate_assignment=True)

    success: bool = True
    output: Any | None = None
    error: FieldsByName | None = None
    content: Annotated[list[_PlainBlock], FIRST_ERROR] | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_is_error(cls, given: Any) -> Any:
        # The contract's first edition refuses a call with `is_error`; ignored, the refusal would read as a success.
        if isinstance(given, dict) and "is_error" in given:
            return {"success": not given["is_error"], **given}
        return given

    @field_validator("content")
    @classmethod
    def _keep_plain_content(cls, content: list[TextBlock | ImageBlock] | None) -> list[TextBlock | ImageBlock] | None:
        return [_plain_block(block) for block in content] if content else None

    def model_post_init(self, context: Any, /) -> None:
        if not self.success and self.output is None and self.error and self.error.get("message"):
            self.output = self.error["message"]

    @model_serializer(mode="wrap")
    def _omit_absent_content(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = dump(self)
        if not self.content:
            fields.pop("content", None)
        return fields

    def __str__(self) -> str:
        if self.success:
            return str(self.output) if self.output else "Success"
        return f"Error: {self._error_message()}" if self.error else "Failed"

    def get_serialized_output(self) -> str:
        """Return the text a model reads: JSON for containers, control characters removed.

        Raises:
            TypeError: the output holds something JSON cannot express, other than a Decimal.
        """
        if isinstance(self.output, (dict, list)):
            text = json.dumps(self.output, default=_json_fallback)
        elif self.output is not None:
            text = str(self.output)
        elif self.success:
            text = "Success"
        else:
            text = f"Error: {self._error_message() if self.error else 'Failed'}"
        return _sanitize_for_llm(text)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy; unlike a plain model's, an update is validated.

        Raises:
            ValidationError: the copy would not be a tool result.
        """
        copied = super().model_copy(deep=deep)
        if not update:
            return copied
        given = {name: value for name, value in copied if name in copied.model_fields_set}
        return type(self).model_validate({**given, **update})

    def safe_hook_presentation(self) -> dict[str, Any]:
        """Return the dump with a line of text in place of each image, fit for events and logs."""
        presented = self.model_dump()
        if self.content:
            presented["content"] = [
                {"type": "text", "text": f"[image {block.source['media_type']} omitted]"}
                if isinstance(block, ImageBlock)
                else dumped
                for block, dumped in zip(self.content, presented["content"], strict=True)
            ]
        return presented

    def _error_message(self) -> str:
        return str((self.error or {}).get("message") or "Unknown error")


class ContextInjection(BaseModel):
    """One text that a hook wants in the conversation, and its origin."""

    model_config = _DEFERRED

    content: str
    role: Literal["system", "user", "assistant"] = "system"
    ephemeral: bool = False
    append_to_last_tool_result: bool = False
    hook_name: str = "unknown"
    event: str = ""


class HookResult(BaseModel):
    """A hook's decision; by default everything goes on unchanged."""

    model_config = _DEFERRED

    action: Literal["continue", "deny", "modify", "inject_context", "ask_user"] = "continue"
    data: FieldsByName | None = None
    reason: str | None = None
    context_injection: str | None = None
    context_injection_role: Literal["system", "user", "assistant"] = "system"
    ephemeral: bool = False
    approval_prompt: str | None = None
    approval_options: Annotated[list[str], FIRST_ERROR] | None = None
    approval_timeout: float = 300.0
    approval_default: Literal["allow", "deny"] = "deny"
    suppress_output: bool = False
    user_message: str | None = None
    user_message_level: Literal["info", "warning", "error"] = "info"
    user_message_source: str | None = None
    append_to_last_tool_result: bool = False
    context_injections: Annotated[list[ContextInjection], FIRST_ERROR] = Field(default_factory=list)


class Pricing(BaseModel):
    """A model's price, per million tokens."""

    model_config = _DEFERRED

    input_per_million: float
    output_per_million: float
    cache_read_per_million: float | None = None
    cache_write_per_million: float | None = None
    currency: str = Field(default="USD", pattern="^[A-Z]{3}$")


class ModelInfo(BaseModel):
    """A model a provider offers; sizes are tokens."""

    model_config = _DEFERRED

    id: str
    display_name: str
    context_window: int
    max_output_tokens: int
    capabilities: Annotated[list[str], FIRST_ERROR] = Field(default_factory=list)
    defaults: FieldsByName = Field(default_factory=dict)
    pricing: Pricing | None = None


class ConfigField(BaseModel):
    """One question an application asks to configure a provider."""

    model_config = _DEFERRED

    id: str
    display_name: str
    prompt: str
    field_type: Literal["text", "secret", "choice", "boolean"] = "text"
    env_var: str | None = None
    choices: Annotated[list[str], FIRST_ERROR] | None = None
    required: bool = True
    default: str | None = None
    show_when: Annotated[dict[str, str], FIRST_ERROR] | None = None
    requires_model: bool = False


class ProviderInfo(BaseModel):
    """A provider's description of itself."""

    model_config = _DEFERRED

    id: str
    display_name: str
    credential_env_vars: Annotated[list[str], FIRST_ERROR] = Field(default_factory=list)
    capabilities: Annotated[list[str], FIRST_ERROR] = Field(default_factory=list)
    defaults: FieldsByName = Field(default_factory=dict)
    config_fields: Annotated[list[ConfigField], FIRST_ERROR] = Field(default_factory=list)


class ModuleInfo(BaseModel):
    """The facts known about a module before it is loaded."""

    model_config = _DEFERRED

    id: str
    name: str
    version: str
    type: Literal["orchestrator", "provider", "tool", "context", "hook", "resolver"]
    mount_point: str
    description: str
    config_schema: FieldsByName | None = None


class SessionStatus(BaseModel):
    """Where a session stands; times are local and naive."""

    model_config = _DEFERRED

    session_id: str
    started_at: datetime = Field(default_factory=datetime.now)
    ended_at: datetime | None = None
    status: Literal["running", "completed", "failed", "cancelled"] = "running"
    total_messages: int = 0
    tool_invocations: int = 0
    tool_successes: int = 0
    tool_failures: int = 0
    total_input_tokens: int = 0
    total_output_tokens: int = 0
    cost_usd: Money | None = None
    last_activity: datetime | None = None
    last_error: FieldsByName | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form without the fields that are None."""
        return self.model_dump(mode="json", exclude_none=True)
