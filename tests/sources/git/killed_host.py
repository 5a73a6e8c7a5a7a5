"""A host that pins a source, and kills itself before or after a git command, or at a stage of the cache.

Its arguments are the cache, the address of the source, what it dies at, and when: `before`, `after` or `stage`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from paddock_sources import GitUri, parse_source
from paddock_sources.cache import SourceCache
from paddock_sources.commands.command_runner import CommandRunner
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.git.git_source import GitSource
from sources.git.watched_runner import WatchedRunner


def main(commands: CommandRunner) -> None:
    cache, address, doom, when = sys.argv[1:]

    def end(at: str) -> None:
        if at == doom:
            os.kill(os.getpid(), signal.SIGKILL)

    runner = WatchedRunner(commands)
    setattr(runner, when, end)
    uri = parse_source(address)
    assert isinstance(uri, GitUri)
    with SourceCache(Path(cache), stage=end) as kept:
        GitSource(uri, kept, runner, direct=DirectRunner(), environ={}).pin()
