"""The permissions that a module's manifest asks for: `permissions` under `[tool.paddock]` of its `pyproject.toml`.

They are read as data. The module's author wrote them; they neither grant nor limit anything. They are shown when a
module is added, and compared when it is updated. Families and grants that this version does not know are kept, so that
no new request stays unseen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from paddock_sources.bounded_toml import TomlError, read_toml
from paddock_sources.errors import ManifestError
from paddock_sources.tree import SourceTree

_MAX_FAMILIES: Final = 32
_MAX_GRANTS: Final = 200  # of one family; no person reads more before accepting
_MAX_CHARACTERS: Final = 500  # of a grant

# The meanings of presets in a plan, each under the version of this table that began it, the first under 1. None of them
# changes, as accepted plans keep theirs: another one goes under the next version. Their paths lie in the working
# directory. Kept here to understand requests, not to grant them.
PRESETS: Final[Mapping[str, Mapping[int, Mapping[str, tuple[str, ...]]]]] = MappingProxyType(
    {
        "isolated": {1: {}},
        "workspace-read": {1: {"read": (".",)}, 3: {"read": (".", "!@secrets")}},
        "workspace": {1: {"read": (".",), "write": (".",)}, 3: {"read": (".", "!@secrets"), "write": (".",)}},
        "shell": {
            1: {"read": (".",), "write": (".",), "run": ("*",)},
            2: {"read": (".",), "write": (".",), "run": ("*",), "net": ("self",)},
            3: {"read": (".", "!@secrets"), "write": (".",), "run": ("*",), "net": ("self",)},
        },
    }
)
PRESETS_VERSION: Final = max(since for meanings in PRESETS.values() for since in meanings)
_WHOLE_FAMILIES: Final = ("run", "call", "emit", "hooks")  # families in which `*` stands for everything
_EVERYTHING: Final = "*"
_MAX_BYTES: Final = 256 * 1024


def preset_table(preset: str, version: int | None = None) -> Mapping[str, tuple[str, ...]]:
    """Return a preset's grants by family, in that version of the presets; by default in the newest.

    In a version that is not known, as a newer Paddock or an edited file may name it, they are those of the first.
    """
    known = PRESETS_VERSION if version is None else version if 1 <= version <= PRESETS_VERSION else 1
    meanings = PRESETS[preset]
    return meanings[max(since for since in meanings if since <= known)]


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """The requested grants, by family, in the order of the manifest; each grant is one line of text.

    `written` is the value in the manifest, which a plan can contain as it is.
    """

    grants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    written: object = None

    @classmethod
    def read(cls, root: Path) -> PermissionRequest | None:
        """Return the permissions that the manifest in the folder `root` asks for; None where it has none.

        Raises:
            ManifestError: it cannot be read, or its form cannot be shown and compared.
        """
        table, path = read_paddock_table(root), root.resolve() / "pyproject.toml"
        if "permissions" not in table:
            return None
        try:
            return cls.of(table["permissions"])
        except ValueError as error:
            raise ManifestError(path, f"`tool.paddock.permissions`: {error}") from error

    @classmethod
    def of(cls, written: object) -> PermissionRequest:
        """Return the request that a manifest writes so.

        Raises:
            ValueError: it is neither the name of a preset nor lists of grants by family.
        """
        if isinstance(written, str):
            return cls({"preset": (_checked(written),)}, written)
        if not isinstance(written, Mapping):
            raise ValueError("it is neither the name of a preset nor a table")
        if len(written) > _MAX_FAMILIES:
            raise ValueError(f"it has more than {_MAX_FAMILIES} families")
        grants = {_checked(family): tuple(_grants(family, values)) for family, values in written.items()}
        return cls({family: values for family, values in grants.items() if values}, written)

    @property
    def lines(self) -> tuple[str, ...]:
        """The request, a line for each grant: `net api.example.org`."""
        return tuple(f"{family} {grant}" for family, grants in self.grants.items() for grant in grants)

    def expanded(self) -> Mapping[str, frozenset[str]]:
        """Return the request with a preset replaced by its grants, and without what it excludes."""
        preset = self.grants.get("preset", ("",))[0]
        tables = preset_table(preset) if preset in PRESETS else self.grants
        return {
            family: frozenset(one for one in grants if family != "read" or not one.startswith("!"))
            for family, grants in tables.items()
        }


@dataclass(frozen=True, slots=True)
class PermissionDifference:
    """The grants that one request has and another has not, as lines."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def asks_more(self) -> bool:
        """Whether the user has to be asked."""
        return bool(self.added)


def permissions_digest(request: PermissionRequest | None) -> str:
    """Return the digest of a request for a lock file: equal for equal requests."""
    asked = {} if request is None else {family: sorted(grants) for family, grants in request.expanded().items()}
    canonical = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{sha256(canonical.encode('ascii')).hexdigest()}"


def difference(old: PermissionRequest | None, new: PermissionRequest | None) -> PermissionDifference:
    """Return the grants that only `new` asks for, and those that only `old` asked for.

    A grant that a `*` of the same family covered is not new. All other grants are compared as text.
    """
    before = {} if old is None else old.expanded()
    after = {} if new is None else new.expanded()
    return PermissionDifference(tuple(_missing(after, before)), tuple(_missing(before, after)))


def _missing(of: Mapping[str, frozenset[str]], among: Mapping[str, frozenset[str]]) -> Iterator[str]:
    for family in sorted(of):
        there = among.get(family, frozenset())
        if family in _WHOLE_FAMILIES and _EVERYTHING in there:
            continue
        for grant in sorted(of[family] - there):
            yield f"{family} {grant}"


def _grants(family: str, values: object) -> Iterator[str]:
    if not isinstance(values, list | tuple):
        raise ValueError(f"`{family}` is not a list")
    if len(values) > _MAX_GRANTS:
        raise ValueError(f"`{family}` has more than {_MAX_GRANTS} grants")
    yield from dict.fromkeys(_grant(family, value) for value in values)


def _grant(family: str, value: object) -> str:
    if isinstance(value, str):
        return _checked(value)
    if isinstance(value, Mapping) and isinstance(value.get("name"), str) and set(value) <= {"name", "inject"}:
        inject = value.get("inject")
        if inject is None:
            return _checked(value["name"])
        if isinstance(inject, str):
            return f"{_checked(value['name'])}, put in at {_checked(inject)}"
    raise ValueError(f"`{family}` has something that is no grant")


def _checked(text: str) -> str:
    if not text.strip() or len(text) > _MAX_CHARACTERS:
        raise ValueError("it has a text that is empty or too long")
    return text


def read_paddock_table(root: Path) -> Mapping[str, Any]:
    """Return the table of the module in the folder `root`; it is empty where the file or the table is missing.

    Raises:
        ManifestError: the file cannot be read as TOML, or has something else in the table's place.
    """
    tree = SourceTree(root)
    content = tree.read("pyproject.toml", limit_bytes=_MAX_BYTES)
    if content is None:
        return {}
    path = tree.root / "pyproject.toml"
    try:
        table: Any = read_toml(content)
    except TomlError as error:
        raise ManifestError(path, f"it is {error.problem}") from error
    for key in ("tool", "paddock"):
        table = table.get(key, {})
        if not isinstance(table, dict):
            raise ManifestError(path, f"`{key}` is not a table")
    found: Mapping[str, Any] = table
    return found
