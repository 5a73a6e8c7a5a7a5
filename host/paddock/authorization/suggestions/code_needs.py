"""What a third party's code names of its surroundings, as a proposal: by the rules of a line that is pasted.

The author of the module chose the words, so each is no more than a proposal that a person reads: programs and variables
that are there, the working directory to read without secret files, what of other modules it uses, a home that stays. A
key is proposed by the table of known services alone, for the service's own host and beside no other; no variable that
may hold a key is proposed beside a host. Without a person who reads it, it is no more than a manifest may ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from paddock.authorization.suggestions.needs import Needs, ProposalContext
from paddock.authorization.suggestions.pasted import pasted
from paddock.authorization.suggestions.vendors import vendor_of_key
from paddock.authorization.suggestions.workspace_needs import preset_needs
from paddock.plan.model import Kind
from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import Permissions, SecretGrant, added_grants, grants_of, united
from paddock_sandbox.profile import ANY_PROGRAM
from paddock_sources.manifest.code_names import CodeNames

_MAX_NAMES: Final = 8  # of one kind: people read no more before they agree
_MAX_LOOKED_UP: Final = 64  # of one kind, however many the code names
ITS_OWN: Final = frozenset({"HOME", "LANG", "PATH", "PWD", "TMPDIR", "TZ"})  # every module has these anyway
_CALLS: Final = {
    "spawn": "hands work to sub-sessions",
    "providers": "asks the model by itself, at your cost",
    "context": "reads and changes the conversation",
}


def code_needs(code: CodeNames, has: Permissions, known: ProposalContext, kind: Kind) -> Needs:
    """Return what is proposed beyond `has`, and what it goes without of what its code names.

    `has` is the proposal so far; `kind` is the module's.
    """
    had, needs = grants_of(has), Needs()
    if code.uses_folder and "." not in (*had.read, *had.write):
        needs += preset_needs("workspace-read", known)
    runs_any = ANY_PROGRAM in had.run
    programs = [one for one in code.programs[:_MAX_LOOKED_UP] if one not in had.run]
    for program in _some(programs, known.is_beside_system if runs_any else known.has_program):
        needs += Needs.of(f"runs {program}, which its code names", f"programs to run, so no {program}", run=[program])
    absent = () if runs_any else _some(programs, lambda program: not known.has_program(program))
    needs += Needs(missing=Permissions(run=tuple(absent)))
    if known.is_unread:
        return needs
    for what in _some(code.calls, lambda what: kind != "orchestrator" and what not in had.call):
        line = _CALLS.get(what) or f"calls the tool {what.partition(':')[2]}, with all that this may do"
        needs += Needs.of(f"{line}, as its code does", f"{what} of other modules", call=[what])
    for event in _some(code.events, lambda event: kind != "hook" and event not in had.hooks):
        needs += Needs.of(f"handles {event}, as a hook does", f"the event {event}", hooks=[event])
    state = [f"state:{key}" for key in code.reads_state[:_MAX_NAMES] if f"state:{key}" not in had.call]
    if state:
        line = "calls what other modules of its repository leave in session_state, as its code does"
        needs += Needs.of(line, f"objects of other modules: {', '.join(state)}", call=state)
    if code.uses_home:
        needs += Needs.of_home("its code asks for its home")
    return needs + _variables(code, united((had, needs.permissions)), known)


def _some(names: Iterable[str], is_wanted: Callable[[str], bool]) -> Iterable[str]:
    return islice(filter(is_wanted, names), _MAX_NAMES)


def _variables(code: CodeNames, has: Permissions, known: ProposalContext) -> Needs:
    names = [name for name in code.variables[:_MAX_LOOKED_UP] if name not in ITS_OWN]
    vendors = {name: vendor for name in names if (vendor := vendor_of_key(name)) is not None}
    hosts, used = {NetRule.parse(one).text for one in has.net}, {one.name for one in has.secrets}
    keys = [name for name in vendors if name not in used and known.has_key(name, is_needed=False)]
    own = {name: found.text for name in keys if (found := vendors[name].destination) is not None}
    alone = [name for name, host in own.items() if hosts <= {host}]
    variables = _some(names, lambda name: name not in vendors and bool(known.environ.get(name)))
    asked = Permissions().model_copy(
        update={
            "net": has.net,
            "env": (*variables, *(f"{name}=${{{name}}}" for name in alone[:_MAX_NAMES])),
            "secrets": tuple(SecretGrant(name=name) for name in alone[:_MAX_NAMES]),
        }
    )
    # What is proposed is accepted as a whole, so the hosts in it count as added here.
    line, left = pasted(has.model_copy(update={"net": ()}), asked)
    needs = Needs(lacks=tuple(f"your variable {one.rpartition(' ')[2]}, which its code reads" for one in left))
    needs += Needs(lacks=tuple(f"the secret {name}, which its code reads" for name in keys if name not in alone))
    for family, word in added_grants(has, line):
        name, is_set, _ = word.partition("=")
        match family:
            case "net":
                needs += Needs.of(f"connects to {word}", f"the network, so no {word}", net=[word])
            case "env" if not is_set:
                needs += Needs.of(f"is passed your variable {name}", f"your variable {name}", env=[name])
            case "env":
                needs += Needs(Permissions(env=(word,)))
    for secret in line.secrets:
        if secret not in has.secrets:
            place = f"has {secret.name} sent to {secret.inject} for it, and never sees it"
            needs += Needs.of(place, f"the secret {secret.name}", secrets=[secret])
    return needs
