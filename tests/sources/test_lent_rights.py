"""What an answer about an address lends: the user's credentials, but none to an address without encryption."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from paddock_sources import SourceError, parse_source
from paddock_sources.cache import SourceCache
from paddock_sources.commands.command_runner import CommandAccess, CommandSession
from paddock_sources.git.errors import FetchError
from sources.provisioners import provisioner_of


class _AsksForCredentials:
    """Runs nothing: a server that wants credentials answers first."""

    def open(self, access: CommandAccess) -> AbstractContextManager[CommandSession]:
        raise FetchError.auth_required("the repository", access.hosts[0])


class _Helpers:
    """Notes whether the user's own programs are asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def open(self, access: CommandAccess) -> AbstractContextManager[CommandSession]:
        self.asked.append(access.name)
        raise FetchError.auth_required("the repository", "")


@pytest.mark.parametrize(
    ("address", "accepted", "asked"),
    [
        ("git+https://127.0.0.1:9/x@main", False, ["git credential"]),
        ("git+http://127.0.0.1:9/x@main", False, []),
        ("git+http://127.0.0.1:9/x@main", True, ["git credential"]),
    ],
)
def test_an_agreed_address_without_encryption_gets_no_credentials(
    address: str, accepted: bool, asked: list[str], tmp_path: Path
) -> None:
    helpers = _Helpers()
    with SourceCache(tmp_path / "cache") as cache:
        provisioner = provisioner_of(cache, _AsksForCredentials(), helpers, lends_keys=accepted)
        uri = parse_source(address)
        provisioner.lend([uri])
        with pytest.raises(SourceError) as refused:
            provisioner.supply(uri).look(uri)
    assert helpers.asked == asked
    assert (refused.value.code == "KeysNotLentError") == (not asked)
