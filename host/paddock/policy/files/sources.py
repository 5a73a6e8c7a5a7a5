"""The user's `sources.toml`: where modules come from instead of the plan's source, and which index serves packages.

It decides which code runs, so it is trusted like a policy: only the user and root may be able to write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from paddock.errors import PlanProblem, PolicyFileError
from paddock.plan.problems import path_text
from paddock.policy.files.owned_file import OperatorFile, user_config_folder
from paddock.policy.owner import Owner
from paddock_sources.settings import SettingsError, SourceSettings


def sources_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the settings of the user whose environment is `environ`, if the file exists."""
    return user_config_folder(environ) / "sources.toml"


def load_source_settings(environ: Mapping[str, str]) -> SourceSettings:
    """Return the settings of the user of this process; empty settings where the file is missing.

    Raises:
        PolicyFileError: The file cannot be trusted or understood.
    """
    path = sources_path(environ)
    return read_source_settings(path, Owner.current(environ)) or SourceSettings(origin=str(path))


def read_source_settings(path: Path, owner: Owner) -> SourceSettings | None:
    """Return the settings in the file at `path`, which only `owner` and root may write; None if it is missing.

    Raises:
        PolicyFileError: the file cannot be trusted or understood.
    """
    file = OperatorFile.read(path, owner)
    return None if file is None else _settings(file)


def _settings(file: OperatorFile) -> SourceSettings:
    try:
        return SourceSettings.of(
            file.table,
            origin=file.positions.file,
            place_of=lambda path: file.positions.place_of(path_text(*path)).text,
        )
    except SettingsError as error:
        located = file.error(PlanProblem(path_text(*one.path), one.message, one.hint) for one in error.problems)
        raise PolicyFileError(located.file, sorted(located.problems, key=lambda one: one.line or 0)) from None
