"""Give modules back what they left in `session_state` before their host ended.

It comes back as if its module had written it: the module is charged for it, and owns no more than before. It does so
only where a module of the same name and source is there, and neither the application nor a module has set the key.
"""

from __future__ import annotations

from collections.abc import Iterator

from paddock.rpc.marshal import Marshaller
from paddock.session.journals.kept_session import KeptSession, KeptState, Meta
from paddock.session.module import HostedModule
from paddock.session.modules import HostedModules
from paddock.session.state.coordinator import HostedCoordinator
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.protocol import RemoteProtocolError
from paddock_sdk.protocol.caps import weight_of
from paddock_sdk.protocol.shared_state import Change


def restore_state(
    kept: KeptSession, now: Meta, modules: HostedModules, coordinator: HostedCoordinator, marshaller: Marshaller
) -> Iterator[str]:
    """Put back what can be; yield, for people, what is not resumed and why."""
    by_name = {module.name: module for module in modules.all}
    for key, one in kept.state.items():
        module = by_name.get(one.module)
        problem = ""
        if one.is_live:
            problem = f"an object of {one.module}"
        elif module is None or now.modules[module.name].source != one.source:
            problem = f"{one.module}, which left it, is gone or of another source"
        else:
            problem = _give_back(key, one, module, coordinator, marshaller)
        if problem:
            yield f'not resumed: session_state["{key}"]: {problem}'


def _give_back(
    key: str, one: KeptState, module: HostedModule, coordinator: HostedCoordinator, marshaller: Marshaller
) -> str:
    """Return what stood in the way, nothing if it is there now."""
    try:
        match marshaller.codec.decode(one.change):
            case [[[found], [value]]] if found == key:
                change: Change = [[key], [value]]
            case _:
                return "its value cannot be read"
        item = [("state", key)]
        module.quota.check(weight_of(one.change), item, item)
    except (RemoteProtocolError, OverLimitError, ValueError) as error:
        return str(error)
    if not coordinator.give_back_state(module.peer, module.authority, key, change):
        return "it has been set since, or is the application's"
    return ""
