"""An MCP server for tests, in the protocol's version 2025-11-25: its arguments say what is wrong with it."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_TOOLS: list[Any] = [
    {"name": "echo", "title": "Echo", "description": "Says it again.", "annotations": {"readOnlyHint": True}},
    *({"name": name} for name in ("grow", "ask", "roots", "far", "end", "wrong")),
]
_FORM = {"properties": {"colour": {"enum": ["red", "green"], "description": "Of the roof."}}}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def ask(method: str, params: Any) -> Any:
    send({"id": "q", "method": method, "params": params})
    answer = json.loads(sys.stdin.readline())
    return answer.get("result", answer.get("error"))


def call(name: str, given: dict[str, Any], token: Any) -> dict[str, Any]:
    if name == "end":
        sys.stderr.write("no more ink\n")
        sys.stderr.flush()
        os._exit(3)
    if name == "grow":
        _TOOLS[0]["description"] = "Says it twice."
        _TOOLS[1] = {"name": "shrink"}
        send({"method": "notifications/tools/list_changed"})
    if name == "ask":
        given = ask("elicitation/create", {"message": "Which?", **(given or {"requestedSchema": _FORM})})
    if name == "roots":
        given = ask("roots/list", {})
    if name == "far":
        send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "message": "half"}})
        given = ask("ping", {})
    text = {"type": "text", "text": json.dumps(given)}
    return {"content": [text], "isError": name == "wrong"}


def main() -> None:
    if "broken" in sys.argv:
        sys.exit("there is no ink")
    if "odd" in sys.argv:
        _TOOLS.append({"name": "odd", "inputSchema": "none"})
    for line in sys.stdin:
        message = json.loads(line)
        params = message.get("params", {})
        match message["method"]:
            case "initialize":
                told = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "desk", "version": "1"}}
                result = {**told, "capabilities": {}, "instructions": os.environ.get("SAID", "")}
            case "tools/list":
                result = {"tools": _TOOLS}
            case "tools/call":
                result = call(params["name"], params["arguments"], params["_meta"]["progressToken"])
            case "prompts/list":
                result = {"prompts": []}
            case _:
                result = None
        if result is not None:
            send({"id": message["id"], "result": result})
        elif "id" in message:
            send({"id": message["id"], "error": {"code": -32601, "message": "there is no such method"}})


main()
