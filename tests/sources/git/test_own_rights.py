"""Which sources only the user's own rights can fetch is known from their addresses, before anything is fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock_sources import parse_source
from paddock_sources.cache import SourceCache
from paddock_sources.provisioner import Provisioner
from sources.provisioners import provisioner_of

_SSH = "git+ssh://git@example.org/a/b"
_PRIVATE = "git+https://10.0.0.7/a/b"
_HERE = "git+file:///srv/a"
_PUBLIC = "git+https://example.org/a/b"


def provisioner(folder: Path, **options: Any) -> Provisioner:
    return provisioner_of(SourceCache(folder / "cache"), None, **{"lends_keys": False, **options})


def _takes_rights(provisioner: Provisioner, text: str) -> bool:
    uri = parse_source(text)
    return provisioner.supply(uri).own_rights(uri, None) is not None


def test_ssh_and_private_addresses_take_the_users_rights(tmp_path: Path) -> None:
    unaccepted = provisioner(tmp_path)
    texts = (_SSH, _PRIVATE, _HERE, _PUBLIC, str(tmp_path), "builtin:tool-filesystem")
    assert [text for text in texts if _takes_rights(unaccepted, text)] == [_SSH, _PRIVATE, _HERE]


def test_rights_are_lent_to_the_named_sources_alone(tmp_path: Path) -> None:
    unaccepted = provisioner(tmp_path)
    unaccepted.lend([parse_source(_SSH)])
    assert not _takes_rights(unaccepted, _SSH)
    assert _takes_rights(unaccepted, f"{_SSH}c") and _takes_rights(unaccepted, _PRIVATE)


@pytest.mark.parametrize("options", [{"lends_keys": True}, {"offline": True}], ids=str)
def test_what_is_accepted_or_fetches_nothing_raises_no_question(tmp_path: Path, options: dict[str, bool]) -> None:
    assert not _takes_rights(provisioner(tmp_path, **options), _SSH)
