"""Show a person how the definitions of MCP servers' tools differ from their pins, and pin them if the person agrees."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import anyio.to_thread

from paddock.cli.terminal.dialogue import Dialogue, agrees
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError
from paddock.lookalikes import marked
from paddock.module_sources.definitions import DefinitionLock, digest_of, keep_texts, kept_text
from paddock.session.host_api.definitions import SessionDefinitions
from paddock.text import escape
from paddock_sdk.mcp.definitions import difference

_INSTRUCTIONS: Final = "instructions"
_WHOLE: Final = "(all of it: the pinned one is not kept on this machine, or has the same parts in another order)"


@dataclass(frozen=True, slots=True)
class PinChange:
    """How a tool of a module compares with its pin, or with no `tool` its server's instructions.

    `lines` show what differs.
    """

    module: str
    tool: str
    state: Literal["same", "new", "changed", "gone"]
    lines: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return it for scripts."""
        return {"module": self.module, "tool": self.tool or None, "state": self.state, "lines": list(self.lines)}

    def show(self, screen: Screen) -> None:
        """Write it for a person."""
        screen.text(escape(marked(f"{self.module}: {self.tool or _INSTRUCTIONS}: {self.state}")))
        for line in self.lines:
            screen.text(f"  {escape(line)}")


async def pin_definitions(
    definitions: SessionDefinitions, lock: DefinitionLock, screen: Screen, dialogue: Dialogue, *, says_yes: bool
) -> tuple[list[PinChange], bool]:
    """Show what differs from the pins, and pin it if the person agrees, or `says_yes`; return whether all is pinned.

    The definitions are those of modules that have started.

    Raises:
        KindError: nobody can be asked.
        SourceError: the lock file cannot be written.
    """
    changes = await anyio.to_thread.run_sync(lambda: [*_changes(definitions, lock)])
    for one in changes:
        if one.state != "same":
            one.show(screen)
    if all(one.state == "same" for one in changes):
        return changes, True
    if not says_yes:
        lines = ["Pin all of that?", "A model sees only tools that are pinned, and only these can be called."]
        answer = await agrees(dialogue, lines, "pin it", "leave the pins as they are")
        if answer is None:
            problem = "nothing is pinned: there is nobody to ask"
            raise KindError("NobodyToAskError", problem, hints=["`--yes` pins what is listed"])
        if not answer:
            return changes, False
    rows = [(one.place, one.row) for one in definitions.all]
    await anyio.to_thread.run_sync(partial(lock.pin, rows, instead=True))
    texts = [text for one in definitions.all for text in (*one.seen.values(), one.said)]
    await anyio.to_thread.run_sync(keep_texts, lock.environ, texts)
    return changes, True


def _changes(definitions: SessionDefinitions, lock: DefinitionLock) -> Iterator[PinChange]:
    for pins in definitions.all:
        compared = {name: (pins.pinned.get(name), text) for name, text in sorted(pins.seen.items())}
        if pins.said or pins.pinned_instructions:
            compared[""] = (pins.pinned_instructions or None, pins.said)
        for tool, (pinned, now) in compared.items():
            before = None if pins.is_new else pinned
            if before == digest_of(now):
                yield PinChange(pins.module, tool, "same")
                continue
            whole = difference({}, _parts(tool, now))
            if before is None:
                yield PinChange(pins.module, tool, "new", tuple(whole))
                continue
            known = kept_text(lock.environ, before)
            differing = [] if known is None else difference(_parts(tool, known), _parts(tool, now))
            yield PinChange(pins.module, tool, "changed", tuple(differing or [_WHOLE, *whole]))
        for tool in definitions.gone(pins):
            yield PinChange(pins.module, tool, "gone")


def _parts(tool: str, text: str | None) -> Mapping[str, Any]:
    """Return a definition, or instructions, as what a difference is shown of."""
    if not text or not tool:
        return {_INSTRUCTIONS: text} if text else {}
    with suppress(ValueError):  # what a lock file names may be another kept text
        found = json.loads(text)
        return found if isinstance(found, dict) else {}
    return {}
