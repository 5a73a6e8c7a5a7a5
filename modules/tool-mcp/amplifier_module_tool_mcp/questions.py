"""Questions of a server to the person: a form with one choice is an approval of the session, any other is declined."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

logger = logging.getLogger(__name__)

_SECONDS = 300.0  # for a person to answer
_MAX_OPTIONS = 32
_MAX_OPTION = 200  # characters of one
_MAX_CHARACTERS = 4_000  # of a message
_DECLINE: dict[str, Any] = {"action": "decline"}
_DECLINED = "Decline"  # the option that stands for no value of the server's


class Questions:
    """Asks the session's approval system; `server` is the name of the server."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._has_told = False

    async def ask(self, server: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the protocol's answer to the parameters of `elicitation/create`."""
        system = getattr(self._coordinator, "approval_system", None)
        field, schema = _field(params)
        values = _values(schema)
        if not values or system is None:
            self._tell(server, "nobody can be asked here" if values else "it is no form of one choice")
            return _DECLINE
        told = (
            f"MCP server {server}: {params.get('message')}",
            schema.get("title"),
            schema.get("description"),
        )
        message = "\n".join(one for one in told if isinstance(one, str))
        options = [*values, _DECLINED]
        try:
            reply = await system.request_approval(message[:_MAX_CHARACTERS], options, _SECONDS, "deny")
        except Exception as error:  # nobody answered in time, or too much is asked
            logger.warning("tool-mcp: a question of the MCP server %s has no answer: %s", server, error)
            return _DECLINE
        if reply not in values:
            return _DECLINE
        content = {field: values[reply]}
        return {"action": "accept", "content": content}

    def _tell(self, server: str, reason: str) -> None:
        if not self._has_told:
            self._has_told = True
            logger.warning("tool-mcp: a question of the MCP server %s is declined: %s", server, reason)


def _field(params: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name and the schema of a form's one field; of any other question, of nothing."""
    match params:
        case {"mode": str() as mode} if mode != "form":
            return "", {}
        case {"requestedSchema": {"properties": dict() as fields}} if len(fields) == 1:
            ((name, schema),) = fields.items()
            if isinstance(schema, dict):
                return name, schema
    return "", {}


def _values(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a choice by the options that a person reads, or nothing where it is none."""
    values: dict[str, Any] = {}
    match schema:
        case {"type": "boolean"}:
            values = {"Yes": True, "No": False}
        case {"enum": list() as listed}:
            for one in listed:
                values[str(one)] = one
        case {"oneOf": list() as listed}:
            for one in listed:
                if isinstance(one, dict) and "const" in one:
                    values[str(one.get("title", one["const"]))] = one["const"]
    is_read = len(values) <= _MAX_OPTIONS and all(len(one) <= _MAX_OPTION and one != _DECLINED for one in values)
    return values if is_read else {}
