"""What can go wrong while a module is being found.

Every error carries its facts as fields and builds its text from them: `summary` is one line, `detail` the lines under
it, `hints` what a person may do. Text taken from a file or a plan is shown with every unprintable character made
visible, so that a folder name cannot draw on a terminal. Nothing here knows who shows the error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_LAYOUT = ("the source names the repository's root or the package's folder, the one with `__init__.py`",)

# Also a password with a slash in it, which makes of its user a host whose port is no number.
_CREDENTIALS = re.compile(r"(\w+://)(?:[^/\s`]*@|[^/\s`@:\[]*:(?![0-9]*(?:[/?#\s`]|$))[^\s`]*@)")


def without_credentials(text: str) -> str:
    """Return a text as people may be shown it: of each address in it, no user and nothing that may be a password."""
    return _CREDENTIALS.sub(r"\1", text)


def _shown(text: object) -> str:
    told = without_credentials(str(text))
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in told)


@dataclass(frozen=True, slots=True)
class LayerAnswer:
    """One place that was asked for a module, and its answer."""

    layer: str
    asked: str
    answer: str

    def describe(self) -> str:
        """Return the attempt as one line of text."""
        return _shown(f"{self.layer}: {self.asked}: {self.answer}" if self.asked else f"{self.layer}: {self.answer}")


class SourceError(Exception):
    """Root of everything this package raises on purpose; `code` names the kind of failure for scripts.

    The code is the name of the class where the constructor was given no other. A class is one that callers tell apart,
    or whose fields they read; other kinds of failures differ in their code alone.
    """

    def __init__(self, summary: str, *, code: str = "", detail: Iterable[str] = (), hints: Iterable[str] = ()) -> None:
        self.code = code or type(self).__name__
        self.summary = _shown(summary)
        self.detail: tuple[str, ...] = tuple(_shown(line) for line in detail)
        self.hints: tuple[str, ...] = tuple(_shown(hint) for hint in hints)
        super().__init__("\n".join([self.summary, *(f"  {line}" for line in self.detail)]))


class ModuleIdError(SourceError):
    """Raised for text that cannot be the id of a module."""

    def __init__(self, module_id: object, problem: str) -> None:
        self.module_id = module_id
        self.problem = problem
        super().__init__(
            f"`{module_id}` is not a module id: {problem}",
            hints=["a module id is made of letters, digits, `-`, `_` and `.`, as in `tool-bash`"],
        )


class SourceUriError(SourceError):
    """Raised for text that is no module source."""

    def __init__(self, text: object, problem: str, *, hints: Iterable[str] = ()) -> None:
        self.text = text
        self.problem = problem
        super().__init__(f"`{text}` is not a module source: {problem}", hints=hints)


class SourceUnavailableError(SourceError):
    """Raised for a well-formed source of a kind that this version cannot fetch."""

    def __init__(self, text: str, family: str, *, hints: Iterable[str] = ()) -> None:
        self.text = text
        self.family = family
        super().__init__(f"`{text}` is {family}, which is not available in this version", hints=hints)


class ModuleLayoutError(SourceError):
    """Raised when a folder holds no package that could be the module."""

    def __init__(
        self, module_id: str, root: Path, problem: str, *, looked_at: Iterable[str] = (), hints: Iterable[str] = _LAYOUT
    ) -> None:
        self.module_id = module_id
        self.root = root
        self.problem = problem
        self.looked_at = tuple(looked_at)
        super().__init__(
            f"`{root}` does not hold module `{module_id}`: {problem}",
            detail=[f"looked at {place}" for place in self.looked_at],
            hints=hints,
        )


class ManifestError(SourceError):
    """Raised when a file that describes a module cannot be read as data."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"cannot read `{path}`: {problem}")


class RefusedKindError(SourceError):
    """Raised for a module that declares a kind which is never run as a module."""

    def __init__(self, module_id: str, kind: str) -> None:
        self.module_id = module_id
        self.kind = kind
        super().__init__(
            f"module `{module_id}` declares itself a `{kind}`, which is not run as a module",
            hints=["a resolver decides which code is trusted: it belongs to the application, not to a plan"],
        )


class UnresolvedError(SourceError):
    """Raised when no layer of a resolver produced the module; `attempts` says what each one answered."""

    def __init__(
        self, module_id: str, source: str | None, attempts: Iterable[LayerAnswer], *, hints: Iterable[str] = ()
    ) -> None:
        self.module_id = module_id
        self.source = source
        self.attempts = tuple(attempts)
        super().__init__(
            f"no code was found for module `{module_id}`" + (f" from source `{source}`" if source else ""),
            detail=[attempt.describe() for attempt in self.attempts],
            hints=hints,
        )


class NotLockedError(SourceError):
    """Raised for a source that is to come from a lock file that does not have it."""

    def __init__(self, source: str, use: str) -> None:
        self.source = source
        self.use = use
        super().__init__(
            f"`{source}` is not in `paddock.lock`, which is to be used as it is (--{use})",
            hints=["lock it first: `paddock lock`"],
        )


class PinMismatchError(SourceError):
    """Raised when code is other than what was locked; `locked` and `found` are digests of its tree."""

    def __init__(self, source: str, locked: str, found: str) -> None:
        self.source = source
        self.locked = locked
        self.found = found
        super().__init__(
            f"`{source}` is not what was locked",
            detail=[f"locked: {locked}", f"found:  {found}"],
            hints=["if the change is meant, lock it again: `paddock update`"],
        )


class NotFetchedError(SourceError):
    """Raised when something would have to be fetched, and nothing may be."""

    def __init__(self, program: str) -> None:
        self.program = program
        super().__init__(
            f"something is not in the cache, and offline {program} is not asked for it",
            hints=["fetch it while there is a network: `paddock sync`"],
        )


class KeysNotLentError(SourceError):
    """Raised when fetching would take the user's own keys, for somebody the user has not said yes to."""

    def __init__(self, program: str, named_by: str) -> None:
        self.program = program
        self.named_by = named_by
        if named_by == "the plan":
            why = "the plan that names it was not accepted"
            hints = ["have it fetched by your own word first: `paddock lock PLAN`", "or accept it: `--trust-plan`"]
        else:
            why = "it is a dependency of a module, not named by you"
            hints = ["name it in a module of your own, in a folder"]
        super().__init__(
            f"fetching it takes your own keys or credentials ({program}), and {why}",
            hints=hints,
        )


class PrivateHostError(SourceError):
    """Raised for what is on this machine or a private network, where somebody named it whom the user gave no word."""

    def __init__(self, source: str) -> None:
        self.source = source
        super().__init__(
            f"`{source}` is not on the public network, and it was not named by you",
            hints=["have a plan fetched by your own word: `paddock lock PLAN`, or accept it: `--trust-plan`"],
        )


class SourceRefusedError(SourceError):
    """Raised when the user's or the operator's policy refuses where code would come from."""


class OwnVersionError(SourceError):
    """Raised for a module that needs what its worker is made of in a version that no worker can be made of."""

    def __init__(self, name: str, version: str, problem: str) -> None:
        self.name = name
        self.version = version
        self.problem = problem
        super().__init__(
            f"it needs `{name}` {version}, which modules are run with here: {problem}",
            hints=[f"take a version of the module that can do with another `{name}`"],
        )
