"""The readable text of an HTML page: headings, paragraphs, lists, tables and links, without scripts, styles and forms.

The page is parsed as a stream, no tree is made of it, and parsing stops where the nesting gets too deep: the time it
takes grows only with the size of a page.
"""

from __future__ import annotations

import re
from urllib.parse import urljoin

from lxml import etree

_MAX_DEPTH = 400  # real pages have some dozens; beyond it an unmatched end tag costs a search of them all
_PIECE_CHARACTERS = 16 * 1024
_MAX_ADDRESS = 2_000  # of a link, and of its base; a longer one is left out, as it is not readable
_MAX_TITLE = 500
_ADDRESSES_AT_LEAST = 64 * 1024  # that links may add to a page, or its own length where that is more

_UNREAD = frozenset(
    ("script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "select", "button", "head")
)
_BLOCKS = frozenset(
    {"p", "div", "section", "article", "main", "header", "footer", "nav", "aside", "table", "ul", "ol", "dl", "dt"}
    | {"dd", "blockquote", "figure", "figcaption", "form", "fieldset", "details", "summary", "address", "body", "hr"}
    | {"pre"}
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_SPACE = re.compile(r"[ \t\r\n\f\v\u00a0]+")
_LINES = re.compile(r"\n{3,}")
_BEFORE_LINE_END = re.compile(r"(?<![ \t])[ \t]++\n")  # begins where a run does, so that no run is read twice


class _TooDeepError(Exception):
    """The page is nested deeper than any that people write."""


class _Text:
    """Composes text from the parser's events."""

    def __init__(self, url: str, addresses_max: int) -> None:
        self.parts: list[str] = []
        self._title: list[str] = []
        self._url = url
        self._addresses_left = addresses_max
        self._depth = 0
        self._unread = 0  # how many elements around are not read
        self._preformatted = 0
        self._is_title = False
        self._links: list[tuple[str, int]] = []  # where each open link leads, and where its text begins

    @property
    def title(self) -> str:
        return _SPACE.sub(" ", "".join(self._title)).strip()[:_MAX_TITLE]

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _TooDeepError
        if tag == "title" and not self._title:
            self._is_title = True
        elif tag == "base" and attributes.get("href"):
            self._url = _joined(self._url, attributes["href"]) or self._url
        if tag in _UNREAD:
            self._unread += 1
        if self._unread:
            return
        if tag in _HEADINGS:
            self.parts.append(f"\n\n{_HEADINGS[tag]} ")
        elif tag == "li":
            self.parts.append("\n- ")
        elif tag == "tr":
            self.parts.append("\n")
        elif tag == "br":
            self.parts.append("\n")
        elif tag in _BLOCKS:
            self.parts.append("\n\n")
        elif tag == "a":
            self._links.append((attributes.get("href", ""), len(self.parts)))
        elif tag == "img" and attributes.get("alt", "").strip():
            self.parts.append(f"[image: {attributes['alt'].strip()}]")
        if tag == "pre":
            self._preformatted += 1

    def end(self, tag: str) -> None:
        self._depth -= 1
        if tag == "title":
            self._is_title = False
        if tag in _UNREAD:
            self._unread = max(0, self._unread - 1)
        if self._unread:
            return
        if tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)
        if tag in _HEADINGS or tag in _BLOCKS:
            self.parts.append("\n\n")
        elif tag in ("td", "th"):
            self.parts.append(" | ")
        elif tag == "a" and self._links:
            self._end_link(*self._links.pop())

    def _end_link(self, target: str, begins: int) -> None:
        if self._addresses_left <= 0:
            return
        text = "".join(self.parts[begins:]).strip()
        if not text or "\n" in text:
            return
        address = _joined(self._url, target)
        self._addresses_left -= len(address)
        if address.startswith(("http://", "https://")):
            self.parts[begins:] = [f"[{text}]({address})"]

    def data(self, text: str) -> None:
        if self._is_title:
            self._title.append(text)
        elif not self._unread:
            self.parts.append(text if self._preformatted else _SPACE.sub(" ", text))

    def comment(self, text: str) -> None:
        """Leave comments out."""

    def close(self) -> None:
        """Nothing is left to be done."""


def readable(html: str, url: str) -> tuple[str, str]:
    """Return the title and the text of a page at `url`, to which its links are relative."""
    text = _Text(url, max(len(html), _ADDRESSES_AT_LEAST))
    parser = etree.HTMLParser(target=text, recover=True, no_network=True, remove_pis=True)
    html = html.replace("\0", "")
    try:
        for at in range(0, len(html), _PIECE_CHARACTERS):
            parser.feed(html[at : at + _PIECE_CHARACTERS])
        parser.close()
    except _TooDeepError:
        text.parts.append("\n\n[the rest of the page is nested too deeply to be read]")
    except etree.LxmlError:
        pass  # the rest is not HTML; the text so far stays
    body = _BEFORE_LINE_END.sub("\n", "".join(text.parts))
    return text.title, _LINES.sub("\n\n", body).strip()


def _joined(base: str, target: str) -> str:
    """Return a link's target; empty for an invalid address, or one too long to read."""
    if max(len(base), len(target)) > _MAX_ADDRESS:
        return ""
    try:
        return urljoin(base, target.strip())
    except ValueError:
        return ""
