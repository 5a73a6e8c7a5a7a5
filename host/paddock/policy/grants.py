"""Resolve an entry's grants of files and programs on this machine, or report all that is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

from paddock.errors import PlanError, PlanProblem
from paddock.plan.families import FAMILIES, is_exclusion, is_program_path
from paddock.plan.model import ModuleEntry
from paddock.plan.permissions import grants_of
from paddock.plan.problems import NotAcceptedError, path_text
from paddock.policy.exclusions import Exclusions, ExclusionSearch
from paddock.policy.located_program import brings_python_alone, environments_in, locate
from paddock.policy.owner import Owner
from paddock.policy.path_walk import GrantedPath
from paddock.policy.programs import Program, is_of_system, look_up
from paddock_sandbox.profile import ANY_PROGRAM
from paddock_sources import Resolution

_Granted = TypeVar("_Granted")


@dataclass(frozen=True, slots=True)
class Brought:
    """What is granted with the source of an MCP server: programs to run, and folders to read beside its own code."""

    line: str = ""
    programs: tuple[Program, ...] = ()
    folders: tuple[GrantedPath, ...] = ()

    @classmethod
    def of(
        cls,
        resolution: Resolution,
        working_dir: Path,
        owner: Owner,
        check: Callable[[GrantedPath, bool], None],
    ) -> Self:
        """Return what the source of a module brings; `check` is that of `Grants.of`.

        Raises:
            NotAcceptedError: a program cannot be run, or a place may not be granted.
        """
        server = resolution.server
        if server is None:
            return cls()
        programs = tuple(locate(str(program), working_dir, owner) for program in server.programs)
        folders = tuple(GrantedPath.resolve(str(folder), working_dir, owner) for folder in server.beside)
        for shown in (*(one for program in programs for one in program.located), *folders):
            check(shown, False)
        return cls(brought_line(resolution), programs, folders)


def brought_line(resolution: Resolution) -> str:
    """Describe what the source of an MCP server brings; empty for any other."""
    server = resolution.server
    if server is None:
        return ""
    programs = " and ".join(map(str, server.programs))
    reads = " and ".join(["its own files", *map(str, server.beside)])
    return f"runs {programs}, reads {reads} (from {resolution.source})"


@dataclass(frozen=True, slots=True)
class Grants:
    """The paths to read, those that may be written to as well, and the programs; None: all programs that are visible.

    `exclusions` are what may not be read in these paths. `located` are the programs that were granted by their paths.
    `environments` are the virtual environments in granted folders, where all programs may be executed. Of these,
    `left_out` are those that need files that no rule lets the module see, or that bring more than a Python. Beside all
    programs, those that a plan names and that lie outside the system's folders, such as `/opt`, are in `beside`. What
    is `brought` comes with the module's source.
    """

    reads: tuple[GrantedPath, ...] = ()
    writes: tuple[GrantedPath, ...] = ()
    programs: tuple[Program, ...] | None = ()
    located: tuple[Program, ...] = ()
    environments: tuple[Program, ...] = ()
    left_out: tuple[Program, ...] = ()
    exclusions: Exclusions = field(default_factory=Exclusions)
    beside: tuple[Program, ...] = ()
    brought: Brought = Brought()

    @classmethod
    def of(
        cls,
        entry: ModuleEntry,
        working_dir: Path,
        owner: Owner,
        check: Callable[[GrantedPath, bool], None],
        lets_see: Callable[[Program], bool] = lambda program: True,
    ) -> Self:
        """Resolve the grants of an entry; `check` raises `NotAcceptedError` for a place that may not be granted.

        Its second argument is whether it would be written to.

        `lets_see` returns whether a program that is not in the entry may be visible, with all it needs.

        Raises:
            PlanError: it names everything that cannot be granted, its place in the plan, and the fix.
        """
        written = grants_of(entry.permissions)
        collector = _Collector(entry)
        all_programs = ANY_PROGRAM in written.run

        def writable(path: str) -> GrantedPath:
            granted = GrantedPath.resolve(path, working_dir, owner)
            granted.refuse_writing_to_the_system()
            check(granted, True)
            return granted

        def program(name: str) -> Program | None:
            if is_program_path(name):
                found = locate(name, working_dir, owner)
                for shown in found.located:
                    check(shown, False)
                return found
            if all_programs and look_up(name) is None:
                return None
            found = Program.find(name)
            return None if all_programs and is_of_system(found.path) else found

        def readable(path: str) -> GrantedPath | None:
            if is_exclusion(path):
                return None
            granted = GrantedPath.resolve(path, working_dir, owner)
            check(granted, False)
            return granted

        reads = tuple(filter(None, collector.collect("read", written.read, readable)))
        writes = collector.collect("write", written.write, writable)
        programs = [one for one in collector.collect("run", written.run, program) if one is not None]
        exclusions = Exclusions()
        if not collector.problems and any(map(is_exclusion, written.read)):
            search = ExclusionSearch((*reads, *writes), working_dir, owner)
            collector.collect("read", written.read, search.exclude)
            exclusions = search.result
        if collector.problems:
            raise PlanError(collector.problems, code="GrantError")
        located = tuple(program for program in programs if program.located)
        named = tuple(program for program in programs if not program.located)
        if not all_programs:
            return cls(reads, writes, named, located, exclusions=exclusions)
        folders = dict.fromkeys(path.path for path in (*reads, *writes) if path.is_directory)
        shown: dict[bool, list[Program]] = {True: [], False: []}
        for python in environments_in(folders, working_dir, owner):
            shown[brings_python_alone(python, folders) and lets_see(python)].append(python)
        return cls(reads, writes, None, located, tuple(shown[True]), tuple(shown[False]), exclusions, named)

    @property
    def may_run(self) -> bool:
        """Whether any program may be executed."""
        return self.programs is None or any((self.programs, self.located, self.brought.programs))

    @property
    def by_path(self) -> tuple[Program, ...]:
        """All programs that are visible by their paths."""
        return (*self.located, *self.environments, *self.brought.programs)

    @property
    def paths(self) -> tuple[GrantedPath, ...]:
        """All paths, for reading and for writing."""
        return (*self.reads, *self.writes, *self.brought.folders)

    def act_outside(self, folder: Path, entry: ModuleEntry, level: str) -> bool:
        """Whether an entry with these grants can change something outside a folder, a path without links.

        At level `none` nothing binds it, and a kept home outlives the session.
        """
        written = grants_of(entry.permissions)
        found = (
            row.acts_outside(grant, folder)
            for family, row in FAMILIES.items()
            if row.acts_outside is not None
            for grant in (self.writes if family == "write" else getattr(written, family))
        )
        return level == "none" or entry.state == "keep" or any(found)

    def named(self) -> dict[str, list[str]]:
        """Return the folders and files that may be read, and written to, by every name that they are seen under."""
        return {"read": _names_of((*self.reads, *self.writes)), "write": _names_of(self.writes)}

    def opened(self, places: Mapping[str, Collection[int]]) -> dict[str, set[str]]:
        """Return the grants of `read` and `write`, as written, that served a module; it opened these places of `named`.

        What may be written to may be read as well: a grant to write also serves a reader whom no other one serves.
        """
        opened = {
            kind: {name for place, name in enumerate(names) if place in places.get(kind, ())}
            for kind, names in self.named().items()
        }
        beside = [one for one in self.writes if not any(one.path.is_relative_to(read.path) for read in self.reads)]
        return {
            "read": _served(self.reads, opened["read"]),
            "write": _served(self.writes, opened["write"]) | _served(beside, opened["read"]),
        }

    def search_path(self) -> tuple[str, ...]:
        """Return the folders searched for programs besides the system's, as far as `PATH` can name them."""
        folders = dict.fromkeys(str(one.folder) for one in self.located if one.folder is not None)
        return tuple(folder for folder in folders if ":" not in folder)

    def executable(self) -> tuple[str, ...]:
        """Return the files that may be executed, in the profile's form."""
        if self.programs is None:
            return (ANY_PROGRAM,)
        programs = (*self.programs, *self.located, *self.brought.programs)
        return tuple(sorted({str(file) for program in programs for file in program.files}))

    def linked(self) -> Iterator[str]:
        """Yield the lines of those paths that are reached through links."""
        yield from (f"read {path.describe()}" for path in self.reads if path.links)
        yield from (f"write {path.describe()}" for path in self.writes if path.links)
        named = (*self.located, *self.environments)
        yield from (f"run {one.describe()}" for one in named if one.located[0].links or len(one.judged) > 1)

    def lines(self) -> Iterator[str]:
        """Yield a line for each grant, as shown to a person, with links followed."""
        yield from (f"read {path.describe()}" for path in self.reads)
        yield from (f"write {path.describe()}" for path in self.writes)
        yield from (f"not read {one.place}" for one in self.exclusions.found)
        if self.programs is None:
            yield "run every program that it can see"
            yield from (f"run {program.describe()}" for program in self.beside)
        else:
            yield from (f"run {program.describe()}" for program in self.programs)
        yield from (f"run {program.describe()}" for program in (*self.located, *self.environments))
        if self.brought.line:
            yield self.brought.line


def _names_of(paths: Sequence[GrantedPath]) -> list[str]:
    return [*dict.fromkeys(str(name) for path in paths for name in (path.path, path.spelled, *path.others))]


def _served(paths: Sequence[GrantedPath], opened: set[str]) -> set[str]:
    return {path.written for path in paths if not opened.isdisjoint(_names_of([path]))}


class _Collector:
    """Resolves one grant after the other and keeps the problems of each under its place in the plan."""

    def __init__(self, entry: ModuleEntry) -> None:
        self.problems: list[PlanProblem] = []
        self._entry = entry

    def collect(self, family: str, written: Sequence[str], find: Callable[[str], _Granted]) -> tuple[_Granted, ...]:
        found: list[_Granted] = []
        for number, grant in enumerate(written):
            try:
                found.append(find(grant))
            except NotAcceptedError as error:
                self.problems.append(PlanProblem(self._place(family, number), error.problem, error.accepted))
        return tuple(found)

    def _place(self, family: str, number: int) -> str:
        if self._entry.permissions.preset is not None:
            return path_text(self._entry.path, "permissions")
        return path_text(self._entry.path, "permissions", family, number)
