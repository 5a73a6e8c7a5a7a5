"""A client of one MCP server, which runs as a child process and speaks over its standard input and output.

`Client.start` starts the program, finds out which era it speaks, and returns the connection. `list_tools`, `call_tool`
and `ask` may run side by side; cancelling one tells the server so. `close` has to be called in the end, also where the
server ended by itself. All of it belongs to one event loop, and what a server asks for or tells comes by `Reactions`.

The server is untrusted. Every wait for it at the start and at the end is bounded, and so is what it can make this side
keep. A call has no time limit of its own: who calls cancels.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import os
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from paddock_sdk.mcp import messages
from paddock_sdk.mcp.messages import Answer, Code, Failure, Id, Json, Lines, LongLine, Malformed, Message

MAX_TOOLS: Final = 512  # once there are more, no further page is asked for
PROBE_SECONDS: Final = 5.0  # of silence, after which the older handshake is tried as well
START_SECONDS: Final = 60.0
CANCEL_SECONDS: Final = 3.0
CLOSE_SECONDS: Final = 1.0  # from the end of a server's input to SIGKILL; some do not end by themselves
_MAX_PAGES: Final = 100
_MAX_ROUNDS: Final = 10  # of questions that one call may ask
_MAX_QUESTIONS: Final = 16  # at the same time
_MAX_MALFORMED: Final = 100
_MAX_LOG_LINE_BYTES: Final = 4096
_LAST_LINES: Final = 5
_SHOWN_CHARACTERS: Final = 200
_STDERR: Final = 2
_DRAIN_SECONDS: Final = 0.5  # for output in transit; another process may keep the pipe open for ever

_CLIENT: Final = {"name": "paddock", "version": "1"}
_CAPABILITIES: Final[Json] = {"elicitation": {"form": {}}, "roots": {}}  # constant: some vary their tools by them
_META: Final = {
    messages.VERSION_KEY: messages.MODERN,
    messages.CLIENT_KEY: _CLIENT,
    messages.CAPABILITIES_KEY: _CAPABILITIES,
}

Progress = Callable[[float, float | None, str], None]
"""Called with what is done, of how much, and a message."""


class McpError(Exception):
    """A server did not do what it was asked to; the text says what stood in the way."""


class RefusedError(McpError):
    """A server answered with an error; `code` and `data` are the server's."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        self.code = code
        self.data = data
        super().__init__(message)


class ServerEndedError(McpError):
    """The server ended, or was ended for breaking a rule; it has to be started again."""


@dataclass(frozen=True, slots=True)
class Reactions:
    """What is done about what a server asks for or tells; called within the event loop, which must not wait.

    `elicit` gets the parameters of `elicitation/create` and returns the protocol's answer, `{"action": "accept" |
    "decline" | "cancel", "content": …}`; it runs in the context of the call that asks, and of the newest call where the
    protocol does not tell. Without it every question is declined. `roots` returns objects with `uri` and `name`.
    `tools_changed` is called as often as the server says so. `line` gets "stderr" or "stdout" and a line of a program's
    output, of 4 KiB at most, or what was wrong with a message.
    """

    elicit: Callable[[Json], Awaitable[Json]] | None = None
    roots: Callable[[], Sequence[Json]] = tuple
    tools_changed: Callable[[], None] = lambda: None
    line: Callable[[str, str], None] = lambda stream, text: None


