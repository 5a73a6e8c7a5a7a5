"""How long to wait before a request is made again: exponential, with jitter, and never longer than is configured."""

from __future__ import annotations

from dataclasses import dataclass

from amplifier_core.llm_errors import LLMError

_FIRST_SECONDS = 1.0
_FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """At most `max_retries` waits, none of which is longer than `max_delay` seconds."""

    max_retries: int
    max_delay: float

    def delay(self, retry: int, error: LLMError, chance: float) -> float | None:
        """Return the seconds to wait before retry number `retry`, or None for no retry.

        The server's requested wait counts if it is longer; if it is beyond `max_delay`, there is no retry. `chance` is
        between 0 and 1.
        """
        if not error.retryable or retry > self.max_retries:
            return None
        wanted = getattr(error, "retry_after", None) or 0.0
        if wanted > self.max_delay:
            return None
        # Between half and all of it, so that clients that failed together do not come again together.
        own = min(_FIRST_SECONDS * _FACTOR ** (retry - 1), self.max_delay)
        return max(wanted, own * (0.5 + chance / 2))
