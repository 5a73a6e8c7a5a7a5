"""Addresses of sources in text for people."""

from __future__ import annotations

import re
from typing import Final

from paddock_sources.errors import without_credentials

_SSH_USER: Final = re.compile(r"(\bssh://[\w.-]+@)(?![^/\s`]*@)")


def masked(text: str) -> str:
    """Return a text without the credentials of any address in it; a user of ssh is part of the address."""
    parts = _SSH_USER.split(text)
    return "".join(part if index % 2 else without_credentials(part) for index, part in enumerate(parts))
