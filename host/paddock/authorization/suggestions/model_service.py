"""A model service as an entry of a plan names it: where `init` and `add` write a shipped provider, they write the same.

A service's host, its model and the usual name of its key come from the manifest of the shipped provider that speaks to
it. The entry grants its host and, where a key is needed, that key, which the module never sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paddock.authorization.suggestions.advice import advice_of
from paddock.authorization.suggestions.vendors import vendor_of
from paddock.plan.host_name import LOOPBACK, Destination
from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import Permissions, SecretGrant
from paddock.plan.secret_references import literal
from paddock.plan.writing import PlannedModule
from paddock_sources import Resolution
from paddock_sources.manifest.permission_request import read_paddock_table


@dataclass(frozen=True, slots=True)
class ModelService:
    """A model service and the shipped provider that speaks to it.

    `key` names the variable of its key, and `model` the model to suggest; both can be empty. `base_url` is empty where
    the module finds the service by itself. `models` are those that a server on this machine offers, and `windows` the
    tokens that they take, as far as it tells them.
    """

    name: str
    module: str
    destination: Destination
    words: tuple[str, ...] = ()
    key: str = ""
    model: str = ""
    base_url: str = ""
    models: tuple[str, ...] = field(default=(), repr=False)
    windows: Mapping[str, int] = field(default_factory=dict, repr=False)

    @property
    def is_local(self) -> bool:
        return self.destination.host == LOOPBACK

    @property
    def is_open(self) -> bool:
        """Whether nothing encrypts what leaves this machine for it."""
        return self.base_url.startswith("http://") and not self.is_local

    def is_called(self, written: str) -> bool:
        """Return whether a word names this service."""
        names = [self.name.lower(), *self.words]
        if not self.base_url:
            names.append(self.module)
        return written.lower() in names

    def planned(self) -> PlannedModule:
        """Return the entry for the service, which grants its host, and its key for that host alone."""
        place = self.destination.text
        config = {
            "default_model": (literal(self.model), "the model that answers"),
            "base_url": (
                literal(self.base_url),
                "the server" + ("; nothing encrypts what is sent there" if self.is_open else ""),
            ),
            "api_key": (
                f"${{{self.key}}}" if self.key else "",
                "names the variable that holds the key",
            ),
            "context_window": (self.windows.get(self.model, ""), "the tokens that it takes, as the server says"),
        }
        secrets = (SecretGrant(name=self.key, inject=place),) if self.key else ()
        return PlannedModule(
            "provider",
            self.module,
            config={key: value for key, (value, _) in config.items() if value},
            permissions=Permissions(net=(place,), secrets=secrets),
            purpose=f"asks {self.name}, at {place}",
            notes={key: note for key, (_, note) in config.items()},
        )


def service_of(provider: Resolution) -> ModelService | None:
    """Return the service that a shipped provider's manifest describes; None if it describes none."""
    vendor, advice = vendor_of(provider.module_id), advice_of(provider)
    if vendor is None or advice is None or not advice.permissions.net:
        return None
    destination = NetRule.parse(advice.permissions.net[0]).destination
    if destination is None:
        return None
    keys = [secret.name for secret in advice.permissions.secrets]
    model = read_paddock_table(provider.root).get("default_model", "")
    return ModelService(
        vendor.name,
        provider.module_id,
        destination,
        vendor.words,
        key=keys[0] if keys else "",
        model=str(model),
    )
