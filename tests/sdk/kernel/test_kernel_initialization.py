"""Bringing a session up: the order of it, and what each failure does."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.loading import ModuleValidationError
from paddock_sdk.kernel.session import AmplifierSession, PlainAmplifierSession
from paddock_sdk.kernel.startup.initialization import initialize_session
from paddock_sdk.testing import MockCoordinator
from support.rows import each_row


def prepared(
    plan: dict[str, Any], loader: Any, kind: type[AmplifierSession] = AmplifierSession, **kwargs: Any
) -> AmplifierSession:
    session = kind(plan, **kwargs)
    session.coordinator.loader = loader
    return session


def recorded(session: AmplifierSession, *events: str) -> list[tuple[str, dict[str, Any]]]:
    """Record these events of a session, without the fields every event carries."""
    seen: list[tuple[str, dict[str, Any]]] = []
    for event in events:
        session.coordinator.hooks.register(
            event,
            lambda event, data: seen.append((event, {k: v for k, v in data.items() if k != "timestamp"})),
        )
    return seen


# Construction.


@each_row(
    ("config", "kind", "message"),
    [
        (None, TypeError, "dict"),
        ([], TypeError, "dict"),
        ("text", TypeError, "dict"),
        ({}, ValueError, "Configuration is required"),
        ({"tools": []}, ValueError, "Configuration must specify session.orchestrator"),
        ({"session": None}, ValueError, "Configuration must specify session.orchestrator"),
        ({"session": {"context": "c"}}, ValueError, "Configuration must specify session.orchestrator"),
        ({"session": {"orchestrator": None, "context": "c"}}, ValueError, "session.orchestrator"),
        ({"session": {"orchestrator": "o"}}, ValueError, "Configuration must specify session.context"),
        ({"session": {"orchestrator": "o", "context": None}}, ValueError, "session.context"),
    ],
)
def test_a_plan_that_lacks_the_essential_is_refused(config: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        AmplifierSession(config)


def test_a_session_shows_what_it_was_given(plan: dict[str, Any]) -> None:
    approval: Any = object()
    display: Any = object()
    session = AmplifierSession(
        plan, session_id="s", parent_id="p", approval_system=approval, display_system=display, is_resumed=True
    )
    assert (session.session_id, session.parent_id, session.is_resumed, session.initialized) == ("s", "p", True, False)
    assert session.config is session.coordinator.config is plan
    assert session.coordinator.approval_system is approval
    assert session.coordinator.display_system is display
    for name in ("status", "loader"):
        assert not hasattr(session, name)
    for name in ("session_id", "coordinator", "config", "initialized"):
        with pytest.raises(AttributeError):
            setattr(session, name, None)


def test_a_session_without_an_id_gets_one_of_its_own(plan: dict[str, Any]) -> None:
    assert AmplifierSession(plan).session_id != AmplifierSession(plan).session_id


def test_a_given_loader_is_ignored_with_a_warning(
    plan: dict[str, Any], loader: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert AmplifierSession(plan, loader).coordinator.loader is None
    assert "ignored" in caplog.text


def test_the_plain_class_takes_its_loader(plan: dict[str, Any], loader: Any) -> None:
    session = PlainAmplifierSession(plan, loader)
    assert session.loader is loader


# Order.


async def test_modules_come_up_in_the_contracts_order(plan: dict[str, Any], loader: Any) -> None:
    order: list[str] = []

    def noting(module_id: str, mount: Any) -> Any:
        async def note(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Any:
            order.append(module_id)
            return await mount(coordinator, config)

        return note

    def is_ready(module_id: str) -> Any:
        async def on_session_ready(coordinator: ModuleCoordinator) -> None:
            order.append("ready " + module_id)

        return on_session_ready

    async def nothing(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        pass

    for kind in ("provider", "tool", "hook"):
        for letter in "ab":
            module_id = f"{kind}-{letter}"
            plan.setdefault(kind + "s", []).append({"module": module_id})
            loader.modules[module_id] = loader.mounts("providers", module_id, letter) if kind == "provider" else nothing
    for module_id, mount in list(loader.modules.items()):
        loader.modules[module_id] = noting(module_id, mount)
        loader.ready[module_id] = is_ready(module_id)
    session = prepared(plan, loader, session_id="s", parent_id="p")
    session.coordinator.hooks.register("session:fork", lambda event, data: order.append(event))
    await session.initialize()
    modules = ["loop", "memory", "provider-a", "provider-b", "tool-a", "tool-b", "hook-a", "hook-b"]
    assert order == [*modules, *("ready " + module_id for module_id in modules), "session:fork"]
    assert session.initialized
    await session.initialize()
    assert len(order) == 17


async def test_the_coordinators_session_is_a_stand_in_before_the_start(plan: dict[str, Any], loader: Any) -> None:
    seen: list[Any] = []

    async def look(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        seen.append(coordinator.session)

    loader.modules["hook-look"] = look
    plan["hooks"] = [{"module": "hook-look"}]
    session = prepared(plan, loader, session_id="s")
    stand_in = session.coordinator.session
    assert (stand_in.session_id, stand_in.parent_id, stand_in.config) == ("s", None, plan)
    assert stand_in is not session
    await session.initialize()
    assert seen == [session]


@pytest.mark.parametrize(
    ("changes", "loaded"),
    [
        ({}, [("loop", {}, None), ("memory", {}, None)]),
        (
            {
                "session": {
                    "orchestrator": "loop",
                    "context": "memory",
                    "orchestrator_source": "git+o",
                    "context_source": "git+c",
                },
                "orchestrator": {"config": {"a": 1}},
                "context": {"config": {"b": 2}},
            },
            [("loop", {"a": 1}, "git+o"), ("memory", {"b": 2}, "git+c")],
        ),
        (
            {
                "session": {
                    "orchestrator": {"module": "loop", "source": "git+o", "config": {"a": 1}},
                    "context": {"module": "memory"},
                    "context_source": "not for this form",
                },
                "context": {"config": {"not": "for this form"}},
            },
            [("loop", {"a": 1}, "git+o"), ("memory", {}, None)],
        ),
    ],
    ids=["ids", "ids with their sections", "mappings"],
)
async def test_both_forms_of_the_required_modules(
    plan: dict[str, Any], loader: Any, changes: dict[str, Any], loaded: list[Any]
) -> None:
    await prepared(plan | changes, loader).initialize()
    assert loader.loaded == loaded


# Failures that end it.


@pytest.mark.parametrize(
    ("breakage", "message"),
    [
        pytest.param(
            lambda plan, loader: loader.modules.update(loop=ValueError("broken")),
            "Session initialization failed: RuntimeError: Cannot initialize without orchestrator: broken",
            id="the orchestrator",
        ),
        pytest.param(
            lambda plan, loader: loader.modules.update(memory=ValueError("broken")),
            "Session initialization failed: RuntimeError: Cannot initialize without context manager: broken",
            id="the context",
        ),
        pytest.param(
            lambda plan, loader: plan["session"].update(orchestrator=""),
            "Session initialization failed: RuntimeError: Cannot initialize without orchestrator: ",
            id="an empty id",
        ),
        pytest.param(
            lambda plan, loader: plan["session"].update(context={"config": {}}),
            "Session initialization failed: RuntimeError: Cannot initialize without context manager: ",
            id="a mapping without a module",
        ),
        pytest.param(
            lambda plan, loader: plan.update(tools=None),
            "Session initialization failed: TypeError: ",
            id="a section that is None",
        ),
        pytest.param(
            lambda plan, loader: plan.update(hooks=["hook-a"]),
            r"Session initialization failed: TypeError: hooks\[0\] has to be a mapping, not str",
            id="an entry that is no mapping",
        ),
        pytest.param(
            lambda plan, loader: plan.update(
                providers=[
                    {"module": "provider-a"},
                    {"module": "provider-a", "instance_id": "x"},
                    {"module": "provider-a"},
                ]
            ),
            "Session initialization failed: ValueError: 2 provider entries for module 'provider-a'",
            id="two providers without an instance id",
        ),
    ],
)
async def test_a_fatal_failure_is_named(plan: dict[str, Any], loader: Any, breakage: Any, message: str) -> None:
    breakage(plan, loader)
    session = prepared(plan, loader)
    with pytest.raises(RuntimeError, match=message):
        await session.initialize()
    assert not session.initialized


async def test_the_plain_class_does_not_wrap_a_fatal_failure(plan: dict[str, Any], loader: Any) -> None:
    loader.modules["loop"] = ValueError("broken")
    with pytest.raises(RuntimeError, match=r"^Cannot initialize without orchestrator: broken"):
        await prepared(plan, loader, PlainAmplifierSession).initialize()
    with pytest.raises(TypeError):
        await prepared({**plan, "tools": None}, type(loader)(), PlainAmplifierSession).initialize()


async def test_the_provider_list_is_checked_after_orchestrator_and_context(plan: dict[str, Any], loader: Any) -> None:
    plan["providers"] = [{"module": "provider-a"}] * 2
    with pytest.raises(RuntimeError):
        await prepared(plan, loader).initialize()
    assert [module_id for module_id, _, _ in loader.loaded] == ["loop", "memory"]


async def test_without_a_loader_the_message_says_what_to_set(plan: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match=r"coordinator\.loader"):
        await AmplifierSession(plan).initialize()


async def test_a_subclass_supplies_loader_coordinator_and_loading(plan: dict[str, Any]) -> None:
    class Coordinator(ModuleCoordinator):
        pass

    class Session(AmplifierSession):
        loaded: list[tuple[str, str, int]]

        def _make_coordinator(self) -> ModuleCoordinator:
            self.loaded = []
            return Coordinator(self._stand_in(), "approval", "display")  # type: ignore[arg-type]

        def _make_loader(self) -> Any:
            return "loader"

        async def _load_entry(self, kind: str, entry: dict[str, Any], index: int) -> None:
            self.loaded.append((kind, entry["module"], index))
            if kind == "provider":
                self.coordinator.get("providers")["p"] = object()

    plan |= {
        "providers": [{"module": "p"}],
        "tools": [{}, {"module": "t"}, {"module": "u"}],
        "hooks": [{"module": "h"}],
    }
    session = Session(plan)
    await session.initialize()
    assert session.loaded == [
        ("orchestrator", "loop", 0),
        ("context", "memory", 0),
        ("provider", "p", 0),
        ("tool", "t", 1),
        ("tool", "u", 2),
        ("hook", "h", 0),
    ]
    assert isinstance(session.coordinator, Coordinator)
    assert session.coordinator.loader == "loader"
    assert session.coordinator.approval_system == "approval"  # type: ignore[comparison-overlap]


async def test_an_initialisation_that_was_cancelled_can_be_done_again(plan: dict[str, Any], loader: Any) -> None:
    started, may_go_on = asyncio.Event(), asyncio.Event()

    async def slow(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        started.set()
        await may_go_on.wait()

    loader.modules["tool-slow"] = slow
    plan["tools"] = [{"module": "tool-slow"}]
    session = prepared(plan, loader)
    task = asyncio.create_task(session.initialize())
    with anyio.fail_after(60):
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not session.initialized
        may_go_on.set()
        await session.initialize()
    assert session.initialized


# Failures that do not.


@pytest.mark.parametrize(
    ("section", "kind", "extra"),
    [("providers", "provider", {"instance_id": "i"}), ("tools", "tool", {}), ("hooks", "hook", {})],
)
@pytest.mark.parametrize(
    ("error", "reason"),
    [(ValueError("broken"), "unknown"), (ModuleValidationError("broken"), "validation_failed")],
)
async def test_other_modules_fail_with_a_warning_and_an_event(
    plan: dict[str, Any],
    loader: Any,
    caplog: pytest.LogCaptureFixture,
    section: str,
    kind: str,
    extra: dict[str, Any],
    error: Exception,
    reason: str,
) -> None:
    loader.modules["m-bad"] = error
    loader.modules["m-good"] = loader.mounts("providers", "it", "good")
    plan[section] = [{"module": "m-bad", **extra}, {"module": "m-good"}]
    session = prepared(plan, loader, session_id="s")
    seen = recorded(session, "module:load_failed")
    await session.initialize()
    assert seen == [
        (
            "module:load_failed",
            {
                "session_id": "s",
                "parent_id": None,
                "module_type": kind,
                "module_id": "m-bad",
                "error": "broken",
                "reason_code": reason,
                **extra,
            },
        )
    ]
    assert session.coordinator.get("providers") == {"good": "it"}
    assert "'m-bad'" in caplog.text


async def test_on_session_ready_that_fails_is_announced_and_the_others_run(plan: dict[str, Any], loader: Any) -> None:
    ran: list[str] = []

    async def fail(coordinator: ModuleCoordinator) -> None:
        raise ValueError("not ready")

    async def run(coordinator: ModuleCoordinator) -> None:
        ran.append(coordinator.session_id)

    loader.ready = {"loop": fail, "memory": run}
    session = prepared(plan, loader, session_id="s")
    seen = recorded(session, "module:on_session_ready_failed")
    await session.initialize()
    assert [(data["module_id"], data["error"]) for _, data in seen] == [("loop", "not ready")]
    assert ran == ["s"]
    assert loader.get_on_session_ready_queue() == []


# Provider instances.


def provider(loader: Any, default_name: str, made: list[Any]) -> Any:
    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        made.append(SimpleNamespace(config=config))
        await coordinator.mount("providers", made[-1], default_name)

    return mount


async def test_the_previous_occupant_of_a_default_name_is_restored(plan: dict[str, Any], loader: Any) -> None:
    made: list[Any] = []
    loader.modules["provider-x"] = provider(loader, "x", made)
    plan["providers"] = [{"module": "provider-x"}, {"module": "provider-x", "instance_id": "second"}]
    session = prepared(plan, loader)
    await session.initialize()
    assert session.coordinator.get("providers") == {"x": made[0], "second": made[1]}


async def test_a_move_to_the_name_of_an_instance_is_in_the_record_of_a_mock(plan: dict[str, Any], loader: Any) -> None:
    made: list[Any] = []
    loader.modules["provider-x"] = provider(loader, "x", made)
    plan["providers"] = [{"module": "provider-x", "instance_id": "mine"}]
    coordinator = MockCoordinator()
    coordinator.loader = loader
    await initialize_session(plan, coordinator, "s", None)
    assert coordinator.unmount_history == [{"mount_point": "providers", "name": "x"}]
    assert coordinator.mount_history[-1] == {"mount_point": "providers", "module": made[0], "name": "mine"}


@pytest.mark.parametrize("extra", [{}, {"instance_id": "i"}])
async def test_a_provider_that_mounts_nothing_has_failed(
    plan: dict[str, Any], loader: Any, extra: dict[str, Any]
) -> None:
    ran: list[str] = []

    async def nothing(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Any:
        return lambda: ran.append("cleaned")

    async def ready(coordinator: ModuleCoordinator) -> None:
        ran.append("ready")

    loader.modules["provider-x"] = nothing
    loader.ready = {"provider-x": ready}
    plan["providers"] = [{"module": "provider-x", **extra}]
    session = prepared(plan, loader)
    seen = recorded(session, "module:load_failed")
    await session.initialize()
    ((_, data),) = seen
    assert data["module_id"] == "provider-x"
    assert "mounted no provider" in data["error"]
    assert ran == []
    await session.cleanup()
    assert ran == ["cleaned"]


async def test_a_failed_provider_leaves_no_trace_among_the_mounted_ones(plan: dict[str, Any], loader: Any) -> None:
    async def spoil(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        providers = coordinator.get("providers")
        providers["x"] = "replaced"
        providers["new"] = "added"
        del providers["other"]
        raise ValueError("after all")

    loader.modules |= {
        "provider-x": loader.mounts("providers", "good", "x"),
        "provider-other": loader.mounts("providers", "other", "other"),
        "provider-bad": spoil,
    }
    plan["providers"] = [{"module": f"provider-{name}"} for name in ("x", "other", "bad")]
    session = prepared(plan, loader)
    await session.initialize()
    assert session.coordinator.get("providers") == {"x": "good", "other": "other"}


async def test_an_application_can_end_the_start_at_a_provider_load(plan: dict[str, Any], loader: Any) -> None:
    heard: list[tuple[Any, ...]] = []

    async def before_load(coordinator: ModuleCoordinator, entry: dict[str, Any]) -> None:
        heard.append(("before", entry["module"], entry["config"]["n"]))
        entry["config"]["n"] = "changed"

    async def load_failure(coordinator: ModuleCoordinator, entry: dict[str, Any], error: Exception) -> None:
        heard.append(("failure", entry["module"], str(error)))
        entry["module"] = "changed"
        if entry["config"]["n"] == 2:
            raise PermissionError("no session without this one")

    loader.modules |= {"provider-a": ValueError("broken"), "provider-b": ValueError("broken, too")}
    plan["providers"] = [
        {"module": "provider-a", "config": {"n": 1}},
        {"module": "provider-b", "config": {"n": 2}},
        {"module": "provider-c", "config": {"n": 3}},
    ]
    session = prepared(plan, loader)
    session.coordinator.register_capability("provider.before_load", before_load)
    session.coordinator.register_capability("provider.load_failure", load_failure)
    with pytest.raises(RuntimeError, match="PermissionError: no session without this one"):
        await session.initialize()
    assert heard == [
        ("before", "provider-a", 1),
        ("failure", "provider-a", "broken"),
        ("before", "provider-b", 2),
        ("failure", "provider-b", "broken, too"),
    ]
    assert loader.loaded[2:] == [("provider-a", {"n": 1}, None), ("provider-b", {"n": 2}, None)]


# The fork event.


async def test_a_raw_fork_event_holds_the_plan_without_its_secrets(plan: dict[str, Any], loader: Any) -> None:
    plan["session"]["raw"] = True
    plan["orchestrator"] = {"config": {"API_KEY": "hush", "list": [{"token": "hush", "n": 1}]}}
    session = prepared(plan, loader, parent_id="p")
    seen = recorded(session, "session:fork")
    await session.initialize()
    raw = seen[0][1]["raw"]
    assert raw["orchestrator"]["config"] == {"API_KEY": "[REDACTED]", "list": [{"n": 1, "token": "[REDACTED]"}]}
    assert plan["orchestrator"]["config"]["API_KEY"] == "hush"
