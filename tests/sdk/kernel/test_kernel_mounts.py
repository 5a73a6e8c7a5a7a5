"""Mount points: the table of calls, and every way to write to the dicts directly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.mounts import MountPoints, own_names

MULTI = ["providers", "tools"]


class Log:
    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def mounted(self, point: str, name: str | None, obj: Any) -> None:
        self.seen.append(("+", point, name, obj))

    def unmounted(self, point: str, name: str | None) -> None:
        self.seen.append(("-", point, name))


@pytest.fixture
def coordinator() -> ModuleCoordinator:
    return ModuleCoordinator()


@pytest.fixture
def points() -> MountPoints:
    return MountPoints("registry")


@pytest.fixture
def log(points: MountPoints) -> Log:
    points["tools"]["old"] = "old tool"
    points["context"] = "old context"
    log = Log()
    points.observer = log
    return log


def named(name: Any) -> SimpleNamespace:
    return SimpleNamespace(name=name)


def test_there_are_exactly_six_points(coordinator: ModuleCoordinator) -> None:
    assert dict(coordinator.mount_points) == {
        "orchestrator": None,
        "providers": {},
        "tools": {},
        "context": None,
        "hooks": coordinator.hooks,
        "module-source-resolver": None,
    }
    assert isinstance(coordinator.mount_points, dict)


# The table of calls.


@pytest.mark.parametrize("point", MULTI)
async def test_a_point_with_names_takes_the_given_one_or_the_objects_own(
    coordinator: ModuleCoordinator, point: str
) -> None:
    first, second = named("own"), named("own")
    await coordinator.mount(point, first)
    await coordinator.mount(point, second, name="given")
    assert coordinator.get(point) == {"own": first, "given": second}
    assert coordinator.get(point) is coordinator.mount_points[point]
    assert coordinator.get(point, "own") is first
    assert coordinator.get(point, "missing") is None
    await coordinator.mount(point, second, "own")
    assert coordinator.get(point, "own") is second
    await coordinator.mount(point, None, "nothing")
    assert coordinator.get(point) == {"own": second, "given": second, "nothing": None}
    await coordinator.unmount(point, "missing")
    await coordinator.unmount(point, "own")
    assert list(coordinator.get(point)) == ["given", "nothing"]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        pytest.param(lambda c: c.mount("tools", object()), ValueError, "Name required for", id="no name"),
        pytest.param(lambda c: c.mount("providers", named(3)), TypeError, "int", id="a name that is no text"),
        pytest.param(lambda c: c.mount("tools", named(None)), TypeError, "NoneType", id="a name that is None"),
        pytest.param(lambda c: c.mount("tools", object(), 3), TypeError, "int", id="a given name that is no text"),
        pytest.param(lambda c: c.mount("hooks", object(), "h"), ValueError, "hooks", id="mount at hooks"),
        pytest.param(
            lambda c: c.mount("agents", object(), "a"), ValueError, "Unknown mount point: agents", id="agents"
        ),
        pytest.param(lambda c: c.mount("session", object(), "x"), ValueError, "Unknown mount point", id="session"),
        pytest.param(lambda c: c.get("agents"), ValueError, "Unknown mount point: agents", id="get"),
        pytest.param(lambda c: c.unmount("agents", "a"), ValueError, "Unknown mount point: agents", id="unmount"),
        pytest.param(lambda c: c.unmount("tools"), ValueError, "Name required", id="unmount without name"),
    ],
)
def test_an_impossible_call_raises_when_it_is_made(
    coordinator: ModuleCoordinator, call: Callable[[ModuleCoordinator], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        call(coordinator)


async def test_the_hook_registry_is_got_and_not_unmounted(coordinator: ModuleCoordinator) -> None:
    await coordinator.unmount("hooks")
    assert coordinator.get("hooks") is coordinator.get("hooks", "any") is coordinator.hooks


@pytest.mark.parametrize("point", ["orchestrator", "context"])
async def test_the_contracts_first_names_for_two_points_are_understood(
    coordinator: ModuleCoordinator, point: str
) -> None:
    await coordinator.mount("session", "it", name=point)
    assert coordinator.get(point) == "it"


async def test_what_mount_returns_can_be_awaited_in_every_way(coordinator: ModuleCoordinator) -> None:
    mounting = coordinator.mount("context", "it")
    assert await mounting == ()
    assert await mounting == ()
    assert await asyncio.create_task(coordinator.mount("context", "it")) == ()  # type: ignore[arg-type]
    gathered = await asyncio.gather(coordinator.mount("context", "it"), coordinator.unmount("context"))
    assert list(gathered) == [(), ()]
    assert await asyncio.wait_for(coordinator.mount("context", "it"), 60) == ()


@pytest.mark.parametrize("name", ["tools", "providers", "emit"])
def test_what_the_contract_does_not_have_is_an_attribute_error(coordinator: ModuleCoordinator, name: str) -> None:
    with pytest.raises(AttributeError):
        getattr(coordinator, name)


async def test_the_contracts_first_name_for_looking_up_is_understood(coordinator: ModuleCoordinator) -> None:
    assert coordinator.get_mounted("tools") == {}
    await coordinator.mount("tools", "it", name="one")
    assert coordinator.get_mounted("tools") is coordinator.get("tools")
    assert coordinator.get_mounted("context") == {}
    with pytest.raises(ValueError, match="Unknown mount point"):
        coordinator.get_mounted("agents")


# Direct writes.


@pytest.mark.parametrize(
    ("write", "seen", "left"),
    [
        pytest.param(lambda t: t.__setitem__("n", 1), [("+", "n", 1)], {"old": "old tool", "n": 1}, id="assign"),
        pytest.param(lambda t: t.__setitem__("old", 1), [("+", "old", 1)], {"old": 1}, id="overwrite"),
        pytest.param(lambda t: t.__delitem__("old"), [("-", "old")], {}, id="delete"),
        pytest.param(lambda t: t.pop("old"), [("-", "old")], {}, id="pop"),
        pytest.param(lambda t: t.pop("none", None), [], {"old": "old tool"}, id="pop with default"),
        pytest.param(lambda t: t.popitem(), [("-", "old")], {}, id="popitem"),
        pytest.param(lambda t: t.clear(), [("-", "old")], {}, id="clear"),
        pytest.param(
            lambda t: t.update({"a": 1}, b=2),
            [("+", "a", 1), ("+", "b", 2)],
            {"old": "old tool", "a": 1, "b": 2},
            id="update",
        ),
        pytest.param(lambda t: t.update([("a", 1)]), [("+", "a", 1)], {"old": "old tool", "a": 1}, id="update pairs"),
        pytest.param(lambda t: t.__ior__({"a": 1}), [("+", "a", 1)], {"old": "old tool", "a": 1}, id="ior"),
        pytest.param(lambda t: t.setdefault("a", 1), [("+", "a", 1)], {"old": "old tool", "a": 1}, id="setdefault"),
        pytest.param(lambda t: t.setdefault("old", 1), [], {"old": "old tool"}, id="setdefault of a present one"),
    ],
)
def test_every_way_to_write_to_a_slot_is_observed(
    points: MountPoints, log: Log, write: Callable[[Any], object], seen: list[tuple[Any, ...]], left: dict[str, Any]
) -> None:
    write(points["tools"])
    assert [(entry[0], *entry[2:]) for entry in log.seen] == seen
    assert {entry[1] for entry in log.seen} <= {"tools"}
    assert points["tools"] == left


def test_a_slot_answers_like_a_dict(points: MountPoints, log: Log) -> None:
    tools = points["tools"]
    assert tools.pop("old") == "old tool"
    assert tools.setdefault("a", 1) == 1
    tools["b"] = 2
    assert tools.popitem() == ("b", 2)
    with pytest.raises(KeyError):
        tools.pop("missing")
    with pytest.raises(KeyError):
        del tools["missing"]
    tools.clear()
    with pytest.raises(KeyError):
        tools.popitem()


def test_in_place_or_keeps_the_slot(points: MountPoints, log: Log) -> None:
    tools = points["tools"]
    points["tools"] |= {"a": 1}
    assert points["tools"] is tools
    assert log.seen == [("+", "tools", "a", 1)]


@pytest.mark.parametrize(
    ("write", "seen"),
    [
        pytest.param(lambda p: p.__setitem__("context", "new"), [("+", "context", None, "new")], id="assign"),
        pytest.param(lambda p: p.__setitem__("context", None), [("-", "context", None)], id="assign None"),
        pytest.param(
            lambda p: p.update({"orchestrator": 1}, context=2),
            [("+", "orchestrator", None, 1), ("+", "context", None, 2)],
            id="update",
        ),
        pytest.param(lambda p: p.__ior__({"context": 1}), [("+", "context", None, 1)], id="ior"),
        pytest.param(lambda p: p.setdefault("context", 1), [], id="setdefault"),
        pytest.param(
            lambda p: p.__setitem__("tools", {"new": 1}), [("-", "tools", "old"), ("+", "tools", "new", 1)], id="slot"
        ),
        pytest.param(lambda p: p.__setitem__("hooks", "other"), [], id="hooks are not observed"),
    ],
)
def test_every_way_to_write_to_the_points_is_observed(
    points: MountPoints, log: Log, write: Callable[[Any], object], seen: list[tuple[Any, ...]]
) -> None:
    tools = points["tools"]
    write(points)
    assert log.seen == seen
    assert points["tools"] is tools


@pytest.mark.parametrize(
    "remove",
    [
        lambda p: p.__delitem__("tools"),
        lambda p: p.pop("tools"),
        lambda p: p.pop("tools", None),
        lambda p: p.popitem(),
        lambda p: p.clear(),
    ],
    ids=["del", "pop", "pop-default", "popitem", "clear"],
)
def test_a_point_cannot_be_removed(points: MountPoints, remove: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match="cannot be removed"):
        remove(points)
    assert len(points) == 6


@pytest.mark.parametrize("add", [lambda p: p.__setitem__("agents", {}), lambda p: p.setdefault("agents", {})])
def test_no_point_can_be_added(points: MountPoints, add: Callable[[Any], object]) -> None:
    with pytest.raises(ValueError, match="Unknown mount point: agents"):
        add(points)
    assert len(points) == 6


def test_the_attribute_may_be_reassigned_and_stays_live(coordinator: ModuleCoordinator) -> None:
    tools = coordinator.get("tools")
    coordinator.mount("context", "gone")
    coordinator.mount_points = {"tools": {"t": 1}, "orchestrator": "o"}
    assert coordinator.get("tools") is tools
    assert coordinator.get("tools") == {"t": 1}
    assert coordinator.get("orchestrator") == "o"
    assert coordinator.get("context") is None
    assert coordinator.get("hooks") is coordinator.hooks
    coordinator.mount_points = coordinator.mount_points
    assert coordinator.get("tools") == {"t": 1}


def test_a_name_that_is_anothers_or_several_tools_is_no_other_name() -> None:
    own = {"my-tool": "my_tool", "same": "same", "hidden": "same", "one": "twin", "two": "twin"}
    tools = {mounted: SimpleNamespace(name=name) for mounted, name in own.items()}
    assert own_names({**tools, "nameless": object()}) == {"my_tool": "my-tool"}
