"""The contract's models as a table: for each its fields in order, each with what stands when it is not given."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel

from paddock_sdk.contract import interfaces, message_models, models

REQUIRED = object()
NOW = object()


@dataclass(frozen=True)
class Row:
    """One model: its fields, what makes a smallest instance, and what becomes of unknown keys."""

    model: type[BaseModel]
    fields: dict[str, Any]
    smallest: dict[str, Any]
    extras: Literal["kept", "ignored"]


def _block(model: type[BaseModel], kind: str, fields: dict[str, Any], smallest: dict[str, Any]) -> Row:
    return Row(model, {"type": kind, **fields, "visibility": None}, smallest, "kept")


_ZEROES = dict.fromkeys(
    (
        "total_messages",
        "tool_invocations",
        "tool_successes",
        "tool_failures",
        "total_input_tokens",
        "total_output_tokens",
    ),
    0,
)

TABLE = [
    Row(models.ToolResult, {"success": True, "output": None, "error": None, "content": None}, {}, "ignored"),
    Row(
        models.HookResult,
        {
            "action": "continue",
            "data": None,
            "reason": None,
            "context_injection": None,
            "context_injection_role": "system",
            "ephemeral": False,
            "approval_prompt": None,
            "approval_options": None,
            "approval_timeout": 300.0,
            "approval_default": "deny",
            "suppress_output": False,
            "user_message": None,
            "user_message_level": "info",
            "user_message_source": None,
            "append_to_last_tool_result": False,
            "context_injections": [],
        },
        {},
        "ignored",
    ),
    Row(
        models.ContextInjection,
        {
            "content": REQUIRED,
            "role": "system",
            "ephemeral": False,
            "append_to_last_tool_result": False,
            "hook_name": "unknown",
            "event": "",
        },
        {"content": "text"},
        "ignored",
    ),
    Row(
        models.Pricing,
        {
            "input_per_million": REQUIRED,
            "output_per_million": REQUIRED,
            "cache_read_per_million": None,
            "cache_write_per_million": None,
            "currency": "USD",
        },
        {"input_per_million": 1.0, "output_per_million": 2.0},
        "ignored",
    ),
    Row(
        models.ModelInfo,
        {
            "id": REQUIRED,
            "display_name": REQUIRED,
            "context_window": REQUIRED,
            "max_output_tokens": REQUIRED,
            "capabilities": [],
            "defaults": {},
            "pricing": None,
        },
        {"id": "m", "display_name": "M", "context_window": 1000, "max_output_tokens": 100},
        "ignored",
    ),
    Row(
        models.ConfigField,
        {
            "id": REQUIRED,
            "display_name": REQUIRED,
            "prompt": REQUIRED,
            "field_type": "text",
            "env_var": None,
            "choices": None,
            "required": True,
            "default": None,
            "show_when": None,
            "requires_model": False,
        },
        {"id": "key", "display_name": "Key", "prompt": "Key?"},
        "ignored",
    ),
    Row(
        models.ProviderInfo,
        {
            "id": REQUIRED,
            "display_name": REQUIRED,
            "credential_env_vars": [],
            "capabilities": [],
            "defaults": {},
            "config_fields": [],
        },
        {"id": "p", "display_name": "P"},
        "ignored",
    ),
    Row(
        models.ModuleInfo,
        {
            "id": REQUIRED,
            "name": REQUIRED,
            "version": REQUIRED,
            "type": REQUIRED,
            "mount_point": REQUIRED,
            "description": REQUIRED,
            "config_schema": None,
        },
        {
            "id": "tool-x",
            "name": "x",
            "version": "1",
            "type": "tool",
            "mount_point": "tools",
            "description": "does x",
        },
        "ignored",
    ),
    Row(
        models.SessionStatus,
        {
            "session_id": REQUIRED,
            "started_at": NOW,
            "ended_at": None,
            "status": "running",
            **_ZEROES,
            "cost_usd": None,
            "last_activity": None,
            "last_error": None,
        },
        {"session_id": "s"},
        "ignored",
    ),
    _block(message_models.TextBlock, "text", {"text": REQUIRED}, {"text": "hi"}),
    _block(
        message_models.ThinkingBlock,
        "thinking",
        {"thinking": REQUIRED, "signature": None, "content": None},
        {"thinking": "hm"},
    ),
    _block(message_models.RedactedThinkingBlock, "redacted_thinking", {"data": REQUIRED}, {"data": "xx"}),
    _block(
        message_models.ToolCallBlock,
        "tool_call",
        {"id": REQUIRED, "name": REQUIRED, "input": REQUIRED},
        {"id": "1", "name": "t", "input": {}},
    ),
    _block(
        message_models.ToolResultBlock,
        "tool_result",
        {"tool_call_id": REQUIRED, "output": REQUIRED},
        {"tool_call_id": "1", "output": None},
    ),
    _block(message_models.ImageBlock, "image", {"source": REQUIRED}, {"source": {"type": "url", "url": "u"}}),
    _block(
        message_models.ReasoningBlock,
        "reasoning",
        {"content": REQUIRED, "summary": REQUIRED},
        {"content": [], "summary": []},
    ),
    Row(
        message_models.Message,
        {"role": REQUIRED, "content": REQUIRED, "name": None, "tool_call_id": None, "metadata": None},
        {"role": "user", "content": "hi"},
        "kept",
    ),
    Row(
        message_models.ToolSpec,
        {"name": REQUIRED, "parameters": REQUIRED, "description": None},
        {"name": "t", "parameters": {}},
        "kept",
    ),
    Row(message_models.ResponseFormatText, {"type": "text"}, {}, "ignored"),
    Row(message_models.ResponseFormatJson, {"type": "json"}, {}, "ignored"),
    Row(
        message_models.ResponseFormatJsonSchema,
        {"type": "json_schema", "json_schema": REQUIRED, "strict": None},
        {"json_schema": {}},
        "ignored",
    ),
    Row(
        message_models.ChatRequest,
        {
            "messages": REQUIRED,
            "tools": None,
            "response_format": None,
            "temperature": None,
            "top_p": None,
            "max_output_tokens": None,
            "conversation_id": None,
            "stream": False,
            "metadata": None,
            "model": None,
            "tool_choice": None,
            "stop": None,
            "reasoning_effort": None,
            "timeout": None,
        },
        {"messages": []},
        "kept",
    ),
    Row(
        message_models.ToolCall,
        {"id": REQUIRED, "name": REQUIRED, "arguments": REQUIRED},
        {"id": "1", "name": "t", "arguments": {}},
        "kept",
    ),
    Row(
        message_models.Usage,
        {
            "input_tokens": REQUIRED,
            "output_tokens": REQUIRED,
            "total_tokens": REQUIRED,
            "reasoning_tokens": None,
            "cache_read_tokens": None,
            "cache_write_tokens": None,
            "cost_usd": None,
        },
        {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        "kept",
    ),
    Row(
        message_models.Degradation,
        {"requested": REQUIRED, "actual": REQUIRED, "reason": REQUIRED},
        {"requested": "a", "actual": "b", "reason": "c"},
        "kept",
    ),
    Row(
        message_models.ChatResponse,
        {
            "content": REQUIRED,
            "tool_calls": None,
            "usage": None,
            "degradation": None,
            "finish_reason": None,
            "metadata": None,
        },
        {"content": []},
        "kept",
    ),
    Row(
        interfaces.ApprovalRequest,
        {"tool_name": REQUIRED, "action": REQUIRED, "risk_level": REQUIRED, "details": {}, "timeout": None},
        {"tool_name": "bash", "action": "rm", "risk_level": "whatever"},
        "ignored",
    ),
    Row(
        interfaces.ApprovalResponse,
        {"approved": REQUIRED, "reason": None, "remember": False},
        {"approved": True},
        "ignored",
    ),
]


def expected_value(row: Row, field: str, actual: object) -> object:
    """Return what a smallest instance should hold in a field."""
    if field in row.smallest:
        return row.smallest[field]
    default = row.fields[field]
    if default is NOW:
        assert isinstance(actual, datetime)
        return actual
    return default
