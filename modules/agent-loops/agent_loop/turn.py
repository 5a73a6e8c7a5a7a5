"""One prompt, from its submission to the answer.

A turn ends in exactly one way (see `Ending`), announces it in `execution:end`, `prompt:complete`,
`orchestrator:complete` and last in `message.end` or `error`, and leaves a conversation the next turn can go on from,
whether it answered, was refused, was cancelled or failed. Loops that do more than this one override its open steps:
`open`, `prepare`, `offer`, `reply`, `is_lost`, `follow_up` and `break_off`, or name another `batch`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from amplifier_core import events
from amplifier_core.llm_errors import ContextLengthError, InvalidToolCallError, LLMError, ProviderUnavailableError
from amplifier_core.message_models import ChatRequest, ChatResponse, ToolCall

from .heard_reply import HeardReply
from .hook_gate import HookGate, Injection
from .interruption import Cancellation, finish, wait_all
from .messages import blocks_of, new_call_id, request_for, shown, size_of, text_of, tool_calls_of, usage_of
from .providers import Choice
from .settings import LoopSettings
from .spans import Span, take_turn_id
from .tool_batch import CANCELLED, ToolBatch
from .transcript import Transcript

logger = logging.getLogger(__name__)

MESSAGE_END = "message.end"  # the last event of a turn that ended of its own accord or was stopped
ERROR = "error"  # the last event of a turn that failed
DISCARDED = "content_block:discarded"  # what was shown of a reply is void: it is asked for again
ANNOUNCED = (MESSAGE_END, ERROR, DISCARDED)  # events beyond the contract's, for hooks that log all that is announced

_TRIES = 3  # of one request; a reply lost three times would be lost again
_REASON = 500  # characters of an error that answer a call which it left open
_RAW = 2000  # characters of the arguments of a call that cannot be made, of which the model needs no more
_PREVIEW = 200  # characters of the answer that `prompt:complete` shows

_CHARACTERS_PER_TOKEN = 4  # of ordinary text, by which contexts estimate as well

_LIMIT_NOTE = (
    "The limit of model requests for this prompt is reached and tools are no longer available. "
    "Answer now with what you have, and say what remains undone."
)

Reply = Callable[[ChatRequest], Awaitable[Any]]
Status = Literal["success", "incomplete", "denied", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ended, and its answer."""

    status: Status
    answer: str


@dataclass(frozen=True, slots=True)
class Parts:
    """The objects that one turn uses."""

    loop: str  # the module's id, as events name it
    settings: LoopSettings
    context: Any
    provider_name: str
    provider: Any
    providers: Mapping[str, Any]
    tools: Mapping[str, Any]
    gate: HookGate
    coordinator: Any | None
    known: list[dict[str, Any]]  # the messages of the loop's latest request


