"""A session: start its modules, run turns, shut everything down.

`AmplifierSession` is the class applications get from the top level of the contract package; `PlainAmplifierSession` is
the one from its `session` module, which differs in a few documented ways. Cancelling a turn or a cleanup leaves the
session usable: the next `execute` or `cleanup` works. The loader and the coordinator decide where modules live.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from contextlib import suppress
from operator import attrgetter
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from paddock_sdk.contract import events
from paddock_sdk.contract.boundary_errors import CannotCrossError
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.execution import emit_raw_field_if_configured, run_orchestrator
from paddock_sdk.kernel.loading import load_entry
from paddock_sdk.kernel.payload import Payload
from paddock_sdk.kernel.redaction import redact_secrets
from paddock_sdk.kernel.session_stats import SessionStats
from paddock_sdk.kernel.settle import CancelWatch, safe_exception_str
from paddock_sdk.kernel.startup.initialization import initialize_session, session_extras

if TYPE_CHECKING:
    from paddock_sdk.contract.approval import ApprovalSystem, DisplaySystem
    from paddock_sdk.contract.models import SessionStatus
    from paddock_sdk.kernel.loading import ModuleLoading

_log = logging.getLogger(__name__)


class AmplifierSession:
    """One conversation with one set of modules.

    Subclasses may replace `_make_coordinator`, `_make_loader` and `_load_entry`.
    """

    def __init__(
        self,
        config: dict[str, Any],
        loader: ModuleLoading | None = None,
        session_id: str | None = None,
        parent_id: str | None = None,
        approval_system: ApprovalSystem | None = None,
        display_system: DisplaySystem | None = None,
        is_resumed: bool = False,
    ) -> None:
        """Check that the plan names an orchestrator and a context; nothing is loaded yet.

        Raises:
            TypeError: the configuration is not a dict.
            ValueError: the configuration lacks a required part.
        """
        if not isinstance(config, dict):
            raise TypeError(f"Configuration has to be a dict, not {type(config).__name__}")
        if not config:
            raise ValueError("Configuration is required")
        session = config.get("session")
        for field in ("orchestrator", "context"):
            if not isinstance(session, Mapping) or session.get(field) is None:
                raise ValueError(f"Configuration must specify session.{field}")
        self._config = config
        self._session_id = session_id if session_id is not None else str(uuid.uuid4())
        self._parent_id = parent_id
        self._is_resumed = is_resumed
        self._initialized = False
        self._started = False
        self._stats = SessionStats()
        self._coordinator = self._make_coordinator()
        if approval_system is not None:
            self._coordinator.approval_system = approval_system
        if display_system is not None:
            self._coordinator.display_system = display_system
        self._coordinator.hooks.set_default_fields(session_id=self._session_id, parent_id=self._parent_id)
        self._accept_loader(loader)

    @property
    def session_id(self) -> str:
        return self._session_id

    @property
    def parent_id(self) -> str | None:
        return self._parent_id

    @property
    def config(self) -> dict[str, Any]:
        return self._config

    @property
    def coordinator(self) -> ModuleCoordinator:
        return self._coordinator

    @property
    def is_resumed(self) -> bool:
        return self._is_resumed

    @property
    def initialized(self) -> bool:
        return self._initialized

    # The parts that subclasses may replace.

    def _make_coordinator(self) -> ModuleCoordinator:
        """Return the coordinator; it gets a stand-in for the session, which is not finished yet."""
        return ModuleCoordinator(session=self._stand_in())

    def _make_loader(self) -> ModuleLoading:
        """Return a loader for a coordinator that has none when initialisation begins."""
        raise RuntimeError("The session has no module loader: set `session.coordinator.loader` before initialize()")

    async def _load_entry(self, kind: str, entry: dict[str, Any], index: int) -> None:
        """Load and mount one plan entry; `index` is its place in its section."""
        await load_entry(self._coordinator, entry)

    def _stand_in(self) -> SimpleNamespace:
        return SimpleNamespace(session_id=self._session_id, parent_id=self._parent_id, config=self._config)

    # Life.

    async def initialize(self) -> None:
        """Load and mount the plan's modules, once.

        Raises:
            RuntimeError: the session cannot work; the message names the obstacle.
        """
        if self._initialized:
            return
        self._coordinator.bind_session(self)
        try:
            if self._coordinator.loader is None:
                self._coordinator.loader = self._make_loader()
            await initialize_session(
                self._config, self._coordinator, self._session_id, self._parent_id, self._load_entry
            )
        except Exception as error:  # raised again by the next line, in this class's own words
            self._fail_initialization(error)
        self._initialized = True

    async def execute(self, prompt: str) -> Any:
        """Run one turn and return the orchestrator's answer.

        Raises:
            RuntimeError: the session is not initialised, or the orchestrator failed.
            TypeError: the orchestrator answered with something that is not text.
        """
        await self._ensure_initialized()
        self._stats.begin_turn(self._coordinator.hooks)
        await self._announce_turn()
        cancellation = self._coordinator.cancellation
        watch = CancelWatch()
        try:
            response = await self._run_orchestrator(prompt)
        except (Exception, asyncio.CancelledError) as error:
            if cancellation.is_cancelled:
                await self._announce_failed_turn(error, watch)
            if watch.cancelled and isinstance(error, asyncio.CancelledError):
                raise
            self._fail_execution(error)
        if cancellation.is_cancelled:
            await self._announce_cancelled()
        return self._checked_response(response)

    async def cleanup(self) -> None:
        """End the session: announce it, then run the cleanup functions, the latest first.

        Errors of modules are not raised; only this task's own cancellation is, once everything has run.
        """
        watch = CancelWatch()
        ending: BaseException | None = None
        for step in (self._announce_end, self._coordinator.cleanup):
            try:
                await step()
            except (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit) as error:
                if self._ends_cleanup(error, watch):
                    ending = ending or error
                else:
                    _log.warning("Cleaning up session %s failed", self._session_id, exc_info=error)
        self._after_cleanup()
        if ending is not None:
            raise ending

    async def __aenter__(self) -> Self:
        try:
            await self.initialize()
        except BaseException:
            # `__aexit__` is not called after this, and some modules may be up already.
            await self.cleanup()
            raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.cleanup()

    # The pieces of it, where the two session classes differ.

    def _accept_loader(self, loader: ModuleLoading | None) -> None:
        if loader is not None:
            _log.warning("The loader given to AmplifierSession is ignored; set `coordinator.loader` instead")

    def _fail_initialization(self, error: Exception) -> NoReturn:
        raise RuntimeError(
            f"Session initialization failed: {type(error).__name__}: {safe_exception_str(error)}"
        ) from error

    async def _ensure_initialized(self) -> None:
        if not self._initialized:
            raise RuntimeError("Session not initialized. Call initialize() first.")

    def _fail_execution(self, error: Exception | asyncio.CancelledError) -> NoReturn:
        # The cause is kept for debuggers and for applications that distinguish failures.
        raise RuntimeError(f"Execution failed: {type(error).__name__}: {safe_exception_str(error)}") from error

    def _checked_response(self, response: object) -> Any:
        if not isinstance(response, str):
            raise TypeError(f"the orchestrator returned a {type(response).__name__} instead of text")
        return response

    async def _announce_turn(self) -> None:
        await self._announce_start(session_extras(self._config, raw=False))
        await emit_raw_field_if_configured(self._coordinator, self._config, self._session_id, events.SESSION_START)

    async def _announce_start(self, extras: dict[str, Any]) -> None:
        if self._started:
            return
        # Before the event: a turn that is cancelled meanwhile has started the session anyway.
        self._started = True
        event = events.SESSION_RESUME if self._is_resumed else events.SESSION_START
        if self._coordinator.hooks.has_handlers(event):
            with suppress(RuntimeError, CannotCrossError):  # without a JSON form, as with live objects, there is none
                extras = {**extras, "config": Payload.of(redact_secrets(self._config)).data()}
        await self._coordinator.hooks.emit(
            event, {"session_id": self._session_id, "parent_id": self._parent_id, **extras}
        )

    async def _run_orchestrator(self, prompt: str) -> Any:
        return await run_orchestrator(self._coordinator, prompt)

    async def _announce_failed_turn(self, error: BaseException, watch: CancelWatch) -> None:
        # A turn whose task is cancelled is over at once: its orchestrator has reported it already.
        if not (watch.cancelled and isinstance(error, asyncio.CancelledError)):
            await self._announce_cancelled(f"{type(error).__name__}: {safe_exception_str(error)}")

    async def _announce_cancelled(self, error: str | None = None) -> None:
        data: dict[str, Any] = {"was_immediate": self._coordinator.cancellation.is_immediate}
        if error is not None:
            data["error"] = error
        await self._coordinator.hooks.emit(events.CANCEL_COMPLETED, data)

    async def _announce_end(self) -> None:
        if self._initialized:
            await self._coordinator.hooks.emit(events.SESSION_END, self._about_end())

    def _about_end(self) -> dict[str, Any]:
        return {"session_id": self._session_id, "stats": self._stats.as_dict()}

    def _ends_cleanup(self, error: BaseException, watch: CancelWatch) -> bool:
        return isinstance(error, asyncio.CancelledError) and watch.cancelled

    def _after_cleanup(self) -> None:
        self._initialized = False


def _replaceable(attribute: str) -> Any:
    """Return a property of an attribute that can also be set."""

    def replace(self: AmplifierSession, value: Any) -> None:
        setattr(self, attribute, value)

    return property(attrgetter(attribute), replace)


class PlainAmplifierSession(AmplifierSession):
    """The session class of the contract package's `session` module.

    It initialises itself, takes a loader, keeps a status, passes on the orchestrator's exceptions and results unchanged
    and needs a provider. It announces its end at every cleanup once it was initialised, and raises exceptions that are
    no `Exception` at the end of a cleanup. Its ids, configuration, coordinator and loader can be replaced.
    """

    session_id = _replaceable("_session_id")
    parent_id = _replaceable("_parent_id")
    config = _replaceable("_config")
    coordinator = _replaceable("_coordinator")

    async def initialize(self) -> None:
        """Load and mount the plan's modules with this session's loader, once."""
        if not self._initialized and self.loader is not None:
            self._coordinator.loader = self.loader
        await super().initialize()

    async def execute(self, prompt: str) -> Any:
        """Run one turn, initialising the session first if needed, and return the orchestrator's result.

        Raises:
            RuntimeError: the session cannot be initialised, or no provider is mounted.
        """
        await self._ensure_initialized()
        self.status.status = "running"
        try:
            response = await super().execute(prompt)
        except BaseException as error:
            self._note_end("failed", error)
            raise
        self._note_end("completed")
        return response

    def _note_end(self, status: Literal["completed", "failed"], error: BaseException | None = None) -> None:
        is_cancelled = self._coordinator.cancellation.is_cancelled
        self.status.status = "cancelled" if is_cancelled else status
        if error is not None and not is_cancelled:
            self.status.last_error = {"message": safe_exception_str(error)}

    def _accept_loader(self, loader: ModuleLoading | None) -> None:
        from paddock_sdk.contract.models import SessionStatus

        self.loader = loader
        self.status: SessionStatus = SessionStatus(session_id=self._session_id)

    def _fail_initialization(self, error: Exception) -> NoReturn:
        raise error

    async def _ensure_initialized(self) -> None:
        await self.initialize()

    def _fail_execution(self, error: Exception | asyncio.CancelledError) -> NoReturn:
        raise error

    def _checked_response(self, response: object) -> Any:
        return response

    async def _announce_turn(self) -> None:
        await self._announce_start(session_extras(self._config, raw=True))

    async def _run_orchestrator(self, prompt: str) -> Any:
        if not self._coordinator.get("providers"):
            raise RuntimeError("No providers mounted")
        return await super()._run_orchestrator(prompt)

    async def _announce_failed_turn(self, error: BaseException, watch: CancelWatch) -> None:
        await self._announce_cancelled(safe_exception_str(error))

    def _about_end(self) -> dict[str, Any]:
        return {**super()._about_end(), "status": self.status.status}

    def _ends_cleanup(self, error: BaseException, watch: CancelWatch) -> bool:
        return not isinstance(error, Exception)

    def _after_cleanup(self) -> None:
        """Stay initialised: a cleanup that follows announces the end again."""
