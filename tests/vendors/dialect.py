"""The seam between the server and the vendors: what a dialect answers for.

A dialect keeps no state and does no input or output. It refuses a request by raising `Refused`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from vendors.script import Kind, Spent, Turn


class Refused(Exception):
    """Raised for a request that the vendor would refuse; the message is what the vendor says."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


@dataclass(frozen=True, slots=True)
class Reply:
    """What is to be written: a turn, for the request of this number with this body."""

    turn: Turn
    spent: Spent
    body: Mapping[str, Any]
    number: int


class Dialect(Protocol):
    """How one vendor writes requests and answers."""

    base: str  # what clients put before every path; may be empty
    path: str  # where answers are asked for, with the base
    models_path: str

    def key(self, headers: Mapping[str, str]) -> str:
        """Return the key that a request has, or nothing; the names of headers are in lower case."""

    def check(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> None:
        """Raise `Refused` if the vendor would not take a request; keys, models and sizes are the server's matter."""

    def whole(self, reply: Reply) -> Mapping[str, Any]:
        """Return an answer that is not streamed."""

    def events(self, reply: Reply) -> Iterator[str]:
        """Yield the events of one that is, each as it is sent, with the empty line at its end."""

    def error(self, kind: Kind, message: str) -> tuple[int, Mapping[str, Any]]:
        """Return the status and the body of a refusal."""

    def error_event(self, kind: Kind, message: str) -> str:
        """Return an error in the midst of a stream."""

    def models(self, ids: list[str]) -> Mapping[str, Any]:
        """Return the list of models."""