_Outcome = Answer | Failure | Malformed | str  # of a request; a text is how the server ended


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request without an outcome yet."""

    id: int
    outcome: asyncio.Future[_Outcome]
    progress: Progress | None
    context: contextvars.Context


class _Process(asyncio.SubprocessProtocol):
    """The server's process, its messages and its last words; `gone` says how it ended, once nothing of it runs."""

    _transport: asyncio.SubprocessTransport
    _stdin: asyncio.WriteTransport

    def __init__(
        self,
        take: Callable[[Message], None],
        log: Callable[[str, str], None],
    ) -> None:
        self.gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._take = take
        self._log = log
        self._stdout, self._stderr = Lines(), Lines(_MAX_LOG_LINE_BYTES)
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._reason = ""  # why this side ended it

    def write(self, data: bytes) -> None:
        """Send a line; a server that leaves too much of them unread is ended."""
        if self._stdin.get_write_buffer_size() > messages.MAX_MESSAGE_BYTES:
            self.end("did not read its standard input")
        elif not self._stdin.is_closing():
            self._stdin.write(data)

    def end(self, reason: str) -> None:
        """Kill all processes of its group; `reason` is why it ended, unless it did so by itself."""
        if self.gone.done():
            return  # the number of the group may be another's by now
        if self._transport.get_returncode() is None:
            self._reason = self._reason or reason
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), signal.SIGKILL)

    async def close(self, seconds: float) -> None:
        """End its input, give it so many seconds to end, and kill it then."""
        self._reason = self._reason or "was closed"
        self._stdin.close()
        try:
            await asyncio.wait([self.gone], timeout=seconds)
        finally:
            self.end("")
        await asyncio.wait([self.gone])

    def with_last_lines(self, problem: str) -> str:
        """Add its last lines of standard error to a sentence."""
        return "\n  ".join([f"{problem}; its last lines:" if self._last_lines else problem, *self._last_lines])

    def programs(self) -> list[str]:
        """Return the names of the programs of its session that run."""
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                name, _, fields = status.read_text(errors="replace").partition("(")[2].rpartition(") ")
                if fields.split()[3] == str(self._transport.get_pid()):
                    found.append(name)
        return found

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        stdin = transport.get_pipe_transport(0)
        assert isinstance(stdin, asyncio.WriteTransport)
        self._stdin = stdin

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _STDERR:
            for line in self._stderr.feed(data):
                self._keep(line)
            return
        for line in self._stdout.feed(data):
            message = None if self._reason else messages.read(line)
            if message is not None:
                self._take(message)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd != _STDERR and not self._reason:
            name = "output" if fd else "input"
            asyncio.get_running_loop().call_later(_DRAIN_SECONDS, self.end, f"closed its standard {name}")

    def process_exited(self) -> None:
        asyncio.get_running_loop().call_later(_DRAIN_SECONDS, self._finish)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish()

    def _finish(self) -> None:
        if self.gone.done():
            return
        code = self._transport.get_returncode() or 0
        how = f"ended with exit code {code}"
        if code < 0:
            how = f"was ended by signal {-code} ({signal.strsignal(-code)})"
        how = self._reason or how
        self.end(how)
        self._transport.close()
        self._keep(self._stderr.end())
        self.gone.set_result(self.with_last_lines(f"the MCP server {how}"))

    def _keep(self, line: bytes | bytearray | LongLine) -> None:
        text = (line.ends if isinstance(line, LongLine) else line).decode(errors="replace").rstrip()
        if text:
            self._last_lines.append(text)
            self._log("stderr", text)


