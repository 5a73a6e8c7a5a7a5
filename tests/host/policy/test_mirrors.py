"""A user's mirror is judged as well as the public address, unless a policy names it or the commit is a public one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from host.policy.entries import entry, owner
from paddock.errors import PolicyRefusedError
from paddock.policy.evaluate import EvaluationContext, evaluate, refuse_sources
from paddock.policy.files.policy import Policy
from paddock.policy.files.policy_file import PolicyFile
from paddock.policy.files.sources import load_source_settings
from paddock.policy.grant_request import ModuleRequest
from paddock.policy.trust import Trust
from paddock_sources.cache import SourceCache
from paddock_sources.git.kept_commits import KeptCommit, KeptCommits
from paddock_sources.git.remote import Remote
from paddock_sources.kinds.git_uri import repository
from support.rows import each_row

PUBLIC = "git+https://github.com/org/tool"
COMMIT = "0123456789" * 4
HOSTS = 'git_hosts = ["github.com"]\n'
FREER = """
[[module]]
match = "*"
[module.grants]
read = []
[[module]]
match = "git+https://github.com/org/*"
[module.grants]
read = ["."]
"""


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    config = tmp_path / "home/.config/paddock"
    config.mkdir(parents=True)
    return {"HOME": str(tmp_path / "home")}


def mirrored(environ: Mapping[str, str], mirror: str, prefix: str = "https://github.com/") -> None:
    settings = Path(environ["HOME"], ".config/paddock/sources.toml")
    settings.write_text(f'[mirrors]\n"{prefix}" = "{mirror}"\n')


def policy(text: str, environ: Mapping[str, str]) -> Policy:
    return Policy((PolicyFile.parse(text, "/etc/paddock/policy.toml"),), environ)


def refuse(text: str, environ: Mapping[str, str], source: str = f"{PUBLIC}@{COMMIT}") -> None:
    refuse_sources({"tools[0].source": source}, policy(text, environ))


@pytest.mark.parametrize("mirror", ["https://evil.example/git/", "/home/x/evil/"])
def test_a_mirror_is_no_way_around_the_hosts_of_a_policy(mirror: str, environ: Mapping[str, str]) -> None:
    refuse(HOSTS, environ)
    mirrored(environ, mirror)
    with pytest.raises(PolicyRefusedError) as caught:
        refuse(HOSTS, environ)
    assert f'mirrors = ["{mirror}"]' in caught.value.refusals[0].hint
    refuse(f'{HOSTS}mirrors = ["{mirror}"]\n', environ)


@each_row(
    ("mirror", "prefix"),
    [
        ("https://mirror.example.evil.org/", "https://github.com/"),
        ("https://mirror.example/evil-owner/", "https://github.com/"),  # below it, another's repositories
        ("https://mirror.example/", "https://github.com/org/"),  # of `org/evil-owner/tool`, that of `evil-owner`
    ],
)
def test_a_policy_that_names_a_mirror_names_it_for_a_whole_host(
    mirror: str, prefix: str, environ: Mapping[str, str]
) -> None:
    mirrored(environ, mirror, prefix)
    with pytest.raises(PolicyRefusedError):
        refuse(f'{HOSTS}mirrors = ["https://mirror.example"]\n', environ)
    mirrored(environ, "https://mirror.example/")
    refuse(f'{HOSTS}mirrors = ["https://mirror.example"]\n', environ)


@each_row("match", ["git+https://github.com/org/*", "git+https://m.example/*"])
def test_a_denial_holds_for_the_public_address_and_for_the_mirror(match: str, environ: Mapping[str, str]) -> None:
    mirrored(environ, "https://m.example/")
    with pytest.raises(PolicyRefusedError, match="takes over accounts"):
        refuse(f'[[module]]\nmatch = "{match}"\ndeny = "takes over accounts"\n', environ)


def test_what_a_policy_lets_the_public_address_have_a_mirror_has_not(
    environ: Mapping[str, str], tmp_path: Path
) -> None:
    asks = entry(permissions={"read": ["."]})

    def decide(text: str) -> None:
        evaluate(
            [ModuleRequest(asks, PUBLIC)], EvaluationContext(policy(text, environ), Trust(True), tmp_path, owner(), {})
        )

    decide(FREER)
    mirrored(environ, "https://evil.example/")
    with pytest.raises(PolicyRefusedError):
        decide(FREER)
    decide(f'mirrors = ["https://evil.example/"]\n{FREER}')


def test_a_commit_that_the_public_address_had_may_come_from_a_mirror(environ: Mapping[str, str]) -> None:
    mirrored(environ, "https://m.example/")
    tree = f"sha256:{'0' * 64}"
    with SourceCache.of_user(environ) as cache:
        public = repository(PUBLIC)
        mirror = load_source_settings(environ).mirrors.of(public)
        assert mirror is not None
        KeptCommits(cache, Remote.of(mirror)).note(KeptCommit(COMMIT, tree))
        with pytest.raises(PolicyRefusedError):  # the mirror's own word, also where a lock file names the commit
            refuse(HOSTS, environ)
        KeptCommits(cache, Remote.of(public)).note(KeptCommit(COMMIT, tree))
    refuse(HOSTS, environ)
