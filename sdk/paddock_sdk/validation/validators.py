"""The requirements on a module of each kind.

All kinds but hooks mount objects. The members that each object must have form a set of checks of their own; a kind
checks their values, and only on an object that has them all. For a hook a working `mount` is required; the handlers
that it registers are not checked.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from paddock_sdk.contract.models import ProviderInfo
from paddock_sdk.kernel.loading import TYPE_TO_MOUNT_POINT
from paddock_sdk.kernel.mounts import MULTI_POINTS, own_names
from paddock_sdk.testing import MockCoordinator
from paddock_sdk.validation.members import check_async, check_name, count_parameters, described, is_async
from paddock_sdk.validation.result import ValidationResult
from paddock_sdk.validation.validator import ModuleValidator

__all__ = ["ToolValidator", "ProviderValidator", "HookValidator", "OrchestratorValidator", "ContextValidator"]


def other_names(kind: str, coordinator: MockCoordinator) -> dict[str, str]:
    """Return the mounted name of each object of a kind that is mounted under another name than its own, by its own."""
    point = TYPE_TO_MOUNT_POINT[kind]
    return own_names(coordinator.mount_points[point]) if point in MULTI_POINTS else {}


class MountedObjectValidator(ModuleValidator):
    """Checks modules that mount one object or several."""

    #: What an object of this kind has, and whether it is something to call.
    members: ClassVar[Mapping[str, bool]]

    #: Its asynchronous methods: how each is called, and how many arguments that takes at least.
    _methods: ClassVar[Mapping[str, tuple[str, int]]]

    #: How such an object is mounted.
    mounted_by: ClassVar[str]

    @property
    def _point(self) -> str:
        return TYPE_TO_MOUNT_POINT[self.kind]

    def mounted(self, coordinator: MockCoordinator) -> list[Any]:
        """Return the mounted objects of this kind."""
        mounted = coordinator.mount_points[self._point]
        if self._point in MULTI_POINTS:
            return list(mounted.values())
        return [] if mounted is None else [mounted]

    def check_members(self, result: ValidationResult, obj: Any) -> None:
        """Add the checks of an object's single members."""
        for name, (called, at_least) in self._methods.items():
            check_async(result, f"{self.kind}_{name}", obj, name, at_least=at_least, called=called)

    def is_module(self, returned: Any) -> bool:
        return returned is not None and not self._missing(returned)

    def check(self, result: ValidationResult, coordinator: MockCoordinator, returned: Any) -> None:
        objects, called = self.mounted(coordinator), dict[int, str]()
        for own, name in other_names(self.kind, coordinator).items():
            called[id(coordinator.get(self._point, name))] = (
                f"; it is mounted as `{name:.60}`, and its own name is `{own:.60}`"
            )
        for obj in objects:
            kind, missing = type(obj).__name__, self._missing(obj)
            if missing:
                message = f"mount() mounted {_a(kind)}, which is no {self.kind}: it {'; it '.join(missing)}"
                result.fail("protocol_compliance", message)
            else:
                message = f"mount() mounted {_a(kind)}, which implements {self.kind.capitalize()} interface"
                result.succeed("protocol_compliance", message + called.get(id(obj), ""))
                self.check_members(result, obj)
        if not objects:
            self._check_returned(result, returned)

    def _check_returned(self, result: ValidationResult, returned: Any) -> None:
        if self.is_module(returned):
            message = (
                f"mount() returned {_a(self.kind)} without mounting it; a session only knows of one that was given to "
                f"`{self.mounted_by}`"
            )
            result.succeed("protocol_compliance", message)
            self.check_members(result, returned)
        elif callable(returned):
            message = (
                f"mount() returned a cleanup function and mounted no {self.kind} with this configuration, so there was "
                "nothing to look at"
            )
            result.warn("protocol_compliance", message, passed=True)
        else:
            given = "" if returned is None else f" and returned {_a(type(returned).__name__)}"
            message = f"No {self.kind} was mounted{given}; mount() has to `await {self.mounted_by}`"
            result.fail("protocol_compliance", message)

    def _missing(self, obj: Any) -> list[str]:
        """Return the reasons why an object is not of this kind, each as the end of a sentence about it."""
        missing = []
        for name, is_called in self.members.items():
            if not hasattr(obj, name):
                missing.append(f"has no `{name}`")
            elif is_called and not callable(getattr(obj, name)):
                missing.append(f"has a `{name}` that cannot be called")
        return missing


