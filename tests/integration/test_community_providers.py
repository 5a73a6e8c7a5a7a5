"""Providers and contexts of the community, unmodified: what they answer, raise, keep, and are asked in place."""

from __future__ import annotations

from decimal import Decimal

from amplifier_core.message_models import ChatRequest, Message

from integration.community import community, listen, messages, script
from integration.conftest import OpenSession


async def test_a_vendors_own_response_class_keeps_blocks_state_and_costs(
    open_session: OpenSession,
) -> None:
    async with open_session(
        orchestrator=community("loop-plain", config={"extended_thinking": True}),
        providers=[*script("never asked"), community("provider-brook")],
    ) as session:
        ended = listen(session, "content_block:start", "content_block:end")
        before = await session.coordinator.collect_contributions("session.cost")
        answer = await session.execute("hello")
        after = await session.coordinator.collect_contributions("session.cost")
        [_, stored] = await messages(session)
        response = await session.coordinator.get("providers", "brook").complete(_asking("again"))
    assert answer == "after thinking: hello"
    assert [event.data["block_type"] for event in ended if "block_type" in event.data] == ["thinking", "text"]
    blocks = [event.data["block"] for event in ended if "block" in event.data]
    assert blocks == [{"type": "thinking", "text": "hm, hello"}, {"type": "text", "text": "after thinking: hello"}]
    assert stored["metadata"] == {"brook:state": ["r-1", {"cursor": 7}]}
    assert [before, after] == [[{"cost_usd": None}], [{"cost_usd": "0.0125"}]]
    assert [type(block).__name__ for block in response.content] == ["ThinkingBlock", "TextBlock"]
    assert response.content[0].signature == "brook-sig"
    assert [(type(block).__name__, block.type.value, block.raw) for block in response.content_blocks] == [
        ("ThinkingContent", "thinking", None),
        ("TextContent", "text", None),
    ]
    assert response.text == "you said again"
    assert response.usage.cost_usd == Decimal("0.0125")


def _asking(text: str) -> ChatRequest:
    return ChatRequest(messages=[Message(role="user", content=text)])
