"""The application's call that a module serves while it asks the application something.

Found only when it is asked for, along the causes of the module's request.
"""

from __future__ import annotations

from contextvars import Context
from dataclasses import dataclass

from paddock.rpc.calls import current
from paddock.rpc.host_calls import HostCall


@dataclass(frozen=True, slots=True)
class AskingCall:
    """A call that the application made of a session, such as `execute`.

    `session_id` is the application's session, also where a module of a sub-session asks. `name` is the tool that the
    application called, `hook` and the event that it emitted, or else the method, which is `execute` for a turn. `id`
    tells calls of one session apart. `context` has the values of context variables where the application made the call.
    """

    session_id: str
    name: str
    id: str
    context: Context


def asking_call() -> AskingCall | None:
    """Return the application's call in whose service a module asks, to the approval system or handler that it asks.

    None stands for what the application asks itself, and for a module that asks of its own accord.
    """
    request = current.get()
    call = None if request is None else request.cause
    while call is not None and call.origin is not None:
        call = call.origin.cause
    if not isinstance(call, HostCall) or call.context is None:
        return None
    session = call.events.host_methods
    return AskingCall(session.session_id, session.name_of(call), f"{call.owner.name}/{call.id}", call.context)
