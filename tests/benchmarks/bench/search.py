"""`grep` of tool-search in a sandboxed worker, over many files, beside the programs themselves."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench.row import NotMeasured, Row, Target
from bench.sampling import Effort, interleave
from paddock import Session
from paddock.errors import ModuleMissingError

_MODULE: Final = Path(__file__).resolve().parents[3] / "modules" / "tool-search"
_FILES: Final = 10_000
_IN_FOLDER: Final = 100
_LINES: Final = 40
_ONE_IN: Final = 100  # files that have the word
_ROUNDS: Final = 12
_WORD: Final = "needle"
_SEED: Final = 5


async def measure_search(effort: Effort) -> list[Row]:
    """Measure one search for a word that one file in a hundred has, with ripgrep granted and without."""
    ripgrep = shutil.which("rg", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if ripgrep is None:
        raise NotMeasured("there is no `rg` beside the interpreter or on the path")
    files = effort.of(_FILES, 500)
    with tempfile.TemporaryDirectory() as made:
        _write_tree(Path(made), files)
        try:
            return await _measure(Path(made), files, ripgrep, effort)
        except ModuleMissingError as error:
            raise NotMeasured(f"what tool-search depends on cannot be had: {error}") from error


async def _measure(tree: Path, files: int, ripgrep: str, effort: Effort) -> list[Row]:
    async def program(*command: str) -> list[float]:
        before = time.perf_counter()
        subprocess.run([*command, _WORD, "."], cwd=tree, stdout=subprocess.DEVNULL, check=True)
        return [(time.perf_counter() - before) * 1000]

    async def tool(session: Session) -> list[float]:
        before = time.perf_counter()
        result = await session.coordinator.get("tools", "grep").execute({"pattern": _WORD, "output_mode": "content"})
        taken = (time.perf_counter() - before) * 1000
        if not result.success or result.output["matching_lines"] != -(-files // _ONE_IN):
            raise RuntimeError(f"the search found something else: {result}")
        return [taken]

    helped, alone = (Session(_plan(run), trust_plan=True, working_dir=tree) for run in ([ripgrep], []))
    async with helped, alone:
        cases = {
            "helped": lambda: tool(helped),
            "alone": lambda: tool(alone),
            "rg": lambda: program(ripgrep, "--line-number"),
            "grep": lambda: program("grep", "-rn"),
        }
        samples = await interleave(cases, effort.of(_ROUNDS))
    told = f"over {files} files"
    return [
        Row.compared(
            f"grep {told}, with ripgrep, to ripgrep itself",
            "A search by tool-search in its sandbox, which may run ripgrep, beside ripgrep run by the host.",
            "ms",
            samples,
            ("helped", "rg"),
            Target(1.3),
        ),
        Row.compared(
            f"  grep {told}, without, to the program grep",
            "The same search where the tool may run nothing, beside the system's grep.",
            "ms",
            samples,
            ("alone", "grep"),
        ),
    ]


def _plan(run: list[str]) -> dict[str, Any]:
    permissions = {"read": ["."], "run": run}
    return {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock"}],
        "tools": [{"module": "tool-search", "source": str(_MODULE), "permissions": permissions}],
    }


def _write_tree(folder: Path, files: int) -> None:
    chance = random.Random(_SEED)
    words = ["".join(chance.choices("abcdefghij", k=6)) for _ in range(2000)]
    for number in range(files):
        place = folder / f"folder{number // _IN_FOLDER}" / f"file{number}.py"
        place.parent.mkdir(exist_ok=True)
        lines = [" ".join(chance.choices(words, k=8)) for _ in range(_LINES)]
        if number % _ONE_IN == 0:
            lines[_LINES // 2] += f" {_WORD}"
        place.write_text("\n".join(lines) + "\n")
