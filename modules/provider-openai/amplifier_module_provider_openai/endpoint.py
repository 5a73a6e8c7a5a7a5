"""The service itself, through the official SDK: its streams, and its list of models.

Every failure of the SDK, of the connection or of the server is raised as the contract's error. Cancelling the reader of
a stream, or closing it, closes the connection at once. Requests are made once; the caller decides on another try.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import urlsplit

import openai
from amplifier_core.llm_errors import LLMError

from .failures import ErrorPlace, broken_off, failure_of, no_answer, no_key
from .settings import Settings

_SHOWN_CHARACTERS = 300  # of something else where an answer belongs
_CONNECT_SECONDS = 15.0
_NO_KEY = "no-key"  # for servers that need none, since the SDK requires one
_EVENTS = "text/event-stream"


class Endpoint:
    """One server, and the connections to it."""

    def __init__(self, settings: Settings) -> None:
        address = urlsplit(settings.base_url)
        port = address.port or (443 if address.scheme == "https" else 80)
        key_place = settings.key_place if settings.api_key else ""
        self._place = ErrorPlace(
            settings.name, settings.base_url, f"{address.hostname}:{port}", settings.is_openai, key_place
        )
        self.has_key = bool(settings.api_key) or not settings.is_openai  # or needs none
        self._client = openai.AsyncOpenAI(
            api_key=settings.api_key or _NO_KEY,
            base_url=settings.base_url,
            timeout=settings.timeout_seconds,
            max_retries=0,
        )
        self._silence = settings.timeout_seconds

    async def chunks(self, body: Mapping[str, Any], timeout: float | None = None) -> AsyncGenerator[Any, None]:
        """Yield the parts of an answer as the server sends them; one that does not stream yields one.

        `timeout` bounds the whole request; it is checked whenever a part arrives.

        Raises:
            LLMError: there is no answer, or no end of it.
        """
        model = body["model"]
        if not self.has_key:
            raise no_key(self._place, model)
        has_begun = False
        silence = self._silence if timeout is None else min(timeout, self._silence)
        patience = openai.Timeout(silence, connect=min(_CONNECT_SECONDS, silence))
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            answer = await self._client.chat.completions.create(**body, timeout=patience)
            if not isinstance(answer, openai.AsyncStream):
                yield self._whole(answer, model)
                return
            async with answer:
                kind = answer.response.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind != _EVENTS and kind:
                    # The server ignores the request to stream.
                    text = (await answer.response.aread()).decode("utf-8", "replace")
                    yield self._whole(json.loads(text) if kind.endswith("json") else text, model)
                    return
                async for chunk in answer:
                    has_begun = True
                    yield chunk
                    if deadline is not None and time.monotonic() > deadline:
                        raise openai.APITimeoutError(request=answer.response.request)
        except LLMError:
            raise
        except Exception as error:
            raise failure_of(error, self._place, model, has_begun=has_begun) from error
        if not has_begun:
            raise broken_off(self._place, model, "it ended before it began")

    def broken_off(self, model: str, why: str) -> LLMError:
        """Return the error of an answer that ended before its end."""
        return broken_off(self._place, model, why)

    async def models(self) -> list[str]:
        """Return the ids of the models that the server lists.

        Raises:
            LLMError: the list cannot be had.
        """
        try:
            page = await self._client.models.list()
            listed = getattr(page, "data", None)
        except Exception as error:
            raise failure_of(error, self._place, "", has_begun=False) from error
        if not isinstance(listed, list):
            raise no_answer(self._place, "", "something that is no list of models")
        ids = [getattr(one, "id", None) for one in listed]
        return [one for one in ids if isinstance(one, str)]

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _whole(self, answer: Any, model: str) -> Any:
        if isinstance(answer, str | bytes) or answer is None:
            page = str(answer).lstrip()[:9].lower()
            raise no_answer(self._place, model, "a page" if page.startswith(("<!doctype", "<html")) else "no JSON")
        if isinstance(answer, Mapping) and "choices" not in answer:  # LM Studio so refuses an address without /v1
            raise no_answer(self._place, model, f"`{json.dumps(answer)[:_SHOWN_CHARACTERS]}`")
        return answer
