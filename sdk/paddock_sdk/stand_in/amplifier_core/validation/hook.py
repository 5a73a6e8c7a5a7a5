"""What a hook has to have."""

from __future__ import annotations

from paddock_sdk.validation.hook import HookValidator

__all__ = ["HookValidator"]
