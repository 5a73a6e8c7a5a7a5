"""Emit the events of one request: `llm:request` and `llm:response`, retries, repairs, and the blocks of an answer.

Each event has the ids by which a loop distinguishes its requests. Without hooks no event is emitted.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from amplifier_core import events
from amplifier_core.llm_errors import LLMError
from amplifier_core.message_models import ChatResponse

from .conversation import Repair
from .reply import DELTA, END, START, Shown

logger = logging.getLogger(__name__)

_ABORTED: Final = "llm:stream_aborted"
ANNOUNCED: Final = (START, DELTA, END, _ABORTED)  # as providers of the community announce answers within `complete`
_SPANS: Final = ("turn_id", "span_id", "parent_span_id", "iteration")


class Observers:
    """Announces one request."""

    def __init__(
        self,
        hooks: Any | None,
        provider: str,
        model: str,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        self._hooks = hooks
        self._shows = (metadata or {}).get("stream") is not False
        self._try = ""  # the id of a try of which something was announced
        span = {name: value for name, value in (metadata or {}).items() if name in _SPANS}
        self._about = {"provider": provider, "model": model, **span}

    async def repaired(self, repairs: Sequence[Repair]) -> None:
        logger.warning("repaired %d tool calls or results in the conversation", len(repairs))
        answered = [one for one in repairs if one.repair == "answered"]
        about = {
            "repair_count": len(repairs),
            "repairs": [{"tool_call_id": one.tool_call_id, "tool_name": one.tool_name} for one in answered],
            "dropped_results": [one.tool_call_id for one in repairs if one.repair == "dropped"],
        }
        await self._emit(events.PROVIDER_TOOL_SEQUENCE_REPAIRED, about)

    async def asked(self, messages: int, tools: int) -> None:
        await self._emit(events.LLM_REQUEST, {"message_count": messages, "tools": tools})

    async def retried(self, failure: LLMError, attempt: int, most: int, delay: float) -> None:
        """Announce that a request failed and is made again after `delay` seconds; `attempt` counts from 1."""
        about = {
            "attempt": attempt,
            "max_retries": most,
            "delay": delay,
            "retry_after": getattr(failure, "retry_after", None),
            "error": {"type": type(failure).__name__, "msg": str(failure)},
        }
        await self._emit(events.PROVIDER_RETRY, about)

    async def show(self, shown: Shown) -> None:
        """Announce a part of an answer, unless nobody reads it."""
        if not self._shows:
            return
        self._try = self._try or uuid.uuid4().hex
        about = {"request_id": self._try, "block_index": shown.index, "block_type": shown.kind}
        piece = {"sequence": shown.sequence, "text": shown.text} if shown.event == DELTA else {}
        await self._emit(shown.event, {**about, **piece})

    async def over(self, failure: LLMError | None = None) -> None:
        """End a try; with a failure, announce that what was announced of it is void."""
        ended, self._try = self._try, ""
        if failure is not None and ended:
            error = {"type": type(failure).__name__, "msg": str(failure)}
            await self._emit(_ABORTED, {"request_id": ended, "error": error})

    async def answered(self, response: ChatResponse, seconds: float) -> None:
        about = {
            "status": "ok",
            "duration_ms": round(seconds * 1000),
            "finish_reason": response.finish_reason,
            "usage": None if response.usage is None else response.usage.model_dump(mode="json"),
            "tool_calls": len(response.tool_calls or ()),
        }
        await self._emit(events.LLM_RESPONSE, about)

    async def _emit(self, event: str, data: dict[str, Any]) -> None:
        if self._hooks is not None:
            await self._hooks.emit(event, {**self._about, **data})
