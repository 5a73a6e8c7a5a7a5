"""Fit a module that is new in a plan: the configuration it starts with, and the permissions that suit it.

Used where Paddock writes an entry itself (`init`, `add`). The plan is for later starts as well, so a key is proposed
before its variable is set, except for a server on this machine, which seldom needs one. Nothing is granted here: the
person reads the plan, and accepts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from paddock.authorization.suggestions.advice import ManifestAdvice
from paddock.authorization.suggestions.needs import ProposalContext
from paddock.authorization.suggestions.proposal import propose
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.plan.writing import PlannedModule
from paddock.policy.owner import Owner
from paddock.policy.secrets.store import SecretSources


def context_of_new_entries(environ: Mapping[str, str], working_dir: Path) -> ProposalContext:
    """Return the facts for entries of a plan whose modules will work in `working_dir`.

    Raises:
        PolicyFileError: the file that says where secrets are cannot be trusted or understood.
    """
    secrets = SecretSources.load(environ)
    return ProposalContext(working_dir.resolve(), Owner.current(environ), environ, secrets, foresees_keys=True)


def fitted(module: PlannedModule, advice: ManifestAdvice | None, known: ProposalContext) -> PlannedModule:
    """Return a module with fitting permissions, and with what it still lacks; `advice` is its manifest's request."""
    place = EntryPlace(module.kind, "", known.working_dir)
    entry = ModuleEntry.read({"module": module.module, "config": dict(module.config)}, place)
    needs = propose(entry, advice, known)
    # `propose` lists what it proposes as lacking too, since it grants nothing; the plan grants it.
    left = () if needs.lines else needs.lacks
    return replace(module, permissions=needs.permissions, lacks=left, keeps=needs.keeps)
