"""The folders in which Paddock keeps what its operator told it, and what it tells its operator: no module writes there.

They are made before anything starts: what is not there yet could otherwise be put there by a module that may write
around it, and would be believed the next time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from paddock.audit import state_folder
from paddock.policy import user_config_folder

_log = logging.getLogger(__name__)


def make_operator_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return these folders, without links; one that cannot be made is logged and left out."""
    made: list[Path] = []
    for make in (partial(_config_folder, environ), partial(state_folder, environ)):
        try:
            made.append(make().resolve())
        except OSError as error:
            _log.info("a folder for this user's settings cannot be made: %s", error)
    return tuple(made)


def _config_folder(environ: Mapping[str, str]) -> Path:
    folder = user_config_folder(environ)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
