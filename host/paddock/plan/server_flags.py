"""One server with its flags, as a client's file names them: a plan of one module, which a person accepts or not.

The plan's digest covers the source, the arguments, every flag and the folder, so that a file that was changed, or the
same file in another folder, is another plan.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from paddock.plan.model import ModuleEntry, MountPlan
from paddock.plan.permissions import FAMILIES, Permissions, grant_option, grants_in_line, permissions_line
from paddock.plan.problems import path_text
from paddock.plan.source_map import Positions
from paddock_sources import parse_source
from paddock_sources.errors import without_credentials


@dataclass(frozen=True, slots=True)
class LonePlan(MountPlan):
    """A plan of the one module in its `tools`, beside which nothing is mounted; it works in the folder `base`."""

    base: Path | None = None

    @property
    def folder(self) -> Path | None:
        """The folder beside which its source may lie: its name, which is made of the source, says nothing of that."""
        return self.base

    def own_entries(self) -> Iterator[ModuleEntry]:
        """Yield its entry."""
        yield from self.tools


@dataclass(frozen=True, slots=True)
class ServerFlags:
    """A source, the server's arguments, and flags in the form of a plan's entry.

    A relative source starts from `folder`, where the server works; links on the way to it are followed once.
    """

    source: str
    folder: Path
    arguments: tuple[str, ...] = ()
    permissions: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, object] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.folder.resolve())

    @property
    def written(self) -> dict[str, object]:
        """The entry of a plan, but for its module and source; it asks for no grants beside its own."""
        given = {"args": [*self.arguments]} if self.arguments else {}
        return {
            "config": {**self.config, **given},
            "limits": dict(self.limits),
            "permissions": dict(self.permissions),
        }

    @property
    def key(self) -> str:
        """What its lock file is found by: the source, the arguments and the folder, as one word.

        Raises:
            SourceUriError: the source is none.
        """
        return _digest(self._anchored, self.arguments, os.fsencode(self.folder).hex())[:32]

    @property
    def _granted(self) -> Permissions:
        return Permissions.model_validate(dict(self.permissions))

    @property
    def _limits(self) -> list[str]:
        return [f"{name}={value}" for name, value in self.limits.items()]

    @property
    def _anchored(self) -> str:
        return parse_source(self.source).anchored(self.folder).text

    def plan(self, entry: ModuleEntry) -> LonePlan:
        """Return the plan of its `entry`; it goes by the source, as a name in the folder.

        Raises:
            SourceUriError: the source is none.
        """
        digest = _digest(
            self._anchored,
            self.arguments,
            os.fsencode(self.folder).hex(),
            self._granted.model_dump(mode="json", exclude_defaults=True),
            dict(self.limits),
            dict(self.config),
        )
        origin = Path(os.path.realpath(self.folder / self.source))
        return LonePlan(
            orchestrator=entry,
            context=entry,
            providers=(),
            tools=(entry,),
            hooks=(),
            agents={},
            raw={},
            origin=origin,
            digest=f"sha256:{digest}",
            positions=Positions(str(origin)),
            notes=(),
            base=self.folder,
        )

    def without(self, refused: Collection[str]) -> tuple[Self, tuple[str, ...]]:
        """Return the flags without the grants at these places of the entry, and the options that are left out."""
        kept: dict[str, list[object]] = {}
        gone: dict[str, list[object]] = {}
        for family in FAMILIES:
            for number, grant in enumerate(getattr(self._granted, family)):
                part = gone if path_text("", "permissions", family, number) in refused else kept
                part.setdefault(family, []).append(grant)
        return replace(self, permissions=kept), _options(Permissions.model_validate(gone))

    @property
    def title(self) -> str:
        """The source and the folder, for a sentence."""
        return f"{without_credentials(self.source)} in {self.folder}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person is shown beside the grants, a line each."""
        notes = []
        if self.arguments:
            notes.append(f"it is started with {shlex.join(self.arguments)}")
        if self.config:
            notes.append(f"it is configured as {json.dumps(_unvalued(self.config))}")
        if self.limits:
            notes.append(f"it is limited to {', '.join(self._limits)}")
        return tuple(notes)

    def words(self, command: str, *more: str, shows_values: bool = True) -> list[str]:
        """Return the command line of `mcp run` or `mcp accept` with these flags, and with `more` of them."""
        granted = self._granted
        config = dict(self.config)
        if not shows_values:
            granted = granted.model_copy(update={"env": tuple(map(_without_value, granted.env))})
            config = _unvalued(config)
        words = ["paddock", "mcp", command, "-C", str(self.folder), self.source]
        words += _options(granted)
        words += more
        words += [f"--limit={limit}" for limit in self._limits]
        if config:
            words.append(f"--config={json.dumps(config)}")
        if self.arguments:
            words += ["--", *self.arguments]
        return words

    def line(self, command: str, *more: str) -> str:
        """Return that command line for a shell.

        Values of variables are not in it, as a client may show it to a model: they are for a person to fill in.
        """
        return shlex.join(self.words(command, *more, shows_values=False))


def _options(permissions: Permissions) -> tuple[str, ...]:
    return tuple(grant_option(*grant) for grant in grants_in_line(permissions_line(permissions)))


def _without_value(variable: str) -> str:
    name, equals, _ = variable.partition("=")
    return f"{name}{equals}{'…' if equals else ''}"


def _unvalued(config: Mapping[str, Any]) -> dict[str, Any]:
    table = config.get("env")
    if not isinstance(table, Mapping):
        return dict(config)
    return {**config, "env": dict.fromkeys(table, "…")}


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()
