"""The sources of a rule: `git+https://github.com/org/*`, `builtin:*`, `/home/x/modules/*`, a package, or `*`.

A `*` stands for part of a name and never for a slash, except at the end, where it stands for everything below; `*.`
before a host stands for all names below it. `commit:<digits>` and `sha256:<digits>`, the digest of files in a lock
file, stand for one version of code, wherever it comes from. A source that only resembles a pattern, by its case, its
scheme or its port, is recognised, so that the rule applies to it as well.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from paddock.plan.host_name import host_text, parse_host
from paddock.plan.problems import NotAcceptedError
from paddock.policy.source_name import (
    DEFAULT_PORTS,
    Family,
    SourceName,
    folded,
    plain_component,
    split_repository,
    without_git,
)
from paddock_sources.kinds.package_uri import package_key

_ACCEPTED: Final = (
    "a match is `*`, `builtin:<id>`, `git+https://host/path`, `git+*`, `file:///folder`, a package's name, "
    "`mcp+pypi:name`, `mcp+npm:name` or `mcp+command:/path`, "
    "each with `*` for part of a name, or at the end for all that is below; or `commit:<digits>`, or `sha256:<digits>`"
)
_PIN: Final = re.compile(r"commit:(?:[0-9a-f]{40}|[0-9a-f]{64})|sha256:[0-9a-f]{64}")
_PACKAGE: Final = re.compile(r"[A-Za-z0-9*](?:[A-Za-z0-9._*-]*[A-Za-z0-9*])?")
_MODULE_ID: Final = re.compile(r"[A-Za-z0-9*][A-Za-z0-9_*-]*")
_NPM_PACKAGE: Final = re.compile(r"(?:@[a-z0-9*][a-z0-9._*-]*/)?[a-z0-9*][a-z0-9._*-]*")
_STAR: Final = "*"

_Expressions = tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True)
class SourcePattern:
    """The sources that a rule applies to; `text` is their one spelling, `literal` counts all but stars."""

    text: str
    family: Family | Literal["pin"] | None = None
    scheme: str = ""
    host: str = ""
    port: int | None = None
    _paths: tuple[tuple[str, ...], ...] = field(default=(), repr=False, compare=False)  # `text`'s, and where it leads
    _exact: _Expressions = field(default=(), repr=False, compare=False)
    _loose: _Expressions = field(default=(), repr=False, compare=False)

    @classmethod
    def parse(cls, written: str) -> Self:
        """Return the pattern in a text that a person wrote.

        Raises:
            NotAcceptedError: it is no pattern, or names something that no rule can be about.
        """
        if written == _STAR:
            return cls(written)
        if _PIN.fullmatch(written):
            return cls(written, "pin")
        if written == "git+*":
            return cls(written, "git")
        if written.startswith("builtin:"):
            return cls._named("builtin", written.removeprefix("builtin:"), _MODULE_ID, written)
        if written.startswith("file://"):
            return cls._of_folder(written.removeprefix("file://").removeprefix("localhost"), written)
        if written.startswith("/"):
            return cls._of_folder(written, written)
        if written.startswith("git+"):
            return cls._of_repository(written)
        named = written.partition(":")[2]
        if written.startswith("mcp+pypi:"):
            return cls._named("mcp+pypi", package_key(named), _PACKAGE, written)
        if written.startswith("mcp+npm:"):
            return cls._named("mcp+npm", named, _NPM_PACKAGE, written)
        if written.startswith("mcp+command:"):
            return cls._of_folder(named, written, "mcp+command")
        if "/" not in written and ":" not in written:
            return cls._named("package", package_key(written), _PACKAGE, written)
        raise NotAcceptedError(f"`{written}` is of no known form", _ACCEPTED)

    @classmethod
    def _named(cls, family: Family, name: str, accepted: re.Pattern[str], written: str) -> Self:
        if not accepted.fullmatch(name) or "**" in name:
            raise NotAcceptedError(f"`{written}` names no module", _ACCEPTED)
        text = name if family == "package" else f"{family}:{name}"
        parts = name.split("/")
        return cls(
            text,
            family,
            _paths=(tuple(parts),),
            _exact=(_path(parts),),
            _loose=(_path(_folded(parts)),),
        )

    @classmethod
    def _of_folder(cls, path: str, written: str, family: Family = "folder") -> Self:
        if not path.startswith("/") or "**" in path:
            raise NotAcceptedError(f"`{written}` is no absolute path", _ACCEPTED)
        path = "/" + os.path.normpath(path).lstrip("/")
        paths, exact, loose = _of_path(path)
        text = f"file://{path}" if family == "folder" else f"{family}:{path}"
        return cls(text, family, _paths=paths, _exact=exact, _loose=loose)

    @classmethod
    def _of_repository(cls, written: str) -> Self:
        if "#" in written or "?" in written or "**" in written:
            raise NotAcceptedError(
                f"`{written}` says more than which repository",
                "leave out what follows `#` or `?`: a rule is for all of it",
            )
        scheme, host, port, path = split_repository(written.removeprefix("git+"))
        if "@" in path:
            raise NotAcceptedError(
                f"`{written}` has a ref", "leave out what follows `@`: a rule is for a repository at any ref"
            )
        if scheme not in (*DEFAULT_PORTS, "file"):
            raise NotAcceptedError(f"`{written}` has no scheme of a repository", _ACCEPTED)
        components = [plain_component(component) for component in path.split("/") if component]
        components = without_git(components, is_here=scheme == "file")
        if not components:
            raise NotAcceptedError(f"`{written}` names no repository", "write `/*` after the host for all of it")
        if scheme == "file":
            path = "/" + "/".join(components)
            paths, exact, loose = _of_path(path, is_repository=True)
            return cls(f"git+file://{path}", "git", scheme, _paths=paths, _exact=exact, _loose=loose)
        host = _host(host, written)
        text = f"git+{scheme}://{host}{f':{port}' if port else ''}/{'/'.join(components)}"
        exact, loose = (_path(components),), (_path(_folded(components)),)
        return cls(text, "git", scheme, host, port, (tuple(components),), exact, loose)

    @property
    def literal(self) -> int:
        """The number of characters that are no star: of two patterns, the one with more is the more specific."""
        return sys.maxsize if self.family == "pin" else len(self.text) - self.text.count(_STAR)

    def matches(self, name: SourceName) -> bool:
        """Whether the rule applies to a source by its exact name, or to its version."""
        if self.family == "pin":
            return self.text in name.pins
        if self.family is None or (self.family == name.family and not self._exact):
            return True
        return (
            self.family == name.family
            and self.scheme == name.scheme
            and self.port == name.port
            and self._is_host(name.host)
            and any(pattern.fullmatch(name.path) for pattern in self._exact)
        )

    def resembles(self, name: SourceName) -> bool:
        """Whether the rule applies to a source whose name could be another spelling of the pattern's."""
        if self.matches(name):
            return True
        is_local = {self.family, name.family} == {"git", "folder"} and "file" in (self.scheme, name.scheme)
        if self.family != name.family and not is_local:
            return False
        return self._is_host(name.host) and any(pattern.fullmatch(name.folded_path) for pattern in self._loose)

    def overlaps(self, other: SourcePattern) -> bool:
        """Whether one source could have both rules apply to it, by its exact name."""
        if self.family is None or other.family is None:
            return True
        if self.family != other.family or not self._paths or not other._paths:
            return self.family == other.family
        return (
            self.scheme == other.scheme
            and self.port == other.port
            and _meet(self.host, other.host)
            and any(_paths_meet(one, two) for one in self._paths for two in other._paths)
        )

    def _is_host(self, host: str) -> bool:
        if self.host == _STAR:
            return bool(host)
        if self.host.startswith("*."):
            return host.endswith(self.host[1:]) and len(host) > len(self.host) - 1
        return host == self.host


