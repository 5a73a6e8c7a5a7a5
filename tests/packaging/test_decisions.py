"""Each package has one page of decision records, each record says what would violate it, and references lead to one."""

from __future__ import annotations

import re
from pathlib import Path

from support.rows import each_row

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = [_ROOT / "host", _ROOT / "sdk", _ROOT / "sources"]
_PAGES = sorted(page for package in _PACKAGES for page in package.rglob("decisions.md"))
_REFERENCE = re.compile(r"([\w/]*)decisions\.md`?,?\s+(?:#\s+)?(\d{4})\b")


def _records(page: Path) -> dict[str, str]:
    """Return the page's records by number."""
    parts = re.split(r"^## (\d{4}): ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@each_row("page", _PAGES)
def test_each_record_says_what_would_violate_it(page: Path) -> None:
    records = _records(page)
    assert list(records) == [f"{number:04}" for number in range(1, len(records) + 1)]
    for number, text in records.items():
        assert "**Context.**" in text and "**Decision.**" in text, number
        assert re.search(r"change\s+violates\s+this\s+when", text), number


def test_each_reference_to_a_record_leads_to_one() -> None:
    found = 0
    for path in (path for package in _PACKAGES for suffix in ("py", "md") for path in package.rglob(f"*.{suffix}")):
        text = path.read_text(encoding="utf-8")
        if path in _PAGES:
            assert {*re.findall(r"\((?:see )?(0\d{3})\)", text)} <= {*_records(path)}, path
        for folder, number in _REFERENCE.findall(text):
            pages = [page for page in _PAGES if page.parent.as_posix().endswith("/" + folder.rstrip("/"))]
            assert any(number in _records(page) for page in pages), f"{path}: {folder}decisions.md {number}"
            found += 1
    assert found
