"""Serve one host over one socket until it says goodbye or is gone.

All of a module's code, from its import to its cleanup, runs on the one loop started here. The process ends when the
connection does, even if the module still has tasks running.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import logging
import os
import selectors
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple, NoReturn

from paddock_sdk.contract.models import ToolResult
from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.emitter import answer_emitter_with
from paddock_sdk.kernel.settle import settled
from paddock_sdk.kernel.startup.entry_point import session_ready_of
from paddock_sdk.protocol import MAX_FRAME_BYTES, PROTOCOL_VERSION, Connection, Frame, Kind, Role
from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.frames import FrameParts, encode_frame
from paddock_sdk.protocol.methods import HostMethod, MirrorSection, WorkerMethod
from paddock_sdk.worker.attempts import attempt_log
from paddock_sdk.worker.attempts.noticing import AttemptRecorder
from paddock_sdk.worker.breakpoints import explain_breakpoints
from paddock_sdk.worker.calls.dispatch_contexts import DispatchContexts
from paddock_sdk.worker.calls.dispatcher import Dispatcher
from paddock_sdk.worker.driver import Driver
from paddock_sdk.worker.session.coordinator import RemoteCoordinator
from paddock_sdk.worker.session.mirror import SessionMirror
from paddock_sdk.worker.session.reporter import Reporter

SessionReady = Callable[[ModuleCoordinator], Awaitable[None]]
_GRANTED_PATHS: Final = "session.granted_paths"  # the capability with which the host tells a module its own
_REHEARSED_BYTES: Final = 1 << 16
_Ready = list[tuple[selectors.SelectorKey, int]]
_NOTHING: Final[_Ready] = []

_log = logging.getLogger(__name__)


def serve(rpc: socket.socket, name: str) -> None:
    """Run the worker of module `name` until its host ends the connection."""
    rpc.setblocking(False)
    set_up_logging()
    explain_breakpoints(2)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(rpc, name))


async def _serve(rpc: socket.socket, name: str) -> None:
    worker = Worker(rpc, name, AttemptRecorder(attempt_log.shared()))
    os.register_at_fork(after_in_child=functools.partial(part_forked_child, worker.driver, asyncio.get_running_loop()))
    await worker.run()


def part_forked_child(driver: Driver, loop: asyncio.AbstractEventLoop) -> None:
    """Part the calling process, a child that module code forked, from the connection that its parent serves on `loop`.

    In such a child every call of the host raises `ModuleGoneError`. Where the module's code returns or raises into the
    runtime, the child would go on as its parent's double: it says so on stderr and ends with status 1.
    """
    driver.part(_end_child)
    loop.call_soon_threadsafe = _end_child  # type: ignore[method-assign]  # where the work of a thread is done
    loop.call_soon(_end_child)  # the loop polls descriptors that it shares with the parent's, but runs this first


def _end_child(*_: object, **__: object) -> NoReturn:
    try:
        _log.error(
            "process %d, which this module forked, came back from the module's code and ends: only its parent answers "
            "the host; end a child with os._exit(), or start it with subprocess or multiprocessing",
            os.getpid(),
            exc_info=sys.exception(),
        )
        sys.stdout.flush()
    finally:
        os._exit(1)


def rehearse() -> ToolResult:
    """Have a worker with a small module begin, serve a call and end, played to by a host; return the call's answer.

    Python rewrites code when it first runs: it counts runs, and keeps what it found where. Done before a fork, that is
    done for all workers, and they share the pages that the code lies in. Nothing stays of this worker.
    """
    path = sys.path.copy()
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(_rehearse())
    finally:
        sys.path[:] = path


async def _rehearse() -> ToolResult:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        worker = Worker(theirs, "rehearsal", _Unnoticing())
        running = asyncio.create_task(worker.run())
        host, codec = Connection(Role.HOST), worker.driver.codec

        async def hear(kind: Kind) -> Frame:
            while True:
                data = await asyncio.get_running_loop().sock_recv(ours, _REHEARSED_BYTES)
                for frame in host.receive_data(data):
                    if frame.kind == kind:
                        return frame

        def tell(frame: bytes | FrameParts) -> None:
            ours.sendall(frame if isinstance(frame, bytes) else b"".join(frame))

        def body(value: object) -> bytes:
            return codec.encode(value)[0]

        await hear(Kind.HELLO)
        tell(host.send_welcome(body({"protocol": PROTOCOL_VERSION, "frame_max": MAX_FRAME_BYTES})))
        tell(host.send_mirror(MirrorSection.CAPABILITY, body(_GRANTED_PATHS) + body({"read": [], "write": []})))
        what = {"package": __name__, "attribute": _mount_rehearsed.__name__, "config": {"host": ours.fileno()}}
        tell(host.send_request(0, WorkerMethod.MOUNT, body({"import_root": "", "libraries": [], **what}))[1])
        await hear(Kind.RESPONSE)
        tell(host.send_request(1, 0, body([[{}], {}]))[1])
        answer = await hear(Kind.RESPONSE)
        tell(host.send_goodbye())
        await running
        served: ToolResult = codec.decode(answer.body)
        return served


class _Unnoticing(AttemptRecorder):
    """Installs nothing: Python would keep an audit hook for ever."""

    def install(self, own_code: Iterable[str] = (), granted: object = None) -> None:
        """Do nothing."""


class _Rehearsed:
    """The tool of the module in a rehearsal."""

    name = description = "rehearsed"
    input_schema: Final[dict[str, Any]] = {"type": "object"}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Do nothing."""
        return ToolResult(success=True, output=self.name)


