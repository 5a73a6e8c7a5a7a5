"""One table of cases, and the kernels it is acted out on: ours, and the published one."""

from __future__ import annotations

import pytest

from twins.published import OURS, Python, published_in

KERNELS = ("ours", "published")


@pytest.fixture(scope="session", params=KERNELS)
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Python:
    """An interpreter with our contract package, and one with the published."""
    if request.param == "ours":
        return OURS
    # Processes of one test run have their temporary folders beside each other.
    return published_in(tmp_path_factory.getbasetemp().parent)
