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
from pathlib import Path

from paddock.errors import PolicyFileError
from paddock.policy.files.owned_file import user_config_folder
from paddock.policy.files.sources import load_source_settings
from paddock.policy.guarded_paths import links_on_the_way
from paddock.state_folder import state_path
from paddock_sources.cache.source_cache import place_of_user
from paddock_sources.uri import FolderUri

_log = logging.getLogger(__name__)


def make_operator_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return these folders, without links, and the links on the way; a folder that cannot be made is left out."""
    made: list[Path] = []
    packages = (Path(site.getusersitepackages()),) if site.ENABLE_USER_SITE else ()
    settings = user_config_folder(environ)
    # Fetched code is run again without being looked at, and packages whenever this interpreter starts.
    for folder in (settings, state_path(environ), place_of_user(environ), *packages):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            files = folder.iterdir() if folder == settings else ()  # may be links to where their user keeps others
            made += (folder.resolve(), *(link for path in (folder, *files) for link in links_on_the_way(path)))
        except OSError as error:
            _log.info("a folder for this user's settings cannot be made: %s", error)
    return (*made, *_folders_of_settings(environ))


def _folders_of_settings(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the existing folders that the user's settings take modules from, independent of the plan."""
    try:
        settings = load_source_settings(environ)
    except PolicyFileError:
        return  # reported by the code that needs them
    folders = [uri.folder for uri in settings.modules.values() if isinstance(uri, FolderUri)]
    mirrors = [Path(one) for one in settings.mirrors.by_prefix.values() if one.startswith("/")]
    for folder in (*folders, *mirrors, *([settings.workspace] if settings.workspace is not None else ())):
        if folder.is_dir():
            yield folder.resolve()
