"""Approvals that modules ask a person for, within bounds: each is stamped with the asking module, and limited in
number.

The contract has two ways to ask: a hook's result `ask_user`, which the kernel acts on, and a provider object that a
hook takes through the capability `approval.register_provider` and asks by itself. An application with an approval
system means both, so such a hook gets a provider that asks that system. If the application hands over a provider of its
own afterwards, that one counts. A provider asks in its hook's name, so it answers only that hook, even if another
module gets hold of it.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from paddock.errors import CallRefusedError, Denial
from paddock.rpc.calls import current, holding
from paddock.rpc.peer import Peer
from paddock.session.host_api.emissions import LONGEST_WAIT
from paddock.session.host_api.handler import at_most, handles, within
from paddock.session.host_api.part import ServicePart
from paddock.session.module import HostedModule
from paddock.session.requester import Requester, requesting
from paddock.session.state.coordinator import HostedCoordinator
from paddock_sdk.contract.approval import ApprovalTimeoutError
from paddock_sdk.protocol.methods import HostMethod

if TYPE_CHECKING:
    from paddock_sdk.contract.interfaces import ApprovalRequest, ApprovalResponse

_MAX_OPEN: Final = 32  # of one module; a person reads one at a time
MAX_OPTIONS: Final = 64  # of one approval; a person reads them
_OPTIONS: Final = ("Allow once", "Allow always", "Deny")
_LONGEST: Final = 300.0  # seconds, the contract's own default
_MAX_DETAILS: Final = 400  # characters of the act's description, in a question that a person reads

_log = logging.getLogger(__name__)


@contextmanager
def open_approval(
    module: HostedModule, now: float, on_behalf_of: str = "", requester: Requester | None = None
) -> Iterator[None]:
    """Count an approval as long as it waits for its answer, and stamp it with `requester`, or else the module.

    Raises:
        CallRefusedError: the module asks too often, or has too many that wait.
    """
    budget = module.rate_limits.approvals
    if not budget.admits(now) or module.open_approvals >= _MAX_OPEN:
        reason = f"more than {budget.describe()}, or {_MAX_OPEN} that wait for an answer"
        raise CallRefusedError(Denial("ask for", "approvals", module.name, reason=reason))
    with (
        module.waiting_for_approval(),
        holding(current.get()),
        requesting(requester or Requester(module.kind, module.name, on_behalf_of)),
    ):
        yield


class ApprovalService(ServicePart):
    """Serves the approval requests of one session's workers."""

    @handles(HostMethod.REQUEST_APPROVAL, "approval request")
    async def ask(
        self,
        module: HostedModule,
        prompt: str,
        options: Annotated[list[Any], at_most(MAX_OPTIONS)],
        timeout: Annotated[float, within(0, LONGEST_WAIT)],
        default: Literal["allow", "deny"],
    ) -> object:
        """Ask in the module's name, and return the answer."""
        system = self._coordinator.approval_system
        if system is None:
            raise RuntimeError("no approval system is available in this session")
        asked = f"{module.kind} {module.name} asks: {prompt}"
        with open_approval(module, self._now()):
            return await system.request_approval(asked, [str(option) for option in options], timeout, default)


class SessionApprovalProvider:
    """The contract's `ApprovalProvider` for one hook; it asks the approval system that the session has at the time."""

    def __init__(
        self,
        coordinator: HostedCoordinator,
        module: HostedModule,
        now: Callable[[], float],
        note: Callable[[Peer, Denial], None],
    ) -> None:
        self._coordinator = coordinator
        self._module = module
        self._now = now
        self._note = note

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        """Return the person's answer; without an approval system or an answer in time, it is a refusal.

        Raises:
            CallRefusedError: the caller is not the hook.
            TypeError: the argument is no request.
        """
        from paddock_sdk.contract.interfaces import ApprovalRequest, ApprovalResponse  # all messages' models come along

        self._check_caller()
        if not isinstance(request, ApprovalRequest):
            raise TypeError("an approval is asked for with an ApprovalRequest")
        system = self._coordinator.approval_system
        if system is None:
            return ApprovalResponse(approved=False, reason="No approval system available")
        timeout = min(request.timeout or _LONGEST, _LONGEST)
        try:
            with open_approval(self._module, self._now(), request.tool_name):
                details = self._coordinator.named(request.details)
                reply = await system.request_approval(_question(request, details), list(_OPTIONS), timeout, "deny")
        except ApprovalTimeoutError:
            return ApprovalResponse(approved=False, reason="No answer came in time")
        except CallRefusedError as error:
            self._module.deny(error.denial)
            return ApprovalResponse(approved=False, reason=error.denial.describe())
        answer = reply.strip().lower()
        if answer in ("allow", "allow once", "allow always"):
            return ApprovalResponse(approved=True, remember=answer == "allow always")
        if not getattr(system, "is_attended", True):
            return ApprovalResponse(approved=False, reason="There is no terminal to ask at")
        is_chosen = reply in _OPTIONS  # an application denies in this way too what was withdrawn, and what no one saw
        reason = f"The answer was {reply!r}" if is_chosen else f"No option was chosen, which counts as {reply!r}"
        return ApprovalResponse(approved=False, reason=reason)

    def _check_caller(self) -> None:
        call = current.get()
        if call is not None and call.peer is self._module.peer:
            return
        caller = call.peer.name if call is not None else "the application"
        reason = "it asks in that module's name"
        denial = Denial("call", f"the approval provider of {self._module.name}", caller, reason=reason)
        if call is not None:
            self._note(call.peer, denial)
        raise CallRefusedError(denial)


async def offer_provider(
    coordinator: HostedCoordinator, module: HostedModule, register: object, provider: SessionApprovalProvider
) -> None:
    """Hand a module the session's provider by its own `register`; an error of the module is logged, not raised."""
    if not callable(register) or coordinator.approval_system is None:
        return
    try:
        done: Any = register(provider)
        if inspect.isawaitable(done):
            await done
    except Exception as error:  # a module's function; its hook then denies instead of asking
        _log.warning("the approval system could not be handed to `%s`: %s", module.name, error)


def _question(request: ApprovalRequest, details: object) -> str:
    question = f"{request.tool_name}: {request.action} (risk: {request.risk_level})"
    if not details:
        return question
    text = json.dumps(details, default=str, ensure_ascii=False)
    return f"{question} {text if len(text) <= _MAX_DETAILS else text[:_MAX_DETAILS] + '…'}"
