"""How a session comes up: the order, what may fail and what is said of it, instances of providers, cleanups."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from integration.semantics.places import COMPANION, FOLDER, PLAIN, OpenPlace, plan_of
from paddock_sdk.kernel.coordinator import ModuleCoordinator


class Witness:
    """An application that hears what modules tell of their steps, and what the session tells of failures."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.tools_when_ready: dict[str, list[str]] = {}
        self.failures: list[dict[str, Any]] = []
        self.ended: list[dict[str, Any]] = []

    def __call__(self, coordinator: ModuleCoordinator) -> None:
        hooks = coordinator.hooks
        hooks.register("semantics:step", self._on_step, name="witness")
        for event in ("module:load_failed", "module:on_session_ready_failed"):
            hooks.register(event, self._on_failure, name="witness")
        hooks.register("session:end", self._on_end, name="witness")

    def _on_step(self, event: str, data: dict[str, Any]) -> None:
        self.steps.append(data["step"])
        if "tools" in data:
            self.tools_when_ready[data["step"]] = data["tools"]

    def _on_failure(self, event: str, data: dict[str, Any]) -> None:
        self.failures.append({"event": event, **{key: data[key] for key in data if key not in _STAMPS}})

    def _on_end(self, event: str, data: dict[str, Any]) -> None:
        self.steps.append("session:end")
        self.ended.append(data)


_STAMPS = ("timestamp", "session_id", "parent_id")


def scripted(kind: str, label: str = "", **config: Any) -> dict[str, Any]:
    """Return an entry of a scripted module."""
    entry = {key: config.pop(key) for key in ("instance_id", "on_failure") if key in config}
    return {"module": f"{kind}-scripted", **entry, "config": {"label": label or kind, **config}}


async def test_modules_mount_and_get_ready_in_the_order_of_kinds(
    open_place: OpenPlace,
) -> None:
    witness = Witness()
    plan = plan_of(
        hooks=[COMPANION, scripted("hooks")],
        tools=[
            scripted("tool", mounts=["first"]),
            {"module": "tool-second", "config": {"label": "second", "mounts": ["second"]}},
        ],
        providers=[scripted("provider", mounts=["scripted"])],
    )
    async with open_place(plan, prepare=witness) as place:
        assert await place.run("initialization.mounted") == {
            "providers": {"scripted": "provider"},
            "tools": ["first", "second"],
        }
    order = ["provider", "tool", "second", "hooks"]
    assert witness.steps == [*(f"mounted {one}" for one in order), *(f"ready {one}" for one in order), "session:end"]
    assert witness.tools_when_ready == {f"ready {one}": ["first", "second"] for one in order}
    assert witness.failures == []


async def test_a_module_that_fails_is_announced_and_left_out(open_place: OpenPlace) -> None:
    witness = Witness()
    plan = plan_of(
        providers=[scripted("provider", "fails to load", fails="no key")],
        tools=[
            scripted("tool", "fails to mount", fails="no such folder"),
            {"module": "tool-second", "config": {"label": "second", "mounts": ["second"], "ready": "fails"}},
        ],
        hooks=[scripted("hooks", "fails to listen", fails="deaf", on_failure="continue")],
    )
    async with open_place(plan, prepare=witness) as place:
        assert await place.run("initialization.mounted") == {"providers": {}, "tools": ["second"]}
    told = [(failure["event"], failure.get("module_type"), failure["module_id"]) for failure in witness.failures]
    assert told == [
        ("module:load_failed", "provider", "provider-scripted"),
        ("module:load_failed", "tool", "tool-scripted"),
        ("module:load_failed", "hook", "hooks-scripted"),
        ("module:on_session_ready_failed", None, "tool-second"),
    ]
    for failure, text in zip(
        witness.failures, ("no key", "no such folder", "deaf", "this module is not ready"), strict=True
    ):
        # The host says as well whose failure it is, and at which step.
        assert failure["error"] == text if place.name == PLAIN else failure["error"].endswith(text)
    assert [sorted(failure) for failure in witness.failures] == [
        ["error", "event", "module_id", "module_type", "reason_code"]
    ] * 3 + [["error", "event", "module_id"]]
    assert {failure.get("reason_code") for failure in witness.failures} == {"unknown", None}


REMEMBERED = [{"role": "user", "content": "hello"}]
SPELLINGS = {
    "by name, configured beside": {
        "session": {
            "orchestrator": "loop-scenarios",
            "orchestrator_source": str(FOLDER),
            "context": "context-memory",
            "context_source": str(FOLDER),
        },
        "orchestrator": {"config": {"steps": [1, {"a": None}]}},
        "context": {"config": {"remembers": REMEMBERED}},
    },
    "as entries": {
        "session": {
            "orchestrator": {"module": "loop-scenarios", "config": {"steps": [1, {"a": None}]}},
            "context": {"module": "context-memory", "config": {"remembers": REMEMBERED}},
        },
    },
}


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_orchestrator_and_context_are_configured_as_either_spelling_says(
    open_place: OpenPlace, spelling: str
) -> None:
    async with open_place(copy.deepcopy(SPELLINGS[spelling])) as place:
        assert await place.run("initialization.configured") == [{"steps": [1, {"a": None}]}, REMEMBERED]


async def test_instances_of_a_provider_are_mounted_under_their_names(open_place: OpenPlace) -> None:
    plan = plan_of(
        providers=[
            scripted("provider", "default", mounts=["scripted"]),
            scripted("provider", "one", mounts=["scripted"], instance_id="first"),
            scripted("provider", "two", mounts=["scripted"], instance_id="second"),
        ]
    )
    async with open_place(plan) as place:
        outcome = await place.run("initialization.mounted")
    assert outcome["providers"] == {"scripted": "default", "first": "one", "second": "two"}


