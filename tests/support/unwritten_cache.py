"""Have the cache wait for no disk: no test takes the power away, and to write a small entry out takes most of its test.

A command that a test starts as people do writes its entries out, and `sources/cache/test_finalize.py` shows how.
"""

from __future__ import annotations

from paddock_sources.cache import entry_store


def write_nothing_out() -> None:
    """Have this process leave the entries that it keeps to the kernel."""
    entry_store.write_out = lambda folder, files: None  # type: ignore[attr-defined]
