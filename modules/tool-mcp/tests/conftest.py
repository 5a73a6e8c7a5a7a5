"""Make the module importable from its folder, and run its asynchronous tests on asyncio."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
