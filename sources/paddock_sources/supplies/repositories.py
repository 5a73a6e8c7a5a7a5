"""Repositories to fetch from, each with the rights that those who named it give."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from paddock_sources.commands.command_runner import CommandRunner, RefusingRunner, UserHostsRunner
from paddock_sources.errors import OwnRightsError, SourceUriError
from paddock_sources.means import Means
from paddock_sources.uri import GitUri, SourceUri

if TYPE_CHECKING:
    from paddock_sources.git.credentials import Credentials
    from paddock_sources.git.git_source import GitSource


@dataclass(slots=True)
class Repositories:
    """Makes the sources of repositories; the mirrors in the settings are the user's, who named what they lead to."""

    means: Means
    _credentials: Credentials | None = field(default=None, init=False)
    _making: threading.Lock = field(default_factory=threading.Lock, init=False)
    _lent: set[str] = field(default_factory=set, init=False)  # that the user's own rights may fetch all the same

    def lend(self, uris: Iterable[SourceUri]) -> None:
        """Have these sources be fetched with the user's own rights: the user said so."""
        self._lent.update(uri.text for uri in uris)

    def own_rights(self, uri: GitUri) -> OwnRightsError | None:
        """Return why a repository takes the user's own rights, as far as its address says it."""
        if self.means.lends_keys or self.means.offline or uri.text in self._lent:
            return None
        from paddock_sources.git.remote import Remote

        try:
            mirror = self.means.settings.mirrors.of(uri)
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

        means = self.means
        Remote.of(uri)  # refused where it holds credentials, also if a mirror is asked
        mirror = means.settings.mirrors.of(uri)
        at = mirror or uri
        lends = is_users and (means.lends_keys or uri.text in self._lent)
        named_by = "a module" if means.lends_keys else "the plan"
        without_keys = RefusingRunner(lambda name: OwnRightsError.of_keys(uri.text, name, named_by))
        lends_keys = lends and (means.lends_keys or urlsplit(at.url).scheme != "http")
        own = means.closed if means.offline else means.direct
        direct = own if lends_keys or means.offline else without_keys
        is_beside = means.lends_keys and isinstance(near, GitUri) and near.server == uri.server
        is_users_word = lends or is_beside or mirror is not None
        runner: CommandRunner = UserHostsRunner(means.runner) if is_users_word else means.runner
        if not (is_users_word or means.offline) and uri.is_inside:
            runner = direct = RefusingRunner(lambda name: OwnRightsError.of_host(uri.text))
        with self._making:
            if lends_keys and self._credentials is None:
                self._credentials = Credentials(direct, means.environ)
        return GitSource(
            at,
            means.cache,
            runner,
            direct=direct,
            progress=means.progress,
            environ=means.environ,
            offline=means.offline,
            no_fetching=means.no_fetching,
            credentials=self._credentials if lends_keys else None,
        )
