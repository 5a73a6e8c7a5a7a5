"""What a hook has to have: a `mount` that works. The handlers that it registers are not looked at."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from paddock_sdk.testing.mock_coordinator import MockCoordinator
from paddock_sdk.validation.members import count_parameters, is_async
from paddock_sdk.validation.result import ValidationResult
from paddock_sdk.validation.validator import ModuleValidator

__all__ = ["HookValidator"]

_CALL = "async def __call__(self, event, data)"


class HookValidator(ModuleValidator):
    """Checks modules that register handlers for events. No handler is called."""

    kind = "hook"

    def is_module(self, returned: Any) -> bool:
        # An object of a class that was written to be called with something, unlike a function to clean up with.
        is_function = inspect.isroutine(returned) or isinstance(returned, type | partial)
        return callable(returned) and not is_function and count_parameters(returned) > 0

    def check(self, result: ValidationResult, coordinator: MockCoordinator, returned: Any) -> None:
        handlers = coordinator.hooks.list_handlers()
        is_function = inspect.isfunction(returned) or inspect.ismethod(returned)
        if handlers:
            count = sum(len(names) for names in handlers.values())
            message = f"mount() registered handlers for events ({count} for {len(handlers)})"
            result.succeed("protocol_compliance", message)
        elif callable(returned) and not is_function:
            message = f"mount() returned a {type(returned).__name__}, which can be called"
            result.succeed("protocol_compliance", message)
            _check_call(result, returned)
        else:
            # Handlers may depend on the configuration, or be registered when the session is ready.
            result.succeed("protocol_compliance", "mount() registered no handler with this configuration")


def _check_call(result: ValidationResult, hook: Any) -> None:
    name = type(hook).__name__
    if not (is_async(hook) or is_async(getattr(hook, "__call__", None))):  # noqa: B004
        result.fail("hook_call", f"`__call__` of {name} is not asynchronous; define it as `{_CALL}`")
    elif count_parameters(hook) < 2:
        result.fail("hook_call", f"`__call__` of {name} takes no event and data; define it as `{_CALL}`")
    else:
        result.succeed("hook_call", f"{name} is called as `await hook(event, data)`")
