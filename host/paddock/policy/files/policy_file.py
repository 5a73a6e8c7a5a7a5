"""One policy file: what the operator of a machine, or its user, lets plans ask for.

Every key in it is known and the file is consistent, or it is refused with all its problems: a misspelt rule would
otherwise have no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, PlainValidator, PrivateAttr

from paddock.errors import PlanProblem
from paddock.plan.host_name import host_text, parse_host, split_port
from paddock.plan.limits import Limits, Totals, limit_text
from paddock.plan.permissions import listed
from paddock.plan.problems import NotAcceptedError, StrictModel, path_text, type_text
from paddock.plan.source_map import Positions
from paddock.plan.units import parse_size
from paddock.policy.files.owned_file import OperatorFile
from paddock.policy.files.source_pattern import SourcePattern
from paddock.policy.grant_caps import GrantCaps, SecretCap
from paddock.policy.journal_rule import JournalRule, read_keep
from paddock.policy.owner import Owner
from paddock.policy.rule import Rule, written_list
from paddock_sandbox.profile import ISOLATION_LEVELS, IsolationLevel
from paddock_sources import SourceUriError
from paddock_sources.mirrors import target_of

Network = IPv4Network | IPv6Network

_LIMITS: Final = tuple(Limits.model_fields)
_NEVER_BY_RULE: Final = "`none` is no minimum: leave it out, and accept no isolation run by run with `--isolation none`"


def _level(value: object) -> object:
    if value == "none":
        raise NotAcceptedError("`none` is no level to shut modules in with", _NEVER_BY_RULE)
    return value


def _known_limits(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in _LIMITS:
            raise NotAcceptedError(f"`{name}` is not the name of a limit", f"limits: {', '.join(_LIMITS)}")
    return names


def _known_hosts(hosts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(_known_host, hosts))


def _known_host(written: str) -> str:
    host, port = split_port(written)
    name = parse_host(host.removeprefix("*."))
    if host.startswith("*.") and not isinstance(name, str):
        raise NotAcceptedError(f"`{written}` has a star before an address")
    return f"{'*.' if host.startswith('*.') else ''}{host_text(name)}{f':{port}' if port else ''}"


def _known_mirrors(written: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(map(target_of, written))
    except SourceUriError as error:
        raise NotAcceptedError(f"`{error.text}`: {error.problem}", "; ".join(error.hints)) from error


def _networks(written: tuple[object, ...]) -> tuple[Network, ...]:
    return tuple(map(_network, written))


def _network(written: object) -> Network:
    try:
        return ip_network(str(written))
    except ValueError:
        raise NotAcceptedError(
            f"`{written}` is no network, or has bits set behind its prefix",
            "networks are written `203.0.113.0/24`, `2001:db8::/32`; an address alone is one",
        ) from None


def _reason(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise NotAcceptedError("says nothing that could be shown", 'write why, as in deny = "takes over accounts"')
    return text


_Level = Annotated[Literal["ns", "bwrap", "landlock"] | None, BeforeValidator(_level)]


def _pattern(written: object) -> SourcePattern:
    if not isinstance(written, str):
        raise NotAcceptedError(f"must be text, is {type_text(written)}")
    return SourcePattern.parse(written)


class ModuleRule(StrictModel):
    """One `[[module]]`: the rules for modules of the sources that `match`."""

    match: Annotated[SourcePattern, PlainValidator(_pattern)]
    caps: Annotated[GrantCaps | None, BeforeValidator(GrantCaps.written)] = Field(None, alias="grants")
    limits: Limits = Field(default_factory=Limits)
    level: _Level = None
    deny: Annotated[str, AfterValidator(_reason)] | None = None

    _place: tuple[str, Rule] = PrivateAttr()

    def at(self, path: str, positions: Positions) -> None:
        """Note its place in the file."""
        rule = Rule(positions.place_of(f"{path}.match"), f'[[module]] match = "{self.match.text}"')
        self._place = path, rule

    @property
    def path(self) -> str:
        """Its place in the file, as in `module[0]`."""
        return self._place[0]

    @property
    def rule(self) -> Rule:
        """The rule that it applies to these sources, without the contents of the rules."""
        return self._place[1]


class _JournalTable(JournalRule):
    """`[journal]`, as written."""

    keep: Annotated[float | None, BeforeValidator(read_keep)] = None
    size: Annotated[int | None, BeforeValidator(parse_size)] = None


class _AuditTable(StrictModel):
    """`[audit]`, as written."""

    forward: Literal["journald", "syslog"] | None = None
    required: bool = False


class MaxLimits(Totals, Limits):
    """The highest limits of each module, and the highest totals of a session."""


class PolicyFile(StrictModel):
    """The rules of one file. `git_hosts` None: any; `allow_unenforced` names limits that may go unenforced.

    `user_limits` are for all sessions of a user together.

    With `bind_local_git`, `git_hosts` has to list `127.0.0.1` for repositories on this machine.

    A module may not connect to any of `refused_networks`. Mirrors of the user's below `mirrors` stand for public
    addresses. `journal` says which sessions are kept. The audit log is also sent on to `audit.forward`, a service.
    """

    minimum_isolation: _Level = None
    allow_unenforced: Annotated[tuple[str, ...], BeforeValidator(listed), AfterValidator(_known_limits)] = ()
    git_hosts: Annotated[tuple[str, ...] | None, BeforeValidator(listed), AfterValidator(_known_hosts)] = None
    bind_local_git: bool = False
    mirrors: Annotated[tuple[str, ...], BeforeValidator(listed), AfterValidator(_known_mirrors)] = ()
    require_pinned: bool = False
    refused_networks: Annotated[tuple[Any, ...], BeforeValidator(listed), AfterValidator(_networks)] = ()
    max_limits: MaxLimits = Field(default_factory=MaxLimits)
    user_limits: Totals = Field(default_factory=Totals)
    modules: Annotated[tuple[ModuleRule, ...], BeforeValidator(listed)] = Field((), alias="module")
    journal: _JournalTable = Field(default_factory=_JournalTable)
    audit: _AuditTable = Field(default_factory=_AuditTable)

    _positions: Positions = PrivateAttr()

    @classmethod
    def read(cls, path: Path, owner: Owner) -> Self | None:
        """Return the policy in the file at `path`, which only `owner` and root may write; None if it is missing.

        Raises:
            PolicyFileError: it exists and cannot be trusted or understood; the error names all its problems.
        """
        file = OperatorFile.read(path, owner)
        return None if file is None else cls.of(file)

    @classmethod
    def parse(cls, text: str, file: str) -> Self:
        """Return the policy in `text`, which errors name as `file`.

        Raises:
            PolicyFileError: it is no policy; the error names all its problems.
        """
        return cls.of(OperatorFile.parse(text, file))

    @classmethod
    def of(cls, written: OperatorFile) -> Self:
        """Return the policy in a file that was read; raises as `parse` does."""
        file = written.checked(cls, _known_keys())
        file._positions = written.positions
        for index, rule in enumerate(file.modules):
            rule.at(f"module[{index}]", file.positions)
        contradictions = list(file._contradictions())
        if contradictions:
            raise written.error(contradictions)
        return file

    @property
    def positions(self) -> Positions:
        """The lines of the file."""
        return self._positions

    @property
    def name(self) -> str:
        """The name people use for the file."""
        return self.positions.file

    @property
    def judges_sources(self) -> bool:
        """Whether any rule in it depends on where a module comes from."""
        return bool(self.modules) or self.git_hosts is not None or self.require_pinned

    def rule(self, path: str, value: str) -> Rule:
        """Return the rule at a place in the file, whose value is shown as `value`."""
        return Rule(self.positions.place_of(path), f"{path} = {value}")

    def rule_of_module(self, rule: ModuleRule, key: str, value: str) -> Rule:
        """Return the rule of one key of a `[[module]]`, with the sources that it applies to."""
        return Rule(self.positions.place_of(f"{rule.path}.{key}"), f"{rule.rule.text}, {key} = {value}")

    def rule_of_cap(self, rule: ModuleRule, family: str) -> Rule:
        """Return the rule that caps a family of grants; a preset in its place caps all families."""
        texts = rule.caps.texts(family) if rule.caps is not None else ()
        return self.rule_of_module(rule, f"grants.{family}", written_list(texts))

    def _contradictions(self) -> Iterator[PlanProblem]:
        if self.bind_local_git and self.git_hosts is None:
            yield PlanProblem("bind_local_git", "there is no git_hosts that it could bind", "add git_hosts")
        seen: dict[str, ModuleRule] = {}
        for rule in self.modules:
            if rule.deny is None and rule.match.family == "pin":
                yield PlanProblem(f"{rule.path}.match", "a rule for one version can only deny it", "add deny")
            if rule.deny is not None and (rule.caps, rule.limits, rule.level) != (None, Limits(), None):
                yield PlanProblem(
                    f"{rule.path}.deny", "a denied module has nothing to bound", "leave out all but match"
                )
            first = seen.setdefault(rule.match.text, rule)
            if first is not rule:
                yield PlanProblem(
                    f"{rule.path}.match",
                    f"`{rule.match.text}` has rules on line {first.rule.location.line} already",
                    "put them together",
                )
            if self._is_weaker(rule.level):
                yield PlanProblem(
                    f"{rule.path}.level",
                    f"`{rule.level}` is weaker than minimum_isolation = `{self.minimum_isolation}` on line "
                    f"{self.positions.line_of('minimum_isolation')}, which holds all the same",
                    "leave it out, or lower minimum_isolation and give the others a level of their own",
                )
            yield from self._limits_above_all(rule)

    def _is_weaker(self, level: IsolationLevel | None) -> bool:
        if level is None or self.minimum_isolation is None:
            return False
        return ISOLATION_LEVELS.index(level) > ISOLATION_LEVELS.index(self.minimum_isolation)

    def _limits_above_all(self, rule: ModuleRule) -> Iterator[PlanProblem]:
        for name, value in rule.limits:
            cap = getattr(self.max_limits, name)
            if value is not None and cap is not None and value > cap:
                yield PlanProblem(
                    path_text(rule.path, "limits", name),
                    f"{limit_text(name, value)} is more than max_limits.{name} = {limit_text(name, cap)} on line "
                    f"{self.positions.line_of(f'max_limits.{name}')}, which holds all the same",
                    "leave it out, or raise that one",
                )


def _known_keys() -> dict[str, tuple[str, ...]]:
    tables: dict[str, type[BaseModel]] = {
        "": PolicyFile,
        "module": ModuleRule,
        "journal": _JournalTable,
        "audit": _AuditTable,
        "grants": GrantCaps,
        "secrets": SecretCap,
        "limits": Limits,
        "max_limits": MaxLimits,
        "user_limits": Totals,
    }
    return {
        key: tuple(field.alias or name for name, field in model.model_fields.items()) for key, model in tables.items()
    }