def _a(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


class ToolValidator(MountedObjectValidator):
    """Checks modules that mount tools."""

    kind = "tool"
    mounted_by = 'coordinator.mount("tools", tool, name=...)'
    members: ClassVar = {"name": False, "description": False, "execute": True}
    _methods: ClassVar = {"execute": ("execute(input)", 1)}

    def check_members(self, result: ValidationResult, obj: Any) -> None:
        check_name(result, "tool_name", obj)
        _check_description(result, obj)
        schema = getattr(obj, "input_schema", {})
        if isinstance(schema, dict):
            result.succeed("tool_input_schema", "`input_schema` is a dict, or not there")
        else:
            message = f"an `input_schema` is a dict with a JSON schema, not {type(schema).__name__}"
            result.warn("tool_input_schema", message)
        super().check_members(result, obj)


def _check_description(result: ValidationResult, tool: Any) -> None:
    try:
        description = tool.description
    except Exception as error:  # a property of a class we do not know
        result.fail("tool_description", f"reading the `description` raised {described(error)}")
        return
    if isinstance(description, str) and description:
        result.succeed("tool_description", "`description` is a text")
    else:
        result.warn("tool_description", f"models read the `description`; it has to be a text, not {description!r:.60}")


class ProviderValidator(MountedObjectValidator):
    """Checks modules that mount providers. Of a provider's methods only `get_info` is called, which calls no model."""

    kind = "provider"
    mounted_by = 'coordinator.mount("providers", provider, name=...)'
    members: ClassVar = {
        "name": False,
        "get_info": True,
        "list_models": True,
        "complete": True,
        "parse_tool_calls": True,
    }
    _methods: ClassVar = {"list_models": ("list_models()", 0), "complete": ("complete(request, **kwargs)", 1)}

    def check_members(self, result: ValidationResult, obj: Any) -> None:
        check_name(result, "provider_name", obj)
        _check_info(result, obj)
        super().check_members(result, obj)
        result.succeed("provider_parse_tool_calls", "parse_tool_calls() can be called")  # as `members` has it


def _check_info(result: ValidationResult, provider: Any) -> None:
    try:
        info = provider.get_info()
    except Exception as error:  # module code, which may need credentials for this
        result.warn("provider_get_info", f"get_info() raised {described(error)}")
        return
    if isinstance(info, ProviderInfo):
        result.succeed("provider_get_info", "get_info() returns a `ProviderInfo`")
        return
    if inspect.iscoroutine(info):
        info.close()
    result.fail("provider_get_info", f"get_info() has to return a `ProviderInfo`, not a {type(info).__name__}")


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
            name = type(returned).__name__
            result.succeed("protocol_compliance", f"mount() returned a {name}, which can be called")
            if not (is_async(returned) or is_async(getattr(returned, "__call__", None))):  # noqa: B004
                result.fail("hook_call", f"`__call__` of {name} is not asynchronous; define it as `{_CALL}`")
            elif count_parameters(returned) < 2:
                result.fail("hook_call", f"`__call__` of {name} takes no event and data; define it as `{_CALL}`")
            else:
                result.succeed("hook_call", f"{name} is called as `await hook(event, data)`")
        else:
            # Handlers may depend on the configuration, or be registered when the session is ready.
            result.succeed("protocol_compliance", "mount() registered no handler with this configuration")


class OrchestratorValidator(MountedObjectValidator):
    """Checks modules that mount an orchestrator."""

    kind = "orchestrator"
    mounted_by = 'coordinator.mount("orchestrator", orchestrator)'
    members: ClassVar = {"execute": True}
    _methods: ClassVar = {"execute": ("execute(prompt, context, providers, tools, hooks, **kwargs)", 5)}


class ContextValidator(MountedObjectValidator):
    """Checks modules that mount a context manager."""

    kind = "context"
    mounted_by = 'coordinator.mount("context", context)'
    _methods: ClassVar = {
        "add_message": ("add_message(message)", 1),
        "get_messages_for_request": ("get_messages_for_request(token_budget=None, provider=None)", 0),
        "get_messages": ("get_messages()", 0),
        "set_messages": ("set_messages(messages)", 1),
        "clear": ("clear()", 0),
    }
    members: ClassVar = dict.fromkeys(_methods, True)
