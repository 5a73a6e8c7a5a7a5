"""Explain what a module may do, in a past session or by a plan: the answer, the rules behind it, the line to add.

Nothing is started and nothing tried. The exit code is the answer as well: 0 for permitted, 4 for refused.

With `--unused`: which grants of a session's modules were not seen used, as lines of a plan, which have only what is
granted. As JSON: `{"session", "modules": [{"module", "place", "unused", "unseen"}…], "error"}`; `unused` is null where
the use was not recorded, `unseen` has the families of which too little is known.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import click

from paddock.cli import failure, options
from paddock.cli.answer import CommandAnswer, CommandReport
from paddock.cli.bundle_plan import PlanPath
from paddock.cli.command_group import example
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError, PaddockError, Refusal
from paddock.isolation.denials.explain import Explanation, Family, explain
from paddock.isolation.record import LAST, ModuleRecord, SessionRecord, SessionRecords
from paddock.plan.families import FAMILIES
from paddock.plan.net_rule import TO_FILL_IN
from paddock.plan.permissions import added_grants, allow_option
from paddock.plan.problems import NotAcceptedError
from paddock.plan.secret_references import how_to_set
from paddock.policy.secrets.store import SecretSources
from paddock.session.preview import Preview, located_paths, refusals_of
from paddock.text import escape
from paddock_sources.cache import SourceCache
from paddock_sources.similar_names import meant

if TYPE_CHECKING:
    from paddock.report.facts import ModuleFacts

_REFUSED: Final = 4
_WORTH: Final = "what was not seen used may be needed at another time: take a grant out, and run what matters"
_MAX_UNREAD: Final = 3  # records that are named
_MAX_NAMED: Final = 8  # of the existing names


@dataclass(frozen=True, slots=True)
class _Case:
    """A module, its record, and the findings; without `is_session` nothing of it ran.

    `is_set` is False for a secret that has no value now.
    """

    record: SessionRecord
    module: ModuleRecord
    family: Family
    target: str
    found: Explanation
    is_session: bool
    refusals: tuple[Refusal, ...] = ()
    is_set: bool = True

    @property
    def grant(self) -> str:
        """The line that would permit a refused act, or the option for a call; empty where a policy forbids it."""
        if self.refusals or self.found.added is None:
            return ""
        if self.module.place:
            return self.found.grant
        return " ".join(allow_option(*grant) for grant in added_grants(self.module.permissions, self.found.added))

    @property
    def instead(self) -> str:
        """Another way to write a part of `grant`."""
        if not (self.grant and self.found.instead) or self.module.place:
            return self.found.instead if self.grant else ""
        return shlex.join(["--config", json.dumps({"api_key": f"${{{self.target}}}"})])

    def as_dict(self) -> dict[str, object]:
        """Return it for scripts."""
        record, found = self.record, self.found
        return {
            "module": self.module.name,
            "kind": self.family,
            "target": self.target,
            "allowed": found.allowed,
            "reason": found.reason,
            "layer": found.layer,
            "granted_by": found.by or None,
            "rules": [rule.model_dump() for rule in self.module.consulted],
            "grant": self.grant or None,
            "in_place_of": (self.grant and found.in_place_of) or None,
            "instead": self.instead or None,
            "policy": [refusal.as_dict() for refusal in self.refusals],
            "place": self.module.place,
            "plan": record.plan,
            "line": self.module.line,
            "level": self.module.level,
            "session": {
                "id": record.id,
                "started": record.started.isoformat(),
                "ended": None if record.ended is None else record.ended.isoformat(),
            }
            if self.is_session
            else None,
            **({} if self.is_set else {"is_set": False}),
        }


@click.command(epilog=example("paddock why tool-filesystem read /etc/hosts"))
@click.argument("module", required=False, metavar="MODULE")
@click.argument("kind", required=False, type=click.Choice([*get_args(Family), "package"]), metavar="KIND")
@click.argument("target", required=False, metavar="TARGET")
@click.option(
    "--session", metavar="ID", help="The session to explain; by default the newest in this folder that ran the module."
)
@click.option("--plan", type=PlanPath(path_type=Path), help="Explain what this plan would grant, without running it.")
@click.option("--unused", is_flag=True, help="Print which grants of MODULE, or of all, were not seen used.")
@options.WORKING_DIR
@options.JSON
def why(
    module: str | None,
    kind: Family | Literal["package"] | None,
    target: str | None,
    session: str | None,
    unused: bool,
    **question: Any,
) -> int:
    """Explain whether MODULE may do something, by which rules, and what would allow it.

    KIND is a family of permissions: read, write, run, env, secrets, net, call, emit, hooks or mount. TARGET is what the
    module would use: a path, a program, a host[:port], the name of a variable or secret, `tools:<name>`, an event, or a
    mount point. Exits with 0 if the module may, with 4 if it may not.

    With `package` as KIND, `why` names the locked version of the package TARGET, and the constraints that bound it.
    """
    if unused:
        if kind is not None or question["plan"] is not None:
            raise click.UsageError("--unused is about what a session used: name a module at most, and --session")
        place = (question["working_dir"] or Path.cwd()).resolve()
        return _run_unused(module, session, place, as_json=question["as_json"])
    if module is None or kind is None or target is None:
        missing = next(
            name for name, given in (("MODULE", module), ("KIND", kind), ("TARGET", target)) if given is None
        )
        raise click.UsageError(f"Missing argument '{missing}'.")
    if kind == "package":
        if session is not None:
            raise click.UsageError("--session: of packages, only those that are locked now are known")
        from paddock.cli.sources.package_answer import run_package_answer  # rarely asked for

        return run_package_answer(module, target, **question)
    return run_why(module, kind, target, session=session, **question)


def run_why(
    module: str,
    family: Family,
    target: str,
    *,
    session: str | None,
    plan: Path | None,
    working_dir: Path | None,
    as_json: bool,
    screen: Screen | None = None,
) -> int:
    """Explain, and return the exit code.

    People read it on `screen`; without one, an answer on stdout, and a failure on stderr.
    """
    if session is not None and plan is not None:
        raise click.UsageError("--session and --plan are two different questions")
    place = (working_dir or Path.cwd()).resolve()

    def work() -> CommandAnswer:
        try:
            case = _explain(module, family, target, session=session, plan=plan, place=place)
        except NotAcceptedError as error:
            said = f"{error.problem}; {error.accepted}" if error.accepted else error.problem
            raise click.UsageError(f"TARGET for `{family}`: {escape(said)}") from error
        code = 0 if case.found.allowed else _REFUSED
        return CommandAnswer(case.as_dict(), lambda output: _show(case, screen or output), code)

    return CommandReport(screen or Screen(sys.stderr), as_json).answer(work)


def _explain(
    name: str,
    family: Family,
    target: str,
    *,
    session: str | None,
    plan: Path | None,
    place: Path,
) -> _Case:
    with located_paths() as runtime, SourceCache.of_user(os.environ) as cache:
        if plan is not None:
            preview = Preview(plan, place, os.environ, runtime, cache)
            try:
                record = preview.record(name)
            except PaddockError as error:
                failure.name_plan(error, plan)
                raise
            where, known = f"plan `{plan}`", [*preview.names]
        else:
            record = _recorded(name, place) if session is None else SessionRecords().find(session, place)
            where, known = f"session `{session}`", [one.name for one in record.modules]
        module = record.module(name)
        if module is None:
            raise _no_such_module(name, where, known)
        point, _, tool = target.partition(":")
        if family == "call" and point == "tools" and tool in record.own_names:
            target = f"tools:{record.own_names[tool]}"
        found = explain(record.subject(module, runtime.installation), family, target)
    is_whole = found.added is not None and TO_FILL_IN not in found.added.net
    refusals = refusals_of(record, module, found.added, os.environ) if found.added is not None and is_whole else ()
    is_set = family != "secrets" or target in SecretSources.load(os.environ)
    return _Case(record, module, family, target, found, plan is None, refusals, is_set)


def _recorded(name: str, place: Path) -> SessionRecord:
    """Return the newest session of a working directory in which a module ran."""
    unread: list[str] = []
    everywhere = SessionRecords().all(lambda error: unread.append(error.summary))
    for summary in unread[:_MAX_UNREAD]:
        Screen(sys.stderr).warning(f"{summary}; a newer session may be in it")
    here = [record for record in everywhere if record.working_dir == str(place)]
    for record in here:
        if record.module(name) is not None:
            return record
    elsewhere = next((record for record in everywhere if record.module(name) is not None), None)
    hints = ["`--plan PLAN` explains what a plan would grant, without running it"]
    if elsewhere is not None:
        hints.insert(0, f"it ran in another folder: `-C {elsewhere.working_dir}`")
    if here:
        raise _no_such_module(
            name, f"the sessions of `{place}`", [one.name for record in here for one in record.modules], hints
        )
    raise KindError("NothingToExplainError", f"no session is known that ran in `{place}`", hints=hints)


def _no_such_module(name: str, where: str, known: Iterable[str], hints: Iterable[str] = ()) -> KindError:
    names = list(dict.fromkeys(known))
    more = f", and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    shown = f"modules known: {', '.join(names[:_MAX_NAMED])}{more}" if names else "no modules are known"
    first = meant(name, names, shown)
    return KindError("NothingToExplainError", f"there is no module `{name}` in {where}", hints=[first, *hints])


# -- for people ----------------------------------------------------------------------------


def _show(case: _Case, screen: Screen) -> None:
    module, found = case.module, case.found
    may, act = "may" if found.allowed else "may not", FAMILIES[case.family].act
    screen.title(f"{'allowed' if found.allowed else 'refused'}: `{module.name}` {may} {act} `{case.target}`")
    screen.labelled([*_facts(case)])
    if module.consulted:
        screen.title("rules, in the order in which they were consulted")
        screen.labelled(
            [(f"  {_place_of(rule.file, rule.line)}  ", f"{rule.text}: {rule.outcome}") for rule in module.consulted]
        )
    if case.refusals:
        screen.title("no line of a plan allows it, since a policy is against it")
        screen.labelled([*map(_rule_against, case.refusals)])
    if case.grant and not module.place:
        screen.title("to allow it, add to the call")
        screen.command(case.grant)
    elif case.grant:
        plan, line = case.record.plan, module.line
        there = "" if plan is None else f" in {plan}" if line is None else f" at {plan}:{line}"
        where = f"the entry of `{module.module}`, {module.place}{there}"
        instead = f", in place of `{found.in_place_of}`" if found.in_place_of else ""
        screen.title(f"to allow it, write in {where}{instead}")
        screen.text(f"  {escape(case.grant)}")
    if case.instead:
        screen.title("where the module reads it from its configuration, under this or another key, instead of `env`")
        if module.place:
            screen.text(f"  {escape(case.instead)}")
        else:
            screen.command(case.instead)


def _facts(case: _Case) -> Iterable[tuple[str, str]]:
    found, record = case.found, case.record
    yield "  why  ", found.reason
    if found.by:
        yield "  granted by  ", found.by
    if not case.is_set:
        yield "  not set  ", how_to_set(case.target)
    yield "  enforced by  ", f"{found.layer}, at isolation level {case.module.level}"
    if not case.is_session:
        yield "  according to  ", f"{record.plan}, which was read and not run"
        return
    state = "has not ended" if record.ended is None else f"ended {record.ended:%Y-%m-%d %H:%M:%S} UTC"
    yield "  according to  ", f"session {record.id}, started {record.started:%Y-%m-%d %H:%M:%S} UTC, {state}"


def _rule_against(refusal: Refusal) -> tuple[str, str]:
    return f"  {_place_of(refusal.rule_file, refusal.rule_line)}  ", f"{refusal.rule}: {refusal.message}"


def _place_of(file: str, line: int | None) -> str:
    return file if line is None else f"{file}:{line}"


# -- what was not seen used ----------------------------------------------------------------


def _run_unused(module: str | None, session: str | None, place: Path, *, as_json: bool) -> int:
    from paddock.report.facts import facts_of  # rarely asked for

    def work() -> CommandAnswer:
        facts = facts_of(SessionRecords().find(session or LAST, place))
        modules = facts.modules if module is None else (facts.module(module),)
        rows = [(one.name, text) for one in modules for text in _unused_texts(one)]
        return CommandAnswer(
            {
                "session": facts.session,
                "modules": [
                    {"module": one.name, "place": one.place, "unused": one.unused, "unseen": list(one.unseen)}
                    for one in modules
                ],
            },
            lambda screen: screen.listing(rows),
            notes=[_WORTH, *facts.notes],
        )

    return CommandReport(Screen(sys.stderr), as_json, beside={"session": None, "modules": []}).answer(work)


def _unused_texts(module: ModuleFacts) -> Iterator[str]:
    if module.unused is None:
        yield "its use is not recorded"
        return
    if module.unused:
        yield module.unused
    elif module.grants and not module.unseen:
        yield "each grant of which the use is seen was used"
    if module.unseen:
        yield f"too little is known of the use of: {', '.join(module.unseen)}"
