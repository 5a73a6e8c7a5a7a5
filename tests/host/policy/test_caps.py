"""A grant is within a cap only if all that it stands for is."""

from __future__ import annotations

from fnmatch import fnmatchcase, translate
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from paddock.plan.families import covers
from paddock.plan.permissions import Permissions, SecretGrant
from paddock.policy.caps import covers_secret, roots_of
from paddock.policy.grant_caps import SecretCap
from paddock.policy.owner import Owner
from paddock.policy.paths import covers_path
from support.rows import each_row


@each_row(
    ("family", "caps", "granted", "within"),
    [
        ("emit", ["*"], "git", True),
        ("emit", ["*"], "*", True),
        ("emit", ["git*"], "git", True),
        ("emit", ["git*"], "git-lfs", True),
        ("emit", ["git*"], "git*", True),
        ("emit", ["git*"], "git-*", True),
        ("emit", ["git", "bash"], "bash", True),
        ("emit", ["*:post"], "tool:post", True),
        ("emit", ["*:*"], "tool:*", True),
        ("emit", ["[", "x"], "[", True),
        ("emit", [], "git", False),
        ("emit", ["git"], "*", False),
        ("emit", ["git*"], "*", False),
        ("emit", ["git"], "git*", False),
        ("emit", ["git*"], "gi*", False),
        ("emit", ["git?"], "git*", False),
        ("emit", ["git?"], "git[x]", False),
        ("emit", ["*a*"], "[ab]", False),
        ("emit", ["*a"], "*[a]", False),
        ("emit", ["tool:p*"], "tool:*", False),
        ("emit", ["Git"], "git", False),
        ("emit", ["git", "bash"], "git,bash", False),
        ("call", ["*"], "spawn", True),
        ("call", ["tools"], "tools:bash", True),
        ("call", ["tools"], "tools", True),
        ("call", ["tools:read_*"], "tools:read_file", True),
        ("call", ["context", "providers"], "providers", True),
        ("call", ["tools", "providers", "context", "spawn"], "*", False),
        ("call", ["tools:bash"], "tools", False),
        ("call", ["tools:*"], "tools", False),
        ("call", ["context"], "tools:context", False),
        ("call", [], "context", False),
        ("env", ["LANG"], "LANG", True),
        ("env", ["MODE"], "MODE=fast", True),
        ("env", ["MODE=fast"], "MODE=fast", True),
        ("env", ["LC_*"], "LC_ALL", True),
        ("env", ["*"], "ANY=thing", True),
        ("env", ["MODE=fast"], "MODE=slow", False),
        ("env", ["MODE=fast"], "MODE", False),
        ("env", ["MODE=fast"], "MODE=fast=er", False),
        ("env", ["LANG"], "LANGUAGE", False),
        ("env", ["lang"], "LANG", False),
        ("env", [], "LANG", False),
    ],
)
def test_a_grant_is_within_a_cap_that_stands_for_all_of_it(
    family: str, caps: list[str], granted: str, within: bool
) -> None:
    assert covers(family, caps, granted) is within


PATTERNS = st.text(st.sampled_from("ab:*?[]!-"), max_size=5)


@given(PATTERNS, PATTERNS, st.data())
def test_what_matches_a_pattern_within_a_cap_matches_the_cap(cap: str, granted: str, data: st.DataObject) -> None:
    if cap != granted and covers("emit", [cap], granted):
        name = data.draw(st.from_regex(translate(granted), fullmatch=True))
        assert fnmatchcase(name, cap)


NET = ["api.example.org", "*.example.org", "other.example:80"]


@each_row(
    ("cap", "grant", "net", "within"),
    [
        ({"name": "KEY"}, {"name": "KEY"}, [], True),
        ({"name": "KEY"}, {"name": "KEY", "inject": "host"}, NET[:1], True),
        ({"name": "K*"}, {"name": "KEY"}, [], True),
        ({"name": "KEY", "inject": "host"}, {"name": "KEY", "inject": "host"}, NET[:1], True),
        ({"name": "KEY", "inject": "api.example.org"}, {"name": "KEY", "inject": "host"}, NET[:1], True),
        ({"name": "KEY"}, {"name": "OTHER"}, [], False),
        ({"name": "KEY", "inject": "api.example.org"}, {"name": "KEY", "inject": "api.example.org"}, NET, True),
        ({"name": "KEY", "inject": "host"}, {"name": "KEY", "inject": "other.example:80"}, NET, True),
        ({"name": "KEY", "inject": "*.example.org"}, {"name": "KEY", "inject": "a.example.org"}, NET, True),
        ({"name": "KEY", "inject": "api.example.org"}, {"name": "KEY", "inject": "other.example:80"}, NET, False),
        ({"name": "KEY", "inject": "other.example"}, {"name": "KEY", "inject": "other.example:80"}, NET, False),
        ({"name": "KEY", "inject": "other.example"}, {"name": "KEY", "inject": "other.example"}, NET, False),
        ({"name": "KEY", "inject": "host"}, {"name": "KEY"}, NET[:1], False),
        ({"name": "KEY", "inject": "api.example.org"}, {"name": "KEY", "inject": "host"}, NET[2:], False),
        ({"name": "KEY", "inject": "api.example.org"}, {"name": "KEY", "inject": "host"}, NET, False),
    ],
)
def test_a_secret_that_only_the_host_may_use_is_not_granted_in_the_open(
    cap: dict[str, str], grant: dict[str, str], net: list[str], within: bool
) -> None:
    permissions = Permissions.model_validate({"net": net})
    secret = SecretGrant.model_validate(grant)
    assert covers_secret([SecretCap.model_validate(cap)], secret, permissions) is within


def test_a_cap_on_paths_is_below_its_folder_and_nowhere_else(tmp_path: Path) -> None:
    work, home = tmp_path / "project", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    roots = roots_of([".", "~/data", "/srv"], work, Owner(1, home))
    assert roots == (work, home / "data", Path("/srv"))
    assert covers_path(roots, work / "a" / "b") and covers_path(roots, work) and covers_path(roots, home / "data" / "x")
    assert not covers_path(roots, tmp_path) and not covers_path(roots, Path(f"{work}-evil"))
    assert not covers_path([], work)


def test_a_cap_follows_links_of_the_machine_and_none_of_the_project(tmp_path: Path) -> None:
    work, secret = tmp_path / "real" / "project", tmp_path / "secret"
    work.mkdir(parents=True)
    secret.mkdir()
    (work / "out").symlink_to(secret)
    (work / "sub").mkdir()
    (tmp_path / "link").symlink_to("real")
    for spelled in (
        "out",
        "./sub/../out",
        str(work / "out"),
        str(tmp_path / "link" / "project" / "out"),
        "~/project/out",
    ):
        assert roots_of([spelled], work, Owner(1, tmp_path / "link")) == (work / "out",), spelled
    (tmp_path / "elsewhere").symlink_to("secret")
    assert roots_of([str(tmp_path / "elsewhere")], work, Owner(1, tmp_path)) == (secret,)
    (tmp_path / "circle").symlink_to("circle")
    assert roots_of([str(tmp_path / "circle")], work, Owner(1, tmp_path)) == (tmp_path / "circle",)
