"""The user's settings of where modules come from: the values of `sources.toml`.

```toml
workspace = "/home/me/modules"                  # a folder of folders, each called as the id of its module
constraints = ["mcp<2"]                         # on the versions of what modules depend on

[modules]
"tool-x" = "git+https://github.com/org/tool-x@v1"
"tool-y" = { type = "git", url = "https://github.com/org/many", subdirectory = "tool-y" }

[mirrors]
"https://github.com/" = "https://git.example.org/mirror/"    # or a folder; both stand for all addresses below them

[bundles]
"ours" = "git+https://git.example.org/bundles@main"            # by a word on a command line

[index]
url = "https://pypi.example.org/simple"
hosts = ["files.example.org:443"]               # that serve its files, besides its own

[npm]
registry = "https://npm.example.org"            # of servers in npm packages; with `hosts` as above
```

Unknown keys and values are refused, with all problems at once. The reader of the file checks who may have written it,
and finds the lines of the problems.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self, TypeVar
from urllib.parse import urlsplit

from paddock_sources.constraints import MAX_CONSTRAINTS, Constraint, ConstraintTextError
from paddock_sources.errors import ModuleIdError, SourceError, SourceUriError
from paddock_sources.mirrors import Mirrors, prefix_of, target_of
from paddock_sources.module_id import checked_module_id
from paddock_sources.similar_names import meant
from paddock_sources.uri import SourceUri, parse_source

_Value = TypeVar("_Value")

_MAX_LENGTH: Final = 4096  # PATH_MAX, and more than any address of an index
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
_MAX_PORT: Final = 65535
_HOST_NAME: Final = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*"
)
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_HOST_AND_PORT: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """One problem of the settings: the keys that lead to it, its description, and a remedy."""

    path: tuple[str | int, ...]
    message: str
    hint: str = ""


class SettingsError(SourceError):
    """Raised for settings that are not understood; `problems` is everything wrong with them."""

    def __init__(self, problems: Iterable[SettingProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(
            "the settings of sources are not understood",
            detail=[f"{'.'.join(map(str, one.path))}: {one.message}" for one in self.problems],
            hints=dict.fromkeys(one.hint for one in self.problems if one.hint),
        )


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Where packages come from: an index or a registry, empty for the usual one; `hosts` (`host:port`) serve files."""

    url: str = ""
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """All of the settings; without any, the defaults. `origin` is the file that they came from, for messages.

    `constraints` are on what modules depend on. `bundles` are addresses by words.
    """

    workspace: Path | None = None
    modules: Mapping[str, SourceUri] = field(default_factory=lambda: MappingProxyType({}))
    index: IndexSettings = field(default_factory=IndexSettings)
    origin: str = "sources.toml"
    constraints: tuple[Constraint, ...] = ()
    mirrors: Mirrors = field(default_factory=Mirrors)
    bundles: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    npm: IndexSettings = field(default_factory=IndexSettings)

    @classmethod
    def of(
        cls,
        written: Mapping[str, object],
        *,
        origin: str = "sources.toml",
        place_of: Callable[[tuple[str | int, ...]], str] | None = None,
    ) -> Self:
        """Return the settings that a file's content is. `place_of` names a place in the file, given its keys.

        Raises:
            SettingsError: with everything in it that is not understood.
        """
        reading = _Reading()
        reading.check_keys(written, ("workspace", "constraints", "modules", "mirrors", "bundles", "index", "npm"), ())
        settings = cls(
            reading.value(written, ("workspace",), _workspace),
            MappingProxyType(dict(reading.modules(reading.table(written, "modules")))),
            reading.index(written, "index", "url", "name the address with it in the environment: UV_DEFAULT_INDEX"),
            origin,
            tuple(reading.constraints(written.get("constraints", []), place_of or (lambda path: origin))),
            Mirrors(MappingProxyType(dict(reading.addresses(written, "mirrors", _mirror)))),
            MappingProxyType(dict(reading.addresses(written, "bundles", _bundle))),
            reading.index(written, "npm", "registry", "a registry that asks for a password cannot be used"),
        )
        if reading.problems:
            raise SettingsError(reading.problems)
        return settings


class _NotAcceptedError(Exception):
    """Raised by a reader of a single value."""

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem = problem
        self.hint = hint
        super().__init__(problem)


