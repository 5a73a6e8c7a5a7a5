"""Show the agent at work: `python -m coding_agent [FOLDER]`, with the folder of the tests on the path.

FOLDER keeps the plan and what it is locked to; by default `.agent` where this is run. Exits with 0 when the tests fail
before and pass after, and what misbehaved was contained; with 1 otherwise.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coding_agent.demonstration import PROMPT, CodingAgent, Outcome
from paddock.cli.one_result import result_of
from paddock.cli.terminal.fetch_progress import FetchProgress
from paddock.cli.terminal.progress import activity_of
from paddock.cli.terminal.render import Screen
from paddock.module_sources.provisioning import SourceOptions
from paddock.text import escape

_MAX_CHARACTERS = 76


class Transcript:
    """Writes what the model says and does, a line or two for each."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def event(self, name: str, data: Mapping[str, Any]) -> None:
        if name == "content_block:end" and data["block_type"] == "text":
            self._screen.text("\n")
            self._screen.title(f"model: {data['block']['text'].splitlines()[0]}")
        elif name == "tool:pre":
            first, *rest = _called(data["tool_input"])
            for line in (f"  {data['tool_name']} {first}", *(f"    {line}" for line in rest)):
                self._screen.text(escape(line))
        elif name == "tool:post":
            self._screen.note(f"    {data['tool_name']}: {_answered(data['tool_result'])}")

    def asked(self, prompt: str, answer: str) -> None:
        self._screen.note(f"    approval: may {prompt.partition(':')[0]} run? answered for you: {answer}")


def _called(arguments: Mapping[str, Any]) -> list[str]:
    if "new_string" in arguments:
        return [arguments["file_path"], f"- {arguments['old_string']}", f"+ {arguments['new_string']}"]
    return [_short(", ".join(map(str, arguments.values())))]


def _answered(result: Mapping[str, Any]) -> str:
    output = result["output"] if isinstance(result["output"], dict) else {}
    for name, said in (("stderr", "{}"), ("total_lines", "{} lines"), ("replacements", "{} line replaced")):
        if output.get(name):
            return _short(said.format(str(output[name]).strip().splitlines()[-1]))
    if output.get("stdout"):
        return f"{len(output['stdout'].splitlines())} lines of output"
    return "done" if result["success"] else _short(str((result["error"] or {}).get("message", "failed")))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CHARACTERS else line[: _MAX_CHARACTERS - 1] + "…"


def _show(outcome: Outcome, screen: Screen) -> None:
    screen.text("\n")
    screen.quote("the change", outcome.diff)
    screen.text(f"tests before: {outcome.before.line}")
    screen.text(f"tests after:  {outcome.after.line}")
    screen.table(
        ("module", "what it did", "how it was contained"),
        [(part.status.module, part.did, part.contained) for part in outcome.parts],
    )
    verdict = "something is not as it should be" if outcome.problems else "the test is mended"
    levels = ", ".join(sorted({str(part.status.level) for part in outcome.parts}))
    modules = f"{len(outcome.parts)} modules, each in a sandbox of its own (isolation: {levels})"
    screen.text(f"{modules}; {outcome.questions} approvals; {outcome.seconds:.1f} s; {verdict}")
    screen.note("with a model of your own: .venv/bin/paddock init, then .venv/bin/paddock chat")


def main() -> int:
    """Run it, and return the exit code."""
    screen, errors = Screen(sys.stdout), Screen(sys.stderr)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".agent").absolute()
    screen.title("A coding agent at work, without a key")
    screen.note("a server on this machine plays the model; provider, loop, tools and sandboxes are real")
    screen.text("\n")
    screen.title(f"you: {PROMPT}")
    with FetchProgress(errors) as progress:
        agent = CodingAgent(folder, Transcript(screen), SourceOptions(progress=progress))

        def activity() -> str:
            return "preparing" if agent.session is None else activity_of(agent.session)

        # Warnings are left out: that a module misbehaves is part of it, and the table says how it ended.
        outcome = result_of(agent.run, errors, activity, as_json=False, level=logging.ERROR)
    if isinstance(outcome, int):
        return outcome
    for line in outcome.weaker:
        errors.warning(line)
    _show(outcome, screen)
    for problem in outcome.problems:
        errors.text(f"error: {problem}")
    if outcome.report is not None:
        screen.note(f"what each module was granted, used and was refused: {outcome.report}")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
