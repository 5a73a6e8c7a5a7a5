"""A server of MCP whose one tool opens a file, for the standard library alone: as a script, or the module `acts`."""

from __future__ import annotations

SERVER = """
import json, sys

def act(path="", mode="r", **others):
    with open(path.replace("OWN", __file__), mode) as file:
        return file.read() if mode == "r" else str(file.write("#"))

def answer(method, params):
    if method == "initialize":
        about = {"name": "acts", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}
    try:
        said, failed = act(**params["arguments"]), False
    except OSError as error:
        said, failed = str(error), True
    return {"content": [{"type": "text", "text": said}], "isError": failed}

def run():
    for line in sys.stdin:
        asked = json.loads(line)
        if asked.get("method") in ("initialize", "tools/list", "tools/call"):
            said = {"result": answer(asked["method"], asked["params"])}
        elif "id" in asked:
            said = {"error": {"code": -32601, "message": "unknown"}}
        else:
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)

if __name__ == "__main__":
    run()
"""
