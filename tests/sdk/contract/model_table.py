"""The contract's models, each with what makes a smallest instance of it.

`tests/blackbox/golden/names_in_a_worker.json` has their fields and defaults, the appendix of `sdk/PROTOCOL.md` also the
types, and which of them keep further fields.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from paddock_sdk.contract import interfaces, message_models, models

_INFO = {"id": "tool-x", "name": "x", "version": "1", "type": "tool", "mount_point": "tools", "description": "does x"}

SMALLEST: dict[type[BaseModel], dict[str, Any]] = {
    models.ToolResult: {},
    models.HookResult: {},
    models.ContextInjection: {"content": "text"},
    models.Pricing: {"input_per_million": 1.0, "output_per_million": 2.0},
    models.ModelInfo: {"id": "m", "display_name": "M", "context_window": 1000, "max_output_tokens": 100},
    models.ConfigField: {"id": "key", "display_name": "Key", "prompt": "Key?"},
    models.ProviderInfo: {"id": "p", "display_name": "P"},
    models.ModuleInfo: _INFO,
    models.SessionStatus: {"session_id": "s"},
    message_models.TextBlock: {"text": "hi"},
    message_models.ThinkingBlock: {"thinking": "hm"},
    message_models.RedactedThinkingBlock: {"data": "xx"},
    message_models.ToolCallBlock: {"id": "1", "name": "t", "input": {}},
    message_models.ToolResultBlock: {"tool_call_id": "1", "output": None},
    message_models.ImageBlock: {"source": {"type": "url", "url": "u"}},
    message_models.ReasoningBlock: {"content": [], "summary": []},
    message_models.Message: {"role": "user", "content": "hi"},
    message_models.ToolSpec: {"name": "t", "parameters": {}},
    message_models.ResponseFormatText: {},
    message_models.ResponseFormatJson: {},
    message_models.ResponseFormatJsonSchema: {"json_schema": {}},
    message_models.ChatRequest: {"messages": []},
    message_models.ToolCall: {"id": "1", "name": "t", "arguments": {}},
    message_models.Usage: {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    message_models.Degradation: {"requested": "a", "actual": "b", "reason": "c"},
    message_models.ChatResponse: {"content": []},
    interfaces.ApprovalRequest: {"tool_name": "bash", "action": "rm", "risk_level": "whatever"},
    interfaces.ApprovalResponse: {"approved": True},
}
KEEPING = [model for model in SMALLEST if model.model_config.get("extra") == "allow"]
