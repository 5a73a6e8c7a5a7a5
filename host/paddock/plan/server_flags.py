"""One server with its flags, as a client's file names them: a plan of one module, which a person accepts or not.

The plan's digest covers the source, the arguments, every flag and the folder, so that a file that was changed, or the
same file in another folder, is another plan.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from paddock.plan.model import EntryPlace, ModuleEntry, MountPlan
from paddock.plan.permissions import Permissions, grant_option, grants_in_line, permissions_line, without_value
from paddock.plan.source_map import Positions
from paddock_sources import SourceUri, parse_source
from paddock_sources.errors import without_credentials

_PROJECT: Final = "amplifier-module-"  # before a module's id, in the name of its folder or repository


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
    def uri(self) -> SourceUri:
        """The source.

        Raises:
            SourceUriError: it is none.
        """
        return parse_source(self.source).anchored(self.folder)

    @property
    def key(self) -> str:
        """What its lock file is found by: the source, the arguments and the folder, as one word."""
        return _digest(*self._place)[:32]

    @property
    def _place(self) -> tuple[object, ...]:
        return self.uri.text, self.arguments, os.fsencode(self.folder).hex()

    @property
    def _granted(self) -> Permissions:
        return Permissions.model_validate(dict(self.permissions))

    @property
    def _limits(self) -> list[str]:
        return [f"{name}={value}" for name, value in self.limits.items()]

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration of the module, with the arguments of its server."""
        given = {"args": [*self.arguments]} if self.arguments else {}
        return {**self.config, **given}

    def plan(self) -> LonePlan:
        """Return the plan of these flags; it goes by the source, as a name in the folder.

        Raises:
            PlanError: a flag is not accepted, or the source names no module.
        """
        uri = self.uri
        written = {
            "module": uri.bare_id or uri.short_name.removeprefix(_PROJECT),
            "source": None if uri.bare_id else uri.text,
            "config": self.settings,
            "limits": dict(self.limits),
            "permissions": dict(self.permissions),
        }
        entry = ModuleEntry.read(written, EntryPlace("tool", "", self.folder))
        granted = self._granted.model_dump(mode="json", exclude_defaults=True)
        digest = _digest(*self._place, granted, dict(self.limits), dict(self.config))
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
            granted = granted.model_copy(update={"env": tuple(map(without_value, granted.env))})
            config = _unvalued(config)
        words = ["paddock", "mcp", command, "-C", str(self.folder), self.source]
        words += [grant_option(*grant) for grant in grants_in_line(permissions_line(granted))]
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


def _unvalued(config: Mapping[str, Any]) -> dict[str, Any]:
    table = config.get("env")
    if not isinstance(table, Mapping):
        return dict(config)
    return {**config, "env": dict.fromkeys(table, "…")}


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()
