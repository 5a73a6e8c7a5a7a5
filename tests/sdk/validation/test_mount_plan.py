"""The shape of a mount plan: every check, met and missed."""

from __future__ import annotations

from typing import Any

from paddock_sdk.validation import MountPlanValidator
from support.rows import each_row

_SESSION = {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}}
_SESSION_CHECKS = ["session.orchestrator_module_valid", "session.context_module_valid"]
_ROOT_CHECKS = ["root_type", "session_present"]


def with_tool(spec: Any) -> dict[str, Any]:
    return {"session": _SESSION, "tools": [spec]}


def test_a_plan_that_is_right_passes_every_check_in_order() -> None:
    spec = {"module": "tool-web", "source": "git+https://example.org/web@v1", "config": {"timeout": 3}}
    result = MountPlanValidator().validate({"session": _SESSION, "providers": [], "tools": [spec], "agents": {}})
    assert [check.name for check in result.checks] == [
        *_ROOT_CHECKS,
        *_SESSION_CHECKS,
        "providers_empty",
        "tools[0]_module_valid",
    ]
    assert all(check.passed and check.severity == "info" for check in result.checks)
    assert result.passed and result.summary() == "PASSED: 6/6 checks passed (0 errors, 0 warnings)"
    assert result.format_errors() == "No errors"


@each_row(
    ("plan", "name", "words"),
    [
        (None, "root_type", "not nothing"),
        ([], "root_type", "not list"),
        ({}, "session_present", "`session` is missing"),
        ({"session": []}, "session_type", "not list"),
        ({"session": None}, "session_type", "not nothing"),
        ({"session": {"context": {"module": "c"}}}, "session_orchestrator_present", "`session.orchestrator`"),
        ({"session": {"orchestrator": {"module": "o"}}}, "session_context_present", "`session.context`"),
        ({"session": {**_SESSION, "context": None}}, "session.context_type", "not nothing"),
        ({"session": {**_SESSION, "orchestrator": "loop"}}, "session.orchestrator_type", "write {module: loop}"),
        ({"session": {**_SESSION, "context": {}}}, "session.context_module_required", ".module` is missing"),
        ({"session": _SESSION, "hooks": {}}, "hooks_type", "must be a list, not dict"),
        ({"session": _SESSION, "providers": None}, "providers_type", "not nothing"),
        (with_tool("tool-web"), "tools[0]_type", "write {module: tool-web}"),
        (with_tool({"source": "/x"}), "tools[0]_module_required", ".module` is missing"),
        (with_tool({"module": 3}), "tools[0]_module_type", "must be a string, not int"),
        (with_tool({"module": ""}), "tools[0]_module_empty", "is empty"),
        (with_tool({"module": "t", "config": []}), "tools[0]_config_type", "must be a dict, not list"),
        (with_tool({"module": "t", "source": 3}), "tools[0]_source_type", "must be a string, not int"),
    ],
)
def test_a_plan_that_is_wrong_fails_the_check_that_says_so(plan: Any, name: str, words: str) -> None:
    result = MountPlanValidator().validate(plan)
    [check] = [check for check in result.errors if check.name == name]
    assert words in check.message and not result.passed


@each_row("section", ["orchestrator", "context", "working_dir"])
def test_a_section_that_the_contract_does_not_list_is_worth_a_warning(section: str) -> None:
    result = MountPlanValidator().validate({"session": _SESSION, section: {}})
    [warning] = result.warnings
    assert (warning.name, warning.passed) == ("unknown_sections", False) and f"`{section}`" in warning.message
    assert result.passed


@each_row("more", [{}, {"source": "/a/path", "config": {}}])
def test_a_source_is_text_and_a_configuration_a_dict(more: dict[str, Any]) -> None:
    assert MountPlanValidator().validate(with_tool({"module": "t", **more})).passed


@each_row("key", ["source", "config"])
def test_what_is_written_as_nothing_is_neither(key: str) -> None:
    assert not MountPlanValidator().validate(with_tool({"module": "t", key: None})).passed


def test_the_errors_are_numbered_under_a_heading() -> None:
    result = MountPlanValidator().validate({"session": {"orchestrator": {"module": "o"}}, "tools": [{}]})
    assert result.format_errors().splitlines() == [
        "Mount Plan Validation Failed:",
        "",
        "  1. [session_context_present] `session.context` is missing; it names the module to use",
        "  2. [tools[0]_module_required] `tools[0].module` is missing; expected is the id of a module",
        "",
        "Total: 2 error(s)",
    ]
