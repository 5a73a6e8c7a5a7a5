"""Run a module's tests in a sandbox: its own, or those that every module of its kind has to pass.

They run over a copy of the repository in the worker's private folder, with the stand-in of the contract, the module's
dependencies, and the packages that its developers install. They may run the system's programs; they reach no network,
and write nowhere else. The result comes from a process that also runs the module's code, which could forge it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from paddock.authoring.dev_requirements import RUNNERS, dev_requirements
from paddock.authoring.module_folder import ModuleFolder, path_error
from paddock.authoring.module_name import FOLDER_PREFIX
from paddock.authoring.provided import TrialNeeds
from paddock.authoring.trial import TrialContext, TrialSpec, run_trial
from paddock.plan.model import Kind
from paddock.plan.problems import StrictModel
from paddock_sources import Resolution, SourceError

_ENTRY: Final = "paddock_sdk.worker.trial:run_tests"
_LIMITS: Final[Mapping[str, object]] = {"runtime_max": "10min"}
_PERMISSIONS: Final[Mapping[str, object]] = {"run": ["*"]}  # tests start programs, and so does the code under test
_AS: Final[Kind] = "tool"  # of any module: without a session, the kind does not matter
_NOTHING_COLLECTED: Final = 5


class SuiteOutcome(StrictModel):
    """How pytest ended, by its own exit code."""

    code: Annotated[int, Field(ge=0, le=255)]

    @property
    def passed(self) -> bool:
        """Whether there were tests, and all of them passed."""
        return self.code == 0

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to run."""
        return self.code == _NOTHING_COLLECTED


async def run_own_tests(trial_context: TrialContext, folder: ModuleFolder, args: Sequence[str]) -> SuiteOutcome:
    """Run the module's own tests, with further arguments for pytest.

    Raises:
        ModuleDiedError: their process ended, or exceeded its time, before they did.
        PaddockError: a requirement is unavailable, or nothing can be started.
    """
    try:
        needs = dev_requirements(folder.root)
    except SourceError as error:
        raise path_error(folder.root, error.summary, detail=error.detail, hints=error.hints) from error
    return await _run(trial_context, folder, needs, args, ())


async def run_behavior_tests(trial_context: TrialContext, folder: ModuleFolder, kind: Kind) -> SuiteOutcome:
    """Run the tests that every module of that kind has to pass; raises as `run_own_tests` does."""
    bases = (f"{kind.capitalize()}BehaviorTests", f"Strict{kind.capitalize()}Tests")
    return await _run(trial_context, folder, TrialNeeds(more=RUNNERS), (), bases)


async def _run(
    trial_context: TrialContext, folder: ModuleFolder, needs: TrialNeeds, args: Sequence[str], bases: Sequence[str]
) -> SuiteOutcome:
    def trial(resolution: Resolution) -> TrialSpec:
        request = {**_place(folder, resolution), "args": list(args), "bases": list(bases), "columns": _columns()}
        return TrialSpec(_ENTRY, request, "its tests", _PERMISSIONS, _LIMITS)

    return await run_trial(
        trial_context, folder, _AS, needs, trial, lambda resolution, answer: SuiteOutcome.model_validate(answer)
    )


def _place(folder: ModuleFolder, resolution: Resolution) -> dict[str, Any]:
    """Return the folder to copy, and its destination: a folder with the usual name of a module's repository."""
    named = folder.root.name
    name = named if named.startswith(FOLDER_PREFIX) else FOLDER_PREFIX + resolution.module_id
    # A package without a repository around it stays importable under its name.
    into = resolution.root.name if resolution.package_dir == resolution.root else "."
    top = resolution.root.parent if into != "." else resolution.root
    return {
        "root": str(resolution.root),
        "folder": name,
        "into": into,
        "import_root": os.path.relpath(resolution.import_root, top),
        "package": os.path.relpath(resolution.package_dir, top),
        "libraries": [str(one) for one in resolution.libraries],
    }


def _columns() -> int:
    return shutil.get_terminal_size((100, 24)).columns
