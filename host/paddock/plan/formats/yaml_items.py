"""Put an item into a list of a YAML text, or take one out, and leave every other character as it is.

The results are proposals: where several places could be meant, there are several, the most likely one first. The caller
reads each again, and takes the first with the intended content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

_NEVER_FOLDED: Final = 1_000_000  # characters of a line
_INDENT: Final = "  "
_DASH: Final = re.compile(r"( *)- +")
_COMMENT_OR_BLANK: Final = re.compile(r"[ \t]*(?:#.*)?\r?\n?")
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?:#[^\n]*)?(?=\r?\n|$)")


def with_item(
    text: str,
    section: str,
    item: Mapping[str, Any] | str,
    lines: Sequence[str] = (),
) -> Iterator[str]:
    """Propose texts in which the top-level list `section` has one more item, at its end; one text becomes a list.

    `lines` are those of the item where it stands on lines of its own, as far as a plain list of its keys is not meant.
    """
    lines = [f"- {lines[0]}", *(f"  {line}" for line in lines[1:])] if lines else item_lines(item)
    edit = _Edit.of(text)
    if edit is None:
        return
    found = edit.section(section)
    if found is None:
        yield from edit.with_section(section, item, lines)
    elif isinstance(found[1], yaml.ScalarNode):
        start, end = found[1].start_mark.index, found[1].end_mark.index
        yield edit.spliced(start, end - start, f"[{text[start:end]}, {flow_text(item)}]")
    elif not isinstance(found[1], yaml.SequenceNode):
        return
    elif not found[1].value:
        yield from edit.with_first(*found, item, lines)
    elif found[1].flow_style:
        yield edit.spliced(found[1].value[-1].end_mark.index, 0, f", {flow_text(item)}")
    else:
        yield from edit.with_last(found[1], lines)


def without_item(text: str, section: str, index: int) -> Iterator[str]:
    """Propose texts in which the top-level list `section` lacks one of its items."""
    found = _with_item_at(text, section, index)
    if found is None:
        return
    edit, key, items = found
    if items.flow_style:
        yield edit.without_flow_item(items, index)
    else:
        yield from edit.without_block_item(key, items, index)


def without_section(text: str, section: str) -> Iterator[str]:
    """Propose a text in which the top-level key `section` is gone, with its value."""
    edit = _Edit.of(text)
    found = edit.section(section) if edit is not None else None
    if edit is not None and found is not None:
        yield edit.without_section(*found)


def with_key(
    text: str,
    section: str,
    index: int,
    keys: Sequence[str],
    value: object,
) -> Iterator[str]:
    """Propose texts in which an item of the top-level list `section` has this value under `keys`, each in the last."""
    found = _with_item_at(text, section, index)
    if found is None:
        return
    edit, _, items = found
    item = items.value[index]
    for key in keys[:-1]:
        pairs = getattr(item, "value", ())
        item = next((one for name, one in pairs if name.value == key), None)
    if isinstance(item, yaml.MappingNode) and item.value:
        yield from edit.with_value(item, keys[-1], value)


def without_comments(text: str, section: str, index: int, stale: re.Pattern[str]) -> str:
    """Return the text without an item's comments that `stale` matches, each from its mark to the line's end."""
    found = _with_item_at(text, section, index)
    if found is None:
        return text
    item = found[2].value[index]
    lines = text.splitlines(keepends=True)
    first = item.start_mark.line
    after = item.end_mark.line + 1
    kept = []
    for line in lines[first:after]:
        match = stale.search(line)
        if match is None:
            kept.append(line)
        elif line[: match.start()].strip():
            kept.append(line[: match.start()].rstrip() + line[match.end() :])
    return "".join([*lines[:first], *kept, *lines[after:]])


def _with_item_at(text: str, section: str, index: int) -> tuple[_Edit, yaml.Node, yaml.SequenceNode] | None:
    """Return an edit of the text, and the nodes of a top-level list that has an item at this index."""
    edit = _Edit.of(text)
    found = edit.section(section) if edit is not None else None
    if edit is None or found is None:
        return None
    key, items = found
    if not isinstance(items, yaml.SequenceNode) or index >= len(items.value):
        return None
    return edit, key, items


def item_lines(item: Mapping[str, Any] | str) -> list[str]:
    """Return the lines of an item in a list, its dash first."""
    if isinstance(item, str):
        return [f"- {flow_text(item)}"]
    first, *rest = [f"{flow_text(key)}: {flow_text(value)}" for key, value in item.items()]
    return [f"- {first}", *(f"  {line}" for line in rest)]


def flow_text(value: object) -> str:
    """Return a value as YAML on one line."""
    return yaml_lines_of(value, is_flow=True)[0]


def yaml_lines_of(value: object, *, is_flow: bool) -> list[str]:
    """Return a value as lines of YAML; with `is_flow`, one line."""
    lines: list[str] = []
    for keeps_letters in (True, False):  # other characters are escaped: they could move or hide text
        text: str = yaml.safe_dump(
            value, default_flow_style=is_flow, sort_keys=False, allow_unicode=keeps_letters, width=_NEVER_FOLDED
        )
        lines = text.removesuffix("...\n").rstrip("\n").split("\n")
        if all(map(str.isprintable, lines)):
            break
    return lines


class _Edit:
    """A text, the tree of its nodes, and how its lines end."""

    def __init__(self, text: str, root: yaml.MappingNode) -> None:
        self._text = text
        self._root = root
        self._newline = "\r\n" if "\r\n" in text else "\n"

    @classmethod
    def of(cls, text: str) -> _Edit | None:
        if text and not text.endswith("\n"):
            text += "\r\n" if "\r\n" in text else "\n"
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        return cls(text, root) if isinstance(root, yaml.MappingNode) else None

    def section(self, name: str) -> tuple[yaml.Node, yaml.Node] | None:
        """Return the nodes of the top-level key `name`, and of its value."""
        return next((pair for pair in self._root.value if pair[0].value == name), None)

    def spliced(self, at: int, removed: int, added: str) -> str:
        return self._text[:at] + added + self._text[at + removed :]

    # -- adding ----------------------------------------------------------------------------

    def with_section(self, section: str, item: Mapping[str, Any] | str, lines: Sequence[str]) -> Iterator[str]:
        if self._root.flow_style:
            last = self._root.value[-1][1].end_mark.index if self._root.value else self._root.start_mark.index + 1
            comma = ", " if self._root.value else ""
            yield self.spliced(last, 0, f"{comma}{section}: [{flow_text(item)}]")
            return
        indent = " " * self._root.start_mark.column
        added = self._lines(["", f"{section}:"], indent) + self._lines(lines, indent + _INDENT)
        yield self._text + added
        yield self.spliced(_line_start(self._root.end_mark), 0, added)

    def with_first(
        self,
        key: yaml.Node,
        value: yaml.Node,
        item: Mapping[str, Any] | str,
        lines: Sequence[str],
    ) -> Iterator[str]:
        start, end = value.start_mark.index, value.end_mark.index
        rest = _REST_OF_LINE.match(self._text, end)
        if rest is not None and not self._root.flow_style:
            added = self._lines(lines, " " * key.start_mark.column + _INDENT).removesuffix(self._newline)
            before = self._text[:start].rstrip(" ")
            yield before + rest[0] + self._newline + added + self._text[rest.end() :]
        yield self.spliced(start, end - start, f"[{flow_text(item)}]")

    def with_last(self, value: yaml.Node, lines: Sequence[str]) -> Iterator[str]:
        dash = self._dash(value.value[-1])
        if dash is None:
            return
        added = self._lines(lines, dash[1])
        end = _line_start(value.end_mark)
        yield self.spliced(self._before_comments(end, len(dash[1])), 0, added)
        yield self.spliced(end, 0, added)

    def _lines(self, lines: Sequence[str], indent: str) -> str:
        return "".join(f"{indent}{line}".rstrip(" ") + self._newline for line in lines)

    def with_value(self, item: yaml.MappingNode, key: str, new: object) -> Iterator[str]:
        there, value = next((pair for pair in item.value if pair[0].value == key), None), flow_text(new)
        if there is not None and isinstance(there[1], yaml.SequenceNode) and isinstance(new, list):
            more = new[len(there[1].value) :]  # behind those that are there, whose comments stay
            if there[1].flow_style and there[1].value and more:
                yield self.spliced(there[1].value[-1].end_mark.index, 0, f", {flow_text(more)[1:-1]}")
            elif more:
                yield from self.with_last(there[1], [f"- {flow_text(one)}" for one in more])
        if there is None:
            first, last = item.value[0][0], item.value[-1][1]
            if item.flow_style:
                yield self.spliced(last.end_mark.index, 0, f", {key}: {value}")
                return
            # Behind the last line of the item, which a comment may end; else right behind its first key.
            line = f"{' ' * first.start_mark.column}{key}: {value}{self._newline}"
            end = _line_start(item.end_mark) if item.end_mark.column else item.end_mark.index
            yield self.spliced(self._before_comments(end, first.start_mark.column - 1), 0, line)
            following = self._text.find("\n", item.value[0][1].end_mark.index) + 1
            yield self.spliced(following, 0, line)
            return
        start, end = there[1].start_mark.index, there[1].end_mark.index
        if isinstance(there[1], yaml.ScalarNode) or there[1].flow_style:
            yield self.spliced(start, end - start, value)
            return
        end = self._before_comments(_line_start(there[1].end_mark), there[0].start_mark.column)
        colon = self._text.find(":", there[0].end_mark.index)
        yield self.spliced(colon + 1, end - colon - 1, f" {value}{self._newline}")

    # -- taking away -----------------------------------------------------------------------

    def without_section(self, key: yaml.Node, value: yaml.Node) -> str:
        start, end = _line_start(key.start_mark), value.end_mark
        after = self._text.find("\n", end.index) + 1
        if isinstance(value, yaml.CollectionNode) and not value.flow_style:
            after = self._before_comments(_line_start(end), key.start_mark.column)
        return self.spliced(start, after - start, "")

    def without_flow_item(self, value: yaml.Node, index: int) -> str:
        items = value.value
        start, end = items[index].start_mark.index, items[index].end_mark.index
        if index + 1 < len(items):
            end = items[index + 1].start_mark.index
        elif index:
            start = items[index - 1].end_mark.index
        return self.spliced(start, end - start, "")

    def without_block_item(self, key: yaml.Node, value: yaml.Node, index: int) -> Iterator[str]:
        items = value.value
        dash = self._dash(items[index])
        if dash is None:
            return
        following = self._dash(items[index + 1]) if index + 1 < len(items) else None
        if index + 1 < len(items) and following is None:
            return
        end = self._before_comments(following[0] if following else _line_start(value.end_mark), len(dash[1]))
        for start in (self._with_comments(dash[0], len(dash[1])), dash[0]):
            if len(items) > 1:
                yield self.spliced(start, end - start, "")
            elif (colon := self._text.find(":", key.end_mark.index)) >= 0:
                yield self._text[: colon + 1] + " []" + self._text[colon + 1 : start] + self._text[end:]

    # -- lines -----------------------------------------------------------------------------

    def _dash(self, item: yaml.Node) -> tuple[int, str] | None:
        """Return where an item's line begins, and the text before its dash; None if the dash is on another line."""
        start = _line_start(item.start_mark)
        match = _DASH.fullmatch(self._text, start, item.start_mark.index)
        return (start, match[1]) if match is not None else None

    def _before_comments(self, end: int, column: int) -> int:
        """Return the start of the blank lines and comments before `end` that do not belong to an item at `column`."""
        while end > 0:
            start = self._text.rfind("\n", 0, end - 1) + 1
            line = self._text[start:end]
            if not _COMMENT_OR_BLANK.fullmatch(line) or (line.strip() and _column(line) > column):
                break
            end = start
        return end

    def _with_comments(self, start: int, column: int) -> int:
        """Return the start of the comment right above an item that is about it."""
        while start > 0:
            above = self._text.rfind("\n", 0, start - 1) + 1
            line = self._text[above:start]
            comment = line.strip().removeprefix("#").lstrip()
            if not line.strip().startswith("#") or _column(line) != column or comment.startswith("-"):
                break
            start = above
        return start


def _line_start(mark: yaml.Mark) -> int:
    return int(mark.index) - int(mark.column)


def _column(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
