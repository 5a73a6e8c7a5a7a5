"""A source of code as a value, and what each kind of source says about its own.

This is the half of a kind's row that fetches nothing: how a source is written, named, judged, locked and listed.
The half that gets code is `supplies.supply.Supply`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self

from paddock_sources.errors import SourceError, unavailable
from paddock_sources.kinds.written_table import WrittenTable

ANY_COMMIT: Final = "0" * 40


@dataclass(frozen=True, slots=True)
class TableForm:
    """A source that is written as a table: `type` and `keys` of it, the table for people, and its text."""

    type: str
    keys: tuple[str, ...]
    shown: str
    text: Callable[[WrittenTable], str]


@dataclass(frozen=True, slots=True)
class LockFields:
    """The fields that a lock file needs, or may not have, for a source: each with a check of its value.

    `problem` says so where one fails, at the line of the field `at`, or of the whole entry if that is empty.
    """

    checks: Mapping[str, Callable[[Any], bool]]
    problem: str = ""
    at: str = ""


Form = Literal["address", "folder", "name"]


class Row:
    """Base of classes that are rows of a table: each has every class variable and abstract method of its base.

    The base itself sets `is_base`.
    """

    __slots__ = ()

    is_base: ClassVar[bool]

    def __init_subclass__(cls) -> None:
        """Check the row.

        Raises:
            TypeError: it leaves something out; the message names each part.
        """
        super().__init_subclass__()
        if "is_base" in vars(cls):
            return
        base = next(one for one in cls.__mro__ if "is_base" in vars(one))
        said = [name for name, hint in vars(base)["__annotations__"].items() if hint.startswith("ClassVar")]
        lacking = {name for name in said if not hasattr(cls, name)}
        lacking |= {name for name in dir(cls) if getattr(getattr(cls, name, None), "__isabstractmethod__", False)}
        if lacking:
            parts = ", ".join(f"`{name}`" for name in sorted(lacking))
            problem = f"`{cls.__name__}` is no whole kind of source: it lacks {parts}"
            raise TypeError(f"{problem}; `{base.__module__}.{base.__name__}` says what that is for")


@dataclass(frozen=True, slots=True)
class SourceUri(Row, ABC):
    """A parsed source; `text` is the original text. Each kind is a subclass and a member of `uri.KINDS`.

    Attributes:
        kind: its name, in rules and tables.
        form: how it is written, for the hint of an error.
        table: how it is written as a table, if it may be.
        lock_fields: its fields in a lock file.
        has_commits: whether a lock file pins it by a commit, and a ref leads to one.
        is_apart: whether its packages are for a process of their own, and not beside those of a worker's runtime.
        no_lock: why a source of this kind that needs no lock has none.
        one_of_several: how else than by an id one of several modules in it is named, as a further part of a hint.
    """

    is_base: ClassVar[bool] = True
    kind: ClassVar[str]
    form: ClassVar[str]
    table: ClassVar[TableForm | None] = None
    lock_fields: ClassVar[LockFields]
    has_commits: ClassVar[bool] = False
    is_apart: ClassVar[bool] = False
    no_lock: ClassVar[str] = "it is what is installed here"
    one_of_several: ClassVar[str] = ""

    text: str

    @classmethod
    @abstractmethod
    def of_text(cls, text: str) -> Self | None:
        """Return the source in printable text; None for text of another kind.

        Raises:
            SourceUriError: it is of this kind, and malformed.
        """

    @abstractmethod
    def key(self, folder: Path) -> str:
        """Return the one text of the source in the lock file of `folder`, from which relative folders start.

        It is a source itself, without credentials and defaults. Letters with the same meaning are written the same. Two
        texts may still be one source; one text is never two. On this machine only folders are looked at, to follow
        their links.

        Raises:
            SourceUriError: the address could be read in two ways.
        """

    @property
    @abstractmethod
    def short_name(self) -> str:
        """The name of its folder, repository or package, without the address."""

    @property
    @abstractmethod
    def ruled_by(self) -> tuple[Form, str]:
        """What rules know it by: an address, a folder of this machine, or a name among its kind."""

    @abstractmethod
    def looseness(self, commit: str) -> tuple[str, str] | None:
        """Return why it does not name its exact content, if so, as the end of a sentence, and what to write instead.

        `commit` is that of its lock, or empty.
        """

    @abstractmethod
    def pin_word(self, requested_kind: str) -> str:
        """Return what a list shows it is pinned by; `requested_kind` is that of its lock, or empty."""

    @property
    def requested(self) -> tuple[str, str]:
        """The ref and the subdirectory, in the form of a lock file; empty where there is none."""
        return "", ""

    @property
    def bare_id(self) -> str:
        """The module id that the text may be instead of a source; empty where it is none."""
        return ""

    def written(self, key: str, module_id: str) -> str | None:
        """Return the source as a plan is to name it, given its key; None where the module's id says it."""
        return self.text

    def at_any_version(self) -> SourceUri | None:
        """Return the source without a ref or version; None for a kind that has none."""
        return None

    def at_ref(self, ref: str) -> SourceUri | None:
        """Return the source at another branch, tag or commit; None for a kind that has none.

        Raises:
            SourceUriError: nothing can be called so.
        """
        return None

    def at_commit(self, commit: str = ANY_COMMIT) -> str:
        """Return the text of the source at a commit in place of its ref; the same text for a kind without.

        Without `commit` it stands for one that is not known yet.
        """
        return self.text

    def not_here(self) -> SourceError:
        """Return the error of one who fetches nothing and installs nothing, for a source that takes either."""
        return unavailable(self.text, f"a source of the kind `{self.kind}`")

    def lock_spelling(self) -> tuple[str, str]:
        """Return how a lock file has to spell this source, and the hint for one that does not."""
        key = self.key(Path("/"))
        return key, f"write `{key}`"

    def anchored(self, base: Path) -> SourceUri:
        """Return the same source with a relative folder made absolute below `base`."""
        return self

    def held(self) -> SourceUri:
        """Return the same source, bound to the folder of this machine that it leads to now, if it leads to one.

        Rules judge that folder, and code is read from it alone, even if links lead elsewhere by then.
        """
        return self
