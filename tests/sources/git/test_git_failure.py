"""Whatever git fails with, people are told what stood in the way and what to do."""

from __future__ import annotations

from paddock_sources.commands.command_runner import (
    CommandError,
    CommandMissingError,
    CommandOutputError,
    CommandResult,
    CommandTimeoutError,
)
from paddock_sources.git.git_failure import is_not_advertised, of_command, of_finished
from paddock_sources.git.remote import Remote
from sources.git_repositories import git_uri
from support.rows import each_row


def remote(text: str = "git+https://host.example/o/r") -> Remote:
    return Remote.of(git_uri(text))


@each_row(
    ("said", "code", "told"),
    [
        ("fatal: couldn't find remote ref v9", "RefNotFoundError", "no branch or tag `v9`"),
        (
            "fatal: could not read Username for 'https://host.example': terminal prompts disabled",
            "AuthRequiredError",
            "wants credentials",
        ),
        ("fatal: Authentication failed for 'https://host.example/o/r/'", "AuthRequiredError", "host.example"),
        ("fatal: unable: The requested URL returned error: 403", "AuthRequiredError", "credentials"),
        ("fatal: unable: The requested URL returned error: 301", "FetchError", "leads to another"),
        ("fatal: repository 'https://host.example/o/r/' not found", "RepositoryNotFoundError", "or it is private"),
        (
            "fatal: unable: server certificate verification failed. CAfile: none CRLfile: none",
            "CertificateError",
            "cannot prove that it is `host.example`",
        ),
        (
            "fatal: unable: SSL certificate problem: self signed certificate",
            "CertificateError",
            "cannot prove",
        ),
        (
            "fatal: unable: SSL: no alternative certificate subject name matches target host name",
            "CertificateError",
            "cannot prove",
        ),
        ("fatal: unable: Could not resolve host: host.example", "UnreachableError", "there is no host"),
        ("fatal: unable: Failed to connect to host.example port 443", "UnreachableError", "answer"),
        ("fatal: unable: Operation too slow. Less than 1000 bytes/sec", "UnreachableError", "too slow"),
        ("error: RPC failed; HTTP 503\nfatal: the remote end hung up", "UnreachableError", "broke off"),
        (
            "fetch-pack: unexpected disconnect\nfatal: early EOF\nfatal: fetch-pack: invalid index-pack output",
            "UnreachableError",
            "broke off",
        ),
        ("fatal: pack is corrupted\nfatal: index-pack failed", "DamagedRepositoryError", "damaged"),
        ("error: object 1234: hasDotdot\nfatal: fsck error in packed object", "DamagedRepositoryError", "harm"),
        ("fatal: write error: No space left on device", "FetchError", "the disk is full"),
        ("fatal: mismatched algorithms: client sha1; server sha256", "FetchError", "SHA-256"),
        ("error: index-pack died of signal 25", "TooLargeError", "larger"),
        ("Receiving objects: 66%\rfatal: fetch-pack: invalid index-pack output", "TooLargeError", "unpacked"),
        ("fatal: remote error: upload-pack: not our ref 1234", "FetchError", "does not give out that commit"),
        ("fatal: something nobody has seen", "FetchError", "git could not do it"),
        ("", "FetchError", "git could not do it"),
    ],
)  # fmt: skip
def test_what_git_said_becomes_an_error_that_helps(said: str, code: str, told: str) -> None:
    raised = of_finished(remote(), CommandResult(128, b"", said.encode()), ref="v9")
    assert raised.code == code
    assert "https://host.example/o/r" in raised.summary and told in raised.summary
    assert raised.hints or raised.detail


def test_hosts_that_were_refused_come_before_what_git_made_of_it() -> None:
    finished = CommandResult(128, b"", b"fatal: Could not resolve host", ("elsewhere.example:443",))
    raised = of_finished(remote(), finished)
    assert raised.code == "HostRefusedError"
    assert "it may not be fetched from `elsewhere.example:443`" in raised.summary


def test_credentials_that_were_not_accepted_are_told_apart() -> None:
    finished = CommandResult(128, b"", b"fatal: Authentication failed")
    given = of_finished(remote(), finished, was_given=True)
    assert given.code == "AuthRequiredError" and "does not accept" in given.summary
    by_ssh = of_finished(
        remote("git+ssh://git@host.example/r"), CommandResult(128, b"", b"Permission denied (publickey).")
    )
    assert by_ssh.code == "AuthRequiredError" and any("ssh-add" in hint for hint in by_ssh.hints)


def test_an_unknown_host_key_is_a_host_that_cannot_prove_who_it_is() -> None:
    raised = of_finished(
        remote("git+ssh://git@host.example/r"), CommandResult(128, b"", b"Host key verification failed.")
    )
    assert raised.code == "CertificateError" and any("ssh -T" in hint for hint in raised.hints)


def test_what_a_server_says_cannot_draw_on_a_terminal_or_fill_it() -> None:
    said = ("remote: \x1b[2Jcome\u202ehere\n" + "remote: more\n" * 100 + "x" * 5000).encode()
    raised = of_finished(remote(), CommandResult(128, b"", said))
    assert len(raised.detail) <= 6 and all(len(line) <= 300 and line.isprintable() for line in raised.detail)


@each_row(
    ("error", "code"),
    [
        (CommandTimeoutError("git", 7.0), "GitTimeoutError"),
        (CommandOutputError("git", "it was ended"), "TooLargeError"),
        (CommandMissingError("git", "git", "no such file or directory"), "GitMissingError"),
        (CommandMissingError("git", "sh", "no such file or directory"), "FetchError"),
        (CommandError("git", "`git` cannot be started: permission denied", hints=["do this"]), "FetchError"),
        (CommandError("git", "the place cannot be had", hints=["do this"]), "FetchError"),
    ],
)
def test_a_git_that_was_not_run_to_its_end_is_told_as_well(error: CommandError, code: str) -> None:
    raised = of_command(remote(), error, "fetching")
    assert raised.code == code and raised.hints
    if raised.code == "GitTimeoutError":
        assert "fetching took more than 7 s" in raised.summary


@each_row(
    ("said", "is_it"),
    [
        ("error: Server does not allow request for unadvertised object 1234", True),
        ("fatal: remote error: upload-pack: not our ref 1234", True),
        ("fatal: couldn't find remote ref 1234", False),
    ],
)
def test_a_server_that_gives_out_only_tips_is_known_by_what_it_says(said: str, is_it: bool) -> None:
    assert is_not_advertised(CommandResult(128, b"", said.encode())) == is_it
