"""Sources of a server on loopback that speaks HTTPS: what it wants to know, what it can do, and what goes wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from failures import failing
from host.egress.certificates import TestAuthority
from paddock_sources.cache import SourceCache
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.git.credentials import Credentials
from paddock_sources.git.errors import (
    FetchError,
)
from paddock_sources.git.git_source import GitSource
from sources.git.origin_repository import OriginRepository
from sources.git.watched_runner import WatchedRunner
from sources.git_repositories import git_uri
from sources.git_server import (
    Answers,
    GitServer,
    store_credentials,
)


class Scene:
    """A server with the repository `org/tool`, and a user with a home of their own."""

    def __init__(self, server: GitServer, origin: OriginRepository, cache: SourceCache, home: Path) -> None:
        self.server = server
        self.origin = origin
        self.home = home
        self.environ = {"HOME": str(home), "PATH": os.environ["PATH"], **server.environ}
        self.runner = WatchedRunner(DirectRunner(self.environ))
        self.direct = WatchedRunner(DirectRunner(self.environ))
        self._cache = cache

    def source(self, ref: str = "", name: str = "org/tool", **options: Any) -> GitSource:
        uri = git_uri(self.server.address(name, ref))
        options.setdefault("environ", self.environ)
        return GitSource(uri, self._cache, self.runner, direct=self.direct, **options)


@pytest.fixture
def scene(tmp_path: Path, cache: SourceCache, authority: TestAuthority) -> Iterator[Scene]:
    (tmp_path / "home").mkdir()
    origin = OriginRepository(tmp_path / "srv" / "org" / "tool")
    with GitServer(tmp_path / "srv", authority) as server:
        yield Scene(server, origin, cache, tmp_path / "home")


def test_a_ref_is_fetched_once_with_one_list_and_one_pack(scene: Scene) -> None:
    commit = scene.origin.commit({"a.py": "1"})
    pin = scene.source("main").pin()
    assert (pin.commit, pin.is_outside) == (commit, False)
    assert scene.server.asked("list", "fetch") == ["org/tool", "org/tool"]
    assert scene.runner.reaches[0].hosts == (scene.server.host,)
    scene.server.forget()
    assert (scene.source("main").fetch(commit).root / "a.py").read_text() == "1"
    assert scene.source(commit).pin().commit == commit
    assert not scene.server.requests
    for ref in ("main", ""):
        assert scene.source(ref).pin().commit == scene.source(ref).look().commit == commit
    assert not scene.server.asked("fetch")


# -- who asks


def test_a_private_repository_is_fetched_with_what_gits_helpers_know(scene: Scene) -> None:
    commit = scene.origin.commit({"a.py": "1"})
    scene.server.private["org/tool"] = "ann:hunter2"
    with failing("AuthRequiredError") as caught:
        scene.source("main").pin()
    assert "helpers have none" in caught.value.summary and caught.value.hints
    store_credentials(scene.home, scene.server, "ann:hunter2")
    assert scene.source("main").pin().commit == commit
    ran = str(scene.runner.commands) + str(scene.direct.commands)
    assert "hunter2" not in ran and "Basic" not in ran
    kept = b"".join(path.read_bytes() for path in (scene.home.parent / "cache").rglob("*") if path.is_file())
    assert b"hunter2" not in kept and b"Authorization" not in kept


def test_helpers_are_asked_only_by_who_is_asked_and_once(scene: Scene) -> None:
    scene.origin.commit({"a.py": "1"})
    store_credentials(scene.home, scene.server, "ann:hunter2")
    scene.source("main").pin()
    assert not scene.direct.commands
    scene.server.private["org/tool"] = "ann:hunter2"
    shared = Credentials(scene.direct, scene.environ)
    for ref in ("", "main", "main"):
        scene.source(ref, credentials=shared).pin()
    assert len(scene.direct.commands) == 1


# -- what goes wrong: more of it is in `sources/faults/test_server_faults.py`


def test_a_redirect_is_not_followed_also_on_the_same_host(scene: Scene) -> None:
    commit = scene.origin.commit({"a.py": "1"})
    location = {"Location": f"https://{scene.server.host}/org/tool/info/refs?service=git-upload-pack"}
    assert scene.source("main").pin().commit == commit
    scene.server.forget()
    scene.server.fault = Answers(301, headers=location)
    with pytest.raises(FetchError, match="leads to another one"):
        scene.source("main", name="org/moved").pin()
    assert set(scene.server.asked()) == {"org/moved"}


def test_a_host_that_cannot_prove_who_it_is_gets_nothing(scene: Scene, tmp_path: Path) -> None:
    scene.origin.commit({"a.py": "1"})
    store_credentials(scene.home, scene.server, "ann:hunter2")
    unknown = {name: value for name, value in scene.environ.items() if not name.startswith("GIT_SSL")}
    with failing("CertificateError") as caught:
        scene.source("main", environ=unknown).pin()
    assert any("GIT_SSL_CAINFO" in hint for hint in caught.value.hints)
    with failing("CertificateError"):
        scene.source("main", environ={**unknown, "GIT_SSL_NO_VERIFY": "1"}).pin()
    proved, scene.server.context = scene.server.context, scene.server.impostor(tmp_path / "impostor")
    with failing("CertificateError"):
        scene.source("main").pin()
    assert not scene.server.requests and not scene.direct.commands
    scene.server.context = proved
    assert scene.source("main").pin()
    assert scene.source("main", environ={**unknown, "SSL_CERT_FILE": scene.environ["GIT_SSL_CAINFO"]}).pin()
