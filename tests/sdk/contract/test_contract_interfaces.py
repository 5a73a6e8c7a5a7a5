"""The protocols: what they ask for, and which of them `isinstance` answers for."""

from __future__ import annotations

import inspect
from typing import Any, Protocol, get_type_hints

import pytest

from paddock_sdk.contract import approval, interfaces, module_sources
from paddock_sdk.testing import MockTool
from support.rows import each_row

PROTOCOLS: list[tuple[type, dict[str, str]]] = [
    (interfaces.Tool, {"name": "property", "description": "property", "input_schema": "property", "execute": "async"}),
    (
        interfaces.Provider,
        {
            "name": "property",
            "get_info": "sync",
            "list_models": "async",
            "complete": "async",
            "parse_tool_calls": "sync",
        },
    ),
    (interfaces.Orchestrator, {"execute": "async"}),
    (
        interfaces.ContextManager,
        {
            "add_message": "async",
            "get_messages_for_request": "async",
            "get_messages": "async",
            "set_messages": "async",
            "clear": "async",
        },
    ),
    (interfaces.HookHandler, {"__call__": "async"}),
    (interfaces.ApprovalProvider, {"request_approval": "async"}),
    (approval.ApprovalSystem, {"request_approval": "async"}),
    (approval.DisplaySystem, {"show_message": "sync"}),
    (module_sources.ModuleSourceResolver, {"resolve": "sync"}),
]


def _kind(member: object) -> str:
    if isinstance(member, property):
        return "property"
    return "async" if inspect.iscoroutinefunction(member) else "sync"


@each_row(("protocol", "members"), PROTOCOLS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_protocol_asks_for_its_members(protocol: type, members: dict[str, str]) -> None:
    own = {
        name: _kind(member)
        for name, member in vars(protocol).items()
        if callable(member) or isinstance(member, property)
        if name in members or not name.startswith("_")
    }
    assert own == members


_KINDS = dict(PROTOCOLS[:5])


@each_row("protocol", [protocol for protocol, _ in PROTOCOLS[5:]], ids=lambda value: value.__name__)
def test_a_protocol_that_is_of_no_kind_is_not_for_isinstance(protocol: type) -> None:
    assert Protocol in protocol.__mro__
    with pytest.raises(TypeError):
        isinstance(object(), protocol)


@pytest.mark.difference(
    "`isinstance` answers for the protocols of the five kinds, and for a tool without `input_schema`"
)
@each_row("protocol", _KINDS, ids=lambda value: value.__name__)
def test_an_object_is_of_a_kind_when_it_has_the_members(protocol: type) -> None:
    asked = _KINDS[protocol].keys() - {"input_schema"}
    whole = type("Whole", (), dict.fromkeys(asked, lambda *given: None))()
    assert isinstance(whole, protocol)
    for left_out in asked:
        lacking = type("Lacking", (), dict.fromkeys(asked - {left_out}, lambda *given: None))()
        assert not isinstance(lacking, protocol)


def test_a_tool_that_declares_itself_one_is_no_other_declared_tool() -> None:
    class Declared(interfaces.Tool):
        name = description = "x"

        async def execute(self, input: dict[str, Any]) -> Any:
            return None

    class Other(Declared):
        pass

    assert isinstance(MockTool(), interfaces.Tool) and isinstance(Other(), Declared)
    assert not isinstance(Declared(), Other) and not isinstance(MockTool(), Declared)


def test_a_declared_tool_has_an_empty_schema_by_default() -> None:
    class Quiet(interfaces.Tool):
        name = "quiet"
        description = "says nothing"

        async def execute(self, input: dict[str, Any]) -> Any:
            return None

    assert Quiet().input_schema == {}


@each_row(
    ("function", "parameters"),
    [
        (interfaces.Orchestrator.execute, ["prompt", "context", "providers", "tools", "hooks", "kwargs"]),
        (interfaces.ContextManager.get_messages_for_request, ["token_budget", "provider"]),
        (interfaces.Provider.complete, ["request", "kwargs"]),
        (interfaces.Tool.execute, ["input"]),
        (approval.ApprovalSystem.request_approval, ["prompt", "options", "timeout", "default"]),
        (approval.DisplaySystem.show_message, ["message", "level", "source"]),
        (module_sources.ModuleSourceResolver.resolve, ["module_id", "source_hint", "profile_hint"]),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_a_member_takes_its_parameters_in_order(function: Any, parameters: list[str]) -> None:
    assert list(inspect.signature(function).parameters)[1:] == parameters


@each_row("protocol", [protocol for protocol, _ in PROTOCOLS])
def test_the_hints_of_every_member_can_be_asked_for(protocol: type) -> None:
    for name, member in vars(protocol).items():
        if inspect.isfunction(member) and name not in ("__init__", "__subclasshook__"):
            assert "return" in get_type_hints(member), name
