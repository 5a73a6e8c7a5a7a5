"""Whether an address names something that is not on the public network: this machine, or one of a network of its own.

Only what the address itself says is looked at; where a name leads is found out by whoever connects.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

_NUMBERS = re.compile(r"[0-9a-fx.]+", re.IGNORECASE)  # `127.1`, `0x7f000001`: addresses to some, names to nobody


def is_inside(url: str) -> bool:
    """Return whether only whoever owns the machine may have this asked; what cannot be told counts as inside."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".").lower()
    if parts.scheme == "file":
        return True
    if not host or host == "localhost" or host.endswith(".localhost") or parts.scheme == "http":
        return True
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return bool(_NUMBERS.fullmatch(host)) or "." not in host
