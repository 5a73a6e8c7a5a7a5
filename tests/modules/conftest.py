"""The contract packages that the reference modules are tested under."""

from __future__ import annotations

import pytest

from modules import shipped
from twins.published import OURS, Python, published_in, with_packages


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
