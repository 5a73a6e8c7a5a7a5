"""What can go wrong while the packages that a module depends on are found and installed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from paddock_sources.errors import SourceError

if TYPE_CHECKING:
    from paddock_sources.environment.locked import LockedDistribution


class RequirementsError(SourceError):
    """Raised for a `pyproject.toml` whose dependencies cannot be read as data, or are of a kind that is not taken."""

    def __init__(self, path: Path, problem: str, *, hints: Iterable[str] = ()) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"cannot tell what `{path}` depends on: {problem}", hints=hints)


class OwnRightsError(RequirementsError):
    """Raised for a requirement, `name`, from a `source` that only code of the user's own may name."""

    def __init__(self, path: Path, name: str, source: str) -> None:
        self.name = name
        self.source = source
        super().__init__(
            path,
            f"`{name}` is wanted from `{source}`, which a module from elsewhere may not name: "
            "it is fetched with your rights, not with its own",
            hints=["only `git+https://…` may be a dependency of fetched code; clone the module to name another"],
        )


class PythonVersionError(SourceError):
    """Raised for code that does not run on the Python that modules are run by."""

    def __init__(self, name: str, requires: str, version: str) -> None:
        self.name = name
        self.requires = requires
        self.version = version
        super().__init__(
            f"`{name}` needs Python {requires}, and modules are run by Python {version}",
            hints=["install paddock for a Python that the module takes, or take another version of the module"],
        )


class ContractVersionError(SourceError):
    """Raised for code that asks for a version of the module contracts that is not known here."""

    def __init__(self, name: str, requires: str, version: str) -> None:
        self.name = name
        self.requires = requires
        self.version = version
        super().__init__(
            f"`{name}` asks for a version of the module contracts that is not known here: it requires `{requires}`, "
            f"and there is amplifier-core {version}",
            hints=[f"take a version of the module for amplifier-core {version} or older, or a newer paddock"],
        )


class IndexUrlError(SourceError):
    """Raised for an address that packages cannot be taken from; `origin` is where it was written."""

    def __init__(self, origin: str, problem: str) -> None:
        self.origin = origin
        self.problem = problem
        super().__init__(
            f"{origin} names no package index: {problem}", hints=["an index is written `https://host/simple`"]
        )


class NoInstallerError(SourceError):
    """Raised when this machine has nothing to install packages with."""

    def __init__(self) -> None:
        super().__init__(
            "there is no installer of packages: neither uv nor pip was found",
            hints=["install uv beside paddock: `pip install 'paddock[uv]'`", "or pip: `python -m ensurepip`"],
        )


class InstallerError(SourceError):
    """Raised when an installer gave up; `report` is the end of what it said."""

    def __init__(
        self, installer: str, attempted: str, problem: str, *, report: Iterable[str] = (), hints: Iterable[str] = ()
    ) -> None:
        self.installer = installer
        self.attempted = attempted
        self.problem = problem
        self.report = tuple(report)
        super().__init__(f"{attempted} failed: {problem}", detail=self.report, hints=hints)


class ModesRefusedError(InstallerError):
    """Raised when an installer cannot work where it may not change the modes of its own files."""


class UnsolvableError(InstallerError):
    """Raised when no set of versions satisfies what is wanted."""


class ConstrainedError(UnsolvableError):
    """Raised when only the versions that were to be kept to stand in the way; `locked` is what there is without."""

    def __init__(self, error: InstallerError, locked: tuple[LockedDistribution, ...]) -> None:
        self.locked = locked
        super().__init__(
            error.installer,
            error.attempted,
            "it needs other versions than the ones at hand",
            report=error.report,
            hints=["the module can be run with versions of its own, at some cost when it starts"],
        )


class NoWheelError(InstallerError):
    """Raised for a distribution that would have to be built, which means running its author's code."""

    def __init__(self, installer: str, attempted: str, distribution: str, *, report: Iterable[str] = ()) -> None:
        self.distribution = distribution
        super().__init__(
            installer,
            attempted,
            f"`{distribution}` has no wheel for this machine, and building from source is refused: "
            "a build runs the code of whoever wrote the package",
            report=report,
            hints=[
                f"take a version of `{distribution}` that has wheels",
                f"or build it where that is safe: `pip wheel {distribution}`",
                "then put the wheel on an index of yours, named in `sources.toml` under `[index]`",
            ],
        )


class HashMismatchError(InstallerError):
    """Raised when an index served other bytes than those that were locked."""


class IndexAccessError(InstallerError):
    """Raised when an index could not be reached, or did not let us in."""


class UnsafeWheelError(SourceError):
    """Raised for a wheel that no installer is to unpack; nothing of it was."""

    def __init__(self, wheel: str, problem: str) -> None:
        self.wheel = wheel
        self.problem = problem
        super().__init__(
            f"the wheel `{wheel}` {problem}",
            hints=["take another version of it, and report this to the publisher of the package"],
        )


class UnsafeSiteError(SourceError):
    """Raised when installed packages hold what no package may."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(
            f"what was installed is not safe to use: `{path}` {problem}",
            hints=["tell whoever publishes the package; nothing of it was kept"],
        )


class DistributionMetadataError(SourceError):
    """Raised for static metadata that cannot be written as a distribution's."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"`{path}` describes no distribution: {problem}")


class InstalledDistributionError(SourceError):
    """Raised for an installed distribution whose files cannot be used."""

    def __init__(self, distribution: str, problem: str, *, hints: Iterable[str] = ()) -> None:
        self.distribution = distribution
        self.problem = problem
        super().__init__(f"the installed package `{distribution}` cannot be used: {problem}", hints=hints)


class MissingDependencyError(InstalledDistributionError):
    """Raised when an installed distribution lacks what it depends on."""

    def __init__(self, distribution: str, requirement: str, found: str = "") -> None:
        self.requirement = requirement
        self.found = found
        there = f"version {found} is installed" if found else "it is not installed"
        super().__init__(
            distribution,
            f"it depends on `{requirement}`, and {there}",
            hints=[f"install it: `pip install '{requirement}'`"],
        )


class PackageNotFoundError(SourceError):
    """Raised when no installed distribution is, or announces, what was named."""

    def __init__(self, name: str, module_id: str, *, close: Iterable[str] = ()) -> None:
        self.name = name
        self.module_id = module_id
        self.close = tuple(close)
        hints = [f"did you mean `{one}`?" for one in self.close]
        super().__init__(
            f"no installed package is `{name}`, or announces it as a module",
            hints=[
                *hints,
                f"install it beside paddock: `pip install {name}`",
                f"or take it from the index, at a version: `{name}==1.0`",
            ],
        )


class AmbiguousPackageError(SourceError):
    """Raised when several installed distributions announce the same module."""

    def __init__(self, module_id: str, distributions: Iterable[str]) -> None:
        self.module_id = module_id
        self.distributions = tuple(distributions)
        super().__init__(
            f"several installed packages announce module `{module_id}`: {', '.join(self.distributions)}",
            hints=[f"name the one that is meant: `source: {one}`" for one in self.distributions[:3]],
        )
