"""Choose the provider of a new plan: a vendor's service, a model server on this machine, or any provider module.

Its entry is that of `model_service`. Questions and plans have the name of the variable that holds the key; a text that
could be a key itself is refused and never shown. Local servers are looked for only when a person is asked, or when an
option names one.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import anyio

from paddock.authorization.suggestions.model_service import ModelService, service_of
from paddock.authorization.suggestions.service_address import parse_address
from paddock.authorization.suggestions.vendors import LOCAL_VENDORS
from paddock.cli.init.catalogue import PURPOSES, SCRIPTED, ModuleCatalogue, not_usable
from paddock.cli.init.local_servers import LocalServer, find_servers, is_model_name
from paddock.cli.init.questions import ask, numbered, offer
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError
from paddock.plan.host_name import LOOPBACK, Destination
from paddock.plan.net_rule import DEFAULT_PORT
from paddock.plan.writing import PlannedModule
from paddock_sources import BuiltinSource, kind_of_id

_OPENAI: Final = "provider-openai"  # speaks the protocol that all model servers below understand
_LOCAL: Final = "local"
_OWN: Final = "server"
_NO_KEY: Final = "none"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_MAX_LISTED_MODELS: Final = 20


FindServers = Callable[[Sequence[int]], Awaitable[tuple[LocalServer, ...]]]
"""Looks for model servers at ports of 127.0.0.1."""


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The options about the service; None where an option is not given."""

    model: str | None = None
    key_variable: str | None = None
    base_url: str | None = None

    def __bool__(self) -> bool:
        return any(one is not None for one in (self.model, self.key_variable, self.base_url))


