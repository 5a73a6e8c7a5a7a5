"""What each importable callable takes, with its defaults, and which of them have to be awaited."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import pytest
from amplifier_core import llm_errors
from amplifier_core.cancellation import CancellationToken
from amplifier_core.module_sources import FileSystemModuleSource, ModuleSource

from support.rows import each_row

R = inspect.Parameter.empty  # has to be given

# Where, what, whether it is awaited, and what it takes; `*` begins what is taken by keyword only.
TABLE: list[tuple[str, str, bool, dict[str, Any]]] = [
    ("utils", "retry_with_backoff", True, {"operation": R, "config": None, "*": R, "on_retry": None}),
    ("utils", "classify_error_message", False, {"message": R, "*": R, "status_code": None, "provider": None}),
    ("utils", "truncate_values", False, {"obj": R, "max_length": 180}),
    (
        "utils",
        "RetryConfig",
        False,
        {
            "max_retries": 3,
            "initial_delay": 1.0,
            "max_delay": 60.0,
            "backoff_factor": 2.0,
            "jitter": None,
            "honor_retry_after": True,
            "min_delay": None,
            "backoff_multiplier": None,
        },
    ),
    ("_engine", "compute_delay", False, {"config": R, "attempt": R, "retry_after": None, "delay_multiplier": None}),
    ("cancellation", "CancellationToken", False, {}),
    (
        "approval",
        "ApprovalSystem.request_approval",
        True,
        {"self": R, "prompt": R, "options": R, "timeout": R, "default": R},
    ),
    ("display", "DisplaySystem.show_message", False, {"self": R, "message": R, "level": R, "source": "hook"}),
    (
        "module_sources",
        "ModuleSourceResolver.resolve",
        False,
        {"self": R, "module_id": R, "source_hint": None, "profile_hint": None},
    ),
    ("module_sources", "FileSystemModuleSource", False, {"paths": None}),
    ("module_sources", "ModuleSource.resolve", False, {"self": R}),
    ("loader", "ModuleLoader", False, {"coordinator": None, "search_paths": None}),
    ("loader", "ModuleValidationError", False, {"message": R, "*": R, "reason_code": "validation_failed"}),
    ("loader", "module_failure_reason", False, {"exc": R}),
    ("testing", "MockCoordinator", False, {}),
    (
        "testing",
        "MockTool",
        False,
        {"name": "mock_tool", "output": "Success", "*": R, "description": None, "return_value": None},
    ),
    ("testing", "MockContextManager", False, {"messages": None}),
    ("testing", "EventRecorder", False, {}),
    ("testing", "EventRecorder.emit", True, {"self": R, "event": R, "data": R}),
    ("testing", "EventRecorder.record", True, {"self": R, "event": R, "data": R}),
    ("testing", "EventRecorder.get_events", False, {"self": R, "event_type": None}),
    ("testing", "ScriptedOrchestrator", False, {"responses": R}),
    ("testing", "create_test_coordinator", False, {}),
    ("testing", "wait_for", True, {"condition": R, "timeout": 1.0}),
    ("correlation", "new_request_id", False, {}),
    ("correlation", "current_request_id", False, {}),
    ("correlation", "resolve_request_id", False, {"event": R, "explicit": None}),
    ("correlation", "reset_request_id", False, {}),
    ("hooks", "HookRegistry.register", False, {"self": R, "event": R, "handler": R, "priority": 0, "name": None}),
    ("hooks", "HookRegistry.on", False, {"self": R, "event": R, "handler": R, "priority": 0, "name": None}),
    ("hooks", "HookRegistry.emit", True, {"self": R, "event": R, "data": R}),
    ("hooks", "HookRegistry.emit_and_collect", True, {"self": R, "event": R, "data": R, "timeout": 1.0}),
    (
        "coordinator",
        "ModuleCoordinator",
        False,
        {"session": None, "approval_system": None, "display_system": None},
    ),
    *(
        (
            module,
            "AmplifierSession",
            False,
            {
                "config": R,
                "loader": None,
                "session_id": None,
                "parent_id": None,
                "approval_system": None,
                "display_system": None,
                "is_resumed": False,
            },
        )
        for module in ("session", "")
    ),
]


@each_row(("module", "name", "is_async", "parameters"), TABLE, ids=[f"{a}.{b}" for a, b, _, _ in TABLE])
def test_a_callable_takes_its_parameters_in_order_with_their_defaults(
    module: str, name: str, is_async: bool, parameters: dict[str, Any]
) -> None:
    found: Any = import_module(f"amplifier_core.{module}".rstrip("."))
    for part in name.split("."):
        found = getattr(found, part)
    taken: dict[str, Any] = {}
    for one in inspect.signature(found).parameters.values():
        if one.kind is inspect.Parameter.KEYWORD_ONLY:
            taken.setdefault("*", R)
        taken[one.name] = one.default
    assert list(taken.items()) == list(parameters.items())
    assert inspect.iscoroutinefunction(found) is is_async


@each_row("name", [name for name in vars(llm_errors) if name.endswith("Error")])
def test_an_error_of_models_takes_a_message_and_keywords(name: str) -> None:
    keywords = {"provider", "model", "status_code", "retryable"}
    keywords |= (
        {"tool_name", "raw_arguments"} if name == "InvalidToolCallError" else {"retry_after", "delay_multiplier"}
    )
    message, *others = inspect.signature(getattr(llm_errors, name)).parameters.values()
    assert (message.name, message.default) == ("message", R)
    assert {one.name for one in others} == keywords
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in others)


TOKEN = {
    "is_cancelled": ("property", False),
    "is_graceful": ("property", False),
    "is_immediate": ("property", False),
    "state": ("property", "none"),
    "running_tools": ("property", set()),
    "running_tool_names": ("property", []),
    "request_graceful": ("sync", []),
    "request_immediate": ("sync", []),
    "request_cancellation": ("sync", []),
    "reset": ("sync", []),
    "register_tool_start": ("sync", ["tool_call_id", "tool_name"]),
    "register_tool_complete": ("sync", ["tool_call_id"]),
    "register_child": ("sync", ["child"]),
    "unregister_child": ("sync", ["child"]),
    "on_cancel": ("sync", ["callback"]),
    "trigger_callbacks": ("async", []),
}


@each_row(("name", "flavour", "detail"), [(name, *row) for name, row in TOKEN.items()])
def test_a_token_has_its_members_in_their_flavours(name: str, flavour: str, detail: Any) -> None:
    member = inspect.getattr_static(CancellationToken, name)
    if flavour == "property":
        assert isinstance(member, property)
        assert getattr(CancellationToken(), name) == detail
        with pytest.raises(AttributeError):
            setattr(CancellationToken(), name, detail)
    else:
        assert inspect.iscoroutinefunction(member) is (flavour == "async")
        assert list(inspect.signature(member).parameters)[1:] == detail


def test_mount_points_are_known_by_kind() -> None:
    from amplifier_core.loader import TYPE_TO_MOUNT_POINT

    assert TYPE_TO_MOUNT_POINT == {
        "orchestrator": "orchestrator",
        "provider": "providers",
        "tool": "tools",
        "hook": "hooks",
        "context": "context",
        "resolver": "module-source-resolver",
    }


def test_a_folder_of_modules_is_no_source_of_one() -> None:
    assert not issubclass(FileSystemModuleSource, ModuleSource)
    assert inspect.isabstract(ModuleSource)
