"""A person's messages during a turn, kept until the next request to the model.

Messages leave in the order they came. One without room is refused with an error, never dropped. `steer` may be called
from any thread.
"""

from __future__ import annotations

from collections import deque

INJECTED = "orchestrator:steering_injected"


class SteeringQueueFull(RuntimeError):
    """Too many messages wait already; this one was not taken."""


class SteeringQueue:
    """The messages that wait."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._messages: deque[str] = deque()

    def __len__(self) -> int:
        return len(self._messages)

    def steer(self, message: str) -> None:
        """Queue a message.

        Raises:
            ValueError: it is empty.
            SteeringQueueFull: there is no room; try again after the model's next answer.
        """
        if not isinstance(message, str) or not message.strip():
            raise ValueError("loop-streaming: a steering message must be text that says something")
        if len(self._messages) >= self._limit:
            raise SteeringQueueFull(
                f"loop-streaming: {self._limit} steering messages wait already; this one was not taken. Try again "
                "after the model's next answer, or raise `max_steering`"
            )
        self._messages.append(message)

    def take(self) -> str:
        """Return the oldest message and forget it."""
        return self._messages.popleft()
