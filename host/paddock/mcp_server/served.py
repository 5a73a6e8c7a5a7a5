"""What is served to a client: the tools of a plan, or all that one MCP server has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Json = Mapping[str, Any]
"""An object of JSON, as the protocol's pages describe it."""


@dataclass(frozen=True, slots=True)
class ClientCall:
    """One call of a client while it runs.

    `elicit` asks the person at the client, with a message and the schema of a form, and returns the protocol's answer,
    `{"action": "accept" | "decline" | "cancel", "content": …}`; it is None for a client that cannot ask. `progress`
    tells the client how far the call is: what is done, of how much, and a message.
    """

    elicit: Callable[[str, Json], Awaitable[Json]] | None
    progress: Callable[[float, float | None, str], None]


class Served(Protocol):
    """What is served to one client, whose calls may run side by side; cancelling a call ends it."""

    @property
    def capabilities(self) -> Json:
        """The protocol's capabilities of a server: `tools`, and `prompts` and `resources` where there are any."""
        ...

    @property
    def instructions(self) -> str:
        """What a client is told about the whole, for its model."""
        ...

    def tools(self) -> Sequence[Json]:
        """Return the definitions of the tools at this moment, sorted by name."""
        ...

    async def call(self, name: str, arguments: Json, call: ClientCall) -> Json:
        """Call a tool, and return the protocol's result; a failure is a result with `isError`.

        Raises:
            LookupError: there is no such tool.
        """
        ...

    async def ask(self, method: str, params: Json) -> Json:
        """Answer a request about prompts or resources.

        Raises:
            LookupError: it is not offered.
        """
        ...

    def on_change(self, changed: Callable[[], None]) -> None:
        """Have a function called whenever the tools are others, or nothing is served any more."""
        ...

    @property
    def end(self) -> Exception | None:
        """Why nothing is served any more, where what is served ended for good; None as long as it goes on."""
        ...
