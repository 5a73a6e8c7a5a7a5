"""A module in a Python package: one that is installed beside the host, or one of the index, at a version.

Either way its files and those of all its dependencies end up in one read-only folder of the cache. So a worker sees
these packages and no others of the host's environment. A package that is installed in place stands for its folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from paddock_sources.constraints import NO_RULES, DependencyRules
from paddock_sources.environment.builder import Environments
from paddock_sources.environment.errors import InstalledDistributionError
from paddock_sources.environment.installed import InstalledDistribution, InstalledDistributions
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.locked import SITE, LockedDistribution, copied_digest, without_preloaded
from paddock_sources.environment.requirements import Requirements, normalised
from paddock_sources.environment.site import clean_site
from paddock_sources.errors import SourceError
from paddock_sources.file import FileSource
from paddock_sources.module_id import checked_module_id
from paddock_sources.resolution import Resolution
from paddock_sources.similar_names import near

if TYPE_CHECKING:
    from paddock_sources.cache import SourceCache


@dataclass(frozen=True)
class PackageSource:
    """The package `name`, or the one that announces the module of that id; with a `version`, the index's.

    `preloaded` are the packages of a worker's runtime, by name, with their versions: if the version is the same, the
    runtime's is used. `environments` is only needed for a version of the index. A version of the index is chosen within
    the `rules`; what is installed has to be.
    """

    name: str
    version: str = ""
    cache: SourceCache = field(kw_only=True)
    python: Interpreter = field(kw_only=True, default_factory=Interpreter.this)
    installed: InstalledDistributions = field(kw_only=True, default_factory=InstalledDistributions)
    preloaded: Mapping[str, str] = field(kw_only=True, default_factory=dict)
    environments: Environments | None = field(kw_only=True, default=None)
    rules: DependencyRules = field(kw_only=True, default=NO_RULES)

    def resolve(self, module_id: str) -> Resolution:
        """Return where the code of `module_id` is, ready to be run.

        Raises:
            SourceError: it is not there, is not whole, or not safe to use.
        """
        module_id = checked_module_id(module_id)
        if self.version:
            return self.provide(module_id, self.lock())
        distribution = self._found(module_id)
        if distribution.editable is not None:
            return replace(FileSource(distribution.editable).resolve(module_id), is_live=True)
        package, attribute = distribution.module_package(module_id)
        together = self.installed.closure(distribution, self.python, self.preloaded)
        broken = self.rules.broken_by((one.name, one.version) for one in together)
        if broken:
            wanted = " ".join(f"'{one.constraint.text}'" for one in broken)
            raise SourceError(
                f"the installed package `{self.name}` needs {'; '.join(one.shown for one in broken)}",
                code="BoundsError",
                hints=[f"install other versions beside paddock: `pip install {wanted}`", "or widen the constraint"],
            )
        return self._resolution(module_id, self._copied(together), package, attribute, distribution, together)

    def module_ids(self, locked: Sequence[LockedDistribution] = ()) -> tuple[str, ...]:
        """Return the ids of the modules in it, the one it is named for first; with a version, as `locked` has it.

        Raises:
            SourceError: it cannot be had, or there is no module in it.
        """
        if self.version:
            found = self.of_index(self.site(locked))
        else:
            found = self._found(self.name)
        return found.module_ids

    def lock(self) -> tuple[LockedDistribution, ...]:
        """Return the package at its version, else the newest, and all its dependencies, as the index has them now.

        Raises:
            SourceError: it cannot be had.
        """
        assert self.environments is not None, "a version of the index needs them"
        name = normalised(self.name)
        return self.environments.resolve(
            Requirements(self.name, self.version, (f"{name}=={self.version}" if self.version else name,)),
            constraints={one: version for one, version in self.preloaded.items() if one != name},
            bounds=self.rules.constraints,
        )

    def provide(self, module_id: str, locked: Sequence[LockedDistribution]) -> Resolution:
        """Return the code of `module_id`, with exactly these distributions, installing what is missing.

        Raises:
            SourceError: they cannot be had, or hold no such module.
        """
        site = self.site(locked)
        distribution = self.of_index(site)
        package, attribute = distribution.module_package(module_id)
        together = tuple(InstalledDistributions([site]).by_name.values())
        return self._resolution(module_id, site, package, attribute, distribution, together)

    def site(self, locked: Sequence[LockedDistribution]) -> Path:
        """Return the folder with all that is locked, except what a runtime has.

        Raises:
            SourceError: it cannot be had.
        """
        assert self.environments is not None, "a version of the index needs them"
        name = normalised(self.name)
        wanted = without_preloaded(locked, {one: at for one, at in self.preloaded.items() if one != name})
        return self.environments.install(wanted, self.name)

    def of_index(self, site: Path) -> InstalledDistribution:
        """Return the package itself in the folder that has it.

        Raises:
            InstalledDistributionError: it is not there.
        """
        found = InstalledDistributions([site]).by_name.get(normalised(self.name))
        if found is None:
            problem = "what is locked does not name it, or its metadata is malformed or too large"
            raise InstalledDistributionError(
                self.name, problem, hints=["lock the module again", "or take another version of it"]
            )
        return found

    def _found(self, module_id: str) -> InstalledDistribution:
        found = self.installed.find(self.name)
        if found is None:
            known = {*self.installed.by_name, *self.installed.module_ids()}
            raise SourceError(
                f"no installed package is `{self.name}`, or announces it as a module",
                code="PackageNotFoundError",
                hints=[
                    *(f"did you mean `{one}`?" for one in near(self.name, known)),
                    f"install it beside paddock: `pip install {self.name}`",
                    f"or take it from the index, at a version: `{self.name}==1.0`",
                ],
            )
        return found

    def _copied(self, together: Sequence[InstalledDistribution]) -> Path:
        from paddock_sources.cache import Bucket

        files = {path: digest for one in together for path, digest in one.files.items()}
        digest = copied_digest(files, self.python)
        entries = self.cache.store(Bucket.ENVIRONMENTS)

        def build(folder: Path) -> None:
            site = folder / SITE
            site.mkdir()
            for one in together:
                one.copy(site)
            clean_site(site)

        facts = {"distributions": [f"{one.name}=={one.version}" for one in together], "python": self.python.tag}
        return entries.add(digest, build, facts) / SITE

    def _resolution(
        self,
        module_id: str,
        site: Path,
        package: str,
        attribute: str,
        distribution: InstalledDistribution,
        together: Sequence[InstalledDistribution],
    ) -> Resolution:
        source = f"{distribution.name}=={self.version}" if self.version else distribution.name
        own = {
            one.name.replace("-", "_") for one in together if self.preloaded.get(one.name, one.version) != one.version
        }
        return replace(
            FileSource(site / package, source=source).resolve(module_id),
            root=site,
            version=distribution.version,
            attribute=attribute,
            own_versions=tuple(sorted(own)),
        )
