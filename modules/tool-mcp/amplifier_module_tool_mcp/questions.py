"""Questions of a server to the person: a form with one choice is an approval of the session, any other is declined."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

logger = logging.getLogger(__name__)

_SECONDS = 300.0  # for a person to answer
_MAX_OPTIONS = 32
_MAX_CHARACTERS = 4_000  # of a message
_DECLINE: dict[str, Any] = {"action": "decline"}


class Questions:
    """Asks the session's approval system; `server` is the name of the server."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._has_told = False

    async def ask(self, server: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the protocol's answer to the parameters of `elicitation/create`."""
        system = getattr(self._coordinator, "approval_system", None)
        choice = _choice(params)
        if choice is None or system is None:
            if not self._has_told:
                self._has_told = True
                reason = "nobody can be asked here" if choice else "it is no form of one choice"
                logger.warning("tool-mcp: a question of the MCP server %s is declined: %s", server, reason)
            return _DECLINE
        field, about, options = choice
        message = f"MCP server {server}: {params.get('message')}{about}"[:_MAX_CHARACTERS]
        try:
            reply = await system.request_approval(message, [*options], _SECONDS, "deny")
        except Exception as error:  # nobody answered in time, or too much is asked
            logger.warning("tool-mcp: a question of the MCP server %s has no answer: %s", server, error)
            return _DECLINE
        return {"action": "accept", "content": {field: options[reply]}} if reply in options else _DECLINE


def _choice(params: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]] | None:
    """Return a form's one field, what it is about, and its values by the options that a person reads."""
    match params:
        case {"requestedSchema": {"properties": {**fields}}} if (
            len(fields) == 1 and params.get("mode", "form") == "form"
        ):
            ((field, schema),) = fields.items()
        case _:
            return None
    match schema:
        case {"type": "boolean"}:
            options: dict[str, Any] = {"Yes": True, "No": False}
        case {"enum": [*values], "enumNames": [*names]} if len(values) == len(names):
            options = dict(zip(map(str, names), values, strict=True))
        case {"enum": [*values]}:
            options = {str(value): value for value in values}
        case {"oneOf": [*choices]} if all(isinstance(one, dict) and "const" in one for one in choices):
            options = {str(one.get("title", one["const"])): one["const"] for one in choices}
        case _:
            return None
    told = [schema.get(key) for key in ("title", "description")]
    about = "".join(f"\n{one}" for one in told if isinstance(one, str))
    return (field, about, options | {"Decline": None}) if 0 < len(options) <= _MAX_OPTIONS else None
