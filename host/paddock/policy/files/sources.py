"""The user's `sources.toml`: where modules come from whatever a plan says, and which index serves packages.

It decides which code is run, so it is believed as policies are: only the user and root may be able to write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from paddock.errors import PlanProblem, PolicyFileError
from paddock.plan.formats.toml_lines import toml_lines
from paddock.plan.problems import path_text
from paddock.plan.source_map import Positions
from paddock.policy.files.owned_file import read_owned
from paddock.policy.files.policy import user_config_folder
from paddock.policy.owner import Owner
from paddock_sources.bounded_toml import TomlError, read_toml
from paddock_sources.settings import SettingProblem, SettingsError, SourceSettings


def sources_path(environ: Mapping[str, str]) -> Path:
    """Return where the settings of the user whose environment is `environ` are, if there are any."""
    return user_config_folder(environ) / "sources.toml"


def load_source_settings(environ: Mapping[str, str]) -> SourceSettings:
    """Return the settings of the user of this process; those of nothing where there is no file.

    Raises:
        PolicyFileError: The file cannot be relied on, or says something that is not understood.
    """
    path = sources_path(environ)
    text = read_owned(path, Owner.current(environ))
    return read_source_settings(text or "", str(path))


def read_source_settings(text: str, path: str) -> SourceSettings:
    """Return the settings that a file with this text holds.

    Raises:
        PolicyFileError: with everything in it that is not understood.
    """
    try:
        written = read_toml(text)
    except TomlError as error:
        raise PolicyFileError(path, [PlanProblem("", f"is {error.problem}", line=error.line)]) from None
    try:
        return SourceSettings.of(written, origin=path)
    except SettingsError as error:
        positions = Positions(path, partial(toml_lines, text))
        problems = [_located(one, positions) for one in error.problems]
        raise PolicyFileError(path, sorted(problems, key=lambda one: one.line or 0)) from None


def _located(problem: SettingProblem, positions: Positions) -> PlanProblem:
    place = path_text(*problem.path)
    return PlanProblem(place, problem.message, problem.hint, positions.line_of(place))
