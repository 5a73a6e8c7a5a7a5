"""The tool that fetches a page as readable text, a part at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from amplifier_core.models import ToolResult

from .arguments import checked
from .charset import decoded
from .client import Answer, WebClient
from .failure import Failure
from .readable import readable

_CHARACTERS = 20_000  # of a page at a time, by default
_MOST_CHARACTERS = 200_000
_KEPT_PAGES = 4  # whose next part the model will most likely request

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = frozenset({"application/json", "application/xml", "application/javascript", "application/x-ndjson", ""})


@dataclass(frozen=True, slots=True)
class _Page:
    url: str
    status: int
    content_type: str
    title: str
    text: str
    is_cut: bool


class WebFetch:
    """`web_fetch`: a page as text. Later parts of a page come from the same fetch as its first part."""

    name = "web_fetch"
    description = (
        "Fetch a page of the web and return it as readable text, with headings, lists and links. Takes http and https "
        "addresses of text: HTML, plain text, JSON, XML. `next_offset` says where to go on in a long page."
    )
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "url": {"type": "string", "minLength": 1, "description": "The address, as in https://example.org/page."},
            "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "The first character to return."},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": _MOST_CHARACTERS,
                "default": _CHARACTERS,
                "description": "How many characters to return at most.",
            },
        },
        "required": ["url"],
    }

    def __init__(self, client: WebClient) -> None:
        self._client = client
        self._kept: dict[str, _Page] = {}

    async def execute(self, input: Mapping[str, Any]) -> ToolResult:
        """Fetch the requested page, and return a part of it, or the reason of a failure."""
        try:
            arguments = checked(self.input_schema, input)
            return ToolResult(success=True, output=await self._part(**arguments))
        except Failure as failure:
            return failure.result()

    async def _part(self, url: str, offset: int, limit: int) -> dict[str, Any]:
        page = self._kept.get(url) if offset else None
        if page is None:
            page = await asyncio.to_thread(_page, await self._client.get(url, _is_text))
            self._keep(url, page)
        if offset and offset >= len(page.text):
            raise Failure("invalid_input", f"The page has {len(page.text)} characters; {offset} is past its end.")
        content = page.text[offset : offset + limit]
        output: dict[str, Any] = {
            "url": page.url,
            "status": page.status,
            "content_type": page.content_type,
            "title": page.title,
            "content": content,
            "total_characters": len(page.text),
        }
        if (following := offset + len(content)) < len(page.text):
            output["next_offset"] = following
        if page.is_cut:
            output["truncated"] = "The page is larger than what is read of one; its end is missing."
        return output

    def _keep(self, url: str, page: _Page) -> None:
        self._kept.pop(url, None)
        while len(self._kept) >= _KEPT_PAGES:
            del self._kept[next(iter(self._kept))]
        self._kept[url] = page


def _is_text(content_type: str) -> bool:
    is_structured = content_type.startswith("application/") and content_type.endswith(("+json", "+xml"))
    return content_type.startswith("text/") or content_type in _HTML or content_type in _TEXT or is_structured


def _page(answer: Answer) -> _Page:
    if b"\0" in answer.body[:4096] and not answer.body.startswith((b"\xff\xfe", b"\xfe\xff")):
        is_wide = "utf-16" in answer.charset
        if not is_wide:
            what = f"is said to be {answer.content_type or 'nothing in particular'}, and is binary"
            raise Failure("not_text", f"{answer.url} {what}.", content_type=answer.content_type)
    text = decoded(answer.body, answer.charset)
    title = ""
    looks_like_html = not answer.content_type and text[:512].lstrip().lower().startswith(("<!doctype html", "<html"))
    if answer.content_type in _HTML or looks_like_html:
        title, text = readable(text, answer.url)
    return _Page(answer.url, answer.status, answer.content_type, title, text, answer.is_cut)
