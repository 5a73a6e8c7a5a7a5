"""Names and versions of npm's packages, and the paths at which a package lies in the folder of a program."""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = r"[A-Za-z0-9~][A-Za-z0-9._~-]{0,99}"
NPM_NAME: Final = re.compile(rf"(?:@{_WORD}/)?(?!node_modules(?![A-Za-z0-9._~-])){_WORD}")
"""A package's name; those of old that have other characters are refused."""

NPM_VERSION: Final = re.compile(r"[0-9](?:[A-Za-z0-9.+-]{0,126}[A-Za-z0-9])?")

_FOLDER: Final = "/node_modules/"
_MAX_PATH: Final = 1000


def is_npm_path(path: str) -> bool:
    """Return whether a package may lie there: each below the `node_modules` of the one that needs it."""
    before, *names = f"/{path}".split(_FOLDER)
    return not before and bool(names) and len(path) <= _MAX_PATH and all(map(NPM_NAME.fullmatch, names))
