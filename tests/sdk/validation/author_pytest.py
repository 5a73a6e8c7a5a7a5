"""A pytest of its own, as a module's author runs it, without configuration; what happened, as data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree  # of a report that this very run has written

import amplifier_core

from support.plain_pytest import PLAIN
from support.warm_pytest import WarmPytest

__all__ = ["Outcome", "Run", "STAND_IN", "warm_pytest", "run_pytest"]

# What modules and the contract are made of; the contract itself is loaded by each run.
_IMPORTED = ("asyncio", "concurrent.futures.thread", "pydantic.fields", "typing_extensions")
STAND_IN = Path(amplifier_core.__file__).parents[1]


@dataclass(frozen=True)
class Outcome:
    """How one test ended: "passed", "failure", "error" or "skipped", and with what words."""

    file: str
    name: str
    word: str
    text: str


@dataclass(frozen=True)
class Run:
    """What came of one run."""

    outcomes: Sequence[Outcome]
    output: str

    def of(self, folder: Path) -> list[Outcome]:
        """Return what came of the tests in a folder."""
        return [outcome for outcome in self.outcomes if f"{folder.name}." in f"{outcome.file}."]


def warm_pytest() -> WarmPytest:
    """Return the process that becomes the runs."""
    return WarmPytest(_IMPORTED)


def run_pytest(
    process: WarmPytest, folder: Path, *arguments: str, path: str | None = None, autoload: bool = True
) -> Run:
    """Run pytest in a folder."""
    report = folder / "report.xml"
    environment = {"PYTHONPATH": path or f"{STAND_IN}:{STAND_IN.parents[1]}", "PATH": os.environ["PATH"]}
    if not autoload:
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = ["-c", os.devnull, f"--rootdir={folder}", f"--junitxml={report}"]
    # Test files share their names; and what pytest-asyncio says of a setting nobody made is not about the module.
    command += ["--import-mode=importlib", "--strict-markers", "-p", "no:cacheprovider", *PLAIN]
    # Without it, pytest makes a folder among those of all runs on the machine, and removes the oldest of them.
    command += [f"--basetemp={folder}.temporary"]
    command += ["-W", "error", "-W", "ignore:The configuration option", "-W", "ignore:Module already imported"]
    ended = process.run_in(folder, [*command, *arguments], environment)
    output = ended.stdout + ended.stderr
    assert report.exists(), output
    cases = ElementTree.parse(report).getroot().iter("testcase")
    return Run([_outcome(case) for case in cases], output)


def _outcome(case: ElementTree.Element) -> Outcome:
    end = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
    word = "passed" if end is None else end.tag
    text = "" if end is None else f"{end.get('message')}\n{end.text}"
    return Outcome(case.get("classname", ""), case.get("name", ""), word, text)
