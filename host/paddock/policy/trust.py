"""Whether the operator accepted a plan as it is, and what they granted to its modules with that.

An acceptance is for the plan with this digest. A plan that was edited since is another plan, and is shown as edited. A
grant to a module is for the code it had then, from its source, and for no code that replaced it. A plan that was not
accepted may ask for the working directory, and for nothing that is the operator's.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from paddock.plan.families import FAMILIES, is_program_path
from paddock.plan.model import ModuleEntry, MountPlan
from paddock.plan.net_rule import SELF
from paddock.plan.permissions import Permissions, as_accepted, grants_of
from paddock.plan.problems import NotAcceptedError, path_text
from paddock.plan.source_map import Location
from paddock.policy.files.accepted_plans import AcceptedGrant, AcceptedPlan
from paddock.policy.files.grants import GrantsFile, GrantsNotKeptError
from paddock.policy.grant_request import ModuleRequest, OperatorGrant
from paddock.policy.guarded_paths import runner_opened
from paddock.policy.located_program import environments_in, paths_of
from paddock.policy.owner import Owner
from paddock.policy.path_walk import GrantedPath
from paddock.policy.paths import GrantPathRule
from paddock.policy.pins import MovedPin, Pin, Pins, moved_pins
from paddock.policy.rule import BUILT_IN, Floor, PolicyFindings, Rule
from paddock.policy.source_name import SourceName, without_credentials
from paddock_sandbox.profile import ANY_PROGRAM
from paddock_sources import parse_source
from paddock_sources.errors import SourceUriError
from paddock_sources.git.remote import Remote
from paddock_sources.kinds.mcp_command_uri import McpCommandUri
from paddock_sources.manifest import permission_request

_FLAG: Final = Rule(Location("the command line"), "--trust-plan")
_SESSION: Final = Location("this session")

_UNACCEPTED: Final = Rule(
    BUILT_IN,
    "a plan that you have not accepted gets no network, no secrets, no variables, no kept state, no weaker isolation, "
    "no module at another kind's mount point, no path, program by its path or code outside the working directory, and "
    "nothing to write to that other programs run by themselves",
)
# A plan's own grants are accepted together with where they lead. Other grants are stored as proposed: inside.
_GIVEN: Final = Rule(BUILT_IN, "a path that was given for the working directory leads nowhere else")
_LEADS_OUT: Final = "lies outside the working directory, for which it was given"
_OPENS: Final = "is by now what your own programs run by themselves, for which it was not given"
_STATE: Final = "grant it in the plan, by where it leads, or have it lead into the working directory"
_STATE_IT: Final = "grant it in the plan, by where it leads"
_ROOT: Final = Path("/")
_ACCEPT: Final = (
    "take it out of the plan, or accept the plan: say yes to `paddock run` on a terminal, or add `--trust-plan`"
)
_FETCH: Final = "`paddock lock PLAN` fetches it with your rights"
_NEEDS_TRUST: Final = "needs a plan that you accepted"


@dataclass(frozen=True, slots=True)
class Trust:
    """Whether the operator accepted the plan, and the rule that says so or says why not: a line, a flag."""

    accepted: bool
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class PlanAcceptance:
    """What the operator `accepted` of the plan as it is; `problem` says why that could not be stored beyond this run.

    `earlier` is their last acceptance of the plan's file, where the plan was edited since.
    """

    trust: Trust
    accepted: AcceptedPlan | None = None
    file: str = ""
    problem: GrantsNotKeptError | None = None
    earlier: AcceptedPlan | None = None

    @classmethod
    def of(cls, plan: MountPlan, file: GrantsFile, *, trust_plan: bool = False) -> Self:
        """Return the acceptance of a plan; `trust_plan` accepts its own text, and presets as they are now, this once.

        Raises:
            PolicyFileError: the record of accepted plans cannot be trusted or understood.
        """
        known = file.all()
        accepted = next((one for one in known if one.digest == plan.digest), None)
        if accepted is not None:
            text = f"accepted on {accepted.day} as it is (sha256 {accepted.short_digest})"
            acceptance = cls(Trust(True, file.rule_of(accepted.line, text)), accepted, str(file.path))
            return acceptance.of_today() if trust_plan else acceptance
        versions = [one for one in known if one.plan and one.plan == plan_name(plan)]
        latest = max(versions, key=lambda one: one.accepted_at, default=None)
        if trust_plan:
            return cls(Trust(True, _FLAG), earlier=latest)
        if latest is None:
            return cls(Trust(False))
        text = f"accepted on {latest.day} as it was then (sha256 {latest.short_digest}), and edited since"
        return cls(Trust(False, file.rule_of(latest.line, text)), earlier=latest)

    @classmethod
    def accepting(
        cls,
        plan: MountPlan,
        file: GrantsFile,
        grants: Iterable[AcceptedGrant] = (),
        pins: Iterable[Pin] | None = None,
    ) -> Self:
        """Accept a plan as it is, with these grants and pins, and record it; if that fails, accept it for this run.

        Raises:
            PolicyFileError: the record of accepted plans cannot be trusted or understood.
        """
        grants = tuple(grants)
        try:
            accepted = file.accept(plan.digest, plan_name(plan), grants, pins)
        except GrantsNotKeptError as error:
            accepted = AcceptedPlan.now(plan.digest, plan_name(plan), grants)
            return cls(Trust(True, Rule(_SESSION, "accepted when asked")), accepted, problem=error)
        text = f"accepted on {accepted.day} as it is (sha256 {accepted.short_digest})"
        return cls(Trust(True, file.rule_of(accepted.line, text)), accepted, str(file.path))

    def moved(self, now: Pins) -> tuple[MovedPin, ...]:
        """Return the pins of an accepted plan's sources that differ from those at its acceptance."""
        return () if self.accepted is None else moved_pins(self.accepted.pins, now)

    def moved_since(self, now: Pins) -> tuple[MovedPin, ...]:
        """Return the pins that moved since the acceptance before the plan was edited, for the sources it had then."""
        if self.earlier is None:
            return ()
        return tuple(one for one in moved_pins(self.earlier.pins, now) if one.old is not None)

    def of_today(self) -> Self:
        """Return the acceptance as it would be with presets as they are now."""
        accepted = self.accepted
        version = permission_request.PRESETS_VERSION
        return self if accepted is None else replace(self, accepted=replace(accepted, presets=version))

    def held(self, entry: ModuleEntry) -> ModuleEntry:
        """Return an entry of the plan with its preset as it was accepted."""
        accepted = entry.permissions if self.accepted is None else as_accepted(entry.permissions, self.accepted.presets)
        return entry if accepted is entry.permissions else entry.model_copy(update={"permissions": accepted})

    def given(self, entry: ModuleEntry, source: str) -> tuple[OperatorGrant, ...]:
        """Return what was granted to an entry's module, if its code comes from `source` as it did then."""
        accepted = self.accepted
        grant = accepted.grant_for(entry.path, source) if accepted is not None else None
        if accepted is None or grant is None or (grant.permissions == Permissions() and not grant.keeps):
            return ()
        location = Location(self.file, grant.line) if self.file else _SESSION
        rule = Rule(location, f"given to {entry.path} when the plan was accepted")
        permissions = as_accepted(grant.permissions, accepted.presets)
        return (OperatorGrant(permissions, rule, stays_inside=True, keeps=grant.keeps),)


