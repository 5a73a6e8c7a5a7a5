"""How running sessions are found: what is stale goes, and what another user put there does nothing to root."""

from __future__ import annotations

import os
import pwd
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from paddock.control import sessions
from paddock.control.sessions import Place, seen
from paddock.control.status import SessionStatus

_OTHER = 65534


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder with a short name: that of a socket has 107 bytes at most."""
    with TemporaryDirectory(prefix="p-") as folder:
        yield Path(folder)


@pytest.fixture
def run(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this user's sockets, where no other one has any."""
    folder = elsewhere / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(sessions, "control_paths", lambda environ: (folder,))
    monkeypatch.setattr(pwd, "getpwall", list)
    return folder


@pytest.fixture
def of_another(run: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of another user's sockets, as root sees it."""
    folder = elsewhere / "home/.local/state/paddock/run"
    folder.mkdir(parents=True)
    uid = os.geteuid()
    if uid == 0:
        uid = _OTHER
        os.chown(folder, uid, uid)
    else:  # to a process that takes itself for root, this user is another one
        monkeypatch.setattr(os, "geteuid", lambda: 0)
    user = SimpleNamespace(pw_uid=uid, pw_dir=str(elsewhere / "home"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [user])
    return folder


@contextmanager
def _answering(path: Path, *answers: bytes) -> Iterator[list[bytes]]:
    """Listen at a path, and give each connection the next answer; provide what was asked."""
    asked: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        for answer in answers:
            try:
                line, _ = listener.accept()
            except OSError:
                return  # nobody came
            with line:
                asked.append(line.recv(1 << 16))
                try:
                    line.sendall(answer)
                except OSError:
                    pass  # it has had enough

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield asked
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def _status(**changes: object) -> bytes:
    status = SessionStatus(session="s", plan=None, folder="/", pid=1, uid=0, version="0", began=1.0, at=2.0)
    return status.model_copy(update=changes).model_dump_json().encode() + b"\n"


def test_a_stale_socket_is_removed_and_a_live_one_answers(run: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stale:
        stale.bind(str(run / "1.sock"))
    (run / "notes").touch()
    (run / "3.sock").touch()
    with _answering(run / "2.sock", _status(session="lives")):
        found, silent = seen({})
    assert [one.status.session for one in found] == ["lives"] and "no socket" in " ".join(silent)
    assert {one.name for one in run.iterdir()} == {"2.sock", "3.sock", "notes"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "gave no answer"),
        (b"\x1b]0;owned\x07\n", "is none"),
        (b"[" * 100_000 + b"\n", "is none"),
        (_status(began=float("inf")), "is none"),
        (_status(session="x" * 5000), "is none"),
        (b'{"error": "go away"}\n', "go away"),
        (b"x" * 70_000, "too large"),
    ],
)
def test_an_answer_that_is_none_is_told_and_stops_nothing(
    run: Path, answer: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "ANSWER_BYTES", 1 << 16 if why == "too large" else 1 << 23)
    with _answering(run / "1.sock", answer):
        found, (said,) = seen({})
    assert not found and why in said


def test_a_session_that_says_nothing_is_waited_for_within_bounds(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_SECONDS", 0.2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(run / "1.sock"))
        listener.listen()
        found, (said,) = seen({})
    assert not found and "gave no answer" in said


def test_root_follows_and_removes_nothing_of_another_user(of_another: Path, elsewhere: Path) -> None:
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stale,
        _answering(elsewhere / "2.sock", _status()) as asked,
    ):
        stale.bind(str(of_another / "1.sock"))
        (of_another / "2.sock").symlink_to(elsewhere / "2.sock")
        os.link(elsewhere / "2.sock", of_another / "3.sock")
        if os.getuid() == 0:
            os.chown(of_another / "1.sock", _OTHER, _OTHER)
        else:
            (of_another / "3.sock").unlink()
        found, silent = seen({})
    assert not found and not asked and len(silent) == len([*of_another.iterdir()]) - 1
    assert (of_another / "1.sock").exists() and (of_another / "2.sock").is_symlink()


def test_a_folder_of_somebody_else_is_none_of_ours(run: Path) -> None:
    with _answering(run / "1.sock", _status()) as asked, pytest.raises(FileNotFoundError):
        sessions.ask(Place(run, "1.sock", os.geteuid() + 1), sessions.Request(get="status"), SessionStatus)
    assert not asked