class _Reading:
    """The reading of one file's content, with the problems found."""

    def __init__(self) -> None:
        self.problems: list[SettingProblem] = []

    def check_keys(self, table: Mapping[str, object], known: tuple[str, ...], path: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                hint = meant(key, known, f"known here: {', '.join(known)}", is_vocabulary=True)
                self.problems.append(SettingProblem((*path, key), f"unknown key `{key}`", hint))

    def table(self, written: Mapping[str, object], key: str) -> Mapping[str, object]:
        value = written.get(key, {})
        if isinstance(value, Mapping):
            return value
        self.problems.append(SettingProblem((key,), f"must be a table, is {_type(value)}", f"write `[{key}]`"))
        return {}

    def value(
        self, table: Mapping[str, object], path: tuple[str, ...], accepted: Callable[[str], _Value]
    ) -> _Value | None:
        return self._accepted(table[path[-1]], path, accepted) if path[-1] in table else None

    def modules(self, table: Mapping[str, object]) -> Iterable[tuple[str, SourceUri]]:
        for module_id, written in table.items():
            try:
                yield checked_module_id(module_id), _source(written)
            except ModuleIdError as error:
                self._refuse(("modules", module_id), error.problem, error.hints)
            except SourceUriError as error:
                self._refuse(("modules", module_id), error.summary, error.hints)
            except _NotAcceptedError as error:
                self._refuse(("modules", module_id), error.problem, (error.hint,))

    def addresses(
        self, written: Mapping[str, object], key: str, accepted: Callable[[str, str], tuple[str, str]]
    ) -> Iterable[tuple[str, str]]:
        for name, value in self.table(written, key).items():
            try:
                yield accepted(name, _text(value))
            except SourceUriError as error:
                self._refuse((key, name), f"`{error.text}`: {error.problem}", error.hints)
            except _NotAcceptedError as error:
                self._refuse((key, name), error.problem, (error.hint,))

    def constraints(self, written: object, place_of: Callable[[tuple[str | int, ...]], str]) -> Iterable[Constraint]:
        if not isinstance(written, list):
            self._refuse(("constraints",), f"must be a list, is {_type(written)}", ('write `["mcp<2"]`',))
            return
        if len(written) > MAX_CONSTRAINTS:
            self._refuse(("constraints",), f"has more than {MAX_CONSTRAINTS} entries", ())
            return
        for number, one in enumerate(written):
            path = ("constraints", number)
            try:
                yield Constraint.parse(one, place_of(path))
            except ConstraintTextError as error:
                self._refuse(path, error.problem, (error.accepted,))

    def index(self, written: Mapping[str, object], key: str, address: str, secret_hint: str) -> IndexSettings:
        table = self.table(written, key)
        self.check_keys(table, (address, "hosts"), (key,))
        url = self.value(table, (key, address), lambda text: _index_url(text, secret_hint))
        return IndexSettings(url or "", tuple(self._hosts(table.get("hosts", []), key)))

    def _hosts(self, written: object, key: str) -> Iterable[str]:
        if not isinstance(written, list):
            self._refuse((key, "hosts"), f"must be a list, is {_type(written)}", ('write `["host:443"]`',))
            return
        for number, one in enumerate(written):
            host = self._accepted(one, (key, "hosts", number), _host)
            if host is not None:
                yield host

    def _accepted(self, value: object, path: tuple[str | int, ...], accepted: Callable[[str], _Value]) -> _Value | None:
        try:
            return accepted(_text(value))
        except _NotAcceptedError as error:
            self._refuse(path, error.problem, (error.hint,))
            return None

    def _refuse(self, path: tuple[str | int, ...], problem: str, hints: Iterable[str]) -> None:
        self.problems.append(SettingProblem(path, problem, "; ".join(filter(None, hints))))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _NotAcceptedError(f"must be text, is {_type(value)}")
    if not value or len(value) > _MAX_LENGTH or "\0" in value:
        raise _NotAcceptedError("is empty, has a NUL character, or is longer than any address")
    return value


def _workspace(written: str) -> Path:
    if not os.path.isabs(written):
        raise _NotAcceptedError(f"`{written}` is not an absolute folder", "write the whole path, from `/`")
    return Path(os.path.normpath(written))


def _source(written: object) -> SourceUri:
    uri = parse_source(written)
    if uri.anchored(Path("/")) is not uri:
        # Relative to no folder: the file does not lie beside modules.
        raise _NotAcceptedError(f"`{uri.text}` is not an absolute folder", "write the whole path, from `/`")
    return uri


def _mirror(public: str, mirror: str) -> tuple[str, str]:
    return prefix_of(public), target_of(mirror)


def _bundle(name: str, written: str) -> tuple[str, str]:
    if not _WORD.fullmatch(name):
        raise _NotAcceptedError(f"`{name}` is no word for a bundle", "use letters, digits, `-` and `_`")
    form, place = _source(written).ruled_by
    if form == "name" or (form == "folder" and not place.startswith("/")):
        raise _NotAcceptedError(f"`{written}` is no address of a bundle", "write `git+https://…@ref`, or a whole path")
    return name, written


def _index_url(written: str, secret_hint: str) -> str:
    try:
        parts = urlsplit(written)
        port = parts.port
    except ValueError as error:
        raise _NotAcceptedError(f"is not an address: {error}") from error
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or port == 0:
        raise _NotAcceptedError("is not the address of an index", "as in `https://pypi.org/simple`")
    if "@" in parts.netloc:  # not shown: a password may be in it
        problem = "has a user or a password in it, which is no place for a secret"
        raise _NotAcceptedError(problem, secret_hint)
    if parts.query or parts.fragment or not written.isprintable() or any(char.isspace() for char in written):
        raise _NotAcceptedError("has a query, a fragment or a space in it, which no index has")
    _host(parts.netloc)
    return written


def _host(written: str) -> str:
    hint = "hosts are `name:port`, as in `files.example.org:443`"
    match = _HOST_AND_PORT.fullmatch(written.lower())
    if match is None or not _is_host(match[1]):
        raise _NotAcceptedError(f"`{written}` is not a host", hint)
    port = int(match[2] or _DEFAULT_PORTS["https"])
    if not 0 < port <= _MAX_PORT:
        raise _NotAcceptedError(f"`{written}` has no such port", hint)
    return f"{match[1]}:{port}"


def _is_host(name: str) -> bool:
    if not name.startswith("["):
        return _HOST_NAME.fullmatch(name) is not None
    try:
        return ipaddress.ip_address(name[1:-1]).version == 6 and "%" not in name
    except ValueError:
        return False


def _type(value: object) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    return {"list": "a list", "str": "text"}.get(type(value).__name__, f"a {type(value).__name__}")
