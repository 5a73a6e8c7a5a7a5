"""What manifests ask for: read as data, the same however it is ordered, and compared so that nothing new is unseen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.plan.permissions import preset_grants
from paddock_sources.errors import ManifestError
from paddock_sources.manifest import permission_request
from paddock_sources.manifest.permission_request import (
    PRESETS,
    PermissionRequest,
    difference,
    permissions_digest,
    preset_table,
)
from support.rows import each_row


def asked(folder: Path, text: str) -> PermissionRequest | None:
    (folder / "pyproject.toml").write_text(text)
    return PermissionRequest.read(folder)


def test_each_grant_is_a_line(tmp_path: Path) -> None:
    request = asked(
        tmp_path,
        "[tool.paddock.permissions]\n"
        "net = ['api.example.org', 'b.example.org', 'api.example.org']\n"
        "secrets = ['KEY', {name = 'TOKEN', inject = 'host'}, {name = 'PLAIN'}]\n"
        "read = []\n"
        "gpu = ['one']\n",
    )
    assert request is not None
    assert request.lines == (
        "net api.example.org",
        "net b.example.org",
        "secrets KEY",
        "secrets TOKEN, put in at host",
        "secrets PLAIN",
        "gpu one",
    )


@pytest.mark.parametrize("text", ["", "[project]\nname = 'x'\n", "[tool.paddock]\n", "[tool.other]\npermissions = 3\n"])
def test_who_does_not_say_asks_for_nothing(text: str, tmp_path: Path) -> None:
    assert PermissionRequest.read(tmp_path) is None
    assert asked(tmp_path, text) is None
    assert permissions_digest(None) == permissions_digest(PermissionRequest.of({}))


@pytest.mark.parametrize(
    "text",
    [
        "tool = 5",
        "[tool]\npaddock = []",
        "[tool.paddock]\npermissions = 3",
        "[tool.paddock]\npermissions = ''",
        "[tool.paddock]\npermissions = ['net']",
        "[tool.paddock.permissions]\nnet = 'api.example.org'",
        "[tool.paddock.permissions]\nnet = [1]",
        "[tool.paddock.permissions]\nnet = ['']",
        "[tool.paddock.permissions]\nsecrets = [{name = 'A', more = 'B'}]",
        "[tool.paddock.permissions]\nsecrets = [{name = 'A', inject = 1}]",
        f"[tool.paddock.permissions]\nnet = ['{'x' * 501}']",
        f"[tool.paddock.permissions]\nnet = [{', '.join(['1'] * 201)}]",
        "not toml",
        "a = " + "[" * 5000,
        "a = " + "9" * 5000,
    ],
)
def test_what_cannot_be_shown_and_compared_is_an_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(ManifestError):
        asked(tmp_path, text)


def test_a_manifest_elsewhere_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "module").mkdir()
    (tmp_path / "other.toml").write_text("[tool.paddock]\npermissions = 'shell'\n")
    os.symlink(tmp_path / "other.toml", tmp_path / "module" / "pyproject.toml")
    with pytest.raises(ManifestError, match="leads out"):
        PermissionRequest.read(tmp_path / "module")


def test_presets_stand_for_what_plans_grant_by_them() -> None:
    assert {name: dict(preset_table(name)) for name in PRESETS} == {
        name: {family: values for family, values in granted if values} for name, granted in preset_grants().items()
    }


def test_a_version_of_the_presets_keeps_its_meanings(monkeypatch: pytest.MonkeyPatch) -> None:
    meanings = {"a": {1: {"read": (".",)}, 3: {}}, "b": {1: {}, 2: {"run": ("*",)}}}
    monkeypatch.setattr(permission_request, "PRESETS", meanings)
    monkeypatch.setattr(permission_request, "PRESETS_VERSION", 3)
    read, run = {"read": (".",)}, {"run": ("*",)}
    assert [preset_table("a", version) for version in (1, 2, 3, None)] == [read, read, {}, {}]
    assert [preset_table("b", version) for version in (1, 2, 3, None)] == [{}, run, run, run]
    assert [preset_table("b", version) for version in (-1, 0, 4)] == [{}] * 3, "no version that is known"


def test_every_preset_has_a_meaning_from_the_first_version_on() -> None:
    assert all(min(meanings) == 1 for meanings in PRESETS.values())


def test_the_paths_of_presets_are_the_working_directory() -> None:
    """Where others lead would belong into the digest of an accepted plan."""
    tables = [table for meanings in PRESETS.values() for table in meanings.values()]
    assert {path for table in tables for family in ("read", "write") for path in table.get(family, ())} == {
        ".",
        "!@secrets",
    }


_FAMILIES = st.sampled_from(["read", "write", "net", "run", "emit"])
_GRANTS = st.lists(st.sampled_from([".", "a", "b", "*"]), max_size=3)
_REQUESTS = st.dictionaries(_FAMILIES, _GRANTS, max_size=4).map(PermissionRequest.of)


@settings(deadline=None)
@given(_REQUESTS, st.randoms(use_true_random=False))
def test_the_digest_is_of_what_is_asked_and_not_of_how(request: PermissionRequest, order: object) -> None:
    families = list(request.grants.items())
    order.shuffle(families)  # type: ignore[attr-defined]
    again = PermissionRequest.of({family: [*reversed(grants), *grants] for family, grants in families} | {"env": []})
    assert permissions_digest(again) == permissions_digest(request)
    assert difference(request, again) == difference(again, request) == difference(None, None)


@settings(deadline=None)
@given(_REQUESTS, _REQUESTS)
def test_every_difference_of_digests_is_a_difference_of_requests(
    old: PermissionRequest, new: PermissionRequest
) -> None:
    found = difference(old, new)
    assert (found.added, found.removed) == (difference(new, old).removed, difference(new, old).added)
    if permissions_digest(old) == permissions_digest(new):
        assert not found.added and not found.removed
    elif not any("*" in one.grants.get(family, ()) for one in (old, new) for family in ("run", "emit")):
        assert found.added or found.removed


DIFFERENCES = [
    ({"net": ["a"]}, {"net": ["a", "b"]}, ("net b",), ()),
    ({"net": ["a", "b"]}, {"net": ["b"]}, (), ("net a",)),
    ({"net": ["a"]}, {"net": ["b"], "run": ["git"]}, ("net b", "run git"), ("net a",)),
    ({"run": ["*"]}, {"run": ["git"]}, (), ("run *",)),
    ({"run": ["git"]}, {"run": ["*"]}, ("run *",), ()),
    ({"net": ["*.example.org"]}, {"net": ["a.example.org"]}, ("net a.example.org",), ("net *.example.org",)),
    ("workspace", {"read": ["."]}, (), ("write .",)),
    ("isolated", "shell", ("net self", "read .", "run *", "write ."), ()),
    ({"read": ["."], "write": ["."]}, "workspace", (), ()),
    ("isolated", "everything", ("preset everything",), ()),
    ({}, {"gpu": ["one"]}, ("gpu one",), ()),
    ({"secrets": [{"name": "K", "inject": "a"}]}, {"secrets": ["K"]}, ("secrets K",), ("secrets K, put in at a",)),
    (None, {"net": ["a"]}, ("net a",), ()),
    ({"net": ["a"]}, None, (), ("net a",)),
]


@each_row(("old", "new", "added", "removed"), DIFFERENCES)
def test_what_is_new_is_told_and_asks_more(
    old: object, new: object, added: tuple[str, ...], removed: tuple[str, ...]
) -> None:
    before = None if old is None else PermissionRequest.of(old)
    after = None if new is None else PermissionRequest.of(new)
    found = difference(before, after)
    assert (found.added, found.removed, found.asks_more) == (added, removed, bool(added))


def test_the_grants_of_presets_are_made_once() -> None:
    assert preset_grants() is preset_grants()
