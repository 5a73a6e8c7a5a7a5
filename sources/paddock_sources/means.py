"""What code is got with, from any kind of source. Threads may share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from paddock_sources.builtin import BuiltinSource, shipped
from paddock_sources.cache import SourceCache
from paddock_sources.commands.command_runner import CommandRunner, RefusingRunner
from paddock_sources.errors import OFFLINE, NoFetching, NotFetchedError
from paddock_sources.progress import Progress
from paddock_sources.settings import SourceSettings
from paddock_sources.uri import SourceUri


@dataclass(eq=False, repr=False)
class Means:
    """The means of one provisioner.

    Attributes:
        cache: where code is kept.
        runner: runs programs, sandboxed; also offline, where they are given nothing to reach.
        direct: runs programs that need the user's own keys.
        environ: the user's environment.
        settings: the user's settings of sources.
        preloaded: returns the versions of the distributions of a worker's runtime, by name.
        progress: gets the steps of work that takes a while.
        offline: nothing is fetched.
        no_fetching: why, and what to do about it.
        live: folders run in place.
        lends_keys: the user accepted the text that names the sources: their own keys are used, and private addresses
            are asked.
        judge: refuses, by a `SourceError`, repositories that code may not come from, before any request is sent.
        builtin: the reference modules; by default those shipped with Paddock.
    """

    cache: SourceCache
    runner: CommandRunner
    direct: CommandRunner
    _: KW_ONLY
    environ: Mapping[str, str]
    settings: SourceSettings
    preloaded: Callable[[], Mapping[str, str]]
    progress: Progress
    offline: bool = False
    no_fetching: NoFetching = OFFLINE
    live: bool = False
    lends_keys: bool = True
    judge: Callable[[SourceUri], None] = lambda uri: None
    builtin: BuiltinSource = field(default_factory=shipped)

    @property
    def fetcher(self) -> CommandRunner:
        """Runs programs that fetch, sandboxed; offline it refuses each."""
        return self.closed if self.offline else self.runner

    @property
    def closed(self) -> CommandRunner:
        """Refuses each program, with the reason why nothing is fetched."""
        return RefusingRunner(lambda program: NotFetchedError(program, self.no_fetching))
