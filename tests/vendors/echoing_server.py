"""A local server that speaks what providers speak to a vendor of models, and remembers what it was asked.

Answers in OpenAI's formats for chat completions and responses, whole or as a stream of events, and in Ollama's for
chats. It thinks as little as a test wants: it repeats the last thing a person said, or calls the tool that a line
`call NAME {arguments}` asks for and then tells what the tool answered.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_CALL = re.compile(r"call (\w+) (\{.*\})", re.DOTALL)
_MODEL = "local-model"
_PATIENCE = 60  # seconds


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: its path with the query, its headers by lower-case name, and its body."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Turn:
    """What is answered: a text, or the call of a tool."""

    text: str = ""
    tool: str = ""
    arguments: str = ""


class OpenAIServer:
    """Listens on a port of the loopback from entering to leaving; with `tls`, behind it.

    If it is `patient`, each event of a stream is sent when its reader has asked for `/heard` after the one before it.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        address: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
        patient: bool = False,
    ) -> None:
        self.asked: list[Asked] = []
        self.heard = threading.Semaphore(0) if patient else None
        self._server = ThreadingHTTPServer((address, port), _handler_for(self))
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "http" if tls is None else "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def port(self) -> int:
        port: int = self._server.server_address[1]
        return port

    @property
    def url(self) -> str:
        """What a client is given as its base."""
        return f"{self._scheme}://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler_for(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._note()
            if server.heard is not None and self.path.endswith("/heard"):
                server.heard.release()
            self._send({"object": "list", "data": [{"id": _MODEL, "object": "model", "created": 0, "owned_by": "us"}]})

        def do_POST(self) -> None:
            request = json.loads(self._note())
            answer = {"/v1/chat/completions": _chat, "/v1/responses": _response, "/api/chat": _ollama}
            make = answer.get(self.path.partition("?")[0])
            if make is None:
                self._send({"error": {"message": f"no such path: {self.path}"}}, 404)
                return
            events = list(make(request))
            if not request.get("stream"):
                self._send(events[-1])
            elif make is _ollama:
                self._stream("application/x-ndjson", [json.dumps(event) + "\n" for event in events])
            else:
                self._stream("text/event-stream", list(_as_events(make is _response, events)))

        def _note(self) -> bytes:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            server.asked.append(Asked(self.path, headers, body))
            return body

        def _send(self, answer: object, status: int = 200) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, kind: str, parts: list[str]) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for part in parts:
                data = part.encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()
                if server.heard is not None and "[DONE]" not in part:
                    assert server.heard.acquire(timeout=_PATIENCE), f"nobody heard {part}"
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: what was asked is kept."""

    return Handler


def _as_events(is_response: bool, events: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the stream's events; of chat completions without the whole answer, which only unstreamed ones have."""
    for event in events if is_response else events[:-1]:
        name = f"event: {event['type']}\n" if is_response and "type" in event else ""
        if not is_response or name:
            yield f"{name}data: {json.dumps(event)}\n\n"
    if is_response:
        whole = events[-1]
        done = {"type": "response.completed", "sequence_number": len(events), "response": whole}
        yield f"event: response.completed\ndata: {json.dumps(done)}\n\n"
    else:
        yield "data: [DONE]\n\n"


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def _turn(said: str, results: list[str]) -> _Turn:
    wanted = _CALL.search(said)
    if results:
        return _Turn(text=f"the tool says: {results[-1]}")
    if wanted:
        return _Turn(tool=wanted[1], arguments=wanted[2])
    return _Turn(text=f"you said: {said}")


def _turn_of_messages(messages: list[dict[str, Any]]) -> _Turn:
    said = [_text_of(message.get("content")) for message in messages if message.get("role") == "user"]
    results = [_text_of(message.get("content")) for message in messages if message.get("role") == "tool"]
    return _turn(said[-1] if said else "", results)


def _chat(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    turn = _turn_of_messages(request["messages"])
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    call = {"id": "call_1", "type": "function", "function": {"name": turn.tool, "arguments": turn.arguments}}
    reason = "tool_calls" if turn.tool else "stop"
    start = {"id": "chat_1", "object": "chat.completion.chunk", "created": 0, "model": _MODEL}
    delta: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
    if turn.tool:
        delta["tool_calls"] = [{"index": 0, **call}]
    yield {**start, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**start, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
    if turn.tool:
        message["tool_calls"] = [call]
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    yield {**start, "object": "chat.completion", "choices": [choice], "usage": usage}


def _response(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    given = request["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    said = [_text_of(item.get("content")) for item in items if item.get("role") == "user"]
    results = [str(item.get("output")) for item in items if item.get("type") == "function_call_output"]
    turn = _turn(said[-1] if said else "", results)
    item: dict[str, Any]
    if turn.tool:
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": turn.tool}
        item |= {"arguments": turn.arguments, "status": "completed"}
    else:
        part = {"type": "output_text", "text": turn.text, "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": request.get("model", _MODEL),
        "status": "completed",
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, **details},
    }
    started = {**whole, "status": "in_progress", "output": []}
    yield {"type": "response.created", "sequence_number": 0, "response": started}
    yield {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item}
    if not turn.tool:
        at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        yield {"type": "response.output_text.delta", "sequence_number": 2, **at, "delta": turn.text, "logprobs": []}
    yield {"type": "response.output_item.done", "sequence_number": 3, "output_index": 0, "item": item}
    yield whole


def _ollama(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    turn = _turn_of_messages(request["messages"])
    message: dict[str, Any] = {"role": "assistant", "content": turn.text}
    if turn.tool:
        call = {"function": {"name": turn.tool, "arguments": json.loads(turn.arguments)}}
        message["tool_calls"] = [call]
    start = {"model": request["model"], "created_at": "2026-01-01T00:00:00Z", "message": message}
    yield {**start, "done": True, "done_reason": "stop", "prompt_eval_count": 1, "eval_count": 1}
