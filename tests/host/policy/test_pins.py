"""What counts as a pin that moved, and how it is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from paddock.errors import render
from paddock.policy.pins import LockMovedError, Pin, moved_pins
from paddock_sources.lock.locked_module import LockedDependency, LockedModule
from support.rows import each_row

_HASHES = ("sha256:" + "a" * 64, "sha256:" + "b" * 64)
_HTTPX = LockedDependency("httpx", "0.28.0", _HASHES)
_ANYIO = LockedDependency("anyio", "4.0", _HASHES)
_LOCKED = LockedModule(
    "git+https://a.example/x@main",
    requested_ref="main",
    commit="1" * 40,
    tree="sha256:" + "1" * 64,
    permissions_digest="sha256:" + "2" * 64,
    hashes=_HASHES,
    dependencies=(_HTTPX, _ANYIO),
    requested_kind="branch",
    committed_at=datetime(2026, 1, 1, tzinfo=UTC),
)


def test_the_order_of_what_is_locked_is_no_part_of_a_pin() -> None:
    turned = replace(_LOCKED, hashes=_HASHES[::-1], dependencies=(_ANYIO, replace(_HTTPX, hashes=_HASHES[::-1])))
    assert Pin.of(turned) == Pin.of(_LOCKED)


@each_row(
    "change",
    [
        {"commit": "2" * 40},
        {"tree": "sha256:" + "3" * 64},
        {"permissions_digest": ""},
        {"requested_kind": "tag"},
        {"requested_ref": "other"},
        {"subdirectory": "inside"},
        {"committed_at": None},
        {"hashes": _HASHES[:1]},
        {"dependencies": (_HTTPX,)},
        {"dependencies": (replace(_HTTPX, hashes=_HASHES[:1]), _ANYIO)},
        {"dependencies": (replace(_HTTPX, commit="4" * 40), _ANYIO)},
    ],
)
def test_whatever_else_is_locked_of_a_source_is_part_of_its_pin(change: dict[str, Any]) -> None:
    now = {_LOCKED.source: Pin.of(replace(_LOCKED, **change))}
    assert len(moved_pins([Pin.of(_LOCKED)], now)) == 1
    assert not moved_pins([Pin.of(_LOCKED)], {_LOCKED.source: Pin.of(_LOCKED)})


def test_a_pin_that_is_added_gone_or_unknown_has_moved() -> None:
    pin = Pin.of(_LOCKED)
    assert moved_pins([], {pin.source: pin}) and moved_pins(None, {pin.source: pin})
    assert moved_pins([pin], {pin.source: None})
    assert not moved_pins([pin], {}) and not moved_pins(None, {pin.source: None})


def test_what_moved_is_told_with_commits_and_dependencies() -> None:
    newer = replace(_LOCKED, commit="2" * 40, dependencies=(replace(_HTTPX, version="0.29"), replace(_ANYIO, name="b")))
    (moved,) = moved_pins([Pin.of(_LOCKED)], {_LOCKED.source: Pin.of(newer)})
    assert moved.describe() == (
        f"git+https://a.example/x@main: {'1' * 12} -> {'2' * 12}; "
        "dependencies: anyio 4.0 is gone, b 4.0 is new, httpx 0.28.0 -> 0.29"
    )
    (hidden,) = moved_pins([Pin.of(_LOCKED)], {_LOCKED.source: Pin.of(replace(_LOCKED, tree="sha256:" + "9" * 64))})
    assert "1" * 12 in hidden.describe() and "locked as" in hidden.describe()


def test_names_in_what_moved_are_marked_and_escaped() -> None:
    source = "git+https://\u0430.example/x@main"
    pin = Pin.of(replace(_LOCKED, source=source))
    (moved,) = moved_pins([], {source: replace(pin, commit="1.0\x1b[31m")})
    told = render(LockMovedError("plan.yaml", Path("paddock.lock"), [moved]))
    assert "NOT AS IT LOOKS" in told and "\x1b[31m" not in told
