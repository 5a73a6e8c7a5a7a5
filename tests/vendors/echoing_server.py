"""A local server that speaks what providers speak to a vendor of models, and remembers what it was asked.

Answers in OpenAI's format for chat completions, whole or as a stream of events, and repeats the last message.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_MODEL = "local-model"
_PATIENCE = 60  # seconds


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: its path with the query, its headers by lower-case name, and its body."""

    path: str
    headers: dict[str, str]
    body: bytes


class OpenAIServer:
    """Listens on a port of the loopback from entering to leaving; with `tls`, behind it.

    If it is `patient`, each event of a stream is sent when its reader has asked for `/heard` after the one before it.
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None, patient: bool = False) -> None:
        self.asked: list[Asked] = []
        self.heard = threading.Semaphore(0) if patient else None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
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
            if self.path.partition("?")[0] != "/v1/chat/completions":
                self._send({"error": {"message": f"no such path: {self.path}"}}, 404)
                return
            *events, whole = _chat(request["messages"][-1]["content"])
            if request.get("stream"):
                self._stream([*map(json.dumps, events), "[DONE]"])
            else:
                self._send(whole)

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

        def _stream(self, events: list[str]) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for event in events:
                data = f"data: {event}\n\n".encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()
                if server.heard is not None and event != "[DONE]":
                    assert server.heard.acquire(timeout=_PATIENCE), f"nobody heard {event}"
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: what was asked is kept."""

    return Handler


def _chat(said: str) -> Iterator[dict[str, Any]]:
    """Yield the events of an answer, and the whole answer last."""
    message = {"role": "assistant", "content": f"you said: {said}"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    start = {"id": "chat_1", "object": "chat.completion.chunk", "created": 0, "model": _MODEL}
    yield {**start, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
    yield {**start, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    yield {**start, "object": "chat.completion", "choices": [choice], "usage": usage}
