"""The definitions of MCP servers' tools in a session: a tool that differs from its pin is not mounted, nor shown.

A server shares a sandbox with its module, so a hostile one has the module say anything. Therefore the host computes
each digest itself, of the very description that it shows, when a tool is mounted and each time that it is described
anew. A tool's description has what a definition has, and `execute`: nothing else could be pinned.

A module whose source has no pins takes the first definition of each tool that it mounts while it starts. From then on
these are its pins, in all of its lives and in sub-sessions.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from paddock.module_sources.definitions import DefinitionLock, digest_of, keep_texts
from paddock.rpc.peer import DescriptionRefusedError
from paddock_sdk.mcp.definitions import MAX_TOOLS, canonical, of_mounted
from paddock_sdk.protocol.description import Description
from paddock_sources import SourceError
from paddock_sources.lock.locked_module import LockedServer

if TYPE_CHECKING:
    from paddock.plan.model import ModuleEntry
    from paddock_sources import Resolution

_SHOWN: Final = frozenset({"name", "title", "description", "input_schema", "output_schema", "annotations", "execute"})
_MAX_KEPT: Final = 4 << 20  # characters of one module's definitions, which are kept to show them to a person
_MAX_LISTED: Final = 8  # names in a line
_MAX_SERVER: Final = 200  # characters of its name and version
_VERSION: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_UNKNOWN: Final = ("0000-00-00", "unknown")  # a protocol and a server, where the module names none

_log = logging.getLogger(__name__)


class DefinitionPins:
    """What the tools of the module at `place` may be: `pinned` has the digest of each, by name.

    `seen` has the latest definition of each tool that it wanted to mount, as canonical JSON, and `said` the
    instructions that its server gave; `instructions` are those that may be shown.
    """

    def __init__(self, module: str, place: str, code: Resolution, remedy: str) -> None:
        server = code.server
        assert server is not None, "only tools of MCP servers have pins"
        self.module = module
        self.place = place
        self.source = code.source
        self.remedy = remedy
        self.is_new = server.definitions is None
        self.has_started = False
        self.pinned = dict(server.definitions or {})
        self.pinned_instructions = server.instructions
        self.seen: dict[str, str] = {}
        self.said = self.instructions = ""
        self._about = _UNKNOWN

    def check(self, name: str, description: Description) -> None:
        """Do nothing if a tool may be shown so, under a name.

        Raises:
            DescriptionRefusedError: its definition is not pinned, or it shows more than a definition.
        """
        shown = {*description.attributes, *(member.name for member in description.members)}
        shown |= {f"{name} of its class" for name, value in description.class_attributes.items() if value}
        if more := sorted(shown - _SHOWN):
            listed = ", ".join(more[:_MAX_LISTED])
            raise DescriptionRefusedError(f"it shows more than the definition of a tool: {listed}")
        try:
            definition = of_mounted(description.attributes)
        except ValueError as error:
            raise DescriptionRefusedError(str(error)) from error
        if definition["name"] != name:
            raise DescriptionRefusedError("its definition has another name")
        text = self._keep(name, canonical(definition))
        if self.is_new and not self.has_started:
            self.pinned.setdefault(name, digest_of(text))
        if self.pinned.get(name) != digest_of(text):
            what = "differs from the pinned one" if name in self.pinned else "is not pinned"
            raise DescriptionRefusedError(f"its definition {what}{self.remedy}")

    def _keep(self, name: str, text: str) -> str:
        others = [one for other, one in self.seen.items() if other != name]
        if len(others) >= MAX_TOOLS or sum(map(len, others)) + len(text) > _MAX_KEPT:
            raise DescriptionRefusedError("its server defines more than is kept of one")
        self.seen[name] = text
        return text

    def start(self, access: object) -> str:
        """Take no further definitions, as the module has started; return why its server's instructions are not shown.

        `access` is what the module offers beside its tools, and is the server's word.
        """
        self.has_started = True
        protocol, server, self.said = (
            str(getattr(access, one, "") or "") for one in ("protocol", "server", "instructions")
        )
        if _VERSION.fullmatch(protocol) and server and server.isprintable():
            self._about = (protocol, server[:_MAX_SERVER])
        if self.is_new or not self.said or digest_of(self.said) == self.pinned_instructions:
            self.instructions = self.said
            return ""
        return f"they differ from the pinned ones{self.remedy}"

    @property
    def row(self) -> LockedServer:
        """What a lock file has if all that was seen is pinned."""
        digests = {name: digest_of(text) for name, text in self.seen.items()}
        return LockedServer(*self._about, digests, digest_of(self.said) if self.said else "")


class SessionDefinitions:
    """The pins of a session's modules, by the places of their entries; modules of its sub-sessions share them.

    What modules without pins mounted is written to the `lock`, where there is one: at once, or where modules can write
    to it, once they have ended.
    """

    def __init__(self) -> None:
        self.lock: DefinitionLock | None = None
        self.writes_late = False
        self._by_place: dict[str, DefinitionPins] = {}
        self._unwritten: list[DefinitionPins] = []

    @property
    def all(self) -> tuple[DefinitionPins, ...]:
        """The pins of each module of an MCP server."""
        return tuple(self._by_place.values())

    def at(self, place: str) -> DefinitionPins | None:
        """Return the pins of the module at a place in the plan, None where it is not one of an MCP server."""
        return self._by_place.get(place)

    def begin(self, entry: ModuleEntry, code: Resolution) -> None:
        """Have pins for a module, if it is one of an MCP server."""
        if code.server is not None and entry.path not in self._by_place:
            name = entry.instance_id or entry.module
            remedy = "" if self.lock is None else f"; {self.lock.remedy(name)}"
            self._by_place[entry.path] = DefinitionPins(name, entry.path, code, remedy)

    async def started(self, pins: DefinitionPins, access: object) -> str:
        """End the start of a module: write the definitions of one without pins; of another, say which tools are gone.

        Return why its server's instructions are not shown, if so.
        """
        problem = pins.start(access)
        if pins.is_new:
            self._unwritten.append(pins)
        elif gone := self.gone(pins):
            listed = ", ".join(gone[:_MAX_LISTED])
            _log.warning("pinned tools of `%s` are gone: %s%s", pins.module, listed, pins.remedy)
        if not self.writes_late:
            await self.write()
        return problem

    def gone(self, pins: DefinitionPins) -> list[str]:
        """Return the pinned tools that no module of the same source wanted to mount, if they have all started."""
        several = [one for one in self.all if one.source == pins.source]
        if not all(one.has_started for one in several):
            return []
        return sorted(pins.pinned.keys() - {name for one in several for name in one.seen})

    async def write(self) -> None:
        """Write the definitions of modules without pins that are not written yet."""
        unwritten, self._unwritten = self._unwritten, []
        lock = self.lock
        for pins in unwritten if lock is not None and lock.takes_new else ():
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._write, pins)

    def _write(self, pins: DefinitionPins) -> None:
        assert self.lock is not None
        try:
            self.lock.pin([(pins.place, pins.row)])
        except SourceError as error:
            _log.warning("the tools of `%s` are not pinned: %s", pins.module, error)
            return
        keep_texts(self.lock.environ, (*pins.seen.values(), pins.said))
        tools = "1 tool" if len(pins.seen) == 1 else f"{len(pins.seen)} tools"
        _log.warning("pinned %s of `%s` in %s", tools, pins.module, self.lock.path.name)
