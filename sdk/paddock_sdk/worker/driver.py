"""Drive a worker's end of the connection: one socket, one outbox, one loop.

The driver owns its non-blocking socket, so that a synchronous call from module code can be made in place: it empties
the outbox and reads frames until its own reply is there. Meanwhile it runs what must not wait (plain functions, mirror
changes) and leaves coroutines to the loop. Frames are read and decoded strictly in the order they came, however deep
such calls nest. A frame that cannot be processed is logged and does not affect the others. Calls and streams of other
threads are passed to the loop. When the host is gone every waiting call ends with `ModuleGoneError`. The driver handles
calls and bodies, and knows nothing of coordinators or modules. A module's value that cannot cross raises an error that
names it, where the module passes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import logging
import queue
import select
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Final

from paddock_sdk.contract.boundary_errors import ModuleGoneError, OverLimitError
from paddock_sdk.protocol import (
    MAX_FRAME_BYTES,
    Connection,
    Flag,
    Frame,
    HandleEntry,
    Kind,
    LocalProtocolError,
    RemoteProtocolError,
)
from paddock_sdk.protocol.body import Codec, EncodeError
from paddock_sdk.protocol.frames import Buffer
from paddock_sdk.worker.mailbox import Mailbox
from paddock_sdk.worker.object_table import ObjectTable
from paddock_sdk.worker.open_calls import CallOutcome, Finish, PendingCall, ServedRequest, settle
from paddock_sdk.worker.outbox import Outbox
from paddock_sdk.worker.receiver import FrameReceiver
from paddock_sdk.worker.unsendable import explained

_STREAM_WINDOW: Final = 32  # items a stream may run ahead of its reader
_ERROR_TEXT: Final = 2000  # characters about an error that could not itself be sent
_GONE: Final = "the host has closed this module's connection"
_PARENTS: Final = "this process was forked by the module; only its parent can call the host"
_LEAVE_SECONDS: Final = 1.0  # for cancelled work to end after the host's goodbye; the host waits for two
_POLL_SLICE_MS: Final = 1000  # how long one poll of a blocked call lasts; it only bounds a lost wake-up
_LEAVE_SLICE_MS: Final = 50  # the same while the worker leaves, whose time is short

# Plain numbers: Python works on members of an enum in Python.
_REQUEST, _RESPONSE, _FAILURE = int(Kind.REQUEST), int(Kind.RESPONSE), int(Kind.FAILURE)
_MIRROR, _ITEM = int(Kind.MIRROR), int(Kind.ITEM)
_NONE: Final = b"\xc0"  # the body of None, which is most handlers' answer
_IN_PLACE, _BLOCKED, _STREAM = int(Flag.IN_PLACE), int(Flag.BLOCKED), int(Flag.STREAM)

serving: contextvars.ContextVar[int] = contextvars.ContextVar("paddock_serving", default=0)
"""The id of the request in whose service the current code runs, 0 outside of any."""

_log = logging.getLogger(__name__)


class Driver:
    """One worker's connection, its outgoing calls, and the order of incoming frames."""

    def __init__(
        self,
        sock: socket.socket,
        connection: Connection,
        codec: Codec,
        make_receiver: Callable[[Driver], FrameReceiver],
    ) -> None:
        self.codec = codec
        self.connection = connection
        self.objects = ObjectTable(self, codec)
        self.closed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._fd = sock.fileno()
        self._inbox: deque[Frame] = deque()
        self._outbox = Outbox(sock, self._loop)
        self.write = self._outbox.write
        self._calls: dict[int, PendingCall] = {}  # this process's
        self._served: dict[int, ServedRequest] = {}  # the host's, those that a task serves
        self._blocked = 0
        self._leaving: asyncio.Task[None] | None = None
        self._leave_by = 0.0
        self._gone = _GONE
        self._mailbox = Mailbox()
        self._thread = threading.get_ident()
        # The receiver of frames, which knows the session. It calls the host through the driver it is made with.
        self.receiver = make_receiver(self)
        self.before_send = self.receiver.before_send
        self.circumstances = self.receiver.circumstances

    def start(self) -> None:
        """Start reading frames."""
        self._loop.add_reader(self._fd, self._on_readable)
        self._loop.add_reader(self._mailbox.fd, self._mailbox.on_readable)

    def close(self) -> None:
        """Detach, and end every call that still waits."""
        if self.is_open:
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
            self._loop.remove_reader(self._mailbox.fd)
            self._sock.close()
            self._mailbox.close()  # unfinished actions of other threads fail now, in these threads
            self._end_all()
        self.closed.set()

    def part(self, answer: Callable[..., None]) -> None:
        """Give the connection up, in a forked child, where `answer` is called in place of each answer."""
        self._gone, self.write = _PARENTS, answer
        self._sock.close()
        self._mailbox = Mailbox()
        self._mailbox.close()

    def leave(self) -> None:
        """Cancel all running requests, and close when they have ended; for a second they may call the host."""
        if self._leaving is None:
            self._leave_by = time.monotonic() + _LEAVE_SECONDS
            self._leaving = self._loop.create_task(self._leave())

    async def _leave(self) -> None:
        try:
            tasks = [served.task for served in self._served.values()]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=max(0.0, self._leave_by - time.monotonic()))
        finally:
            self.close()

    @property
    def is_open(self) -> bool:
        return self._sock.fileno() >= 0

    @property
    def has_unsent(self) -> bool:
        """Whether something waits for the socket to take more."""
        return bool(self._outbox)

    @property
    def in_loop_thread(self) -> bool:
        return threading.get_ident() == self._thread

    # -- calls out -------------------------------------------------------------------------

    async def call(self, target: int, method: int, value: object, *, in_place: bool = False) -> Any:
        """Call, and return the decoded reply.

        Raises:
            ModuleGoneError: the host is gone.
            Exception: the callee's exception, rebuilt.
        """
        flags = _IN_PLACE if in_place else 0
        waiting = self._loop if self.in_loop_thread else asyncio.get_running_loop()  # a forked child has none running
        future: asyncio.Future[CallOutcome] = waiting.create_future()
        finish: Finish = functools.partial(settle, future)
        if waiting is self._loop:
            started = [self._request(target, method, value, flags, finish)]
        else:
            start = functools.partial(self._request, target, method, value, flags)
            started = self._begin(start, functools.partial(_deliver, waiting, finish))
        try:
            outcome = await future
        except asyncio.CancelledError:
            self._abandon(started)
            raise
        return outcome.take()

    def call_sync(
        self,
        target: int,
        method: int,
        value: object,
        *,
        in_place: bool = True,
        head: str | None = None,
        what: str = "",
    ) -> Any:
        """Call and wait in place; the loop stands still meanwhile, except for what must not wait.

        `what` is the value's name for the module, if it is not the arguments of a call.
        """
        flags = _IN_PLACE if in_place else 0
        if not self.in_loop_thread:
            start = functools.partial(self._request, target, method, value, flags, head=head, what=what)
            return self._begin_and_wait(start)
        answer: list[CallOutcome] = []
        self._request(target, method, value, flags | _BLOCKED, answer.append, head, what)
        self._blocked += 1
        try:
            while not answer:
                self._turn()
        finally:
            self._blocked -= 1
            if self._inbox and not self._blocked:
                self._loop.call_soon(self._drain)
        return answer[0].take()

    def on_loop(self, act: Callable[[], object]) -> None:
        """Run something on the loop, from any thread, and return when it is done; its exception propagates."""
        if self.in_loop_thread:
            act()
            return

        def start(finish: Finish) -> int:
            act()
            finish(CallOutcome(None))
            return 0  # no call: there is nothing to give up

        self._begin_and_wait(start)

    def notify(self, method: int, value: object, *, head: str | None = None, along: bool = False) -> None:
        """Send the host a notification, without waiting; another thread does not get the error if that fails.

        With `along` it leaves with the next frame, or when the loop gets to it: each frame by itself wakes the host.
        """
        if not self.in_loop_thread:
            self._run(lambda: self.notify(method, value, head=head, along=along))
            return
        body, handles = self.encode(value, head=head)
        self.before_send()
        if self.is_open:
            try:
                frame = self.connection.send_notify(0, method, body, handles)
            except LocalProtocolError:
                self.objects.take_back(handles)
                raise
            if along:
                self._outbox.write_along(frame)
            else:
                self.write(frame)

    async def stream(self, target: int, method: int, value: object) -> AsyncIterator[Any]:
        """Call a generator and yield its items as they come; leaving early cancels it.

        Raises:
            ModuleGoneError: the host is gone.
            Exception: the generator's exception, rebuilt.
        """
        arrived: asyncio.Queue[CallOutcome] = asyncio.Queue()
        waiting = self._loop if self.in_loop_thread else asyncio.get_running_loop()  # a forked child has none running
        finish: Finish = arrived.put_nowait
        if waiting is not self._loop:
            finish = functools.partial(_deliver, waiting, finish)
        started = self._begin(functools.partial(self._start_stream, target, method, value), finish)
        taken, ended = 0, False
        try:
            while True:
                outcome = await arrived.get()
                if not outcome.is_item:
                    ended = True
                    outcome.take()
                    return
                taken += 1
                if taken == _STREAM_WINDOW // 2:
                    self._run(functools.partial(self._grant, started, taken))
                    taken = 0
                yield outcome.take()
        finally:
            if not ended:
                self._abandon(started)

    def _start_stream(self, target: int, method: int, value: object, finish: Finish) -> int:
        id = self._request(target, method, value, _STREAM, finish)
        self._grant([id], _STREAM_WINDOW)
        return id

    def _grant(self, started: list[int], items: int) -> None:
        for id in started:
            frame = self.connection.send_credit(id, items)
            if frame is not None:
                self.write(frame)

    def _request(
        self,
        target: int,
        method: int,
        value: object,
        flags: int,
        finish: Finish,
        head: str | None = None,
        what: str = "",
    ) -> int:
        if not self.is_open:
            raise ModuleGoneError(self._gone)
        body, handles = self.encode(value, head=head, what=what or ("" if target else "value"))
        self.before_send()
        try:
            id, frame = self.connection.send_request(target, method, body, handles, flags=flags, parent=serving.get())
        except LocalProtocolError:
            self.objects.take_back(handles)
            raise
        self._calls[id] = PendingCall(finish, contextvars.copy_context(), bool(flags & _STREAM))
        self.write(frame)
        return id

    def context_of(self, id: int) -> contextvars.Context:
        """Return a copy of the context in which this process made its request `id`, of the current one otherwise."""
        call = self._calls.get(id)
        return contextvars.copy_context() if call is None else call.context.copy()

    def _begin(self, start: Callable[[Finish], int], finish: Finish) -> list[int]:
        """Start a call on the loop, in the caller's context, from any thread; return where its id will be.

        An error ends the call like any other outcome.
        """
        context = contextvars.copy_context()
        started: list[int] = []

        def begin() -> None:
            try:
                started.append(context.run(start, finish))
            except BaseException as exc:  # any exception belongs to the caller
                finish(CallOutcome(None, exc))

        self._run(begin)
        return started

    def _begin_and_wait(self, start: Callable[[Finish], int]) -> Any:
        arrived: queue.SimpleQueue[CallOutcome] = queue.SimpleQueue()
        self._begin(start, arrived.put)
        return arrived.get().take()

    def _abandon(self, started: list[int]) -> None:
        """Cancel a call, from any thread."""
        with contextlib.suppress(ModuleGoneError):
            self._run(lambda: self._give_up(started))

    def _give_up(self, started: list[int]) -> None:
        for id in started:
            if self._calls.pop(id, None) is not None and not self.connection.is_closed:
                frame = self.connection.send_cancel(id)
                if frame is not None:
                    self.write(frame)

    def _outcome(self, frame: Frame) -> CallOutcome:
        """Decode an answer or item: at once, as later frames may refer to the objects that it brings."""
        try:
            value = self.decode(frame)
        except Exception as exc:  # the caller's, like anything else that comes of the call
            return CallOutcome(None, exc, frame.kind == _ITEM)
        if frame.kind != _FAILURE:
            return CallOutcome(value, None, frame.kind == _ITEM)
        if not isinstance(value, BaseException):
            value = RuntimeError(f"a failure of no known form: {value!r}"[:_ERROR_TEXT])
        return CallOutcome(None, value)

    # -- replies ---------------------------------------------------------------------------

    def reply(self, id: int, value: object, *, live_objects: bool = True) -> None:
        """End the host's request `id` with a value; nothing happens if it has ended."""
        if self.connection.is_serving(id):
            handles: Sequence[HandleEntry] = ()
            if value is None:
                body = _NONE
            else:
                body, handles = self.encode(value, live_objects=live_objects, what="return value")
            self.before_send()
            try:
                frame = self.connection.send_response(id, body, handles)
            except LocalProtocolError as exc:
                self.objects.take_back(handles)
                is_most = self.connection.send_limit >= MAX_FRAME_BYTES
                remedy = "" if is_most else "; `frame_max` under `limits` in the module's entry raises it"
                raise OverLimitError(f"the return value is more than one message holds: {exc}{remedy}") from exc
            self.write(frame)

    def fail(self, id: int, error: BaseException) -> None:
        """End the host's request `id` with an exception; one that cannot be sent is sent as text."""
        if not self.connection.is_serving(id):
            return
        self.before_send()
        try:
            frame = self.connection.send_failure(id, self.codec.encode(error, live_objects=False)[0])
        except BaseException as exc:  # a module's exception may do anything when it is looked at
            why = str(exc) if isinstance(exc, LocalProtocolError) else f"looking at it raised {type(exc).__name__}"
            stand_in = RuntimeError(f"{_kind_of(error)}, which cannot be sent: {why}"[:_ERROR_TEXT])
            frame = self.connection.send_failure(id, self.codec.encode(stand_in, live_objects=False)[0])
        self.write(frame)

    async def send_item(self, id: int, value: object) -> None:
        """Send one item of the stream that answers request `id`, when the reader has room for it."""
        while self.connection.is_serving(id) and not self.connection.credit(id):
            await self._served[id].wait_for_credit()
        if self.connection.is_serving(id):
            body, handles = self.encode(value, what="item of the stream")
            self.before_send()
            try:
                frame = self.connection.send_item(id, body, handles)
            except LocalProtocolError:
                self.objects.take_back(handles)
                raise
            self.write(frame)

    def start_serving(self, id: int, work: Coroutine[Any, Any, None], context: contextvars.Context | None) -> None:
        """Run the work for request `id` as a task that a cancellation finds; it ends with `disown`."""
        self._served[id] = ServedRequest(self._loop.create_task(work, context=context))

    def disown(self, id: int) -> None:
        """Forget the task that served request `id`."""
        self._served.pop(id, None)

    # -- bodies ----------------------------------------------------------------------------

    def encode(
        self, value: object, *, live_objects: bool = True, head: str | None = None, what: str = "value"
    ) -> tuple[bytes, Sequence[HandleEntry]]:
        """Return the body of `value` and the handles it refers to; `head` goes first, for the host to read alone.

        Raises:
            CannotCrossError: a part of it only has a meaning here; `what`, the value's name, begins the path to it.
            EncodeError: it is too large.
        """
        goes_live = self.objects.may_go_live if live_objects else False
        try:
            body, objects = self.codec.encode(value, live_objects=goes_live)
        except EncodeError as exc:
            encode = functools.partial(self.codec.encode, live_objects=goes_live)
            raise explained(exc, value, what, encode) from None
        if head is not None:
            body = self.codec.encode(head)[0] + body
        return body, self.objects.export_all(objects) if objects else ()

    def decode(self, frame: Frame) -> Any:
        """Return the value of a frame's body."""
        if not frame.handles:
            return self.codec.decode(frame.body)
        return self.decode_body(frame.body, frame.handles)

    def decode_body(self, body: Buffer, handles: Sequence[HandleEntry]) -> Any:
        """Return the value of a body."""
        if not handles:
            return self.codec.decode(body)
        self.receiver.catch_up()  # the host describes an object only in the first frame that refers to it
        return self.codec.decode(body, [self.objects.resolve(entry) for entry in handles])

    # -- incoming ----------------------------------------------------------------------

    def _on_readable(self) -> None:
        self._receive()
        self._drain()

    def _receive(self) -> None:
        try:
            count = self._sock.recv_into(self.connection.get_buffer())
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if count == 0:
            self.close()
            return
        try:
            self._inbox.extend(self.connection.buffer_updated(count))
        except RemoteProtocolError:
            self.close()  # the host does not break the protocol; the other end is not our host

    def _drain(self) -> None:
        """Look at each frame once, in order; a nested call continues where this one stands."""
        inbox = self._inbox
        while inbox:
            frame = inbox.popleft()
            kind = frame.kind
            try:
                if kind == _REQUEST:
                    self.receiver.on_request(frame)
                elif kind == _RESPONSE or kind == _FAILURE:
                    outcome = self._outcome(frame)
                    call = self._calls.pop(frame.id, None)
                    if call is not None:
                        call.finish(outcome)
                        if self._blocked:
                            return  # let the call whose answer may just have come look first
                elif kind == _MIRROR:
                    self.receiver.on_mirror(frame)
                else:
                    self._on_other(frame)
                if self.objects.has_dropped:
                    for object_id, times in self.objects.dropped():
                        self.write(self.connection.send_release(object_id, times))
            except Exception as exc:  # the frames behind it are others' business, and have to be acted on
                _log.exception("a frame of kind %d (method %d) could not be acted on", kind, frame.method)
                if kind == _REQUEST:
                    self.fail(frame.id, exc)

    def _on_other(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.ITEM:
                call = self._calls.get(frame.id)
                if call is not None and call.is_stream:
                    call.finish(self._outcome(frame))
            case Kind.CANCEL:
                served = self._served.get(frame.id)
                if served is not None:
                    self._loop.call_soon(served.task.cancel)  # not before its first step, which takes on to answer
            case Kind.CREDIT:
                served = self._served.get(frame.id)
                if served is not None:
                    served.on_credit()
            case Kind.RELEASE:
                if self.objects.release(frame.id, frame.target):
                    self.write(self.connection.send_release(frame.id, 0))
            case Kind.DISCARDED:
                self.receiver.catch_up()
                for entry in frame.handles:  # the items are no longer needed, but the host counts them as handed out
                    self.objects.resolve(entry)
            case Kind.WELCOME:
                self.receiver.on_welcome(frame)
            case Kind.GOODBYE:  # the last of them: a host of this version notifies nothing
                self.receiver.on_goodbye()

    def _turn(self) -> None:
        """Take one step of a call that waits in place."""
        if self._inbox:
            self._drain()
            return
        if self._leaving is not None and time.monotonic() >= self._leave_by:
            self.close()  # the loop, which would do so, stands still
        if not self.is_open:
            self._end_all()
            return
        poller = select.poll()
        poller.register(self._fd, select.POLLIN | (select.POLLOUT if self._outbox else 0))
        poller.register(self._mailbox.fd, select.POLLIN)
        for fd, events in poller.poll(_POLL_SLICE_MS if self._leaving is None else _LEAVE_SLICE_MS):
            if not self.is_open:
                return  # since the other descriptor was seen to
            if fd == self._mailbox.fd:
                self._mailbox.on_readable()
            else:
                if events & select.POLLOUT:
                    self._outbox.on_writable()
                if events & ~select.POLLOUT:
                    self._receive()

    def _run(self, action: Callable[[], object]) -> None:
        """Run something on the loop: at once if this is its thread, else soon."""
        if self.in_loop_thread:
            action()
        elif not self._mailbox.post(action):
            raise ModuleGoneError(self._gone)

    def _end_all(self) -> None:
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.finish(CallOutcome(None, ModuleGoneError(_GONE)))
        for served in list(self._served.values()):
            served.task.cancel()


def _kind_of(error: BaseException) -> str:
    try:
        return str(type(error).__name__)
    except Exception:  # a metaclass of the module's own
        return "an exception"


def _deliver(waiting: asyncio.AbstractEventLoop, finish: Finish, outcome: CallOutcome) -> None:
    with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits any more
        waiting.call_soon_threadsafe(finish, outcome)
