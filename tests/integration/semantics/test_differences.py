"""Where the boundary makes a difference, each with its reason; everything else is the same in both places."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from integration.semantics.places import PLAIN, Place


class Difference(NamedTuple):
    """A scenario that comes out differently, and why it has to."""

    scenario: str
    given: dict[str, Any]
    plain: Any
    across: Any
    reason: str


DIFFERENCES = {
    "a contributor that raises CancelledError": Difference(
        "members.cancelled_collection",
        {},
        [1],
        [1, 3],
        "what a module raises must not look like the host's own cancellation, so it is a failure like any other, "
        "and the others are asked",
    ),
    "the tools that another module runs": Difference(
        "cancellation.running_tools_elsewhere",
        {},
        [["1"], ["bash"]],
        [[], []],
        "who runs tools knows them, and so does the application; telling everybody would wake each module at each call",
    ),
}


@pytest.mark.parametrize("case", DIFFERENCES)
async def test_the_boundary_makes_this_difference(place: Place, case: str) -> None:
    difference = DIFFERENCES[case]
    outcome = await place.run(difference.scenario, **difference.given)
    assert outcome == (difference.plain if place.name == PLAIN else difference.across), difference.reason
