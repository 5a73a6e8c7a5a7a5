"""What a module's author needs to run its code in a plain process: for a debugger, an editor or a type checker.

The process has the contract's package beside the module and all that it depends on, as a worker has. No sandbox is
around it, and Paddock's own interpreter runs it, so it is for an author's own code alone.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import paddock_sdk
from paddock.authoring.dev_requirements import dev_requirements
from paddock.authoring.module_folder import ModuleFolder, path_error
from paddock.authoring.provided import provided
from paddock.authoring.trial import TrialContext
from paddock.isolation.sandbox_host import SandboxHost
from paddock_sources import SourceError

_SCRIPT_NAME: Final = re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII)
_FUNCTION: Final = re.compile(r"[\w.]+:[\w.]+", re.ASCII)
_SCRIPT: Final = "#!{python}\nimport sys\nfrom {module} import {name}\nsys.exit({function}())\n"
_OF_OURS: Final = (Path(paddock_sdk.__file__).parents[1], Path(paddock_sdk.__file__).parent / "stand_in")


async def plain_environment(trial_context: TrialContext, folder: ModuleFolder) -> Mapping[str, str]:
    """Return the variables that such a process has beside the user's own; what they name is fetched now.

    Raises:
        PaddockError: a requirement is unavailable.
    """
    try:
        needs = dev_requirements(folder.root)
    except SourceError as error:
        raise path_error(folder.root, error.summary, detail=error.detail, hints=error.hints) from error
    authorizer, fetch_options = trial_context.authorizer, trial_context.fetch_options
    async with (
        SandboxHost.started() as host,
        provided(folder, authorizer.policy, fetch_options, needs, host) as resolution,
    ):
        libraries = [*map(str, _OF_OURS), *map(str, resolution.libraries)]
    interpreter = os.path.dirname(sys.executable)
    return {
        # The author's own folder, and not the copy: what an editor changes is what runs.
        "PYTHONPATH": os.pathsep.join((str(folder.import_root), *libraries)),
        "MYPYPATH": os.pathsep.join(libraries[: len(_OF_OURS)]),
        "PATH": os.pathsep.join((interpreter, fetch_options.environ.get("PATH", os.defpath))),
    }


def write_scripts(folder: Path, libraries: Iterable[str]) -> None:
    """Write into a new folder the commands that packages in `libraries` have, as a virtual environment has them.

    The environments of modules keep none: no sandboxed module may run them.
    """
    from importlib.metadata import distributions  # it loads the standard library's package of mail

    for one in distributions(path=list(libraries)):
        for script in one.entry_points.select(group="console_scripts"):
            if not (_SCRIPT_NAME.fullmatch(script.name) and _FUNCTION.fullmatch(script.value)):
                continue  # one that needs an extra, or no name of a program
            module, _, function = script.value.partition(":")
            name = function.partition(".")[0]
            path = folder / script.name
            path.write_text(_SCRIPT.format(python=sys.executable, module=module, name=name, function=function))
            path.chmod(0o700)
