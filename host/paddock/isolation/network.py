"""The networks of one session's modules: a gate for each that was granted hosts, and what its worker finds inside.

A gate is opened when it is decided how a module is shut in, before anything of it runs, and serves all of its lives.
Closing ends every connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paddock.audit import AuditLog
from paddock.egress.rules import NetRules, RefusedNetwork
from paddock.errors import Denial, GrantError, PlanProblem
from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES
from paddock.isolation.worker_network import WorkerNetwork
from paddock.plan.model import ModuleEntry
from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import Permissions, grants_of, redacted_permissions_line
from paddock.plan.problems import path_text
from paddock.policy.decision import ClosedNetwork
from paddock.policy.secrets.values import SecretValues
from paddock_sandbox.profile import IsolationLevel

if TYPE_CHECKING:
    from paddock.egress.gate import EgressGate
    from paddock.egress.injection import KeyInjection

_log = logging.getLogger(__name__)

_FOLDER: Final = "network-{}"


class Networks:
    """The gates of one session, by the places of their entries in the plan."""

    def __init__(self, folder: Path, audit: AuditLog) -> None:
        self._folder = folder
        self._audit = audit
        self._gates: dict[str, EgressGate] = {}
        self._on_denial: dict[str, Callable[[Denial], None]] = {}

    def open(
        self,
        entry: ModuleEntry,
        level: IsolationLevel,
        secrets: SecretValues,
        closed: Iterable[ClosedNetwork] = (),
    ) -> WorkerNetwork | None:
        """Open the gate of a module and lay out its worker's network; None without granted hosts, and at level `none`.

        No connection leads to a network that is `closed`.

        Raises:
            GrantError: what it is granted cannot be had.
            OSError: no port can be had for it.
        """
        granted = grants_of(entry.permissions)
        if not granted.net or level == "none":
            return None
        # What it takes to end TLS is loaded by sessions that have a network, and by no other.
        from paddock.egress.gate import EgressGate

        gate = self._gates[entry.path] = EgressGate(
            entry.instance_id or entry.module,
            NetRules(
                [NetRule.parse(written) for written in granted.net],
                refused=[RefusedNetwork(one.network, one.rule.describe()) for one in closed],
            ),
            audit=self._audit,
            on_denial=partial(self._deny, entry.path),
            injections=tuple(_injections(entry, secrets)),
            line=partial(_line, granted),
        )
        ports = gate.ports if level in LEVELS_WITH_NAMESPACES else (gate.listen(),)
        folder = self._folder / _FOLDER.format(len(self._gates))
        return WorkerNetwork.lay_out(folder, level, ports, gate.proxy_url, gate.ca_pem)

    def gate_of(self, entry: ModuleEntry) -> EgressGate | None:
        """Return the gate that was opened for an entry's module, if any was."""
        return self._gates.get(entry.path)

    def tell_denials(self, entry: ModuleEntry, on_denial: Callable[[Denial], None]) -> None:
        """Call `on_denial` with what the gate of an entry's module refuses from now on."""
        self._on_denial[entry.path] = on_denial

    def _deny(self, path: str, denial: Denial) -> None:
        on_denial = self._on_denial.get(path)
        if on_denial is not None:
            on_denial(denial)

    async def aclose(self) -> None:
        """Close every gate with its connections."""
        while self._gates:
            _, gate = self._gates.popitem()
            try:
                await gate.aclose()
            except Exception:  # the others are closed all the same
                _log.exception("a module's network could not be closed")


def _line(granted: Permissions, destinations: Sequence[str]) -> str:
    """Return the line that grants a module some destinations besides what it has."""
    known = (NetRule.parse(written).text for written in granted.net)
    return redacted_permissions_line(granted.model_copy(update={"net": tuple(dict.fromkeys((*known, *destinations)))}))


def _injections(entry: ModuleEntry, secrets: SecretValues) -> Iterator[KeyInjection]:
    """Yield what is put into requests on their way.

    Raises:
        GrantError: a secret's value cannot be.
    """
    from paddock.egress.injection import InjectionError, KeyInjection

    granted = grants_of(entry.permissions)
    for number, secret in enumerate(granted.secrets):
        if secret.inject is None:
            continue
        rule = granted.place_of_injection(secret)
        try:
            yield KeyInjection(secret.name, secrets.placeholder(secret.name), secrets[secret.name], rule)
        except InjectionError as error:
            place = path_text(entry.path, "permissions", "secrets", number)
            hint = f"put the whole key, and nothing else, where `{secret.name}` is kept"
            raise GrantError([PlanProblem(place, f"cannot be put into requests: {error}", hint)]) from None
