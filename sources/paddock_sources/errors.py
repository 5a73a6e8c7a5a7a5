"""Errors of finding a module.

Every error has its facts as fields and builds its text from them: `summary` is one line, `detail` the lines under it,
`hints` what a person may do. In text from a file or a plan, every unprintable character is made visible, so that a
folder name cannot draw on a terminal. This file does not depend on how errors are shown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_LAYOUT = ("the source names the repository's root or the package's folder, the one with `__init__.py`",)

_MAX_PACKAGES: Final = 4  # that an error names

# Also a password with a slash in it, which makes of its user a host whose port is no number.
_CREDENTIALS = re.compile(r"(\w+://)(?:[^/\s`]*@|[^/\s`@:\[]*:(?![0-9]*(?:[/?#\s`]|$))[^\s`]*@)")

# What a repository of this machine or a private network gets once the user agrees to its address, by its scheme.
_LENT: Final[Mapping[str, str]] = {
    "ssh": ", and is fetched with your own keys or credentials (ssh)",
    "https": ", and gets the credentials that git has for it",
    "http": ", and is asked unencrypted, without your credentials",
}


def without_credentials(text: str) -> str:
    """Return a text fit for people: its addresses have no user and no part that may be a password."""
    return _CREDENTIALS.sub(r"\1", text)


def _shown(text: object) -> str:
    safe = without_credentials(str(text))
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in safe)


@dataclass(frozen=True, slots=True)
class LayerAnswer:
    """One place that was asked for a module, and its answer; one that `is_silent` is not shown."""

    layer: str
    asked: str
    answer: str
    is_silent: bool = False

    def describe(self) -> str:
        """Return the attempt as one line of text."""
        return _shown(f"{self.layer}: {self.asked}: {self.answer}" if self.asked else f"{self.layer}: {self.answer}")


class SourceError(Exception):
    """Base of the errors that this package raises on purpose; `code` names the kind of failure for scripts.

    Without an explicit code, it is the name of the class. A class exists for errors that callers distinguish, or whose
    fields they read; other kinds of failures differ only in their code. `outcome` begins the host's error about a
    module that has no code because of it.
    """

    outcome: str = "no code was found for"

    def __init__(
        self,
        summary: str,
        *,
        code: str = "",
        detail: Iterable[str] = (),
        hints: Iterable[str] = (),
    ) -> None:
        self.code = code or type(self).__name__
        self.summary = _shown(summary)
        self.detail: tuple[str, ...] = tuple(_shown(line) for line in detail)
        self.hints: tuple[str, ...] = tuple(_shown(hint) for hint in hints)
        super().__init__("\n".join([self.summary, *(f"  {line}" for line in self.detail)]))

    def add_hints(self, hints: Iterable[str]) -> None:
        """Put hints before the others: a caller may know more than the code that failed."""
        self.hints = (*map(_shown, hints), *self.hints)


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


class ManifestError(SourceError):
    """Raised when a file that describes a module cannot be read as data."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"cannot read `{path}`: {problem}")


class UnresolvedError(SourceError):
    """Raised when no layer of a resolver produced the module; `attempts` holds each layer's answer."""

    def __init__(
        self, module_id: str, source: str | None, attempts: Iterable[LayerAnswer], *, hints: Iterable[str] = ()
    ) -> None:
        self.module_id = module_id
        self.source = source
        self.attempts = tuple(attempts)
        super().__init__(
            f"no code was found for module `{module_id}`" + (f" from source `{source}`" if source else ""),
            detail=[attempt.describe() for attempt in self.attempts if not attempt.is_silent],
            hints=hints,
        )


@dataclass(frozen=True, slots=True)
class NoFetching:
    """The words about code that is neither in the cache nor fetched.

    `reason` says why nothing is fetched, as the end of a sentence. `hint` returns what to do about it; it is called
    with whether a lock file names the code.
    """

    reason: str
    hint: Callable[[bool], str]


OFFLINE: Final = NoFetching("nothing is fetched offline", lambda is_locked: "fetch it first, without `offline`")


class NotFetchedError(SourceError):
    """Raised when something would have to be fetched, and nothing may be; `packages` names it, where it is known."""

    def __init__(
        self,
        program: str,
        no_fetching: NoFetching = OFFLINE,
        *,
        packages: Sequence[str] = (),
        is_locked: bool = False,
    ) -> None:
        self.program = program
        self.packages = tuple(packages)
        self._no_fetching = no_fetching
        self.outcome = "packages are missing for" if packages else self.outcome
        more = f" and {len(packages) - _MAX_PACKAGES} more" if len(packages) > _MAX_PACKAGES else ""
        what = f"{', '.join(packages[:_MAX_PACKAGES])}{more}" if packages else f"what {program} would fetch"
        is_one = len(packages) < 2
        super().__init__(
            f"{what} {'is' if is_one else 'are'} not in the cache, and {no_fetching.reason}",
            hints=[no_fetching.hint(is_locked)],
        )

    def of_packages(self, packages: Iterable[str], *, is_locked: bool) -> NotFetchedError:
        """Return the same error with the names of the packages that would have to be fetched."""
        return NotFetchedError(self.program, self._no_fetching, packages=[*packages], is_locked=is_locked)


