"""One prompt, from its submission to the answer.

A turn ends in exactly one way (see `Ending`), tells it in `execution:end` and `orchestrator:complete`, and leaves a
conversation the next turn can go on from, whether it answered, was refused, was cancelled or failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from amplifier_core import events
from amplifier_core.llm_errors import LLMError
from amplifier_core.message_models import ChatRequest, ToolCall

from .hook_gate import HookGate, Injection
from .interruption import Cancellation, finish, wait_all
from .messages import blocks_of, request_for, text_of, tool_calls_of, usage_of
from .settings import Settings
from .tool_batch import CANCELLED, ToolBatch
from .transcript import Transcript

logger = logging.getLogger(__name__)

NAME = "loop-basic"
_REASON = 500  # characters of an error that answer a call which it left open
_PREVIEW = 200  # characters of the answer that `prompt:complete` shows

_LIMIT_NOTE = (
    "The limit of model requests for this prompt is reached and tools are no longer available. "
    "Answer now with what you have, and say what remains undone."
)

Status = Literal["success", "incomplete", "denied", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ended, and what it answered."""

    status: Status
    answer: str


class Turn:
    """The loop for one prompt."""

    def __init__(
        self,
        settings: Settings,
        context: Any,
        provider: tuple[str, Any],
        tools: Mapping[str, Any],
        gate: HookGate,
        coordinator: Any | None,
    ) -> None:
        self._settings = settings
        self._context = context
        self._provider_name, self._provider = provider
        self._tools = tools
        self._gate = gate
        self._cancellation = Cancellation(coordinator)
        self._transcript = Transcript(context)
        self._outcomes: Sequence[str | None] = ()
        self._iteration = 0
        self._said = ""  # the latest text of the model, which is the answer if the turn is cut short

    async def run(self, prompt: str) -> str:
        """Return the answer.

        Raises:
            LLMError: the provider failed; every other exception of a provider, a context or a hook passes as well.
        """
        try:
            ending = await self._play(prompt)
        except asyncio.CancelledError:
            await finish(self._abandon(CANCELLED, Ending("cancelled", self._said)))
            raise
        except BaseException as error:
            reason = f"Error: the turn ended before this call did: {type(error).__name__}: {error}"[:_REASON]
            await finish(self._abandon(reason, Ending("error", self._said)))
            raise
        await self._tell(ending)
        return ending.answer

    async def _play(self, prompt: str) -> Ending:
        verdict = await self._gate.ask(events.PROMPT_SUBMIT, {"prompt": prompt})
        if verdict.action == "deny":
            return Ending("denied", _refusal(verdict.reason, "the prompt"))
        revised = (verdict.data or {}).get("prompt")
        prompt = revised if isinstance(revised, str) else prompt
        await self._gate.announce(events.EXECUTION_START, {"prompt": prompt})
        await self._transcript.add_prompt(prompt)

        while True:
            if self._cancellation.requested:
                return await self._cancelled()
            self._iteration += 1
            last = not self._settings.allows(self._iteration)
            about = {"provider": self._provider_name, "iteration": self._iteration}
            verdict = await self._gate.ask(events.PROVIDER_REQUEST, {**about, "max_reached": True} if last else about)
            if verdict.action == "deny":
                return Ending("denied", _refusal(verdict.reason, "the request to the model"))

            response = await self._ask_model(last)
            if response is None:
                return await self._cancelled()
            calls = [] if last else tool_calls_of(self._provider, response)
            await self._take(response, calls)
            if last:
                spent = f"Stopped: the limit of {self._iteration - 1} requests to the model is reached."
                return Ending("incomplete", text_of(response) or spent)
            if not calls:
                return Ending("success", text_of(response))
            await self._run_tools(calls)

    async def _ask_model(self, last: bool) -> Any | None:
        """Return the model's reply, or None if the person stopped it."""
        if last:
            self._gate.remember(Injection(_LIMIT_NOTE))
        messages = await self._messages()
        request = request_for(messages, self._gate.take_injections(), None if last else self._tools)
        task = asyncio.get_running_loop().create_task(self._complete(request), name=self._provider_name)
        await wait_all([task], self._cancellation)
        if self._cancellation.immediate and (not task.done() or task.cancelled() or task.exception() is not None):
            return None
        return task.result()

    async def _complete(self, request: ChatRequest) -> Any:
        try:
            return await self._provider.complete(request)
        except Exception as error:
            # Emitted from the task that made the request, so that the kernel can tell which request failed.
            await self._gate.ask(
                events.PROVIDER_ERROR,
                {
                    "provider": self._provider_name,
                    "error": {"type": type(error).__name__, "msg": str(error)},
                    "retryable": isinstance(error, LLMError) and error.retryable,
                    "status_code": getattr(error, "status_code", None),
                },
            )
            raise

    async def _messages(self) -> list[Any]:
        prepare = getattr(self._context, "get_messages_for_request", None)
        if prepare is None:
            return list(await self._context.get_messages())
        return list(await prepare(provider=self._provider))

    async def _take(self, response: Any, calls: Sequence[ToolCall]) -> None:
        """Store the reply and tell the hooks about it."""
        self._said = text_of(response) or self._said
        self._outcomes = ()
        await self._transcript.add_reply(response, calls)
        usage = usage_of(response)
        about = {"provider": self._provider_name, "usage": usage, "tool_calls": bool(calls)}
        await self._gate.ask(events.PROVIDER_RESPONSE, about)
        blocks = blocks_of(response)
        for index, block in enumerate(blocks):
            place = {"block_type": block.get("type"), "block_index": index, "total_blocks": len(blocks)}
            await self._gate.announce(events.CONTENT_BLOCK_START, place)
            # The usage is the whole reply's: with the last block only, so that nobody adds it up.
            spent = {"usage": usage} if usage is not None and index == len(blocks) - 1 else {}
            await self._gate.announce(events.CONTENT_BLOCK_END, {**place, "block": block, **spent})

    async def _run_tools(self, calls: Sequence[ToolCall]) -> None:
        batch = ToolBatch(calls, self._tools, self._gate, self._cancellation)
        self._outcomes = batch.outcomes
        await self._transcript.answer(await batch.run())

    async def _cancelled(self) -> Ending:
        """Carry out the person's wish to stop, and say so."""
        about = {"orchestrator": NAME, "state": self._cancellation.state, "turn_count": self._iteration}
        await self._gate.announce(events.CANCEL_REQUESTED, about)
        await self._cancellation.trigger_callbacks()
        was_immediate = self._cancellation.immediate
        await self._gate.announce(events.CANCEL_COMPLETED, {**about, "was_immediate": was_immediate})
        return Ending("cancelled", self._said)

    async def _tell(self, ending: Ending) -> None:
        await self._gate.announce(events.EXECUTION_END, {"response": ending.answer, "status": ending.status})
        preview = ending.answer[:_PREVIEW]
        await self._gate.ask(events.PROMPT_COMPLETE, {"response_preview": preview, "length": len(ending.answer)})
        await self._tell_status(ending)

    async def _tell_status(self, ending: Ending) -> None:
        about = {"orchestrator": NAME, "turn_count": self._iteration, "status": ending.status}
        await self._gate.ask(events.ORCHESTRATOR_COMPLETE, about)

    async def _abandon(self, reason: str, ending: Ending) -> None:
        """Leave the conversation whole, and say how the turn ended."""
        await self._transcript.close(self._outcomes, reason)
        try:
            await self._gate.announce(events.EXECUTION_END, {"response": ending.answer, "status": ending.status})
            await self._tell_status(ending)
        except Exception:
            logger.warning("loop-basic: could not tell the hooks that the turn ended", exc_info=True)


def _refusal(reason: str | None, what: str) -> str:
    return f"Denied: {reason or f'a hook refused {what}'}"
