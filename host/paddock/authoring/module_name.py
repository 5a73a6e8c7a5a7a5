"""Derive a module's id, package and folder from the name that its author gives it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

from paddock.errors import KindError
from paddock.plan.model import Kind
from paddock_sources.module_id import package_of_id

KINDS: Final[tuple[Kind, ...]] = ("tool", "hook", "provider", "orchestrator", "context")  # the easiest to write first

# The prefix of ids, by kind, by which the community distinguishes them.
PREFIXES: Final = MappingProxyType[Kind, str](
    {"tool": "tool-", "hook": "hooks-", "provider": "provider-", "orchestrator": "loop-", "context": "context-"}
)
FOLDER_PREFIX: Final = "amplifier-module-"

_RULE: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_MAX_LENGTH: Final = 60  # of an id: with its prefix it is also the name of a folder and of a distribution


@dataclass(frozen=True, slots=True)
class ModuleName:
    """A module of `kind` and all its names; `short` is its id without the kind's prefix."""

    kind: Kind
    short: str

    @classmethod
    def of(cls, kind: Kind, written: str) -> Self:
        """Return the names for a module by this name; the kind's prefix may be written or left out.

        Raises:
            KindError: no module can have that name.
        """
        prefix = PREFIXES[kind]
        short = written.removeprefix(prefix)
        if not short:
            raise _unusable(written, "nothing is left of it without the prefix of its kind")
        if len(prefix + short) > _MAX_LENGTH:
            raise _unusable(written[:_MAX_LENGTH] + "…", "it is too long")
        if not _RULE.fullmatch(short):
            raise _unusable(written, _breach(short))
        return cls(kind, short)

    @property
    def module_id(self) -> str:
        """The id in plans: `tool-word-count`."""
        return PREFIXES[self.kind] + self.short

    @property
    def package(self) -> str:
        """The name of the imported package: `amplifier_module_tool_word_count`."""
        return package_of_id(self.module_id)

    @property
    def folder(self) -> str:
        """The name of its folder, and of its distribution: `amplifier-module-tool-word-count`."""
        return FOLDER_PREFIX + self.module_id

    @property
    def identifier(self) -> str:
        """The short name as an identifier: `word_count`."""
        return self.short.replace("-", "_")

    @property
    def class_name(self) -> str:
        """The short name in the form of a class, with the kind at the end: `WordCountTool`."""
        return "".join(part.capitalize() for part in self.short.split("-")) + self.kind.capitalize()


def _unusable(name: str, problem: str) -> KindError:
    """Return the error for a name that no module can have; its hint shows a valid one."""
    rule = (
        f"a name has small letters, digits and single dashes between them, begins with a letter, and is at most "
        f"{_MAX_LENGTH} characters long with its prefix: `word-count`"
    )
    return KindError("ModuleNameError", f"`{name}` is no name for a module: {problem}", hints=[rule])


def _breach(name: str) -> str:
    """Return the part of a name that breaks the rule."""
    strange = next((letter for letter in name if not (letter == "-" or (letter.isascii() and letter.isalnum()))), "")
    if strange:
        return f"it has the character {strange!a}"
    if any(letter.isupper() for letter in name):
        return "it has capital letters"
    return "it begins with a digit" if name[0].isdigit() else "it has a dash where there is nothing to part"
