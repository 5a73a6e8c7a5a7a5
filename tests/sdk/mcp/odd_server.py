"""A server of MCP that does what its arguments and the name of a tool say, right or wrong; standard library alone.

Its argument is the version of the protocol that it speaks, or one of the names in `_begin`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

Message = dict[str, Any]

_MODERN = "2026-07-28"
_BEGINS = sys.argv[1]
_LONG = "x" * (17 << 20)


def _send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def _receive() -> Message:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: Message = json.loads(line)
    return message


def _say(id: Any, value: Any = None) -> None:
    _send(id=id, result={"content": [{"type": "text", "text": json.dumps(value)}]})


def _dies(id: Any, arguments: Message) -> None:
    print("\n".join(f"line {number}" for number in range(8)), end="", file=sys.stderr, flush=True)
    if "signal" in arguments:
        os.kill(os.getpid(), arguments["signal"])
    os._exit(arguments.get("code", 3))


def _leaves_a_child(id: Any, arguments: Message) -> None:
    child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
    print(child.pid, file=sys.stderr, flush=True)
    os._exit(4)


def _echoes(id: Any, arguments: Message) -> None:
    _say(id, arguments)


def _is_long(id: Any, arguments: Message) -> None:
    if arguments["id"] == "first":
        _send(id=id, result={"text": _LONG})
    else:
        print(json.dumps({"result": {"text": _LONG}, "jsonrpc": "2.0", "id": id}), flush=True)


def _is_deep(id: Any, arguments: Message) -> None:
    deep = '{"a":' * 10_000 + "{}" + "}" * 10_000
    print(f'{{"jsonrpc":"2.0","id":{id},"result":{deep}}}', flush=True)


def _prints(id: Any, arguments: Message) -> None:
    for line in arguments["lines"]:
        print(line)
    _say(id)


def _floods(id: Any, arguments: Message) -> None:
    sys.stdout.write("y\n" * arguments["lines"])
    sys.stderr.write("y\n" * arguments["lines"])
    _say(id)


def _answers_others(id: Any, arguments: Message) -> None:
    for other in arguments["ids"]:
        _say(other)
    _send(id=id, error={"code": -32000, "message": "\x1b[31mno\u202e"})


def _reports(id: Any, arguments: Message) -> None:
    for report in arguments["reports"]:
        _send(method="notifications/progress", params={"progressToken": id, "progress": 1} | report)
    _say(id)


def _asks(id: Any, arguments: Message) -> None:
    """Send requests of the older era, and say how each was answered."""
    for number, (method, params) in enumerate(arguments["questions"]):
        _send(id=number, method=method, params=params)
    answers = [_receive() for _ in arguments["questions"]]
    _say(id, [one.get("result", one.get("error")) for one in sorted(answers, key=lambda one: one["id"])])


def _takes_back(id: Any, arguments: Message) -> None:
    _send(id="q", method="elicitation/create", params={"message": "wait"})
    _send(method="notifications/cancelled", params={"requestId": "q"})
    _say(id)


def _wants_input(id: Any, arguments: Message) -> None:
    _send(id=id, result=arguments["wants"])


def _changes(id: Any, arguments: Message) -> None:
    _send(method="notifications/tools/list_changed", params={})
    _say(id)


def _waits(id: Any, arguments: Message) -> None:
    """Answer nothing until the call is cancelled, then other requests, and say which call that was."""
    cancelled = _receive()
    assert cancelled["method"] == "notifications/cancelled"
    _answer(_receive())
    call = _receive()
    _say(id)  # as some do, though nobody waits for it
    _say(call["id"], [id, cancelled["params"]["requestId"]])


def _hangs(id: Any, arguments: Message) -> None:
    signal.pause()


def _closes_its_output(id: Any, arguments: Message) -> None:
    os.close(1)
    signal.pause()


def _lists(id: Any, arguments: Message) -> None:
    """Have the next lists of tools be of another kind."""
    global _KIND
    _KIND = arguments["kind"]
    _say(id)


_KIND = "few"
_TOOLS = {name[1:]: tool for name, tool in globals().items() if name.startswith("_") and callable(tool)}


def _list(params: Message) -> Message:
    kind, _, page = str(params.get("cursor", _KIND)).partition(" ")
    tools = [{"name": f"tool {page or 0} {number}", "inputSchema": {"type": "object"}} for number in range(300)]
    return {
        "few": {"tools": tools[:2]},
        "pages": {"tools": tools[:1]} | ({"nextCursor": f"pages {int(page or 0) + 1}"} if page != "3" else {}),
        "many": {"tools": tools, "nextCursor": f"many {int(page or 0) + 1}"},
        "endless": {"tools": [], "nextCursor": "endless"},
        "none": {"tools": "none"},
    }[kind]


def _answer(message: Message) -> None:
    id, method, params = message.get("id"), message["method"], message.get("params", {})
    told = {"capabilities": {"tools": {"listChanged": True}}, "instructions": "Be odd."}
    server = {"name": "odd", "version": "1"}
    match method:
        case "server/discover" if _BEGINS == _MODERN:
            meta = {"_meta": {"io.modelcontextprotocol/serverInfo": server}}
            _send(id=id, result={**told, **meta, "supportedVersions": [_MODERN], "resultType": "complete"})
        case "initialize":
            _send(id=id, result={**told, "protocolVersion": _BEGINS, "serverInfo": server})
        case "tools/list":
            _send(id=id, result=_list(params))
        case "tools/call" if params["name"] == "tells":
            _say(id, params)
        case "tools/call":
            _TOOLS[params["name"]](id, params["arguments"])
        case "ping" | "prompts/list":
            _send(id=id, result={})
        case _ if id is not None and method != "subscriptions/listen":
            _send(id=id, error={"code": -32601, "message": f"there is no {method}"})


def _begin() -> None:
    global _BEGINS
    match _BEGINS:
        case "dies":
            _dies(0, {"code": 3})
        case "slow":
            first, second = _receive(), _receive()
            _BEGINS = _MODERN
            _answer(first)
            _send(id=second["id"], error={"code": -32022, "message": "another era", "data": {"supported": [_MODERN]}})
        case "mute":
            _receive()  # the question whether it is of the new era
            _BEGINS = "2025-06-18"
    while True:
        _answer(_receive())


if __name__ == "__main__":
    _begin()
