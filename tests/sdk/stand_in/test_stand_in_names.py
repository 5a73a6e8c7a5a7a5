"""Every name that module code imports, as a table: where it is, and where it is the same thing again."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import amplifier_core
import pytest
from amplifier_core import _async_compat, _collect_helper, _engine, _session_exec, _session_init, events

from support.rows import each_row

# By subject; together the whole of the top level.
TOP_LEVEL = {
    "kernel": (
        "AmplifierSession ModuleCoordinator ModuleLoader ModuleValidationError HookRegistry CancellationToken "
        "CancellationState capabilities"
    ),
    "aliases": "RustSession RustCoordinator RustHookRegistry RustCancellationToken RUST_AVAILABLE",
    "models": (
        "ToolResult HookResult ContextInjection ConfigField ModelInfo ModuleInfo Pricing ProviderInfo SessionStatus"
    ),
    "protocols and approval": (
        "Orchestrator Provider Tool ContextManager HookHandler ApprovalProvider ApprovalRequest ApprovalResponse"
    ),
    "envelope": (
        "ChatRequest ChatResponse Message TextBlock ThinkingBlock RedactedThinkingBlock ToolCallBlock ToolResultBlock "
        "ImageBlock ReasoningBlock ToolCall ToolSpec Usage Degradation ResponseFormat ResponseFormatText "
        "ResponseFormatJson ResponseFormatJsonSchema"
    ),
    "errors of models": (
        "LLMError RateLimitError QuotaExceededError AuthenticationError AccessDeniedError ContextLengthError "
        "ContentFilterError InvalidRequestError ProviderUnavailableError NetworkError LLMTimeoutError NotFoundError "
        "StreamError AbortError InvalidToolCallError ConfigurationError"
    ),
    "streaming": "ContentBlock ContentBlockType TextContent ThinkingContent ToolCallContent ToolResultContent",
    "for tests": (
        "MockCoordinator MockTool MockContextManager EventRecorder ScriptedOrchestrator create_test_coordinator "
        "wait_for"
    ),
    "the source of a module": "AmplifierModuleLoader ModuleLoadError",  # at the top here alone
    "retries": "RetryConfig retry_with_backoff classify_error_message",
}

SUBMODULES = {
    "models": TOP_LEVEL["models"] + " _sanitize_for_llm",
    "message_models": TOP_LEVEL["envelope"] + " ContentBlockUnion",
    "content_models": TOP_LEVEL["streaming"],
    "interfaces": TOP_LEVEL["protocols and approval"],
    "hooks": "HookRegistry",
    "events": "ALL_EVENTS SESSION_START MODULE_LOAD_FAILED",
    "capabilities": "ALL_WELL_KNOWN_CAPABILITIES TOOLS BATCH",
    "llm_errors": TOP_LEVEL["errors of models"],
    "testing": TOP_LEVEL["for tests"] + " MockProvider TestCoordinator",
    "utils": "truncate_values redact_secrets SENSITIVE_KEYS RetryConfig retry_with_backoff classify_error_message",
    "utils.retry": TOP_LEVEL["retries"],
    "utils.truncate": "truncate_values",
    "retry": TOP_LEVEL["retries"],
    "truncate": "truncate_values",
    "cancellation": "CancellationState CancellationToken",
    "approval": "ApprovalSystem ApprovalTimeoutError",
    "display": "DisplaySystem",
    "module_sources": ("ModuleNotFoundError ModuleLoadError ModuleSource ModuleSourceResolver FileSystemModuleSource"),
    "loader": (
        "AmplifierModuleLoader ModuleLoadError TYPE_TO_MOUNT_POINT ModuleValidationError module_failure_reason "
        "ModuleLoader"
    ),
    "session": "AmplifierSession",
    "coordinator": "ModuleCoordinator",
    "correlation": (
        "REQUEST_ID_FIELD REQUEST_EVENTS TERMINAL_EVENTS INTERIM_EVENTS new_request_id current_request_id "
        "resolve_request_id reset_request_id"
    ),
    "cli": "main",
    "validation": (
        "ValidationResult ValidationCheck ToolValidator ProviderValidator HookValidator OrchestratorValidator "
        "ContextValidator MountPlanValidator MountPlanValidationResult"
    ),
    "validation.base": "ValidationResult ValidationCheck",
    "validation.tool": "ToolValidator",
    "validation.provider": "ProviderValidator",
    "validation.hook": "HookValidator",
    "validation.orchestrator": "OrchestratorValidator",
    "validation.context": "ContextValidator",
    "validation.mount_plan": "MountPlanValidator MountPlanValidationResult",
    "_engine": (
        "RustSession RustHookRegistry RustCancellationToken RustCoordinator RUST_AVAILABLE ALL_EVENTS RetryConfig "
        "compute_delay classify_error_message ProviderError resolve_module"
    ),
    "_session_init": "initialize_session _safe_exception_str",
    "_session_exec": "run_orchestrator emit_raw_field_if_configured",
    "_collect_helper": "collect_contributions",
    "_async_compat": "_wrap",
}

# Test classes, marked with what only a pytest that has the plugin knows.
BASES = {
    "validation.structural": (
        "ToolStructuralTests ProviderStructuralTests HookStructuralTests OrchestratorStructuralTests "
        "ContextStructuralTests"
    ),
    "validation.behavioral": (
        "ToolBehaviorTests ProviderBehaviorTests HookBehaviorTests OrchestratorBehaviorTests ContextBehaviorTests"
    ),
}
STAND_IN = Path(amplifier_core.__file__).parents[1]


def run(code: str, *path: Path) -> None:
    """Run code in an interpreter of its own, which is to raise nothing."""
    folders = ":".join(map(str, (STAND_IN, *path)))
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env={"PYTHONPATH": folders})


def test_the_top_level_has_these_names_and_no_others() -> None:
    names = " ".join(TOP_LEVEL.values()).split()
    assert sorted(amplifier_core.__all__) == sorted(names)


@each_row(("module", "names"), SUBMODULES.items())
def test_a_submodule_has_its_names(module: str, names: str) -> None:
    found = import_module(f"amplifier_core.{module}")
    assert [name for name in names.split() if not hasattr(found, name)] == []


@each_row(("module", "names"), BASES.items())
def test_a_submodule_of_test_classes_has_its_names(module: str, names: str) -> None:
    run(f"from amplifier_core.{module} import {', '.join(names.split())}", STAND_IN.parents[1])


@each_row(
    ("module", "name"),
    [
        (module, name)
        for module, names in SUBMODULES.items()
        for name in names.split()
        if name in amplifier_core.__all__
    ],
)
def test_a_name_at_the_top_is_the_same_thing_in_its_submodule(module: str, name: str) -> None:
    both = getattr(amplifier_core, name), getattr(import_module(f"amplifier_core.{module}"), name)
    if (module, name) in [("session", "AmplifierSession"), ("_engine", "classify_error_message")]:
        assert both[0] is not both[1]
    else:
        assert both[0] is both[1]


def test_errors_are_also_imported_as_one_module_by_another_name() -> None:
    from amplifier_core import llm_errors as kernel_errors

    assert kernel_errors.RateLimitError is amplifier_core.RateLimitError


# What code reaches past the public modules for.


@each_row(
    ("module", "some"),
    [
        (events, {"ALL_EVENTS", "SESSION_START"}),
        (amplifier_core.capabilities, {"ALL_WELL_KNOWN_CAPABILITIES", "TOOLS"}),
    ],
    ids=["events", "capabilities"],
)
def test_the_engine_has_every_constant_of_a_public_module(module: ModuleType, some: set[str]) -> None:
    constants = {name: value for name, value in vars(module).items() if name.isupper()}
    assert some <= set(constants) <= set(dir(_engine))
    assert [name for name, value in constants.items() if getattr(_engine, name) is not value] == []


@pytest.mark.difference("WebAssembly and gRPC modules do not run")
def test_what_runs_webassembly_is_refused_in_words() -> None:
    with pytest.raises(AttributeError, match="`load_wasm_from_path` runs WebAssembly modules, which Paddock does not"):
        _engine.load_wasm_from_path  # noqa: B018 - reading it is the act
    assert not hasattr(_engine, "load_wasm_from_path")
    with pytest.raises(ImportError, match="load_wasm_from_path"):
        from amplifier_core._engine import load_wasm_from_path  # noqa: F401


def test_any_other_name_the_engine_lacks_is_an_attribute_error() -> None:
    assert not hasattr(_engine, "Nonsense") and not hasattr(_engine, "NONSENSE")


def test_an_error_of_the_engine_is_an_error_of_models() -> None:
    error = _engine.ProviderError("slow", provider="p", model="m", status_code=429, retryable=True, retry_after=1.5)
    assert isinstance(error, amplifier_core.LLMError)
    assert (error.provider, error.retryable, error.retry_after) == ("p", True, 1.5)


def test_a_folder_is_resolved_to_how_its_module_is_run(tmp_path: Path) -> None:
    package = tmp_path / "amplifier-module-hooks-x" / "amplifier_module_hooks_x"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    assert _engine.resolve_module(str(package.parent)) == {
        "transport": "python",
        "module_type": "hook",
        "package_name": "amplifier_module_hooks_x",
    }
    (package.parent / "amplifier.toml").write_text('[module]\ntransport = "wasm"\n')
    assert _engine.resolve_module(package.parent)["transport"] == "wasm"


@each_row(
    ("function", "parameters"),
    [
        (_session_init.initialize_session, ["config", "coordinator", "session_id", "parent_id"]),
        (_session_exec.run_orchestrator, ["coordinator", "prompt"]),
        (_session_exec.emit_raw_field_if_configured, ["coordinator", "config", "session_id", "event_base"]),
        (_collect_helper.collect_contributions, ["channels", "channel"]),
        (_async_compat._wrap, ["value"]),
    ],
)
def test_a_private_function_is_async_with_parameters_in_order(function: Any, parameters: list[str]) -> None:
    assert inspect.iscoroutinefunction(function)
    assert list(inspect.signature(function).parameters)[: len(parameters)] == parameters


async def test_the_private_functions_do_what_they_are_called_for() -> None:
    async def seven() -> int:
        return 7

    assert await _async_compat._wrap(seven()) == 7
    assert await _collect_helper.collect_contributions({"c": [{"name": "n", "callback": seven}]}, "c") == [7]
    assert _session_init._safe_exception_str(ValueError("no")) == "no"


# The distribution.


def test_the_distribution_says_its_version_and_what_it_needs() -> None:
    distribution = metadata.distribution("amplifier-core")
    assert Path(str(distribution.locate_file(""))).name == "stand_in"
    assert (distribution.version, metadata.version("amplifier_core")) == ("2.0.2", amplifier_core.__version__)
    assert distribution.metadata["Requires-Python"] == ">=3.11"
    assert sorted(distribution.requires or ()) == ["click", "pydantic>=2", "pyyaml", "tomli", "typing-extensions"]


@each_row(
    ("group", "name", "value"),
    [
        ("console_scripts", "amplifier-core", "amplifier_core.cli:main"),
        ("pytest11", "amplifier_module", "amplifier_core.pytest_plugin"),
    ],
)
def test_the_distribution_declares_its_entry_points(group: str, name: str, value: str) -> None:
    [found] = [one for one in metadata.distribution("amplifier-core").entry_points if one.group == group]
    assert (found.name, found.value) == (name, value)
    # In a program of its own: the plugin is one for another pytest than this.
    module = value.partition(":")[0]
    run(f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)")
