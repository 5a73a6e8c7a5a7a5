"""The authority of all servers that tests of the gate have."""

from __future__ import annotations

import pytest

from host.egress.certificates import TestAuthority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("authority"))
