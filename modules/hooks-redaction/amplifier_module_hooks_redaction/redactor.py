"""Replace secrets and personal data in an event's data, and nothing else of it.

It works on copies; data without a finding is returned unchanged. Keys, numbers, ids and the shape stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate
from typing import Any, Final

from .patterns import OTHERS, PII, SECRETS, Pattern

NAMED: Final = "named"  # the category of a value under the name of a secret
CATEGORIES: Final[Mapping[str, Pattern]] = {**SECRETS, **PII, **OTHERS}

MAX_DEPTH: Final = 64  # of nested data; deeper than any message

# Fields that name an event and its place in the session; never anything else.
_ENVELOPE: Final = frozenset(
    "session_id parent_id turn_id span_id parent_span_id request_id tool_call_id parallel_group_id timestamp".split()
)
_ID: Final = re.compile(r"(?:^|_)(?:id|ids|uuid)$|^(?:timestamp|ts)$", re.IGNORECASE)
_SECRET_NAME: Final = re.compile(
    r"(?:^|_)(?:api_?keys?|access_?key|private_?key|secret_?key|secrets?|passwords?|passwd|passphrase|pwd|token|auth|"
    r"authorization|credentials?|cookies?)$"
)
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Redactor:
    """Replaces data of some categories, except allowed values: exact ones, or patterns with `*` and `?`."""

    def __init__(self, categories: Sequence[str], allow: Sequence[str] = ()) -> None:
        self._names_count = NAMED in categories
        self._secrets = [(name, SECRETS[name]) for name in SECRETS if name in categories]
        self._all = [(name, CATEGORIES[name]) for name in CATEGORIES if name in categories]
        self._allowed = [re.compile(translate(value), re.IGNORECASE) for value in allow]

    def event(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return an event's data with all findings replaced; its ids and time are not searched."""
        return {key: value if key in _ENVELOPE else self._item(key, value, 1) for key, value in data.items()}

    def text(self, text: str, *, is_id: bool = False) -> str:
        """Return a text with each finding replaced by its category; an id is only searched for secrets."""
        spans = [
            (start, end, name)
            for name, pattern in (self._secrets if is_id else self._all)
            for start, end in pattern.spans(text)
            if not self._is_allowed(text[start:end])
        ]
        if not spans:
            return text
        spans.sort(key=lambda span: (span[0], -span[1]))
        parts: list[str] = []
        position = 0
        for start, end, name in spans:
            if end <= position:
                continue  # inside an earlier replacement
            if start >= position:
                parts += [text[position:start], f"[REDACTED:{name}]"]
            position = end
        return "".join([*parts, text[position:]])

    def _item(self, key: object, value: Any, depth: int) -> Any:
        name = str(key)
        words = _CAMEL.sub("_", name).lower().replace("-", "_").replace(" ", "_")
        if self._names_count and _SECRET_NAME.search(words):
            return self._hidden(value, depth)
        if isinstance(value, str):
            return self.text(value, is_id=_ID.search(name) is not None)
        return self._value(value, depth)

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, Mapping | list | tuple):
            return value
        if depth >= MAX_DEPTH:
            return "[REDACTED:depth]"
        if isinstance(value, Mapping):
            return {key: self._item(key, item, depth + 1) for key, item in value.items()}
        return [self._value(item, depth + 1) for item in value]

    def _hidden(self, value: Any, depth: int) -> Any:
        """Return a value under the name of a secret with every text in it replaced."""
        if isinstance(value, str):
            return value if not value or self._is_allowed(value) else f"[REDACTED:{NAMED}]"
        if not isinstance(value, Mapping | list | tuple):
            return value
        if depth >= MAX_DEPTH:
            return "[REDACTED:depth]"
        if isinstance(value, Mapping):
            return {key: self._hidden(item, depth + 1) for key, item in value.items()}
        return [self._hidden(item, depth + 1) for item in value]

    def _is_allowed(self, found: str) -> bool:
        return any(allowed.match(found) for allowed in self._allowed)
