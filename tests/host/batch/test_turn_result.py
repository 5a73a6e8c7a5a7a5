"""What modules said in a turn stands in its result as text that each reader of JSON takes."""

from __future__ import annotations

from pathlib import Path

from paddock.batch.local import Turn
from paddock.batch.place import Attempt
from paddock.batch.result import TaskResult
from paddock.batch.task import Task


def test_halves_of_characters_are_written_out() -> None:
    turn = Turn(Attempt(Task(id="t1", prompt="hello"), 1, Path()), "here")
    turn.response, turn.error = "yes \udc80", ValueError("no \udc80")
    result = TaskResult.model_validate_json(turn.result(["`\udc80` was not taken"]).model_dump_json())
    assert (result.response, result.notes) == ("yes \\udc80", ["`\\udc80` was not taken"])
    assert result.error == {"type": "ValueError", "message": "no \\udc80"}
