"""The strings of the contract: every event and every model capability, spelled and ordered."""

from __future__ import annotations

from paddock_sdk.contract import capabilities, events
from support.rows import each_row

EVENTS = [
    "session:start",
    "session:end",
    "session:fork",
    "session:resume",
    "prompt:submit",
    "prompt:complete",
    "plan:start",
    "plan:end",
    "provider:request",
    "provider:response",
    "provider:retry",
    "provider:error",
    "provider:throttle",
    "provider:tool_sequence_repaired",
    "provider:resolve",
    "llm:request",
    "llm:response",
    "content_block:start",
    "content_block:delta",
    "content_block:end",
    "thinking:delta",
    "thinking:final",
    "tool:pre",
    "tool:post",
    "tool:error",
    "context:pre_compact",
    "context:post_compact",
    "context:compaction",
    "context:include",
    "orchestrator:complete",
    "execution:start",
    "execution:end",
    "user:notification",
    "artifact:write",
    "artifact:read",
    "policy:violation",
    "approval:required",
    "approval:granted",
    "approval:denied",
    "cancel:requested",
    "cancel:completed",
    "module:on_session_ready_failed",
    "module:load_failed",
]

CAPABILITIES = [
    "tools",
    "streaming",
    "thinking",
    "vision",
    "json_mode",
    "fast",
    "code_execution",
    "web_search",
    "deep_research",
    "local",
    "audio",
    "image_generation",
    "computer_use",
    "embeddings",
    "long_context",
    "batch",
]


def test_there_are_forty_three_events_in_order() -> None:
    assert len(EVENTS) == 43
    assert events.ALL_EVENTS == EVENTS


@each_row("event", EVENTS)
def test_an_event_s_constant_is_its_name_in_capitals(event: str) -> None:
    assert getattr(events, event.replace(":", "_").upper()) == event


def test_there_are_sixteen_capabilities_in_order() -> None:
    assert len(CAPABILITIES) == 16
    assert capabilities.ALL_WELL_KNOWN_CAPABILITIES == CAPABILITIES


@each_row("capability", CAPABILITIES)
def test_a_capability_s_constant_is_its_name_in_capitals(capability: str) -> None:
    assert getattr(capabilities, capability.upper()) == capability