def _host(written: str, pattern: str) -> str:
    if written == _STAR:
        return written
    name = parse_host(written.removeprefix("*."))  # raises for a star anywhere else
    if written.startswith("*.") and not isinstance(name, str):
        raise NotAcceptedError(f"`{pattern}` has a star before an address", _ACCEPTED)
    return f"*.{name}" if written.startswith("*.") else host_text(name)


def _of_path(
    path: str, *, is_repository: bool = False
) -> tuple[tuple[tuple[str, ...], ...], _Expressions, _Expressions]:
    """Return the paths of a folder, as written and at the real place of its starless part, and the expressions."""
    components = [component for component in path.split("/") if component]
    stars = next((index for index, component in enumerate(components) if _STAR in component), len(components))
    real = os.path.realpath("/" + "/".join(components[:stars]))
    resolved = [*(part for part in real.split("/") if part), *components[stars:]]
    if is_repository:
        resolved = without_git(resolved, is_here=True)
    spellings = [components] if resolved == components else [components, resolved]
    exact = tuple(_path(one, root="/") for one in spellings)
    return tuple(map(tuple, spellings)), exact, tuple(_path(_folded(one), root="/") for one in spellings)


def _paths_meet(one: tuple[str, ...], two: tuple[str, ...]) -> bool:
    short, long = sorted((one, two), key=len)
    return (len(short) == len(long) or short[-1:] == (_STAR,)) and all(map(_meet, short, long))


def _meet(one: str, two: str) -> bool:
    """Return whether some text fits both patterns; `reached` says it of what was read, by beginnings of `two`."""
    reached = [not two[:end].strip(_STAR) for end in range(len(two) + 1)]
    for char in one:
        before, reached = reached, [char == _STAR and reached[0]]
        for end, other in enumerate(two, 1):
            can_skip = _STAR in (char, other) and (before[end] or reached[end - 1])
            reached.append(can_skip or (char == other and before[end - 1]))
    return reached[-1]


def _folded(components: list[str]) -> list[str]:
    return folded("/".join(components)).split("/")


def _path(components: list[str], root: str = "") -> re.Pattern[str]:
    expressions = ["[^/]*".join(map(re.escape, component.split(_STAR))) for component in components]
    if components and components[-1] == _STAR:
        expressions[-1] = "[^/]+(?:/[^/]+)*"
    return re.compile(root + "/".join(expressions), re.DOTALL)