class SourceRefusedError(SourceError):
    """Raised when a rule refuses where code would come from: a policy's, or one for code that was not accepted."""

    outcome = "the rules for sources refuse the code of"


class OwnRightsError(SourceRefusedError):
    """Raised for an action that needs the user's own rights, on behalf of code that the user has not accepted.

    `takes` names the action and the source, so that a person who agrees to it knows where the rights go.
    """

    def __init__(self, code: str, summary: str, *, takes: str, hints: Iterable[str]) -> None:
        self.takes = takes
        super().__init__(summary, code=code, hints=hints)

    @classmethod
    def of_keys(cls, source: str, program: str, named_by: str) -> Self:
        """Fetching it would take the user's own keys."""
        if named_by == "the plan":
            why = "the plan that names it was not accepted"
            hints = ["have it fetched by your own word first: `paddock lock PLAN`", "or accept it: `--trust-plan`"]
        else:
            why = "it is a dependency of a module, not named by you"
            hints = ["name it in a module of your own, in a folder"]
        return cls(
            "KeysNotLentError",
            f"fetching `{source}` takes your own keys or credentials ({program}), and {why}",
            takes=f"`{source}` is fetched with your own keys or credentials ({program})",
            hints=hints,
        )

    @classmethod
    def of_host(cls, source: str, scheme: str = "") -> Self:
        """It is on this machine or a private network, and the user has not named it.

        `scheme` is that of an address which the user may agree to.
        """
        return cls(
            "PrivateHostError",
            f"`{source}` is not on the public network, and it was not named by you",
            takes=f"`{source}` is on this machine or a private network" + _LENT.get(scheme, ""),
            hints=["have a plan fetched by your own word: `paddock lock PLAN`, or accept it: `--trust-plan`"],
        )

    @classmethod
    def of_requirement(cls, path: Path, name: str, source: str) -> Self:
        """Code from elsewhere requires `name` from a source that only code of the user's own may name."""
        return cls(
            "OwnRightsError",
            f"cannot tell what `{path}` depends on: `{name}` is wanted from `{source}`, which a module from elsewhere "
            "may not name: it is fetched with your rights, not with its own",
            takes=f"`{name}` is wanted from `{source}`, which takes your own rights",
            hints=["only `git+https://…` may be a dependency of fetched code; clone the module to name another"],
        )


# -- kinds of failures that differ in their code alone


def unavailable(text: str, family: str, *, hints: Iterable[str] = ()) -> SourceError:
    """Return the error for a well-formed source of a kind that this version cannot fetch."""
    summary = f"`{text}` is {family}, which is not available in this version"
    return SourceError(summary, code="SourceUnavailableError", hints=hints)


def layout_error(
    module_id: str, root: Path, problem: str, *, looked_at: Iterable[str] = (), hints: Iterable[str] = _LAYOUT
) -> SourceError:
    """Return the error for a folder that holds no package that could be the module."""
    return SourceError(
        f"`{root}` does not hold module `{module_id}`: {problem}",
        code="ModuleLayoutError",
        detail=[f"looked at {place}" for place in looked_at],
        hints=hints,
    )


def not_locked(source: str, use: str) -> SourceError:
    """Return the error for a source that is to come from a lock file that does not have it."""
    return SourceError(
        f"`{source}` is not in `paddock.lock`, which is to be used as it is (--{use})",
        code="NotLockedError",
        hints=["lock it first: `paddock lock PLAN`"],
    )


def outdated_lock(source: str, use: str) -> SourceError:
    """Return the error for a shipped module that needs other packages than were locked for an earlier version."""
    return SourceError(
        f"`{source}` needs other packages than `paddock.lock` has for it, which is to be used as it is (--{use})",
        code="NotLockedError",
        hints=["lock it again: `paddock lock PLAN`"],
    )


def contradicts_rules(source: str, problem: str) -> SourceError:
    """Return the error for a lock file whose dependencies are not those that are wanted; `problem` says which."""
    return SourceError(
        f"`paddock.lock` has other dependencies for `{source}` than are wanted",
        code="LockContradictsError",
        detail=[problem],
        hints=[
            f"have them chosen again: `paddock update {shlex.quote(source)}`",
            "a plan other than plan.yaml is named by `--plan PLAN`",
        ],
    )


def pin_mismatch(source: str, locked: str, found: str, with_compiled: str = "") -> SourceError:
    """Return the error for code that differs from what was locked; `locked` and `found` are digests of its tree.

    `with_compiled` would be the digest with the compiled code in it, which is left out.
    """
    told = ["its lock is of a tree with compiled Python code, which is left out now"] if locked == with_compiled else []
    return SourceError(
        f"`{source}` is not what was locked",
        code="PinMismatchError",
        detail=[f"locked: {locked}", f"found:  {found}", *told],
        hints=[
            "lock it again: `paddock update`" if told else "if the change is meant, lock it again: `paddock update`"
        ],
    )
