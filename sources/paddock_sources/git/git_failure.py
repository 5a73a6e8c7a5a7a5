"""Turn the output of a failed git into an error that tells people what to do.

git has no exit codes for the cause of a failure. So its messages are read, in the language that our environment sets.
They decide only which error is raised.
"""

from __future__ import annotations

import re
import signal
from typing import Final, NamedTuple

from paddock_sources.commands.command_runner import (
    CommandError,
    CommandMissingError,
    CommandOutputError,
    CommandResult,
    CommandTimeoutError,
)
from paddock_sources.git.errors import NO_REPOSITORY, FetchCode, FetchError
from paddock_sources.git.remote import Remote

_MAX_LINES = 6
_MAX_LINE = 300
_SIGNAL_OF_SIZE = int(signal.SIGXFSZ)  # a file was to become larger than it may
# The whole output when a signal ended the unpacker, as by a limit; it reports any other reason itself.
_UNPACKER_GONE = "fatal: fetch-pack: invalid index-pack output"
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
_NOISE = re.compile(r"^(?:warning: |From |remote: (?:Enumerating|Counting|Compressing|Total)|(?:Receiving|Resolving) )")
_NOT_ADVERTISED = re.compile(r"not our ref|does not allow request for unadvertised object|no such remote ref")


def of_finished(remote: Remote, result: CommandResult, *, ref: str = "", was_given: bool = False) -> FetchError:
    """Return the error that a git command ended with; `was_given` means that it had credentials."""
    if result.refused:
        refused = ", ".join(f"`{host}`" for host in result.refused)
        return FetchError(remote.shown, f"it may not be fetched from {refused}", code="HostRefusedError")
    printed = result.stderr.decode("utf-8", errors="replace")
    lines = lines_of(printed)
    if result.code == -_SIGNAL_OF_SIZE or f"signal {_SIGNAL_OF_SIZE}" in printed or "File too large" in printed:
        return FetchError(remote.shown, "it is larger than a repository of modules may be", code="TooLargeError")
    if -result.code in _CRASHES:
        cause = _DAMAGE
    elif lines == (_UNPACKER_GONE,):
        problem = "git was ended while it unpacked it: it is larger than it may be"
        return FetchError(remote.shown, problem, code="TooLargeError")
    else:
        cause = next(one for one in _CAUSES if any(re.search(pattern, printed) for pattern in one.patterns))
    if cause.code == "RefNotFoundError":
        return FetchError.ref_not_found(remote.shown, ref)
    if cause.code == "AuthRequiredError":
        return FetchError.auth_required(remote.shown, remote.host, was_given=was_given, by_ssh=remote.is_outside)
    if cause is _UNKNOWN:
        lines = lines or (f"git ended with code {result.code} and said nothing",)
    hints = (cause.by_ssh if remote.is_outside else ()) or cause.hints
    return FetchError(
        remote.shown,
        cause.problem.format(host=remote.host),
        code=cause.code,
        detail=lines,
        hints=[hint.format(host=remote.host, url=remote.url) for hint in hints],
    )


def of_command(remote: Remote, error: CommandError, doing: str) -> FetchError:
    """Return the error of a git command that was not run to its end."""
    match error:
        case CommandTimeoutError():
            return FetchError(remote.shown, f"{doing} took more than {error.seconds:g} s", code="GitTimeoutError")
        case CommandOutputError():
            return FetchError(remote.shown, f"{doing} printed more than it may", code="TooLargeError")
        case CommandMissingError(program="git"):
            return FetchError(remote.shown, "there is no `git` on this machine", code="GitMissingError")
        case _:
            return FetchError(remote.shown, error.problem, hints=error.hints)


def is_not_advertised(result: CommandResult) -> bool:
    """Return whether a server gives a commit only to those who name its branch or tag, or has no such commit."""
    return _NOT_ADVERTISED.search(result.stderr.decode("utf-8", errors="replace")) is not None


