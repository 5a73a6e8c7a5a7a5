"""What tests of the gate have in common: the authority of all servers, and where public addresses lead."""

from __future__ import annotations

import pytest

from host.egress.certificates import TestAuthority
from host.egress.ground import World
from paddock.egress import dialer


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Have connections to public addresses led to servers of the test."""
    made = World()
    monkeypatch.setattr(dialer, "_connect", made.connect)
    return made
