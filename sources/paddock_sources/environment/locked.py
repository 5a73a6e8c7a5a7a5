"""A package at a version, with the hashes its files may have."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.errors import SourceError

if TYPE_CHECKING:
    from paddock_sources.cache import SourceCache

SITE = "site"  # the folder of an environment's entry that goes on `sys.path`

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,126}[a-z0-9])?")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.!+_-]{0,127}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_HASHES = 10_000
_LAYOUT = "1"  # of an environment's folder; another number makes all of them again


@dataclass(frozen=True, slots=True, order=True)
class LockedDistribution:
    """`name` is normalised; `hashes` are `sha256:<hex>`, of each file that the index has of the version.

    Raises:
        SourceError: a value has another form; uv never prints such text.
    """

    name: str
    version: str
    hashes: tuple[str, ...]

    def __post_init__(self) -> None:
        label = f"{self.name}=={self.version}"
        if not _NAME.fullmatch(self.name) or "--" in self.name:
            raise _unpinned(label, "its name is not a normalised one")
        if not _VERSION.fullmatch(self.version):
            raise _unpinned(label, "its version is none")
        if not 0 < len(self.hashes) <= _MAX_HASHES or not all(map(_HASH.fullmatch, self.hashes)):
            raise _unpinned(label, "it needs hashes, of the form `sha256:<64 digits>`")

    def is_version(self, wanted: str) -> bool:
        """Whether its version is the wanted one, however the two are spelled."""
        if self.version == wanted:
            return True
        from packaging.version import InvalidVersion, Version

        try:
            return Version(self.version) == Version(wanted)
        except InvalidVersion:
            return False


def environment_digest(locked: Iterable[LockedDistribution], python: Interpreter) -> str:
    """Return the digest that identifies the environment with these distributions for that interpreter."""
    return _digest("index", python, sorted((one.name, one.version, *sorted(one.hashes)) for one in locked))


def installed(locked: Iterable[LockedDistribution], *, cache: SourceCache, python: Interpreter) -> Path | None:
    """Return the folder for `sys.path` that has exactly these, if the cache has it."""
    from paddock_sources.cache import Bucket

    entry = cache.store(Bucket.ENVIRONMENTS).get(environment_digest(locked, python))
    return entry / SITE if entry is not None else None


def copied_digest(files: Mapping[str, str], python: Interpreter) -> str:
    """Return the digest that identifies the environment with these files, given the hash of each."""
    return _digest("installed", python, sorted(files.items()))


def without_preloaded(
    locked: Iterable[LockedDistribution], preloaded: Mapping[str, str]
) -> tuple[LockedDistribution, ...]:
    """Return those that a runtime which brings `preloaded` (name to version) does not have at the same version."""
    return tuple(one for one in locked if preloaded.get(one.name) != one.version)


def _digest(kind: str, python: Interpreter, content: object) -> str:
    text = json.dumps([_LAYOUT, kind, python.tag, python.platform, content])
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _unpinned(text: str, problem: str) -> SourceError:
    """Return the error for a pinned distribution that nothing could install."""
    summary = f"`{text}` is no pinned package: {problem}"
    return SourceError(summary, code="LockedDistributionError", hints=["lock the module again"])
