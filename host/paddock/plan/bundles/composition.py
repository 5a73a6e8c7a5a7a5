"""Put a bundle and everything that it includes together, without reading a file: the caller is asked for each.

A caller gives what `missing` names until nothing is missing any more, and then asks for the `result`. Bundles that are
included come first, from the first to the last, then the bundle itself; a later value wins. A bundle that includes
itself on some way is left out there. An include that cannot be had is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from paddock.errors import PlanError, PlanProblem
from paddock.plan.bundles import WELL_KNOWN
from paddock.plan.bundles.bundle_file import BundleFile, Named, read_agent
from paddock.plan.bundles.taken_entries import MODULES
from paddock.plan.bundles.traced import Traced, merged, merged_modules, table
from paddock.plan.bundles.tree_path import TreePath
from paddock.plan.problems import NotAcceptedError
from paddock.plan.source_map import SourceNode

MAX_BUNDLES: Final = 500  # the largest public one includes some sixty
_MAX_CHARACTERS: Final = 32 << 20
_MAX_STEPS: Final = 1000
_NAMES: Final = ("bundle.md", "bundle.yaml", "bundle.yml")
_ENDINGS: Final = ("", ".yaml", ".yml", ".md", *(f"/{name}" for name in _NAMES))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A text that is needed: the first of `names` in a tree that is a file. Without `is_needed` there may be none."""

    tree: str
    names: tuple[str, ...]
    is_needed: bool = True
    asked_by: SourceNode | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Text:
    """The instruction of the bundle at a place, whose files lie below `root`."""

    at: TreePath
    root: TreePath
    text: str


@dataclass(frozen=True, slots=True)
class Composed:
    """Bundles put together: the table of a plan, and the texts for the model.

    `context` has the places of files by their names, such as `foundation:context/style.md`; `roots` the folder of each
    namespace, and `agent_roots` that of each agent. `left_out` names includes that a bundle would have had of itself.
    """

    content: Traced
    instruction: Text | None
    context: Mapping[str, TreePath]
    roots: Mapping[str, TreePath]
    bundles: tuple[BundleFile, ...]
    left_out: tuple[Named, ...]
    agent_roots: Mapping[str, TreePath]


@dataclass(frozen=True, slots=True)
class _Agent:
    """An agent as a bundle names it; `is_included` if a file has to say what it is, below `root`."""

    content: Traced
    root: TreePath
    is_included: bool


@dataclass(slots=True)
class _Parts:
    """What several bundles are so far."""

    content: dict[str, Traced] = field(default_factory=dict)
    agents: dict[str, _Agent] = field(default_factory=dict)
    context: dict[str, TreePath] = field(default_factory=dict)
    instruction: Text | None = None

    def add(self, other: _Parts) -> _Parts:
        """Put another bundle over these, and return them."""
        for key, part in other.content.items():
            if key in self.content:
                part = (merged_modules if key in MODULES else merged)(self.content[key], part)
            self.content[key] = part
        self.agents |= other.agents
        self.context |= other.context
        self.instruction = other.instruction or self.instruction
        return self


