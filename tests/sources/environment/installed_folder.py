"""A folder of installed packages, written as an installer would write it."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

MOUNT = "async def mount(coordinator, config=None):\n    return None\n"


def add_distribution(
    site: Path,
    name: str,
    version: str = "1.0",
    files: Mapping[str, str] | None = None,
    *,
    requires: Sequence[str] = (),
    entry_points: str = "",
    editable: Path | None = None,
    record: Sequence[tuple[str, str, str]] = (),
) -> Path:
    """Write a distribution and return its `.dist-info` folder; `record` are further rows for its list of files."""
    escaped = name.replace("-", "_")
    info = f"{escaped}-{version}.dist-info"
    content = dict({f"{escaped}/__init__.py": MOUNT} if files is None else files)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    content[f"{info}/METADATA"] = "\n".join(lines) + "\n\nRequires-Dist: not-a-header\n"
    if entry_points:
        content[f"{info}/entry_points.txt"] = entry_points
    if editable is not None:
        content[f"{info}/direct_url.json"] = json.dumps({"url": editable.as_uri(), "dir_info": {"editable": True}})
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for path, text in content.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, encoding="utf-8")
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        writer.writerow((path, f"sha256={digest}", len(text.encode())))
    writer.writerow((f"{info}/RECORD", "", ""))
    writer.writerows(record)
    (site / info / "RECORD").write_text(buffer.getvalue(), encoding="utf-8")
    return site / info


def record_hash(content: bytes) -> str:
    """Return the hash of a file as lists of files tell it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
