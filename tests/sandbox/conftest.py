"""Whom the programs of these tests run as."""

from __future__ import annotations

import pytest

from sandbox.subject import USERS


@pytest.fixture(params=USERS)
def user(request: pytest.FixtureRequest) -> str:
    """Each user that a program can be run as."""
    name: str = request.param
    return name
