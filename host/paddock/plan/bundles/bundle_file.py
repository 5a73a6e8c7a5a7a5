"""One file of a bundle: a table, in front of a Markdown text or by itself, and the text as the instruction.

It is checked as far as the composer looks into it. The entries of modules are read once they are composed, by the same
rules as those of a plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from paddock.errors import PlanError, PlanProblem, placed
from paddock.plan import EXTENDS
from paddock.plan.bundles.taken_entries import MODULES, proposals, strays, taken_over
from paddock.plan.bundles.traced import Traced, table
from paddock.plan.bundles.tree_path import TreePath
from paddock.plan.formats.bounded_yaml import read_yaml, yaml_lines
from paddock.plan.problems import NotAcceptedError, YamlError, must_be, path_text
from paddock.plan.source_map import Positions, SourceNode

TABLES: Final = ("session", "spawn")
_TELLING: Final = (*TABLES, *MODULES, "includes", "agents", "context")  # one of them makes a file a bundle
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FENCE: Final = "---"
_AGENT_PARTS: Final = (*MODULES, "session", "provider_preferences", "model_role")


@dataclass(frozen=True, slots=True)
class Named:
    """A name that a bundle gives, of an include, an agent or a file, and the line where it does."""

    text: str
    place: SourceNode


@dataclass(frozen=True, slots=True)
class Front:
    """A text whose front is a table."""

    content: Traced
    text: str

    @classmethod
    def read(cls, written: str, file: str, *, is_markdown: bool) -> Front:
        """Return the table and the text of what is `written`; without a fence in Markdown, the table is empty.

        Raises:
            PlanError: the table does not end, or is none.
        """
        front, above, text = _split(written, file) if is_markdown else (written, 0, "")
        try:
            value, root = read_yaml(front)
        except YamlError as error:
            line = None if error.line is None else error.line + above
            raise PlanError([PlanProblem("", error.problem, error.hint, line or 1, file=file)]) from error
        if root is None:
            return cls(Traced({}, SourceNode(1, file=file)), text)
        if not isinstance(value, dict):
            problem = must_be("a table", value, "", "write `bundle: {name: …}`")
            raise PlanError([placed(problem, file, above + 1)])
        return cls(Traced(value, yaml_lines(root, file, above)), text)


def _split(written: str, file: str) -> tuple[str, int, str]:
    """Return the front of a Markdown text, the lines above it, and what follows it."""
    lines = written.removeprefix("\ufeff").splitlines(keepends=True)
    if not lines or lines[0].rstrip() != _FENCE:
        return "", 0, written
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == _FENCE:
            return "".join(lines[1:number]).removesuffix("\n"), 1, "".join(lines[number + 1 :])
    problem = "its front matter does not end"
    raise PlanError([PlanProblem("", problem, "write three hyphens on a line below it", 1, file=file)])


@dataclass(frozen=True, slots=True)
class BundleFile:
    """A bundle by itself.

    One without a name is no namespace. `content` has the tables and lists of modules, with sources as addresses; `root`
    is where its `agents/` and other files lie. `agents` are defined in it, `included_agents` in files. `context` has
    files by names. `proposed` has keys of modules that a plan does not take over, such as permissions; `notes` are on
    keys that may be misspelt, and `passed_over` has includes that name something else than a bundle.
    """

    at: TreePath
    name: str
    root: TreePath
    includes: tuple[Named, ...]
    content: Traced
    agents: Traced
    included_agents: tuple[Named, ...]
    context: tuple[tuple[str, Named], ...]
    instruction: str
    proposed: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    passed_over: tuple[Named, ...]

    @classmethod
    def read(cls, written: str, at: TreePath) -> BundleFile:
        """Return the bundle that is written in the file at a place.

        Raises:
            PlanError: it is no bundle, or malformed; the error names every line.
        """
        front = Front.read(written, at.text, is_markdown=at.path.endswith(".md"))
        reading = _Reading(front.content, at)
        bundle = reading.bundle(front.text)
        if bundle is None or reading.problems:
            lines = Positions(at.text, lambda: front.content.place)
            first = front.content.place.line
            raise PlanError(placed(one, at.text, lines.line_of(one.path) or first) for one in reading.problems)
        return bundle


class _Reading:
    """One reading of one bundle, which collects its problems."""

    def __init__(self, content: Traced, at: TreePath) -> None:
        self._content = content
        self._at = at
        self._passed_over: list[Named] = []
        self.problems: list[PlanProblem] = []

    def bundle(self, text: str) -> BundleFile | None:
        """Return the bundle; None if it cannot be told what it is."""
        head = self._table("bundle")
        is_named = "bundle" in self._content.value or not any(key in self._content.value for key in _TELLING)
        name = head.value.get("name") if is_named else ""
        if not isinstance(name, str) or (is_named and not _NAME.fullmatch(name)):
            hint = "a bundle is a file with `bundle: {name: …}`, of letters, digits, `.`, `_` and `-`"
            self.problems.append(PlanProblem("bundle.name", "is missing, or no name", hint))
            return None
        if EXTENDS in self._content.value:
            self.problems.append(PlanProblem(EXTENDS, "only a plan extends bundles", "write `includes` in a bundle"))
        folder = self._at.folder
        root = self._root(head, folder)
        agents, context = self._table("agents", str, list), self._table("context")
        known = {key: self._table(key) for key in TABLES if key in self._content.value}
        known |= {key: self._content.part(key) for key in MODULES if self._content.value.get(key) is not None}
        taken = taken_over(table(known, self._content.place), folder, self.problems)
        inline = {
            key: taken_over(part, folder, self.problems, path_text("agents", key))
            for key, part in agents.parts()
            if isinstance(part.value, dict)
        }
        return BundleFile(
            self._at,
            name,
            root,
            tuple(self._includes()),
            taken,
            table(inline, agents.place),
            tuple(self._names(agents, "agents")),
            tuple((one.text, one) for one in self._names(context, "context"))
            + tuple((key, Named(v.value, v.place)) for key, v in context.parts() if isinstance(v.value, str)),
            text.strip(),
            tuple(proposals(self._content)),
            (*strays(self._content), *self._ignored()),
            tuple(self._passed_over),
        )

    def _ignored(self) -> Iterator[str]:
        if isinstance(self._content.value.get("agents"), str | list):
            place = self._content.part("agents").place
            yield f"{place.file}:{place.line}: `agents` is ignored: it is a table, as in `agents: {{include: [name]}}`"

    def _table(self, key: str, *ignored: type) -> Traced:
        """Return the table under a key, empty where there is none."""
        value = self._content.value.get(key)
        if isinstance(value, dict):
            return self._content.part(key)
        if value is not None and not isinstance(value, ignored):
            self.problems.append(must_be("a table", value, key))
        return Traced({}, self._content.place)

    def _root(self, head: Traced, folder: TreePath) -> TreePath:
        written = head.value.get("namespace_root")
        path = "bundle.namespace_root"
        if not isinstance(written, str | None):
            self.problems.append(must_be("text", written, path))
            return folder
        try:
            return folder.joined(written or "")
        except NotAcceptedError as error:
            self.problems.append(PlanProblem(path, error.problem, error.accepted))
            return folder

    def _includes(self) -> Iterator[Named]:
        written = self._content.value.get("includes")
        if not isinstance(written, list | None):
            self.problems.append(must_be("a list", written, "includes", "write one `- bundle: ADDRESS` for each"))
            return
        for index, part in self._content.part("includes").parts() if written else ():
            text = part.value.get("bundle") if isinstance(part.value, dict) else part.value
            if isinstance(text, str) and text.strip():
                yield Named(text.strip(), part.place)
            elif isinstance(part.value, dict) and part.value and "bundle" not in part.value:
                self._passed_over.append(Named(" and ".join(map(str, part.value)), part.place))
            else:
                problem = "names no bundle"
                self.problems.append(PlanProblem(path_text("includes", index), problem, "write `bundle: ADDRESS`"))

    def _names(self, around: Traced, path: str) -> Iterator[Named]:
        """Yield the names in the list `include` of a table."""
        written = around.value.get("include")
        if not isinstance(written, list | None):
            self.problems.append(must_be("a list", written, path_text(path, "include")))
            return
        for index, part in around.part("include").parts() if written else ():
            if isinstance(part.value, str) and part.value.strip():
                yield Named(part.value.strip(), part.place)
            else:
                self.problems.append(must_be("text", part.value, path_text(path, "include", index)))


def read_agent(written: str, at: TreePath, name: str) -> Traced:
    """Return the agent that is written in a file: its description, modules and instruction.

    Raises:
        PlanError: its front is no table, or has malformed modules.
    """
    front = Front.read(written, at.text, is_markdown=True)
    content = front.content
    meta = content.part("meta") if isinstance(content.value.get("meta"), dict) else content
    parts: dict[str, Traced] = {key: part for key, part in meta.parts() if key != "meta"}
    parts |= {key: content.part(key) for key in _AGENT_PARTS if key in content.value}
    if isinstance(content.value.get("agents"), str | list):
        parts["agents"] = content.part("agents")
    parts.setdefault("name", Traced(name, content.place))
    parts.setdefault("description", Traced("", content.place))
    if front.text.strip():
        parts["instruction"] = Traced(front.text.strip(), content.place)
    problems: list[PlanProblem] = []
    agent = taken_over(table(parts, content.place), at.folder, problems)
    if problems:
        lines = Positions(at.text, lambda: content.place)
        raise PlanError(placed(one, at.text, lines.line_of(one.path) or 1) for one in problems)
    return agent
