"""What README and SECURITY say must have something to stand on."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from paddock.selftest.attacks import CATALOGUE

_ROOT = Path(__file__).resolve().parents[2]
_CLAIM = re.compile(r"^\| (?P<claim>[^|]+) \| (?P<shown>[^|]+) \|$", re.MULTILINE)
_ATTACKS = {attack.name for attack in CATALOGUE}


def _claims() -> list[tuple[str, str]]:
    section = (_ROOT / "SECURITY.md").read_text(encoding="utf-8").split("## Claims")[1].split("\n## ")[0]
    rows = [(match["claim"].strip(), match["shown"].strip()) for match in _CLAIM.finditer(section)]
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
    page = (_ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert {name for name in _ATTACKS if f"`{name}`" not in page} == set()


@pytest.mark.parametrize("page", ["README.md", "SECURITY.md", "sdk/PROTOCOL.md"])
def test_every_relative_link_of_a_page_leads_somewhere(page: str) -> None:
    text = (_ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    missing = [link for link in links if not ((_ROOT / page).parent / link).exists()]
    assert not missing
