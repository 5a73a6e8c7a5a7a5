"""A mount plan once it is read: the values of each entry, with the place in the plan they came from.

`ModuleEntry` validates a person's text and refuses anything it does not know. `MountPlan` is the frozen result of
loading; it is complete and consistent, or it does not exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
)

from paddock.errors import PlanError, PlanProblem
from paddock.plan.instruction import Instruction
from paddock.plan.limits import Limits, Totals
from paddock.plan.permissions import FAMILIES, Permissions, SecretGrant
from paddock.plan.plain_data import merged
from paddock.plan.problems import NotAcceptedError, StrictModel, must_be, path_text, problems_of
from paddock.plan.secret_references import reference_problems, references
from paddock.plan.source_map import Location, Positions
from paddock_sources import ModuleIdError, SourceUriError, checked_module_id, parse_source
from paddock_sources.constraints import MAX_CONSTRAINTS, Constraint, ConstraintTextError, DependencyRules
from paddock_sources.kinds.mcp_uri import MCP_MODULE
from paddock_sources.similar_names import near

Kind = Literal["orchestrator", "context", "provider", "tool", "hook"]
Isolation = Literal["ns", "bwrap", "landlock", "none"]


@dataclass(frozen=True, slots=True)
class EntryPlace:
    """Where an entry stands in its plan, and the folder that its relative source starts from.

    `renamed` contains the places of keys that stand elsewhere, as for an orchestrator written as a bare id; `agent` is
    the name of the agent whose entry it is.
    """

    kind: Kind
    path: str
    base: Path
    renamed: Mapping[str, str] = field(default_factory=dict)
    agent: str | None = None

    @property
    def config_path(self) -> str:
        """The place of the entry's configuration."""
        return self.renamed.get("config", path_text(self.path, "config"))


def _known_module(module_id: str) -> str:
    try:
        checked_module_id(module_id)
    except ModuleIdError as error:
        raise NotAcceptedError(f"`{module_id}` is not a module id: {error.problem}", error.hints[0]) from error
    if module_id == "module-source-resolver" or module_id.startswith("resolver-"):
        raise NotAcceptedError(
            f"`{module_id}` is a resolver, which is not run as a module",
            "a resolver decides which code is trusted: it belongs to the application, not to a plan",
        )
    return module_id


def _anchored_source(source: object, info: ValidationInfo) -> object:
    """Return the text of a source, which may be written as a table; other types are refused elsewhere."""
    if not isinstance(source, (str, Mapping)):
        return source
    try:
        return parse_source(source).anchored(cast(EntryPlace, info.context).base).text
    except SourceUriError as error:
        problem = f"`{error.text}` is not a module source: {error.problem}"
        raise NotAcceptedError(problem, "; ".join(error.hints)) from error


def _filled(text: str | None) -> str | None:
    if text is not None and not text.strip():
        raise NotAcceptedError("is empty")
    return text


