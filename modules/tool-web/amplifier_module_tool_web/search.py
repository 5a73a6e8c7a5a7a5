"""The tool that searches the web through an endpoint that the plan names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from amplifier_core.models import ToolResult

from .arguments import checked
from .client import WebClient
from .failure import Failure

_RESULTS = 8
_MOST_RESULTS = 20
_TEXT_CHARACTERS = 500  # of a title or a summary
_HINT = "It has to answer `?q=…&format=json`; SearXNG does where its settings list `json`."
_TYPES = frozenset({"application/json", "text/json", "text/plain", ""})


class WebSearch:
    """`web_search`: titles, addresses and summaries, of an endpoint that answers as SearXNG does in JSON."""

    name = "web_search"
    description = "Search the web. Returns titles, addresses and summaries; web_fetch reads a result."
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "description": "What to look for."},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": _MOST_RESULTS,
                "default": _RESULTS,
                "description": "How many results to return at most.",
            },
        },
        "required": ["query"],
    }

    def __init__(self, client: WebClient, url: str) -> None:
        self._client = client
        self._url = url

    async def execute(self, input: Mapping[str, Any]) -> ToolResult:
        """Search, and return the results, or the reason of a failure."""
        try:
            arguments = checked(self.input_schema, input)
            params = {"q": arguments["query"], "format": "json"}
            answer = await self._client.get(self._url, _TYPES.__contains__, params)
            results = _results(answer.body, arguments["limit"])
        except Failure as failure:
            return (failure.with_hint(_HINT) if failure.kind in ("not_text", "http_status") else failure).result()
        return ToolResult(success=True, output={"query": arguments["query"], "results": results})


def _results(body: bytes, limit: int) -> list[dict[str, str]]:
    try:
        found = json.loads(body)["results"]
    except (ValueError, KeyError, TypeError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise Failure("bad_answer", "The search endpoint did not answer with a list of `results` in JSON.")
    shown: list[dict[str, str]] = []
    for one in found:
        if isinstance(one, dict) and isinstance(one.get("url"), str) and len(shown) < limit:
            summary = next((one[key] for key in ("content", "snippet", "description") if one.get(key)), "")
            shown.append(
                {
                    "title": _short(one.get("title")),
                    "url": one["url"],
                    "summary": _short(summary),
                }
            )
    return shown


def _short(value: object) -> str:
    text = " ".join(value.split()) if isinstance(value, str) else ""
    return text if len(text) <= _TEXT_CHARACTERS else text[: _TEXT_CHARACTERS - 1] + "…"
