"""The protocol's server side for one client, without input or output: bytes of the client go in, lines for it come out.

Both eras are served side by side, each request in its own: one that says its version in `_meta` is of 2026, any other
follows an `initialize`. Every request is answered once, but for one that the client cancels. What cannot be read, and
what is refused, is answered by itself; other calls go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from paddock import __version__
from paddock.mcp_server.held_calls import MOST_HELD, HeldCalls, Json, Later, OpenCall, RefusedError
from paddock.mcp_server.served import Served
from paddock_sdk.mcp.messages import (
    CAPABILITIES_KEY,
    HANDSHAKE_VERSIONS,
    MAX_MESSAGE_BYTES,
    MODERN,
    SERVER_KEY,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
    VERSIONS,
    Answer,
    Code,
    Failure,
    Id,
    Lines,
    Malformed,
    Notification,
    Request,
    answer,
    failure,
    notification,
    read,
    request,
)

MOST_CALLS: Final = 64  # at once, and as many subscriptions
_PAGE_BYTES: Final = MAX_MESSAGE_BYTES // 2  # of a list of tools; longer ones come in several pages
_ELICITING: Final = HANDSHAKE_VERSIONS[:2]  # the versions with a handshake that have elicitation
_QUESTION: Final = "answer"  # the one question of an interim result
_ACTIONS: Final = ("accept", "decline", "cancel")
_SERVER: Final = {"name": "paddock", "version": __version__}
_TOOLS_CHANGED: Final = "notifications/tools/list_changed"
_MODERN_ONLY: Final = ("server/discover", "subscriptions/listen")
_PASSED_ON: Final = ("prompts/list", "prompts/get", "resources/list", "resources/read", "resources/templates/list")
_CACHEABLE: Final = ("tools/list", "server/discover", *(one for one in _PASSED_ON if one != "prompts/get"))


@dataclass(frozen=True, slots=True)
class Era:
    """How one request is to be understood: `can_ask` says that a person at the client can be asked."""

    is_modern: bool
    can_ask: bool


class ServerConnection:
    """One client's connection.

    `send` takes lines. `begin` is called with each call that is to be run, which ends with `finish` or `fail`, and
    `cancel` with one whose end nobody waits for any more. With a `refusal`, every request is answered by that text.
    """

    def __init__(
        self,
        served: Served | None,
        send: Callable[[bytes], None],
        begin: Callable[[OpenCall], None],
        cancel: Callable[[OpenCall], None],
        later: Later,
        refusal: str = "",
    ) -> None:
        self._served = served
        self._send = send
        self._begin = begin
        self._cancel = cancel
        self._refusal = refusal
        self._lines = Lines()
        self._handshake: Era | None = None
        self._calls: dict[Id, OpenCall] = {}
        self._held = HeldCalls(later, cancel)
        self._asked: dict[Id, OpenCall] = {}
        self._questions = 0
        self._listening: set[Id] = set()
        self._methods: dict[str, Callable[[Request, Era], Json | None]] = {
            "server/discover": self._discover,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "subscriptions/listen": self._listen,
            **dict.fromkeys(_PASSED_ON, self._ask_served),
        }

    # -- what the client says --------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take bytes as they came."""
        for line in self._lines.feed(data):
            match read(line):
                case Request() as asked:
                    self._on_request(asked)
                case Notification("notifications/cancelled", params):
                    self._on_cancelled(params.get("requestId"))
                case Answer(id, result):
                    self._on_reply(id, result)
                case Failure(int() | str() as id):
                    self._on_reply(id, {})
                case Malformed() as wrong:
                    self._send(failure(wrong.id, wrong.code, f"the message {wrong.problem}: {wrong.shown}"))

    def close(self) -> None:
        """Let go of all calls: the client is gone."""
        self._held.end_all()

    def _on_request(self, asked: Request) -> None:
        try:
            if self._refusal:
                raise RefusedError(Code.INTERNAL_ERROR, self._refusal)
            if asked.id in self._calls or asked.id in self._listening:
                raise RefusedError(Code.INVALID_REQUEST, "a request with this id is open")
            era = self._era_of(asked)
            if era is None:
                self._answer(asked.id, self._greet(asked), asked.method, Era(False, False))
                return
            result = self._methods[asked.method](asked, era)
        except RefusedError as error:
            self._send(failure(asked.id, error.code, str(error), error.data))
        else:
            if result is not None:
                self._answer(asked.id, result, asked.method, era)

    def _era_of(self, asked: Request) -> Era | None:
        """Return the era of a request; None for those of the handshake itself.

        Raises:
            RefusedError: it is of none that is served, or its method is not served.
        """
        meta = asked.params.get("_meta")
        if isinstance(meta, Mapping) and VERSION_KEY in meta and asked.method != "initialize":
            version, can = meta[VERSION_KEY], meta.get(CAPABILITIES_KEY)
            if not isinstance(version, str) or not isinstance(can, Mapping):
                raise _invalid(f"`_meta` needs `{VERSION_KEY}`, a text, and `{CAPABILITIES_KEY}`, an object")
            if version != MODERN:
                about = {"supported": list(VERSIONS), "requested": version}
                raise RefusedError(Code.UNSUPPORTED_VERSION, f"version {version!r} is not served", about)
            era = Era(True, _has_forms(can))
        elif asked.method in ("initialize", "ping"):
            return None
        else:
            era = self._handshake or Era(False, False)
        family = asked.method.partition("/")[0]
        is_missing = asked.method in _PASSED_ON and family not in self._offered.capabilities
        if is_missing or asked.method not in self._methods or (asked.method in _MODERN_ONLY and not era.is_modern):
            raise RefusedError(Code.METHOD_NOT_FOUND, f"there is no method {asked.method!r}")
        if not era.is_modern and self._handshake is None:
            raise RefusedError(Code.INVALID_REQUEST, "`initialize` comes first")
        return era

    @property
    def _offered(self) -> Served:
        assert self._served is not None, "without it everything is refused"
        return self._served

    def _greet(self, asked: Request) -> Json:
        """Answer a ping, or `initialize`."""
        if asked.method == "ping":
            return {}
        version, can = asked.params.get("protocolVersion"), asked.params.get("capabilities")
        if not isinstance(version, str) or not isinstance(can, Mapping):
            raise _invalid("`initialize` needs `protocolVersion`, a text, and `capabilities`, an object")
        version = version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]
        self._handshake = Era(False, version in _ELICITING and _has_forms(can))
        return {
            "protocolVersion": version,
            "capabilities": self._offered.capabilities,
            "serverInfo": _SERVER,
            "instructions": self._offered.instructions,
        }

    def _discover(self, asked: Request, era: Era) -> Json:
        return {
            "supportedVersions": [MODERN],
            "capabilities": self._offered.capabilities,
            "instructions": self._offered.instructions,
        }

    def _list_tools(self, asked: Request, era: Era) -> Json:
        """Answer with the tools whose names come after the cursor, as many as fit into one message."""
        cursor = asked.params.get("cursor", "")
        if not isinstance(cursor, str):
            raise _invalid("`cursor` is a text")
        page: list[Json] = []
        room = _PAGE_BYTES
        for tool in self._offered.tools():
            if tool["name"] <= cursor:
                continue
            room -= len(json.dumps(tool))
            if room < 0 and page:
                return {"tools": page, "nextCursor": page[-1]["name"]}
            page.append(tool)
        return {"tools": page}

    def _call_tool(self, asked: Request, era: Era) -> None:
        name, arguments = asked.params.get("name"), asked.params.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, Mapping):
            raise _invalid("`tools/call` needs `name`, a text, and `arguments`, an object")
        if era.is_modern and "requestState" in asked.params:
            self._go_on(asked)
        else:
            self._open(asked, era)

    def _ask_served(self, asked: Request, era: Era) -> None:
        self._open(asked, era)

    def _open(self, asked: Request, era: Era) -> None:
        if len(self._calls) >= MOST_CALLS:
            raise RefusedError(Code.INTERNAL_ERROR, f"{MOST_CALLS} calls run already; call again when one has ended")
        call = OpenCall(asked.method, asked.params, era.is_modern, era.can_ask, asked.id, _token_of(asked))
        self._calls[asked.id] = call
        self._begin(call)

    def _go_on(self, asked: Request) -> None:
        """Give a held call the answer that its client brings.

        Raises:
            RefusedError: it brings none, or no call waits with this state, name and arguments.
        """
        responses = asked.params.get("inputResponses")
        reply = responses.get(_QUESTION) if isinstance(responses, Mapping) else None
        if not isinstance(reply, Mapping) or reply.get("action") not in _ACTIONS:
            raise _invalid(f"`inputResponses` needs `{_QUESTION}`, with an `action` of {', '.join(_ACTIONS)}")
        held = self._held.take(asked.params["requestState"], asked.params)
        if held is None:
            raise _invalid("no call of this tool with these arguments waits under this `requestState`")
        held.id, held.token, held.done = asked.id, _token_of(asked), None
        self._calls[asked.id] = held
        if held.outcome is not None:
            self._end(held, held.outcome)
        else:
            self._reply(held, reply)

    def _listen(self, asked: Request, era: Era) -> None:
        wanted = asked.params.get("notifications")
        if not isinstance(wanted, Mapping):
            raise _invalid("`subscriptions/listen` needs `notifications`, an object")
        if len(self._listening) >= MOST_CALLS:
            raise RefusedError(Code.INTERNAL_ERROR, f"{MOST_CALLS} subscriptions are open already")
        given = {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}
        meta = {SUBSCRIPTION_KEY: asked.id}
        self._send(notification("notifications/subscriptions/acknowledged", {"notifications": given, "_meta": meta}))
        if given:
            self._listening.add(asked.id)

    def _on_cancelled(self, id: object) -> None:
        if not isinstance(id, (int, str)):
            return
        self._listening.discard(id)
        call = self._calls.pop(id, None)
        if call is not None:
            self._cancel(call)

    def _on_reply(self, id: Id, result: Json) -> None:
        call = self._asked.pop(id, None)
        if call is not None:
            self._reply(call, result if result.get("action") in _ACTIONS else {"action": "cancel"})

    # -- what calls say --------------------------------------------------------------------

    def finish(self, call: OpenCall, result: Json) -> None:
        """End a call with its result; if it is held just now, the client gets that when it sends the call again."""
        self._end(call, result)

    def fail(self, call: OpenCall, code: Code, message: str) -> None:
        """End a call with an error of the protocol's."""
        self._end(call, RefusedError(code, message))

    def progress(self, call: OpenCall, done: float, total: float | None, message: str) -> None:
        """Tell the client how far a call is, if it wants to know, and if that is further than before."""
        if call.id is None or call.token is None or (call.done is not None and done <= call.done):
            return
        call.done = done
        more = {"total": total, "message": message or None}
        params = {"progressToken": call.token, "progress": done}
        self._send(notification("notifications/progress", params | {k: v for k, v in more.items() if v is not None}))

    def ask(self, call: OpenCall, message: str, schema: Json, reply: Callable[[Json], None]) -> None:
        """Ask the person at the client; `reply` takes the answer. A call asks one question at a time."""
        call.reply = reply
        params = {"mode": "form", "message": message, "requestedSchema": schema}
        if not call.is_modern:
            self._questions += 1
            question = f"question-{self._questions}"
            self._asked[question] = call
            self._send(request(question, "elicitation/create", params))
        elif call.id is None or len(self._held) >= MOST_HELD:
            self._reply(call, {"action": "cancel"})
        else:
            id, call.id = call.id, None
            del self._calls[id]
            asked = {_QUESTION: {"method": "elicitation/create", "params": params}}
            interim = {"inputRequests": asked, "requestState": self._held.hold(call)}
            self._answer(id, interim, call.method, Era(True, True), kind="input_required")

    def withdraw(self, call: OpenCall) -> None:
        """Ask no more what a call asked, if it was not answered."""
        call.reply = None
        for id in [id for id, asking in self._asked.items() if asking is call]:
            del self._asked[id]
            self._send(notification("notifications/cancelled", {"requestId": id}))

    def changed(self) -> None:
        """Tell the client that the tools are others."""
        if self._handshake is not None:
            self._send(notification(_TOOLS_CHANGED, {}))
        for id in self._listening:
            self._send(notification(_TOOLS_CHANGED, {"_meta": {SUBSCRIPTION_KEY: id}}))

    def _reply(self, call: OpenCall, reply: Json) -> None:
        take, call.reply = call.reply, None
        if take is not None:
            take(reply)

    def _end(self, call: OpenCall, outcome: Json | RefusedError) -> None:
        if call.id is None:
            call.outcome = outcome
            return
        if self._calls.pop(call.id, None) is not call:
            return  # its client has cancelled it
        if isinstance(outcome, RefusedError):
            self._send(failure(call.id, outcome.code, str(outcome)))
        else:
            self._answer(call.id, outcome, call.method, Era(call.is_modern, call.can_ask))

    def _answer(self, id: Id, result: Json, method: str, era: Era, kind: str = "complete") -> None:
        if era.is_modern:
            meta = result.get("_meta")
            meta = {SERVER_KEY: _SERVER, **(meta if isinstance(meta, Mapping) else {})}
            result = {"resultType": kind, **result, "_meta": meta}
            if method in _CACHEABLE:
                result = {"ttlMs": 0, "cacheScope": "private", **result}
        try:
            line = answer(id, result)
        except (ValueError, TypeError, RecursionError) as error:
            line = failure(id, Code.INTERNAL_ERROR, f"the result cannot be said in JSON: {error}")
        if len(line) > MAX_MESSAGE_BYTES:
            problem = f"the result has {len(line)} bytes, and {MAX_MESSAGE_BYTES} are allowed; ask for less at a time"
            line = failure(id, Code.INTERNAL_ERROR, problem)
        self._send(line)


def _invalid(problem: str) -> RefusedError:
    return RefusedError(Code.INVALID_PARAMS, problem)


def _has_forms(capabilities: Json) -> bool:
    """Whether a client can show its person a form; one that says nothing more of elicitation can."""
    given = capabilities.get("elicitation")
    return isinstance(given, Mapping) and (not given or "form" in given)


def _token_of(asked: Request) -> Id | None:
    """Return the token for the progress of a request, if its client wants to hear of it."""
    meta = asked.params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, Mapping) else None
    return token if isinstance(token, str) or type(token) is int else None
