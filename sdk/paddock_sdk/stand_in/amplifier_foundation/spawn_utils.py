"""The models that sub-sessions are to use."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.contract.model_pattern import (
    ModelResolutionResult,
    ProviderPreference,
    is_glob_pattern,
    resolve_model_pattern,
)

__all__ = ["ModelResolutionResult", "is_glob_pattern", "resolve_model_pattern", "ProviderPreference"]
