"""Commands that are run as the user would: not shut in, and bounded all the same."""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from paddock_sources.commands.command_runner import (
    CommandAccess,
    CommandError,
    CommandMissingError,
    CommandOutputError,
    CommandTimeoutError,
)
from paddock_sources.commands.direct_runner import DirectRunner

_REACH = CommandAccess("sh", environ={"GIVEN": "1"})


@pytest.fixture
def runner() -> DirectRunner:
    return DirectRunner({"PATH": os.environ["PATH"], "HOME": "/home/somebody", "API_KEY": "secret"})


@pytest.mark.parametrize(
    ("script", "code", "stdout", "stderr"),
    [
        ("echo here", 0, b"here\n", b""),
        ("echo there >&2; exit 3", 3, b"", b"there\n"),
        ("kill -TERM $$", -15, b"", b""),
        ('echo "$GIVEN $HOME $API_KEY"', 0, b"1 /home/somebody \n", b""),
        ("cat", 0, b"", b""),
    ],
)
def test_a_command_runs_to_its_end(runner: DirectRunner, script: str, code: int, stdout: bytes, stderr: bytes) -> None:
    with runner.open(_REACH) as session:
        ran = session.run(["sh", "-c", script])
        assert session.level == "none"
    assert (ran.code, ran.stdout, ran.stderr, ran.refused) == (code, stdout, stderr, ())


@pytest.mark.parametrize("path", [".", "", ":", "bin", ".::bin:{rest}", "{rest}:."])
def test_no_program_comes_from_a_relative_folder_in_path(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for decoy in (tmp_path / "decoy", tmp_path / "sh", tmp_path / "bin/sh"):
        decoy.parent.mkdir(exist_ok=True)
        decoy.write_text("#!/bin/sh\necho decoy\n")
        decoy.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    path = path.format(rest=os.defpath)
    with DirectRunner({"PATH": path}).open(_REACH) as session:
        assert session.run(["sh", "-c", "sh -c 'echo real'"]).stdout == b"real\n"
        with pytest.raises(CommandMissingError):
            session.run(["decoy"])
        assert session.run(["sh", "-c", "decoy"]).code == 127


def test_there_is_no_shell(runner: DirectRunner) -> None:
    with runner.open(_REACH) as session:
        assert session.run(["echo", "$HOME; id"]).stdout == b"$HOME; id\n"


def test_fifty_megabytes_go_in_and_come_out(runner: DirectRunner) -> None:
    data = os.urandom(1 << 20)
    with runner.open(_REACH) as session:
        assert session.run(["cat"], stdin=(data for _ in range(50))).stdout == data * 50


def test_output_is_handed_on_as_it_comes(runner: DirectRunner) -> None:
    seen: list[bytes] = []
    lines: list[str] = []
    with runner.open(_REACH) as session:
        ran = session.run(
            ["sh", "-c", "printf one; printf 'a\\rb\\nc' >&2; read answer; printf \"$answer\""],
            stdin=iter([b"two\n"]),
            on_stdout=lambda data: seen.append(bytes(data)),
            on_stderr=lines.append,
        )
    assert (b"".join(seen), lines, ran.stdout, ran.stderr) == (b"onetwo", ["a", "b", "c"], b"", b"a\rb\nc")


def test_only_the_end_of_the_messages_is_kept(runner: DirectRunner) -> None:
    with runner.open(_REACH) as session:
        ran = session.run(["sh", "-c", "head -c 3000000 /dev/zero >&2; echo end >&2"])
    assert len(ran.stderr) == 64 << 10
    assert ran.stderr.endswith(b"end\n")


def test_an_endless_line_of_messages_is_handed_on_in_pieces(runner: DirectRunner) -> None:
    lines: list[str] = []
    with runner.open(_REACH) as session:
        session.run(["sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x >&2"], on_stderr=lines.append)
    assert "".join(lines) == "x" * 100000
    assert max(map(len, lines)) <= 8192 + (128 << 10)


def test_a_command_that_does_not_read_is_no_obstacle(runner: DirectRunner) -> None:
    with runner.open(_REACH) as session:
        for program in ("true", "cat"):
            assert session.run([program], stdin=[bytes(1 << 20)] * 8, on_stdout=lambda data: None).code == 0


def test_too_much_output_ends_it(runner: DirectRunner) -> None:
    with runner.open(_REACH) as session, pytest.raises(CommandOutputError):
        session.run(["yes"], max_stdout_bytes=1 << 20)
    assert not children()


@pytest.mark.costly
@pytest.mark.parametrize("script", ["sleep 1000", "trap '' TERM; sleep 1000 & sleep 1000"])
def test_a_command_that_takes_too_long_is_ended_with_all_it_started(runner: DirectRunner, script: str) -> None:
    with runner.open(_REACH) as session, pytest.raises(CommandTimeoutError, match=re.escape("0.2 s")):
        session.run(["sh", "-c", script], timeout=0.2)
    assert not children()


def test_what_a_command_leaves_behind_ends_with_it(runner: DirectRunner, tmp_path: Path) -> None:
    with runner.open(_REACH) as session:
        ran = session.run(["sh", "-c", "sleep 1000 & echo $!"])
    assert not _is_alive(int(ran.stdout))


def test_who_does_not_want_it_any_more_ends_it() -> None:
    looks = iter((None, None, KeyboardInterrupt()))

    def check() -> None:
        if (error := next(looks)) is not None:
            raise error

    with DirectRunner(check=check).open(_REACH) as session, pytest.raises(KeyboardInterrupt):
        session.run(["sleep", "1000"])
    assert not children()


def test_an_error_of_who_feeds_or_listens_ends_it(runner: DirectRunner) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x"
        raise KeyError("no more")

    def refuse(data: memoryview) -> None:
        raise KeyError("enough")

    with runner.open(_REACH) as session:
        with pytest.raises(KeyError, match="no more"):
            session.run(["cat"], stdin=broken())
        with pytest.raises(KeyError, match="enough"):
            session.run(["yes"], on_stdout=refuse)
    assert not children()


def test_a_program_that_is_not_there_is_named(runner: DirectRunner) -> None:
    with runner.open(_REACH) as session:
        with pytest.raises(CommandMissingError, match="`no-such-program` cannot be started"):
            session.run(["no-such-program"])
        with pytest.raises(CommandError, match="`/etc/passwd` cannot be started") as refused:
            session.run(["/etc/passwd"])
    assert not isinstance(refused.value, CommandMissingError)


def children() -> set[psutil.Process]:
    """Return the processes that there are because of a test, and not of one before it."""
    return set(psutil.Process().children(recursive=True)) - _OTHERS


_OTHERS: set[psutil.Process] = set()


@pytest.fixture(autouse=True)
def _others() -> None:
    _OTHERS.clear()
    _OTHERS.update(psutil.Process().children(recursive=True))


def _is_alive(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            return False
        time.sleep(0.02)
    return True


def test_a_host_without_a_file_to_open_is_told_so(runner: DirectRunner) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with runner.open(CommandAccess("true")) as session:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")), hard))
        try:
            with pytest.raises(CommandError, match="it can have no pipes: too many open files"):
                session.run(["true"])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert session.run(["true"]).code == 0
