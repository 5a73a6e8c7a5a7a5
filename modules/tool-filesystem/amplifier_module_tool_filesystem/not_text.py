"""Describe a file that is no UTF-8 text, so that the model does not try again in vain."""

from __future__ import annotations

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive, or a document kept in one"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\xfd7zXZ\x00", "xz-compressed data"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
    (b"\x7fELF", "a compiled program or library"),
    (b"SQLite format 3\x00", "a SQLite database"),
    (b"\x00asm", "WebAssembly code"),
    (b"\xff\xfe\x00\x00", "UTF-32 text"),
    (b"\x00\x00\xfe\xff", "UTF-32 text"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)


def text_of(data: bytes) -> str | None:
    """Return the bytes as UTF-8 text, a byte order mark included; None if they are binary or not UTF-8."""
    if b"\x00" in data:
        return None  # valid UTF-8, and in no text that a person wrote
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def what_it_is(data: bytes) -> str:
    """Return the likely kind of bytes that are no text, judged by their beginning."""
    for signature, meaning in _SIGNATURES:
        if data.startswith(signature):
            return meaning
    if b"\x00" in data:
        return "binary data"
    return "text in an encoding other than UTF-8, such as Latin-1 or Windows-1252"
