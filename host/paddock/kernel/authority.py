"""What each kind of module may do through the host, beyond its own objects.

One table: the contract's events a kind may emit, the mount points it may call into, what it may do
with what it is lent, and whether it may have hook results acted on. An entry's `emit`, `call` and
`hooks` grants widen it. Event names outside the contract's list are free for everyone.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import Final, Literal

from pydantic import ValidationError

from paddock.errors import CallRefusedError, Denial
from paddock.plan.models import ModuleEntry
from paddock.policy.explanation import told_line, with_grant
from paddock_sdk.contract import events

_EMITS: Final[dict[str, tuple[str, ...]]] = {
    "tool": ("artifact:*",),
    "hook": ("approval:*", "artifact:*", "policy:*"),
    "provider": ("llm:*", "provider:*", "content_block:*", "thinking:*"),
    "context": ("context:*",),
    "orchestrator": ("*",),
}
_LENT: Final = {("context", "providers"): ("get_info", "get_model_info")}
"""Of what one kind is lent of another, the members it may call, where that is less than all."""
_CONTRACT_EVENTS: Final = frozenset(events.ALL_EVENTS)
HOST_NAMES: Final = ("session.", "host.")
# Listeners of the session itself: it hands them its coordinator.
_APPLICATION_NAMES: Final = frozenset({"provider.before_load", "provider.load_failure"})


class Authority:
    """What one module may do."""

    def __init__(self, entry: ModuleEntry) -> None:
        self._entry = entry
        self._kind = entry.kind
        self._name = entry.instance_id or entry.module
        self._emits = (*_EMITS[entry.kind], *entry.permissions.emit)
        self._may_emit: dict[str, bool] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def acts_for_the_session(self) -> bool:
        """Whether it is of a kind that decides for all modules: a hook or the orchestrator."""
        return self._kind in ("hook", "orchestrator")

    def replaces(self, name: object) -> bool:
        """Whether the plan lets the module take the place of what is another's under a name."""
        return name in self._entry.replaces

    def replaces_line(self, name: str) -> str:
        """Return the line of a plan that lets the module take the place of what is another's under `name`."""
        return f"replaces: {json.dumps([*self._entry.replaces, name], ensure_ascii=False)}"

    def may_take_over(self, owner: Authority) -> bool:
        """Whether the module may put something in the place of what is `owner`'s.

        Another entry of the same code is no other module here. A tool, a provider or a context holds no name against
        one that acts for the session: it could keep a guard from being mounted.
        """
        mine, theirs = self._entry, owner._entry
        return (
            owner is self
            or (mine.module, mine.source) == (theirs.module, theirs.source)
            or (self.acts_for_the_session and not owner.acts_for_the_session)
            or owner.name in mine.replaces
        )

    def may_emit(self, event: str) -> bool:
        """Whether the module may emit `event`."""
        known = self._may_emit.get(event)
        if known is None:
            known = event not in _CONTRACT_EVENTS or _matches(event, self._emits)
            if len(self._may_emit) < len(_CONTRACT_EVENTS) * 2:  # a module may make up names without end
                self._may_emit[event] = known
        return known

    def may_call(self, point: str, name: str | None) -> bool:
        """Whether the module may call what is mounted at `point` under `name` without being handed it."""
        granted = self._entry.permissions.call
        return self._kind == "orchestrator" or any(
            grant in ("*", point) or (name is not None and grant == f"{point}:{name}") for grant in granted
        )

    def grant_for(self, family: Literal["call", "emit", "hooks"], name: str) -> str:
        """Return the line of a plan that adds this to all that the module is granted; none if a plan cannot say it."""
        try:
            return told_line(with_grant(self._entry.permissions, family, name))
        except ValidationError:
            return ""  # modules choose names, and what stands in a line to be copied has to be a name and no more

    def is_own_making(self, event: str) -> bool:
        """Whether `event` is none of the contract's."""
        return event not in _CONTRACT_EVENTS

    def may_use_lent(self, point: str, member: str) -> bool:
        """Whether the module may call a member of what is mounted at `point` while it is lent it with a call."""
        return (self._kind, point) not in _LENT or member in _LENT[(self._kind, point)]

    def check_handler(self, event: str) -> None:
        """Refuse a handler that the module may not register.

        Raises:
            CallRefusedError: with the grant that allows it.
        """
        if self._kind != "hook" and not _matches(event, self._entry.permissions.hooks):
            raise CallRefusedError(
                Denial("register a handler for", event, self._name, grant=self.grant_for("hooks", event))
            )

    def check_capability(self, name: str) -> None:
        """Refuse a capability under a name that is the host's.

        Raises:
            CallRefusedError: no grant allows it.
        """
        is_the_hosts = name.startswith(HOST_NAMES) and self._kind != "orchestrator"
        if is_the_hosts or name in _APPLICATION_NAMES:
            raise CallRefusedError(Denial("register the capability", name, self._name))

    def check_hook_results(self) -> None:
        """Refuse to act on hook results for kinds that have no business with them.

        Raises:
            CallRefusedError: for tools, providers and contexts.
        """
        if not self.acts_for_the_session:
            raise CallRefusedError(Denial("act on", "hook results", self._name))

    def check_cancellation(self, operation: str, what: str) -> None:
        """Refuse what is about the turn's cancellation to kinds that do not decide on it.

        Raises:
            CallRefusedError: for tools, providers and contexts.
        """
        if not self.acts_for_the_session:
            reason = "that is for the application, the orchestrator and hooks"
            raise CallRefusedError(Denial(operation, what, self._name, reason=reason))


def _matches(event: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(event, pattern) for pattern in patterns)
