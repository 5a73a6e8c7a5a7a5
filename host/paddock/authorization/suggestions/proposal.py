"""Propose grants for an entry without `permissions`: from the module's id, kind, configuration and own advice.

A proposal grants nothing. A person reads and accepts it as a whole, so it holds only what such a module usually needs,
and nothing that merely might be of use. It names what is still missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from paddock.authorization.suggestions.advice import ManifestAdvice, advised_needs, home_needs, shipped_needs
from paddock.authorization.suggestions.code_needs import code_needs
from paddock.authorization.suggestions.needs import Needs, ProposalContext
from paddock.authorization.suggestions.service_needs import service_needs
from paddock.authorization.suggestions.vendors import is_scripted, vendor_of, words_of
from paddock.authorization.suggestions.workspace_needs import (
    HOME_IS_LOST,
    SAID_BY_CODE,
    configured_programs,
    names_log,
    usual_needs,
)
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.plan.permissions import Permissions
from paddock.plan.writing import PlannedModule
from paddock.policy.owner import Owner
from paddock.policy.secrets.store import SecretSources

_KEEPERS: Final = frozenset({"persistent", "memory", "file", "sqlite", "disk"})


def has_no_say(entry: ModuleEntry) -> bool:
    """Whether an entry has no `permissions`; an entry that grants nothing on purpose has them."""
    return "permissions" not in entry.model_fields_set


def propose(entry: ModuleEntry, advice: ManifestAdvice | None, known: ProposalContext) -> Needs:
    """Return the proposal for an entry's module; `advice` is the request of its manifest, untrusted.

    The manifest of a shipped module replaces what its id suggests. A service named in the configuration precedes both:
    a vendor's provider is proposed the address that it is configured for, and the key only where it may go and exists.
    """
    if entry.kind == "provider" and vendor_of(entry.module) is not None:
        return _provider(entry, known)
    if advice is not None and advice.is_shipped and not names_log(entry):
        return shipped_needs(entry, advice.permissions, known) + service_needs(entry, None, known)
    needs = _of_id(entry, known)
    if advice is None:
        return needs
    if needs.permissions != Permissions():
        needs += home_needs(advice.permissions)
    else:
        advised = advised_needs(advice.permissions, known)
        needs = advised if advised.lines else needs + advised
    found = code_needs(advice.code, needs.permissions, known, entry.kind)
    if found.lines:  # who finds nothing usual for its id proposes what its code names
        needs = replace(needs, lacks=tuple(lack for lack in needs.lacks if lack not in SAID_BY_CODE))
    return needs + found


def _of_id(entry: ModuleEntry, known: ProposalContext) -> Needs:
    """Return what an entry's module seems to need by its id, with the services that its configuration names."""
    if entry.kind == "provider":
        return _provider(entry, known)
    services = service_needs(entry, None, known) + configured_programs(entry.config, known)
    match entry.kind:
        case "tool" | "hook":
            return usual_needs(entry, known) + services
        case "context" if words_of(entry.module) & _KEEPERS:
            return Needs(lacks=(f"a place that stays: {HOME_IS_LOST}",)) + services
    return services


def _provider(entry: ModuleEntry, known: ProposalContext) -> Needs:
    if is_scripted(entry.module):
        return service_needs(entry, None, known)
    vendor = vendor_of(entry.module)
    needs = service_needs(entry, vendor, known)
    if vendor is None and not needs.permissions.net:
        lack = 'the network: where its service is takes a line, as in permissions: {net: ["api.example.org"]}'
        return needs + Needs(lacks=(lack,))
    return needs


def context_of_new_entries(environ: Mapping[str, str], working_dir: Path, *, is_unread: bool) -> ProposalContext:
    """Return the facts for entries of a plan whose modules will work in `working_dir`.

    With `is_unread`, they are written without a look of a person at them.

    Raises:
        PolicyFileError: the file that says where secrets are cannot be trusted or understood.
    """
    secrets = SecretSources.load(environ)
    owner = Owner.current(environ)
    return ProposalContext(working_dir.resolve(), owner, environ, secrets, foresees_keys=True, is_unread=is_unread)


def fitted(module: PlannedModule, advice: ManifestAdvice | None, known: ProposalContext) -> PlannedModule:
    """Return a module with fitting permissions, and with what it still lacks; `advice` is its manifest's request.

    Used where Paddock writes an entry itself (`init`, `add`). The plan is for later starts as well, so a key is
    proposed before its variable is set, except for a server on this machine, which seldom needs one. Nothing is granted
    here: the person reads the plan, and accepts it.
    """
    place = EntryPlace(module.kind, "", known.working_dir)
    entry = ModuleEntry.read({"module": module.module, "config": dict(module.config)}, place)
    needs = propose(entry, advice, known)
    # `propose` lists what it proposes as lacking too, since it grants nothing; the plan grants it.
    left = () if needs.lines else needs.lacks
    return replace(module, permissions=needs.permissions, lacks=left, keeps=needs.keeps)
