"""What modules import from the application library beside the contracts: what passing work on to sub-sessions takes.

Nothing else of that library is here; a module that needs more of it has to depend on it. Each name is looked up when
it is first asked for and is the same object as its original in `paddock_sdk`.
"""

from __future__ import annotations

from importlib import import_module

# Spelled out, as in `amplifier_core`: importing `typing` would be most of what this file costs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock_sdk.contract.model_pattern import (
        ModelResolutionResult,
        ProviderPreference,
        is_glob_pattern,
        resolve_model_pattern,
    )
    from paddock_sdk.contract.tracing import generate_sub_session_id
    from paddock_sdk.contract.working_dir import get_working_dir, set_working_dir

__all__ = [
    "ModelResolutionResult",
    "ProviderPreference",
    "generate_sub_session_id",
    "get_working_dir",
    "is_glob_pattern",
    "resolve_model_pattern",
    "set_working_dir",
]

_ORIGIN = {
    "ModelResolutionResult": "paddock_sdk.contract.model_pattern",
    "ProviderPreference": "paddock_sdk.contract.model_pattern",
    "generate_sub_session_id": "paddock_sdk.contract.tracing",
    "get_working_dir": "paddock_sdk.contract.working_dir",
    "is_glob_pattern": "paddock_sdk.contract.model_pattern",
    "resolve_model_pattern": "paddock_sdk.contract.model_pattern",
    "set_working_dir": "paddock_sdk.contract.working_dir",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _ORIGIN:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}; here, it has {', '.join(__all__)}")
        value = globals()[name] = getattr(import_module(_ORIGIN[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
