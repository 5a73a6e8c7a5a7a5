"""Bundles: what the community shares, read and put together; nothing is fetched here."""
