"""The contract packages that the reference modules are tested under, and the folders that they are imported from."""

from __future__ import annotations

import sys

import pytest

from modules import shipped
from twins.published import OURS, Python, published_in, with_packages

_FOLDERS = ("agent-loops", "contexts", "provider-anthropic", "provider-mock", "provider-openai")
sys.path[:0] = [str(shipped.FOLDER / one) for one in _FOLDERS]


@pytest.fixture(params=["ours", "published"])
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Python:
    """An interpreter with our contract package or the published one, and with all that the modules depend on."""
    if request.param == "ours":
        return OURS
    shared = tmp_path_factory.getbasetemp().parent
    wanted = {one for module_id in shipped.IDS for one in shipped.requirements(module_id)}
    runners = ("pytest", "pytest-asyncio")
    needed = [one for one in wanted if not one.startswith(runners)]
    return with_packages(published_in(shared), shared, shipped.installed_for(needed))
