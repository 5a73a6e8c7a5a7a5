"""The networks of one session's modules: a gate for each with granted hosts, and the files of its worker's network.

A gate is opened when the module's sandbox is decided, before any of its code runs, and serves all of its lives. Closing
it ends every connection. The files that configure clients are written once for a worker, into a folder that only the
host may write to.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from paddock.audit import AuditLog
from paddock.authorization.suggestions.pasted import line_for
from paddock.egress.rules import NetRules, RefusedNetwork
from paddock.errors import Denial, PlanError, PlanProblem
from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES
from paddock.plan.model import ModuleEntry
from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import grants_of
from paddock.plan.problems import path_text
from paddock.policy.decision import ClosedNetwork
from paddock.policy.secrets.values import SecretValues
from paddock.workers.launcher import Launcher, LaunchSpec
from paddock.workers.process import ModuleProcess
from paddock_sandbox.network import GATEWAY
from paddock_sandbox.profile import ISOLATION_LEVELS, IsolationLevel

if TYPE_CHECKING:
    from paddock.egress.gate import EgressGate
    from paddock.egress.injection import KeyInjection


# Where distributions keep the certificates they trust, for interpreters whose OpenSSL was built to look elsewhere.
_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")  # inside; curl and git are built to read it
_RESOLVER_FILES: Final[Mapping[str, str]] = {
    # No search list, and no second try: a name that is not granted is answered at once.
    "resolv.conf": f"nameserver {GATEWAY}\noptions ndots:1 timeout:5 attempts:1\n",
    "hosts": "127.0.0.1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    "host.conf": "multi on\n",
}
# Each the name that some family of clients knows the file of trusted certificates by.
_CERTIFICATE_VARIABLES: Final = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
)
_PROXY_VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


_log = logging.getLogger(__name__)
_FOLDER: Final = "network-{}"


@dataclass(frozen=True, slots=True)
class WorkerNetwork:
    """`ports` may be connected to; `files` are shown, each source at its target; `environ` is added to the worker's.

    `serves` adds the worker's own loopback.
    """

    ports: tuple[int, ...] = ()
    files: tuple[tuple[Path, Path], ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    serves: bool = False

    @classmethod
    def through(cls, gate: EgressGate, folder: Path, level: IsolationLevel) -> Self:
        """Write the files for a worker whose connections go through `gate`; see `lay_out`.

        Raises:
            OSError: no port is free for it.
        """
        ports = gate.ports if level in LEVELS_WITH_NAMESPACES else (gate.listen(),)
        return cls.lay_out(folder, level, ports, gate.proxy_url, gate.ca_pem)

    @classmethod
    def lay_out(
        cls, folder: Path, level: IsolationLevel, ports: tuple[int, ...], proxy_url: str, extra_certificates: str = ""
    ) -> Self:
        """Write the files into `folder`, which is made, for a worker at `level`.

        `proxy_url` is where the host's proxy is reached from inside, `extra_certificates` (PEM) are trusted besides the
        machine's own.
        """
        folder.mkdir(mode=0o755)
        certificates = folder / "certificates.pem"
        certificates.write_text(_trusted_here() + extra_certificates, encoding="utf-8")
        files = [(certificates, certificates)]
        if level in LEVELS_WITH_NAMESPACES:
            files = [(certificates, _CERTIFICATES)]
            for name, text in _RESOLVER_FILES.items():
                (folder / name).write_text(text, encoding="utf-8")
                files.append((folder / name, Path("/etc") / name))
        environ = dict.fromkeys(_CERTIFICATE_VARIABLES, os.fspath(files[0][1]))
        for name in _PROXY_VARIABLES:
            environ |= {name: proxy_url, name.lower(): proxy_url}
        environ |= {"NO_PROXY": "", "no_proxy": ""}
        return cls(ports, tuple(files), environ)


def _trusted_here() -> str:
    """Return the certificates that the host's own connections trust, or none where there is no such file."""
    paths = ssl.get_default_verify_paths()  # heeds SSL_CERT_FILE, by which an operator names a bundle
    candidates = (paths.cafile, *_BUNDLES)
    found = next((path for path in candidates if path and os.path.isfile(path)), None)
    if found is None:
        return ""
    text = Path(found).read_text(encoding="utf-8", errors="replace")
    return text if text.endswith("\n") else text + "\n"


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
        *,
        is_written: bool = True,
    ) -> WorkerNetwork | None:
        """Open the gate of a module and lay out its worker's network; None without a grant, and at level `none`.

        No connection leads to a network that is `closed`. Without granted hosts there is no gate. Unless a loopback
        `is_written` rather than part of a preset, it is left out where there can be none.

        Raises:
            PlanError: a grant of it is not possible.
            OSError: no port is free for it.
        """
        granted = grants_of(entry.permissions)
        if not granted.net or level == "none":
            return None
        rules = [NetRule.parse(written) for written in granted.net]
        hosts = [rule for rule in rules if not rule.is_self]
        serves = len(hosts) < len(rules)
        if serves and level not in LEVELS_WITH_NAMESPACES:
            if is_written:
                raise _no_loopback(entry, level)
            serves = False
        if not hosts:
            return WorkerNetwork(serves=True) if serves else None
        # What it takes to end TLS is loaded by sessions that have a network, and by no other.
        from paddock.egress.gate import EgressGate

        now = entry.permissions.model_copy(update={"net": tuple(rule.text for rule in rules)})
        gate = self._gates[entry.path] = EgressGate(
            entry.instance_id or entry.module,
            NetRules(
                hosts,
                refused=[RefusedNetwork(one.network, one.rule.describe()) for one in closed],
            ),
            audit=self._audit,
            on_denial=partial(self._deny, entry.path),
            injections=tuple(_injections(entry, secrets)),
            line=partial(line_for, now, "net"),
        )
        network = WorkerNetwork.through(gate, self._folder / _FOLDER.format(len(self._gates)), level)
        if serves:  # what is on the loopback is not asked of the host
            environ = {**network.environ, **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1")}
            network = replace(network, environ=environ, serves=True)
        return network

    def gate_of(self, entry: ModuleEntry) -> EgressGate | None:
        """Return the gate that was opened for an entry's module, if any was."""
        return self._gates.get(entry.path)

    def tell_denials(self, entry: ModuleEntry, on_denial: Callable[[Denial], None]) -> None:
        """Call `on_denial` with each later refusal of the gate of an entry's module."""
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


def _no_loopback(entry: ModuleEntry, level: IsolationLevel) -> PlanError:
    """Return the error for a module's own loopback at a level that has none."""
    stronger = " or ".join(f"`{one}`" for one in ISOLATION_LEVELS if one in LEVELS_WITH_NAMESPACES)
    problem = f"`net: [self]` cannot hold at isolation level `{level}`: the only loopback there is this machine's"
    hint = f"run the module at isolation level {stronger}, or leave `self` out"
    return PlanError([PlanProblem(path_text(entry.path, "permissions", "net"), problem, hint)], code="GrantError")


def _injections(entry: ModuleEntry, secrets: SecretValues) -> Iterator[KeyInjection]:
    """Yield the keys that are put into requests.

    Raises:
        PlanError: a secret's value cannot be.
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
            hint = (
                f"put the whole key, and nothing else, where `{secret.name}` is kept; if your own server takes one "
                f"that is no secret, write it without `inject`: secrets: [{secret.name}]"
            )
            problem = PlanProblem(place, f"cannot be put into requests: {error}", hint)
            raise PlanError([problem], code="GrantError") from None


class NetworkedLauncher:
    """A launcher for one module whose connections all go through `gate`, over all its lives."""

    def __init__(self, launcher: Launcher, gate: EgressGate) -> None:
        self._launcher = launcher
        self._gate = gate

    async def launch(self, spec: LaunchSpec) -> ModuleProcess:
        """Return a process whose network leads to the gate; see `Launcher.launch`."""
        await self._gate.detach()  # the rest of the earlier life: its connections ended with it
        process = await self._launcher.launch(spec)
        sockets = process.take_network()
        if sockets is not None:
            self._gate.attach(sockets.listeners, sockets.dns)
        return process
