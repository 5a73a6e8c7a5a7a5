"""The one place where text becomes markup.

Whatever is not `Markup` is escaped, first as for a terminal, so that no control or bidirectional character acts, then
for HTML; a long text is cut. Text stands only between tags: an attribute takes a number or one of a few harmless
characters, and no attribute that acts, styles or leads anywhere is known here.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from typing import Final

from paddock.text import escape

_LONGEST: Final = 1000  # characters of one text
_ATTRIBUTES: Final = frozenset(
    {"class", "colspan", "height", "lang", "preserveAspectRatio", "scope", "viewBox", "width", "x", "y"}
)
_VALUE: Final = re.compile(r"[\w .-]*", re.ASCII)


class Markup(str):
    """Text that is markup already; only `tag` makes it."""

    __slots__ = ()


def tag(name: str, *content: object, **attributes: str | float) -> Markup:
    """Return an element with its content, which is escaped unless it is markup; `class_` is the attribute `class`.

    Raises:
        ValueError: an attribute, or its value, is none of the harmless ones.
    """
    written = [name]
    for key, value in attributes.items():
        attribute, text = key.rstrip("_"), str(value)
        if attribute not in _ATTRIBUTES or not _VALUE.fullmatch(text):
            raise ValueError(f"a page takes no attribute {attribute}={text!r:.100}")
        written.append(f'{attribute}="{text}"')
    return Markup(f"<{' '.join(written)}>{''.join(map(_shown, content))}</{name}>")


def page(title: str, style: str, body: Markup) -> str:
    """Return a whole page that loads nothing, runs nothing, and has this style alone."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"{tag('title', title)}<style>{style}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _shown(content: object) -> str:
    if isinstance(content, Markup):
        return content
    text = str(content)
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return html.escape(escape(cut))
