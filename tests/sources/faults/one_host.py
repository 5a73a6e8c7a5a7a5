"""A host of its own: lock and provide the modules that are named, and say what they are.

With the arguments CACHE INDEX STAGE ADDRESS… it prints a line of JSON; at STAGE it kills itself. One is one of the
cache's own, or `before fetch`, `after fetch` and so on for each command of git, of uv and of ours.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paddock_sources import parse_source
from paddock_sources.cache import SourceCache
from paddock_sources.commands.command_runner import CommandAccess, CommandResult, CommandRunner, CommandSession
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.provisioner import Provisioner
from paddock_sources.settings import IndexSettings, SourceSettings
from sources.provisioners import provisioner_of

_VERBS = ("fetch", "ls-remote", "ls-tree", "cat-file", "for-each-ref", "compile")


class _Doomed:
    """Tells of each command, before and after it."""

    def __init__(self, runner: CommandRunner, reached: Any) -> None:
        self._runner = runner
        self._reached = reached

    @contextmanager
    def open(self, reach: CommandAccess) -> Iterator[CommandSession]:
        with self._runner.open(reach) as session:
            yield _DoomedSession(session, self._reached)


class _DoomedSession(CommandSession):
    def __init__(self, session: CommandSession, reached: Any) -> None:
        super().__init__("doomed")
        self._session = session
        self._reached = reached

    def run(self, argv: Sequence[str], **options: Any) -> CommandResult:
        what = next(
            (word for word in argv if word in _VERBS), Path(argv[-1]).stem
        )  # of git or uv, or a program of ours
        self._reached(f"before {what}")
        finished = self._session.run(argv, **options)
        self._reached(f"after {what}")
        return finished


def provisioner(cache: SourceCache, index: str, runner: CommandRunner, **options: Any) -> Provisioner:
    """Return what a host provides modules with, for packages of the index at that address."""
    host = index.removeprefix("http://").partition("/")[0]
    settings = SourceSettings(index=IndexSettings(index, (host,)))
    return provisioner_of(cache, runner, DirectRunner(), environ=os.environ, settings=settings, **options)


def main(commands: CommandRunner) -> None:
    folder, index, doom, *addresses = sys.argv[1:]

    def reached(stage: str) -> None:
        if stage == doom:
            os.kill(os.getpid(), signal.SIGKILL)

    told = []
    with SourceCache(Path(folder), stage=reached) as cache:
        made = provisioner(cache, index, _Doomed(commands, reached))
        for address in addresses:
            uri = parse_source(address)
            locked = made.lock(uri)
            module_id = made.supply(uri).module_ids(uri, locked)[0]
            resolution = made.provide(uri, module_id, locked)
            for place in (resolution.package_dir / "__init__.py", *resolution.libraries):
                assert place.exists(), place
            told.append([uri.key(Path("/")), resolution.commit, resolution.tree, len(resolution.libraries)])
    print(json.dumps(told))
