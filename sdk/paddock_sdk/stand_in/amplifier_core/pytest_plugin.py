"""The pytest plugin for modules, under the name its entry point has."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.validation.pytest_plugin import (
    context_module,
    coordinator,
    event_loop_is_there,
    hook_cleanup,
    is_module_context,
    mock_deps,
    module_path,
    module_type,
    module_under_test,
    orchestrator_module,
    provider_module,
    pytest_addoption,
    pytest_configure,
    tool_module,
    validate_structure,
)

__all__ = [
    "context_module",
    "coordinator",
    "event_loop_is_there",
    "hook_cleanup",
    "is_module_context",
    "mock_deps",
    "module_path",
    "module_type",
    "module_under_test",
    "orchestrator_module",
    "provider_module",
    "pytest_addoption",
    "pytest_configure",
    "tool_module",
    "validate_structure",
]
