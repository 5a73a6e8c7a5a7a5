"""Ask the person at an MCP client, in whose call a module asks something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal

from paddock.lookalikes import marked
from paddock.mcp_server.served import ClientCall
from paddock.session.requester import asking_call, current_requester
from paddock.text import escape
from paddock_sdk.contract.approval import ApprovalTimeoutError

_DENIED: Final = "deny"
_MAX_CHARACTERS: Final = 4_000  # of a question; a client shows no more at a time
_FIELD: Final = "answer"

_serving: ContextVar[ClientCall | None] = ContextVar("client_call", default=None)


class ClientApproval:
    """An approval system whose questions go to the client of the call that they serve; `mask` hides secrets."""

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        self.mask = mask
        self.is_attended = True

    @contextmanager
    def serving(self, call: ClientCall) -> Iterator[None]:
        """Have questions that serve what is done within put to the client of this call."""
        self.is_attended = call.elicit is not None
        token = _serving.set(call)
        try:
            yield
        finally:
            _serving.reset(token)

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Return the person's choice; if the client cannot ask, `default`. A person who declines or leaves denies.

        Raises:
            ApprovalTimeoutError: no answer came in time.
        """
        asking, requester = asking_call(), current_requester()
        call = _serving.get() if asking is None else asking.context.get(_serving)
        if call is None or call.elicit is None:
            return default
        asked = prompt[:_MAX_CHARACTERS] + "…" * (len(prompt) > _MAX_CHARACTERS)
        who = "Paddock" if requester is None else f"module `{marked(requester.name)}`"
        schema = {
            "type": "object",
            "properties": {_FIELD: {"type": "string", "title": "Your answer", "enum": options}},
            "required": [_FIELD],
        }
        try:
            async with asyncio.timeout(timeout):
                reply = await call.elicit(f"{who} asks: {escape(self.mask(asked), multiline=True)}", schema)
        except TimeoutError:
            raise ApprovalTimeoutError(f"no answer came within {timeout:g} s") from None
        content = reply.get("content")
        chosen = content.get(_FIELD) if reply.get("action") == "accept" and isinstance(content, dict) else None
        return chosen if chosen in options else _DENIED
