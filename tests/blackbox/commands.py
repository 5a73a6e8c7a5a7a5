"""Run `paddock` commands in folders of their own, and show what they did without what differs between two runs.

What differs is replaced by a word in angle brackets: folders, ids, times, durations, memory, and digests of plans, as
plans contain folders. All else is kept as it is.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from integration.warm_commands import WarmCommands

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
_SECONDS = 200  # for one command; hit only by a hang
_USAGE = 2  # the exit code of a command that cannot be read
_COLUMNS = "1000"  # wide enough that nothing is broken into lines, however long the path of a folder is
_GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (
        ("NAME", "somebody"), ("EMAIL", "somebody@example.org"), ("DATE", "2026-01-01T00:00:00Z"))},
}  # fmt: skip

# By key of a JSON object: what of it is never the same twice.
_MEASURED = {
    "uptime",
    "peak_memory_bytes",
    "cpu_seconds",
    "calls",
    "pid",
    "prev",
    "seq",
    "uid",
    "digest",
    "observed",
    "bytes",
    "files",
    "made_at",
}
_OF_EACH_LINE = {"seq", "uid", "pid", "prev"}  # of the audit log
# In a traceback: where Python's own files lie, and what is in their lines, differ between machines and versions.
_LIBRARY_FRAMES = re.compile(
    r'(?:^(?:DEBUG paddock: )?  File "[^"\n]*/lib/python3\.\d+/[^"\n]*", line \d+, in [^\n]*\n'
    r"(?:(?:DEBUG paddock: )?    [^\n]*\n)*)+",
    re.MULTILINE,
)
_PATTERNS = (
    (_LIBRARY_FRAMES, "<frames of the standard library>\n"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\b20(?!26-01-01)\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00| UTC)?"), "<time>"),
    (re.compile(r"\baccepted on 20\d\d-\d\d-\d\d\b"), "accepted on <day>"),
    (re.compile(r"\b(after|took) \d+(\.\d+)? (ms|s)\b"), r"\1 <seconds>"),
    (re.compile(r"\b\d+\.\d+ s of processor time, (.*), \d+ calls?,"), r"<seconds> of processor time, \1, <calls>,"),
    (re.compile(r"\bgit-v1/[0-9a-f]{64}"), "git-v1/<digest of the address>"),
    (re.compile(r"\b\d+ of \d+ objects"), "<count> objects"),
    (re.compile(r"\(sha256 [0-9a-f]{12}\)"), "(sha256 <digest>)"),
    (re.compile(r"\b\d+(\.\d+)? [KM]iB\b"), "<size>"),
    (re.compile(r"\bPython 3\.\d+(\.\d+)?"), "Python <version>"),
)


class World:
    """A home, a working directory and a repository for some commands, all in one folder."""

    def __init__(self, commands: WarmCommands, folder: Path) -> None:
        self._commands = commands
        self.folder = Path(os.path.realpath(folder))
        self.home, self.work, self.repo = (self.folder / name for name in ("home", "work", "repo"))
        for path in (self.home, self.work, self.folder / "tmp"):
            path.mkdir(parents=True)

    @property
    def state(self) -> Path:
        """What sessions leave for later."""
        return self.home / ".local/state/paddock"

    @property
    def config(self) -> Path:
        """The user's configuration."""
        return self.home / ".config/paddock"

    @property
    def cache(self) -> Path:
        """What was fetched."""
        return self.home / ".cache/paddock"

    def write(self, name: str, text: str) -> Path:
        """Write a file below this world's folder, with `<root>` and `<modules>` in its text replaced."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.filled(text), encoding="utf-8")
        return path

    def filled(self, text: str) -> str:
        """Return a text with the names of folders for `<root>` and `<modules>`."""
        return text.replace("<root>", str(self.folder)).replace("<modules>", str(self.folder / "modules"))

    def with_modules(self) -> Self:
        """Put the suite's own modules into the folder `modules` beside the working directory's."""
        shutil.copytree(HERE / "modules", self.work / "modules", ignore=shutil.ignore_patterns("__pycache__"))
        return self

    def with_repository(self) -> Self:
        """Make a git repository of one of the suite's modules, whose commits are the same each time."""
        source = HERE / "modules/amplifier-module-tool-acts"
        shutil.copytree(source, self.repo, ignore=shutil.ignore_patterns("__pycache__"))
        for path in (self.repo, *self.repo.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        self.git("init", "-q", "-b", "main")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "one")
        self.git("tag", "v1")
        return self

    def git(self, *args: str) -> None:
        """Run git in the repository."""
        subprocess.run(["git", *args], cwd=self.repo, env={**os.environ, **_GIT}, check=True, timeout=_SECONDS)

    def run(self, *args: str, stdin: str = "", environ: Mapping[str, str] | None = None) -> Finished:
        """Run a command in the working directory to its end."""
        args = tuple(map(self.filled, args))
        with _usual_umask():
            done = self._commands.run(args, stdin, self.work, self._environ(environ))
        return Finished(self, args, done.returncode, done.stdout, done.stderr)

    def run_on_terminal(
        self, *args: str, answer: str, after: str, environ: Mapping[str, str] | None = None
    ) -> Finished:
        """Run a command on a terminal, and type `answer` once `after` is shown."""
        args = tuple(map(self.filled, args))
        master, slave = pty.openpty()
        with _usual_umask():
            command = self._commands.begin(
                args, [slave] * 3, self.work, self._environ({"TERM": "dumb", **(environ or {})}), on_terminal=True
            )
        os.close(slave)
        shown, has_answered = "", False
        while True:
            assert select.select([master], [], [], _SECONDS)[0], f"nothing more came: {shown}"
            try:
                data = os.read(master, 65536)
            except OSError:  # the command has ended
                break
            shown += data.decode(errors="replace")
            if not has_answered and after in shown:
                has_answered = True
                os.write(master, answer.encode())
        os.close(master)
        return Finished(self, args, command.wait(_SECONDS), shown.replace("\r\n", "\n"), "")

    def _environ(self, environ: Mapping[str, str] | None) -> dict[str, str]:
        own = {
            "HOME": str(self.home), "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8", "TZ": "UTC",
            "COLUMNS": _COLUMNS, "NO_COLOR": "1", "TMPDIR": str(self.folder / "tmp"), **_GIT,
        }  # fmt: skip
        return {**own, **(environ or {})}

    def audit(self) -> list[dict[str, Any]]:
        """Return the lines of the audit log, those of one session and event in the order of their text.

        Without what each line has to tell its place among the others, and whose it is.
        """
        path = self.state / "audit.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        told = [{k: v for k, v in json.loads(line).items() if k not in _OF_EACH_LINE} for line in lines]
        order = {session: number for number, session in enumerate(dict.fromkeys(line["session"] for line in told))}
        shown = [(order[line["session"]], self.shown(line)) for line in told]
        # Modules start and end side by side.
        return [line for _, line in sorted(shown, key=lambda one: (one[0], json.dumps(one[1], sort_keys=True)))]

    def shown(self, value: Any, key: str = "") -> Any:
        """Return a JSON value without what differs between two runs."""
        if isinstance(value, dict):
            if value.get("reason") == "start" and "signal" in value:  # it ends by itself, or is killed before it does
                value = {**value, "code": "<code>", "signal": "<signal>"}
            return {self.shown(name): self.shown(item, name) for name, item in value.items()}
        if key == "stderr_tail" and value:
            return self.shown("".join(f"{line}\n" for line in value)).splitlines()
        if isinstance(value, list):
            return [self.shown(item) for item in value]
        if key in _MEASURED and value != "":
            return f"<{key}>"
        if isinstance(value, str):
            if value.startswith("[{"):  # what a tool returned, as text
                with suppress(ValueError):
                    return json.dumps(self.shown(json.loads(value)))
            for place, name in ((str(self.folder), "<root>"), (str(REPOSITORY), "<repository>")):
                value = value.replace(place, name)
            for pattern, name in _PATTERNS:
                value = pattern.sub(name, value)
        return value


class Finished:
    """What a command did."""

    def __init__(self, world: World, args: Sequence[str], code: int, stdout: str, stderr: str) -> None:
        self._world = world
        self.args = args
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    @property
    def json(self) -> Any:
        """The one JSON value on stdout."""
        return json.loads(self.stdout)

    def shown(self) -> dict[str, Any]:
        """Return what the command did without what differs between two runs; JSON as what it says."""
        stdout: Any = self.stdout
        if "--json" in self.args and self.stdout:
            stdout = self.json
        value = {"args": [*self.args], "code": self.code, "stdout": stdout, "stderr": self.stderr}
        shown: dict[str, Any] = self._world.shown(value)
        for stream in ("stdout", "stderr"):
            if isinstance(shown[stream], str):
                shown[stream] = [line.rstrip() for line in shown[stream].splitlines()]
        if self.code == _USAGE:  # the lines before are click's, and differ between its versions
            shown["stderr"] = shown["stderr"][-1:]
        return shown


@contextmanager
def _usual_umask() -> Iterator[None]:
    """Have a command begin with the umask of most people: the modes of files are frozen."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)
