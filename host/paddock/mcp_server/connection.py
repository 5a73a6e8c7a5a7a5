"""The protocol's server side for one client, without input or output: bytes of the client go in, lines for it come out.

Both eras are served side by side. A request that says its version in `_meta` is of 2026; any other follows an
`initialize`. Every request is answered once, unless the client cancels it. What cannot be read, or is refused, is
answered by itself, and other calls go on.

In the era of 2026, a call that asks its person is held between two requests. The first is answered with the question
and a random state. The client sends the call again, with the answer and the state, which is good once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from paddock import __version__
from paddock_sdk.mcp import messages
from paddock_sdk.mcp.messages import (
    CAPABILITIES_KEY,
    HANDSHAKE_VERSIONS,
    MAX_MESSAGE_BYTES,
    MODERN,
    VERSION_KEY,
    Code,
    Id,
    Json,
)

if TYPE_CHECKING:
    from paddock.mcp_server.served import ServedTools

MOST_CALLS: Final = 64  # at once; as many may be held, the latest, and as many subscriptions be open

_ELICITING: Final = HANDSHAKE_VERSIONS[:2]  # the versions with a handshake that have elicitation
_QUESTION: Final = "answer"  # the one question of an interim result
_ACTIONS: Final = ("accept", "decline", "cancel")
_CANCEL: Final = {"action": "cancel"}
_SERVER: Final = {"name": "paddock", "version": __version__}
_CHANGED: Final = "notifications/tools/list_changed"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_CANCELLED: Final = "notifications/cancelled"

_HANDSHAKE_ONLY: Final = ("initialize", "ping")
_MODERN_ONLY: Final = ("server/discover", "subscriptions/listen")
_READ: Final = ("prompts/list", "resources/list", "resources/read", "resources/templates/list")
_PASSED_ON: Final = (*_READ, "prompts/get")
_CACHEABLE: Final = (*_READ, "tools/list", "server/discover")


class RefusedError(Exception):
    """A request that is answered with an error of the protocol's."""

    def __init__(self, code: Code, message: str, data: Json | None = None) -> None:
        self.code = code
        self.data = data
        super().__init__(message)


@dataclass(eq=False, slots=True)
class OpenCall:
    """One call of a client, from its first request to its last answer.

    `id` is that of the request to be answered next, None while the call is held. `reply` takes the person's answer
    while there is a question. `outcome` is what the call ended with while it was held.
    """

    id: Id | None
    method: str
    params: Json
    is_modern: bool = False
    can_ask: bool = False
    done: float | None = None
    reply: Callable[[Json], None] | None = None
    outcome: Json | RefusedError | None = None

    @property
    def meta(self) -> Json:
        """What the request says about itself."""
        return _object(self.params.get("_meta"))

    def is_like(self, other: OpenCall) -> bool:
        """Whether the other is this one, sent again."""
        return all(self.params.get(key) == other.params.get(key) for key in ("name", "arguments"))


