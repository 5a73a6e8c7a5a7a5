"""How the loops are mounted: what they are then, which events they name, and which settings they refuse."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import amplifier_module_loop_basic as basic
import amplifier_module_loop_events as events
import amplifier_module_loop_streaming as streaming
import pytest
from amplifier_core.testing import MockCoordinator

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("module", "orchestrator", "own"),
    [
        (basic, basic.BasicOrchestrator, []),
        (
            streaming,
            streaming.StreamingOrchestrator,
            ["orchestrator:steering_injected", "orchestrator:goal_progress"],
        ),
        (
            events,
            events.EventsOrchestrator,
            ["decision:tool_resolution", "tool:selecting", "tool:selected"],
        ),
    ],
)
async def test_it_mounts_without_configuration_and_names_its_events(
    module: ModuleType, orchestrator: type, own: list[str]
) -> None:
    coordinator = MockCoordinator()
    assert await module.mount(coordinator) is None
    mounted = coordinator.get("orchestrator")
    assert isinstance(mounted, orchestrator)
    assert coordinator.get_capability("session.steer") == getattr(mounted, "steer", None)
    assert await coordinator.collect_contributions("observability.events") == [
        ["message.end", "error", "content_block:discarded", *own]
    ]


@pytest.mark.parametrize(
    ("module", "config", "says"),
    [
        *[(basic, {"max_iterations": value}, "`max_iterations`") for value in (0, -2, "10", 1.5, True, None)],
        (streaming, {"max_iterations": 0}, "`max_iterations` must be a whole number above 0, or -1 for no limit"),
        (streaming, {"max_steering": -1}, "`max_steering` must be a whole number above 0, not -1"),
        (streaming, {"max_goal_turns": "many"}, "`max_goal_turns` must be a whole number above 0"),
        (streaming, {"show_messages": 1}, "`show_messages` must be true or false"),
        (events, {"planning": "yes"}, "loop-events: `planning` must be true or false, not 'yes'"),
    ],
)
async def test_a_wrong_setting_is_refused_at_mount(module: ModuleType, config: dict[str, Any], says: str) -> None:
    coordinator = MockCoordinator()
    with pytest.raises(ValueError, match=says):
        await module.mount(coordinator, config)
    assert coordinator.get("orchestrator") is None
