"""What a hook has to have: handlers, or to be one."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from paddock_sdk.validation.members import count_parameters, is_async
from paddock_sdk.validation.result import ValidationResult
from paddock_sdk.validation.validator import ModuleValidator, Mounting

__all__ = ["HookValidator"]

_CALL = "async def __call__(self, event, data)"


class HookValidator(ModuleValidator):
    """Checks modules that register handlers for events. No handler is called."""

    kind = "hook"

    def is_module(self, returned: Any) -> bool:
        # An object of a class that was written to be called with something, unlike a function to clean up with.
        is_function = inspect.isroutine(returned) or isinstance(returned, type | partial)
        return callable(returned) and not is_function and count_parameters(returned) > 0

    def check(self, result: ValidationResult, mounting: Mounting) -> None:
        handlers = mounting.coordinator.hooks.list_handlers()
        if handlers:
            count = sum(len(names) for names in handlers.values())
            message = f"mount() registered handlers for events ({count} for {len(handlers)})"
            result.succeed("protocol_compliance", message)
        elif self.is_module(mounting.returned):
            message = f"mount() returned a {type(mounting.returned).__name__}, which can be called"
            result.succeed("protocol_compliance", message)
            _check_call(result, mounting.returned)
        elif instead := _instead_of_handlers(mounting):
            message = f"mount() registered no handler with this configuration; {instead}"
            result.warn("protocol_compliance", message, passed=True)
        else:
            message = "mount() registered no handler; it has to call `coordinator.hooks.register(event, handler)`"
            result.fail("protocol_compliance", message)


def _instead_of_handlers(mounting: Mounting) -> str | None:
    if callable(mounting.returned):
        return "it returned a cleanup function"
    if mounting.coordinator.mount_points["tools"] or mounting.coordinator.mount_points["providers"]:
        return "it mounted something else"
    return "on_session_ready() may, and was not called" if mounting.goes_on else None


def _check_call(result: ValidationResult, hook: Any) -> None:
    name = type(hook).__name__
    if not is_async(hook):
        result.fail("hook_call", f"`__call__` of {name} is not asynchronous; define it as `{_CALL}`")
    elif count_parameters(hook) < 2:
        result.fail("hook_call", f"`__call__` of {name} takes no event and data; define it as `{_CALL}`")
    else:
        result.succeed("hook_call", f"{name} is called as `await hook(event, data)`")
