"""A source has one name, however a plan spells it, and a rule is about the sources it says it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.plan.problems import NotAcceptedError
from paddock.policy.files.source_pattern import SourcePattern
from paddock.policy.source_name import SourceName
from paddock_sources import parse_source
from support.rows import each_row

REPOSITORY = "git+https://github.com/org/repo"


@each_row(
    "spelling",
    [
        "git+https://github.com/org/repo",
        "git+https://github.com/org/repo@v1.2.0",
        "git+https://github.com/org/repo@0123456789012345678901234567890123456789#subdirectory=a/b",
        "git+https://GitHub.COM/org/repo",
        "git+https://github.com./org/repo",
        "git+https://github.com:443/org/repo",
        "git+https://github.com:0443/org/repo",
        "git+https://user@github.com/org/repo",
        "git+https://user:secret@github.com/org/repo",
        "git+https://github.com/org/repo/",
        "git+https://github.com/org/repo.git",
        "git+https://github.com/org/repo.git/",
        "git+https://github.com/org/repo/.git",
        "git+https://github.com//org///repo",
        "git+https://github.com/%6frg/rep%6F",
        "git+https://github.com/org/repo?x=y",
        "git+HTTPS://github.com/org/repo",
    ],
)
def test_a_repository_has_one_name(spelling: str) -> None:
    assert SourceName.of(spelling).text == REPOSITORY


@each_row(
    ("source", "name"),
    [
        ("git+https://git.example:8443/a", "git+https://git.example:8443/a"),
        ("git+ssh://git@github.com:22/org/repo.git", "git+ssh://github.com/org/repo"),
        ("git+http://127.0.0.1:80/a", "git+http://127.0.0.1/a"),
        ("git+https://[::1]/a", "git+https://[::1]/a"),
        ("git+https://[::ffff:127.0.0.1]/a", "git+https://127.0.0.1/a"),
        ("builtin:tool-bash", "builtin:tool-bash"),
        ("Amplifier_Module.X", "amplifier-module-x"),
        ("mcp+pypi:MCP_Server.Time==1", "mcp+pypi:mcp-server-time"),
        ("mcp+command:/srv/server.py", "mcp+command:/srv/server.py"),
    ],
)
def test_every_family_of_sources_has_its_names(source: str, name: str) -> None:
    assert SourceName.of(source).text == name


@each_row(
    "source",
    [
        "git+https://github.com/evil/../org/repo",
        "git+https://github.com/evil/%2e%2e/org/repo",
        "git+https://github.com/org/./repo",
        "git+https://github.com/org%2Frepo",
        "git+https://github.com/org/repo%252e",
        "git+https://github.com/org\\repo",
        "git+https://evil.example\\@github.com/org/repo",
        "git+https://a@evil.example@github.com/org/repo",
        "git+https://github.com/org/re%00po",
        "git+https://github.com/org/re%0apo",
        "git+https://127.1/org/repo",
        "git+https://0x7f.0.0.1/org/repo",
        "git+https://g\u0131thub.com/org/repo",
        "git+https://github.com:70000/org/repo",
        "git+https://github.com:x/org/repo",
        "git+https://github.com:0/org/repo",
        "git+https://@/org/repo",
        "git+https://git hub.com/org/repo",
        "git+file://other.example/srv/repo",
        "git+https://github.com/.git",
        "svn+https://github.com/org/repo",
    ],
)
def test_what_could_be_read_in_two_ways_is_no_name(source: str) -> None:
    with pytest.raises(NotAcceptedError):
        SourceName.of(source)


def test_a_folder_is_where_it_really_is(tmp_path: Path) -> None:
    real = tmp_path / "real" / "module"
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    for spelling in (
        f"{tmp_path}/link/module",
        f"file://{tmp_path}/link/module",
        f"file://localhost{tmp_path}/link/module/",
        f"{tmp_path}/real/../link/./module",
        f"/{tmp_path}/link/module",
        f"file://{tmp_path}/link/mod%75le",
        f"file://{tmp_path}/link#subdirectory=module",
    ):
        assert _held(spelling) == SourceName("folder", str(real))
        if "/link" in spelling:
            with pytest.raises(NotAcceptedError, match="leads elsewhere through a link"):
                SourceName.of(spelling)
    assert _held(f"git+file://{tmp_path}/link/module").text == f"git+file://{real}"
    with pytest.raises(NotAcceptedError, match="leads elsewhere through a link"):
        SourceName.of(f"git+file://{tmp_path}/link/module")


def _held(source: str) -> SourceName:
    """Return the name of a source as rules judge it once it was chosen."""
    return SourceName.of(parse_source(source).held().text)


def test_names_with_git_in_them_are_one_source_or_two(tmp_path: Path) -> None:
    """At a host a server drops `.git` by itself; on this machine two folders are two repositories."""
    for folder in ("x/.git", "x.git", "bare.git", "y", "real/.git"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "to-git").symlink_to("real/.git")
    (tmp_path / "linked.git").symlink_to("y")
    at_host, here = "git+https://git.example/org", f"git+file://{tmp_path}"
    same = [
        (f"{at_host}/x", f"{at_host}/x.git"),
        (f"{at_host}/x", f"{at_host}/x/.git"),
        (f"{at_host}/x", f"{at_host}/x.git/"),
        (f"{here}/x", f"{here}/x/.git"),
        (f"{here}/x", f"{here}/x/%2Egit"),
        (f"{here}/x.git", f"{here}/x%2Egit/"),
        (f"{here}/y", f"{here}/linked.git"),
        (f"{here}/real", f"{here}/to-git"),
    ]
    different = [
        (f"{here}/x", f"{here}/x.git"),
        (f"{here}/bare", f"{here}/bare.git"),
        (f"{here}/x", f"{here}/x.git/.git"),
        (f"{here}/y", f"{here}/y.git"),
        (f"{at_host}/x", f"{at_host}/x.gitx"),
    ]
    for are_one, table in ((True, same), (False, different)):
        for one, two in table:
            for written, other in ((one, two), (two, one)):
                pattern, name = SourcePattern.parse(written), _held(other)
                found = (_held(written) == name, pattern.matches(name), pattern.resembles(name))
                assert found == (are_one,) * 3, (written, other)


@each_row(
    ("pattern", "source", "is_about"),
    [
        ("*", REPOSITORY, True),
        ("*", "builtin:tool-bash", True),
        ("*", "/srv/x", True),
        ("*", "some-package", True),
        ("git+*", REPOSITORY, True),
        ("git+*", "git+file:///srv/x", True),
        ("git+*", "/srv/x", False),
        ("git+https://github.com/org/*", REPOSITORY, True),
        ("git+https://github.com/org/*", "git+https://github.com/org/group/repo", True),
        ("git+https://GitHub.com:443/org/*", REPOSITORY, True),
        ("git+https://me@github.com/org/repo.git", REPOSITORY, True),
        ("git+https://github.com/org/*.git", REPOSITORY, True),
        ("git+https://github.com/*", REPOSITORY, True),
        ("git+https://github.com/*/repo", REPOSITORY, True),
        ("git+https://github.com/org/re*", REPOSITORY, True),
        ("git+https://github.com/org/*", "git+https://github.com/org", False),
        ("git+https://github.com/org/*", "git+https://github.com/organisation/repo", False),
        ("git+https://github.com/org/re*", "git+https://github.com/org/re/evil", False),
        ("git+https://github.com/*/repo", "git+https://github.com/evil/x/repo", False),
        ("git+https://github.com/org/*", "git+https://evil.example/github.com/org/x", False),
        ("git+https://github.com/org/*", "git+https://github.com.evil.example/org/x", False),
        ("git+https://github.com/org/*", "git+https://github.com@evil.example/org/x", False),
        ("git+https://github.com/org/*", "git+https://github.com:8443/org/x", False),
        ("git+https://github.com/org/*", "git+http://github.com/org/x", False),
        ("git+https://github.com/org/*", "git+https://github.com/ORG/x", False),
        ("git+https://*.example/org/*", "git+https://git.example/org/x", True),
        ("git+https://*.example/org/*", "git+https://example/org/x", False),
        ("git+https://*.example/org/*", "git+https://evil.test/x.example/org/x", False),
        ("git+https://*/org/*", "git+https://git.example/org/x", True),
        ("git+https://*/org/*", "git+https://git.example/evil/org/x", False),
        ("builtin:*", "builtin:tool-bash", True),
        ("builtin:tool-*", "builtin:tool-bash", True),
        ("builtin:tool-*", "builtin:loop-basic", False),
        ("builtin:*", "/srv/builtin:x", False),
        ("file:///srv/modules/*", "/srv/modules/a", True),
        ("file:///srv/modules/*", "/srv/modules/a/b", True),
        ("/srv/modules/*", "file:///srv/modules/a", True),
        ("/srv/modules", "/srv/modules", True),
        ("/srv/*/tool", "/srv/a/tool", True),
        ("file:///srv/modules/*", "/srv/modules", False),
        ("file:///srv/modules/*", "/srv/modules-evil/a", False),
        ("file:///srv/modules/*", "/srv/modules/../evil/a", False),
        ("/srv/*/tool", "/srv/a/b/tool", False),
        ("file:///srv/modules/*", "git+file:///srv/modules/a", False),
        ("git+file:///srv/modules/*", "git+file:///srv/modules/a", True),
        ("amplifier-module-*", "Amplifier_Module_X", True),
        ("amplifier-module-*", "amplifier-modules", False),
        ("mcp+pypi:mcp-*", "mcp+pypi:mcp_server.time==1", True),
        ("mcp+pypi:*", "mcp-server-time==1", False),
        ("mcp-*", "mcp+pypi:mcp-server-time==1", False),
        ("mcp+command:/srv/*", "mcp+command:/srv/a/server.py", True),
        ("mcp+command:/srv/*", "/srv/a", False),
        ("file:///srv/*", "mcp+command:/srv/server.py", False),
    ],
)
def test_a_rule_is_about_what_its_pattern_names(pattern: str, source: str, is_about: bool) -> None:
    name = SourceName.of(source)
    assert SourcePattern.parse(pattern).matches(name) is is_about
    if is_about:
        assert SourcePattern.parse(pattern).resembles(name)


@each_row(
    ("pattern", "source", "resembles"),
    [
        ("git+https://github.com/org/*", "git+https://github.com/ORG/x", True),
        ("git+https://github.com/org/repo", "git+https://github.com/org/repo.GIT", True),
        ("git+https://github.com/org/*", "git+ssh://git@github.com/Org/x", True),
        ("git+https://github.com/org/*", "git+http://github.com/org/x", True),
        ("git+https://github.com/org/*", "git+https://github.com:8443/org/x", True),
        ("git+https://github.com/org/*", "git+https://github.com/\uff4f\uff52\uff47/x", True),
        ("git+https://github.com/org/*", "git+https://gitlab.com/org/x", False),
        ("file:///srv/modules/*", "/SRV/Modules/a", True),
        ("file:///srv/modules/*", "git+file:///srv/modules/a", True),
        ("git+file:///srv/modules/*", "/srv/modules/a", True),
        ("git+https://*/srv/*", "/srv/a", False),
        ("builtin:tool-x", "/srv/tool-x", False),
    ],
)
def test_a_spelling_that_may_mean_the_same_is_noticed(pattern: str, source: str, resembles: bool) -> None:
    name = SourceName.of(source)
    assert not SourcePattern.parse(pattern).matches(name)
    assert SourcePattern.parse(pattern).resembles(name) is resembles


def test_a_rule_about_a_link_covers_its_target_and_its_replacement(tmp_path: Path) -> None:
    (tmp_path / "data" / "tool").mkdir(parents=True)
    (tmp_path / "modules").symlink_to("data")
    name = _held(str(tmp_path / "modules" / "tool"))
    assert SourcePattern.parse(f"{tmp_path}/modules/*").matches(name)
    assert SourcePattern.parse(f"{tmp_path}/data/*").matches(name)
    assert not SourcePattern.parse(f"{tmp_path}/other/*").matches(name)


@each_row(
    "written",
    [
        "",
        "git+https://github.com",
        "git+https://github.com/",
        "git+https://github.com/org/repo@v1",
        "git+https://github.com/org/repo#subdirectory=a",
        "git+https://github.com/org/**",
        "git+https://github.com/../org/*",
        "git+https://git*.example/org",
        "git+https://*.127.0.0.1/org",
        "git+ftp://github.com/org",
        "https://github.com/org/*",
        "./modules/*",
        "~/modules/*",
        "file://other/srv",
        "builtin:",
        "builtin:../x",
        "a b",
        "mcp+pypi:",
        "mcp+pypi:a==1",
        "mcp+npm:@a",
        "mcp+npm:a/b/c",
        "mcp+command:server.py",
        "mcp+https://a.example",
    ],
)
def test_what_no_rule_can_be_about_is_refused(written: str) -> None:
    with pytest.raises(NotAcceptedError) as caught:
        SourcePattern.parse(written)
    assert caught.value.problem


def test_the_more_literal_pattern_is_the_more_specific() -> None:
    patterns = [
        "git+https://github.com/org/tool",
        "git+https://github.com/org/t*",
        "git+https://github.com/*",
        "git+*",
        "*",
    ]
    literals = [SourcePattern.parse(pattern).literal for pattern in patterns]
    assert literals == sorted(literals, reverse=True) and len(set(literals)) == len(literals)


@each_row(
    ("one", "two", "overlap"),
    [
        ("*", "builtin:tool-bash", True),
        ("builtin:tool-*", "builtin:*-bash", True),
        ("builtin:tool-*", "builtin:hooks-*", False),
        ("builtin:*", "*", True),
        ("builtin:*", "tool-*", False),
        ("tool-*", "tool-a", True),
        ("mcp+npm:@a/*", "mcp+npm:@a/server", True),
        ("mcp+npm:@a/*", "mcp+npm:@b/server", False),
        ("git+*", "git+file:///srv/a", True),
        ("git+*", "file:///srv/a", False),
        ("git+https://github.com/*", "git+https://github.com/a/b", True),
        ("git+https://github.com/*/b", "git+https://github.com/a/*", True),
        ("git+https://github.com/*/b", "git+https://github.com/a/c", False),
        ("git+https://github.com/*/b", "git+https://github.com/a/a/b", False),
        ("git+https://*.example.org/*", "git+https://git.example.org/a", True),
        ("git+https://*.example.org/*", "git+https://example.org/a", False),
        ("git+https://*/a", "git+https://example.org:8443/a", False),
        ("git+ssh://github.com/*", "git+https://github.com/a", False),
        ("file:///srv/*", "file:///srv/a/b", True),
        ("file:///srv/*", "file:///srv", False),
    ],
)
def test_patterns_overlap_where_a_source_can_have_both(one: str, two: str, overlap: bool) -> None:
    first, second = SourcePattern.parse(one), SourcePattern.parse(two)
    assert first.overlaps(second) is second.overlaps(first) is overlap


def test_patterns_overlap_by_where_their_folders_lead(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert SourcePattern.parse(f"{tmp_path}/link/*").overlaps(SourcePattern.parse(f"{tmp_path}/real/a"))
