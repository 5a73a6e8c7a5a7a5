"""Repositories to fetch from, each with the rights that those who named it give."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from paddock_sources.cache import SourceCache
from paddock_sources.commands.command_runner import CommandRunner, RefusingRunner, UserHostsRunner
from paddock_sources.errors import NoFetching, OwnRightsError, SourceUriError
from paddock_sources.mirrors import Mirrors
from paddock_sources.progress import Progress
from paddock_sources.uri import GitUri, SourceUri

if TYPE_CHECKING:
    from paddock_sources.git.credentials import Credentials
    from paddock_sources.git.git_source import GitSource


@dataclass(slots=True, kw_only=True)
class Repositories:
    """Makes the sources of repositories, kept in `cache`.

    `runner` runs git, sandboxed; `direct` runs git and its helpers where they need the user's keys. `environ` is the
    user's environment. `mirrors` are the user's, who named by them what they lead to. `offline`: nothing is fetched,
    and `no_fetching` says why. `lends_keys`: the user accepted the text that names the sources.
    """

    cache: SourceCache
    runner: CommandRunner
    direct: CommandRunner
    environ: Mapping[str, str]
    mirrors: Mirrors
    progress: Progress
    offline: bool
    no_fetching: NoFetching
    lends_keys: bool
    _credentials: Credentials | None = field(default=None, init=False)
    _making: threading.Lock = field(default_factory=threading.Lock, init=False)
    _lent: set[str] = field(default_factory=set, init=False)  # that the user's own rights may fetch all the same

    def lend(self, uris: Iterable[SourceUri]) -> None:
        """Have these sources be fetched with the user's own rights: the user said so."""
        self._lent.update(uri.text for uri in uris)

    def own_rights(self, uri: GitUri) -> OwnRightsError | None:
        """Return why a repository takes the user's own rights, as far as its address says it."""
        if self.lends_keys or self.offline or uri.text in self._lent:
            return None
        from paddock_sources.git.remote import Remote

        try:
            mirror = self.mirrors.of(uri)
            remote = Remote.of(mirror or uri)
        except SourceUriError:
            return None  # git never gets that address: there is nothing to agree to, and a fetch says why
        if uri.is_inside and mirror is None:
            return OwnRightsError.of_host(uri.text, remote.scheme)
        return OwnRightsError.of_keys(uri.text, "ssh", "the plan") if remote.is_outside else None

    def source(self, uri: GitUri, is_users: bool, near: SourceUri) -> GitSource:
        """Return a repository that the user named, or, if not `is_users`, one that the code at `near` names.

        One that the user did not name is never fetched with the user's keys. Nor is it fetched if it is not on the
        public network, unless it is where that code is. An address of an unaccepted plan gets no credentials
        unencrypted, also if the user agreed to the address. A mirror is asked with its own address alone.
        """
        from paddock_sources.git.credentials import Credentials
        from paddock_sources.git.git_source import GitSource
        from paddock_sources.git.remote import Remote

        Remote.of(uri)  # refused where it holds credentials, also if a mirror is asked
        mirror = self.mirrors.of(uri)
        at = mirror or uri
        lends = is_users and (self.lends_keys or uri.text in self._lent)
        named_by = "a module" if self.lends_keys else "the plan"
        without_keys = RefusingRunner(lambda name: OwnRightsError.of_keys(uri.text, name, named_by))
        lends_keys = lends and (self.lends_keys or urlsplit(at.url).scheme != "http")
        direct = self.direct if lends_keys or self.offline else without_keys
        is_beside = self.lends_keys and isinstance(near, GitUri) and near.server == uri.server
        is_users_word = lends or is_beside or mirror is not None
        runner: CommandRunner = UserHostsRunner(self.runner) if is_users_word else self.runner
        if not (is_users_word or self.offline) and uri.is_inside:
            runner = direct = RefusingRunner(lambda name: OwnRightsError.of_host(uri.text))
        with self._making:
            if lends_keys and self._credentials is None:
                self._credentials = Credentials(direct, self.environ)
        return GitSource(
            at,
            self.cache,
            runner,
            direct=direct,
            progress=self.progress,
            environ=self.environ,
            offline=self.offline,
            no_fetching=self.no_fetching,
            credentials=self._credentials if lends_keys else None,
        )
