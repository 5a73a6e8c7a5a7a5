"""The id of a module, and the names that the contract derives from it.

An id becomes part of folder names, import names and environment variables, so only plain characters are accepted;
anything else raises `ModuleIdError` before it is used for any of these.
"""

from __future__ import annotations

import re

from paddock_sources.errors import ModuleIdError

_MAX_LENGTH = 128  # well above any id in use, well below the 255 bytes of a file name with our prefix
_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

PACKAGE_PREFIX = "amplifier_module_"

# The order is the contract's: `loop-tool-first` is an orchestrator, `provider-tool` a provider.
_KIND_BY_SUBSTRING = (
    ("orchestrat", "orchestrator"),
    ("loop", "orchestrator"),
    ("provider", "provider"),
    ("tool", "tool"),
    ("hook", "hook"),
    ("context", "context"),
)


def checked_module_id(module_id: object) -> str:
    """Return `module_id` unchanged.

    Raises:
        ModuleIdError: it is not text, empty, too long, or has a character no id may have.
    """
    if not isinstance(module_id, str):
        raise ModuleIdError(module_id, f"it is {type(module_id).__name__}, not text")
    if not module_id.strip():
        raise ModuleIdError(module_id, "it is empty")
    if len(module_id) > _MAX_LENGTH:
        raise ModuleIdError(module_id[:_MAX_LENGTH] + "…", f"it is longer than {_MAX_LENGTH} characters")
    if not _PATTERN.fullmatch(module_id):
        raise ModuleIdError(
            module_id, "it has a character that no id may have, or does not start with a letter or digit"
        )
    return module_id


def kind_of_id(module_id: str) -> str:
    """Return the kind that the contract derives from an id; `tool` when the id contains none."""
    for part, kind in _KIND_BY_SUBSTRING:
        if part in module_id:
            return kind
    return "tool"


def package_of_id(module_id: str) -> str:
    """Return the import name that the contract expects for an id."""
    return PACKAGE_PREFIX + re.sub(r"[^A-Za-z0-9_]", "_", module_id)


def environment_variable_of_id(module_id: str) -> str:
    """Return the environment variable that overrides where a module comes from."""
    return "AMPLIFIER_MODULE_" + re.sub(r"[^A-Za-z0-9_]", "_", module_id).upper()
