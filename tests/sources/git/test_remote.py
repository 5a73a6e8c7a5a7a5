"""Git is given one spelling of an address, the one that rules judged, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock_sources import SourceUriError
from paddock_sources.git.remote import Remote
from sources.git_repositories import git_uri
from support.rows import each_row


def remote_of(text: str) -> Remote:
    return Remote.of(git_uri(text))


@each_row(
    ("text", "url", "hosts"),
    [
        ("git+https://host/o/r@v1", "https://host/o/r", ("host:443",)),
        ("git+HTTPS://HOST.:443//o///r/@v1", "https://host/o/r", ("host:443",)),
        ("git+https://host:8443/o/r.git", "https://host:8443/o/r.git", ("host:8443",)),
        ("git+https://host/%6f/r", "https://host/o/r", ("host:443",)),
        ("git+https://host/%40s/a%20b", "https://host/@s/a%20b", ("host:443",)),
        ("git+https://[::1]/r", "https://[::1]/r", ("[::1]:443",)),
        ("git+ssh://git@host/o/r", "ssh://git@host/o/r", ("host:22",)),
        ("git+ssh://host:2222/~me/r", "ssh://host:2222/~me/r", ("host:2222",)),
        ("git+http://127.0.0.1:8080/r", "http://127.0.0.1:8080/r", ("127.0.0.1:8080",)),
        ("git+http://localhost/r", "http://localhost/r", ("localhost:80",)),
        ("git+http://[::1]/r", "http://[::1]/r", ("[::1]:80",)),
    ],
)
def test_an_address_has_one_spelling(text: str, url: str, hosts: tuple[str, ...]) -> None:
    remote = remote_of(text)
    assert (remote.url, remote.hosts, remote.folder) == (url, hosts, None)
    assert remote.is_outside == text.startswith("git+ssh:")


def test_a_folder_is_where_it_really_is(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "link").symlink_to("a b")
    remote = remote_of(f"git+file://{tmp_path}/link/")
    assert remote.folder == (tmp_path / "a b").resolve()
    assert remote.url == f"file://{tmp_path.resolve()}/a%20b"
    assert remote.hosts == ()


@each_row(
    "text",
    [
        "git+https://user@host/r",
        "git+https://user:hunter2@host/r",
        "git+https://:hunter2@host/r",
        "git+ssh://git:hunter2@host/r",
        "git+ssh://g%20t@host/r",
        "git+ssh://a;b@host/r",
        "git+http://host/r",
        "git+http://127.0.0.1.example/r",
        "git+http://127.1/r",
        "git+https://host/r?x=y",
        "git+https://host/r?x=y@v1",
        "git+https://host/a/../r",
        "git+https://host/a/%2e%2e/r",
        "git+https://host/./r",
        "git+https://host/a%2fr",
        "git+https://host/a%252fr",
        "git+https://host/a%00r",
        "git+https://host/a%0ar",
        "git+https://host/a%5cr",
        "git+https://host/a%ffr",
        "git+https://host/a%3fr",
        "git+file:///a/../r",
    ],
)
def test_what_could_be_read_in_two_ways_or_is_not_protected_is_not_fetched(text: str) -> None:
    with pytest.raises(SourceUriError) as caught:
        remote_of(text)
    assert "hunter2" not in str(caught.value)


def test_credentials_are_refused_with_a_way_to_give_them() -> None:
    with pytest.raises(SourceUriError) as caught:
        remote_of("git+https://user:hunter2@host/r")
    assert "do not belong in an address" in caught.value.problem
    assert any("helpers" in hint for hint in caught.value.hints)