async def test_the_previous_occupant_of_the_default_name_is_put_back(open_place: OpenPlace) -> None:
    plan = plan_of(
        providers=[
            scripted("provider", "one", mounts=["scripted"], instance_id="first"),
            scripted("provider", "default", mounts=["scripted"]),
            scripted("provider", "two", mounts=["scripted"], instance_id="second"),
        ]
    )
    async with open_place(plan) as place:
        outcome = await place.run("initialization.mounted")
    assert outcome["providers"] == {"first": "one", "scripted": "default", "second": "two"}


async def test_a_provider_that_mounts_nothing_or_fails_half_way_leaves_no_trace(open_place: OpenPlace) -> None:
    witness = Witness()
    plan = plan_of(
        providers=[
            scripted("provider", "default", mounts=["scripted"]),
            scripted("provider", "mounts nothing", instance_id="nothing"),
            scripted("provider", "fails half-way", mounts=["scripted"], fails="half-way", instance_id="half"),
        ]
    )
    async with open_place(plan, prepare=witness) as place:
        assert (await place.run("initialization.mounted"))["providers"] == {"scripted": "default"}
    assert [(failure["instance_id"], failure["reason_code"]) for failure in witness.failures] == [
        ("nothing", "unknown"),
        ("half", "unknown"),
    ]
    assert "mounted no provider" in witness.failures[0]["error"]


async def test_an_application_sees_each_provider_load_and_failure(open_place: OpenPlace) -> None:
    heard: list[list[Any]] = []

    async def before_load(coordinator: ModuleCoordinator, entry: dict[str, Any]) -> None:
        heard.append(["before", entry["module"], coordinator.session_id])
        entry["module"] = "changed"

    def load_failure(coordinator: ModuleCoordinator, entry: dict[str, Any], error: Exception) -> None:
        heard.append(["failure", entry["module"], "no key" in str(error)])

    def prepare(coordinator: ModuleCoordinator) -> None:
        coordinator.register_capability("provider.before_load", before_load)
        coordinator.register_capability("provider.load_failure", load_failure)

    plan = plan_of(
        providers=[
            scripted("provider", "default", mounts=["scripted"]),
            scripted("provider", "fails", fails="no key", instance_id="other"),
        ]
    )
    async with open_place(plan, prepare=prepare) as place:
        assert (await place.run("initialization.mounted"))["providers"] == {"scripted": "default"}
    assert heard == [
        ["before", "provider-scripted", "semantics"],
        ["before", "provider-scripted", "semantics"],
        ["failure", "provider-scripted", True],
    ]


async def test_an_applications_error_over_a_provider_ends_the_start(open_place: OpenPlace) -> None:
    witness = Witness()

    def prepare(coordinator: ModuleCoordinator) -> None:
        def refuse(*given: Any) -> None:
            raise PermissionError("not without this provider")

        witness(coordinator)
        coordinator.register_capability("provider.load_failure", refuse)

    plan = plan_of(providers=[scripted("provider", "fails", fails="no key", registers=True)])
    with pytest.raises(Exception, match="not without this provider"):
        async with open_place(plan, prepare=prepare):
            raise AssertionError("it came up")
    # Whatever was registered until then is cleaned up, and no end is announced of what never began.
    assert witness.steps[:1] == ["mounted fails"]
    assert "session:end" not in witness.steps


@pytest.mark.parametrize("kind", ["orchestrator", "context"])
async def test_without_an_orchestrator_or_a_context_there_is_no_session(open_place: OpenPlace, kind: str) -> None:
    plan = plan_of(session={kind: {"module": "tool-scripted", "config": {"fails": "will not do"}}})
    with pytest.raises(Exception, match="will not do"):
        async with open_place(plan):
            raise AssertionError("it came up")


RETURNED = {
    "nothing": False,
    "a mapping": False,
    "a cleanup": True,
    "a plain cleanup": True,
    "a cleanup that fails": True,
    "a tool that can be called": True,
}


async def test_what_mount_returns_is_called_at_the_end_if_it_can_be(open_place: OpenPlace) -> None:
    witness = Witness()
    plan = plan_of(tools=[scripted("tool", returned, returns=returned) for returned in RETURNED])
    async with open_place(plan, prepare=witness):
        pass
    count = len(RETURNED)
    assert witness.steps[:count] == [f"mounted {returned}" for returned in RETURNED]
    # In a plain process they share the module's globals, and so the name by which it says that it is ready.
    assert [step.partition(" ")[0] for step in witness.steps[count : 2 * count]] == ["ready"] * count
    cleaned = [f"cleaned {returned}" for returned in reversed(RETURNED) if RETURNED[returned]]
    assert witness.steps[2 * count :] == ["session:end", *cleaned]


async def test_cleanups_run_the_latest_first_after_the_end_was_announced(open_place: OpenPlace) -> None:
    witness = Witness()
    plan = plan_of(
        tools=[
            scripted("tool", "first", returns="a cleanup", registers=True),
            {"module": "tool-second", "config": {"label": "second", "returns": "a cleanup that fails"}},
        ],
        hooks=[scripted("hooks", "third", returns="a plain cleanup")],
    )
    async with open_place(plan, prepare=witness):
        witness.steps.clear()
    assert witness.steps == ["session:end", "cleaned third", "cleaned second", "cleaned first", "cleaned first"]
    assert [data["session_id"] for data in witness.ended] == ["semantics"]
