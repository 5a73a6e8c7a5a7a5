"""The credentials that git's own helpers have for a server: asked once, never by a prompt, kept in memory only.

The helpers are the user's, and run unconfined as the user. Their answer goes to the sandboxed git as a header in its
environment. It never appears among arguments, or in a log, an error or a file.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from paddock_sources.commands.command_runner import CommandAccess, CommandError, CommandRunner, CommandTimeoutError
from paddock_sources.git.git_failure import of_command
from paddock_sources.git.remote import Remote

_SECONDS = 20.0
_MAX_VALUE = 8 << 10
_MAX_PRINTED_BYTES = 64 << 10
_NEVER_ASK = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GCM_INTERACTIVE": "never",
    "LC_ALL": "C.UTF-8",
}
_COMMAND = ("git", "-C", "/", "-c", "core.askPass=", "-c", "credential.interactive=false", "credential", "fill")


@dataclass(slots=True)
class Credentials:
    """Asks the helpers of the user whose environment is `environ`; several sources may share one."""

    direct: CommandRunner
    environ: Mapping[str, str]
    seconds: float = _SECONDS
    _known: dict[str, str | None] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def known(self, remote: Remote) -> str | None:
        """Return the header for a server that was asked about before, if there is one."""
        return self._known.get(remote.url)

    def authorization(self, remote: Remote) -> str | None:
        """Return the header with the credentials, or None if no helper has any.

        Raises:
            FetchError: the helpers do not answer.
        """
        with self._lock:
            if remote.url not in self._known:
                self._known[remote.url] = self._ask(remote)
            return self._known[remote.url]

    def _ask(self, remote: Remote) -> str | None:
        scheme, _, rest = remote.url.partition("://")
        host, _, path = rest.partition("/")
        asked = f"protocol={scheme}\nhost={host}\npath={path}\n\n"
        try:
            with self.direct.open(CommandAccess("git credential", environ=self._environ())) as session:
                result = session.run(
                    _COMMAND,
                    stdin=asked.encode("utf-8"),
                    timeout=self.seconds,
                    max_stdout_bytes=_MAX_PRINTED_BYTES,
                )
        except CommandTimeoutError as error:
            raise of_command(remote, error, "asking git's credential helpers") from error
        except CommandError:
            return None
        return _basic(result.stdout) if result.code == 0 else None

    def _environ(self) -> dict[str, str]:
        """Return the user's environment, without variables that bind git to one repository and without prompts."""
        kept = {
            name: value
            for name, value in self.environ.items()
            if not name.startswith("GIT_") or name.startswith("GIT_CONFIG")
        }
        return kept | _NEVER_ASK


def _basic(printed: bytes) -> str | None:
    fields: dict[bytes, bytes] = {}
    for line in printed.splitlines():
        name, _, value = line.partition(b"=")
        fields[name] = value
    user, password = fields.get(b"username", b""), fields.get(b"password", b"")
    if not password or len(user) + len(password) > _MAX_VALUE:
        return None
    return "Basic " + base64.b64encode(user + b":" + password).decode("ascii")
