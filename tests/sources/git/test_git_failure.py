"""Whatever git fails with, people are told what stood in the way and what to do."""

from __future__ import annotations

import pytest

from paddock_sources import GitUri, SourceUri
from paddock_sources.commands.command_runner import (
    CommandError,
    CommandMissingError,
    CommandOutputError,
    CommandResult,
    CommandTimeoutError,
)
from paddock_sources.git import errors
from paddock_sources.git.git_failure import is_not_advertised, of_command, of_finished
from paddock_sources.git.remote import Remote


def remote(text: str = "git+https://host.example/o/r") -> Remote:
    uri = SourceUri.parse(text)
    assert isinstance(uri, GitUri)
    return Remote.of(uri)


@pytest.mark.parametrize(
    ("said", "error", "told"),
    [
        ("fatal: couldn't find remote ref v9", errors.RefNotFoundError, "no branch or tag `v9`"),
        (
            "fatal: could not read Username for 'https://host.example': terminal prompts disabled",
            errors.AuthRequiredError,
            "wants credentials",
        ),
        ("fatal: Authentication failed for 'https://host.example/o/r/'", errors.AuthRequiredError, "host.example"),
        ("fatal: unable: The requested URL returned error: 403", errors.AuthRequiredError, "credentials"),
        ("fatal: unable: The requested URL returned error: 301", errors.FetchError, "leads to another"),
        ("fatal: repository 'https://host.example/o/r/' not found", errors.RepositoryNotFoundError, "or it is private"),
        (
            "fatal: unable: server certificate verification failed. CAfile: none CRLfile: none",
            errors.CertificateError,
            "cannot prove that it is `host.example`",
        ),
        (
            "fatal: unable: SSL certificate problem: self signed certificate",
            errors.CertificateError,
            "cannot prove",
        ),
        (
            "fatal: unable: SSL: no alternative certificate subject name matches target host name",
            errors.CertificateError,
            "cannot prove",
        ),
        ("fatal: unable: Could not resolve host: host.example", errors.UnreachableError, "there is no host"),
        ("fatal: unable: Failed to connect to host.example port 443", errors.UnreachableError, "answer"),
        ("fatal: unable: Operation too slow. Less than 1000 bytes/sec", errors.UnreachableError, "too slow"),
        ("error: RPC failed; HTTP 503\nfatal: the remote end hung up", errors.UnreachableError, "broke off"),
        (
            "fetch-pack: unexpected disconnect\nfatal: early EOF\nfatal: fetch-pack: invalid index-pack output",
            errors.UnreachableError,
            "broke off",
        ),
        ("fatal: pack is corrupted\nfatal: index-pack failed", errors.DamagedRepositoryError, "damaged"),
        ("error: object 1234: hasDotdot\nfatal: fsck error in packed object", errors.DamagedRepositoryError, "harm"),
        ("fatal: write error: No space left on device", errors.FetchError, "the disk is full"),
        ("fatal: mismatched algorithms: client sha1; server sha256", errors.FetchError, "SHA-256"),
        ("error: index-pack died of signal 25", errors.TooLargeError, "larger"),
        ("Receiving objects: 66%\rfatal: fetch-pack: invalid index-pack output", errors.TooLargeError, "unpacked"),
        ("fatal: remote error: upload-pack: not our ref 1234", errors.FetchError, "does not give out that commit"),
        ("fatal: something nobody has seen", errors.FetchError, "git could not do it"),
        ("", errors.FetchError, "git could not do it"),
    ],
)  # fmt: skip
def test_what_git_said_becomes_an_error_that_helps(said: str, error: type[errors.FetchError], told: str) -> None:
    raised = of_finished(remote(), CommandResult(128, b"", said.encode()), ref="v9")
    assert type(raised) is error
    assert "https://host.example/o/r" in raised.summary and told in raised.summary
    assert raised.hints or raised.detail


def test_hosts_that_were_refused_come_before_what_git_made_of_it() -> None:
    finished = CommandResult(128, b"", b"fatal: Could not resolve host", ("elsewhere.example:443",))
    raised = of_finished(remote(), finished)
    assert isinstance(raised, errors.HostRefusedError)
    assert raised.hosts == ("elsewhere.example:443",)


def test_credentials_that_were_not_accepted_are_told_apart() -> None:
    finished = CommandResult(128, b"", b"fatal: Authentication failed")
    given = of_finished(remote(), finished, was_given=True)
    assert isinstance(given, errors.AuthRequiredError) and given.was_given and "does not accept" in given.summary
    by_ssh = of_finished(
        remote("git+ssh://git@host.example/r"), CommandResult(128, b"", b"Permission denied (publickey).")
    )
    assert isinstance(by_ssh, errors.AuthRequiredError) and any("ssh-add" in hint for hint in by_ssh.hints)


def test_an_unknown_host_key_is_a_host_that_cannot_prove_who_it_is() -> None:
    raised = of_finished(
        remote("git+ssh://git@host.example/r"), CommandResult(128, b"", b"Host key verification failed.")
    )
    assert isinstance(raised, errors.CertificateError) and any("ssh -T" in hint for hint in raised.hints)


def test_what_a_server_says_cannot_draw_on_a_terminal_or_fill_it() -> None:
    said = ("remote: \x1b[2Jcome\u202ehere\n" + "remote: more\n" * 100 + "x" * 5000).encode()
    raised = of_finished(remote(), CommandResult(128, b"", said))
    assert len(raised.detail) <= 6 and all(len(line) <= 300 and line.isprintable() for line in raised.detail)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (CommandTimeoutError("git", 7.0), errors.GitTimeoutError),
        (CommandOutputError("git", "it was ended"), errors.TooLargeError),
        (CommandMissingError("git", "git", "no such file or directory"), errors.GitMissingError),
        (CommandMissingError("git", "sh", "no such file or directory"), errors.FetchError),
        (CommandError("git", "`git` cannot be started: permission denied", hints=["do this"]), errors.FetchError),
        (CommandError("git", "the place cannot be had", hints=["do this"]), errors.FetchError),
    ],
)
def test_a_git_that_was_not_run_to_its_end_is_told_as_well(error: CommandError, kind: type[errors.FetchError]) -> None:
    raised = of_command(remote(), error, "fetching")
    assert type(raised) is kind and raised.hints
    if isinstance(raised, errors.GitTimeoutError):
        assert raised.seconds == 7.0 and "fetching took more than 7 s" in raised.summary


@pytest.mark.parametrize(
    ("said", "is_it"),
    [
        ("error: Server does not allow request for unadvertised object 1234", True),
        ("fatal: remote error: upload-pack: not our ref 1234", True),
        ("fatal: couldn't find remote ref 1234", False),
    ],
)
def test_a_server_that_gives_out_only_tips_is_known_by_what_it_says(said: str, is_it: bool) -> None:
    assert is_not_advertised(CommandResult(128, b"", said.encode())) == is_it
