"""A good commit in a cache, and a server whose repository can be made to fail in any way."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddock_sources.cache import SourceCache
from paddock_sources.commands.command_runner import CommandRunner
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.git.git_source import GitSource
from sources.git.origin_repository import OriginRepository
from sources.git_repositories import git_uri, module_files, module_repository
from sources.git_server import GitServer

NAME = "tool-greet"


@dataclass
class Ground:
    """`good` is the commit of `origin`, served by `server`, that is in `cache`; its files are those of `tree`."""

    server: GitServer
    origin: OriginRepository
    cache: SourceCache
    runner: CommandRunner
    home: Path
    good: str
    tree: str = ""
    context: ssl.SSLContext = field(init=False)

    def __post_init__(self) -> None:
        self.context = self.server.context

    def source(self, ref: str = "main", *, name: str = NAME, **options: Any) -> GitSource:
        """Return the source of a ref of a repository of the server."""
        uri = git_uri(self.server.address(name, ref))
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), **self.server.environ}
        direct = DirectRunner(environ)
        options = {"environ": environ, "cache": self.cache, **options}
        return GitSource(uri, options.pop("cache"), self.runner, direct=direct, **options)

    def change(self, answer: str = "'hello again'", files: Mapping[str, str | bytes] | None = None) -> str:
        """Commit another version and return its commit."""
        return self.origin.commit({**module_files(NAME, answer=answer), **(files or {})})

    def check_good(self) -> None:
        """Fail unless the good commit is still there, all that is in the cache is sound, and nothing half-made is."""
        self.server.forget()
        entry = self.source(offline=True).fetch(self.good)
        assert entry.digest == self.tree and (entry.root / "pyproject.toml").is_file()
        assert not self.server.requests
        assert self.cache.upkeep.verify() == ()
        assert not list((self.cache.folder / "tmp").iterdir())


def begin(server: GitServer, folder: Path, cache: SourceCache, runner: CommandRunner) -> Ground:
    """Make a repository, and have its first commit in the cache."""
    origin = module_repository(server.folder / NAME)
    ground = Ground(server, origin, cache, runner, folder / "home", origin.head())
    ground.home.mkdir()
    ground.tree = ground.source().fetch(ground.good).digest
    server.forget()
    return ground
