"""What a module of each kind has to have, and the checks that tell."""

from __future__ import annotations

from paddock_sdk.validation.context import ContextValidator
from paddock_sdk.validation.hook import HookValidator
from paddock_sdk.validation.mount_plan import MountPlanValidationResult, MountPlanValidator
from paddock_sdk.validation.orchestrator import OrchestratorValidator
from paddock_sdk.validation.provider import ProviderValidator
from paddock_sdk.validation.result import ValidationCheck, ValidationResult
from paddock_sdk.validation.tool import ToolValidator
from paddock_sdk.validation.validator import ModuleValidator

__all__ = [
    "KINDS",
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

_VALIDATORS: dict[str, type[ModuleValidator]] = {
    validator.kind: validator
    for validator in (ProviderValidator, ToolValidator, HookValidator, OrchestratorValidator, ContextValidator)
}

#: The kinds of modules that can be validated.
KINDS = tuple(_VALIDATORS)


def validator_for(kind: str) -> ModuleValidator:
    """Return the validator of a kind of module.

    Raises:
        ValueError: there is no such kind.
    """
    if kind not in _VALIDATORS:
        raise ValueError(f"there is no kind of module {kind!r}; the kinds are {', '.join(KINDS)}")
    return _VALIDATORS[kind]()
