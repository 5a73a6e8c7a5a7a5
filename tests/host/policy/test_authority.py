"""What each kind may do, as a table, and how a plan's grants widen it."""

from __future__ import annotations

import weakref
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from paddock.authorization.suggestions.pasted import line_for
from paddock.errors import CallRefusedError
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.policy.authority import Authority
from paddock_sdk.contract import events
from support.rows import each_row

KINDS = ("tool", "hook", "provider", "context", "orchestrator")

# The contract's events each kind may emit, by the part before the colon; "*" is all of them.
EMITS = {
    "tool": {"artifact"},
    "hook": {"approval", "artifact", "policy"},
    "provider": {"llm", "provider", "content_block", "thinking"},
    "context": {"context"},
    "orchestrator": {"*"},
}


class _Name(str):
    """A name that can have weak references, as a plain text cannot."""


def authority(kind: str, **permissions: Any) -> Authority:
    entry = {"module": f"{kind}-x", "permissions": permissions}
    read = ModuleEntry.read(entry, EntryPlace(kind, f"{kind}s[0]", Path("/")))  # type: ignore[arg-type]
    return Authority(read, partial(line_for, read.permissions))


@each_row("kind", KINDS)
def test_only_its_kinds_emit_an_event_of_the_contract(kind: str) -> None:
    allowed, own = EMITS[kind], authority(kind)
    emitted = [event for event in events.ALL_EVENTS if own.may_emit(event)]
    assert emitted == [one for one in events.ALL_EVENTS if "*" in allowed or one.partition(":")[0] in allowed]


@each_row("kind", KINDS)
@each_row("event", ["weather:changed", "tool:pre-flight", "x", "", "TOOL:PRE"])
def test_an_event_of_a_modules_own_making_is_free_for_everyone(kind: str, event: str) -> None:
    assert authority(kind).may_emit(event)


@each_row(
    ("grant", "event", "allowed"),
    [
        ("tool:pre", "tool:pre", True),
        ("tool:*", "tool:post", True),
        ("*", "session:end", True),
        ("tool:pre", "tool:post", False),
        ("tool", "tool:pre", False),
    ],
)
def test_an_emit_grant_widens_what_a_module_may_emit(grant: str, event: str, allowed: bool) -> None:
    assert authority("tool", emit=[grant]).may_emit(event) is allowed


def test_names_without_end_take_no_memory_without_end() -> None:
    of_tool = authority("tool")
    names: weakref.WeakSet[_Name] = weakref.WeakSet()
    for number in range(10_000):
        name = _Name(f"made:up:{number}")
        names.add(name)
        assert of_tool.may_emit(name)
    del name
    assert len(names) <= 2 * len(events.ALL_EVENTS), "more names are kept"
    assert not of_tool.may_emit("tool:pre")


@each_row(
    ("kind", "call", "point", "name", "allowed"),
    [
        ("orchestrator", [], "tools", "bash", True),
        ("orchestrator", [], "context", None, True),
        ("tool", [], "tools", "bash", False),
        ("tool", [], "context", None, False),
        ("hook", [], "providers", "mock", False),
        ("context", [], "providers", "mock", False),
        ("provider", [], "context", None, False),
        ("tool", ["context"], "context", None, True),
        ("tool", ["context"], "providers", "mock", False),
        ("tool", ["tools"], "tools", "bash", True),
        ("tool", ["tools:bash"], "tools", "bash", True),
        ("tool", ["tools:bash"], "tools", "grep", False),
        ("hook", ["providers"], "providers", "mock", True),
        ("tool", ["*"], "orchestrator", None, True),
    ],
)
def test_orchestrators_and_grantees_call_mounted_objects(
    kind: str, call: list[str], point: str, name: str | None, allowed: bool
) -> None:
    assert authority(kind, call=call).may_call(point, name) is allowed


@each_row("kind", KINDS)
def test_handlers_need_a_hook_or_a_grant_that_the_refusal_names(kind: str) -> None:
    if kind == "hook":
        authority(kind).check_handler("tool:pre")
        return
    with pytest.raises(CallRefusedError) as refused:
        authority(kind).check_handler("tool:pre")
    assert refused.value.denial.grant == 'permissions: {hooks: ["tool:pre"]}'
    assert refused.value.denial.target == "tool:pre"
    authority(kind, hooks=["tool:*"]).check_handler("tool:pre")


@each_row("name", ["session.spawn", "session.working_dir", "host.anything"])
@each_row("kind", KINDS)
def test_the_hosts_own_capability_names_are_not_a_modules_to_take(kind: str, name: str) -> None:
    authority(kind).check_capability(f"my.{name}")
    if kind == "orchestrator":
        authority(kind).check_capability(name)
        return
    with pytest.raises(CallRefusedError, match=name):
        authority(kind).check_capability(name)


@each_row("kind", KINDS)
def test_hook_results_are_acted_on_for_hooks_and_orchestrators(kind: str) -> None:
    if kind in ("hook", "orchestrator"):
        authority(kind).check_hook_results()
        return
    with pytest.raises(CallRefusedError):
        authority(kind).check_hook_results()
