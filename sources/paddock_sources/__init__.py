"""Find the code of a module without running any of it."""

from __future__ import annotations

from .builtin import BuiltinSource
from .errors import (
    Attempt,
    ManifestError,
    ModuleIdError,
    ModuleLayoutError,
    RefusedKindError,
    SourceError,
    SourceUnavailableError,
    SourceUriError,
    UnresolvedError,
)
from .file import FileSource
from .manifest import ModuleManifest
from .module_id import checked_module_id, kind_of_id
from .resolution import Resolution
from .resolver import Resolver, Source
from .uri import BuiltinUri, FolderUri, GitUri, PackageUri, SourceUri

__all__ = [
    "Attempt",
    "BuiltinSource",
    "BuiltinUri",
    "FileSource",
    "FolderUri",
    "GitUri",
    "ManifestError",
    "ModuleIdError",
    "ModuleLayoutError",
    "ModuleManifest",
    "PackageUri",
    "RefusedKindError",
    "Resolution",
    "Resolver",
    "Source",
    "SourceError",
    "SourceUnavailableError",
    "SourceUri",
    "SourceUriError",
    "UnresolvedError",
    "checked_module_id",
    "kind_of_id",
]