class ProviderChoice:
    """Chooses a provider by the options; the rest it asks of `person`, if there is one.

    With neither, it takes the service whose key is set, else the script; `reason` then says so.
    """

    def __init__(
        self,
        catalogue: ModuleCatalogue,
        options: ServiceOptions,
        secrets: Container[str],
        person: Screen | None,
        find: FindServers = find_servers,
    ) -> None:
        self._catalogue = catalogue
        self._options = options
        self._secrets = secrets
        self._person = person
        self._find = find
        self.reason = ""
        builtin = BuiltinSource()
        shipped = (builtin.resolve(one) for one in builtin.list() if kind_of_id(one) == "provider")
        self._services = tuple(filter(None, map(service_of, shipped)))

    def choose(self, written: str | None) -> PlannedModule:
        """Return the provider's entry; `written` is its name in an option, if there is one.

        Raises:
            PaddockError: there is no such provider, or an option does not fit it.
            click.Abort: the person has left.
        """
        if written is None and self._options.base_url is not None:
            written = _OWN
        if written is not None:
            chosen = self._named(written)
        elif self._person is not None:
            chosen = self._asked(self._person)
        else:
            chosen = self._named(_OPENAI) if self._options else self._by_key()
        if isinstance(chosen, ModelService):
            return self._completed(chosen).planned()
        if self._options:
            raise not_usable(
                f"`{chosen.module}` is no service with a model, a key and an address",
                f"services: {', '.join(one.name.lower() for one in self._services)}, {_LOCAL}, {_OWN}",
            )
        return chosen

    # -- choose a provider ---------------------------------------------------------------------

    def _named(self, written: str) -> ModelService | PlannedModule:
        """Return the provider that an option or a person names."""
        known = next((one for one in self._services if one.is_called(written)), None)
        if known is not None:
            return known
        if written.lower() == _OWN:
            return self._own()
        local = [one for one in self._local() if written.lower() == _LOCAL or one.is_called(written)]
        if not local:
            return self._catalogue.module("provider", written, self._names())
        if self._options.model is not None and len(local) == 1:
            return local[0]
        found = self._with_models(local)
        if not found:
            looked = ", ".join(one.destination.text for one in local)
            raise not_usable(
                "no model server answers on this machine",
                "start one and load a model",
                f"or name its address: --base-url http://{LOOPBACK}:PORT/v1",
                detail=f"asked for their models: {looked}",
            )
        return found[0]

    def _names(self) -> list[str]:
        """Return the names that stand for a service, beside the ids of providers."""
        # As one word, to be typed without quotes.
        names = [one.name.lower().replace(" ", "") for one in (*self._services, *self._local())]
        return [*names, _LOCAL, _OWN] if self._speaks_openai else names

    def _by_key(self) -> ModelService | PlannedModule:
        """Return the service whose key is set, the first of several; else the provider that plays a script."""
        usable = next((one for one in self._services if one.key in self._secrets), None)
        if usable is not None:
            self.reason = f"{usable.name} answers, as {usable.key} is set; `--provider NAME` chooses another"
            return usable
        keys = " nor ".join(one.key for one in self._services if one.key)
        self.reason = f"{SCRIPTED} plays a script, as neither {keys} is set; `--provider NAME` chooses a model's"
        return self._named(SCRIPTED)

    def _asked(self, person: Screen) -> ModelService | PlannedModule:
        """Ask which provider answers."""
        person.note("looking for model servers on this machine")
        servers = self._with_models(self._local())
        choices = [(one.name.lower(), self._described(one)) for one in (*self._services, *servers)]
        choices += [(_OWN, _OWN_PURPOSE)] if self._speaks_openai else []
        modules = {one.module for one in self._services}
        choices += [(one, PURPOSES.get(one, "")) for one in self._catalogue.known("provider") if one not in modules]
        offer(person, "Which provider answers?", choices, "provider")
        usable = [one for one in self._services if one.key in self._secrets] + servers

        def chosen(typed: str) -> ModelService | PlannedModule:
            name = numbered(typed, [name for name, _ in choices])
            found = next((one for one in servers if one.is_called(name)), None)
            return self._named(name) if found is None else found

        default = usable[0].name.lower() if usable else SCRIPTED
        return ask(person, "number, name or source", default, chosen)

    def _described(self, service: ModelService) -> str:
        if service.models:
            count = "1 model" if len(service.models) == 1 else f"{len(service.models)} models"
            return f"listens at {service.destination.text} and offers {count}; needs no key"
        return f"at {service.destination.text}; needs a key: {service.key} is {self._state(service.key)}"

    def _state(self, key: str) -> str:
        return "set" if key in self._secrets else "not set"

    @property
    def _speaks_openai(self) -> bool:
        return any(one.module == _OPENAI for one in self._services)

    def _local(self) -> list[ModelService]:
        """Return the services that may be on this machine."""
        vendors = LOCAL_VENDORS if self._speaks_openai else ()
        return [
            ModelService(one.name, _OPENAI, at, one.words, base_url=f"http://{at.text}/v1")
            for one in vendors
            if (at := one.destination) is not None
        ]

    def _with_models(self, services: Sequence[ModelService]) -> list[ModelService]:
        """Return those whose server answers, with the models that it offers."""
        found = anyio.run(self._find, [one.destination.port for one in services]) if services else ()
        servers = {server.port: server for server in found}
        return [
            replace(one, models=server.models, windows=server.windows)
            for one in services
            if (server := servers.get(one.destination.port)) is not None
        ]

    def _own(self) -> ModelService:
        """Return a service by its address."""
        if not self._speaks_openai:
            raise not_usable(f"`{_OPENAI}`, which speaks to such servers, is not shipped")
        own = ModelService("a server of yours", _OPENAI, Destination(LOOPBACK, DEFAULT_PORT))
        if self._options.base_url is None:
            if self._person is None:
                raise not_usable("the server's address is missing", "name it: --base-url URL")
            own = ask(self._person, "its address", _EXAMPLE_URL, lambda typed: _at(own, typed))
        return own

    # -- complete its settings -----------------------------------------------------------------

    def _completed(self, service: ModelService) -> ModelService:
        """Return a service with its address, key and model settled."""
        if self._options.base_url is not None:
            service = _at(service, self._options.base_url)
        service = self._with_key(service)
        if service.is_local and not service.models:
            service = next(iter(self._with_models([service])), service)
            if service.base_url and not service.models:  # it may be started later
                absent = f"no model server answers at {service.destination.text} now: start it before the first turn"
                if self._person is None:
                    self.reason = absent
                else:
                    self._person.note(absent)
        return self._with_model(service)

    def _with_key(self, service: ModelService) -> ModelService:
        written = self._options.key_variable
        if written is not None:
            return replace(service, key=self._variable(written, service))
        if self._person is not None and not service.models:  # a server that listed its models asked for no key
            usual, read = service.key or _NO_KEY, partial(self._variable, service=service)
            question = f"variable that holds the key (never the key itself; `{_NO_KEY}`: no key is needed)"
            service = replace(service, key=ask(self._person, question, usual, read))
            if service.key:
                self._person.note(f"{service.key} is {self._state(service.key)} now")
        return service

    def _variable(self, typed: str, service: ModelService) -> str:
        if typed.lower() == _NO_KEY:
            return ""
        # A key is no valid name, or has small letters; a variable for one has capitals alone, or is set already.
        if not _VARIABLE.fullmatch(typed) or not (typed.isupper() or typed in self._secrets):
            # The text may be a key, so nothing shows it.
            raise KindError(
                "NoVariableError",
                "that is not the name of a variable",
                hints=[f"name the variable that holds the key, as in OPENAI_API_KEY; `{_NO_KEY}`: no key is needed"],
            )
        if service.is_open:
            raise not_usable(
                f"a key is put into no request to {service.destination.text} that nothing encrypts",
                f"name an address that begins with https://, or no key: --key-variable {_NO_KEY}",
            )
        return typed

    def _with_model(self, service: ModelService) -> ModelService:
        written = self._options.model
        if written is not None:
            return replace(service, model=_model(written, service))
        # Servers list models for embeddings, too.
        suggested = next((name for name in service.models if "embed" not in name.lower()), service.model)
        if self._person is not None:
            if service.models:
                listed = [(f"  {number}) ", name) for number, name in enumerate(service.models, start=1)]
                left_out = len(listed) - _MAX_LISTED_MODELS
                more = [("  ", f"{left_out} more are not shown; each can be typed by its name")] if left_out > 0 else []
                self._person.labelled([*listed[:_MAX_LISTED_MODELS], *more])
            return replace(service, model=ask(self._person, "model", suggested, lambda typed: _model(typed, service)))
        if not suggested:
            raise not_usable(f"which model of {service.name} answers is missing", "name it: --model NAME")
        return replace(service, model=suggested)


