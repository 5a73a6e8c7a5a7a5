"""What a third party's code names of its surroundings, as a proposal: by the rules of a line that is pasted.

The author of the module chose the words, so each is no more than a proposal that a person reads: programs and variables
that are there, the working directory to read, sub-sessions, a home that stays. A key is proposed by the table of known
services alone, for the service's own host. Without a person who reads it, it is no more than a manifest may ask for.
"""

from __future__ import annotations

from typing import Final

from paddock.authorization.suggestions.needs import Needs, ProposalContext
from paddock.authorization.suggestions.pasted import pasted
from paddock.authorization.suggestions.vendors import vendor_of_key
from paddock.authorization.suggestions.workspace_needs import folder_text
from paddock.plan.permissions import Permissions, SecretGrant, added_grants, grants_of, united
from paddock_sources.manifest.code_names import CodeNames

_MAX_NAMES: Final = 8  # of one kind: people read no more before they agree
_SPAWN: Final = "session.spawn"
_ITS_OWN: Final = frozenset({"HOME", "LANG", "PATH", "PWD", "TMPDIR", "TZ"})  # every module has these anyway


def code_needs(code: CodeNames, has: Permissions, known: ProposalContext) -> Needs:
    """Return what is proposed beyond `has`, and what it goes without of what its code names."""
    had, needs = grants_of(has), Needs()
    if code.uses_folder and "." not in (*had.read, *had.write):
        needs += Needs.of(f"reads {folder_text(known)}, as its code does", "files to read: .", read=["."])
    for program in code.programs[:_MAX_NAMES]:
        if program not in had.run and "*" not in had.run:
            line, lack = f"runs {program}, which its code names", f"programs to run, so no {program}"
            is_there = known.has_program(program)
            needs += Needs.of(line, lack, run=[program]) if is_there else Needs(missing=Permissions(run=(program,)))
    if known.is_unread:
        return needs
    if _SPAWN in code.capabilities and "spawn" not in had.call:
        needs += Needs.of("hands work to sub-sessions, as its code does", "sub-sessions", call=["spawn"])
    if code.uses_home:
        needs += Needs.of_home("its code asks for its home")
    return needs + _variables(code, united((had, needs.permissions)), known)


def _variables(code: CodeNames, has: Permissions, known: ProposalContext) -> Needs:
    names = [name for name in code.variables[:_MAX_NAMES] if name not in _ITS_OWN]
    vendors = {name: vendor for name in names if (vendor := vendor_of_key(name)) is not None}
    keys = [name for name, one in vendors.items() if one.destination and known.has_key(name, is_needed=False)]
    variables = [name for name in names if name not in vendors and known.environ.get(name)]
    asked = Permissions().model_copy(
        update={
            "env": (*variables, *(f"{name}=${{{name}}}" for name in keys)),
            "secrets": tuple(SecretGrant(name=name) for name in keys),
        }
    )
    line, left = pasted(has, asked)
    needs = Needs(lacks=tuple(f"your variable {one.rpartition(' ')[2]}, which its code reads" for one in left))
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
