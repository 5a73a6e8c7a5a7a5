"""Carry an orchestrator's notes about a tool call to the tool's process, under the tool's own task.

Orchestrators keep a mapping on the coordinator whose keys are their tasks. Tasks have no meaning in another process. So
the mapping stays in its process, and the entry of the calling task is sent along with the call of a tool's `execute`.
In the tool's process the entry is in the same mapping, under the task that runs the call, until the call has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.protocol import LocalProtocolError
from paddock_sdk.protocol.body import Codec, Vocabulary

_NAME: Final = "_tool_dispatch_contexts"
_KEY: Final = "dispatch_context"  # among the data sent beside the arguments


class DispatchContexts:
    """The mapping in one process."""

    def __init__(self, coordinator: ModuleCoordinator, vocabulary: Vocabulary) -> None:
        self._attributes = vars(coordinator)
        self._vocabulary = vocabulary

    def going_out(self) -> Sequence[Any]:
        """Return the data to send with a call that the current task makes, on any thread's loop."""
        contexts = self._attributes.get(_NAME)
        if not contexts or not isinstance(contexts, dict):
            return ()
        context = contexts.get(asyncio.current_task())
        if not isinstance(context, dict):
            return ()
        try:
            Codec(self._vocabulary).encode(context, live_objects=False)  # the driver's is its loop's alone
        except LocalProtocolError:
            return ()  # something of the orchestrator's own
        return ({_KEY: context},)

    @contextmanager
    def arrived(self, extra: Sequence[Any]) -> Iterator[None]:
        """Make the data sent with a call available to the current task."""
        context = extra[0].get(_KEY) if extra and isinstance(extra[0], dict) else None
        if context is None:
            yield
            return
        task = asyncio.current_task()
        contexts = self._attributes.setdefault(_NAME, {})
        contexts[task] = context
        try:
            yield
        finally:
            contexts.pop(task, None)
