"""The person at an MCP client, whom modules ask something, each in the service of a call of that client."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Literal, TypeGuard

from paddock.lookalikes import marked
from paddock.rpc.asking_call import asking_call
from paddock.rpc.calls import current
from paddock.session.requester import current_requester
from paddock.text import escape
from paddock_sdk.contract.approval import ApprovalTimeoutError
from paddock_sdk.contract.models import HookResult
from paddock_sdk.mcp.messages import Json

PROGRESS: Final = "tool:progress"  # the event of a module that tells how far a call is

_DENIED: Final = "deny"
_MAX_CHARACTERS: Final = 4_000  # of a question; a client shows no more at a time
_FIELD: Final = "answer"


@dataclass(frozen=True, slots=True)
class ClientCall:
    """One call of a client while it runs.

    `elicit` asks the person at the client, with a message and the schema of a form, and returns the protocol's answer,
    `{"action": "accept" | "decline" | "cancel", "content": …}`; it is None for a client that cannot ask. `progress`
    tells the client how far the call is: what is done, of how much, and a message.
    """

    elicit: Callable[[str, Json], Awaitable[Json]] | None
    progress: Callable[[float, float | None, str], None]


_serving: ContextVar[ClientCall | None] = ContextVar("client_call", default=None)


def client_call() -> ClientCall | None:
    """Return the client's call that the running code serves, by itself or for a module that serves it.

    What a module asks of its own accord serves none: a process is started in the service of whichever call needed it.
    """
    if current.get() is None:
        return _serving.get()
    asking = asking_call()
    return None if asking is None else asking.context.get(_serving)


async def tell_progress(event: str, data: Json) -> HookResult:
    """Tell the client how far its call is, which the event serves."""
    call = client_call()
    done, total, message = (data.get(one) for one in ("progress", "total", "message"))
    if call is not None and _is_number(done):
        call.progress(done, total if _is_number(total) else None, str(message or ""))
    return HookResult()


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and math.isfinite(value)


class ClientApproval:
    """An approval system whose questions go to the client of the call that they serve; `mask` hides secrets."""

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        self.mask = mask
        self.is_attended = True

    @contextmanager
    def serving(self, call: ClientCall) -> Iterator[None]:
        """Let what is done within serve this call."""
        self.is_attended = call.elicit is not None
        token = _serving.set(call)
        try:
            yield
        finally:
            _serving.reset(token)

    async def request_approval(
        self,
        prompt: str,
        options: list[str],
        timeout: float,
        default: Literal["allow", "deny"],
    ) -> str:
        """Return the person's choice; if the client cannot ask, `default`. A person who declines or leaves denies.

        Raises:
            ApprovalTimeoutError: no answer came in time.
        """
        call = client_call()
        if call is None or call.elicit is None:
            return default
        requester = current_requester()
        who = "Paddock" if requester is None else f"module `{marked(requester.name)}`"
        asked = escape(self.mask(prompt)[:_MAX_CHARACTERS], multiline=True)
        shown = {escape(self.mask(option)): option for option in options}
        schema = {
            "type": "object",
            "properties": {_FIELD: {"type": "string", "title": "Your answer", "enum": [*shown]}},
            "required": [_FIELD],
        }
        try:
            async with asyncio.timeout(timeout):
                reply = await call.elicit(f"{who} asks: {asked}", schema)
        except TimeoutError:
            raise ApprovalTimeoutError(f"no answer came within {timeout:g} s") from None
        content = reply.get("content")
        if reply.get("action") != "accept" or not isinstance(content, dict):
            return _DENIED
        return shown.get(str(content.get(_FIELD)), _DENIED)
