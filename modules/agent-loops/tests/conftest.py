"""Make the module importable from its folder, and run its asynchronous tests on asyncio."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(_TESTS.parent), str(_TESTS)]  # the module, and what its tests share


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
