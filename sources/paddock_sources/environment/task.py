"""Where uv and our own programs choose, fetch, unpack and compile packages, and what their failures mean.

A program runs in a `CommandSession`. One that is given strangers' packages reaches the index at most. Nothing of a
package is executed: all packages are wheels.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from paddock_sources.commands.command_runner import (
    CommandAccess,
    CommandError,
    CommandResult,
    CommandRunner,
    CommandSession,
)
from paddock_sources.environment.errors import InstallerError
from paddock_sources.environment.index import Index
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.errors import SourceError
from paddock_sources.progress import Phase, Progress, ProgressStep

RESOLVE_SECONDS = 300.0
INSTALL_SECONDS = 1800.0  # of wheels that may be gigabytes
_COMPILE_SECONDS = 300.0
_COMPILE_SITE = Path(__file__).resolve().with_name("compile_site.py")
_REPORT_LINES = 12
_LINE_LENGTH = 400
_PROGRESS = ("fetched ", "unpacked ", "npm http ")
_REFUSED = re.compile(r"\b(?:401|403|407)\b|unauthori[sz]ed|forbidden", re.IGNORECASE)
_UNREACHABLE = re.compile(
    r"failed to fetch|error sending request|client error|dns error|connection refused|timed out|certificate|"
    r"could not connect|http error 5\d\d|status code 5\d\d|server error|no connection to",
    re.IGNORECASE,
)
_CERTIFICATE = re.compile(r"certificate|UnknownIssuer", re.IGNORECASE)
_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_HASHES = re.compile(r"hash mismatch|integrity checksum failed", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Task:
    """The workplace of a program: `folder` is its scratch, `downloads` is kept between runs."""

    attempted: str
    phase: Phase
    subject: str
    index: Index
    python: Interpreter
    folder: Path
    cache_folder: Path
    downloads: Path
    session: CommandSession
    progress: Progress

    def write(self, name: str, lines: Iterable[str]) -> Path:
        """Write a file of lines into the scratch folder."""
        path = self.folder / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        total: int = 0,
        counts: Callable[[str], bool] = lambda line: False,
    ) -> CommandResult:
        """Run one command, reporting progress for each line that `counts`."""
        done = 0

        def on_stderr(line: str) -> None:
            nonlocal done
            if counts(line):
                done += 1
                self.progress.step(ProgressStep(self.subject, self.phase, min(done, total or done), total, "packages"))

        self.progress.step(ProgressStep(self.subject, self.phase, 0, total, "packages"))
        return self.session.run(argv, stdin=stdin, on_stderr=on_stderr, timeout=timeout)

    def report(self, result: CommandResult) -> tuple[str, ...]:
        """Return the end of a command's error output, fit to be shown."""
        stderr = self.index.without_secrets(result.stderr.decode("utf-8", "replace"))
        told = (line for line in stderr.splitlines() if not line.startswith(_PROGRESS))
        lines = [line.rstrip()[:_LINE_LENGTH] for line in told]
        return tuple(filter(str.strip, lines))[-_REPORT_LINES:]

    def failure(self, result: CommandResult) -> SourceError:
        """Return the error for a command that failed in a way that every program may."""
        from paddock_sources.cache import CacheError

        report = self.report(result)
        lines = result.stderr.decode("utf-8", "replace").splitlines()
        stderr = "\n".join(line for line in lines if not line.startswith(_PROGRESS))  # which has names of wheels
        if full := _FULL.search(stderr):
            return CacheError.disk_full(self.cache_folder, full[0].lower())
        if _HASHES.search(stderr):
            return InstallerError.hash_mismatch(self.attempted, report=report)
        if result.refused:
            hosts = ", ".join(f'"{host}"' for host in result.refused)
            return InstallerError(
                self.attempted,
                f"the index at {self.index.shown} sent it to {', '.join(result.refused)}, which is none of its hosts",
                code="IndexAccessError",
                report=report,
                hints=[f"if it serves the files, write `hosts = [{hosts}]` under {self.index.table} in `sources.toml`"],
            )
        if _REFUSED.search(stderr):
            return InstallerError(
                self.attempted,
                f"the index at {self.index.shown} did not let us in",
                code="IndexAccessError",
                report=report,
                hints=[self.index.if_closed],
            )
        if _UNREACHABLE.search(stderr):
            hints = ["check the connection, and the address of the index; what is in the cache works with `--offline`"]
            if _CERTIFICATE.search(stderr):
                hints.insert(0, "authorities of your own are named by the variable SSL_CERT_FILE")
            return InstallerError(
                self.attempted,
                f"the index at {self.index.shown} could not be reached",
                code="IndexAccessError",
                report=report,
                hints=hints,
            )
        ended = f"its program ended with {result.code}" if result.code >= 0 else "its program was killed"
        return InstallerError(self.attempted, ended, report=report)


def compile_code(site: Path, runner: CommandRunner, python: Interpreter) -> None:
    """Compile a clean site, in a session that reaches nothing else: the compiler reads strangers' code.

    If that fails or takes too long, nothing compiled is in it, and each start of a module compiles what it imports.
    """
    access = CommandAccess(name="python", reads=(_COMPILE_SITE, *python.prefixes), writes=(site,))
    argv = (str(python.path), "-I", "-S", "-B", "-W", "ignore", str(_COMPILE_SITE), str(site))
    try:
        with runner.open(access) as session:
            is_done = session.run(argv, timeout=_COMPILE_SECONDS).code == 0
    except CommandError:
        is_done = False
    for folder in () if is_done else list(site.rglob("__pycache__")):
        if folder.is_dir():
            shutil.rmtree(folder)
