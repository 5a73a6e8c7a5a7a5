"""Ids of sub-sessions: each id begins with the span of the parent session.

The form is `<parent's span>-<own span>_<agent>`, spans being 16 hexadecimal digits: unique, and valid as a file's name.
"""

from __future__ import annotations

import re
import secrets
from typing import Final

__all__ = ["generate_sub_session_id"]

_SPAN_BYTES: Final = 8
_NO_SPAN: Final = "0" * (2 * _SPAN_BYTES)
_SUB_SESSION: Final = re.compile(r"[0-9a-f]{16}-([0-9a-f]{16})_")
_TRACE: Final = re.compile(r"[0-9a-f]{8}([0-9a-f]{16})[0-9a-f]{8}")
_DEFAULT_AGENT: Final = "agent"


def generate_sub_session_id(
    agent_name: str | None = None, parent_session_id: str | None = None, parent_trace_id: str | None = None
) -> str:
    """Return a new id; the parent's span is that in its id, else the middle of its trace's id, else nothing but 0."""
    found = _SUB_SESSION.search(parent_session_id or "") or _TRACE.fullmatch((parent_trace_id or "").lower())
    agent = re.sub(r"[^a-z0-9]+", "-", (agent_name or "").lower()).strip("-") or _DEFAULT_AGENT
    return f"{found[1] if found else _NO_SPAN}-{secrets.token_hex(_SPAN_BYTES)}_{agent}"
