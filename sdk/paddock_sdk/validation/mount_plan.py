"""Check the shape of a mount plan before anything is loaded from it.

Only loading shows whether a module exists, or accepts its configuration. These checks are stricter than a session,
which also accepts an orchestrator and a context by their bare ids, and other sections that applications add.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from paddock_sdk.validation.result import CheckList, ValidationCheck

__all__ = ["MountPlanValidationResult", "MountPlanValidator"]

# In the order they are looked at.
_SINGLE_SPECS: Final = ("orchestrator", "context")
_LISTS: Final = ("providers", "tools", "hooks")
_SECTIONS: Final = ("session", *_LISTS, "agents")


@dataclass
class MountPlanValidationResult(CheckList):
    """The findings about one mount plan."""

    checks: list[ValidationCheck] = field(default_factory=list)

    def format_errors(self) -> str:
        """Return the errors as a numbered list, each with the name of its check, between a heading and their number."""
        if not self.errors:
            return "No errors"
        numbered = (f"  {number}. [{check.name}] {check.message}" for number, check in enumerate(self.errors, 1))
        return "\n".join(["Mount Plan Validation Failed:", "", *numbered, "", f"Total: {len(self.errors)} error(s)"])


class MountPlanValidator:
    """Checks mount plans."""

    REQUIRED_SECTIONS: ClassVar = {"session"}
    OPTIONAL_SECTIONS: ClassVar = {*_LISTS, "agents"}
    REQUIRED_SESSION_FIELDS: ClassVar = set(_SINGLE_SPECS)
    REQUIRED_MODULE_SPEC_FIELDS: ClassVar = {"module"}

    def validate(self, plan: Any) -> MountPlanValidationResult:
        """Check a plan and return the findings; no value of the plan makes this raise."""
        result = MountPlanValidationResult()
        if not isinstance(plan, dict):
            result.fail("root_type", f"a mount plan must be a dict, not {_kind(plan)}")
            return result
        result.succeed("root_type", "the mount plan is a dict")
        if "session" in plan:
            result.succeed("session_present", "`session` is there")
        else:
            result.fail("session_present", "`session` is missing; it names the orchestrator and the context")
        unknown = [str(section) for section in plan if section not in _SECTIONS]
        if unknown:
            named = ", ".join(f"`{section}`" for section in unknown)
            words = f"{named}: not among the sections of a mount plan ({', '.join(_SECTIONS)})"
            result.warn("unknown_sections", words)
        if "session" in plan:
            _check_session(result, plan["session"])
        for section in _LISTS:
            if section not in plan:
                continue
            if not isinstance(plan[section], list):
                result.fail(f"{section}_type", f"`{section}` must be a list, not {_kind(plan[section])}")
            elif not plan[section]:
                result.succeed(f"{section}_empty", f"`{section}` is empty: nothing is loaded from it")
            else:
                for index, spec in enumerate(plan[section]):
                    _check_spec(result, f"{section}[{index}]", spec)
        return result


def _check_session(result: CheckList, session: Any) -> None:
    if not isinstance(session, dict):
        result.fail("session_type", f"`session` must be a dict, not {_kind(session)}")
        return
    for name in _SINGLE_SPECS:
        if name in session:
            _check_spec(result, f"session.{name}", session[name])
        else:
            result.fail(f"session_{name}_present", f"`session.{name}` is missing; it names the module to use")


def _check_spec(result: CheckList, path: str, spec: Any) -> None:
    if not isinstance(spec, dict):
        written = f"; write {{module: {spec}}}" if isinstance(spec, str) and spec else ""
        result.fail(f"{path}_type", f"`{path}` must be a dict, not {_kind(spec)}{written}")
        return
    if "module" not in spec:
        result.fail(f"{path}_module_required", f"`{path}.module` is missing; expected is the id of a module")
    elif not isinstance(spec["module"], str):
        result.fail(f"{path}_module_type", f"`{path}.module` must be a string, not {_kind(spec['module'])}")
    elif not spec["module"]:
        result.fail(f"{path}_module_empty", f"`{path}.module` is empty; it is the id of a module")
    else:
        result.succeed(f"{path}_module_valid", f"`{path}.module` is {spec['module']}")
    for name, type_, wanted in (("config", dict, "dict"), ("source", str, "string")):
        if name in spec and not isinstance(spec[name], type_):
            result.fail(f"{path}_{name}_type", f"`{path}.{name}` must be a {wanted}, not {_kind(spec[name])}")


def _kind(value: Any) -> str:
    return {str: "text", type(None): "nothing"}.get(type(value), type(value).__name__)
