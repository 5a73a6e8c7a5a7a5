"""What a module's author needs to run its code in a plain process: for a debugger, an editor or a type checker.

The process has the contract's package beside the module and all that it depends on, as a worker has. No sandbox is
around it, and Paddock's own interpreter runs it, so it is for an author's own code alone.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import paddock_sdk
from paddock.authoring.dev_requirements import dev_requirements
from paddock.authoring.module_folder import ModuleFolder, path_error
from paddock.authoring.provided import provided
from paddock.authoring.trial import TrialContext
from paddock.policy.programs import SEARCH_PATH, look_up
from paddock_sources import SourceError

_SCRIPT_NAME: Final = re.compile(r"[A-Za-z0-9_][\w.-]{0,99}", re.ASCII)
_OF_OTHERS: Final = re.compile(r"paddock|python", re.IGNORECASE)
_MAX_SCRIPTS: Final = 1000
_FUNCTION: Final = re.compile(r"\w+(?:\.\w+)*:\w+(?:\.\w+)*", re.ASCII)
# The shell starts Python, for which its line is text: the system takes no interpreter's path that has a space in it.
_SCRIPT: Final = """#!/bin/sh
'''exec' {python} "$0" "$@"
' '''
import sys
from {module} import {name}
sys.exit({function}())
"""
_OF_OURS: Final = (Path(paddock_sdk.__file__).parents[1], Path(paddock_sdk.__file__).parent / "stand_in")


@dataclass(frozen=True, slots=True)
class PlainEnvironment:
    """The `variables` of such a process beside the user's own; `libraries` were installed for it."""

    variables: Mapping[str, str]
    libraries: tuple[Path, ...]


async def plain_environment(trial_context: TrialContext, folder: ModuleFolder) -> PlainEnvironment:
    """Return the environment of such a process; what it names is fetched now.

    Raises:
        PaddockError: a requirement is unavailable.
    """
    try:
        needs = dev_requirements(folder.root)
    except SourceError as error:
        raise path_error(folder.root, error.summary, detail=error.detail, hints=error.hints) from error
    authorizer, fetch_options = trial_context.authorizer, trial_context.fetch_options
    async with provided(folder, authorizer.policy, fetch_options, needs) as (resolution, _):
        installed = tuple(resolution.libraries)
    libraries = [*map(str, _OF_OURS), *map(str, installed)]
    interpreter = os.path.dirname(sys.executable)
    variables = {
        # The author's own folder, and not the copy: what an editor changes is what runs.
        "PYTHONPATH": os.pathsep.join((str(folder.import_root), *libraries)),
        "PATH": os.pathsep.join((interpreter, fetch_options.environ.get("PATH", os.defpath))),
    }
    return PlainEnvironment(variables, installed)


def write_scripts(folder: Path, libraries: Iterable[Path]) -> tuple[str, ...]:
    """Write into a new folder the commands that packages in `libraries` have, as a virtual environment has them.

    Of two packages with a command of one name the first counts, as for imports. The environments of modules keep none:
    no sandboxed module may run them. Returns the names that are left out: a package takes the place of no program of
    the system, of Python or of Paddock. Those beyond a thousand are left out without a name, and so are the commands of
    a package whose list of them cannot be read.
    """
    from importlib.metadata import distributions  # it loads the standard library's package of mail

    beside_python = os.path.dirname(sys.executable)
    kept_first = [place for place in SEARCH_PATH if place != beside_python]
    left_out: dict[str, None] = {}
    written: set[str] = set()
    for one in distributions(path=[*map(str, libraries)]):
        try:
            scripts = list(one.entry_points.select(group="console_scripts"))
        except (ValueError, TypeError, AttributeError, OSError):
            continue  # a line without `=`, or bytes that are no text
        for script in scripts:
            if len(written) + len(left_out) == _MAX_SCRIPTS:
                return tuple(left_out)
            if script.name in written or not (
                _SCRIPT_NAME.fullmatch(script.name) and _FUNCTION.fullmatch(script.value)
            ):
                continue  # one that needs an extra, or no name of a program
            if _OF_OTHERS.match(script.name) or look_up(script.name, kept_first):
                left_out[script.name] = None
                continue
            written.add(script.name)
            module, _, function = script.value.partition(":")
            name = function.partition(".")[0]
            path = folder / script.name
            python = shlex.quote(sys.executable)
            text = _SCRIPT.format(python=python, module=module, name=name, function=function)
            path.write_text(text, encoding="utf-8")
            path.chmod(0o700)
    return tuple(left_out)
