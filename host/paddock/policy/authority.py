"""Decide what each kind of module may do through the host, beyond its own objects.

`RIGHTS` is the one table: where a kind may mount, which of the contract's events it may emit and handle, what it may
call, which reserved names it may offer capabilities under, whose objects it may replace, and whether it decides for the
session. An entry's `mount`, `emit`, `hooks`, `call` and `replaces` widen it. `Authority` answers for one module, and
decides everything that a module asks of the host. Event names outside the contract's list are free for every module.
SECURITY.md shows the table (session/decisions.md, 0004).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

from paddock.errors import CallRefusedError, Denial
from paddock.plan.families import MOUNTED_BY_GRANT
from paddock.plan.grant_use import GrantUse
from paddock.plan.model import Kind, ModuleEntry
from paddock_sdk.contract import events
from paddock_sdk.kernel.mounts import RESOLVER_POINT

HOST_NAMES: Final = ("session.", "host.")
REGISTER_PROVIDER: Final = "approval.register_provider"
STEERING_KEYS: Final = frozenset({"goal", "turn_id", "require_approval_tools"})
"""Keys of `session_state` that orchestrators and guards trust; the application and kinds that decide write them."""
KEPT: Final = "capabilities"
"""The point for `may_call` of what a module offers to the application alone, as if it were mounted there."""

# Listeners of the session itself: it passes its coordinator to them.
_APPLICATION_NAMES: Final = frozenset({"provider.before_load", "provider.load_failure"})
_CONTRACT_EVENTS: Final = frozenset(events.ALL_EVENTS)
_ACTING_POINTS: Final = (*MOUNTED_BY_GRANT, RESOLVER_POINT)
"""Mount points of modules that act for the session: they see the whole conversation, or decide which code is trusted.
"""


@dataclass(frozen=True, slots=True)
class KindRights:
    """The rights that the contract gives to modules of one kind.

    `mounts` are mount points, where new names are free. `emits` and `handles` are patterns of the contract's events.
    `calls` are mounted objects that the module may call without being handed them. `lent` lists, by mount point, the
    members of a lent object that may be called, where those are not all. `reserves` are prefixes of the host's names
    that capabilities may be offered under. `replaces` are the kinds whose objects, if left for everyone, may be
    replaced. With `decides`, the module acts for the session: on hook results, on cancellation, on values that the
    application wrote, and under the `STEERING_KEYS`. With `marks`, it may set the fields that every event carries, as
    the loop does that knows the turn.
    """

    mounts: tuple[str, ...]
    emits: tuple[str, ...]
    handles: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    lent: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reserves: tuple[str, ...] = ()
    replaces: tuple[Kind, ...] = ()
    decides: bool = False
    marks: bool = False


RIGHTS: Final[Mapping[Kind, KindRights]] = MappingProxyType(
    {
        "tool": KindRights(mounts=("tools",), emits=("artifact:*",)),
        "hook": KindRights(
            mounts=("tools",),
            emits=("approval:*", "artifact:*", "policy:*"),
            handles=("*",),
            calls=(KEPT,),
            replaces=("tool", "provider", "context"),
            decides=True,
        ),
        "provider": KindRights(
            mounts=("tools", "providers"), emits=("llm:*", "provider:*", "content_block:*", "thinking:*")
        ),
        "context": KindRights(
            mounts=("tools", "context"),
            emits=("context:*",),
            lent={"providers": ("get_info", "get_model_info")},
        ),
        "orchestrator": KindRights(
            mounts=("tools", "orchestrator"),
            emits=("*",),
            handles=("llm:stream_block_delta",),  # pieces of the replies that it gets whole
            calls=("*",),
            reserves=HOST_NAMES,
            replaces=("tool", "provider", "context"),
            decides=True,
            marks=True,
        ),
    }
)


class Authority:
    """The rights of one module; `line_for` makes the line of a plan that adds a grant of a family to its others."""

    def __init__(self, entry: ModuleEntry, line_for: Callable[[str, str], str] = lambda family, grant: "") -> None:
        rights = RIGHTS[entry.kind]
        self.line_for = line_for
        self.entry = entry
        self._rights = rights
        self._kind = entry.kind
        self.name = entry.instance_id or entry.module
        self._mounts = frozenset((*rights.mounts, *entry.permissions.mount))
        self._emits = (*rights.emits, *entry.permissions.emit)
        self._handles = (*rights.handles, *entry.permissions.hooks)
        self._calls = (*rights.calls, *entry.permissions.call)
        self._may_emit: dict[str, bool] = {}
        self.use = GrantUse(entry.permissions)

    @property
    def acts_for_the_session(self) -> bool:
        """Whether it is of a kind that decides for all modules: a hook or the orchestrator."""
        return self._rights.decides

    def is_of_the_same_code(self, other: Authority) -> bool:
        """Whether another entry names the same module from the same source."""
        mine, theirs = self.entry, other.entry
        return (mine.module, mine.source) == (theirs.module, theirs.source)

    def replaces(self, name: object) -> bool:
        """Whether the plan lets the module replace another module's object under a name."""
        return name in self.entry.replaces

    def replaces_line(self, name: str) -> str:
        """Return the line of a plan that lets the module replace another module's object under `name`."""
        return f"replaces: {json.dumps([*self.entry.replaces, name], ensure_ascii=False)}"

    def may_take_over(self, owner: Authority) -> bool:
        """Whether the module may replace an object of `owner`.

        Another entry of the same code counts as the same module. A tool, a provider or a context cannot keep a name
        from a module that acts for the session: otherwise it could keep a guard from being mounted.
        """
        return (
            owner is self
            or self.is_of_the_same_code(owner)
            or owner._kind in self._rights.replaces
            or owner.name in self.entry.replaces
        )

    def may_mount(self, point: str) -> bool:
        """Whether the module may mount its own objects at `point`, under names that no other module has."""
        return point in self._mounts

    def check_mount(self, point: str) -> None:
        """Refuse a mount at a point of modules that act for the session, if the module is of another kind.

        Raises:
            CallRefusedError: with the grant that allows it; none does at the resolver's point.
        """
        if self.may_mount(point) or point not in _ACTING_POINTS:
            self.use.note("mount", point)
            return
        line = self.line_for("mount", point)
        reason = f"what is mounted there acts for the session, and the module is of kind {self._kind}"
        if point == RESOLVER_POINT:
            line, reason = "", "a resolver decides which code is trusted, so the application mounts it, not a module"
        raise CallRefusedError(Denial("mount at", point, self.name, grant=line, reason=reason))

    def may_emit(self, event: str) -> bool:
        """Whether the module may emit `event`."""
        known = self._may_emit.get(event)
        if known is None:
            known = event not in _CONTRACT_EVENTS or _matches(event, self._emits)
            if len(self._may_emit) < len(_CONTRACT_EVENTS) * 2:  # a module may invent any number of names
                self._may_emit[event] = known
        return known

    def may_call(self, point: str, name: str | None) -> bool:
        """Whether the module may call what is mounted at `point` under `name` without being handed it."""
        return any(grant in ("*", point) or (name is not None and grant == f"{point}:{name}") for grant in self._calls)

    def note_call(self, point: str, name: str | None) -> None:
        """Note a call of what is mounted at `point` under `name`."""
        self.use.note("call", point if name is None else f"{point}:{name}")

    def may_use_lent(self, point: str, member: str) -> bool:
        """Whether the module may call this member of an object at `point` while a call lends the object to it."""
        members = self._rights.lent.get(point)
        return members is None or member in members

    def check_handler(self, event: str) -> None:
        """Refuse a handler that the module may not register.

        Raises:
            CallRefusedError: with the grant that allows it.
        """
        if not _matches(event, self._handles):
            raise CallRefusedError(
                Denial("register a handler for", event, self.name, grant=self.line_for("hooks", event))
            )
        self.use.note("hooks", event)

    def check_capability(self, name: str) -> None:
        """Refuse a capability under one of the host's names.

        Raises:
            CallRefusedError: no grant allows it.
        """
        is_the_hosts = name.startswith(HOST_NAMES) and not name.startswith(self._rights.reserves)
        if is_the_hosts or name in _APPLICATION_NAMES:
            raise CallRefusedError(Denial("register the capability", name, self.name))

    def check_hook_results(self) -> None:
        """Refuse acting on hook results for kinds that do not decide.

        Raises:
            CallRefusedError: for tools, providers and contexts.
        """
        if not self.acts_for_the_session:
            raise CallRefusedError(Denial("act on", "hook results", self.name))

    def check_default_fields(self) -> None:
        """Refuse setting the fields that every event carries, those of other modules included.

        Raises:
            CallRefusedError: for all kinds but orchestrators.
        """
        if not self._rights.marks:
            reason = "every module's events carry them, and the orchestrator sets them"
            raise CallRefusedError(Denial("set", "default fields", self.name, reason=reason))

    def check_cancellation(self, operation: str, what: str) -> None:
        """Refuse access to the turn's cancellation for kinds that do not decide on it.

        Raises:
            CallRefusedError: for tools, providers and contexts.
        """
        if not self.acts_for_the_session:
            reason = "that is for the application, the orchestrator and hooks"
            raise CallRefusedError(Denial(operation, what, self.name, reason=reason))


def is_kept(capability: str) -> bool:
    """Whether only the application, and modules that act for the session, may call a capability under this name.

    Its caller speaks for the person, or answers for the person.
    """
    return capability == REGISTER_PROVIDER or capability.startswith(HOST_NAMES)


def _matches(event: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(event, pattern) for pattern in patterns)
