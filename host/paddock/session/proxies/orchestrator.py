"""The orchestrator of a session, which lives in a worker and finds everything it needs there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from paddock.errors import KindError, ModuleLoadError
from paddock.rpc.host_calls import HostCalls
from paddock.rpc.peer import Handle
from paddock.text import escape
from paddock_sdk.protocol import LocalProtocolError


class OrchestratorProxy:
    """Runs turns in the orchestrator's own process, each after `before_turn`."""

    def __init__(self, host_calls: HostCalls, handle: Handle, before_turn: Callable[[], Awaitable[None]]) -> None:
        self._host_calls = host_calls
        self._handle = handle
        self._before_turn = before_turn

    async def execute(self, prompt: str, **session: Any) -> Any:
        """Run one turn; the worker has the session's objects, so only the prompt is sent.

        Raises:
            KindError: the prompt is too large for a message.
            Exception: the orchestrator's own, with a note of where it was raised, or that its process ended.
        """
        marshaller = self._host_calls.marshaller
        method = self._handle.description(marshaller.codec).number_of("execute")
        if method is None:
            raise ModuleLoadError(
                self._handle.owner.name, "mount", "what it mounted as the orchestrator has no `execute`"
            )
        await self._before_turn()
        message = marshaller.encode([[], {"prompt": prompt}])
        try:
            return await self._host_calls.call_value(self._handle, method, message)
        except LocalProtocolError as error:
            hint = "put it in a file that a tool may read, and name the file in the prompt"
            raise KindError("PromptTooLargeError", f"the prompt cannot be sent: {error}", hints=[hint]) from error
        except Exception as error:
            trace = getattr(error, "remote_traceback", "")
            if trace:  # the frames of this process do not show the error in that one
                where = f"in module `{self._handle.owner.name}`:\n{trace}"
                error.add_note(escape(where.rstrip(), multiline=True))
            raise
