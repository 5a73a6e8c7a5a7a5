"""Whatever a server does, the error says what it was, what was in the cache stays, and the next attempt can succeed."""

from __future__ import annotations

import dataclasses
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from failures import failing
from host.egress.certificates import TestAuthority
from paddock_sources.cache import SourceCache
from paddock_sources.commands.command_runner import CommandRunner
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.git.errors import (
    FetchError,
)
from paddock_sources.git.git_config import GitLimits
from sources.faults.ground import Ground, begin
from sources.git_server import Answers, BreaksOff, Corrupts, Fault, Floods, GitServer, Stalls, packet, store_credentials

# Short where it is time that has to run out.
LIMITS = GitLimits(slow_seconds=1, fetch_seconds=15.0, ask_seconds=15.0)
SHORT = GitLimits(fetch_seconds=0.7, ask_seconds=0.7)

SECONDS = 25.0  # for an attempt to fail, at the very most

Grounds = Callable[[str], Ground]

NEGOTIATED = packet(b"acknowledgments\n") + packet(b"ready\n") + b"0001" + packet(b"packfile\n")

EVERYWHERE = ("refs", "list", "fetch")


@dataclass(frozen=True)
class Row:
    """Something that goes wrong with a server, the error that it is, and what that says."""

    what: str
    fault: Fault | Callable[[Ground], object]
    code: str
    told: str
    limits: GitLimits = LIMITS

    def __str__(self) -> str:
        return self.what.replace(" ", "-")


def random_bytes(size: int, seed: int = 5) -> bytes:
    """Return bytes that no pack is made smaller by."""
    return random.Random(seed).randbytes(size)


def wrong_name(ground: Ground) -> None:
    ground.server.context = ground.server.authority.server("elsewhere.example")


def unknown_authority(ground: Ground) -> None:
    ground.server.context = ground.server.impostor(ground.home / "authority")


def moved_away(ground: Ground) -> None:
    ground.origin.folder.rename(ground.origin.folder.with_name("elsewhere"))


def wants_credentials(ground: Ground) -> None:
    ground.server.private["tool-greet"] = "reader:hush"


def refuses_credentials(ground: Ground) -> None:
    store_credentials(ground.home, ground.server, "reader:guess")
    wants_credentials(ground)


def large_commit(ground: Ground) -> None:
    ground.change(files={f"part{number}": random_bytes(400_000, number) for number in range(3)})


def endless_refs() -> Floods:
    ref = packet(b"0" * 39 + b"%d refs/heads/" % 1 + b"x" * 60_000 + b"\n")
    return Floods(ref, at=("list",))


def endless_chatter() -> Floods:
    return Floods(packet(b"\x02Counting objects: 5% (1/20)\r") * 100, opening=NEGOTIATED)


def endless_pack() -> Floods:
    """Begin a pack of one blob of 2 GB that is stored as it is, and send ever more of it."""
    opening = b"PACK\0\0\0\2\0\0\0\1" + b"\xb0\x80\x80\x80\x40" + b"\x78\x01"
    stored = b"\x00\xff\xff\x00\x00" + random_bytes(0xFFFF)
    whole = [packet(b"\x01" + stored[start : start + 60_000]) for start in range(0, len(stored), 60_000)]
    return Floods(b"".join(whole), opening=NEGOTIATED + packet(b"\x01" + opening))


