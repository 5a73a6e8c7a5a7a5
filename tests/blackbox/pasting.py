"""Do what a printed fix says, as a person would who pastes it, and run the command again.

`paste` says whether that was right: `test_printed_fixes.py` has the fixes of each scenario from its golden value.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from blackbox.commands import HERE, Finished, World
from blackbox.printed_fixes import Fix, printed_fixes

_PASTES: Final = 3
_VALUE: Final = "a-value-of-some-length"  # of a variable that is typed in
#: What a person fills in for a word in capitals, or for a folder that only stands for one.
_FILLED_IN: Final = {
    "MODULE=PRESET": "tool-acts=workspace",
    "PLAN": "plan.yaml",
    "DIR": "..",
    "PATH": "secret.txt",
    "./folder": str(HERE / "modules/amplifier-module-tool-acts"),
}


@dataclass
class Attempt:
    """A command that a person repeats, with what was pasted so far."""

    world: World
    args: list[str]
    stdin: str = ""
    environ: dict[str, str] = field(default_factory=dict)
    on_terminal: bool = False

    def apply(self, fix: Fix) -> Finished | None:
        """Paste a fix that mends something; return what the command did, where it is itself what was pasted."""
        text = _filled_in(fix.text)
        match fix.act:
            case "run":
                if fix.file:
                    Path(fix.file).unlink()
                done = self.program(text)
                program, *args = shlex.split(text)
                if program == "paddock" and args[0] == self.args[0]:
                    self.args = args
                if done.code or args == self.args:
                    return done
            case "yes":
                self.on_terminal = True
            case "set":
                self.environ[text] = _VALUE
            case "options":
                self.args += shlex.split(text)
            case "make":
                Path(text).mkdir()
            case "line":
                self._edit(with_line, fix.place, text)
            case "rename" if fix.place:
                self._edit(with_key, fix.place, text)
            case "rename" if fix.file:
                file = Path(fix.file)
                file.write_text(file.read_text().replace(fix.old, text), encoding="utf-8")
            case "rename":
                self.args = [text if one == fix.old else one for one in self.args]
        return None

    def program(self, text: str) -> Finished:
        """Run a program, as it is pasted at a prompt."""
        program, *args = shlex.split(text)
        if program == "paddock":
            return self.world.run(*args, environ=self.environ)
        ran = subprocess.run([program, *args], cwd=self.world.work, capture_output=True, text=True, timeout=60)
        return Finished(self.world, args, ran.returncode, ran.stdout, ran.stderr)

    def again(self) -> Finished:
        """Run the command as it is now; before `why` tells of the last session, there is one with what was pasted."""
        args = self.args
        if args[0] == "why" and "--plan" not in args:
            pasted = [one for one in args if one == "--trust-plan"]
            done = self.world.run("run", "plan.yaml", '{"answer": "again"}', *pasted, environ=self.environ)
            if done.code:
                return done
            args = [one for one in args if one not in pasted]
        if self.on_terminal:
            args = [one for one in args if one != "--json"]  # a terminal shows what people read
            return self.world.run_on_terminal(*args, answer="yes\n", after="and Enter:", environ=self.environ)
        return self.world.run(*args, stdin=self.stdin, environ=self.environ)

    def _edit(self, change: Callable[[str, str, str], str], place: str, text: str) -> None:
        named = [one for one in self.args if one.endswith(".yaml")]
        plan = self.world.work / (named[0] if named else "plan.yaml")
        plan.write_text(change(plan.read_text(), place, text), encoding="utf-8")


def paste(attempt: Attempt, fix: Fix, said_at_first: str, is_out_of_reach: Callable[[Fix], bool]) -> str:
    """Paste a fix, and what is printed then, until the command does what it should; return what went wrong, or nothing.

    - A command that shows something ends with 0, and one that is to show more says more than before.
    - The line that was pasted for is gone at once. A note, which is no error, warning or hint, asks for no more.
    - In the end the command ends with 0, and prints neither error, warning nor hint with a fix; or what it ends with is
      new and has no fix: the tool that was reached says no, or a policy does. It is the end, too, where only a fix
      is left that no test can paste.
    """
    if fix.act == "look":
        done = attempt.program(_filled_in(fix.text))
        return "" if done.code == 0 and done.stdout.strip() else f"shows nothing: {_told(done)}"
    known = {*said_at_first.splitlines()}
    if fix.act == "more":
        attempt.args += shlex.split(_filled_in(fix.text.removeprefix("run ")))
        done = attempt.again()
        more = {*(done.stdout + done.stderr).splitlines()} - known
        return "" if done.code in (0, 1) and more else f"shows nothing more: {_told(done)}"
    steps: list[str] = []
    is_note = not _is_trouble(fix.said)
    for _ in range(_PASTES):
        steps.append(fix.text)
        done = attempt.apply(fix) or attempt.again()
        lines = printed(done).splitlines()
        if fix.said in lines or done.code == _USAGE:
            return f"not right, {steps}: {_told(done)}"
        shown = [one for one in printed_fixes("\n".join(lines)).fixes if _is_trouble(one.said)]
        if any(map(is_out_of_reach, shown)):
            return ""
        left = [one for one in shown if one.act not in ("look", "more")]
        if is_note or not left:
            last = [line for line in lines if line.startswith("error: ") and line not in known]
            is_end = not done.code or any(line.startswith(_LAST_WORD) for line in last)
            return "" if is_note or is_end else f"not mended by {steps}: {_told(done)}"
        known |= {*lines}
        fix = next((one for one in left if one.act != "yes"), left[0])
    return f"not mended by {steps}: {_told(done)}"


_USAGE: Final = 2
_TROUBLE: Final = ("error: ", "warning: ", "hint: ", "Error: ", "to allow it", "to change it")
_LAST_WORD: Final = ("error: tool `", "error: policy refuses ")


def _is_trouble(line: str) -> bool:
    return line.startswith(_TROUBLE) or "the plan is not changed" in line


def printed(done: Finished) -> str:
    """Return what a person reads of what a command did: stdout where it is no answer of a model, and stderr."""
    return done.stderr + ("" if "--json" in done.args else f"\n{done.stdout}")


def _told(done: Finished) -> str:
    lines = [line for line in printed(done).splitlines() if line.startswith((*_TROUBLE, "  "))]
    return f"{shlex.join(done.args)} ended with {done.code}: {' / '.join(lines[-8:])}"


def _filled_in(text: str) -> str:
    for word, value in _FILLED_IN.items():
        text = re.sub(rf"(?<![\w=]){re.escape(word)}(?!\w)", value, text)
    return text


# -- plans, as a person edits them ---------------------------------------------------------


def with_line(text: str, place: str, line: str) -> str:
    """Return a plan with a line `key: value` in an entry: instead of the one with this key, or at its end."""
    root = yaml.compose(text)
    if root is None or not isinstance(root, yaml.MappingNode):
        return f"{line}\n" if not place else text
    entry = _entry(root, place) if place else root
    key, _, value = line.partition(": ")
    if isinstance(entry, yaml.ScalarNode):
        return _put(text, entry, f"{{module: {entry.value}, {line}}}")
    assert isinstance(entry, yaml.MappingNode), place
    for name, node in entry.value:
        if name.value == key:
            return _put(text, node, value)
    if entry.flow_style:
        end = entry.end_mark.index - 1
        return f"{text[:end]}, {line}{text[end:]}"
    last = entry.value[-1][1].end_mark.index
    end = last if text[:last].endswith("\n") else text.index("\n", last) + 1
    return f"{text[:end]}{' ' * entry.value[0][0].start_mark.column}{line}\n{text[end:]}"


def with_key(text: str, place: str, key: str) -> str:
    """Return a plan with another name for the key at a place."""
    above, _, old = place.rpartition(".")
    root = yaml.compose(text)
    entry = _entry(root, above) if above else root
    return _put(text, next(name for name, _ in entry.value if name.value == old), key)


def _put(text: str, node: yaml.Node, new: str) -> str:
    return f"{text[: node.start_mark.index]}{new}{text[node.end_mark.index :]}"


def _entry(root: yaml.Node, place: str) -> Any:
    """Return the node of a place, `tools[0]`, or of the only module with that name."""
    if re.fullmatch(r"[a-z]+(\[\d+\])?(\.\w+(\[\d+\])?)*", place) and ("[" in place or place in dict(_items(root))):
        node = root
        for name, number in re.findall(r"(\w+)(?:\[(\d+)\])?", place):
            node = dict(_items(node))[name]
            node = node.value[int(number)] if number else node
        return node
    found = [node for node in _nodes(root) if _is_named(node, place)]
    assert len(found) == 1, f"{len(found)} entries are of `{place}`"
    return found[0]


def _items(node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    yield from ((name.value, value) for name, value in node.value)


def _is_named(node: yaml.Node, name: str) -> bool:
    if isinstance(node, yaml.ScalarNode):
        return node.value == name
    entry = dict(_items(node))
    return any(getattr(entry.get(key), "value", None) == name for key in ("instance_id", "module"))


def _nodes(root: yaml.Node) -> Iterator[yaml.Node]:
    """Yield the node of each entry of a plan."""
    for section, node in _items(root):
        if section == "session" and isinstance(node, yaml.MappingNode):
            yield from (value for _, value in _items(node))
        elif isinstance(node, yaml.SequenceNode):
            yield from node.value
