"""Unpack wheels into the folder that modules import from.

This is a program of its own that runs in a sandbox which reaches the index at most. It needs only the standard library.
Standard input is JSON: `site`, the folder, and `wheels`: objects with `path`, `hashes`, one of which must match, and
`places`: for each member of the archive, in its order, the path below `site` where it goes, empty for one that is left
out. The host has judged the places. Where two wheels have a file at one place, the later one's stays.

A file gets its mode when it is made. Where Landlock alone confines a program, no mode can be changed.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shutil
import sys
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

_CHUNK = 1 << 20


def main() -> None:
    order = json.load(sys.stdin)
    for wheel in order["wheels"]:
        name = os.path.basename(wheel["path"])
        with open(wheel["path"], "rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() not in wheel["hashes"]:
                raise SystemExit(f"hash mismatch: {name} is not what was locked")
            try:
                _unpack(file, order["site"], wheel["places"])
            except FileExistsError as error:
                raise SystemExit(f"{name} has a file where another wheel has a folder: {error.filename}") from error
            except (IsADirectoryError, NotADirectoryError) as error:
                raise SystemExit(f"{name} has a folder where another wheel has a file: {error.filename}") from error
        sys.stderr.write(f"unpacked {name}\n")
        sys.stderr.flush()


def _unpack(file: IO[bytes], site: str, places: Sequence[str]) -> None:
    with zipfile.ZipFile(file) as archive:
        members = list(zip(archive.infolist(), places, strict=True))
        moved = {member.orig_filename: place for member, place in members}
        for member, place in members:
            if not place:
                continue
            with archive.open(member) as packed:
                content: IO[bytes] = _record(packed, moved) if place.endswith(".dist-info/RECORD") else packed
                _write(content, os.path.join(site, place), 0o777 if member.external_attr >> 16 & 0o111 else 0o666)


def _write(content: IO[bytes], path: str, mode: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with suppress(FileNotFoundError):
        os.unlink(path)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        shutil.copyfileobj(content, file, _CHUNK)


def _record(packed: IO[bytes], moved: Mapping[str, str]) -> IO[bytes]:
    """Return a wheel's list of its files with the places where they are."""
    text = io.StringIO(newline="")
    rows = csv.reader(io.TextIOWrapper(packed, "utf-8", "replace"))
    csv.writer(text, lineterminator="\n").writerows(
        [moved[row[0]], *row[1:]] for row in rows if row and moved.get(row[0])
    )
    return io.BytesIO(text.getvalue().encode())


if __name__ == "__main__":
    main()
