"""Find the code of a module without running any of it."""

from __future__ import annotations

from paddock_sources.builtin import BuiltinSource
from paddock_sources.errors import (
    LayerAnswer,
    ManifestError,
    ModuleIdError,
    SourceError,
    SourceUriError,
    UnresolvedError,
)
from paddock_sources.file import FileSource
from paddock_sources.manifest.read import ModuleManifest
from paddock_sources.module_id import checked_module_id, kind_of_id
from paddock_sources.resolution import Resolution
from paddock_sources.resolver import Resolver
from paddock_sources.uri import BuiltinUri, FolderUri, GitUri, PackageUri, SourceUri, parse_source

__all__ = [
    "LayerAnswer",
    "BuiltinSource",
    "BuiltinUri",
    "FileSource",
    "FolderUri",
    "GitUri",
    "ManifestError",
    "ModuleIdError",
    "ModuleManifest",
    "PackageUri",
    "Resolution",
    "Resolver",
    "SourceError",
    "SourceUri",
    "SourceUriError",
    "UnresolvedError",
    "checked_module_id",
    "kind_of_id",
    "parse_source",
]