def plan_name(plan: MountPlan) -> str:
    """Return the name that a plan is accepted under: its file, or empty for a plan without one."""
    return "" if plan.origin is None else _spelled(plan.origin)


def name_of_file(path: Path) -> str:
    """Return the name that the plan at this path is accepted under, also if the file is gone."""
    return _spelled(Path(os.path.realpath(path)))


def _spelled(origin: Path) -> str:
    return os.fsencode(origin).decode("utf-8", "backslashreplace")


def with_places(plan: MountPlan, working_dir: Path, owner: Owner) -> MountPlan:
    """Return the plan with a digest that also depends on where its paths lead, as far as that takes acceptance.

    That is so outside of the working directory, and where a link in it leads to what the user's own programs run; a
    link may also stand where a program is that is a source. The operator accepts the present targets: a link that is
    changed later, or another working directory, makes another plan of it.
    """
    return placed(plan, places_of(plan, working_dir, owner))


def places_of(plan: MountPlan, working_dir: Path, owner: Owner) -> tuple[bytes, ...]:
    """Return what `with_places` puts into the digest of a plan: each place, with its entry, family and written path."""
    return tuple(place for entry in plan.entries() for place in _to_be_accepted(entry, working_dir, owner))


def placed(plan: MountPlan, places: Sequence[bytes]) -> MountPlan:
    """Return the plan with a digest that also depends on these places."""
    if not places:
        return plan
    digest = hashlib.sha256(b"\0".join([plan.digest.encode(), *places]))
    return replace(plan, digest=f"sha256:{digest.hexdigest()}")


