"""The requirements on a module of each kind, and the checks for them.

A validator, and the module's code with it, runs in the caller's process. Beside it there are tests to inherit from, in
`behavioral` and `structural`. They access a module only through these fixtures, so that a plugin which supplies them
from somewhere else, such as a worker, runs the same assertions:

* `tool_module`, `provider_module`, `orchestrator_module`, `context_module`: the object that was mounted, or a proxy for
  it with the same members. Each test gets a newly mounted one, with the configuration of `--module-config`. Its
  `async def` methods must pass `inspect.iscoroutinefunction`; results are objects of the contract's own classes.
* `hook_cleanup`: the value that the hook's `mount` returned. None, or a function without arguments whose result may
  have to be awaited; the fixture ensures that a second call, at the end of the test, does nothing.
* `coordinator`: the coordinator that the module was mounted on. Only its `hooks.list_handlers()` and `hooks.emit()` are
  used.
* `mock_deps`: a context, providers, tools and hooks, in this order; passed on to `execute`. The tests only check
  whether the context's `add_message` was called, as on a mock of `unittest`.
* `validate_structure`: an asynchronous function of a kind, which returns the `ValidationResult` of the module.

A fixture may skip a test that is for another kind of module. Fixtures and tests run on one event loop.
"""

from __future__ import annotations

from paddock_sdk.validation.mount_plan import MountPlanValidationResult, MountPlanValidator
from paddock_sdk.validation.result import ValidationCheck, ValidationResult
from paddock_sdk.validation.validator import ModuleValidator
from paddock_sdk.validation.validators import (
    ContextValidator,
    HookValidator,
    OrchestratorValidator,
    ProviderValidator,
    ToolValidator,
)

__all__ = [
    "KINDS",
    "VALIDATORS",
    "ContextValidator",
    "HookValidator",
    "MountPlanValidationResult",
    "MountPlanValidator",
    "ModuleValidator",
    "OrchestratorValidator",
    "ProviderValidator",
    "ToolValidator",
    "ValidationCheck",
    "ValidationResult",
    "validator_for",
]

#: The validator of each kind.
VALIDATORS: dict[str, type[ModuleValidator]] = {
    validator.kind: validator
    for validator in (ProviderValidator, ToolValidator, HookValidator, OrchestratorValidator, ContextValidator)
}

#: The kinds of modules that can be validated.
KINDS = tuple(VALIDATORS)


def validator_for(kind: str) -> ModuleValidator:
    """Return the validator of a kind of module.

    Raises:
        ValueError: there is no such kind.
    """
    if kind not in VALIDATORS:
        raise ValueError(f"there is no kind of module {kind!r}; the kinds are {', '.join(KINDS)}")
    return VALIDATORS[kind]()
