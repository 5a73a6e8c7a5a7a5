"""Errors of finding and installing the packages that a module depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Self

from paddock_sources.constraints import Constraint, listed
from paddock_sources.errors import SourceError

InstallerCode = Literal[
    "BoundsError",
    "HashMismatchError",
    "IndexAccessError",
    "InstallerError",
    "NoWheelError",
    "UnsolvableError",
]


_NOT_INSTALLED: Final = "no packages were installed for"


class RequirementsError(SourceError):
    """Raised for a `pyproject.toml` whose dependencies cannot be read as data, or are of a kind that is not taken."""

    outcome = _NOT_INSTALLED

    def __init__(self, path: Path, problem: str, *, hints: Iterable[str] = ()) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"cannot tell what `{path}` depends on: {problem}", hints=hints)


class ContractVersionError(SourceError):
    """Raised for code that asks for an unknown version of the module contracts."""

    def __init__(self, name: str, requires: str, version: str) -> None:
        self.name = name
        self.requires = requires
        self.version = version
        super().__init__(
            f"`{name}` asks for a version of the module contracts that is not known here: it requires `{requires}`, "
            f"and there is amplifier-core {version}",
            hints=[f"take a version of the module for amplifier-core {version} or older, or a newer paddock"],
        )


class InstallerError(SourceError):
    """Raised when packages cannot be chosen or installed; `code` names the cause, `report` is the end of an output."""

    outcome = _NOT_INSTALLED
    code: InstallerCode

    def __init__(
        self,
        attempted: str,
        problem: str,
        *,
        code: InstallerCode = "InstallerError",
        report: Iterable[str] = (),
        hints: Iterable[str] = (),
    ) -> None:
        self.attempted = attempted
        self.problem = problem
        self.report = tuple(report)
        super().__init__(f"{attempted} failed: {problem}", code=code, detail=self.report, hints=hints)

    @classmethod
    def unsolvable(cls, attempted: str, *, report: Iterable[str] = ()) -> Self:
        """No set of versions satisfies the requirements."""
        hints = ["change what its `pyproject.toml` names as `dependencies`, or take another version of the module"]
        return cls(attempted, "no set of versions satisfies it", code="UnsolvableError", report=report, hints=hints)

    @classmethod
    def no_wheel(cls, attempted: str, distribution: str, *, report: Iterable[str] = ()) -> Self:
        """A distribution would have to be built, which means running its author's code."""
        return cls(
            attempted,
            f"`{distribution}` has no wheel for this machine, and building from source is refused: "
            "a build runs code of the package's author",
            code="NoWheelError",
            report=report,
            hints=[
                f"take a version of `{distribution}` that has wheels",
                f"or build it where that is safe: `pip wheel {distribution}`",
                "then put the wheel on an index of yours, named in `sources.toml` under `[index]`",
            ],
        )

    @classmethod
    def hash_mismatch(cls, attempted: str, *, report: Iterable[str] = ()) -> Self:
        """An index served other bytes than those that were locked."""
        return cls(
            attempted,
            "the index serves other files than those that were locked",
            code="HashMismatchError",
            report=report,
            hints=["find out what changed at the index before locking the module again"],
        )

    def out_of_bounds(self, bounds: Sequence[Constraint], chosen: Mapping[str, str]) -> InstallerError:
        """Only what people allow prevents a solution; `chosen` is the solution without that, by name."""
        needed = [one for one in bounds if one.name in chosen]
        broken = [one for one in needed if not one.allows(chosen[one.name])]
        others = ", ".join(f"{one.name} {chosen[one.name]}" for one in {one.name: one for one in broken}.values())
        return InstallerError(
            self.attempted,
            f"no set of versions is within the constraints {listed(broken or needed or bounds)}",
            code="BoundsError",
            report=self.report,
            hints=[f"without them it would be {others}"] if broken else [],
        )


class InstalledDistributionError(SourceError):
    """Raised for an installed distribution whose files cannot be used."""

    def __init__(
        self,
        distribution: str,
        problem: str,
        *,
        code: str = "",
        hints: Iterable[str] = (),
    ) -> None:
        self.distribution = distribution
        self.problem = problem
        super().__init__(f"the installed package `{distribution}` cannot be used: {problem}", code=code, hints=hints)

    @classmethod
    def missing_dependency(cls, distribution: str, requirement: str, found: str = "") -> Self:
        """A dependency is missing; `found` is the version that is installed and does not fit."""
        there = f"version {found} is installed" if found else "it is not installed"
        return cls(
            distribution,
            f"it depends on `{requirement}`, and {there}",
            code="MissingDependencyError",
            hints=[f"install it: `pip install '{requirement}'`"],
        )
