"""A file of tasks: what is taken, and which line is refused with which words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paddock.batch import task_file
from paddock.batch.task import Task
from paddock.batch.task_file import WHOLE, Shard, TaskFile, TaskFileError
from support.rows import each_row


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a path for a file of tasks."""
    return tmp_path / "tasks.jsonl"


def _line(**given: Any) -> str:
    return json.dumps({"id": "a", "prompt": "hello", **given})


@each_row(
    ("lines", "said"),
    [
        ([], ": there is no task in it"),
        (["", "  "], ": there is no task in it"),
        ([_line(), "{"], ":2: Invalid JSON: "),
        ([_line(), "", '{"id": 1'], ":3: Invalid JSON: "),
        (["[" * 100_000], ":1: Invalid JSON: recursion"),
        (["[]"], ":1: "),
        (['{"prompt": "x"}'], ":1: `id`: Field required"),
        ([_line(promt="x")], ":1: `promt`: Extra inputs"),
        ([_line(prompt=" ")], ":1: `prompt`: "),
        ([_line(prompt="x" * (5 << 20))], ":1: `prompt`: "),
        (['{"id": "a", "prompt": "\\ud800"}'], ":1: Invalid JSON: "),
        ([_line(id="b"), _line(), _line()], ":3: the id `a` is that of line 2 too"),
        *(
            ([_line(id=id)], ":1: `id`: ")
            for id in ("", ".a", "a/b", "..", "a b", "é", "a\n", "x" * 129, "ledger.jsonl", "results-1-of-2.jsonl")
        ),
        *(
            ([_line(files=files)], ":1: `files")
            for files in (
                {"../x": "a"},
                {"a": "../x"},
                {"a/../../x": "a"},
                {"/x": "a"},
                {"a": "/etc/passwd"},
                {"": "a"},
            )
        ),
        ([_line(files={".paddock/x": "a"})], ":1: `files..paddock/x"),
        ([_line(vars={"a": 1})], ":1: `vars.a`: "),
        ([_line(prompt="{{b}}", vars={"a": "1"})], ":1: the prompt has `{{b}}`, and `vars` has no `b`"),
        ([_line(prompt="{{a}}" * 5000, vars={"a": "x" * 1000})], ":1: with its values the prompt has more than"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_file_with_a_mistake_is_refused_by_its_line(file: Path, lines: list[str], said: str) -> None:
    with pytest.raises(TaskFileError) as raised:
        _checked(file, lines)
    assert said in raised.value.summary and raised.value.hints


def test_a_line_beyond_the_bound_and_a_missing_file_are_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_file, "_LINE_MAX", 100)
    with pytest.raises(TaskFileError, match=r":2: the line has more than"):
        _checked(file, [_line(), _line(prompt="x" * 100)])
    with pytest.raises(TaskFileError, match="no such file"):
        TaskFile.checked(file.parent / "missing", WHOLE)


@each_row(
    ("prompt", "values", "asked"),
    [
        ("{{a}} and {{ a }}", {"a": "x"}, "x and x"),
        ("{{a}}", {}, "{{a}}"),
        ("{{a}}", {"a": "{{b}}", "b": "y"}, "{{b}}"),
        ("{a} {{1}} {{a-b}}", {"a": "x"}, "{a} {{1}} {{a-b}}"),
    ],
)
def test_names_in_a_prompt_stand_for_the_values(prompt: str, values: dict[str, str], asked: str) -> None:
    assert Task(id="a", prompt=prompt, vars=values).asked == asked


def test_each_line_falls_to_one_shard(file: Path) -> None:
    lines = [_line(id=str(number)) for number in range(10)]
    shares = [_checked(file, lines, Shard(number, 3)) for number in (1, 2, 3)]
    assert [share.count for share in shares] == [4, 3, 3]
    found = [{number for number, _ in share.tasks()} for share in shares]
    assert set.union(*found) == {*range(1, 11)} and sum(map(len, found)) == 10


def test_a_file_that_changes_while_its_tasks_run_is_refused(file: Path) -> None:
    found = _checked(file, [_line(id="a"), _line(id="b")])
    found.path.write_text(_line(id="c") + "\n")
    with pytest.raises(TaskFileError, match="changed while"):
        [*found.tasks()]


_READS = """
import resource, sys
from pathlib import Path
from paddock.batch.task_file import WHOLE, TaskFile

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

TaskFile.checked(Path(sys.argv[1]), WHOLE)
before = peak()
checked = TaskFile.checked(Path(sys.argv[2]), WHOLE)
print(sum(1 for _ in checked.tasks()), peak() - before)
"""


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_million_tasks_take_little_memory(file: Path) -> None:
    _checked(file, [_line()])
    many = file.with_name("many.jsonl")
    with many.open("w") as lines:
        lines.writelines(_line(id=f"task-{number}") + "\n" for number in range(1_000_000))
    printed = subprocess.run([sys.executable, "-c", _READS, file, many], check=True, capture_output=True, text=True)
    count, kibibytes = map(int, printed.stdout.split())
    assert count == 1_000_000 and kibibytes < 24 << 10


def _checked(path: Path, lines: list[str], shard: Shard = WHOLE) -> TaskFile:
    path.write_text("".join(f"{line}\n" for line in lines))
    return TaskFile.checked(path, shard)