class Turn:
    """The loop for one prompt."""

    batch: type[ToolBatch] = ToolBatch  # what runs the tool calls of a reply

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.gate = parts.gate
        # The turn's own span; each request and planning step is a span below it, each tool call one below its request.
        self.span = Span.root(take_turn_id(parts.coordinator))
        self.request_span = self.span
        self.iteration = 0
        self.latest_text = ""  # the latest text of the model, which is the answer if the turn is cut short
        self.cancellation = Cancellation(parts.coordinator)
        self.transcript = Transcript(parts.context)
        self.heard = HeardReply()
        self.offered: Mapping[str, Any] = {}  # the tools of the latest request, which its reply may call
        self._outcomes: Sequence[str | None] = ()

    # --- steps that other loops override

    async def open(self, prompt: str) -> Ending | None:
        """Prepare the first request; return an ending if the turn is over already."""
        return None

    async def prepare(self) -> None:
        """Prepare each request; additions to the conversation are sent with it."""

    async def offer(self) -> Mapping[str, Any]:
        """Return the tools that the next request offers, and that its reply may call."""
        return self.parts.tools

    async def reply(self, request: ChatRequest) -> Any:
        """Return the model's reply to a request."""
        return await self.parts.provider.complete(request)

    def is_lost(self, error: LLMError) -> bool:
        """Return whether a reply failed in a way that only a new request makes good, at once."""
        # A provider whose process ended has been restarted; errors that providers can retry, they have retried.
        return isinstance(error, ProviderUnavailableError) and error.retry_after == 0

    async def show(self, response: Any) -> None:
        """Announce the content blocks of a reply."""
        blocks, usage = blocks_of(response), usage_of(response)
        for index, block in enumerate(blocks):
            place = {"block_type": block.get("type"), "block_index": index, "total_blocks": len(blocks)}
            await self.gate.announce(events.CONTENT_BLOCK_START, self.request_span, place)
            # The usage is the whole reply's: with the last block only, so that it is added up once.
            spent = {"usage": usage} if usage is not None and index == len(blocks) - 1 else {}
            await self.gate.announce(events.CONTENT_BLOCK_END, self.request_span, {**place, "block": block, **spent})

    async def follow_up(self) -> bool:
        """Return whether the turn goes on although the model has answered; the next input is then added."""
        return False

    async def break_off(self) -> None:
        """Keep what was heard of a reply that was cancelled or failed."""
        heard = self.heard.end()
        if heard:
            self.latest_text = heard
            await self.transcript.add_partial(heard)

    # --- the loop

    async def run(self, prompt: str) -> str:
        """Return the answer.

        Raises:
            LLMError: the provider failed; every other exception of a provider, a context or a hook passes as well.
        """
        try:
            ending = await self._play(prompt)
        except asyncio.CancelledError:
            await finish(self._abandon(CANCELLED, None))
            raise
        except BaseException as error:
            reason = f"Error: the turn ended before this call did: {type(error).__name__}: {error}"[:_REASON]
            await finish(self._abandon(reason, error))
            raise
        await self._announce_end(ending, None)
        return ending.answer

    async def _play(self, prompt: str) -> Ending:
        verdict = await self.gate.ask(events.PROMPT_SUBMIT, self.span, {"prompt": prompt})
        if verdict.action == "deny":
            return Ending("denied", refusal(verdict.reason, "the prompt"))
        revised = (verdict.data or {}).get("prompt")
        prompt = revised if isinstance(revised, str) else prompt
        await self.gate.announce(events.EXECUTION_START, self.span, {"prompt": prompt})
        await self.transcript.add_prompt(prompt)
        ending = await self.open(prompt)
        if ending is not None:
            return ending

        while True:
            if self.cancellation.requested:
                return await self._cancelled()
            self.iteration += 1
            self.request_span = self.span.child(self.iteration)
            last = not self.parts.settings.allows(self.iteration)
            await self.prepare()
            self.offered = {} if last else await self.offer()
            verdict = await self.gate.ask(events.PROVIDER_REQUEST, self.request_span, await self._about_request(last))
            if verdict.action == "deny":
                return Ending("denied", refusal(verdict.reason, "the request to the model"))

            try:
                response = await self._ask_model(last)
            except InvalidToolCallError as error:
                if last:
                    return self._spent(self.latest_text)
                await self._answer_invalid(error)
                continue
            if response is None:
                return await self._cancelled()
            calls = [] if last else tool_calls_of(self.parts.provider, response)
            await self._take(response, calls)
            if last:
                return self._spent(text_of(response))
            if calls:
                await self._run_tools(calls)
            elif self.cancellation.requested or not await self.follow_up():
                return Ending("success", text_of(response))

    async def _about_request(self, last: bool) -> dict[str, Any]:
        about: dict[str, Any] = {"provider": self.parts.provider_name}
        model = getattr(self.parts.provider, "default_model", None)
        if isinstance(model, str):
            about["model"] = model
        if self.parts.settings.show_messages and self.gate.is_heard(events.PROVIDER_REQUEST):
            about["messages"] = shown(await self.messages())
        return {**about, "max_reached": True} if last else about

    async def _ask_model(self, last: bool) -> Any | None:
        """Return the model's reply, or None if the person stopped it."""
        if last:
            self.gate.remember(Injection(_LIMIT_NOTE))
        injections = self.gate.take_injections()
        messages, was_shortened = await self.messages(), False
        left = _TRIES
        while True:
            left -= 1
            try:
                request = request_for(messages, injections, self.offered, self.request_span, self.parts.known)
                self.heard.begin()
                return await self._interruptible(request, self.reply, self.parts.provider_name)
            except ContextLengthError:
                # The server takes less than its provider says: it is asked once more, for half of what was sent.
                shorter = None if was_shortened else await self._shorter(messages)
                if shorter is None or self.cancellation.requested:
                    raise
                messages, was_shortened = shorter, True
            except LLMError as error:
                if not left or self.cancellation.requested or not self.is_lost(error):
                    raise
                # What was shown of it is void; the request is made again.
                await self.gate.announce(DISCARDED, self.request_span, {})

    async def ask_aside(
        self, messages: Sequence[Any], purpose: str, parent: Span, choice: Choice | None = None
    ) -> Any | None:
        """Ask a model, the turn's own by default, a question beside the conversation.

        Return its reply, or None if a person stopped it.

        Raises:
            PermissionError: a hook refused the request.
            Exception: the provider's.
        """
        asked = choice or Choice(self.parts.provider_name, self.parts.provider)
        span = self.request_span = parent.child()
        about: dict[str, Any] = {"provider": asked.name, "purpose": purpose}
        about |= {"model": asked.model} if asked.model is not None else {}
        verdict = await self.gate.ask(events.PROVIDER_REQUEST, span, about)
        if verdict.action == "deny":
            raise PermissionError(verdict.reason or "a hook refused the request to the model")
        unseen = {"model": asked.model, "metadata": {**span.fields(), "stream": False}}  # no person reads the reply
        request = request_for(messages, (), {}, span).model_copy(update=unseen)
        response = await self._interruptible(request, asked.provider.complete, asked.name)
        if response is not None:
            about |= {"usage": usage_of(response), "tool_calls": False}
            await self.gate.ask(events.PROVIDER_RESPONSE, span, about)
        return response

    async def _interruptible(self, request: ChatRequest, reply: Reply, provider: str) -> Any | None:
        task = asyncio.get_running_loop().create_task(self._announcing(request, reply, provider), name=provider)
        await wait_all([task], self.cancellation)
        if self.cancellation.immediate and (not task.done() or task.cancelled() or task.exception() is not None):
            return None
        return task.result()

    async def _announcing(self, request: ChatRequest, reply: Reply, provider: str) -> Any:
        try:
            response = await reply(request)
            if not hasattr(response, "content"):
                said = f"it returned {type(response).__name__}, where a ChatResponse belongs"
                raise LLMError(
                    f"The provider gave no answer: {said}. What it showed does not count.", provider=provider
                )
            return response
        except Exception as error:
            # Emitted from the task that made the request, so that the kernel knows which request failed.
            await self.gate.ask(
                events.PROVIDER_ERROR,
                self.request_span,
                {
                    "provider": provider,
                    "error": described(error),
                    "retryable": isinstance(error, LLMError) and error.retryable,
                    "status_code": getattr(error, "status_code", None),
                },
            )
            raise

    async def messages(self, **bound: Any) -> list[Any]:
        """Return the conversation as the next request carries it, within what the provider takes or another bound."""
        prepare = getattr(self.parts.context, "get_messages_for_request", None)
        if prepare is None:
            return list(await self.parts.context.get_messages())
        return list(await prepare(**(bound or {"provider": self.parts.provider})))

    async def _shorter(self, messages: Sequence[Any]) -> list[Any] | None:
        """Return the conversation in half of the tokens of these messages; None if the context makes it no shorter."""
        size = size_of(messages)
        found = await self.messages(token_budget=size // (2 * _CHARACTERS_PER_TOKEN))
        return found if found and size_of(found) < size else None

    async def _take(self, response: Any, calls: Sequence[ToolCall]) -> None:
        """Store the reply and announce it."""
        self.heard.end()
        self.latest_text = text_of(response) or self.latest_text
        self._outcomes = ()
        await self.transcript.add_reply(response, calls)
        about = {
            "provider": self.parts.provider_name,
            "response": {"content": blocks_of(response), "finish_reason": getattr(response, "finish_reason", None)},
            "usage": usage_of(response),
            "tool_calls": bool(calls),
        }
        await self.gate.ask(events.PROVIDER_RESPONSE, self.request_span, about)
        await self.show(response)

    async def _run_tools(self, calls: Sequence[ToolCall]) -> None:
        gate, coordinator = self.gate, self.parts.coordinator
        batch = self.batch(calls, self.offered, gate, self.cancellation, self.request_span, coordinator)
        self._outcomes = batch.outcomes
        await self.transcript.answer(await batch.run())

    async def _answer_invalid(self, error: InvalidToolCallError) -> None:
        """Tell the model that a call of its cannot be made; no other call of that reply is known, and none is made."""
        await self.break_off()
        self._outcomes = ()
        raw = error.raw_arguments or ""
        shown = raw if len(raw) <= _RAW else f"{raw[:_RAW]}… ({len(raw)} characters in all)"
        call = ToolCall(id=new_call_id(), name=error.tool_name or "unknown", arguments={"raw": shown} if raw else {})
        message = f"Error: {error} No tool was run for this reply."
        await self.transcript.add_reply(ChatResponse(content=[]), [call])
        await self.transcript.answer([message])
        about = {"tool_name": call.name, "tool_call_id": call.id, "tool_input": call.arguments}
        failure = {"type": type(error).__name__, "msg": message}
        await self.gate.ask(events.TOOL_ERROR, self.request_span, {**about, "error": failure})

    def _spent(self, text: str) -> Ending:
        return Ending(
            "incomplete", text or f"Stopped: the limit of {self.iteration - 1} requests to the model is reached."
        )

    async def _cancelled(self) -> Ending:
        """Carry out the person's wish to stop, and announce it."""
        await self.break_off()
        about = {
            "orchestrator": self.parts.loop,
            "state": self.cancellation.state,
            "turn_count": self.iteration,
        }
        await self.gate.announce(events.CANCEL_REQUESTED, self.span, about)
        await self.cancellation.trigger_callbacks()
        was_immediate = self.cancellation.immediate
        await self.gate.announce(events.CANCEL_COMPLETED, self.span, {**about, "was_immediate": was_immediate})
        return Ending("cancelled", self.latest_text)

    async def _announce_end(self, ending: Ending, error: BaseException | None) -> None:
        gate, span, answer = self.gate, self.span, ending.answer
        summary = {"response_preview": answer[:_PREVIEW], "length": len(answer)}
        status = {"orchestrator": self.parts.loop, "turn_count": self.iteration, "status": ending.status}
        try:
            await gate.announce(events.EXECUTION_END, span, {"response": answer, "status": ending.status})
            await gate.ask(events.PROMPT_COMPLETE, span, summary)
            await gate.ask(events.ORCHESTRATOR_COMPLETE, span, status)
        finally:
            if error is None:
                await gate.announce(MESSAGE_END, span, {**status, **summary})
            else:
                await gate.announce(ERROR, span, {**status, "error": described(error)})

    async def _abandon(self, reason: str, error: BaseException | None) -> None:
        """Leave the conversation whole, and announce that the turn was cancelled from outside or failed."""
        await self.transcript.close(self._outcomes, reason)
        try:
            await self.break_off()
            await self._announce_end(Ending("cancelled" if error is None else "error", self.latest_text), error)
        except Exception:
            logger.warning("could not announce that the turn ended", exc_info=True)


def described(error: BaseException) -> dict[str, str]:
    """Return an error as events show it."""
    return {"type": type(error).__name__, "msg": str(error)}


def refusal(reason: str | None, what: str) -> str:
    """Return the answer of a turn that a hook ended."""
    return f"Denied: {reason or f'a hook refused {what}'}"