def _to_be_accepted(entry: ModuleEntry, working_dir: Path, owner: Owner) -> Iterator[bytes]:
    uri = None if entry.source is None else parse_source(entry.source)
    if isinstance(uri, McpCommandUri) and os.path.islink(uri.path):
        yield b"\0".join([f"{entry.path}.source".encode(), *map(os.fsencode, uri.ruled_by)])
    granted = grants_of(entry.permissions, 1)  # a later meaning of a preset makes no other plan of it
    programs = tuple(filter(is_program_path, granted.run))
    folders: dict[Path, None] = {}
    for family, written in (("read", granted.read_paths), ("write", granted.write), ("run", programs)):
        for path in written:
            try:
                places = paths_of(family, path, working_dir, owner)
            except NotAcceptedError:
                continue  # refused, also in an accepted plan
            folders |= dict.fromkeys(one.path for one in places if family != "run" and one.is_directory)
            yield from _places_outside(f"{entry.path}.{family}", path, places, working_dir)
            if family == "write":
                yield from (_named(f"{entry.path}.opens", path, one) for one in _opened(places, working_dir, owner))
    for python in environments_in(folders, working_dir, owner) if ANY_PROGRAM in granted.run else ():
        yield from _places_outside(f"{entry.path}.run", python.name, python.judged, working_dir)


def _places_outside(
    family: str,
    written: str,
    places: Iterable[GrantedPath],
    working_dir: Path,
) -> Iterator[bytes]:
    for place in places:
        if not place.path.is_relative_to(working_dir):
            yield _named(family, written, place)


def _opened(places: Iterable[GrantedPath], working_dir: Path, owner: Owner) -> Iterator[GrantedPath]:
    """Yield the places in the working directory that only a link makes ones that the user's own programs run."""
    for place in places:
        is_by_link = place.path != place.spelled and place.path.is_relative_to(working_dir)
        if is_by_link and runner_opened(place.path, working_dir, owner.home):
            yield place


def _named(family: str, written: str, place: GrantedPath) -> bytes:
    return b"\0".join([family.encode(), os.fsencode(written), os.fsencode(place.path)])


