"""Find out, by importing and mounting it in a sandbox, whether a module is what hosts expect of its kind.

The worker runs nothing but the module and Paddock's checks, and is gone afterwards. It gets the configuration and the
variables of the environment that its author names for it, and no other grants. Its report is
bounded and checked here. The module's code shares a process with the checks, so it could forge their outcome: the
report helps authors with their own work, and guarantees nothing to anybody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from paddock.authoring.module_folder import ModuleFolder
from paddock.authoring.provided import TrialNeeds
from paddock.authoring.trial import TrialContext, TrialSpec, run_trial
from paddock.plan.model import Kind
from paddock.plan.problems import StrictModel
from paddock_sdk.validation.result import ValidationCheck, ValidationResult
from paddock_sources import Resolution

_ENTRY: Final = "paddock_sdk.worker.trial:validate"
_LIMITS: Final[Mapping[str, object]] = {"runtime_max": "60s"}  # importing a vendor's SDK on a busy machine takes ten
_MAX_CHECKS: Final = 200
_MAX_NAME: Final = 100
_MAX_MESSAGE: Final = 4000


class _Check(StrictModel):
    name: Annotated[str, StringConstraints(min_length=1, max_length=_MAX_NAME)]
    passed: bool
    message: Annotated[str, StringConstraints(max_length=_MAX_MESSAGE)]
    severity: Literal["error", "warning", "info"]


class _Checks(StrictModel):
    checks: Annotated[list[_Check], Field(min_length=1, max_length=_MAX_CHECKS)]


async def validate(trial_context: TrialContext, folder: ModuleFolder, kind: Kind) -> ValidationResult:
    """Return the findings about the module in a folder, taken as one of that kind.

    Raises:
        ModuleDiedError: its process ended, or exceeded its time, before that was known.
        PaddockError: a requirement is unavailable, or nothing can be started.
    """

    def read(resolution: Resolution, answer: object) -> ValidationResult:
        checks = [_own(one, folder, resolution) for one in _Checks.model_validate(answer).checks]
        return ValidationResult(kind, str(folder.package_dir), checks=checks)

    return await run_trial(trial_context, folder, kind, TrialNeeds(), partial(_trial, kind), read)


def _trial(kind: Kind, resolution: Resolution) -> TrialSpec:
    is_usual = (resolution.package, resolution.attribute) == (resolution.package_dir.name, "mount")
    request = {
        "kind": kind,
        "entry_point": None if is_usual else resolution.module_id,
        "package_dir": str(resolution.package_dir),
        "import_root": str(resolution.import_root),
        "libraries": [str(one) for one in resolution.libraries],
    }
    return TrialSpec(_ENTRY, request, "its validation", {}, _LIMITS)


def _own(check: _Check, folder: ModuleFolder, resolution: Resolution) -> ValidationCheck:
    """Return a check with the paths of the copy replaced by those of the author's own folder."""
    message = check.message.replace(str(resolution.root), str(folder.root))
    return ValidationCheck(check.name, check.passed, message, check.severity)
