"""What modules leave for each other: capabilities, attributes, contributors, and functions for the session's end."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Final

from paddock.errors import CallRefusedError, Denial
from paddock.policy.authority import HOST_NAMES, REGISTER_PROVIDER
from paddock.rpc.peer import Encoded, Handle, HostObject
from paddock.session.host_api.approvals import SessionApprovalProvider, offer_provider
from paddock.session.host_api.emissions import MAX_NAME
from paddock.session.host_api.handler import Decode, handles
from paddock.session.host_api.part import ServicePart
from paddock.session.module import HostedModule
from paddock.session.state.ownership import attached
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.protocol.caps import weight_of
from paddock_sdk.protocol.errors import UnfitValueError
from paddock_sdk.protocol.methods import HostMethod
from paddock_sdk.protocol.shared_state import STATE_ATTRIBUTE

_OWN_ATTRIBUTES: Final = frozenset({*dir(ModuleCoordinator), *inspect.get_annotations(ModuleCoordinator), "_driver"})


class OfferService(ServicePart):
    """Serves the offers of one session's workers."""

    @handles(HostMethod.REGISTER_CAPABILITY, decode=Decode.HEADED)
    def register_capability(self, module: HostedModule, args: tuple[str, Encoded]) -> None:
        """Offer a capability; its value stays encoded."""
        name, value = args
        module.authority.check_capability(name)
        if name.startswith(HOST_NAMES) and self._coordinator.is_the_applications(name):
            raise CallRefusedError(
                Denial("replace the capability", name, module.name, reason="it is the session's own")
            )
        # An error at once if it is none: later it would hit all others. Before it counts in place of the present value.
        offered = self._marshaller.decode(value)
        module.quota.spend(("capability", name), weight_of(value.body) + module.peer.weight_of(*value.handles))
        module.offer(name, value)
        # The host calls the function that it hands the provider to: another module's would run with the host's right.
        if name == REGISTER_PROVIDER and all(module.owns(handle) for handle in value.handles):
            provider = SessionApprovalProvider(
                self._coordinator,
                module,
                self._router.now,
                lambda peer, denial: self._module_of(peer).deny(denial),
            )
            self._router.tasks.spawn(offer_provider(self._coordinator, module, offered, provider))

    @handles(HostMethod.SET_ATTRIBUTE, decode=Decode.HEADED, is_notice=True)
    def set_attribute(self, module: HostedModule, args: tuple[str, Encoded]) -> None:
        """Attach an attribute to the coordinator; its value stays encoded."""
        name, value = args
        is_of_state = name.startswith(STATE_ATTRIBUTE) and bool(value.handles)  # else it is data, and patched
        if not is_of_state and (not name.isidentifier() or name.startswith("__") or name in _OWN_ATTRIBUTES):
            raise UnfitValueError(f"an attribute named {name!r}, which is not a module's to set")
        if self._keeps_attribute(module, name):
            return
        self._marshaller.decode(value)  # as with a capability
        try:
            module.quota.spend(("attribute", name), weight_of(value.body) + module.peer.weight_of(*value.handles))
        except OverLimitError as exc:
            module.deny(Denial("leave", str(attached(name)), module.name, reason=str(exc)))
            self._coordinator.keep_attribute(module.peer, name)
            return
        self._coordinator.attach_from(module.peer, module.authority, name, value)

    @handles(HostMethod.DELETE_ATTRIBUTE, "attribute removal", decode=Decode.DATA, is_notice=True)
    def delete_attribute(self, module: HostedModule, name: str) -> None:
        """Drop an attribute."""
        if not self._keeps_attribute(module, name):
            module.quota.give_back(("attribute", name))
            self._coordinator.detach_from(module.peer, name)

    def _keeps_attribute(self, module: HostedModule, name: str) -> bool:
        """Whether an attribute stays because the module may not change it; the module is then informed."""
        refusal = self._coordinator.refusal(attached(name), module.authority)
        if refusal is not None:
            module.deny(refusal)
            self._coordinator.keep_attribute(module.peer, name)
        return refusal is not None

    @handles(HostMethod.REGISTER_CONTRIBUTOR, "contributor registration", decode=Decode.HANDLES)
    def register_contributor(
        self,
        module: HostedModule,
        channel: str,
        name: str,
        callback: object,
    ) -> None:
        """Add a contributor to a channel."""
        if max(len(channel), len(name)) > MAX_NAME:
            raise ValueError(f"a contributor has a channel and a name of at most {MAX_NAME} characters")
        if isinstance(callback, (Handle, HostObject)):
            function = self._functions.of(module, callback)
            module.quota.spend(("contributor", self._functions.number()), module.peer.weight_of(callback))
            module.contribute(channel, name, function)
        else:
            # A value that is no function contributes nothing: asking it fails, which is noted and passed over.
            module.quota.spend(("data", self._functions.number()), len(channel) + len(name))
            self._coordinator.contribute_from(module.peer, channel, name, None)

    @handles(HostMethod.COLLECT_CONTRIBUTIONS, "request for contributions", collects=True)
    async def collect_contributions(self, module: HostedModule, channel: str) -> object:
        """Return the contributions of all contributors to a channel."""
        return await self._coordinator.collect_contributions(channel)

    @handles(HostMethod.REGISTER_CLEANUP, "registration of a cleanup function", decode=Decode.HANDLES)
    def register_cleanup(self, module: HostedModule, function: Handle | HostObject) -> None:
        """Register a function to run when the session ends."""
        registered = self._functions.of(module, function)
        module.quota.spend(("cleanup", self._functions.number()), module.peer.weight_of(function))
        run = partial(self._functions.run_if_alive, module.peer, registered, is_guarded=False)
        self._coordinator.register_cleanup(
            lambda: module.deadlines.run_within(module.name, "cleanup functions", run, None)
        )