_OWN_PURPOSE: Final = "another server that speaks OpenAI's protocol; its address is asked for"
_EXAMPLE_URL: Final = f"http://{LOOPBACK}:8000/v1"


def _at(service: ModelService, written: str) -> ModelService:
    """Return a service at an address; it keeps its usual key only at its usual host and port.

    An address without a scheme gets the usual one, and one without a path that of OpenAI's protocol.
    """
    if "://" not in written:
        is_here = parse_address("base_url", written, port=DEFAULT_PORT).is_local
        written = f"{'http' if is_here else 'https'}://{written}"
    if service.module == _OPENAI and re.fullmatch(r"\w+://[^/?#]+/?", written):
        written = f"{written.rstrip('/')}/v1"
    found = parse_address("base_url", written, port=DEFAULT_PORT)
    if found.destination is None or not is_model_name(written):
        raise not_usable(
            "that is no address of a server" + (f": {found.problem}" if found.problem else ""),
            f"write it as in {_EXAMPLE_URL}",
        )
    key = service.key if found.destination == service.destination else ""
    return replace(service, destination=found.destination, base_url=written, key=key, model="", models=(), windows={})


def _model(typed: str, service: ModelService) -> str:
    name = numbered(typed, service.models[:_MAX_LISTED_MODELS])
    if not is_model_name(name):
        raise not_usable("that is no name of a model", "type its name as the service has it")
    return name
