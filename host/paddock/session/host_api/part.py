"""What each part of the host's service of one session has: the session, and the ways to its modules."""

from __future__ import annotations

from collections.abc import Callable

from paddock.rpc.host_calls import HostCalls
from paddock.rpc.peer import Peer
from paddock.session.host_api.definitions import SessionDefinitions
from paddock.session.host_api.functions import ModuleFunctions
from paddock.session.module import HostedModule
from paddock.session.requester import PendingPrompts
from paddock.session.state.coordinator import HostedCoordinator
from paddock.session.state.mirrors import Mirrors
from paddock_sdk.protocol.body import Codec


class ServicePart:
    """A part that serves some of the requests of one session's workers; its methods have `@handles`."""

    def __init__(
        self,
        host_calls: HostCalls,
        coordinator: HostedCoordinator,
        mirrors: Mirrors,
        module_of: Callable[[Peer], HostedModule],
        definitions: SessionDefinitions,
        functions: ModuleFunctions,
        prompts: PendingPrompts,
    ) -> None:
        self._host_calls = host_calls
        self._router = host_calls.router
        self._marshaller = host_calls.marshaller
        self._plain = Codec()
        self._now = host_calls.router.now  # the loop's time
        self._coordinator = coordinator
        self._mirrors = mirrors
        self._module_of = module_of
        self._definitions = definitions
        self._functions = functions
        self._prompts = prompts
