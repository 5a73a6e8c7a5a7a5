"""Bundles: what the community shares, read and put together; nothing is fetched here."""

from typing import Final

WELL_KNOWN: Final = {
    "anchors": "git+https://github.com/microsoft/amplifier-foundation@main#subdirectory=bundles/anchors/bundle.md",
    "foundation": "git+https://github.com/microsoft/amplifier-foundation@main",
}
"""The addresses of bundles that people name by a word."""
