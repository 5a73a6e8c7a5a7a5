"""What else a module finds on its coordinator."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from paddock_sdk.kernel.coordinator import ModuleCoordinator


class Log:
    """An observer that writes down every call."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.seen.append((name, *args))


@pytest.fixture
def coordinator() -> ModuleCoordinator:
    session = SimpleNamespace(session_id="s", parent_id="p", config={"session": {}})
    return ModuleCoordinator(session=session)


@pytest.fixture
def log(coordinator: ModuleCoordinator) -> Log:
    log = Log()
    coordinator.observer = log
    return log


@pytest.mark.parametrize(
    "name",
    [
        "session_id",
        "parent_id",
        "session",
        "config",
        "hooks",
        "cancellation",
        "channels",
        "injection_budget_per_turn",
        "injection_size_limit",
    ],
)
def test_what_belongs_to_the_session_cannot_be_assigned(coordinator: ModuleCoordinator, name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(coordinator, name, "mine")


def test_the_session_shows_through(coordinator: ModuleCoordinator) -> None:
    assert (coordinator.session_id, coordinator.parent_id) == ("s", "p")
    assert coordinator.config is coordinator.session.config
    real = SimpleNamespace(session_id="s", parent_id="p", config=coordinator.config)
    coordinator.bind_session(real)
    assert coordinator.session is real


def test_hooks_token_and_channels_keep_their_identity(coordinator: ModuleCoordinator) -> None:
    assert coordinator.hooks is coordinator.hooks
    assert coordinator.cancellation is coordinator.cancellation
    assert coordinator.channels is coordinator.channels


def test_injection_limits_are_read_live(coordinator: ModuleCoordinator) -> None:
    assert coordinator.injection_budget_per_turn is coordinator.injection_size_limit is None
    coordinator.config["session"] = {"injection_budget_per_turn": 7, "injection_size_limit": 9}
    assert [coordinator.injection_budget_per_turn, coordinator.injection_size_limit] == [7, 9]
    coordinator.config["session"] = None
    assert coordinator.injection_size_limit is None


def test_a_new_turn_counts_injections_from_zero(coordinator: ModuleCoordinator) -> None:
    coordinator._current_turn_injections = 5
    coordinator.reset_turn()
    assert coordinator._current_turn_injections == 0


def test_modules_attach_attributes(coordinator: ModuleCoordinator) -> None:
    assert not hasattr(coordinator, "todo_state")
    assert getattr(coordinator, "todo_state", "default") == "default"
    coordinator.todo_state = [1]
    assert coordinator.todo_state == [1]  # type: ignore[attr-defined]
    assert "todo_state" in vars(coordinator)
    del coordinator.todo_state  # type: ignore[attr-defined]
    assert not hasattr(coordinator, "todo_state")


def test_the_observer_hears_of_modules_attributes_only(coordinator: ModuleCoordinator, log: Log) -> None:
    coordinator.todo_state = [1]
    coordinator._tool_dispatch_contexts = {}
    coordinator._current_turn_injections = 1
    coordinator.session_state = {}
    coordinator.loader = coordinator.approval_system = coordinator.display_system = None
    coordinator.bind_session(coordinator.session)
    del coordinator.todo_state  # type: ignore[attr-defined]
    assert log.seen == [
        ("attribute", "todo_state", [1]),
        ("attribute", "_tool_dispatch_contexts", {}),
        ("attribute_deleted", "todo_state"),
    ]


def test_the_observer_hears_of_mounts_by_call_and_by_write(coordinator: ModuleCoordinator, log: Log) -> None:
    coordinator.mount("context", "c")
    coordinator.mount_points["tools"]["t"] = "tool"
    coordinator.unmount("tools", "t")
    assert log.seen == [
        ("mounted", "context", None, "c"),
        ("mounted", "tools", "t", "tool"),
        ("unmounted", "tools", "t"),
    ]
    coordinator.observer = None
    coordinator.unmount("context")
    assert len(log.seen) == 3


def test_a_subclass_declares_what_is_its_own() -> None:
    class Own(ModuleCoordinator):
        channel: object
        kind = "own"

    coordinator, log = Own(), Log()
    coordinator.observer = log
    coordinator.channel = 1
    coordinator.kind = "changed"
    coordinator.theirs = 2
    assert log.seen == [("attribute", "theirs", 2)]


def test_the_last_capability_of_a_name_counts(coordinator: ModuleCoordinator, log: Log) -> None:
    first, last = object(), object()
    coordinator.register_capability("c", first)
    coordinator.register_capability(name="c", value=last)
    assert coordinator.get_capability("c") is last
    assert coordinator.get_capability("missing") is None
    assert log.seen == [("capability", "c", first), ("capability", "c", last)]


async def test_contributions_come_in_order_without_none_and_without_failures(
    coordinator: ModuleCoordinator, caplog: pytest.LogCaptureFixture
) -> None:
    async def later() -> str:
        return "async"

    for name, callback in {
        "sync": lambda: "sync",
        "none": lambda: None,
        "fails": lambda: 1 / 0,
        "not callable": "text",
        "false": lambda: 0,
        "async": later,
        "wrapped": lambda: later(),
    }.items():
        coordinator.register_contributor("ch", name, callback)
    with caplog.at_level(logging.WARNING):
        assert await coordinator.collect_contributions("ch") == ["sync", 0, "async", "async"]
    assert "'fails'" in caplog.text
    assert "'not callable'" in caplog.text
    assert await coordinator.collect_contributions("unknown") == []


async def test_a_cancelled_error_in_a_contributor_stops_the_collection(coordinator: ModuleCoordinator) -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    coordinator.register_contributor("ch", "first", lambda: 1)
    coordinator.register_contributor("ch", "cancelled", cancelled)
    coordinator.register_contributor("ch", "last", lambda: 3)
    assert await coordinator.collect_contributions("ch") == [1]


async def test_cancelling_the_collecting_task_goes_on(coordinator: ModuleCoordinator) -> None:
    started = asyncio.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    coordinator.register_contributor("ch", "hangs", hang)
    task = asyncio.create_task(coordinator.collect_contributions("ch"))
    with anyio.fail_after(60):
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_cleanups_of_every_kind_run_latest_first_and_again_the_next_time(
    coordinator: ModuleCoordinator, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    async def later() -> None:
        ran.append("async")

    coordinator.register_cleanup(lambda: ran.append("sync"))
    coordinator.register_cleanup(later)
    coordinator.register_cleanup(lambda: 1 / 0)
    coordinator.register_cleanup(lambda: later())
    await coordinator.cleanup()
    assert ran == ["async", "async", "sync"]
    assert "ZeroDivisionError" in caplog.text
    await coordinator.cleanup()
    assert ran == ["async", "async", "sync"] * 2


@pytest.mark.parametrize(("first", "then"), [(KeyboardInterrupt, SystemExit), (SystemExit, KeyboardInterrupt)])
async def test_an_interrupt_in_a_cleanup_is_raised_after_all_ran(
    coordinator: ModuleCoordinator, first: type[BaseException], then: type[BaseException]
) -> None:
    ran: list[str] = []

    def interrupt(kind: type[BaseException]) -> None:
        raise kind

    coordinator.register_cleanup(lambda: ran.append("first registered"))
    coordinator.register_cleanup(lambda: interrupt(then))
    coordinator.register_cleanup(lambda: interrupt(first))
    with pytest.raises(first):
        await coordinator.cleanup()
    assert ran == ["first registered"]


async def test_a_cleanups_own_cancellation_is_raised_when_the_rest_ran(coordinator: ModuleCoordinator) -> None:
    ran: list[str] = []

    async def cancelled() -> None:
        raise asyncio.CancelledError

    coordinator.register_cleanup(lambda: ran.append("other"))
    coordinator.register_cleanup(cancelled)
    with pytest.raises(asyncio.CancelledError):
        await coordinator.cleanup()
    assert ran == ["other"]


@pytest.mark.difference("when `cleanup()` is cancelled, the remaining functions still run")
async def test_a_cancelled_cleanup_still_runs_the_rest(coordinator: ModuleCoordinator) -> None:
    started, ran = asyncio.Event(), []

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    async def rest() -> None:
        await asyncio.sleep(0)
        ran.append("rest")

    coordinator.register_cleanup(rest)
    coordinator.register_cleanup(hang)
    task = asyncio.create_task(coordinator.cleanup())
    with anyio.fail_after(60):
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert ran == ["rest"]


@pytest.mark.parametrize(("immediate", "state"), [(False, "graceful"), (True, "immediate")])
async def test_requesting_cancellation_sets_the_token_and_nothing_else(
    coordinator: ModuleCoordinator, immediate: bool, state: str
) -> None:
    happened: list[str] = []
    coordinator.cancellation.on_cancel(lambda: happened.append("callback"))
    coordinator.hooks.register("cancel:requested", lambda event, data: happened.append(event))
    await coordinator.request_cancel(immediate=immediate)
    assert coordinator.cancellation.state == state
    assert happened == []


async def test_to_dict_tells_names_and_presence(coordinator: ModuleCoordinator) -> None:
    assert coordinator.to_dict() == {
        "tools": [],
        "providers": [],
        "has_orchestrator": False,
        "has_context": False,
        "capabilities": [],
        "has_approval_provider": False,
        "has_display_service": False,
    }
    coordinator.mount("tools", object(), "t")
    coordinator.mount("providers", object(), "p")
    coordinator.mount("orchestrator", object())
    coordinator.mount("context", object())
    coordinator.register_capability("c", 1)
    coordinator.approval_system = coordinator.display_system = object()  # type: ignore[assignment]
    assert coordinator.to_dict() == {
        "tools": ["t"],
        "providers": ["p"],
        "has_orchestrator": True,
        "has_context": True,
        "capabilities": ["c"],
        "has_approval_provider": True,
        "has_display_service": True,
    }
