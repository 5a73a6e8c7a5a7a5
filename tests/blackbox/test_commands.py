"""What commands print, write as JSON, end with and leave in the audit log is what it was."""

from __future__ import annotations

import pytest

from blackbox.commands import World
from blackbox.frozen import assert_as_frozen
from blackbox.scenarios import NEEDS_NS, SCENARIOS


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in NEEDS_NS])
def test_commands_without_modules_do_what_they_did(name: str, world: World) -> None:
    assert_as_frozen(f"commands/{name}", SCENARIOS[name](world))


@pytest.mark.usefixtures("level_ns")
@pytest.mark.parametrize("name", sorted(NEEDS_NS))
def test_commands_that_start_modules_do_what_they_did(name: str, world: World) -> None:
    assert_as_frozen(f"commands/{name}", SCENARIOS[name](world))