def _names(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _constraint(text: str) -> str:
    try:
        return Constraint.parse(text).text
    except ConstraintTextError as error:
        raise NotAcceptedError(error.problem, error.accepted) from error


def _constraints(value: object) -> object:
    if isinstance(value, list) and len(value) > MAX_CONSTRAINTS:
        raise NotAcceptedError(f"has more than {MAX_CONSTRAINTS} entries")
    return tuple(value) if isinstance(value, list) else value


Constraints = Annotated[tuple[Annotated[str, AfterValidator(_constraint)], ...], BeforeValidator(_constraints)]


def _empty_for_none(value: object) -> object:
    return {} if value is None else value


class ModuleEntry(StrictModel):
    """One module of a plan; made by `read`. A folder in `source` is absolute, `${NAME}` in `config` is unexpanded."""

    module: Annotated[str, AfterValidator(_known_module)]
    source: Annotated[str | None, BeforeValidator(_anchored_source)] = None
    constraints: Constraints = ()
    dependencies: Literal["resolved", "locked"] = "resolved"
    config: Annotated[dict[str, Any], BeforeValidator(_empty_for_none)] = Field(default_factory=dict)
    instance_id: Annotated[str | None, AfterValidator(_filled)] = None
    permissions: Annotated[Permissions, BeforeValidator(Permissions.written)] = Field(default_factory=Permissions)
    limits: Annotated[Limits, BeforeValidator(_empty_for_none)] = Field(default_factory=Limits)
    isolation: Isolation | None = None
    spawn: Literal["template", "exec"] = "template"
    on_failure: Literal["deny", "continue"] | None = None
    replaces: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    state: Literal["ephemeral", "keep"] = "ephemeral"

    _place: EntryPlace = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        self._place = context

    @classmethod
    def read(cls, written: object, place: EntryPlace) -> ModuleEntry:
        """Return the entry written at `place`.

        Raises:
            PlanError: it is no table, or contains problems; the error names all of them.
        """
        if isinstance(written, str):
            raise PlanError([must_be("a table", written, place.path, f"write `module: {written}`")])
        if not isinstance(written, Mapping):
            raise PlanError([must_be("a table", written, place.path)])
        unknown = [(key, value) for key, value in written.items() if key not in ENTRY_KEYS]
        key, value = unknown[0] if len(unknown) == 1 else ("", None)
        if key and "module" not in written and not near(str(key), ENTRY_KEYS):  # `tool-x: {…}`, or `name: tool-x`
            hint = f"write `module: {value if isinstance(value, str) else key}`, and beside it what else the entry has"
            raise PlanError([PlanProblem(place.path, f"`module` is missing, and `{key}` is not known", hint)])
        try:
            return cls.model_validate(dict(written), context=place)
        except ValidationError as error:
            raise PlanError(problems_of(error, place.path, _KNOWN_KEYS, place.renamed)) from error

    @property
    def kind(self) -> Kind:
        """The kind of module required by the place in the plan."""
        return self._place.kind

    @property
    def path(self) -> str:
        """The place in the plan, as in `tools[0]`."""
        return self._place.path

    @property
    def agent(self) -> str | None:
        """The agent of the plan that contains the entry, None for one of the plan's own."""
        return self._place.agent

    def over(self, base: ModuleEntry) -> ModuleEntry:
        """Return the entry with the values of `base`, another entry of the same module, where this one has none.

        Configurations are merged. Grants are for the code they were given to, so they do not carry over to another
        source.
        """
        own = {name: getattr(self, name) for name in self.model_fields_set}
        if self.source not in (None, base.source):
            own |= {name: getattr(self, name) for name in _GRANTED}
        inherited = {name: getattr(base, name) for name in base.model_fields_set}
        return self.model_copy(update={**inherited, **own, "config": merged(base.config, self.config)})

    def config_problems(self, known: Container[str]) -> tuple[PlanProblem, ...]:
        """Return the problems of its configuration.

        There is one for each `${NAME}` that is not granted to this entry or not `known`, and one for a command
        where its source is an MCP server, which brings its own.
        """
        found = references(self.config, self._place.config_path)
        problems = tuple(reference_problems(found, self.permissions, known))
        if not self.brings_server or "command" not in self.config:
            return problems
        said = f"`{self.source}` says itself how its server is started"
        hint = f"take `command` out; arguments are `args`, and a command of yours has `source: builtin:{MCP_MODULE}`"
        return (*problems, PlanProblem(path_text(self._place.config_path, "command"), said, hint))

    @property
    def brings_server(self) -> bool:
        """Whether its source is an MCP server, which is a program that the module runs."""
        return self.source is not None and self.source.startswith("mcp+")

    @property
    def server_rules(self) -> DependencyRules:
        """What its configuration says about the package of an MCP server; any other source takes no notice of it."""
        name = self.config.get("bin")
        return DependencyRules(
            programs=frozenset([str(name)] if name else []),
            without_scripts=self.config.get("without_scripts") is True,
        )


class PlanWide(StrictModel):
    """What a plan says about all its modules: constraints on what they depend on, and what they may use together."""

    constraints: Constraints = ()
    limits: Annotated[Totals, BeforeValidator(_empty_for_none)] = Field(default_factory=Totals)


ENTRY_KEYS = tuple(ModuleEntry.model_fields)

_GRANTED = ("permissions", "isolation", "replaces", "state")  # the permissions of an entry for the code of its source

_KNOWN_KEYS = {
    "": ENTRY_KEYS,
    "limits": tuple(Limits.model_fields),
    "permissions": ("preset", *FAMILIES),
    "secrets": tuple(SecretGrant.model_fields),
}


def entries_over(base: Sequence[ModuleEntry], own: Sequence[ModuleEntry]) -> tuple[ModuleEntry, ...]:
    """Return the entries of an agent's list, each put over the plan's entry of the same module, if there is one."""
    known = dict(zip(_keys(base), base, strict=True))
    return tuple(entry.over(known[key]) if key in known else entry for key, entry in zip(_keys(own), own, strict=True))


def entries_placed(base: Sequence[ModuleEntry], own: Sequence[ModuleEntry]) -> tuple[ModuleEntry, ...]:
    """Return the plan's list with an agent's entries in place of those they replace, followed by the agent's others."""
    mine = dict(zip(_keys(own), own, strict=True))
    kept = [mine.pop(key, entry) for key, entry in zip(_keys(base), base, strict=True)]
    return (*kept, *mine.values())


def _keys(entries: Sequence[ModuleEntry]) -> list[tuple[str, str | None, int]]:
    """Return the keys that distinguish entries: module, instance, and how many of these came before in the list."""
    seen: Counter[tuple[str, str | None]] = Counter()
    keys = []
    for entry in entries:
        key = (entry.module, entry.instance_id)
        keys.append((*key, seen[key]))
        seen[key] += 1
    return keys


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent: a further session that a module of the plan may start, with the differences from the plan.

    Its entries are complete: they contain the plan's values for the same module wherever the agent has none of its own.
    Everything the agent does not list is as in the plan. `raw` is the agent's whole table.
    """

    name: str
    orchestrator: ModuleEntry | None
    context: ModuleEntry | None
    providers: tuple[ModuleEntry, ...]
    tools: tuple[ModuleEntry, ...]
    hooks: tuple[ModuleEntry, ...]
    raw: Mapping[str, Any]

    @property
    def path(self) -> str:
        """The place in the plan."""
        return path_text("agents", self.name)

    @property
    def instruction(self) -> str:
        """The instruction at the start of its conversation, empty if there is none."""
        system = self.raw.get("system")
        written = self.raw.get("instruction") or (system.get("instruction") if isinstance(system, Mapping) else None)
        return written if isinstance(written, str) else ""

    def entries(self) -> Iterator[ModuleEntry]:
        """Return the agent's own entries, in the order in which its session mounts them."""
        return filter(None, (self.orchestrator, self.context, *self.providers, *self.tools, *self.hooks))


@dataclass(frozen=True, slots=True)
class Bundles:
    """What a plan has from bundles.

    `sources` are the names and files of those that were read; `instruction` is that of the last one that has any, in
    the file `instruction_of`, without what it mentions, and empty where the plan has its own. `told` is all that they
    have the model told, and `context` the places of files that follow the instruction, by their names. `roots` has the
    folder of each namespace on this machine, and whether it is pinned.
    """

    sources: tuple[tuple[str, str], ...]
    instruction: str
    told: Instruction
    context: Mapping[str, str]
    roots: Mapping[str, tuple[Path, bool]]
    instruction_of: str = ""


@dataclass(frozen=True, slots=True)
class MountPlan:
    """A plan that can be mounted.

    `raw` is the plan in the form of a session's configuration: `session.orchestrator` and `session.context` are tables,
    folders in `source` are absolute, references to secrets stay references, and its lists match the tuples here index
    by index. `origin` is the file it came from, and `positions` its lines; `digest` covers the whole content of
    that file as it was read. `notes` name values that were passed on without being understood. `constraints` are on
    what any of its modules depends on, `totals` on what all of them use. `instruction` is as it is written until
    its files are read. `bundles` is what it has from those that it extends.
    """

    orchestrator: ModuleEntry
    context: ModuleEntry
    providers: tuple[ModuleEntry, ...]
    tools: tuple[ModuleEntry, ...]
    hooks: tuple[ModuleEntry, ...]
    agents: Mapping[str, Agent]
    raw: dict[str, Any]
    origin: Path | None
    digest: str
    positions: Positions
    notes: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    totals: Totals = field(default_factory=Totals)
    instruction: Instruction = field(default_factory=Instruction)
    bundles: Bundles | None = None

    @property
    def title(self) -> str:
        """Its file, or `of this application`, for a sentence about the plan."""
        return str(self.origin) if self.origin is not None else "of this application"

    @property
    def folder(self) -> Path | None:
        """The folder of its file, beside which its sources may lie."""
        return None if self.origin is None else self.origin.parent

    def entries(self) -> Iterator[ModuleEntry]:
        """Yield every entry that a session may start: its own, and those in which its agents differ."""
        yield from self.own_entries()
        for agent in self.agents.values():
            yield from agent.entries()

    def own_entries(self) -> Iterator[ModuleEntry]:
        """Return the entries of the session itself in the order in which it mounts them."""
        return iter((self.orchestrator, self.context, *self.providers, *self.tools, *self.hooks))

    def dependency_rules(self) -> DependencyRules:
        """Return what decides the versions of what any of its modules depends on."""
        return DependencyRules(self._placed("constraints", self.constraints))

    def rules_by_entry(self) -> Callable[[ModuleEntry], DependencyRules]:
        """Return what gives the rules for one entry's module; the plan's own are read once for all entries."""
        whole = self.dependency_rules().constraints

        def rules(entry: ModuleEntry) -> DependencyRules:
            own = self._placed(path_text(entry.path, "constraints"), entry.constraints)
            rules = DependencyRules((*whole, *own), entry.dependencies == "locked")
            return DependencyRules.together(rules, entry.server_rules)

        return rules

    def _placed(self, path: str, texts: Sequence[str]) -> tuple[Constraint, ...]:
        return tuple(Constraint.parse(text, self._named(f"{path}[{index}]")) for index, text in enumerate(texts))

    def _named(self, path: str) -> str:
        place = self.place_of(path)
        return place.text if place.line is not None else f"{path} in {place.file}"

    def place_of(self, path: str) -> Location:
        """Return where a place in the plan, such as `tools[0].permissions`, stands in its file."""
        return self.positions.place_of(path)
