"""Turn the output of a failed git into an error that tells people what to do.

git has no exit codes for the cause of a failure. So its messages are read, in the language that our environment sets.
They decide only which error is raised.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

from paddock_sources.commands.command_runner import (
    CommandError,
    CommandMissingError,
    CommandOutputError,
    CommandResult,
    CommandTimeoutError,
)
from paddock_sources.git.errors import FetchError
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
        return FetchError.host_refused(remote.shown, result.refused)
    printed = result.stderr.decode("utf-8", errors="replace")
    if result.code == -_SIGNAL_OF_SIZE or f"signal {_SIGNAL_OF_SIZE}" in printed or "File too large" in printed:
        return FetchError.too_large(remote.shown, "it is larger than a repository of modules may be")
    if -result.code in _CRASHES:
        return _damaged(_Failure(remote, printed, ref, was_given))
    lines = lines_of(printed)
    if lines == (_UNPACKER_GONE,):
        return FetchError.too_large(remote.shown, "git was ended while it unpacked it: it is larger than it may be")
    for patterns, error in _ERRORS:
        if any(re.search(pattern, printed) for pattern in patterns):
            return error(_Failure(remote, printed, ref, was_given))
    lines = lines or (f"git ended with code {result.code} and said nothing",)
    hints = [f"`git ls-remote {remote.url}` tells whether git itself gets there"]
    return FetchError(remote.shown, "git could not do it", detail=lines, hints=hints)


def of_command(remote: Remote, error: CommandError, doing: str) -> FetchError:
    """Return the error of a git command that was not run to its end."""
    match error:
        case CommandTimeoutError():
            return FetchError.timeout(remote.shown, doing, error.seconds)
        case CommandOutputError():
            return FetchError.too_large(remote.shown, f"{doing} printed more than it may")
        case CommandMissingError(program="git"):
            return FetchError.git_missing(remote.shown)
        case _:
            return FetchError(remote.shown, error.problem, hints=error.hints)


def is_not_advertised(result: CommandResult) -> bool:
    """Return whether a server gives a commit only to those who name its branch or tag, or has no such commit."""
    return _NOT_ADVERTISED.search(result.stderr.decode("utf-8", errors="replace")) is not None


def lines_of(printed: str) -> tuple[str, ...]:
    """Return the last meaningful lines of git's output."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", printed)]
    return tuple(line[:_MAX_LINE] for line in lines if line and not _NOISE.match(line))[-_MAX_LINES:]


class _Failure:
    def __init__(self, remote: Remote, printed: str, ref: str, was_given: bool) -> None:
        self.remote = remote
        self.lines = lines_of(printed)
        self.ref = ref
        self.was_given = was_given
        self.host = remote.host


def _unreachable(problem: str) -> Callable[[_Failure], FetchError]:
    return lambda failure: FetchError.unreachable(
        failure.remote.shown, problem.format(host=failure.host), detail=failure.lines
    )


def _damaged(failure: _Failure) -> FetchError:
    return FetchError.damaged(
        failure.remote.shown,
        "what came is damaged, or made to do harm",
        detail=failure.lines,
        hints=["try again; if it stays so, ask the repository's owner to run `git fsck` on it"],
    )


def _auth(failure: _Failure) -> FetchError:
    return FetchError.auth_required(
        failure.remote.shown, failure.host, was_given=failure.was_given, by_ssh=failure.remote.is_outside
    )


def _certificate(failure: _Failure) -> FetchError:
    return FetchError.certificate(
        failure.remote.shown, failure.host, detail=failure.lines, by_ssh=failure.remote.is_outside
    )


def _plain(problem: str, *hints: str) -> Callable[[_Failure], FetchError]:
    return lambda failure: FetchError(failure.remote.shown, problem, detail=failure.lines, hints=hints)


# In this order: the first match is the cause, and later ones are consequences.
_ERRORS: tuple[tuple[tuple[str, ...], Callable[[_Failure], FetchError]], ...] = (
    (
        ("No space left on device", "Disk quota exceeded"),
        _plain("the disk is full", "`paddock cache prune` makes room"),
    ),
    (("couldn't find remote ref",), lambda failure: FetchError.ref_not_found(failure.remote.shown, failure.ref)),
    (("Host key verification failed",), _certificate),
    (
        (
            "could not read (?:Username|Password)",
            "Authentication failed",
            "terminal prompts disabled",
            "returned error: 40[13]",
            r"Permission denied \(",
        ),
        _auth,
    ),
    (
        ("returned error: 30[0-9]", "unable to update url base from redirection"),
        _plain("its address leads to another one", "the repository has moved: name its new address"),
    ),
    (
        (
            "returned error: 4(?:04|10)",
            "repository '[^']*' not found",
            "Repository not found",
            "does not appear to be a git repository",
        ),
        lambda failure: FetchError.repository_not_found(failure.remote.shown, detail=failure.lines),
    ),
    (("(?i)certificate", "SSL peer", "gnutls_handshake", "SSL_connect", "(?i)tls connect error"), _certificate),
    (("[Cc]ould not resolve (?:host|proxy)",), _unreachable("there is no host `{host}`, or no way to ask for it")),
    (("(?i)operation too slow", "(?i)timed? ?out"), _unreachable("`{host}` is too slow, or does not answer")),
    (
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
        _unreachable("`{host}` does not answer"),
    ),
    (
        ("mismatched algorithms",),
        _plain("its objects are named in SHA-256, which is not available in this version"),
    ),
    (
        (
            "early EOF",
            "hung up unexpectedly",
            "RPC failed",
            "Connection reset",
            "unexpected disconnect",
            "transfer closed",
            "Empty reply",
        ),
        _unreachable("the connection to it broke off"),
    ),
    (
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
        _damaged,
    ),
    (
        (_NOT_ADVERTISED.pattern,),
        _plain("it does not give out that commit", "name a branch or a tag that leads to it"),
    ),
)