ROWS: Sequence[Row] = (
    Row("it is gone before it answers", BreaksOff(0, at=EVERYWHERE), "UnreachableError", "broke off"),
    Row("it dies while it says what it can do", BreaksOff(20, at=("refs",)), "UnreachableError", "broke off"),
    Row("it dies while it lists its refs", BreaksOff(30, at=("list",)), "UnreachableError", "broke off"),
    Row("it dies before the pack", BreaksOff(5), "UnreachableError", "broke off"),
    Row("it dies within the pack", BreaksOff(700), "UnreachableError", "broke off"),
    Row("it says nothing", Stalls(0, at=("refs",)), "UnreachableError", "too slow"),
    Row("it stops while it lists its refs", Stalls(30, at=("list",)), "UnreachableError", "too slow"),
    Row("it stops within the pack", Stalls(700), "UnreachableError", "too slow"),
    Row("its certificate is of another name", wrong_name, "CertificateError", "cannot prove that it is"),
    Row("its certificate is by nobody known", unknown_authority, "CertificateError", "GIT_SSL_CAINFO"),
    Row("it wants credentials and none are known", wants_credentials, "AuthRequiredError", "helpers have none"),
    Row("it refuses the credentials", refuses_credentials, "AuthRequiredError", "does not accept the credentials"),
    Row("it forbids", Answers(403), "AuthRequiredError", "wants credentials"),
    Row("it knows no such repository", Answers(404), "RepositoryNotFoundError", "no such repository, or it is private"),
    Row("the repository is gone", moved_away, "RepositoryNotFoundError", "no such repository"),
    Row("it has broken down", Answers(500), "UnreachableError", "does not answer"),
    Row("it breaks down halfway", Answers(502, at=("fetch",)), "UnreachableError", "does not answer"),
    Row("it has enough of us", Answers(429), "UnreachableError", "does not answer"),
    Row(
        "it sends us to another host",
        Answers(302, headers={"Location": "https://localhost:1/elsewhere/info/refs?service=git-upload-pack"}),
        "FetchError",
        "its address leads to another one",
    ),
    Row(
        "it sends us to a page of its network",
        Answers(200, headers={"Content-Type": "text/html"}, body=b"<html>please log in</html>\n"),
        "FetchError",
        "is this a git repository?",
    ),
    Row(
        "it is a folder of files that a server of pages shows",
        Answers(200, at=("refs",), headers={"Content-Type": "text/plain"}, body=b"1" * 40 + b"\trefs/heads/main\n"),
        "FetchError",
        "dumb http transport",
    ),
    Row("a byte of the protocol is wrong", Corrupts(None), "UnreachableError", "broke off"),
    Row("a byte in the head of the pack is wrong", Corrupts(5), "DamagedRepositoryError", "damaged"),
    Row("a byte of the pack is wrong", Corrupts(400), "DamagedRepositoryError", "damaged"),
    Row("the last bytes of the pack are wrong", Corrupts(1 << 30), "DamagedRepositoryError", "damaged"),
    Row("its list of refs has no end", endless_refs(), "GitTimeoutError", "took more than", SHORT),
    Row("it talks without end", endless_chatter(), "GitTimeoutError", "took more than", SHORT),
    Row(
        "its pack has no end",
        endless_pack(),
        "TooLargeError",
        "larger than",
        dataclasses.replace(LIMITS, pack_bytes=1 << 20, fetch_seconds=10.0),
    ),
    Row(
        "a pack is larger than it may be",
        large_commit,
        "TooLargeError",
        "larger than",
        dataclasses.replace(LIMITS, pack_bytes=1 << 20),
    ),
)


# Those in which what shuts git in has a part, or could be in the way; that they are the same without is shown in full.
SHUT_IN = (
    "its pack has no end",  # who bounds files is what shuts git in
    "a pack is larger than it may be",
    "it dies within the pack",
    "it stops within the pack",
    "its certificate is by nobody known",
    "it wants credentials and none are known",
    "it refuses the credentials",
    "it knows no such repository",
    "it sends us to another host",
    "a byte of the pack is wrong",
    "its list of refs has no end",
)
TRIALS = [
    *(
        pytest.param(row, "direct", id=f"{row}-direct", marks=[pytest.mark.exhaustive] * (row.what in SHUT_IN))
        for row in ROWS
        if row.limits.pack_bytes == LIMITS.pack_bytes
    ),
    *(pytest.param(row, "shut in", id=f"{row}-shut-in") for row in ROWS if row.what in SHUT_IN),
]


def undo(ground: Ground) -> None:
    """Have the server be what it was."""
    server = ground.server
    server.fault, server.context = None, ground.context
    server.private.clear()
    (ground.home / ".gitconfig").unlink(missing_ok=True)
    away = ground.origin.folder.with_name("elsewhere")
    if away.exists():
        away.rename(ground.origin.folder)


@pytest.fixture(scope="module")
def grounds(
    authority: TestAuthority, shut_in: CommandRunner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Grounds]:
    """Make a ground for each runner."""
    made: dict[str, Ground] = {}
    with ExitStack() as stack:

        def make(name: str) -> Ground:
            if name not in made:
                folder = tmp_path_factory.mktemp(name.replace(" ", "_"))
                (folder / "repositories").mkdir()
                server = stack.enter_context(GitServer(folder / "repositories", authority))
                cache = stack.enter_context(SourceCache(folder / "cache"))
                made[name] = begin(server, folder, cache, {"direct": DirectRunner(), "shut in": shut_in}[name])
            return made[name]

        yield make


@pytest.mark.exhaustive("-direct")  # git answers as it does when it is shut in
@pytest.mark.parametrize(("row", "runner_name"), TRIALS)
def test_a_server_that_fails_costs_nothing_that_was_good(row: Row, runner_name: str, grounds: Grounds) -> None:
    ground = grounds(runner_name)
    second = ground.change(files={"more": os.urandom(2000)})  # in a pack that is longer than where faults begin
    begun = time.monotonic()
    try:
        if callable(row.fault):
            row.fault(ground)
        else:
            ground.server.fault = row.fault
        with pytest.raises(FetchError) as caught:
            ground.source(limits=row.limits).pin()
        has_begun = bool(ground.server.asked("fetch"))
        assert time.monotonic() - begun < SECONDS
        told = "\n".join([str(caught.value), *caught.value.hints])
        assert caught.value.code == row.code, told
        assert row.told in told and ground.server.host in told, told
        assert not any(secret in told for secret in ("reader", "hush", "guess", "Basic"))
        assert caught.value.hints, told
        ground.check_good()
        with failing("OfflineError"):
            ground.source(offline=True).fetch(second)
    finally:
        undo(ground)
    if has_begun:  # the objects that arrived are left, and disturb no later fetch
        assert ground.source().pin().commit == ground.origin.head()
