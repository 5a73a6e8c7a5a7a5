"""Our git's only configuration and whole environment, and the limits on the size and time of a fetch.

git gets nothing of the system's or the user's configuration: no `GIT_*` variable, no helper, hook, filter, submodule or
prompt. Of the operator's environment it gets only the trusted certificates, and for ssh what it takes to use the user's
keys without a prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from paddock_sources.git.remote import Remote

_CONFIG = """\
# Written by paddock: all that its git is configured by. Changes are overwritten.
[core]
	hooksPath = /dev/null
	attributesFile = /dev/null
	excludesFile = /dev/null
	fsmonitor = false
	askPass =
	pager = cat
	protectHFS = true
	protectNTFS = true
	logAllRefUpdates = false
[protocol]
	version = 2
	allow = never
[protocol "{scheme}"]
	allow = always
[transfer]
	fsckObjects = true
	bundleURI = false
	unpackLimit = 1
[fetch]
	fsckObjects = true
	recurseSubmodules = false
	writeCommitGraph = false
	showForcedUpdates = false
[fetch "fsck"]
	# What old tools wrote, and nothing can come of. All else is refused.
	zeroPaddedFilemode = ignore
	missingSpaceBeforeDate = ignore
	badTimezone = ignore
	missingNameBeforeEmail = ignore
[submodule]
	recurse = false
[gc]
	auto = 0
[maintenance]
	auto = false
[credential]
	helper =
	interactive = false
[http]
	sslVerify = true
	followRedirects = false
	saveCookies = false
	lowSpeedLimit = {slow_bytes}
	lowSpeedTime = {slow_seconds}
[safe]
	# Whose a folder is says nothing where nothing of it is run: no hook, no configuration of it that names a program.
	directory = *
[uploadpack]
	# For `file` addresses, where we are the server too.
	allowFilter = true
	allowAnySHA1InWant = true
[pack]
	# As a server, from one folder to another: to look for what is alike would take longer than to copy it.
	window = 0
[color]
	ui = false
"""

_ENVIRON = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C.UTF-8",
    "LANGUAGE": "",
}
_FOR_SSH = ("SSH_AUTH_SOCK", "USER", "LOGNAME", "KRB5CCNAME", "XDG_RUNTIME_DIR")
_NEVER_ASK = "-o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15 -o ServerAliveCountMax=2"


@dataclass(frozen=True, slots=True)
class GitLimits:
    """Bounds on each kind of git command, and on what it may leave behind."""

    fetch_seconds: float = 300.0
    ask_seconds: float = 60.0  # for refs, without any object
    read_seconds: float = 120.0  # for reading fetched objects
    lock_seconds: float = 600.0  # until another process is done with the same repository
    slow_bytes_per_second: int = 1000
    slow_seconds: int = 30  # of fewer than that many bytes, until a transfer is aborted
    pack_bytes: int = 1 << 30
    blob_bytes: int = 64 << 20
    files: int = 20_000
    refs: int = 200_000


def config_text(remote: Remote, limits: GitLimits) -> str:
    """Return the configuration for one repository: only its own kind of address is fetched from."""
    return _CONFIG.format(
        scheme=remote.scheme, slow_bytes=limits.slow_bytes_per_second, slow_seconds=limits.slow_seconds
    )


def trusted_certificates(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the operator's trusted certificates, as settings for git."""
    file = environ.get("GIT_SSL_CAINFO") or environ.get("SSL_CERT_FILE")
    folder = environ.get("GIT_SSL_CAPATH") or environ.get("SSL_CERT_DIR")
    named = {"GIT_SSL_CAINFO": file, "GIT_SSL_CAPATH": folder}
    return {name: value for name, value in named.items() if value and Path(value).is_absolute()}


def git_environ(
    remote: Remote, config: Path, environ: Mapping[str, str], authorization: str | None = None
) -> dict[str, str]:
    """Return all of the environment for the git that fetches from `remote`.

    `authorization` is the value of a header, for this repository's host only; it is in the environment and not among
    the arguments, which everybody on a machine can read.
    """
    own = {**_ENVIRON, "GIT_CONFIG_GLOBAL": str(config)}
    if remote.scheme in ("https", "http"):
        own |= trusted_certificates(environ)
    if remote.is_outside:
        own |= {name: environ[name] for name in _FOR_SSH if name in environ}
        # The operator's own command may name a key; options that come later do not undo the ones before.
        own["GIT_SSH_COMMAND"] = f"{environ.get('GIT_SSH_COMMAND') or 'ssh'} {_NEVER_ASK}"
    if authorization is not None:
        own |= {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"http.{remote.url}.extraHeader",
            "GIT_CONFIG_VALUE_0": f"Authorization: {authorization}",
        }
    return own
