"""A model that builds a program part by part, by acts of which most must not be done twice.

It remembers nothing: each answer follows from the messages of the request alone. Of a call that may have run, it looks
at the file that the call would have changed before it makes that call again; what is said not to have run, it repeats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from vendors.script import Script, Turn

DONE: Final = "All parts are there, and the tests pass."
TESTS: Final = """\
import pathlib
import unittest

import total


class TestTotal(unittest.TestCase):
    def test_each_part_counts_once(self):
        counted = pathlib.Path("total.py").read_text().count("import")
        self.assertEqual(total.total(), sum(range(counted)))
"""
PROGRAM: Final = (
    "# parts\n\n\ndef total():\n    return sum(value for name, value in globals().items() if name[:4] == 'part')\n"
)


class Act(NamedTuple):
    """A call of a tool; if it may not be done twice, `mark` is what it leaves in the file `where`."""

    tool: str
    arguments: Mapping[str, Any]
    where: str = ""
    mark: str = ""


class Made(NamedTuple):
    """A call in the conversation, and what was answered."""

    tool: str
    arguments: Mapping[str, Any]
    answer: str


def acts(parts: int, python: str) -> Iterator[tuple[Act, ...]]:
    """Yield what the model does, those together that it asks for in one answer."""
    for n in range(parts):
        part, line = f"part_{n:02}", f"from part_{n:02} import value as part_{n:02}\n"
        text = f"value = {n}\n"
        yield (
            Act("write_file", {"file_path": f"{part}.py", "content": text}, f"{part}.py", text.strip()),
            Act("bash", {"command": f"echo {part} >> log.txt"}, "log.txt", part),
            Act("bash", {"command": f"{python} -c 'print(\"{part} is counted\")' >> log.txt"}, "log.txt", f"{part} is"),
        )
        edit = {"file_path": "total.py", "old_string": "# parts\n", "new_string": f"# parts\n{line}"}
        yield (Act("edit_file", edit, "total.py", line.strip()),)
        yield (Act("bash", {"command": f"{python} -m unittest -q  # with {part}"}),)


class BuildingModel(Script):
    """Answers each request with what follows from its messages; `asked` returns the body of the request at hand."""

    def __init__(self, asked: Callable[[], Mapping[str, Any]], parts: int, python: str) -> None:
        super().__init__([], models=["builder-1"])
        self._asked = asked
        self._groups = list(acts(parts, python))

    def next_turn(self) -> Turn:
        made = calls_of(self._asked()["messages"])
        for group in self._groups:
            calls = [call for act in group if (call := _still_to_do(act, made)) is not None]
            if calls:
                asked = [{"name": call.tool, "arguments": dict(call.arguments)} for call in calls]
                return Turn.of({"text": "Next.", "tool_calls": asked})
        return Turn.of({"text": DONE})

    def give_back(self, turn: Turn) -> None:
        """Do nothing: the same messages lead to the same turn."""


def calls_of(messages: Sequence[Mapping[str, Any]]) -> list[Made]:
    """Return the calls of a conversation, in the order of their answers."""
    asked: dict[str, tuple[str, Mapping[str, Any]]] = {}
    made = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            asked[call["id"]] = call["function"]["name"], json.loads(call["function"]["arguments"])
        if message["role"] == "tool":
            content = message["content"]
            text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
            made.append(Made(*asked[message["tool_call_id"]], text))
    return made


def has_run(call: Made) -> bool | None:
    """Whether a call has run, by its answer; None if that is not known."""
    if "did not run" in call.answer:
        return False
    return None if "may have run" in call.answer else True


def _still_to_do(act: Act, made: Sequence[Made]) -> Act | None:
    """Return the call with which an act goes on: itself, a look at what it left, or none where it is done."""
    at = max((n for n, one in enumerate(made) if (one.tool, one.arguments) == act[:2]), default=None)
    if at is None or (ran := has_run(made[at])) is False:
        return act
    if ran:
        return None
    look = Act("read_file", {"file_path": act.where})
    if not act.mark:
        return act
    looks = [one for one in made[at + 1 :] if (one.tool, one.arguments) == look[:2] and has_run(one)]
    if not looks:
        return look
    return None if act.mark in looks[-1].answer else act
