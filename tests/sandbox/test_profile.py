"""A profile crosses a socket unharmed, and an unknown one is refused rather than weakened."""

from __future__ import annotations

import pytest

from paddock_sandbox.profile import ISOLATION_LEVELS, SandboxProfile


@pytest.mark.parametrize("level", ISOLATION_LEVELS)
def test_a_profile_survives_its_way_to_the_worker(level: str) -> None:
    profile = SandboxProfile.from_dict({"level": level})
    assert profile.level == level
    assert SandboxProfile.from_dict(profile.as_dict()) == profile


@pytest.mark.parametrize("data", [{}, {"level": "none of these"}, {"level": None}, {"level": ["process"]}])
def test_a_level_nobody_can_apply_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="cannot apply isolation level"):
        SandboxProfile.from_dict(data)
