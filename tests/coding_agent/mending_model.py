"""A model that mends a program until its tests pass, by reading what its tools answered.

It remembers nothing: each answer follows from the messages of the request alone, so that a request that is made again
gets the same answer. It runs the tests, reads the program that the traceback leads to, and tries changes of single
operators, one after the other, until the tests pass; what did not help it takes back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vendors.script import Fault, Script, Turn

_FAILED = re.compile(r"FAILED \((?:failures|errors)=(\d+)\)")
_TESTS = re.compile(r'File "[^"]*?(test_(\w+)\.py)"')
_RULE = "Run the tests before you change anything."
_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)
_OPERATORS = ((" > ", " < "), (" > ", " >= "), (" < ", " <= "), (" - ", " + "), (" * ", " + "))


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call of the conversation, and what the tool answered."""

    tool: str
    arguments: Mapping[str, Any]
    answer: str

    @property
    def fields(self) -> Mapping[str, Any]:
        """The answer as the tools for files and commands give it; nothing where the call failed otherwise."""
        try:
            found = json.loads(self.answer)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


class MendingModel(Script):
    """Answers each request with what follows from its messages; `asked` returns the body of the request at hand.

    `faults` are what goes wrong instead, by the number of the request, counted from 0.
    """

    def __init__(
        self,
        asked: Callable[[], Mapping[str, Any]],
        tests: str,
        *,
        key: str = "",
        faults: Mapping[int, Fault] | None = None,
    ) -> None:
        super().__init__([], models=["mender-1"], key=key)
        self.requests = 0
        self._asked = asked
        self._tests = tests
        self._faults = dict(faults or {})

    def next_fault(self) -> Fault | None:
        self.requests += 1
        return self._faults.pop(self.requests - 1, None)

    def next_turn(self) -> Turn:
        return Turn.of(self._answer(steps_of(self._asked()["messages"])))

    def give_back(self, turn: Turn) -> None:
        """Do nothing: the same messages lead to the same turn."""

    # -- what follows ----------------------------------------------------------------------

    def _answer(self, steps: Sequence[Step]) -> dict[str, Any]:
        if not steps:
            told = _text(self._asked()["messages"][0]["content"])
            why = "as AGENTS.md says" if '<file path="AGENTS.md">\n' in told and _RULE in told else "to see what fails"
            return _calling(f"First I run the tests, {why}.", bash=self._tests)
        last = steps[-1]
        match last.tool:
            case "bash" if last.arguments.get("command") == self._tests:
                return self._after_tests(last, steps)
            case "bash":
                diff = str(last.fields.get("stdout", "")).strip()
                return {"text": f"The tests pass. This is all that I changed:\n\n```diff\n{diff}\n```"}
            case "edit_file" if _is_taken_back(steps):
                return self._next_change(steps, "Back to where it was.")
            case "edit_file":
                return _calling("Do the tests pass with that?", bash=self._tests)
        return self._next_change(steps, "I have read both files.")

    def _after_tests(self, last: Step, steps: Sequence[Step]) -> dict[str, Any]:
        shown = str(last.fields.get("stderr", ""))
        if last.fields.get("returncode") == 0:
            return _calling("They pass. I look at what I changed.", bash="git diff")
        if any(step.tool == "edit_file" for step in steps):
            found = _FAILED.search(shown)
            count = found[1] if found else "some"
            return self._next_change(steps, f"No: now {count} of them fail.")
        found = _TESTS.search(shown)
        if found is None:
            return {"text": f"I cannot tell from this what fails:\n\n{last.answer}"}
        tests, program = found[1], f"{found[2]}.py"
        return {
            "text": f"A test in {tests} fails. I read it, and {program}, which it is about.",
            "tool_calls": [
                {"name": "read_file", "arguments": {"file_path": tests}},
                {"name": "read_file", "arguments": {"file_path": program}},
                {"name": "count_lines", "arguments": {"file_path": program}},
            ],
        }

    def _next_change(self, steps: Sequence[Step], seen: str) -> dict[str, Any]:
        read = [step for step in steps if step.tool == "read_file" and "content" in step.fields]
        if not read:
            return {"text": f"I could not read the program: {steps[-1].answer}"}
        program, source = read[-1].arguments["file_path"], _NUMBERED.sub("", read[-1].fields["content"])
        changes = {new: old for old, new in _changes(source)}
        edits = [step.arguments["new_string"] for step in steps if step.tool == "edit_file"]
        untried = next((new for new in changes if new not in edits), None)
        if untried is None:
            return {"text": "I know of nothing else to try."}
        now = edits[-1] if edits and edits[-1] in changes else ""
        if now and changes[now] != changes[untried]:
            return _editing(f"{seen} I take that back.", program, now, changes[now])
        said = f"{seen} I try another operator there." if now else f"{seen} This line might be wrong."
        return _editing(said, program, now or changes[untried], untried)


def steps_of(messages: Sequence[Mapping[str, Any]]) -> list[Step]:
    """Return the tool calls since the person spoke last, in the order of their answers."""
    calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
    steps: list[Step] = []
    for message in messages:
        if message["role"] == "user":
            steps = []
        for call in message.get("tool_calls") or ():
            calls[call["id"]] = call["function"]["name"], json.loads(call["function"]["arguments"])
        if message["role"] == "tool":
            steps.append(Step(*calls[message["tool_call_id"]], _text(message["content"])))
    return steps


def _is_taken_back(steps: Sequence[Step]) -> bool:
    """Return whether the last edit undid one before it."""
    edits = [(step.arguments["old_string"], step.arguments["new_string"]) for step in steps if step.tool == "edit_file"]
    return (edits[-1][1], edits[-1][0]) in edits[:-1]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _changes(source: str) -> Iterator[tuple[str, str]]:
    """Yield lines and what they could be instead, one operator changed; text in quotes is left alone."""
    for line in source.splitlines():
        if '"' in line or "'" in line or source.count(line) != 1:
            continue
        yield from ((line, line.replace(old, new, 1)) for old, new in _OPERATORS if old in line)


def _calling(text: str, *, bash: str) -> dict[str, Any]:
    return {"text": text, "tool_calls": [{"name": "bash", "arguments": {"command": bash}}]}


def _editing(text: str, program: str, old: str, new: str) -> dict[str, Any]:
    edit = {"file_path": program, "old_string": old, "new_string": new}
    return {"text": text, "tool_calls": [{"name": "edit_file", "arguments": edit}]}
