"""Decide on each tool call before it runs: allow it, deny it, or ask a person.

A person is asked in one of the contract's two ways. If the application has passed an `ApprovalProvider`, by the
capability `approval.register_provider`, this hook asks that, and remembers and audits the answer. Otherwise the answer
to the event is `ask_user`, so the session asks; hooks do not get its answer.

A failure is a refusal: a kernel goes on without a handler that fails, which would let the call through.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from amplifier_core import events
from amplifier_core.approval import ApprovalTimeoutError
from amplifier_core.interfaces import ApprovalRequest
from amplifier_core.models import HookResult

from .audit import AuditFile
from .rules import Decision
from .settings import Settings
from .tool_call import CheckedToolCall

logger = logging.getLogger(__name__)

NAME = "hooks-approval"
_REGISTER_PROVIDER = "approval.register_provider"
_REQUIRED_BY_THE_APPLICATION = "require_approval_tools"  # in `session_state`: names of tools, a set or a list
_RISK = "high"
_MAX_REMEMBERED = 1_000  # calls; beyond these the person is asked again
_GRACE = 5.0  # seconds beyond its own timeout that a provider has to report its own timeout

_INSTEAD = "Do not repeat the call: go on without it, or ask the person how to go on."


class ApprovalGate:
    """The gate of one session."""

    def __init__(self, coordinator: Any, settings: Settings, audit: AuditFile | None) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._audit = audit
        self._provider: Any | None = None
        self._always: set[str] = set()
        self._open_questions = 0

    def start(self) -> Callable[[], None]:
        """Register the handler and the capability; return a function that takes the handler away."""
        unregister = self._coordinator.hooks.register(
            events.TOOL_PRE, self.on_tool_pre, priority=self._settings.priority, name=NAME
        )
        self._coordinator.register_capability(_REGISTER_PROVIDER, self.register_provider)

        def stop() -> None:
            unregister()
            if self._audit is not None:
                self._audit.close()

        return stop

    def register_provider(self, provider: Any) -> None:
        """Use this `ApprovalProvider` of the application from now on."""
        self._provider = provider

    async def on_tool_pre(self, event: str, data: Any) -> HookResult:
        """Continue, deny with a reason and a remedy, or have the session ask."""
        call = CheckedToolCall.of(data)
        try:
            return await self._decide(call)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return _denied(f"The question whether `{call.tool}` may run was withdrawn, so it did not run. {_INSTEAD}")
        except Exception as error:
            logger.warning("hooks-approval: a call of %s could not be decided on", call.tool, exc_info=True)
            return _denied(f"hooks-approval could not decide on `{call.tool}`, so it did not run: {error}. {_INSTEAD}")

    async def _decide(self, call: CheckedToolCall) -> HookResult:
        decision, reason = self._verdict(call)
        if decision == "allow":
            return HookResult(action="continue")
        if decision == "deny":
            self._record(call, "denied", "rule", reason=reason)
            await self._emit(events.APPROVAL_DENIED, call, reason=reason)
            return _denied(f"`{call.tool}` is not allowed here: {reason}. {_INSTEAD}")
        shape = call.shape(self._content_arguments(call))
        if shape in self._always:
            self._record(call, "allowed", "remembered")
            return HookResult(action="continue")
        if not call.is_showable:
            self._record(call, "denied", "unshown")
            await self._emit(events.APPROVAL_DENIED, call, reason="it has too many arguments to be shown")
            return _denied(
                f"`{call.tool}` has more arguments than a person can be shown, so it did not run. {_INSTEAD}"
            )
        await self._emit(events.APPROVAL_REQUIRED, call)
        if self._provider is None:
            if getattr(self._coordinator, "approval_system", self) is None:
                return await self._refuse_unasked(call)
            self._record(call, "asked", "session")
            return HookResult(
                action="ask_user",
                approval_prompt=f"{call.tool}: may it run{self._where()} with\n{call.shown()}",
                approval_options=["Allow", "Deny"],
                approval_timeout=self._settings.timeout,
                approval_default="deny",
            )
        return await self._ask(self._provider, call, shape)

    def _verdict(self, call: CheckedToolCall) -> tuple[Decision, str]:
        """Return the decision about a call, and the reason."""
        # The application may require a question for a tool, even if a rule allows it.
        state: Any = getattr(self._coordinator, "session_state", None)
        required = state.get(_REQUIRED_BY_THE_APPLICATION) if hasattr(state, "get") else None
        is_required = isinstance(required, set | frozenset | list | tuple) and call.tool in required
        for number, rule in enumerate(self._settings.rules):
            if rule.fits(call) and not (is_required and rule.action == "allow"):
                return rule.action, rule.reason or f"rules[{number}] of hooks-approval says so"
        if is_required:
            return "ask", ""
        if any(fnmatchcase(call.tool, free) for free in self._settings.free_tools):
            return "allow", ""
        return self._settings.default, "no rule of hooks-approval allows it"

    async def _refuse_unasked(self, call: CheckedToolCall) -> HookResult:
        """Refuse a call in a session where no person can be asked."""
        self._record(call, "denied", "unattended")
        await self._emit(events.APPROVAL_DENIED, call, reason="no person can be asked")
        return _denied(
            f"`{call.tool}` may run only after a person was asked, and in this session none can be. "
            f"{_INSTEAD} What is to run unasked takes a rule of hooks-approval that allows it."
        )

    async def _ask(self, provider: Any, call: CheckedToolCall, shape: str) -> HookResult:
        """Ask the application's provider, and act on the person's answer."""
        timeout = self._settings.timeout
        # A person reads one question at a time, so each that waits already may take as long.
        longest = timeout * (self._open_questions + 1) + _GRACE
        self._open_questions += 1
        try:
            async with asyncio.timeout(longest):
                response = await provider.request_approval(self._request(call))
        except (TimeoutError, ApprovalTimeoutError):
            self._record(call, "denied", "timeout")
            await self._emit(events.APPROVAL_DENIED, call, reason="timeout")
            return _denied(f"No answer came in time whether `{call.tool}` may run, so it did not. {_INSTEAD}")
        finally:
            self._open_questions -= 1
        remark = str(getattr(response, "reason", None) or "")
        if getattr(response, "approved", None) is not True:
            self._record(call, "denied", "person", reason=remark)
            await self._emit(events.APPROVAL_DENIED, call, reason=remark)
            return _denied(f"`{call.tool}` was not allowed{f' ({remark})' if remark else ''}. {_INSTEAD}")
        remember = getattr(response, "remember", None) is True and len(self._always) < _MAX_REMEMBERED
        self._record(call, "allowed", "person", remember=remember)
        if remember:
            self._always.add(shape)
        await self._emit(events.APPROVAL_GRANTED, call, remember=remember)
        return HookResult(action="continue")

    def _request(self, call: CheckedToolCall) -> ApprovalRequest:
        without = [name for name in self._content_arguments(call) if name in call.arguments]
        same = f"same arguments, with any {' and '.join(without)}" if without else "same arguments"
        always = f'"Allow always" is for the {same}, in this session'
        return ApprovalRequest(
            tool_name=call.tool,
            action=f"may it run{self._where()} ({always}) with\n{call.shown()}\n",
            risk_level=_RISK,
            timeout=self._settings.timeout,
        )

    def _where(self) -> str:
        """Return in which session the call is made, where that is not the person's own."""
        if getattr(self._coordinator, "parent_id", None) is None:
            return ""
        return f" in the sub-session {str(self._coordinator.session_id)!r}"

    def _content_arguments(self, call: CheckedToolCall) -> tuple[str, ...]:
        return self._settings.content_arguments.get(call.tool, ())

    def _record(self, call: CheckedToolCall, decision: str, by: str, **more: Any) -> None:
        """Add a line to the audit file, if there is one.

        Raises:
            OSError: it cannot be written; nothing is allowed then.
        """
        if self._audit is None:
            return
        self._audit.add(
            {
                "session_id": getattr(self._coordinator, "session_id", None),
                "tool": call.tool,
                "tool_call_id": call.id,
                "call": call.shown(),
                "decision": decision,
                "by": by,
                **more,
            }
        )

    async def _emit(self, event: str, call: CheckedToolCall, **more: Any) -> None:
        about = {"tool_name": call.tool, "tool_call_id": call.id, "action": f"run {call.tool}", "risk_level": _RISK}
        try:
            await self._coordinator.hooks.emit(event, {**about, **more})
        except Exception:  # listeners do not decide
            logger.warning("hooks-approval: could not emit %s", event, exc_info=True)


def _denied(reason: str) -> HookResult:
    return HookResult(action="deny", reason=reason)
