"""The window that an instruction has to fit into is that of the provider that loops ask."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from paddock.session.instructing import over_half_a_window


class _Provider:
    def __init__(self, priority: int, window: object) -> None:
        self.priority = priority
        self._window = window

    async def get_info(self) -> Any:
        return SimpleNamespace(defaults={"context_window": self._window})


async def test_the_window_is_that_of_the_provider_with_the_lowest_priority() -> None:
    coordinator: Any = {"providers": {"first": _Provider(100, 1000), "asked": _Provider(1, 100)}}
    assert "window of 100" in await over_half_a_window(coordinator, "x" * 300)
    assert await over_half_a_window(coordinator, "x" * 200) == ""


async def test_a_provider_that_names_no_window_sets_no_bound() -> None:
    for window in (None, "many"):
        coordinator: Any = {"providers": {"asked": _Provider(1, window)}}
        assert await over_half_a_window(coordinator, "x" * 10_000) == ""
    nothing: Any = {}
    assert await over_half_a_window(nothing, "x" * 10_000) == ""
