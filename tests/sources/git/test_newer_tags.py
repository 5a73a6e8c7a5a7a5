"""Of a repository's tags, those that name a newer version than the one that is locked."""

from __future__ import annotations

from paddock_sources.supplies.git import newer_tags
from support.rows import each_row

_TAGS = ("v1.2.0", "v1.10.0", "v1.9", "v2.0rc1", "nightly", "v1.9.1.dev3", "other-v3.0", "1.11", "v", "v" + "9" * 400)


@each_row(
    ("ref", "found"),
    [
        ("v1.2.0", ("v1.10.0", "v1.9")),
        ("v1.10.0", ()),
        ("v2.0rc1", ()),
        ("v1.9.1.dev3", ("v2.0rc1", "v1.10.0")),
        ("nightly", ()),
        ("", ("v1.10.0",)),
    ],
)
def test_newer_tags_are_found_by_their_versions(ref: str, found: tuple[str, ...]) -> None:
    tags = {name: f"commit of {name}" for name in _TAGS if len(name) < 100}
    assert newer_tags(tags, ref, "commit of v1.9" if not ref else "") == found


def test_no_tag_is_too_odd_to_be_looked_at() -> None:
    assert newer_tags(dict.fromkeys((*_TAGS, "0" * 100_000, "é٣", "-1"), "c"), "v1.2.0", "c")