def lines_of(printed: str) -> tuple[str, ...]:
    """Return the last meaningful lines of git's output."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", printed)]
    return tuple(line[:_MAX_LINE] for line in lines if line and not _NOISE.match(line))[-_MAX_LINES:]


class _Cause(NamedTuple):
    """What git prints for a cause of failures, and what people are told: of its `code`, unless there are `hints`.

    `{host}` and `{url}` are the server and the address; where git used ssh, the hints are those of `by_ssh`.
    """

    code: FetchCode
    patterns: tuple[str, ...]
    problem: str = ""
    hints: tuple[str, ...] = ()
    by_ssh: tuple[str, ...] = ()


_NO_PROOF: Final = (
    "`{host}` cannot prove that it is `{host}`",
    ("for an authority of your own, name its file: `GIT_SSL_CAINFO=/path/to/ca.pem`",),
    ("compare the host's key with what its operator publishes, then connect once by hand: `ssh -T {host}`",),
)
_DAMAGE: Final = _Cause(
    "DamagedRepositoryError",
    (
        "fsck error",
        "bad object",
        "bad pack header",
        "index-pack",
        "corrupt",
        "inflate",
        "SHA1 COLLISION",
        "did not send all necessary objects",
        "missing (?:blob|tree|commit)",
        "unable to read",
    ),
    "what came is damaged, or made to do harm",
    ("try again; if it stays so, ask the repository's owner to run `git fsck` on it",),
)
_UNKNOWN: Final = _Cause(
    "FetchError", ("",), "git could not do it", ("`git ls-remote {url}` tells whether git itself gets there",)
)
# In this order: the first match is the cause, and later ones are consequences.
_CAUSES: Final = (
    _Cause(
        "FetchError",
        ("No space left on device", "Disk quota exceeded"),
        "the disk is full",
        ("`paddock cache prune` makes room",),
    ),
    _Cause("RefNotFoundError", ("couldn't find remote ref",)),
    _Cause("CertificateError", ("Host key verification failed",), *_NO_PROOF),
    _Cause(
        "AuthRequiredError",
        (
            "could not read (?:Username|Password)",
            "Authentication failed",
            "terminal prompts disabled",
            "returned error: 40[13]",
            r"Permission denied \(",
        ),
    ),
    _Cause(
        "FetchError",
        ("returned error: 30[0-9]", "unable to update url base from redirection"),
        "its address leads to another one",
        ("the repository has moved: name its new address",),
    ),
    _Cause(
        "RepositoryNotFoundError",
        (
            "returned error: 4(?:04|10)",
            "repository '[^']*' not found",
            "Repository not found",
            "does not appear to be a git repository",
        ),
        NO_REPOSITORY,
    ),
    _Cause(
        "CertificateError",
        ("(?i)certificate", "SSL peer", "gnutls_handshake", "SSL_connect", "(?i)tls connect error"),
        *_NO_PROOF,
    ),
    _Cause(
        "UnreachableError",
        ("[Cc]ould not resolve (?:host|proxy)",),
        "there is no host `{host}`, or no way to ask for it",
    ),
    _Cause(
        "UnreachableError",
        ("(?i)operation too slow", "(?i)timed? ?out"),
        "`{host}` is too slow, or does not answer",
    ),
    _Cause(
        "UnreachableError",
        (
            "Failed to connect",
            "Couldn't connect",
            "Connection refused",
            "No route to host",
            "Network is unreachable",
            "returned error: (?:5[0-9][0-9]|429)",
            # The egress gate's message for a host that is allowed but unreachable.
            "CONNECT tunnel failed, response 50",
            "Received HTTP code 50[0-9] from proxy",
        ),
        "`{host}` does not answer",
    ),
    _Cause(
        "FetchError",
        ("mismatched algorithms",),
        "its objects are named in SHA-256, which is not available in this version",
    ),
    _Cause(
        "UnreachableError",
        (
            "early EOF",
            "hung up unexpectedly",
            "RPC failed",
            "Connection reset",
            "unexpected disconnect",
            "transfer closed",
            "Empty reply",
        ),
        "the connection to it broke off",
    ),
    _DAMAGE,
    _Cause(
        "FetchError",
        (_NOT_ADVERTISED.pattern,),
        "it does not give out that commit",
        ("name a branch or a tag that leads to it",),
    ),
    _UNKNOWN,
)
