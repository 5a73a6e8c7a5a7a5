"""Repositories come from the user's mirrors under their public addresses, without the credentials for these."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from failures import failing
from host.egress.certificates import TestAuthority
from paddock_sources import SourceError, SourceUriError
from paddock_sources.cache import SourceCache
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.mirrors import Mirrors
from paddock_sources.provisioner import Provisioner
from paddock_sources.settings import SourceSettings
from sources.git.origin_repository import OriginRepository
from sources.git_repositories import git_uri
from sources.git_server import GitServer, store_credentials
from sources.provisioners import provisioner_of
from support.rows import each_row

PUBLIC = git_uri("git+https://127.0.0.1:9/org/tool@main")  # where nobody listens


def provisioner(cache: SourceCache, mirrors: dict[str, str], environ: dict[str, str], *, lends: bool) -> Provisioner:
    runner = DirectRunner(environ)
    settings = SourceSettings.of({"mirrors": mirrors})
    return provisioner_of(cache, runner, environ=environ, settings=settings, lends_keys=lends)


@each_row(
    ("address", "mirror"),
    [
        ("git+https://public.example/org/tool@v1#subdirectory=a", "git+https://m.example/x/org/tool@v1#subdirectory=a"),
        ("git+https://PUBLIC.example:443/org/tool.git", "git+https://m.example/x/org/tool"),
        ("git+https://ann@public.example/org/tool", "git+https://m.example/x/org/tool"),
        ("git+https://public.example/deep/tool", "git+https://deep.example/tool"),
        ("git+https://public.example.evil.org/org/tool", None),
        ("git+https://public.example:8443/org/tool", None),
        ("git+ssh://git@public.example/org/tool", None),
    ],
)
def test_a_mirror_stands_for_what_is_below_its_prefix(address: str, mirror: str | None) -> None:
    prefixes = {
        "https://public.example/": "https://m.example/x",
        "https://public.example/deep/": "https://deep.example/",
    }
    mirrors = SourceSettings.of({"mirrors": prefixes}).mirrors
    found = mirrors.of(git_uri(address))
    assert (None if found is None else found.text) == mirror
    assert found is None or found.key(Path("/")) == mirror


def test_an_address_that_can_be_read_in_two_ways_has_no_mirror() -> None:
    mirrors = Mirrors({"https://public.example/org/": "/srv/git/"})
    with pytest.raises(SourceUriError, match="in two ways"):
        mirrors.of(git_uri("git+https://public.example/org/%2e%2e/other/tool"))


def test_what_a_mirror_gave_counts_for_that_mirror_alone(tmp_path: Path, cache: SourceCache) -> None:
    origin = OriginRepository(tmp_path / "mirror/org/tool")
    commit = origin.commit({"a.py": "1"})
    mirrors = {"https://127.0.0.1:9/": f"{tmp_path}/mirror/"}
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    # The user named the folder, so it is read for a plan that nobody accepted, too.
    by_mirror = provisioner(cache, mirrors, environ, lends=False)
    assert by_mirror.supply(PUBLIC).pin(PUBLIC).commit == commit
    (tmp_path / "mirror").rename(tmp_path / "gone")
    entry, _ = by_mirror.supply(PUBLIC).fetched(PUBLIC, commit, allow_impostor=False)  # from the cache
    assert (entry.root / "a.py").read_text() == "1"
    for others in ({}, {"https://127.0.0.1:9/": f"{tmp_path}/other/"}):
        other = provisioner(cache, others, environ, lends=True)
        with pytest.raises(SourceError, match="cannot fetch"):
            other.supply(PUBLIC).fetched(PUBLIC, commit, allow_impostor=False)


def test_a_mirror_gets_no_credential_of_the_public_address(tmp_path: Path, cache: SourceCache) -> None:
    authority = TestAuthority(tmp_path)
    origins = {name: OriginRepository(tmp_path / name / "org/tool") for name in ("public", "mirror")}
    commits = [origin.commit({"a.py": "1"}) for origin in origins.values()]
    with GitServer(tmp_path / "public", authority) as public, GitServer(tmp_path / "mirror", authority) as mirror:
        public.private["org/tool"] = mirror.private["org/tool"] = "ann:hunter2"
        store_credentials(tmp_path / "home", public, "ann:hunter2")
        environ = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], **public.environ}
        address = git_uri(public.address("org/tool", "main"))
        direct = provisioner(cache, {}, environ, lends=True)
        assert direct.supply(address).pin(address).commit == commits[0] and public.authorizations
        public.forget()
        mirrored = provisioner(cache, {f"https://{public.host}/": f"https://{mirror.host}/"}, environ, lends=True)
        with failing("AuthRequiredError", "the mirror of"):
            mirrored.supply(address).look(address)
        assert mirror.requests and not mirror.authorizations and not public.requests
