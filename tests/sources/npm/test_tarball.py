"""Archives of packages, unpacked into a tree: what is in them lies below the package's folder, or all is refused."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from pytest import MonkeyPatch

from paddock_sources.cache.errors import UnsafeTreeError
from paddock_sources.cache.staging import remove
from paddock_sources.cache.tree_writer import TreeCaps, TreeWriter
from paddock_sources.npm import tarball
from paddock_sources.npm.tarball import Unpacker
from sources.npm_registry import archive
from support.rows import each_row


def header(name: str, kind: bytes = tarfile.REGTYPE, **facts: Any) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    for key, value in facts.items():
        setattr(member, key, value)
    return member


def unpacked(root: Path, *contents: bytes, caps: TreeCaps | None = None) -> dict[str, bytes]:
    tree = TreeWriter(root, caps)
    unpacker = Unpacker(tree)
    for number, content in enumerate(contents):
        unpacker.unpack(content, f"node_modules/p{number}")
    tree.finish()
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def gz(*blocks: bytes) -> bytes:
    return gzip.compress(b"".join(blocks), mtime=0)


def raw(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, size: int | None = None) -> bytes:
    member = header(name, kind, size=len(content) if size is None else size)
    return member.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def test_files_lie_in_the_package_s_folder_and_programs_stay_programs(tmp_path: Path) -> None:
    long = "/".join(["deep" * 12] * 6) + "/é.js"
    files = {"package.json": "{}", "x.sh": "#!", "empty": "", long: "long"}
    for kind in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz", format=kind, pax_headers={"comment": "x"}) as tar:
            tar.addfile(header("around", tarfile.DIRTYPE))
            for name, text in files.items():
                member = header(f"around/{name}", size=len(text), mode=0o755 if name.endswith(".sh") else 0o644)
                tar.addfile(member, io.BytesIO(text.encode()))
        root = tmp_path / str(kind)
        found = unpacked(root, buffer.getvalue(), archive({"package.json": "{ }"}))
        assert found == {
            "node_modules/p1/package.json": b"{ }",
            **{f"node_modules/p0/{name}": text.encode() for name, text in files.items()},
        }
        assert [path.name for path in root.rglob("*") if path.is_file() and path.stat().st_mode & 0o100] == ["x.sh"]


def test_compiled_python_is_left_out(tmp_path: Path) -> None:
    assert unpacked(tmp_path / "t", archive({"a.py": "", "__pycache__/a.cpython-311.pyc": "x"})) == {
        "node_modules/p0/a.py": b""
    }


@each_row(
    "content, said",
    [
        (archive({"../../../out": "x"}), "leads elsewhere"),
        (archive({"a/../../x": "x"}), "leads elsewhere"),
        (archive({"/etc/x": "x"}, around=""), "its path is absolute"),
        (archive({"x": "x"}, around=""), "a part of its path is empty"),
        (archive({"x": "1", "X": "2"}), "on some machines it is the same"),
        (archive({"a": "1", "a/b": "2"}), "is no folder"),
        (archive({"a\nb": "1"}), "control character"),
        (archive({".git/hooks/x.sh": "1"}), "programs that git runs"),
        (archive({"x": header("package/x", tarfile.SYMTYPE, linkname="/etc/passwd")}), "neither a file nor a folder"),
        (archive({"x": header("package/x", tarfile.LNKTYPE, linkname="package/y")}), "neither a file nor a folder"),
        (archive({"x": header("package/x", tarfile.FIFOTYPE)}), "neither a file nor a folder"),
        (archive({"x": header("package/x", tarfile.CHRTYPE, devmajor=1)}), "neither a file nor a folder"),
        (archive({"x": header("package/x", tarfile.GNUTYPE_SPARSE)}), "neither a file nor a folder"),
        (gz(raw("package/x", b"y")[:700]), "it ends too early"),
        (gz(raw("package/x", size=1 << 40)), "it ends too early"),
        (gz(raw("package/x", b"y", size=-1)), "a size is negative"),
        (gz(raw("package/d/", b"y", tarfile.DIRTYPE)), "neither a file nor a folder"),
        (gz(raw("x", b"a" * 70_000, tarfile.XHDTYPE)), "a header of it has more than"),
        (gz(raw("x", b"a" * 70_000, tarfile.GNUTYPE_LONGNAME)), "a header of it has more than"),
        (gz(raw("x", b"0 path=a\n", tarfile.XHDTYPE)), "malformed"),
        (gz(raw("x", b"x path=a\n", tarfile.XHDTYPE)), "cannot be read"),
        (gz(raw("x", b"13 size=-512\n", tarfile.XHDTYPE), raw("y", b"", tarfile.XHDTYPE)), "a size is negative"),
        (gz(raw("x", b"y", tarfile.XHDTYPE, size=-1), raw("package/x")), "a size is negative"),
        (gz(raw("x", b"18 path=p/../../a\n", tarfile.XHDTYPE), raw("package/x")), "leads elsewhere"),
        (gz(raw("x", b"13 size=-512\n", tarfile.XHDTYPE), raw("package/x")), "a size is negative"),
        (gz(raw("x", b"p/../../a\0", tarfile.GNUTYPE_LONGNAME), raw("package/x")), "leads elsewhere"),
        (gz(b"\xff" * 512), "cannot be read"),
        (b"no archive", "cannot be read"),
        (archive({"x": "y" * 4000})[:-40], "cannot be read"),
    ],
)
def test_an_archive_that_no_tree_may_hold_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    root = tmp_path / "tree"
    with pytest.raises(UnsafeTreeError, match=said):
        unpacked(root, content)
    assert not (tmp_path / "out").exists()
    remove(root)


def test_an_empty_archive_is_a_package_without_files(tmp_path: Path) -> None:
    assert unpacked(tmp_path / "t", gz(bytes(1024)), gz()) == {}


def test_what_is_unpacked_is_bounded_for_all_archives_together(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    zeros = archive({"x": bytes(600_000)})
    assert len(zeros) < 1000
    for caps in (TreeCaps(file_bytes=1 << 19), TreeCaps(bytes=1 << 20), TreeCaps(files=1)):
        with pytest.raises(UnsafeTreeError, match=r"larger than|more than 1 files"):
            unpacked(tmp_path / f"{caps.files}-{caps.bytes}-{caps.file_bytes}", zeros, zeros, caps=caps)
    # Headers alone are no files.
    headers = gz(raw("x", b"a" * 60_000, tarfile.XGLTYPE) * 20)
    monkeypatch.setattr(tarball, "_MAX_UNPACKED_BYTES", 2 << 20)
    with pytest.raises(UnsafeTreeError, match="what is unpacked has more than 2 MiB"):
        unpacked(tmp_path / "headers", headers, headers)