def judge_trust(
    request: ModuleRequest,
    trust: Trust,
    working_dir: Path,
    home: Path,
    floor: Floor,
    findings: PolicyFindings,
    folder: Path | None = None,
) -> tuple[GrantPathRule, ...]:
    """Note the requests of an entry that need an accepted plan, and return the resulting rules about paths.

    `home` is the user's, and `folder` that of the plan, if it has one.
    """
    rule = trust.rule or _UNACCEPTED
    families = frozenset({"read", "write", "run"})
    if trust.accepted:
        if trust.rule is not None:
            findings.consult(rule, "the plan is accepted")
        given = trust.rule or _GIVEN
        write = frozenset({"write"})
        return (
            GrantPathRule(families, (working_dir,), given, _LEADS_OUT, _STATE, binds="given"),
            GrantPathRule(write, (working_dir, _ROOT), given, _OPENS, _STATE_IT, binds="given", keeps_guarded_for=home),
        )
    findings.consult(rule, "the plan is not accepted")
    for grant in request.grants():
        # By its own loopback a module reaches nobody.
        is_of_the_operators = (FAMILIES[grant.family].takes_trust and grant.value != SELF) or grant.passes_on
        if is_of_the_operators and grant.given is None:
            findings.refuse(grant.path, f"{grant.text} {_NEEDS_TRUST}", _ACCEPT, rule)
    if (
        folder is not None
        and request.entry.source is not None
        and lies_outside(request.source, (folder, working_dir))  # a module reads all of its own folder
    ):
        place = without_credentials(request.source)
        said = f"`{place}` lies neither beside the plan nor in the working directory, which {_NEEDS_TRUST}"
        findings.refuse(path_text(request.entry.path, "source"), said, _ACCEPT, rule)
    if request.entry.state == "keep":
        findings.refuse(path_text(request.entry.path, "state"), f"a folder that is kept {_NEEDS_TRUST}", _ACCEPT, rule)
    if request.entry.limits.call_max == math.inf:
        path = path_text(request.entry.path, "limits", "call_max")
        findings.refuse(path, f"calls without an end {_NEEDS_TRUST}", _ACCEPT, rule)
    level = request.entry.isolation
    if level is not None and level not in floor.levels and level != request.named and not floor.is_fixed:
        findings.refuse(
            path_text(request.entry.path, "isolation"),
            f"isolation level `{level}` {_NEEDS_TRUST}",
            f"{_ACCEPT}; `--isolation {level}` accepts this level alone",
            rule,
        )
    said = f"lies outside the working directory `{working_dir}`, which {_NEEDS_TRUST}"
    opens = f"is what your own programs run by themselves, which {_NEEDS_TRUST}"
    return (
        GrantPathRule(families, (working_dir,), rule, said, _ACCEPT, binds="stated"),
        GrantPathRule(
            frozenset({"write"}), (working_dir, _ROOT), rule, opens, _ACCEPT, binds="stated", keeps_guarded_for=home
        ),
    )


def own_rights_findings(takes: Mapping[str, str]) -> PolicyFindings:
    """Return the refusal of sources that only the operator's own rights can fetch, by their places in the plan."""
    findings = PolicyFindings()
    for path, said in takes.items():
        findings.refuse(path, f"{said}, which {_NEEDS_TRUST}", f"{_FETCH}; {_ACCEPT}", _UNACCEPTED)
    return findings


def instruction_findings(plan: MountPlan, trust: Trust) -> PolicyFindings:
    """Return the refusal of files that the instruction of a plan was read from and that need an accepted plan."""
    findings = PolicyFindings()
    for name in () if trust.accepted else plan.instruction.outside:
        said = f"`{name}` lies outside the working directory, which {_NEEDS_TRUST}"
        findings.refuse("session.instruction", said, _ACCEPT, trust.rule or _UNACCEPTED)
    return findings


def lies_outside(source: str, around: Iterable[Path]) -> bool:
    """Whether a source is a folder, a program or a repository of this machine outside of the folders `around`.

    The name of a repository is without `.git`; git may read the one or the other, so neither may lead out. Nor may the
    folder that git is given, in which links were followed.
    """
    try:
        name = SourceName.of(source)
    except NotAcceptedError:
        return source.startswith(("/", "file:", "git+file:", "mcp+command:"))  # then where it lies cannot be said
    if not name.path.startswith("/"):
        return False
    places = [Path(name.path)]
    if name.scheme == "file":
        try:
            folder = Remote.of_text(source).folder
        except SourceUriError:
            return True  # it can be read in two ways
        if folder is not None:
            places += [folder, Path(os.path.realpath(f"{name.path}.git")), Path(os.path.realpath(f"{folder}.git"))]
    roots = [place.resolve() for place in around]
    return not all(any(place.is_relative_to(root) for root in roots) for place in places)