class Composition:
    """The composition of the bundles at `addresses`, the later ones over the earlier.

    An address is one of a repository or of an absolute folder, or a well-known name. With `skips`, an include that
    cannot be had may be left out, and so is what is below the namespace of one.
    """

    def __init__(self, addresses: Sequence[Named], *, skips: bool = False) -> None:
        self._skips = skips
        self._given: dict[Wanted, tuple[TreePath, str] | None] = {}
        self._files: dict[TreePath, BundleFile] = {}
        self._roots: dict[str, TreePath] = {}
        self._left_out: list[Named] = []
        self._lost: set[Wanted] = set()
        self.strange: dict[str, None] = {}  # names below namespaces that are not known, which are left out
        self._unknown: list[Named] = []  # includes below a namespace that is not known yet
        self._whole: dict[TreePath, _Parts] = {}  # compositions that lead to no circle
        self._all_of_it: _Parts | None = None
        self._meanings: dict[tuple[TreePath, str], Wanted] = {}
        self._steps = 0
        self._taken = 0  # characters
        self._firsts = tuple(_bundle_at(_address(one), one.place) for one in addresses)

    def missing(self) -> tuple[Wanted, ...]:
        """Return what is needed next; nothing, once all is there.

        Raises:
            PlanError: an include names nothing that can be had, or what was given is no bundle.
        """
        while True:
            known = len(self._roots)
            wanted = {one: None for one in self._bundles_wanted() if one not in self._given}
            if wanted:
                return tuple(wanted)
            if not self._unknown:
                break
            if len(self._roots) == known:  # nothing was read that could have given the namespace
                if self._skips:
                    self.strange.update({one.text: None for one in self._unknown})
                    break
                include = self._unknown[0]
                name = include.text.partition(":")[0]
                hint = f"include the bundle that is named `{name}` first"
                raise _problem(include.place, f"`{include.text}`: no bundle that is included is named `{name}`", hint)
        files = (self._file_of_agent(name, agent) for name, agent in self._all().agents.items())
        return tuple(one for one in files if one is not None and one not in self._given)

    def take(self, wanted: Wanted, found: tuple[str, str] | None) -> None:
        """Take the name and the text of what was wanted, or None if there is no such file.

        Raises:
            PlanError: it is needed, and not there; or all texts together are too large.
        """
        self._taken += len(found[1]) if found is not None else 0
        if self._taken > _MAX_CHARACTERS:
            problem = f"the bundles have more than {_MAX_CHARACTERS >> 20} MiB of text together"
            raise _problem(wanted.asked_by, problem, "include fewer")
        if found is None and wanted.is_needed:
            place = TreePath(wanted.tree, wanted.names[0]).text
            raise _problem(wanted.asked_by, f"`{place}` is not there", "correct the address, or leave the line out")
        self._given[wanted] = None if found is None else (TreePath(wanted.tree, found[0]), found[1])

    def leave_out(self, wanted: Wanted) -> bool:
        """Go on without the file of an include, and return whether that may be."""
        may_be = self._skips and wanted.names[-1].endswith(_NAMES[-1]) and wanted not in self._firsts
        if may_be:
            self._given[wanted] = None
            self._lost.add(wanted)
        return may_be

    def result(self) -> Composed:
        """Return the bundles as one; nothing is missing."""
        whole = self._all()
        self._check_roots()
        content = dict(whole.content)
        if whole.agents:
            agents = {name: self._agent(name, agent) for name, agent in whole.agents.items()}
            content["agents"] = table(agents, next(iter(agents.values())).place)
        return Composed(
            table(content, self._file(self._firsts[-1]).content.place),
            whole.instruction,
            whole.context,
            dict(self._roots),
            tuple(self._files.values()),
            tuple(self._left_out),
            {name: self._root_of(name, agent) for name, agent in whole.agents.items()},
        )

    # -- what is needed ---------------------------------------------------------------------

    def _bundles_wanted(self) -> Iterator[Wanted]:
        """Yield each file of a bundle that is included on some way, and those around them."""
        self._unknown.clear()
        ahead, seen = [*self._firsts], {*self._firsts}
        while ahead:
            wanted = ahead.pop()
            yield wanted
            if self._given.get(wanted) is None:
                continue
            file = self._file(wanted)
            for around in _around(file):  # it gives its namespace to all below it, and is not included by that
                yield around
                if self._given.get(around) is not None:
                    self._file(around)
            nexts = [self._meant(file, include) for include in file.includes]
            ahead += [one for one in dict.fromkeys(nexts) if one is not None and one not in seen]
            seen.update(ahead)
            if len(seen) > MAX_BUNDLES:
                raise _problem(ahead[-1].asked_by, f"more than {MAX_BUNDLES} bundles are included", "include fewer")

    def _meant(self, around: BundleFile, include: Named) -> Wanted | None:
        """Return the file that an include means; None where it is below a namespace that is not known yet."""
        known = self._meanings.get((around.at, include.text))
        if known is not None:
            return known
        try:
            at = self._place(include.text, around)
        except NotAcceptedError as error:
            raise _problem(include.place, error.problem, error.accepted) from error
        if at is None:
            self._unknown.append(include)
            return None
        meant = self._meanings[around.at, include.text] = _bundle_at(at, include.place)
        return meant

    def _place(self, text: str, around: BundleFile) -> TreePath | None:
        if text.startswith(("./", "../")):
            return around.at.folder.joined(text)
        if "://" in text or text.startswith("/"):
            at = TreePath.of(text)
            if at.is_local and not around.at.is_local:
                raise NotAcceptedError(f"`{text}` is a folder of this machine", "include what a repository has")
            return at
        name, has_path, path = text.partition(":")
        if has_path:
            root = self._roots.get(name)
            return None if root is None else root.joined(path)
        return _known(text)

    def _file(self, wanted: Wanted) -> BundleFile:
        """Return the bundle in a file that was given, and note its namespace."""
        given = self._given[wanted]
        assert given is not None, "only what was found is read"
        at, text = given
        if at not in self._files:
            file = self._files[at] = BundleFile.read(text, at)
            if not file.name:
                return file
            known = self._roots.setdefault(file.name, file.root)
            if known.tree.partition("@")[0] != file.root.tree.partition("@")[0]:
                problem = f"`{file.name}` is the name of this bundle and of another one, in `{known.text}`"
                raise _problem(file.content.place, problem, "leave one of the two out", at.text)
            if known.tree == file.root.tree and len(file.root.path) < len(known.path):
                self._roots[file.name] = file.root  # that of the whole repository
        return self._files[at]

    def _file_of_agent(self, name: str, agent: _Agent) -> Wanted | None:
        """Return the file of an agent; None where it is written in the bundle and belongs to no namespace."""
        space, has_space, own = name.partition(":")
        root = self._roots.get(space) if has_space else agent.root
        if root is None:
            if not agent.is_included:
                return None
            hint = f"include the bundle that is named `{space}`"
            raise _problem(agent.content.place, f"no bundle that is included is named `{space}`", hint)
        folder = root.joined("agents")
        try:
            at = folder.joined(f"{own if has_space else name}.md")
        except NotAcceptedError as error:
            raise _problem(agent.content.place, error.problem, error.accepted) from error
        if root.is_local and not at.is_shown_below(folder):
            problem = f"`{name}` leads out of `{folder.text}`, or to a hidden file"
            raise _problem(agent.content.place, problem, "name a file of the bundle")
        return Wanted(root.tree, (at.path,), agent.is_included, agent.content.place)

    def _root_of(self, name: str, agent: _Agent) -> TreePath:
        space, has_space, _ = name.partition(":")
        return self._roots.get(space, agent.root) if has_space else agent.root

    def _check_roots(self) -> None:
        """Refuse a namespace in a folder of this machine that is wider than the folders of bundles in it."""
        tops = {file.at.tree for file in self._files.values() if not file.at.folder.path}
        for file in self._files.values():
            root, folder = f"{file.root.path}/", f"{file.at.folder.path}/"
            is_inside = root.startswith(folder) or (folder.startswith(root) if file.root.path else file.at.tree in tops)
            if file.at.is_local and not is_inside:
                problem = f"the `namespace_root` of `{file.name}` leads out of its folder `{file.at.folder.text}`"
                raise _problem(file.content.place, problem, "name a folder of the bundle", file.at.text)

    # -- what comes of it -------------------------------------------------------------------

    def _all(self) -> _Parts:
        """Return what all bundles are together; every one of them is there, or left out."""
        if self._all_of_it is None:
            whole = self._all_of_it = _Parts()
            for first in self._firsts:
                whole.add(self._composed(first, {}))
            if self._skips:
                whole.agents = {name: one for name, one in whole.agents.items() if self._is_known(name)}
        return self._all_of_it

    def _is_known(self, name: str) -> bool:
        """Whether what is called so is of a namespace that is known, or of none; else it is noted."""
        space, has_space, _ = name.partition(":")
        is_known = not has_space or space in self._roots
        if not is_known:
            self.strange[name] = None
        return is_known

    def _composed(self, wanted: Wanted, way: dict[TreePath, None]) -> _Parts:
        """Return a bundle with all that it includes; `way` has the bundles that include it."""
        file = self._file(wanted)
        if file.at in self._whole:
            return self._whole[file.at]
        self._steps += 1
        if self._steps > _MAX_STEPS:  # each way through circles is another composition
            raise _problem(wanted.asked_by, "the includes go in too many circles", "include each bundle once")
        parts, left_out = _Parts(), len(self._left_out)
        for include in file.includes:
            inner = self._meant(file, include)
            if inner is None or inner in self._lost:
                continue
            place = self._file(inner).at
            if place in way or place == file.at:
                self._left_out.append(include)
            else:
                parts.add(self._composed(inner, {**way, file.at: None}))
        parts.add(self._own(file))
        if len(self._left_out) == left_out:
            self._whole[file.at] = parts
        return parts

    def _own(self, file: BundleFile) -> _Parts:
        agents = {name: _Agent(part, file.root, is_included=False) for name, part in file.agents.parts()}
        for one in file.included_agents:
            agents[one.text] = _Agent(Traced({"name": one.text}, one.place), file.root, is_included=True)
        context = {}
        for name, ref in file.context:
            if self._skips and not self._is_known(ref.text):
                continue
            try:
                at = self._context(ref.text, file)
            except NotAcceptedError as error:
                raise _problem(ref.place, error.problem, error.accepted) from error
            context[name if ":" in name or not file.name else f"{file.name}:{name}"] = at
        instruction = Text(file.at, file.root, file.instruction) if file.instruction else None
        return _Parts(dict(file.content.parts()), agents, context, instruction)

    def _context(self, text: str, file: BundleFile) -> TreePath:
        """Return the place of a context's file, which is of a bundle: the model is told what is in it.

        Raises:
            NotAcceptedError: it is elsewhere.
        """
        space, has_space, path = text.partition(":")
        root = self._roots.get(space) if has_space else file.root
        if root is None:
            raise NotAcceptedError(f"no bundle that is included is named `{space}`", "include it first")
        at = root.joined(path if has_space else text)
        if root.is_local and not (root.tree == file.root.tree and at.is_shown_below(root)):
            raise NotAcceptedError(f"`{text}` leads out of the bundle, or to a hidden file", "name a file of a bundle")
        return at

    def _agent(self, name: str, agent: _Agent) -> Traced:
        """Return an agent with what its file has and the bundle does not say."""
        wanted = self._file_of_agent(name, agent)
        given = None if wanted is None else self._given.get(wanted)
        if given is None:
            return agent.content
        parts = dict(read_agent(given[1], given[0], name).parts())
        parts |= {key: part for key, part in agent.content.parts() if part.value}
        return table(parts, agent.content.place)


