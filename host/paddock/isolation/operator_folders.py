"""The folders that decide what Paddock does the next time; no module writes to them.

They hold the operator's settings, Paddock's reports to the operator, the code that was fetched for modules, and the
packages that the user's interpreters load by themselves. They are made before anything starts: otherwise a module with
write access around a missing folder could make it, and the next run would trust it. For the same reason a link on the
way to one is as much a part of it as its contents.
"""

from __future__ import annotations

import logging
import site
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from paddock.audit import state_folder, state_path
from paddock.errors import PolicyFileError
from paddock.policy.files.policy import user_config_folder
from paddock.policy.files.sources import load_source_settings
from paddock.policy.guarded_paths import links_on_the_way
from paddock_sources.cache import SourceCache
from paddock_sources.uri import FolderUri

_log = logging.getLogger(__name__)


def make_operator_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return these folders, without links, and the links on the way; a folder that cannot be made is left out."""
    made: list[Path] = []
    for make in (
        partial(_config_folder, environ),
        partial(state_folder, environ),
        partial(_cache_folder, environ),
        _user_packages,
    ):
        try:
            made.append(make().resolve())
        except OSError as error:
            _log.info("a folder for this user's settings cannot be made: %s", error)
    named = (user_config_folder(environ), state_path(environ), SourceCache.place_of_user(environ))
    links = (link for folder in (*named, Path(site.getusersitepackages())) for link in links_on_the_way(folder))
    return (*made, *links, *_folders_of_settings(environ))


def _folders_of_settings(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the existing folders that the user's settings take modules from, independent of the plan."""
    try:
        settings = load_source_settings(environ)
    except PolicyFileError:
        return  # reported by the code that needs them
    folders = [uri.folder for uri in settings.modules.values() if isinstance(uri, FolderUri)]
    for folder in (*folders, *([settings.workspace] if settings.workspace is not None else ())):
        if folder.is_dir():
            yield folder.resolve()


def _config_folder(environ: Mapping[str, str]) -> Path:
    folder = user_config_folder(environ)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of fetched code, which is run again without being looked at."""
    with SourceCache.of_user(environ) as cache:
        cache.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cache.folder


def _user_packages() -> Path:
    """Return the folder whose contents this interpreter runs whenever it starts, if it does."""
    if not site.ENABLE_USER_SITE:
        raise FileNotFoundError("this interpreter has none")
    folder = Path(site.getusersitepackages())
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    return folder
