"""The protocols: what they ask for, and which of them `isinstance` answers for."""

from __future__ import annotations

import inspect
from typing import Any, Protocol, get_type_hints

import pytest

from paddock_sdk.contract import approval, interfaces, module_sources
from paddock_sdk.testing import MockTool
from support.rows import each_row

# `tests/blackbox/golden/names_in_a_worker.json` has their members, and what these are called with.
KINDS = {
    interfaces.Tool: {"name", "description", "execute"},  # `isinstance` does without an `input_schema`
    interfaces.Provider: {"name", "get_info", "list_models", "complete", "parse_tool_calls"},
    interfaces.Orchestrator: {"execute"},
    interfaces.ContextManager: {
        "add_message",
        "get_messages_for_request",
        "get_messages",
        "set_messages",
        "clear",
    },
    interfaces.HookHandler: {"__call__"},
}
OTHERS = [
    interfaces.ApprovalProvider,
    approval.ApprovalSystem,
    approval.DisplaySystem,
    module_sources.ModuleSourceResolver,
]


@each_row("protocol", OTHERS, ids=lambda value: value.__name__)
def test_a_protocol_that_is_of_no_kind_is_not_for_isinstance(protocol: type) -> None:
    assert Protocol in protocol.__mro__
    with pytest.raises(TypeError):
        isinstance(object(), protocol)


@pytest.mark.difference(
    "`isinstance` answers for the protocols of the five kinds, and for a tool without `input_schema`"
)
@each_row("protocol", KINDS, ids=lambda value: value.__name__)
def test_an_object_is_of_a_kind_when_it_has_the_members(protocol: type) -> None:
    asked = KINDS[protocol]
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


@each_row("protocol", [*KINDS, *OTHERS])
def test_the_hints_of_every_member_can_be_asked_for(protocol: type) -> None:
    for name, member in vars(protocol).items():
        if inspect.isfunction(member) and name not in ("__init__", "__subclasshook__"):
            assert "return" in get_type_hints(member), name
