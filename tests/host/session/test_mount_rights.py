"""Each kind of module at each mount point: what acts for the session is mounted by its kind, or by grant."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.errors import CallRefusedError
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.policy.authority import RIGHTS, Authority
from paddock_sdk.contract.boundary_errors import RefusedError
from paddock_sdk.kernel.mounts import MULTI_POINTS, RESOLVER_POINT, SINGLE_POINTS
from paddock_sdk.protocol.methods import HostMethod
from support.rows import each_row
from support.scripted_end import ASYNC

from .conftest import Hosted

_KINDS = ("tool", "hook", "provider", "context", "orchestrator")
_OF_KIND = {"provider": "providers", "context": "context", "orchestrator": "orchestrator"}
_GRANTS = ("providers", "orchestrator", "context")
_POINTS = (*MULTI_POINTS, *SINGLE_POINTS, "hooks", "nowhere")


def _may(kind: str, point: str, grant: str | None) -> bool:
    return point == "tools" or _OF_KIND.get(kind) == point or grant == point


def test_every_kind_and_point_is_looked_at() -> None:
    assert set(RIGHTS) == set(_KINDS)
    assert {"tools", *_GRANTS, RESOLVER_POINT} == {*MULTI_POINTS, *SINGLE_POINTS}


@pytest.mark.parametrize("grant", [None, *_GRANTS])
@pytest.mark.parametrize("kind", _KINDS)
async def test_a_kind_mounts_at_its_own_points_and_by_grant(kind: str, grant: str | None, hosted: Hosted) -> None:
    permissions = {} if grant is None else {"mount": [grant]}
    module, worker = await hosted.start(kind, f"{kind}-x", permissions=permissions)
    for number, point in enumerate(_POINTS, 5):
        noted = len(module.denials)
        name = "new" if point in (*MULTI_POINTS, "nowhere") else None
        mounting = worker.request(0, HostMethod.MOUNT, [point, name, worker.own(number, {"execute": ASYNC})])
        if _may(kind, point, grant):
            await worker.answer(mounting)
            assert hosted.coordinator.get(point, name) is not None
            assert len(module.denials) == noted
        elif point in _POINTS[-2:]:
            with pytest.raises(ValueError, match=point):
                await worker.answer(mounting)
        else:
            with pytest.raises(RefusedError, match=f"may not mount at `{point}`"):
                await worker.answer(mounting)
            assert not hosted.coordinator.get(point)
            points = ", ".join(f'"{one}"' for one in (*permissions.get("mount", ()), point))
            (denial,) = module.denials[noted:]
            assert denial.grant == ("" if point == RESOLVER_POINT else f"permissions: {{mount: [{points}]}}")


@each_row("kind", _KINDS)
@each_row("point", [*MULTI_POINTS, *SINGLE_POINTS])
def test_a_grant_is_asked_for_where_the_kind_has_no_right(kind: str, point: str) -> None:
    """As `paddock why` and the router have it: one table, and one answer."""
    authority = Authority(ModuleEntry.read({"module": f"{kind}-x"}, EntryPlace(kind, "x", Path("/"))))  # type: ignore[arg-type]
    assert authority.may_mount(point) is _may(kind, point, None)
    if not authority.may_mount(point):
        with pytest.raises(CallRefusedError):
            authority.check_mount(point)
