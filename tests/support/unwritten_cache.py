"""Have the cache wait for no disk, and uv for no index that does not answer.

No test takes the power away, and to write a small entry out takes most of its test. A command that a test starts as
people do writes its entries out, and `sources/cache/test_finalize.py` shows how.
"""

from __future__ import annotations

from collections.abc import Mapping

from paddock_sources.cache import entry_store
from paddock_sources.environment.index import Index
from paddock_sources.environment.uv import Uv

_usual = Uv.environ


def write_nothing_out() -> None:
    """Have this process leave the entries that it keeps to the kernel."""
    entry_store.write_out = lambda folder, files: None  # type: ignore[attr-defined]


def ask_once() -> None:
    """Have this process run a uv that asks no index again: it waits for seconds before it does."""

    def environ(self: Uv, index: Index) -> Mapping[str, str]:
        return {**_usual(self, index), "UV_HTTP_RETRIES": "0"}

    Uv.environ = environ  # type: ignore[method-assign]
