"""What the context was told, kept by the host, so that its death loses and doubles nothing.

Calls that change the context are noted when they have ended well, as the bytes they were made
of. A fresh context is compared with them: an empty one gets everything at once, one that kept a
beginning gets the rest, and one that holds something else of its own is left as it is.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from paddock.rpc.handle import Encoded, Handle
from paddock.rpc.router import Router
from paddock_sdk.protocol import RemoteProtocolError

_MUTATORS: Final = frozenset({"add_message", "set_messages", "clear", "set_system_prompt_factory"})

_log = logging.getLogger(__name__)


class ContextJournal:
    """The messages of one session's context, in the order they were added."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._values = router.values
        self._calls: list[tuple[str, Encoded]] = []
        self._prompt_factory: Encoded | None = None

    def note(self, method: str, message: Encoded) -> None:
        """Remember a call of the context that ended well."""
        if method not in _MUTATORS:
            return
        if method == "set_system_prompt_factory":
            self._prompt_factory = message
        elif method == "add_message":
            self._calls.append((method, message))
        else:
            self._calls = [(method, message)] if method == "set_messages" else []

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages the context was told."""
        messages: list[dict[str, Any]] = []
        for _, call in self._calls:
            told = self._told(call)
            messages.extend(told if isinstance(told, list) else [told] if isinstance(told, dict) else [])
        return messages

    async def restore(self, handle: Handle) -> None:
        """Bring the fresh context behind `handle` to where its predecessor was."""
        if self._prompt_factory is not None:
            await self._call(handle, "set_system_prompt_factory", self._prompt_factory)
        told = self.messages()
        present = await self.present(handle)
        if present == told[: len(present)]:
            missing = told[len(present) :]
            if not present and missing:
                await self._call(handle, "set_messages", self._values.encode([[missing], {}]))
            else:
                for message in missing:
                    await self._call(handle, "add_message", self._values.encode([[message], {}]))
        else:
            _log.warning(
                "context `%s` came back with messages of its own; they stay, nothing was added", handle.owner.name
            )

    async def ends_with(self, handle: Handle, call: Encoded) -> bool:
        """Whether the last message of the context is the one that `call` adds and the journal has not noted."""
        present = await self.present(handle)
        return len(present) > len(self.messages()) and present[-1] == self._told(call)

    def _told(self, call: Encoded) -> Any:
        """Return the one argument of a call, None if it has none."""
        try:
            args, kwargs = self._values.decode(call)
            return args[0] if args else next(iter(kwargs.values()), None)
        except (RemoteProtocolError, AttributeError, LookupError, TypeError, ValueError):
            return None  # if the context took it, it meant something there; it cannot be told again

    async def present(self, handle: Handle) -> list[dict[str, Any]]:
        """Return the messages that the context holds now."""
        messages: list[dict[str, Any]] = self._values.decode(
            await self._call(handle, "get_messages", self._values.encode([[], {}]))
        )
        return messages

    async def _call(self, handle: Handle, member: str, message: Encoded) -> Encoded:
        method = handle.description(self._values.codec).number_of(member)
        if method is None:
            raise AttributeError(f"context `{handle.owner.name}` has no `{member}`")
        return await self._router.call_now(handle, method, message)
