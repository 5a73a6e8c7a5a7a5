"""The private folder of a module that says `state: keep`: one for each module, source and project, kept by the host.

A module finds there what it left in earlier sessions, under the same path, and no other module's: neither another
module of the same source, nor another source, nor another project, nor another instance shares it. A new version of the
same source finds what the old one left. Among the host's own folders, which no module may write to whatever it is
granted.

The modules of one source once shared a folder. The first of them to ask for one of its own takes over what is there,
once, and the person is told of it: whose it was cannot be told any more.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paddock.audit import state_folder
from paddock.plan.models import ModuleEntry
from paddock_sources import SourceUri, SourceUriError
from paddock_sources.uri import GitUri, PackageUri

_log = logging.getLogger(__name__)

_DIGITS: Final = 32  # of the digest: half of it tells folders apart, and a path is for people too


@dataclass(frozen=True, slots=True)
class KeptHome:
    """Whose folder it is: a module's, from a source without its version, in a working directory.

    `instance` tells several entries of the module apart.
    """

    module: str
    source: str
    project: Path
    instance: str = ""

    @classmethod
    def of(cls, entry: ModuleEntry, source: str, project: Path) -> KeptHome:
        """Return whose folder the module of an entry gets, with its code from `source`."""
        return cls(entry.module, _without_version(source), project, entry.instance_id or "")

    def make(self, environ: Mapping[str, str]) -> Path:
        """Return the folder, made if need be for this user alone; beside it stands whose it is.

        Raises:
            OSError: it cannot be made.
        """
        homes = state_folder(environ) / "homes"
        shared = {"source": self.source, "project": str(self.project), "instance": self.instance}
        whose = {"module": self.module, **shared}
        place = homes / _name_of(whose)
        if not place.exists():
            self._take_over(homes / _name_of(shared), place)
        home = place / "home"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = place / "about.json"
        if not about.exists():
            about.write_text(_text_of(whose) + "\n", encoding="utf-8")
        return home

    def _take_over(self, shared: Path, place: Path) -> None:
        """Have what all modules of the source left in one folder be at `place`, unless somebody else is quicker."""
        try:
            shared.rename(place)
        except OSError:
            if shared.exists() and not place.exists():
                raise
            return
        (place / "about.json").unlink(missing_ok=True)  # it says the same of other modules
        _log.warning(
            "`%s` now has for itself what all modules of %s kept in one folder; another of them that misses something "
            "finds it in %s",
            *(self.module, self.source, place / "home"),
        )


def _name_of(whose: Mapping[str, str]) -> str:
    return hashlib.sha256(_text_of(whose).encode()).hexdigest()[:_DIGITS]


def _text_of(whose: Mapping[str, str]) -> str:
    return json.dumps(whose, sort_keys=True)


def _without_version(source: str) -> str:
    try:
        uri = SourceUri.parse(source)
    except SourceUriError:
        return source
    match uri:
        case GitUri():
            return f"git+{uri.url}#subdirectory={uri.subdirectory}" if uri.subdirectory else f"git+{uri.url}"
        case PackageUri():
            return uri.name
    return uri.text