async def _mount_rehearsed(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
    # The loop, on which the host plays as well, stands still until the host has answered: so that does so before.
    os.write(config["host"], encode_frame(Kind.RESPONSE, id=1, body=b"\xc0"))  # type: ignore[arg-type]  # it is small
    tool = _Rehearsed()
    await coordinator.mount("tools", tool, name=tool.name)


def set_up_logging() -> None:
    """Print the module's log messages in its own output; below a warning, they would drown it.

    If it was done before the fork, this does nothing.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")


class Worker:
    """One module process, made on the loop that it runs on; its `driver` is its end of the connection."""

    def __init__(self, rpc: socket.socket, name: str, attempts: AttemptRecorder) -> None:
        self._name = name
        self._attempts = attempts
        vocabulary = ContractVocabulary()
        self.driver = Driver(
            rpc,
            Connection(Role.WORKER),
            Codec(vocabulary),
            lambda driver: ModuleRuntime(driver, vocabulary, attempts),
        )

    async def run(self) -> None:
        """Greet the host and serve it until the connection ends."""
        driver = self.driver
        # Before anything is served: every task of the worker is made of this context.
        answer_emitter_with(lambda: driver.call_sync(0, HostMethod.EMITTER, []))
        driver.start()
        hello = {"protocol": PROTOCOL_VERSION, "module": self._name, "pid": os.getpid()}
        driver.write(driver.connection.send_hello(driver.codec.encode(hello)[0]))
        await driver.closed.wait()
        self._attempts.note_end()
        self._attempts.news()  # drops reachable targets from the log, which only this process can test


class ModuleRuntime:
    """The receiver of the host's frames: the module, its session, and how they are called."""

    def __init__(self, driver: Driver, vocabulary: ContractVocabulary, attempts: AttemptRecorder) -> None:
        self.coordinator = RemoteCoordinator(driver)
        self._driver = driver
        self._attempts = attempts
        reporter = Reporter(driver, driver.objects, self.coordinator._mount_points)
        self.coordinator.observer = reporter
        mirror = SessionMirror(self.coordinator, driver, driver.objects, reporter)
        contexts = DispatchContexts(self.coordinator, vocabulary)
        self._dispatcher = Dispatcher(driver, driver.objects, self.coordinator, self._call, attempts, contexts)
        self._ready: SessionReady | None = None
        self.on_request = self._dispatcher.on_request
        self.on_mirror = mirror.on_mirror
        self.catch_up = mirror.catch_up
        self.keep_up = mirror.keep_up
        self.before_send = mirror.send_changes
        self.circumstances = contexts.going_out

    def on_welcome(self, welcome: Frame) -> None:
        """Keep to the size of frame that the host accepts from this module."""
        match self._driver.decode(welcome):
            case {"frame_max": int() as frame_max}:
                self._driver.connection.send_limit = frame_max  # a documented attribute

    def on_goodbye(self) -> None:
        """End all running requests, then the connection: the host has said goodbye."""
        self._driver.leave()

    async def _call(self, method: int, value: Any) -> Any:
        match method, value:
            case WorkerMethod.MOUNT, {
                "import_root": str() as import_root,
                "libraries": list() as libraries,
                "package": str() as package,
                "attribute": str() as attribute,
                "config": dict() as config,
            }:
                granted = self.coordinator.get_capability(_GRANTED_PATHS)
                self._attempts.install([import_root, *libraries], granted)
                sys.path.extend(libraries)
                outcome = await mount_module(self.coordinator, import_root, package, attribute, config)
                if outcome.error is None:
                    self._ready = outcome.on_session_ready
                    return {"mounted": True, "on_session_ready": self._ready is not None}
                self._attempts.note_failure(outcome.error)
                self._dispatcher.report_attempts()
                return {"mounted": False, "stage": outcome.stage, "error": outcome.error}
            case WorkerMethod.DESCRIBE_ANEW, _:
                self._dispatcher.describe_anew()
                return None
            case WorkerMethod.SESSION_READY, _ if self._ready is not None:
                return await self._ready(self.coordinator)
        raise ValueError(f"the worker runtime has no method {method} that takes this")


class MountOutcome(NamedTuple):
    """A mounted module's function to call later, if any; or the stage that failed, and how."""

    on_session_ready: SessionReady | None = None
    stage: str = ""  # "import", "lookup" or "mount"
    error: BaseException | None = None


async def mount_module(
    coordinator: ModuleCoordinator, import_root: str, package: str, attribute: str, config: dict[str, Any]
) -> MountOutcome:
    """Import `package` from `import_root` and mount it; failures of the module are returned, not raised.

    The first untrusted line runs here, and nowhere before. Import it, look up `mount`, call it: each step may fail in
    the module's own way; the outcome names the failed step and its error.
    """
    # First on the path: an installed module's own packages must be found before others of that name.
    sys.path.insert(0, import_root)
    try:
        module = importlib.import_module(package)
    except BaseException as exc:  # a module may also raise SystemExit while it is imported
        return MountOutcome(stage="import", error=exc)
    mount = getattr(module, attribute, None)
    if not callable(mount):
        error = AttributeError(f"package `{package}` has no function `{attribute}`")
        return MountOutcome(stage="lookup", error=error)
    try:
        cleanup = await settled(mount(coordinator, config))
        if cleanup:
            coordinator.register_cleanup(cleanup)
    except BaseException as exc:  # as above
        return MountOutcome(stage="mount", error=exc)
    return MountOutcome(session_ready_of(mount))


class PatientSelector(selectors.DefaultSelector):
    """Skips a poll that would not wait if the call before it polled; a skipped poll returns nothing.

    A frame starts or wakes a task, which runs in the loop's next turn. Before each turn asyncio polls the kernel again,
    which costs about as much as one step of a short handler. After each poll this loop skips the next one if that would
    not wait, so a busy worker polls in every second turn. Waiting polls are never skipped.
    """

    def __init__(self) -> None:
        super().__init__()
        self._has_asked = False

    def select(self, timeout: float | None = None) -> _Ready:
        """Return the ready descriptors; of two calls in a row that do not wait, at least one polls."""
        if self._has_asked and timeout is not None and timeout <= 0:
            self._has_asked = False
            return _NOTHING
        self._has_asked = True
        return super().select(timeout)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop for a worker, set as the current loop of this thread."""
    loop = asyncio.SelectorEventLoop(PatientSelector())
    asyncio.set_event_loop(loop)
    return loop
