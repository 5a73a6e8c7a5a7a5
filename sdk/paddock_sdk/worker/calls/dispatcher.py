"""Run the host's requests: each on the object it names, each ending in one reply.

Coroutines run as tasks of the module's loop, plain functions in place, generators item by item as their reader has
room. Any exception of a module becomes a failure of that one request. A tool that raises, or returns an invalid result,
gets a failed `ToolResult` with the reason. Refusals during a failed tool call go into its result; those of other code
are sent to the host as notifications.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from types import CoroutineType
from typing import Any, Final

from paddock_sdk.contract.boundary_errors import CannotCrossError
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.execution import coordinator_for
from paddock_sdk.kernel.settle import safe_exception_str, settled
from paddock_sdk.protocol import Frame, RemoteProtocolError
from paddock_sdk.protocol.describing import is_function
from paddock_sdk.protocol.description import Flavour, encode_description
from paddock_sdk.protocol.methods import HostMethod
from paddock_sdk.worker.attempts.kernel_limits import exit_code
from paddock_sdk.worker.attempts.noticing import AttemptRecorder
from paddock_sdk.worker.calls.dispatch_contexts import DispatchContexts
from paddock_sdk.worker.calls.raised import log_traceback, place_of, traceback_of
from paddock_sdk.worker.driver import Driver, serving
from paddock_sdk.worker.object_table import Exported, ObjectTable
from paddock_sdk.worker.unsendable import unsendable

_MESSAGE_CHARACTERS: Final = 8000  # of an error text, which a model may read

_REPORT_SECONDS: Final = 0.2  # from the end of a call to its report, so that many calls share one report

_INTEGERS: Final = ("integer", ["integer", "null"], ["null", "integer"])  # as a schema says so

_NO_CONTEXT: Final = contextlib.nullcontext()  # beside the arguments of a call

_log = logging.getLogger(__name__)

CallRuntime = Callable[[int, Any], Awaitable[Any]]


class Dispatcher:
    """Serve the requests that arrive on one driver."""

    def __init__(
        self,
        driver: Driver,
        objects: ObjectTable,
        coordinator: ModuleCoordinator,
        call_runtime: CallRuntime,
        attempts: AttemptRecorder,
        contexts: DispatchContexts,
    ) -> None:
        self._driver = driver
        self._contexts = contexts
        self._attempts = attempts
        self._reports_soon = False
        self._coordinator = coordinator
        self._objects = objects
        self._call_module_runtime = call_runtime

    def on_request(self, request: Frame) -> None:
        """Start serving a request; never raises."""
        id = request.id
        try:
            value = self._driver.decode(request)
            if request.target == 0:
                self._start(id, self._call_runtime(id, request.method, value))
                return
            exported = self._objects.exported(request.target)
            function, flavour = exported.methods[request.method]
            args, kwargs, *extra = value
        except (RemoteProtocolError, IndexError, TypeError, ValueError) as exc:
            self._driver.fail(id, RuntimeError(f"a request that cannot be served: {exc}"))
            return
        # Runs in the context in which this process made the request that it serves, if it serves one.
        context = self._driver.context_of(request.parent)
        if flavour is Flavour.ASYNC:
            is_execute = exported.description.members[request.method].name == "execute"
            if is_execute and exported.mount_point == "tools":
                self._start(id, self._run_tool(id, exported, function, args, kwargs, extra), context)
                return
            if is_execute and exported.mount_point == "orchestrator":
                kwargs = {**self._turn(function), **kwargs}
            self._start(id, self._run(id, exported, function, args, kwargs), context)
        elif flavour is Flavour.STREAM:
            self._start(id, self._run_stream(id, exported, function, args, kwargs), context)
        else:
            context.run(self._run_in_place, id, exported, function, args, kwargs)

    def _turn(self, execute: Callable[..., Any]) -> dict[str, Any]:
        """Return an orchestrator's arguments beside the prompt: the live objects of this process's session."""
        coordinator = self._coordinator
        return {
            "context": coordinator.get("context"),
            "providers": coordinator.get("providers"),
            "tools": coordinator.get("tools"),
            "hooks": coordinator.hooks,
            **coordinator_for(execute, coordinator),
        }

    def _start(self, id: int, work: Coroutine[Any, Any, None], context: contextvars.Context | None = None) -> None:
        self._driver.start_serving(id, self._serve(id, work), context)

    async def _serve(self, id: int, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of a request, which answers; any exception is the answer in its place."""
        serving.set(id)
        try:
            await work
        except BaseException as exc:  # a module may raise SystemExit as well; it ends the call, not the process
            self._fail(id, exc)
        finally:
            self._driver.disown(id)
            self._report_later()

    async def _call_runtime(self, id: int, method: int, value: Any) -> None:
        try:
            self._driver.reply(id, await self._call_module_runtime(method, value))
        except BaseException as exc:
            self._driver.fail(id, exc)

    async def _run(
        self,
        id: int,
        exported: Exported,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> None:
        result = function(*args, **kwargs)
        # Behind a decorator a coroutine function may be a plain one.
        if type(result) is CoroutineType or inspect.isawaitable(result):
            result = await result
        self._send_changes(exported)
        self._driver.reply(id, result)

    async def _run_tool(
        self,
        id: int,
        exported: Exported,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
        extra: list[Any],
    ) -> None:
        mark, began = self._attempts.mark(), time.monotonic()
        try:
            if args:
                _take_whole_numbers(args[0], exported.description.attributes.get("input_schema"))
            with self._contexts.arrived(extra) if extra else _NO_CONTEXT:
                result = await settled(function(*args, **kwargs))
        except asyncio.CancelledError:
            raise
        except BaseException as exc:  # as in _serve
            self._attempts.note_failure(exc)
            result = _raised(exc, exported.value)
        self._send_changes(exported)
        try:
            has_failed = not result.success
        except Exception:  # it is not a valid result, which is reported where it is sent
            has_failed = False
        has_met_limit = self._attempts.note_result(result, has_failed=has_failed)
        if has_failed:
            folder = self._coordinator.get_capability("session.working_dir")
            given = args[0] if args else None
            self._attempts.note_arguments(given, str(folder or ""), "write" if _wanted_to_write(result) else "read")
        if has_failed or has_met_limit:
            denials = await self._denials(mark, began)
            result = _with_denials(result, denials) if denials else result
        self._reply_tool_result(id, result)

    def _reply_tool_result(self, id: int, result: Any) -> None:
        try:
            self._driver.reply(id, _as_result(result), live_objects=False)
        except CannotCrossError as exc:
            own = exc.path == "return value.output" and _own_text(result.output)
            answer = result.model_copy(update={"output": own}) if own else _unsendable(exc)
            self._driver.reply(id, answer, live_objects=False)
        except Exception as exc:  # an object of the module's own may do anything when it is looked at
            self._driver.reply(id, _unsendable(exc))

    async def _run_stream(
        self,
        id: int,
        exported: Exported,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> None:
        source = await settled(function(*args, **kwargs))
        async with contextlib.aclosing(source) if hasattr(source, "aclose") else contextlib.nullcontext():
            async for item in source:
                await self._driver.send_item(id, item)
        self._send_changes(exported)
        self._driver.reply(id, None)

    def _run_in_place(
        self,
        id: int,
        exported: Exported,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> None:
        serving.set(id)
        try:
            result = function(*args, **kwargs)
            if inspect.isawaitable(result):
                self._start(id, self._run(id, exported, lambda: result, [], {}))
                return
            self._send_changes(exported)
            self._driver.reply(id, result)
        except BaseException as exc:  # as in _serve
            self._fail(id, exc)
        self._report_later()

    def _fail(self, id: int, error: BaseException) -> None:
        """Report the attempts that may have led to a module's exception, then answer with it."""
        self._attempts.note_failure(error)
        self.report_attempts()
        self._driver.fail(id, error)

    # -- refusals of module code ----------------------------------------------------------

    async def _denials(self, mark: int, began: float) -> list[Any]:
        """Ask the host for the refusals during a failed call; any error here is ignored."""
        try:
            asked = [self._attempts.since(mark), time.monotonic() - began]
            denials = await self._driver.call(0, HostMethod.EXPLAIN, asked)
            self._attempts.mark_passed_on()
        except Exception:
            return []
        return denials if isinstance(denials, list) else []

    def report_attempts(self) -> None:
        """Report the module's failed attempts to the host, if any; never raises."""
        self._reports_soon = False
        if not self._driver.is_open:
            return  # nothing can be sent any more: the host looks for it in the log
        try:
            news = self._attempts.news() if self._attempts.has_news else []
            if news:
                self._driver.notify(HostMethod.ATTEMPTED, news)
            if not self._driver.has_unsent:  # else the host looks for it in the log, should this process end now
                self._attempts.mark_passed_on()
        except Exception:
            _log.debug("the module's failed attempts could not be reported", exc_info=True)

    def _report_later(self) -> None:
        if not self._reports_soon and self._attempts.has_news:
            self._reports_soon = True
            asyncio.get_running_loop().call_later(_REPORT_SECONDS, self.report_attempts)

    def _send_changes(self, called: Exported) -> None:
        try:
            for changed in self._objects.changed_by(called):
                self._describe(changed)
        except Exception:  # a property of the module's own object failed; the call itself is done
            _log.warning("the changes of `%s` could not be sent to others", called.description.type_name, exc_info=True)

    def describe_anew(self) -> None:
        """Send the host the changed descriptions of mounted objects."""
        for changed in self._objects.changed_since():
            self._describe(changed)

    def _describe(self, exported: Exported) -> None:
        description = encode_description(exported.description, self._driver.codec)
        self._driver.notify(HostMethod.DESCRIBE, [exported.id, description], along=True)


def _take_whole_numbers(arguments: Any, schema: Any) -> None:
    """Make `1.0` of a tool's arguments 1 where its schema asks for an integer: in JSON they are one number."""
    with contextlib.suppress(AttributeError, LookupError, TypeError):  # neither need have the usual form
        for name, about in schema["properties"].items():
            value = arguments.get(name)
            if type(value) is float and value.is_integer() and about.get("type") in _INTEGERS:
                arguments[name] = int(value)


def _as_result(returned: Any) -> Any:
    """Return a tool's answer as the contract's result."""
    if not (hasattr(returned, "success") and hasattr(returned, "output")):
        kind = type(returned).__name__
        return _failure(TypeError(f"the tool returned `{kind}`; execute must return a ToolResult"))
    if hasattr(returned, "model_dump"):
        return returned
    # A class of the module's own, in the contract's shape.
    return _result(success=bool(returned.success), output=returned.output, error=getattr(returned, "error", None))


def _wanted_to_write(result: Any) -> bool:
    """Whether a tool says of a path that it refused by itself that it was to be written to."""
    error = getattr(result, "error", None)
    return type(error) is dict and error.get("access") == "write"


def _with_denials(result: Any, denials: list[Any]) -> Any:
    """Return a result with the refusals added; one that accepts no more fields stays as it is.

    A program's result has the limits that it met beside its exit code: of a result with output, a model reads no error.
    """
    try:
        error = result.error
        if not result.success and (error is None or isinstance(error, dict)):
            result.error = {**(error or {}), "denials": denials}
        limits = [f"{one['target']}: {one['reason']}" for one in denials if one["operation"] == "exceed"]
        if limits and exit_code(result) is not None:
            result.output = {**result.output, "limits": limits}
    except Exception:
        _log.debug("a result does not take what was refused", exc_info=True)
    return result


def _own_text(output: object) -> str:
    """Return an object's own text, which a model would have got; empty if its class defines none."""
    kind = type(output)
    says = kind.__str__ is not object.__str__ or kind.__repr__ is not object.__repr__
    return str(output) if says and unsendable(output) is None and not is_function(output) else ""


def _unsendable(error: BaseException) -> Any:
    return _failure(error, "the tool's result cannot be sent")


def _failure(error: BaseException, what: str = "") -> Any:
    text = safe_exception_str(error)
    message = f"{what}: {text}" if what else text
    return _result(success=False, error={"type": type(error).__name__, "message": message[:_MESSAGE_CHARACTERS]})


def _raised(error: BaseException, tool: object) -> Any:
    """Return the failed result for an exception of a tool's, with its place; its traceback goes into the log too."""
    result = _failure(error, f"the tool raised {type(error).__name__}")
    try:
        package = type(tool).__module__.partition(".")[0]
        place, trace = place_of(error, package), traceback_of(error, package)
        message = f"{result.error['message']} ({place})" if place else result.error["message"]
        log_traceback(trace)
        return _result(success=False, error={**result.error, "message": message, "traceback": trace})
    except Exception:  # the module's own classes and streams may do anything
        return result


def _result(**fields: Any) -> Any:
    from paddock_sdk.contract.models import ToolResult  # pydantic: only where a result has to be made here

    return ToolResult(**fields)
