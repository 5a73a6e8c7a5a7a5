"""Data that a module passes on to a sub-session: a conversation and plain data, copied, so that nothing is shared.

It is untrusted, and bounded before anything of it is copied: the host holds it for as long as the sub-session runs and,
except for the conversation, for as long as it can be resumed. This file touches only its arguments, so that it may run
on any thread.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from paddock.plan.plain_data import PlainData

MAX_BYTES: Final = 4 << 20  # of all of it together, with the payloads of the sessions above
_PER_VALUE: Final = 128  # more than Python takes for a number, or for an empty list or table


@dataclass(frozen=True, slots=True)
class SpawnPayload:
    """One checked payload; `lasting` is about how many bytes of memory all of it but the conversation takes."""

    orchestrator_config: dict[str, Any] = field(default_factory=dict)
    messages: tuple[dict[str, Any], ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    lasting: int = 0

    @classmethod
    def read(
        cls, *, orchestrator_config: object, parent_messages: object, session_metadata: object, above: int = 0
    ) -> Self:
        """Return the payload in these keywords; `above` is the `lasting` of the sessions above.

        Raises:
            TypeError: one of them is of the wrong type.
            ValueError: one of them is not plain data, or all of them are too much.
        """
        lasting = weight(orchestrator_config, session_metadata, enough=MAX_BYTES)
        if above + lasting + weight(parent_messages, enough=MAX_BYTES) > MAX_BYTES:
            origin = " with what the sessions above it were given" if above else ""
            raise ValueError(
                f"parent_messages, orchestrator_config and session_metadata take more than {MAX_BYTES >> 20} MiB of "
                f"memory together{origin}; pass on less, or put it into a file"
            )
        return cls(
            _table("orchestrator_config", orchestrator_config),
            _messages(parent_messages),
            _table("session_metadata", session_metadata),
            lasting,
        )


def weight(*values: object, enough: int = sys.maxsize) -> int:
    """Return about how many bytes of memory values take, rounded up; counting may stop beyond `enough`."""
    size, left = 0, list(values)
    while left and size <= enough:
        value = left.pop()
        size += _PER_VALUE
        if isinstance(value, (str, bytes)):
            size += sys.getsizeof(value)
        elif isinstance(value, Mapping):
            left.extend(value.keys())
            left.extend(value.values())
        elif isinstance(value, (list, tuple)):
            left.extend(value)
    return size


def _table(name: str, value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is a table, not {type(value).__name__}")
    copied: dict[str, Any] = _plain(name, value)
    return copied


def _messages(value: object) -> tuple[dict[str, Any], ...]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, Mapping) for one in value):
        raise TypeError("parent_messages is a list of messages, each a table")
    return tuple(_plain("parent_messages", value))


def _plain(name: str, value: object) -> Any:
    plain = PlainData()
    copied = plain.copy(value, name)
    if plain.problems:
        problem = plain.problems[0]
        raise ValueError(f"{problem.path} {problem.message}")
    return copied
