"""Which of the modules of a session one that is started from it has as well, as whoever starts it wishes.

Written as delegating tools of the community do: `{"exclude_tools": […]}` or `{"inherit_tools": […]}`, or a bare list of
what is inherited, `"all"` or `"none"`. It takes modules away and adds none; what stays all the same is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self

from paddock.plan.model import ModuleEntry

_PREFIXES: Final = {"tools": ("tool-",), "hooks": ("hooks-", "hook-")}


@dataclass(frozen=True, slots=True)
class InheritedModules:
    """`only` are the names of what is inherited, None for all; `without` those of what is not, whatever `only` says."""

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


def _names(section: str, written: object) -> frozenset[str] | None:
    """Return the names that are written, None for all there are."""
    if written is None or written == "all":
        return None
    if written == "none":
        return frozenset()
    if isinstance(written, (list, tuple, set, frozenset)) and all(isinstance(name, str) for name in written):
        return frozenset(written)
    raise ValueError(f"inheritance of {section} is a list of module ids, `all` or `none`")
