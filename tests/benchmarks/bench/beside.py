"""Measures a commit in turns with this tree, and compares the two row by row.

The commit is a git worktree below `.bench/beside`, with an environment of its own, and runs its own benchmarks: what
those reach into may have changed since. Both stay there for the next time. A machine is slower at one time than at
another, so a ratio is that of two runs that follow one another. Which of them comes first changes with each round.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.report import aligned, figure

ROUNDS: Final = 5
_RUN_SECONDS: Final = 700  # of one part; it has a bound of its own before
_BUILD_SECONDS: Final = 600
_FORMER: Final = {"answers of a model": "a model's answer"}  # the names of parts in commits before they were renamed
_HEAD: Final = ("what", "this tree", "", "unit", "ratio", "spread")

#: Of one run, the figure and the unit of each row, by its name.
Figures = Mapping[str, tuple[float, str]]


class NotBuilt(Exception):
    """Raised for a commit that is not there, or whose environment cannot be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A checkout and the interpreter that runs its benchmarks."""

    name: str
    folder: Path
    python: Path

    @classmethod
    def built(cls, revision: str, root: Path) -> Tree:
        """Return the tree of a commit of the repository at `root`, made if it was never measured before.

        Raises:
            NotBuilt: there is no such commit, or its environment cannot be made.
        """
        folder = checked_out(revision, root)
        environment = folder / ".venv"
        python, stamp = environment / "bin" / "python", environment / "complete"
        if not stamp.exists():
            print(f"setting up {environment}", file=sys.stderr, flush=True)
            _done([sys.executable, "-m", "venv", "--clear", str(environment)], folder)
            install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _done([str(python), *install, "--editable", ".[dev]"], folder)
            stamp.touch()
        return cls(folder.name, folder, python)

    def run(self, part: str) -> Figures:
        """Return what one part finds now; nothing where it fails, which is printed."""
        results = self.folder / ".bench" / "results.json"
        results.unlink(missing_ok=True)
        program = self.folder / "tests" / "benchmarks" / "run.py"
        name = part if f'"{part}"' in program.read_text() else _FORMER.get(part, part)
        command = [self.python, program, name]
        environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environ, capture_output=True, encoding="utf-8", timeout=_RUN_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            print(f"{part} in {self.folder}: {error}", file=sys.stderr, flush=True)
            return {}
        rows: list[dict[str, Any]] = json.loads(results.read_text())["rows"] if results.exists() else []
        if done.returncode != 0:
            print(f"{part} failed in {self.folder}:\n{done.stderr}", file=sys.stderr, flush=True)
        return {row["what"]: (row["ours"], row["unit"]) for row in rows if "ours" in row}


def checked_out(revision: str, root: Path) -> Path:
    """Return the folder of a git worktree with a commit, which is named after it.

    Raises:
        NotBuilt: there is no such commit, or it cannot be checked out.
    """
    commit = _done(["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"], root)
    folder = root / ".bench" / "beside" / commit[:12]
    if not folder.exists():
        # Forced, as git still knows a folder that was removed by hand.
        _done(["git", "worktree", "add", "--force", "--detach", str(folder), commit], root)
    return folder


def _done(command: Sequence[str], folder: Path) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", timeout=_BUILD_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise NotBuilt(str(error)) from error
    if done.returncode != 0:
        raise NotBuilt(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def compare(here: Tree, there: Tree, parts: Sequence[str], rounds: int = ROUNDS) -> str:
    """Return a table with the rows of these parts, measured in both trees in turns."""
    lines: list[tuple[str, ...]] = []
    apart: list[str] = []
    for part in parts:
        found: dict[str, list[Figures]] = {here.name: [], there.name: []}
        for number in range(rounds):
            for tree in (here, there) if number % 2 else (there, here):
                print(f"{part}, {number + 1} of {rounds}: {tree.name}", file=sys.stderr, flush=True)
                found[tree.name].append(tree.run(part))
        ours, theirs = found[here.name], found[there.name]
        lines += _rows(ours, theirs)
        apart += [f"only in this tree: {name.strip()}" for name in _names(ours) if name not in _names(theirs)]
        apart += [f"only in {there.name}: {name.strip()}" for name in _names(theirs) if name not in _names(ours)]
    return "\n".join([aligned((*_HEAD[:2], there.name, *_HEAD[3:]), lines), *apart])


def _names(runs: Sequence[Figures]) -> Sequence[str]:
    return list(dict.fromkeys(name for run in runs for name in run))


def _rows(ours: Sequence[Figures], theirs: Sequence[Figures]) -> Iterator[tuple[str, ...]]:
    for name in _names(ours):
        pairs = [
            (one[name][0], other[name][0])
            for one, other in zip(ours, theirs, strict=True)
            if name in one and name in other
        ]
        if not pairs:
            continue
        unit = next(one[name][1] for one in ours if name in one)
        ratios = [mine / other for mine, other in pairs if other]
        shown = (f"{median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}") if ratios else ("", "")
        yield (name, *(figure(median(one)) for one in zip(*pairs, strict=True)), unit, *shown)
