"""What SECURITY promises has something to stand on: `tests/claims.md` names it, line by line."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from paddock.selftest.attacks import CATALOGUE
from support.rows import each_row

_ROOT = Path(__file__).resolve().parents[2]
_CLAIM = re.compile(r"^\| (?P<claim>[^|]+) \| (?P<shown>[^|]+) \|$", re.MULTILINE)
_ATTACKS = {attack.name for attack in CATALOGUE}


def _claims() -> list[tuple[str, str]]:
    rows = [(match["claim"].strip(), match["shown"].strip()) for match in _CLAIM.finditer(_text("tests/claims.md"))]
    return [row for row in rows if row[0] not in ("claim", "---")]


def test_every_security_claim_names_what_shows_it() -> None:
    claims = _claims()
    assert claims
    for claim, shown in claims:
        named = re.findall(r"`([^`]+)`", shown)
        assert named, f"{claim}: nothing shows it"
        for name in named:
            if name.startswith("tests/"):
                path, _, test = name.partition("::")
                assert (_ROOT / path).exists(), f"{claim}: {path} is not there"
                assert not test or f"def {test}(" in _text(path), f"{claim}: no {test}"
            elif "the row" in shown:
                assert f'"{name}"' in _text("tests/integration/test_hostile_frames.py"), f"{claim}: no row {name}"
            else:
                assert name in _ATTACKS, f"{claim}: no attack {name}"


@functools.cache
def _text(path: str) -> str:
    return (_ROOT / path).read_text(encoding="utf-8")


def test_every_attack_stands_for_a_claim_or_a_known_limit() -> None:
    pages = _text("tests/claims.md") + _text("host/docs/isolation.md")
    assert {name for name in _ATTACKS if f"`{name}`" not in pages} == set()


def test_security_can_be_read_in_one_go() -> None:
    text = _text("SECURITY.md")
    assert len(text.splitlines()) <= 230 and len(text.encode()) <= 22 * 1024


@each_row("page", ["SECURITY.md", "sdk/PROTOCOL.md", "tests/claims.md"])
def test_every_relative_link_of_a_page_leads_somewhere(page: str) -> None:
    for link in (one for one in re.findall(r"\]\(([^)\s]+)\)", _text(page)) if "://" not in one):
        path, _, heading = link.partition("#")
        target = (_ROOT / page).parent / path if path else _ROOT / page
        assert target.exists(), link
        headings = [line for line in target.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
        assert not heading or heading in [line.lstrip("# ").lower().replace(" ", "-") for line in headings], link