def _known(name: str) -> TreePath:
    if name not in WELL_KNOWN:
        known = ", ".join(sorted(WELL_KNOWN))
        problem = f"`{name}` is the name of no well-known bundle"
        raise NotAcceptedError(problem, f"write an address, or `./{name}` for what is beside it; known are {known}")
    return TreePath.of(WELL_KNOWN[name])


def _address(named: Named) -> TreePath:
    try:
        return TreePath.of(named.text) if "/" in named.text else _known(named.text)
    except NotAcceptedError as error:
        raise _problem(named.place, error.problem, error.accepted) from error


def _bundle_at(at: TreePath, asked_by: SourceNode | None) -> Wanted:
    """Return the file of a bundle at a place: the file itself, or the usual one of a folder."""
    names = tuple(f"{at.path}{ending}" for ending in _ENDINGS) if at.path else _NAMES
    return Wanted(at.tree, names, asked_by=asked_by)


def _around(file: BundleFile) -> Iterator[Wanted]:
    """Yield the bundle of the folders above a bundle's own, if it is in a folder."""
    folder, names = file.at.folder.path, []
    while folder:
        folder = folder.rpartition("/")[0]
        names += [f"{folder}/{name}".lstrip("/") for name in _NAMES]
    if names:
        yield Wanted(file.at.tree, tuple(names), is_needed=False)


def _problem(place: SourceNode | None, problem: str, hint: str, file: str = "") -> PlanError:
    line = None if place is None else place.line
    file = file or (place.file if place is not None else "")
    return PlanError([PlanProblem("", problem, hint, line, file=file)])
