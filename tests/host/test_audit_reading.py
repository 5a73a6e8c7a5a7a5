"""Reading the audit log: what its chain proves, what is done to the file meanwhile, and what is no audit log."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock import audit
from paddock.audit import AuditLog, digest_of
from paddock.audit_reading import Chain, audit_lines, follow_lines
from paddock.errors import KindError

_OLD = b'{"time": "2026-01-01T00:00:00Z", "event": "session.ended"}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of six lines, the first of which is of an older Paddock."""
    path = tmp_path / "audit.jsonl"
    path.write_bytes(_OLD)
    log = AuditLog("s", path=path)
    for number in range(5):
        log.record("denial", module="tool-x", number=number)
    return path


def _chain(path: Path, sought: str | None = None) -> Chain:
    return Chain.of(audit_lines(path), sought)


def test_a_chain_begins_at_the_first_line_that_is_linked(path: Path) -> None:
    chain = _chain(path)
    assert (chain.lines, chain.before, chain.wrong) == (5, 1, "")
    assert chain.ends_with == digest_of(path.read_bytes().splitlines()[-1])


_CHANGES: list[tuple[str, Callable[[list[bytes]], list[bytes]], int]] = [
    ("altered", lambda lines: [*lines[:3], lines[3].replace(b"tool-x", b"tool-y"), *lines[4:]], 5),
    ("removed", lambda lines: [*lines[:3], *lines[4:]], 4),
    ("swapped", lambda lines: [*lines[:3], lines[4], lines[3], lines[5]], 4),
    ("of the older Paddock", lambda lines: [_OLD.replace(b"00Z", b"01Z"), *lines[1:]], 2),
    ("added", lambda lines: [*lines[:3], _OLD, *lines[3:]], 4),
    ("no JSON", lambda lines: [*lines[:3], b"[" * 5000 + b"\n", *lines[4:]], 4),
    ("no object", lambda lines: [*lines[:3], b'"\xff"\n', *lines[4:]], 4),
    ("cut off in the middle", lambda lines: [*lines[:5], lines[5][:-9]], 6),
    ("10 MB", lambda lines: [*lines[:4], b'{"x": "' + b"x" * 10_000_000 + lines[4]], 5),
]


@pytest.mark.parametrize(("change", "wrong"), [row[1:] for row in _CHANGES], ids=[row[0] for row in _CHANGES])
def test_the_first_wrong_line_is_named(path: Path, change: Callable[[list[bytes]], list[bytes]], wrong: int) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    found = _chain(path).wrong
    assert found.startswith(f"line {wrong} of {path} ")


def test_an_end_that_was_cut_off_shows_beside_a_digest(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    noted = _chain(path).ends_with
    AuditLog("s", path=path).record("session.ended")
    assert _chain(path, noted).since == 1
    path.write_bytes(b"".join(lines[:-1]))
    cut = _chain(path, noted)
    assert not cut.wrong and cut.since is None


def test_a_file_that_was_set_aside_comes_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_FILE_BYTES", path.stat().st_size)
    AuditLog("s", path=path).record("session.ended")
    older = path.with_name("audit.jsonl.1")
    assert len(path.read_bytes().splitlines()) == 1
    assert (_chain(path).lines, _chain(path).wrong) == (6, "")
    older.write_bytes(older.read_bytes().replace(b'"number": 4', b'"number": 5'))
    assert _chain(path).wrong.startswith(f"line 1 of {path} ")


def test_lines_are_followed_into_a_new_file_and_after_a_cut(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, lines = AuditLog("s", path=path), follow_lines(path)

    def come() -> list[object]:
        return [(line.facts or {}).get("number") for line in iter(lambda: next(lines), None)]

    assert come() == []
    log.record("denial", number=5)
    monkeypatch.setattr(audit, "MAX_FILE_BYTES", path.stat().st_size)
    log.record("denial", number=6)
    assert come() == [5, 6] and path.with_name("audit.jsonl.1").exists()
    os.truncate(path, 0)
    assert come() == []
    log.record("denial", number=7)
    with path.open("ab") as file:
        file.write(b'{"number": ')
        file.flush()
        assert come() == [7]
        file.write(b"8}\n")
    assert come() == [8]
    path.unlink()
    assert come() == []
    log.record("denial", number=9)
    assert come() == [9]


def _is_of_another(path: Path) -> None:
    if os.geteuid() == 0:
        path.touch()
        os.chown(path, 12345, 12345)
    else:  # a file that is somebody else's in any case
        path.symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    "put",
    [None, os.mkdir, os.mkfifo, lambda path: path.symlink_to("other"), _is_of_another],
    ids=["nothing", "a folder", "a fifo", "a link", "another's"],
)
@pytest.mark.parametrize("place", ["audit.jsonl", "audit.jsonl.1"])
def test_what_is_no_audit_log_is_named(path: Path, put: Callable[[Path], object] | None, place: str) -> None:
    path.with_name("other").write_bytes(path.read_bytes())
    path.with_name(place).unlink(missing_ok=True)
    if put is not None:
        put(path.with_name(place))
    elif place == "audit.jsonl.1":
        assert len([*audit_lines(path)]) == 6
        return
    with pytest.raises(KindError, match=place) as refused:
        next(audit_lines(path))
    assert refused.value.hints
