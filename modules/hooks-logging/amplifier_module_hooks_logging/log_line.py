"""Turn one event into one line of the log, never longer than the limit.

A line that is too long loses its longest texts first; if that is not enough, the data is replaced by the names of its
parts. So a reader can parse every line, and sees where something is missing.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from .secrets_filter import without_secrets
from .settings import Detail

_SUMMARY_CHARS = 200
_SHRINKING = (4_096, 512, 64)  # characters a text may keep, tried in turn until the line fits
_KEYS_NAMED = 8
_NAME_CHARS = 32  # six bytes each at worst: together these keep the shortest form of a line below 4096 bytes
_ENVELOPE = ("timestamp", "session_id", "parent_id")


def line_for(event: str, data: Any, detail: Detail, max_bytes: int) -> bytes:
    """Return the line for an event, its newline included."""
    fields = data if isinstance(data, dict) else {}
    head: dict[str, Any] = {
        "ts": _cut(fields.get("timestamp") or datetime.now(UTC).isoformat(), _NAME_CHARS),
        "event": _cut(event, 2 * _NAME_CHARS),
    }
    for key in ("session_id", "parent_id"):
        if fields.get(key) is not None:
            head[key] = _cut(fields[key], 4 * _NAME_CHARS)
    if detail == "names":
        return _encoded(head)
    kept = without_secrets({key: value for key, value in fields.items() if key not in _ENVELOPE} if fields else data)
    if detail == "summary":
        kept = _cut(kept, _SUMMARY_CHARS)
    line = _encoded({**head, "data": kept})
    for max_chars in _SHRINKING:
        if len(line) <= max_bytes:
            return line
        line = _encoded({**head, "data": _cut(kept, max_chars)})
    if len(line) <= max_bytes:
        return line
    return _encoded({**head, "left_out": {"bytes": len(line), "keys": _names(kept)}})


def _names(value: Any) -> list[str]:
    keys = list(value)[:_KEYS_NAMED] if isinstance(value, dict) else []
    return [str(key)[:_NAME_CHARS].encode("ascii", "replace").decode() for key in keys]


def _cut(value: Any, max_chars: int) -> Any:
    if isinstance(value, str):
        more = len(value) - max_chars
        return value if more <= 0 else f"{value[:max_chars]}… [{more} more characters]"
    if isinstance(value, dict):
        return {key: _cut(item, max_chars) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item, max_chars) for item in value]
    return value


def _encoded(entry: dict[str, Any]) -> bytes:
    text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode("utf-8", "backslashreplace") + b"\n"