class ServerConnection:
    """One client's connection.

    `send` takes lines. `begin` is called with each call that is to be run, which ends with `end`; `cancel` with one
    whose end nobody waits for any more. If a text is `served`, every request is refused with it. A client is told of
    progress only while it `has_room`: a module may report any number of steps.
    """

    def __init__(
        self,
        served: ServedTools | str,
        send: Callable[[bytes], None],
        begin: Callable[[OpenCall], None],
        cancel: Callable[[OpenCall], None],
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        self._served = served
        self._send = send
        self._begin = begin
        self._cancel = cancel
        self._has_room = has_room
        self._lines = messages.Lines()
        self._is_greeted = False
        self._can_ask = False  # a client with a handshake
        self._calls: dict[Id, OpenCall] = {}
        self._held: dict[str, OpenCall] = {}
        self._asked: dict[Id, OpenCall] = {}
        self._questions = 0
        self._listening: set[Id] = set()
        self._methods: dict[str, Callable[[OpenCall], Json | None]] = {
            "initialize": self._initialize,
            "ping": lambda call: {},
            "server/discover": self._discover,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "subscriptions/listen": self._listen,
            **dict.fromkeys(_PASSED_ON, self._open),
        }

    # -- what the client says --------------------------------------------------------------

    def receive(self, data: bytes) -> Iterator[None]:
        """Take bytes as they came; yield after each message, so that the client reads what it was told before the next.

        A short request may have a long answer.
        """
        for line in self._lines.feed(data):
            self._take(line)
            yield

    def _take(self, line: bytes | bytearray | messages.LongLine) -> None:
        match messages.read(line):
            case messages.Request(id, method, params):
                self._on_request(OpenCall(id, method, params))
            case messages.Notification("notifications/cancelled", params):
                self._on_cancelled(params.get("requestId"))
            case messages.Answer(id, result):
                self._on_reply(id, result)
            case messages.Failure(int() | str() as id):
                self._on_reply(id, _CANCEL)
            case messages.Malformed(code, problem, shown, id):
                self._send(messages.failure(id, code, f"the message {problem}: {shown}"))

    def _on_request(self, call: OpenCall) -> None:
        try:
            self._admit(call)
            result = self._methods[call.method](call)
        except RefusedError as error:
            self._send(messages.failure(call.id, error.code, str(error), error.data))
        else:
            if result is not None:
                self._answer(call, result)

    def _admit(self, call: OpenCall) -> None:
        """Find out the era of a request.

        Raises:
            RefusedError: it is not served.
        """
        offered = self._offered
        if call.id in self._calls or call.id in self._listening:
            raise RefusedError(Code.INVALID_REQUEST, "a request with this id is open")
        call.is_modern = VERSION_KEY in call.meta and call.method != "initialize"
        if call.is_modern:
            self._admit_modern(call)
        else:
            call.can_ask = self._can_ask
        family = call.method.partition("/")[0]
        if (
            call.method not in self._methods
            or call.method in (_HANDSHAKE_ONLY if call.is_modern else _MODERN_ONLY)
            or (call.method in _PASSED_ON and family not in offered.capabilities)
        ):
            raise RefusedError(Code.METHOD_NOT_FOUND, f"there is no method {call.method!r}")
        if not call.is_modern and not self._is_greeted and call.method not in _HANDSHAKE_ONLY:
            raise RefusedError(Code.INVALID_REQUEST, "`initialize` comes first")

    def _admit_modern(self, call: OpenCall) -> None:
        version = call.meta[VERSION_KEY]
        capabilities = call.meta.get(CAPABILITIES_KEY)
        if not isinstance(version, str) or not isinstance(capabilities, Mapping):
            raise _invalid(f"`_meta` needs `{VERSION_KEY}`, a text, and `{CAPABILITIES_KEY}`, an object")
        if version != MODERN:
            about = {"supported": list(messages.VERSIONS), "requested": version}
            raise RefusedError(Code.UNSUPPORTED_VERSION, f"version {version!r} is not served", about)
        call.can_ask = _has_forms(capabilities)

    @property
    def _offered(self) -> ServedTools:
        if isinstance(self._served, str):
            raise RefusedError(Code.INTERNAL_ERROR, self._served)
        return self._served

    def _initialize(self, call: OpenCall) -> Json:
        version = call.params.get("protocolVersion")
        capabilities = call.params.get("capabilities")
        if not isinstance(version, str) or not isinstance(capabilities, Mapping):
            raise _invalid("`initialize` needs `protocolVersion`, a text, and `capabilities`, an object")
        if version not in HANDSHAKE_VERSIONS:
            version = HANDSHAKE_VERSIONS[0]
        self._is_greeted = True
        self._can_ask = version in _ELICITING and _has_forms(capabilities)
        return {**self._about(), "protocolVersion": version, "serverInfo": _SERVER}

    def _discover(self, call: OpenCall) -> Json:
        return {**self._about(), "supportedVersions": [MODERN]}

    def _about(self) -> Json:
        return {
            "capabilities": self._offered.capabilities,
            "instructions": self._offered.instructions,
        }

    def _list_tools(self, call: OpenCall) -> Json:
        return {"tools": self._offered.tools()}

    def _call_tool(self, call: OpenCall) -> None:
        arguments = call.params.get("arguments", {})
        if not isinstance(call.params.get("name"), str) or not isinstance(arguments, Mapping):
            raise _invalid("`tools/call` needs `name`, a text, and `arguments`, an object")
        if call.is_modern and "requestState" in call.params:
            self._go_on(call)
        else:
            self._open(call)

    def _open(self, call: OpenCall) -> None:
        assert call.id is not None
        if len(self._calls) >= MOST_CALLS:
            problem = f"{MOST_CALLS} calls run already; call again when one has ended"
            raise RefusedError(Code.INTERNAL_ERROR, problem)
        self._calls[call.id] = call
        self._begin(call)

    def _go_on(self, call: OpenCall) -> None:
        """Give a held call the answer that its client brings.

        Raises:
            RefusedError: it brings none, or no call waits with this state, name and arguments.
        """
        assert call.id is not None
        reply = _object(_object(call.params.get("inputResponses")).get(_QUESTION))
        if reply.get("action") not in _ACTIONS:
            raise _invalid(f"`inputResponses` needs `{_QUESTION}`, with an `action` of {', '.join(_ACTIONS)}")
        state = str(call.params["requestState"])
        held = self._held.get(state)
        if held is None or not held.is_like(call):
            raise _invalid("no call of this tool with these arguments waits under this `requestState`")
        del self._held[state]
        held.id = call.id
        held.params = call.params
        held.done = None
        self._calls[call.id] = held
        if held.outcome is None:
            self._reply(held, reply)
        else:
            self.end(held, held.outcome)

    def _listen(self, call: OpenCall) -> None:
        wanted = call.params.get("notifications")
        if not isinstance(wanted, Mapping):
            raise _invalid("`subscriptions/listen` needs `notifications`, an object")
        if len(self._listening) >= MOST_CALLS:
            raise RefusedError(Code.INTERNAL_ERROR, f"{MOST_CALLS} subscriptions are open already")
        assert call.id is not None
        given = {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}
        self._tell_listener(call.id, _ACKNOWLEDGED, {"notifications": given})
        if given:
            self._listening.add(call.id)

    def _on_cancelled(self, id: object) -> None:
        if not isinstance(id, (int, str)):
            return
        self._listening.discard(id)
        call = self._calls.pop(id, None)
        if call is not None:
            self._cancel(call)

    def _on_reply(self, id: Id, reply: Json) -> None:
        call = self._asked.pop(id, None)
        if call is not None:
            self._reply(call, reply if reply.get("action") in _ACTIONS else _CANCEL)

    # -- what calls say --------------------------------------------------------------------

    def end(self, call: OpenCall, outcome: Json | RefusedError) -> None:
        """End a call; if it is held just now, the client hears of it when it sends the call again."""
        if call.id is None:
            call.outcome = outcome
            return
        if not self._is_open(call):
            return  # its client has cancelled it
        del self._calls[call.id]
        if isinstance(outcome, RefusedError):
            self._send(messages.failure(call.id, outcome.code, str(outcome)))
        else:
            self._answer(call, outcome)

    def progress(
        self,
        call: OpenCall,
        done: float,
        total: float | None,
        message: str,
    ) -> None:
        """Tell the client how far an open call is, if it wants to know, and if that is further than before."""
        token = call.meta.get("progressToken")
        if not self._is_open(call) or token is None or (call.done is not None and done <= call.done):
            return
        if not self._has_room():
            return
        call.done = done
        params = {"progressToken": token, "progress": done}
        if total is not None:
            params["total"] = total
        if message:
            params["message"] = message
        self._send(messages.notification("notifications/progress", params))

    def ask(
        self,
        call: OpenCall,
        message: str,
        schema: Json,
        reply: Callable[[Json], None],
    ) -> None:
        """Ask the person at the client; `reply` takes the answer. An open call asks one question at a time."""
        call.reply = reply
        if not self._is_open(call):
            self._reply(call, _CANCEL)
            return
        params = {"mode": "form", "message": message, "requestedSchema": schema}
        if call.is_modern:
            self._hold(call, {"method": "elicitation/create", "params": params})
        else:
            self._questions += 1
            id = f"question-{self._questions}"
            self._asked[id] = call
            self._send(messages.request(id, "elicitation/create", params))

    def withdraw(self, call: OpenCall) -> None:
        """Ask no more what a call asked, if it was not answered."""
        call.reply = None
        for id in [id for id, asking in self._asked.items() if asking is call]:
            del self._asked[id]
            self._send(messages.notification(_CANCELLED, {"requestId": id}))

    def changed(self) -> None:
        """Tell the client that the tools are others."""
        if self._is_greeted:
            self._send(messages.notification(_CHANGED, {}))
        for id in self._listening:
            self._tell_listener(id, _CHANGED, {})

    def _is_open(self, call: OpenCall) -> bool:
        """Whether the client waits for a call's answer; by another call it may have the same id again."""
        return call.id is not None and self._calls.get(call.id) is call

    def _hold(self, call: OpenCall, question: Json) -> None:
        assert call.id is not None
        if len(self._held) >= MOST_CALLS:
            self._cancel(self._held.pop(next(iter(self._held))))
        state = secrets.token_urlsafe(32)
        self._answer(call, {"inputRequests": {_QUESTION: question}, "requestState": state}, "input_required")
        del self._calls[call.id]
        call.id = None
        self._held[state] = call

    def _reply(self, call: OpenCall, reply: Json) -> None:
        take, call.reply = call.reply, None
        if take is not None:
            take(reply)

    def _tell_listener(self, id: Id, method: str, params: Json) -> None:
        self._send(messages.notification(method, {**params, "_meta": {messages.SUBSCRIPTION_KEY: id}}))

    def _answer(self, call: OpenCall, result: Json, kind: str = "complete") -> None:
        assert call.id is not None
        if call.is_modern:
            # What a server says of its result does not make it another kind of one, nor another server's.
            meta = {
                **_object(result.get("_meta")),
                messages.SERVER_KEY: _SERVER,
            }
            result = {
                **result,
                "resultType": kind,
                "_meta": meta,
            }
            if call.method in _CACHEABLE:
                result = {"ttlMs": 0, "cacheScope": "private", **result}
        try:
            line = messages.answer(call.id, result)
        except (ValueError, TypeError, RecursionError) as error:
            problem = f"the result cannot be said in JSON: {error}"
            line = messages.failure(call.id, Code.INTERNAL_ERROR, problem)
        if len(line) > MAX_MESSAGE_BYTES:
            problem = f"the result has {len(line)} bytes, and {MAX_MESSAGE_BYTES} are allowed; ask for less at a time"
            line = messages.failure(call.id, Code.INTERNAL_ERROR, problem)
        self._send(line)


def _invalid(problem: str) -> RefusedError:
    return RefusedError(Code.INVALID_PARAMS, problem)


def _object(value: Any) -> Json:
    """Return a value that should be an object, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def _has_forms(capabilities: Json) -> bool:
    """Whether a client can show its person a form; one that says nothing more of elicitation can."""
    given = capabilities.get("elicitation")
    return isinstance(given, Mapping) and (not given or "form" in given)
