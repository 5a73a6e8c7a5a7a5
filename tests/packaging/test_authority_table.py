"""The table of what each kind of module may do, as SECURITY shows it, is the one that the host goes by."""

from __future__ import annotations

import re
from pathlib import Path

from paddock.policy.authority import KEPT, RIGHTS, KindRights

_PAGE = Path(__file__).resolve().parents[2] / "SECURITY.md"


def _rows() -> dict[str, list[str]]:
    section = _PAGE.read_text(encoding="utf-8").split("| kind | mounts at |")[1].split("\n\n")[0]
    lines = [line.replace("\\", "") for line in section.splitlines()[2:]]
    rows = [[cell.strip() for cell in re.split(r"\|", line.strip("|"))] for line in lines]
    return {kind: cells for kind, *cells in rows}


def _listed(names: tuple[str, ...], nothing: str = "none") -> str:
    return "all" if names == ("*",) else ", ".join(names) or nothing


def _shown(rights: KindRights) -> list[str]:
    lent = "; ".join(f"{point}: {', '.join(members)}" for point, members in rights.lent.items())
    return [
        _listed(rights.mounts),
        _listed(rights.emits),
        _listed(rights.handles),
        _listed(tuple("capabilities that act for a person" if one == KEPT else one for one in rights.calls)),
        lent or "all",
        _listed(rights.reserves),
        _listed(rights.replaces),
        "yes" if rights.decides else "no",
        "yes" if rights.marks else "no",
    ]


def test_security_shows_the_rights_of_each_kind() -> None:
    rows = _rows()
    by_grant = rows.pop("by grant")
    assert rows == {kind: _shown(rights) for kind, rights in RIGHTS.items()}
    assert by_grant == ["`mount`", "`emit`", "`hooks`", "`call`", "none", "none", "`replaces`", "none", "none"]
