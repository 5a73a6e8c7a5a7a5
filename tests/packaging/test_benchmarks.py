"""The benchmarks go on after a part that fails, and say so; what a machine lacks is no failure."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

_BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    before = list(sys.path)
    sys.path.insert(0, str(_BENCHMARKS))
    names = ("beside", "history", "parts", "published", "report", "row", "sampling")
    yield SimpleNamespace(**{name: import_module(f"bench.{name}") for name in names})
    sys.path[:] = before
    for name in [name for name in sys.modules if name == "bench" or name.startswith("bench.")]:
        del sys.modules[name]


async def test_a_failing_part_does_not_stop_the_others(bench: SimpleNamespace, tmp_path: Path) -> None:
    async def failing(effort: Any) -> list[Any]:
        raise RuntimeError("the tool did not answer")

    async def lacking(effort: Any) -> list[Any]:
        raise bench.row.NotMeasured("no package index")

    async def good(effort: Any) -> list[Any]:
        return [bench.row.Row("a call", "One that a test makes up.", "us", effort.of(30), target=bench.row.Target(1))]

    parts = {"first": failing, "second": lacking, "third": good}
    found = await bench.parts.run_parts(parts, bench.sampling.Effort.QUICK, 60)
    table = bench.report.table(found, {})
    assert "first   ERROR: RuntimeError: the tool did not answer" in table
    assert "second  not measured: no package index" in table
    assert table.endswith("MISSED\n    One that a test makes up.")
    assert bench.report.summary(found).splitlines() == [
        "1 missed: a call: 2.00, target <= 1.",
        "1 not measured: second.",
        "1 failed: first.",
    ]
    bench.report.write_json(found, tmp_path / "results.json")
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert [row.get("error") or row.get("not measured") or row["ours"] for row in rows] == [
        "RuntimeError: the tool did not answer",
        "no package index",
        2,
    ]


def test_each_run_is_a_line_and_the_last_figure_is_shown(bench: SimpleNamespace, tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    assert not bench.history.last_recorded(path)

    def row(ratio: float | None, what: str = "  a call") -> Any:
        return bench.row.Row(what, "One that a test makes up.", "us", 40.0, 20.0, ratio, bench.row.Target(3))

    bench.history.record([row(1.5), row(None, "a start"), bench.row.Gap("lost", "gone", is_error=True)], path)
    bench.history.record([row(2.0)], path)
    assert path.read_text().count("\n") == 4
    last = bench.history.last_recorded(path)
    assert last == {"a call": 2.0, "a start": 40.0}
    shown = bench.report.table([row(2.5)], last).splitlines()
    assert shown[0].split() == ["what", "ours", "reference", "unit", "ratio", "target", "last"]
    assert shown[2].split() == ["a", "call", "40.0", "20.0", "us", "2.50", "<=", "3", "met", "2.00"]


async def test_a_part_that_hangs_ends_with_the_time_of_all(bench: SimpleNamespace) -> None:
    async def hanging(effort: Any) -> list[Any]:
        await asyncio.Event().wait()
        raise AssertionError("never set")

    found = await bench.parts.run_parts({"first": hanging, "second": hanging}, bench.sampling.Effort.FULL, 0.1)
    assert [gap.what for gap in found] == ["first", "second"]
    assert all(gap.is_error for gap in found)


def test_a_package_that_cannot_be_installed_is_said(
    bench: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.published, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(bench.published, "PUBLISHED", "amplifier-core==0.0.0.dev0")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(bench.row.NotMeasured, match=r"amplifier-core==0\.0\.0\.dev0 cannot be installed: .*"):
        bench.published.published_python()


async def test_rounds_stop_when_their_time_is_over(bench: SimpleNamespace) -> None:
    blocks = 0

    async def block() -> list[float]:
        nonlocal blocks
        blocks += 1
        return [1.0]

    samples = await bench.sampling.interleave({"one": block}, 30, seconds=0.0)
    assert (blocks, samples.p50("one")) == (4, 1.0)  # three rounds and the one before that is not counted


_PROGRAM = """import json, pathlib, sys
root = pathlib.Path(__file__).parents[2]
with (root / "../log").open("a") as log:
    log.write(f"{root.name} {sys.argv[1]}\\n")
found = json.loads((root / "found.json").read_text())
if sys.argv[1] not in found:
    sys.exit("no such part")
rows = [{"what": name, "ours": figures.pop(0), "unit": "us"} for name, figures in found[sys.argv[1]].items()]
(root / "found.json").write_text(json.dumps(found))
(root / ".bench").mkdir(exist_ok=True)
(root / ".bench/results.json").write_text(json.dumps({"rows": [*rows, {"what": "lost", "error": "gone"}]}))
"""


def measured_tree(bench: SimpleNamespace, folder: Path, found: dict[str, Any]) -> Any:
    """Return a tree whose benchmarks find these figures, one in each run, and note in `log` beside it that they ran."""
    program = folder / "tests/benchmarks/run.py"
    program.parent.mkdir(parents=True)
    program.write_text(_PROGRAM)
    (folder / "found.json").write_text(json.dumps(found))
    return bench.beside.Tree(folder.name, folder, Path(sys.executable))


def test_two_trees_are_measured_in_turns_and_compared_by_pairs(
    bench: SimpleNamespace, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    here = measured_tree(bench, tmp_path / "here", {"calls": {"a call": [20, 30, 44], "new": [1, 1, 1]}, "more": {}})
    there = measured_tree(bench, tmp_path / "0123", {"calls": {"a call": [10, 20, 40], "zero": [0, 0, 0]}})
    shown = bench.beside.compare(here, there, ["calls", "more"], rounds=3).splitlines()
    ran = (tmp_path / "log").read_text().splitlines()
    assert ran[:6] == ["0123 calls", "here calls", "here calls", "0123 calls", "0123 calls", "here calls"]
    assert shown[0].split() == ["what", "this", "tree", "0123", "unit", "ratio", "spread"]
    assert shown[2].split() == ["a", "call", "30.0", "20.0", "us", "1.50", "1.10", "to", "2.00"]
    assert shown[3:] == ["only in this tree: new", "only in 0123: zero"]
    assert "more failed in " in capfd.readouterr().err


def test_a_part_is_asked_for_by_its_name_and_by_that_of_older_commits(bench: SimpleNamespace, tmp_path: Path) -> None:
    there = measured_tree(bench, tmp_path / "0123", {"a model's answer": {"a piece": [2]}})
    assert there.run("answers of a model") == {"a piece": (2, "us")}
    names = re.findall(r'^    "(.+)": measure_\w+,$', (_BENCHMARKS / "run.py").read_text(), re.MULTILINE)
    assert "answers of a model" in names
    assert shlex.split(f"'{','.join(names)}'") == [",".join(names)]  # as the Makefile quotes them


def test_a_commit_is_checked_out_once_and_an_unknown_one_is_refused(bench: SimpleNamespace, tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, timeout=60)

    git("init", "--quiet")
    for text in ("old", "new"):
        (tmp_path / "file").write_text(text)
        git("add", "file")
        git("commit", "--quiet", "-m", text)
    folder = bench.beside.checked_out("HEAD~1", tmp_path)
    assert (folder / "file").read_text() == "old" and folder.parent == tmp_path / ".bench" / "beside"
    (folder / "environment").touch()
    assert bench.beside.checked_out("HEAD~1", tmp_path) == folder and (folder / "environment").exists()
    for revision in ("nowhere", "--help"):
        with pytest.raises(bench.beside.NotBuilt, match="rev-parse"):
            bench.beside.checked_out(revision, tmp_path)
