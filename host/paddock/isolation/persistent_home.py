"""The private folder of a module with `state: keep`: one for each module, source and project, kept by the host.

A module finds there its own files of earlier sessions, under the same path. No other module, source, project or
instance shares the folder. A new version of the same source finds the files of the old one. It lies among the host's
own folders, which no module may write to, whatever it is granted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from paddock.plan.model import ModuleEntry
from paddock.state_folder import state_folder
from paddock_sources import SourceUriError, parse_source

_DIGITS: Final = 32  # of the digest: half of it distinguishes folders, and a path is for people too


@dataclass(frozen=True, slots=True)
class PersistentHome:
    """The owner of a kept folder: a module, from a source without its version, in a working directory.

    `instance` distinguishes several entries of the module.
    """

    module: str
    source: str
    project: Path
    instance: str = ""

    @classmethod
    def of(cls, entry: ModuleEntry, source: str, project: Path) -> PersistentHome:
        """Return the kept folder of the module of an entry, with its code from `source`."""
        return cls(entry.module, _without_version(source), project, entry.instance_id or "")

    def make(self, environ: Mapping[str, str]) -> Path:
        """Return the folder, made if need be for this user alone; a file beside it names its owner.

        Raises:
            OSError: it cannot be made.
        """
        homes = state_folder(environ) / "homes"
        whose = json.dumps(asdict(self), sort_keys=True, default=str)
        place = homes / hashlib.sha256(whose.encode()).hexdigest()[:_DIGITS]
        home = place / "home"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = place / "about.json"
        if not about.exists():
            about.write_text(whose + "\n", encoding="utf-8")
        return home


def _without_version(source: str) -> str:
    try:
        uri = parse_source(source)
    except SourceUriError:
        return source
    any_version = uri.at_any_version()
    return uri.text if any_version is None else any_version.text