class Client:
    """A connection to one server; `Client.start` makes it.

    `version` is the protocol's version, `server` the server's name and version, `capabilities` and `instructions` what
    it said of itself; all of it is untrusted.
    """

    version = ""
    server = ""
    instructions = ""

    def __init__(self, reactions: Reactions) -> None:
        self.capabilities: Json = {}
        self._reactions = reactions
        self._process = _Process(self._take, reactions.line)
        self._process.gone.add_done_callback(self._take_end)
        self._meta: Json = _META
        self._malformed = 0
        self._last_id = 0
        self._waiting: dict[int, _Waiting] = {}
        self._questions: dict[Id, asyncio.Task[None]] = {}

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        reactions: Reactions = Reactions(),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        seconds: float = START_SECONDS,
    ) -> Client:
        """Start a server and return the connection, once it said which version it speaks.

        `env` is its whole environment, that of this process if it is None.

        Raises:
            McpError: it could not be started, did not answer in time, ended, or speaks no accepted version.
        """
        client = cls(reactions)
        process = client._process
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: process, *command, env=env, cwd=cwd, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise McpError(f"the MCP server {command[0]} cannot be started: {error}") from None
        try:
            async with asyncio.timeout(seconds):
                await client._connect()
        except TimeoutError:
            programs = ", ".join(process.programs()) or "none is left"
            problem = f"the MCP server did not answer `initialize` within {seconds:g} s; its programs: {programs}"
            raise McpError(process.with_last_lines(problem)) from None
        finally:
            if not client.version:
                await process.close(0)
        return client

    @property
    def ended(self) -> str:
        """How the server ended; nothing while it runs."""
        return self._process.gone.result() if self._process.gone.done() else ""

    async def list_tools(self) -> list[Any]:
        """Return the definitions of all tools, unread; once there are more than 512, no further page is asked for.

        Raises:
            McpError: the server did not answer with them; see `ask`.
        """
        tools: list[Any] = []
        cursor: Any = None
        for _ in range(_MAX_PAGES):
            page = await self.ask("tools/list", {"cursor": cursor} if cursor else {})
            if not isinstance(page.get("tools"), list):
                raise McpError("the MCP server answered `tools/list` without a list of tools")
            tools += page["tools"]
            cursor = page.get("nextCursor")
            if not cursor or len(tools) > MAX_TOOLS:
                return tools
        raise McpError(f"the MCP server has more than {_MAX_PAGES} pages of tools")

    async def call_tool(
        self,
        name: str,
        arguments: Json,
        progress: Progress | None = None,
    ) -> Json:
        """Call a tool and return the protocol's result, unread; see `ask`."""
        return await self.ask("tools/call", {"name": name, "arguments": arguments}, progress)

    async def ask(
        self,
        method: str,
        params: Json,
        progress: Progress | None = None,
    ) -> Json:
        """Return the result of a request; questions that the server has first go to `Reactions`.

        Cancelled, it tells the server; one that does not answer anything within 3 s after that is ended.

        Raises:
            RefusedError: the server answered with an error.
            ServerEndedError: it ended, now or before.
            McpError: its answer breaks a rule, or it wants something that is not offered.
            ValueError, TypeError: JSON cannot say the parameters.
        """
        answers: Json = {}
        for _ in range(1 + _MAX_ROUNDS):
            waiting = self._send(method, {**params, **answers}, progress)
            try:
                result = _result(method, await waiting.outcome)
            except asyncio.CancelledError:
                self._give_up(waiting)
                raise
            if self._meta is not _META or result.get("resultType", "complete") == "complete":
                return result
            answers = await self._answers(method, result)
        raise McpError(f"the MCP server asked for input to one `{method}` more than {_MAX_ROUNDS} times")

    async def close(self) -> None:
        """End the server: its input ends, and 1 s later all processes of its group are killed; then none runs."""
        await self._process.close(CLOSE_SECONDS)

    async def _connect(self) -> None:
        """Find out which version the server speaks.

        Raises:
            McpError: none that is accepted.
        """
        discovered = self._send("server/discover", {}).outcome
        await asyncio.wait([discovered], timeout=PROBE_SECONDS)
        if self._is_modern(discovered):
            return
        self._meta = {}
        hello = {
            "protocolVersion": messages.HANDSHAKE_VERSIONS[0],
            "capabilities": _CAPABILITIES,
            "clientInfo": _CLIENT,
        }
        initialized = self._send("initialize", hello).outcome
        await asyncio.wait([initialized])
        # A slow server of the new era has answered the first question by now, and refuses the second.
        if self._is_modern(discovered):
            return
        result = _result("initialize", initialized.result())
        version = result.get("protocolVersion")
        if version not in messages.HANDSHAKE_VERSIONS:
            accepted = ", ".join(messages.VERSIONS)
            raise McpError(f"the MCP server speaks version {_shown(version)} of the protocol; accepted are {accepted}")
        self._adopt(version, result, result.get("serverInfo"))
        self._process.write(messages.notification("notifications/initialized", {}))

    def _is_modern(self, discovered: asyncio.Future[_Outcome]) -> bool:
        """Return whether the server said that it speaks the version without a handshake, which is then spoken."""
        outcome = discovered.result() if discovered.done() else None
        said = outcome.result if isinstance(outcome, Answer) else {}
        versions = said.get("supportedVersions")
        if not isinstance(versions, list) or messages.MODERN not in versions:
            return False
        self._meta = _META
        self._adopt(messages.MODERN, said, _object(said.get("_meta")).get(messages.SERVER_KEY))
        if _object(self.capabilities.get("tools")).get("listChanged"):
            self._send("subscriptions/listen", {"notifications": {"toolsListChanged": True}})  # answered at its end
        return True

    def _adopt(self, version: str, said: Json, server: Any) -> None:
        self.version = version
        self.capabilities = _object(said.get("capabilities"))
        self.instructions = str(said.get("instructions") or "")
        name, number = (str(_object(server).get(key))[:_SHOWN_CHARACTERS] for key in ("name", "version"))
        self.server = f"{name} {number}"

    def _send(
        self,
        method: str,
        params: Json,
        progress: Progress | None = None,
    ) -> _Waiting:
        if self._process.gone.done():
            raise ServerEndedError(self._process.gone.result())
        id = self._last_id + 1
        meta = self._meta if progress is None else {**self._meta, "progressToken": id}
        line = messages.request(id, method, {**params, "_meta": meta} if meta else params)
        self._last_id = id
        outcome = asyncio.get_running_loop().create_future()
        waiting = self._waiting[id] = _Waiting(id, outcome, progress, contextvars.copy_context())
        self._process.write(line)
        return waiting

    def _give_up(self, waiting: _Waiting) -> None:
        """Tell the server that nobody waits for a call, and end it if it answers nothing at all after that."""
        self._waiting.pop(waiting.id, None)
        if self._process.gone.done():
            return
        self._process.write(messages.notification("notifications/cancelled", {"requestId": waiting.id}))
        lives = self._send("ping" if not self._meta else "server/discover", {}).outcome
        end = functools.partial(self._process.end, f"answered nothing within {CANCEL_SECONDS:g} s of a cancelled call")
        timer = asyncio.get_running_loop().call_later(CANCEL_SECONDS, end)
        lives.add_done_callback(lambda _: timer.cancel())

    async def _answers(self, method: str, result: Json) -> Json:
        """Return what a request is sent again with, after a result that asks for input.

        Raises:
            McpError: the result asks for nothing that is offered.
        """
        questions = result.get("inputRequests", {})
        if result["resultType"] != "input_required" or not isinstance(questions, dict):
            raise McpError(f"the MCP server answered `{method}` with {_shown(result['resultType'])}, not a result")
        if len(questions) > _MAX_QUESTIONS:
            raise McpError(f"the MCP server has {len(questions)} questions, and {_MAX_QUESTIONS} are answered at once")
        answers = {key: await self._reply(question) for key, question in questions.items()}
        state = result.get("requestState")
        return {"inputResponses": answers} | ({} if state is None else {"requestState": state})

    async def _reply(self, question: Json) -> Json:
        match question:
            case {"method": "ping"}:
                return {}
            case {"method": "roots/list"}:
                return {"roots": list(self._reactions.roots())}
            case {"method": "elicitation/create", "params": dict(params)}:
                return await self._reactions.elicit(params) if self._reactions.elicit else {"action": "decline"}
        raise McpError(f"the MCP server asked for {_shown(_object(question).get('method'))}, which is not offered")

    async def _answer(self, request: messages.Request) -> None:
        try:
            result = await self._reply({"method": request.method, "params": request.params})
            line = messages.answer(request.id, result)
        except Exception as error:
            code = Code.METHOD_NOT_FOUND if isinstance(error, McpError) else Code.INTERNAL_ERROR
            line = messages.failure(request.id, code, str(error))
        self._process.write(line)

    def _take(self, message: Message) -> None:
        match message:
            case messages.Request():
                self._take_request(message)
            case messages.Notification():
                self._take_notification(message.method, message.params)
            case Malformed(is_text=True):
                self._reactions.line("stdout", message.shown)
            case Malformed():
                self._settle(message.id, message)
                self._warn(f"a message that {message.problem}: {message.shown}")
            case Answer() | Failure():
                is_late = isinstance(message.id, int) and 0 < message.id <= self._last_id
                if not self._settle(message.id, message) and not is_late:
                    self._warn(f"an answer to the request {_shown(message.id)}, which was not made")

    def _settle(self, id: Id | None, outcome: _Outcome) -> bool:
        waiting = self._waiting.pop(id, None) if isinstance(id, int) else None
        if waiting is not None and not waiting.outcome.done():
            waiting.outcome.set_result(outcome)
        return waiting is not None

    def _warn(self, problem: str) -> None:
        self._reactions.line("stdout", problem)
        self._malformed += 1
        if self._malformed == _MAX_MALFORMED:
            self._process.end(f"sent {_MAX_MALFORMED} malformed messages, the last of them {problem}")

    def _take_request(self, request: messages.Request) -> None:
        if request.id in self._questions or len(self._questions) == _MAX_QUESTIONS:
            problem = f"{_MAX_QUESTIONS} requests of different ids are answered at once"
            self._process.write(messages.failure(request.id, Code.INVALID_REQUEST, problem))
            return
        newest = next(reversed(self._waiting.values()), None)
        context = None if newest is None else newest.context
        task = asyncio.get_running_loop().create_task(self._answer(request), context=context)
        self._questions[request.id] = task
        task.add_done_callback(lambda _: self._questions.pop(request.id))

    def _take_notification(self, method: str, params: Json) -> None:
        match method, params:
            case "notifications/progress", {"progressToken": int(token), "progress": int() | float() as done}:
                waiting = self._waiting.get(token)
                total = params.get("total")
                total = total if isinstance(total, int | float) else None
                if waiting is not None and waiting.progress is not None:
                    waiting.progress(done, total, str(params.get("message") or ""))
            case "notifications/tools/list_changed", _:
                self._reactions.tools_changed()
            case "notifications/cancelled", {"requestId": int() | str() as id} if id in self._questions:
                self._questions[id].cancel()

    def _take_end(self, gone: asyncio.Future[str]) -> None:
        for id in list(self._waiting):
            self._settle(id, gone.result())
        for task in self._questions.values():
            task.cancel()


def _result(method: str, outcome: _Outcome) -> Json:
    """Return the result of a request.

    Raises:
        McpError: it has none; see `Client.ask`.
    """
    match outcome:
        case Answer():
            return outcome.result
        case Failure():
            raise RefusedError(outcome.code, outcome.message, outcome.data)
        case Malformed():
            raise McpError(f"the MCP server's answer to `{method}` {outcome.problem}: {outcome.shown}")
        case _:
            raise ServerEndedError(outcome)


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _shown(value: Any) -> str:
    return ascii(value)[:_SHOWN_CHARACTERS]
