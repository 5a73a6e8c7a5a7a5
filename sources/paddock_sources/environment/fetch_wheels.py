"""Fetch wheels, check their hashes, and report their contents.

This is a program of its own that runs in a sandbox which reaches the index. It reads wheels before anything unpacks
them, and prints a summary. It needs only the standard library, and writes only the wheels.

Standard input is JSON: `url` of the index, `ca_file`, `max_members`, `max_bytes`, and `wheels`: objects with `url`,
`path` (written if it does not exist) and `hashes`, one of which must match. Standard output is a line of JSON for each:
`size` of the wheel, `members`, a list of `[path, type bits of its mode, bytes]` in the archive's order, and `problem`,
empty if it can be read as a wheel. All bytes of every member are read and counted: the sizes that an archive claims are
not trusted.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import secrets
import ssl
import stat
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import HTTPSHandler, Request, build_opener

_TIMEOUT = 30.0  # seconds without a byte
_CHUNK = 1 << 20
_AT_ONCE = 6
_END = b"PK\x05\x06"
_END_BYTES = 22
_LONGEST_COMMENT = 1 << 16
_MAX_MEMBER_RECORD = 2048  # bytes of the directory for one member; paths have at most 1024
_LOCAL_HEADER = 30  # bytes, at least
_NO_END = 1 << 62
_ENCRYPTED = 0x1
_UNIX = 3


class UnreadableWheelError(Exception):
    """Raised for a file that must not be read as a wheel; its text is the reason."""


def main() -> None:
    order = json.load(sys.stdin)
    fetch = _Fetch(order)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(fetch.one, order["wheels"]))
    for wanted in order["wheels"]:  # one at a time: each may take much memory
        json.dump(_contents(Path(wanted["path"]), order["max_members"], order["max_bytes"]), sys.stdout)
        sys.stdout.write("\n")


class _Fetch:
    """Fetches from the index's host with the credentials of its address, from others with none."""

    def __init__(self, order: Any) -> None:
        self._index = urlsplit(order["url"])
        context = ssl.create_default_context(cafile=order["ca_file"] or None)
        self._opener = build_opener(HTTPSHandler(context=context))

    def one(self, wanted: Any) -> None:
        path = Path(wanted["path"])
        if not path.exists() or _digest(path) not in wanted["hashes"]:
            part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
            try:
                try:
                    self._fetch(wanted["url"], part)
                except HTTPError as error:
                    raise SystemExit(f"{path.name}: HTTP error {error.code}") from None
                except URLError as error:
                    raise SystemExit(f"failed to fetch {path.name}: {error.reason}") from None
                if _digest(part) not in wanted["hashes"]:
                    raise SystemExit(f"hash mismatch: {path.name} is not what was locked")
                part.replace(path)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    part.unlink()
        sys.stderr.write(f"fetched {path.name}\n")
        sys.stderr.flush()

    def _fetch(self, url: str, path: Path) -> None:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        request = Request(urlunsplit((parts.scheme, host, parts.path, parts.query, "")))  # noqa: S310 - it was checked
        if self._index.username is not None and host == self._index.netloc.rpartition("@")[2]:
            pair = f"{unquote(self._index.username)}:{unquote(self._index.password or '')}"
            request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
        with self._opener.open(request, timeout=_TIMEOUT) as answer, path.open("wb") as file:
            while chunk := answer.read(_CHUNK):
                file.write(chunk)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _contents(path: Path, max_members: int, max_bytes: int) -> dict[str, Any]:
    report: dict[str, Any] = {"size": path.stat().st_size, "members": [], "problem": ""}
    try:
        _check_directory(path, max_members)
        with zipfile.ZipFile(path) as archive:
            _check_layout(archive.infolist(), report["size"])
            left = max_bytes
            for member in archive.infolist():
                size = _real_size(archive, member, left)
                left -= size
                kind = stat.S_IFMT(member.external_attr >> 16) if member.create_system == _UNIX else 0
                report["members"].append([member.orig_filename, kind, size])
    except UnreadableWheelError as error:
        report["problem"] = str(error)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
        report["problem"] = f"cannot be read as an archive: {error}"
    return report


def _check_directory(path: Path, max_members: int) -> None:
    """Check that the directory at the end may be read, which is done in one go."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END_BYTES - _LONGEST_COMMENT))
        tail = file.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_BYTES:
        raise UnreadableWheelError("is no archive")
    count = int.from_bytes(tail[at + 10 : at + 12], "little")
    length = int.from_bytes(tail[at + 12 : at + 16], "little")
    if count == 0xFFFF or length == 0xFFFFFFFF:
        raise UnreadableWheelError("is an archive of the kind for very many members")
    if count > max_members or length > max_members * _MAX_MEMBER_RECORD:
        raise UnreadableWheelError(f"has more than {max_members} members")


def _check_layout(members: list[zipfile.ZipInfo], size: int) -> None:
    """Check that members follow one another from the beginning, and that none shares bytes with another."""
    end = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        if member.header_offset < end or (end == 0 and member.header_offset > 0):
            raise UnreadableWheelError(f"has a member that is not where it should be: `{member.orig_filename[:200]}`")
        if member.flag_bits & _ENCRYPTED:
            raise UnreadableWheelError(f"has an encrypted member: `{member.orig_filename[:200]}`")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UnreadableWheelError(
                f"has a member that is compressed in another way: `{member.orig_filename[:200]}`"
            )
        end = member.header_offset + _LOCAL_HEADER + member.compress_size
    if end > size:
        raise UnreadableWheelError("is shorter than what is in it")


def _real_size(archive: zipfile.ZipFile, member: zipfile.ZipInfo, left: int) -> int:
    """Read all of a member and return its size; the archive reader checks its checksum at the end."""
    claimed, member.file_size = member.file_size, _NO_END  # the claimed size must not be where reading ends
    size = 0
    with archive.open(member) as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            if size > left:
                raise UnreadableWheelError(f"is too large when it is unpacked: `{member.orig_filename[:200]}`")
    member.file_size = claimed
    if size != claimed:
        raise UnreadableWheelError(
            f"says that a member has {claimed} bytes, which has {size}: `{member.orig_filename[:200]}`"
        )
    return size


if __name__ == "__main__":
    main()
