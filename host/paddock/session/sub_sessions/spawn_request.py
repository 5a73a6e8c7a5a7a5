"""A module's request to start a sub-session: untrusted, and read into values before anything is done.

It consists of text and plain data; anything else is an error for the caller. It chooses among the plan's entries, and
takes some away; it has no field that could add anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self

from paddock.plan.model import ModuleEntry
from paddock.session.sub_sessions.provider_preference import ProviderWish
from paddock.session.sub_sessions.spawn_payload import SpawnPayload

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,511}", re.ASCII)
_MAX_PREFERENCES: Final = 100
_MAX_DEPTH: Final = 1 << 20  # of self-delegation, as modules count it; the host counts by itself
_PREFIXES: Final = {"tools": ("tool-",), "hooks": ("hooks-", "hook-")}


@dataclass(frozen=True, slots=True)
class InheritedModules:
    """The modules of a session that a sub-session has as well.

    The notation is that of the community's delegating tools: `{"exclude_tools": […]}` or `{"inherit_tools": […]}`, or a
    bare list of what is inherited, `"all"` or `"none"`. It takes modules away and adds none; modules that stay in any
    case are not known here. `only` are the names of inherited modules, None for all; `without` those of others, also if
    `only` has them.
    """

    section: Literal["tools", "hooks"]
    only: frozenset[str] | None = None
    without: frozenset[str] = frozenset()

    @classmethod
    def read(cls, section: Literal["tools", "hooks"], written: object) -> Self:
        """Return the wish that a module wrote.

        Raises:
            ValueError: it is none that is known, so that it might mean to take away what would stay.
        """
        if not isinstance(written, Mapping):
            return cls(section, _names(section, written))
        known = {f"inherit_{section}", f"exclude_{section}"}
        if not known.issuperset(written):
            unknown = ", ".join(sorted(str(key) for key in written if key not in known))
            raise ValueError(f"inheritance of {section} knows {' and '.join(sorted(known))}, not {unknown}")
        without = _names(section, written.get(f"exclude_{section}", "none"))
        only = _names(section, written.get(f"inherit_{section}"))
        return cls(section, only, without) if without is not None else cls(section, frozenset())

    def admits(self, entry: ModuleEntry) -> bool:
        """Whether an entry of the session is inherited."""
        names = {entry.module, *(entry.module.removeprefix(prefix) for prefix in _PREFIXES[self.section])}
        return not names & self.without and (self.only is None or bool(names & self.only))


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """One checked request; `id` is None where the host is to choose one."""

    agent: str
    instruction: str
    id: str | None
    tools: InheritedModules
    hooks: InheritedModules
    payload: SpawnPayload
    preferences: tuple[ProviderWish, ...]
    self_delegation_depth: int

    @classmethod
    def read(
        cls,
        *,
        agent_name: object,
        instruction: object,
        sub_session_id: object,
        tool_inheritance: object,
        hook_inheritance: object,
        payload: SpawnPayload,
        provider_preferences: object,
        self_delegation_depth: object,
    ) -> Self:
        """Return the request in these keywords, with the values that were read from others before.

        Raises:
            TypeError: one of them is of the wrong type.
            ValueError: one of them has a value that is not accepted.
        """
        if sub_session_id is not None:
            checked_id(sub_session_id)
        depth = self_delegation_depth or 0
        if not isinstance(depth, int) or isinstance(depth, bool) or not 0 <= depth <= _MAX_DEPTH:
            raise ValueError("self_delegation_depth is a number, not below zero")
        preferences = provider_preferences or ()
        if not isinstance(preferences, (list, tuple)) or len(preferences) > _MAX_PREFERENCES:
            raise TypeError(f"provider_preferences is a list of {_MAX_PREFERENCES} at most")
        return cls(
            agent=text("agent_name", agent_name),
            instruction=text("instruction", instruction),
            id=None if sub_session_id is None else checked_id(sub_session_id),
            tools=InheritedModules.read("tools", tool_inheritance),
            hooks=InheritedModules.read("hooks", hook_inheritance),
            payload=payload,
            preferences=tuple(map(ProviderWish.read, preferences)),
            self_delegation_depth=depth,
        )


def text(name: str, value: object) -> str:
    """Return an argument that has to be text.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} is text, not {type(value).__name__}")
    return value


def checked_id(value: object) -> str:
    """Return the id of a sub-session that a module names.

    Raises:
        TypeError: it is no text.
        ValueError: it is none that a session has.
    """
    if not _ID.fullmatch(text("sub_session_id", value)):
        raise ValueError(
            "sub_session_id begins with an ASCII letter or digit; up to 511 more, or any of `._:-`, follow"
        )
    return str(value)


def _names(section: str, written: object) -> frozenset[str] | None:
    """Return the names that are written, None for all there are."""
    if written is None or written == "all":
        return None
    if written == "none":
        return frozenset()
    if isinstance(written, (list, tuple, set, frozenset)) and all(isinstance(name, str) for name in written):
        return frozenset(written)
    raise ValueError(f"inheritance of {section} is a list of module ids, `all` or `none`")
