"""The packages of one server: chosen and fetched by npm, verified and unpacked by the host.

npm runs in a sandbox that reaches the registry and one folder. It runs no script, takes nothing from git, and installs
nothing: it leaves a `package-lock.json`, and archives under the hashes of their content. Both are untrusted. The host
hashes each archive and unpacks it from memory, so that the tree in the cache is what the archives hold, and no more.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paddock_sources.commands.command_runner import CommandAccess, CommandRunner
from paddock_sources.environment.builder import at_work
from paddock_sources.environment.errors import InstallerError
from paddock_sources.environment.index import Index
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.task import INSTALL_SECONDS, Task
from paddock_sources.errors import NotFetchedError
from paddock_sources.lock.locked_module import LockedDependency
from paddock_sources.npm.package_files import read_package_lock, refused, this_machine
from paddock_sources.npm.tarball import TREE_CAPS, Unpacker
from paddock_sources.progress import Progress
from paddock_sources.tree import SourceTree

if TYPE_CHECKING:
    from paddock_sources.cache import SourceCache, TreeEntry
    from paddock_sources.cache.tree_writer import TreeWriter

_MAX_LOCK_BYTES: Final = 16 << 20
_MAX_ARCHIVE_BYTES: Final = 256 << 20
_FETCHED: Final = re.compile(r"npm http fetch GET 200 \S+\.tgz\b")
_ABSENT: Final = re.compile(r"npm (?:error|ERR!) code (?:E404|ETARGET)")
_FROM_GIT: Final = re.compile(r"ls-remote (\S{1,300})")
_SETTINGS: Final[Mapping[str, str]] = {
    "audit": "false",
    "fetch_retries": "1",
    "fetch_retry_mintimeout": "1000",  # milliseconds
    "fund": "false",
    "git": "/bin/false",
    "ignore_scripts": "true",
    "loglevel": "http",
    "logs_max": "0",
    "progress": "false",
    "update_notifier": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmPackages:
    """Gets the packages of the server in the package `name`, with the script `npm`, which `node` runs."""

    name: str
    cache: SourceCache
    runner: CommandRunner
    node: Path
    npm: Path
    registry: Index
    progress: Progress

    def choose(self, version: str) -> tuple[LockedDependency, ...]:
        """Return the package at a version, or the one with that tag, and all that it needs.

        Raises:
            SourceError: there is no such choice, one of them is refused, or it cannot be had.
        """
        with self._at_work() as task:
            return self._chosen(task, version)

    def lock(self, version: str) -> tuple[tuple[LockedDependency, ...], TreeEntry]:
        """Return what `choose` returns, and the tree of it; raises as `choose` does."""
        with self._at_work() as task:
            packages = self._chosen(task, version)
            return packages, self._tree(task, packages)

    def fetch(self, packages: Sequence[LockedDependency]) -> TreeEntry:
        """Return the tree of packages that are locked.

        Raises:
            SourceError: one of them cannot be had, or is not what was locked.
        """
        try:
            with self._at_work() as task:
                return self._tree(task, packages)
        except NotFetchedError as error:
            raise error.of_packages([f"{one.name} {one.version}" for one in packages], is_locked=True) from error

    def _at_work(self) -> AbstractContextManager[Task]:
        settings = {**_SETTINGS, "registry": self.registry.url, "cafile": str(self.registry.ca_file or "")}
        access = CommandAccess(
            "npm",
            reads=(self.node, self.npm.parent.parent),
            environ={f"npm_config_{key}": value for key, value in settings.items()},
            written_bytes=_MAX_ARCHIVE_BYTES,
        )
        return at_work(
            access,
            self.cache,
            self.runner,
            self.registry,
            Interpreter.this(),
            self.progress,
            self.name,
            "resolving dependencies of",
            keeps_downloads=False,
        )

    def _chosen(self, task: Task, version: str) -> tuple[LockedDependency, ...]:
        task.write("package.json", [json.dumps({"private": True, "dependencies": {self.name: version}})])
        self._run(task, "install", "--package-lock-only", "--prefix", str(task.folder))
        # Printed in the sandbox: there its place may be a link, which leads to what npm may read.
        printed = ["/bin/cat", str(task.folder / "package-lock.json")]
        content = task.session.run(printed, max_stdout_bytes=_MAX_LOCK_BYTES).stdout
        return read_package_lock(content, self.registry, this_machine())

    def _tree(self, task: Task, packages: Sequence[LockedDependency]) -> TreeEntry:
        wanted = dict.fromkeys(f"{one.name}@{one.version}" for one in packages)
        self._run(replace(task, phase="fetching"), "cache", "add", *wanted, total=len(wanted))
        unpack = partial(self._unpack, SourceTree(task.folder), packages)
        return self.cache.trees.add_tree(unpack, {"packages": [*wanted]}, TREE_CAPS)

    def _run(self, task: Task, *argv: str, total: int = 0) -> None:
        # Only the settings of sources count: there are no files of npm's own in the scratch folder.
        places = [f"--{name}={task.folder / name}" for name in ("cache", "userconfig", "globalconfig")]
        command = [str(self.node), str(self.npm), *places, *argv]
        is_fetched = _FETCHED.match
        result = task.run(command, timeout=INSTALL_SECONDS, total=total, counts=lambda line: bool(is_fetched(line)))
        printed = result.stderr.decode("utf-8", "replace")
        from_git = _FROM_GIT.search(printed)
        if from_git is not None:
            raise refused(from_git[1], "it is a repository, and not a package of the registry")
        if result.code != 0 and _ABSENT.search(printed):
            raise InstallerError(
                task.attempted,
                f"the registry at {self.registry.shown} has no such package, or not in that version",
                code="UnsolvableError",
                report=task.report(result),
                hints=["look for its name and its versions at the registry"],
            )
        if result.code != 0:
            raise task.failure(result)

    def _unpack(
        self,
        left: SourceTree,
        packages: Sequence[LockedDependency],
        tree: TreeWriter,
    ) -> None:
        """Write the archives that npm left into a tree, each once it is known to be the locked one."""
        unpacker = Unpacker(tree)
        for package in packages:
            digest = package.hashes[0].partition(":")[2]  # which also decides what may be read at all
            path = f"cache/_cacache/content-v2/sha512/{digest[:2]}/{digest[2:4]}/{digest[4:]}"
            content = left.read(path, limit_bytes=_MAX_ARCHIVE_BYTES)
            if content is None or hashlib.sha512(content).hexdigest() != digest:
                attempted = f"fetching `{package.name}` {package.version}"
                raise InstallerError.hash_mismatch(attempted, report=[f"locked: {package.hashes[0]}"])
            unpacker.unpack(content, package.path)
