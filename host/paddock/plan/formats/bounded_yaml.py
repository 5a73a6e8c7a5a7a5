"""Read untrusted YAML, with time and memory bounded by its size.

No tag constructs an object, and a key that stands twice in a table is an error (the second would silently win). Bounds
are checked before values are built: the depth of nesting, the number of values and the total length of texts, each
counted again for every alias; the characters of a number, which may be to base 60; and the size of a whole number,
since keys can be such numbers. Every failure is a `YamlError`. Where libyaml is there, it reads texts of no more
characters than there may be values. What it does not take is read again by the Python of PyYAML, whose messages say
where a text is wrong.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

from paddock.plan.plain_data import MAX_DEPTH, MAX_VALUES
from paddock.plan.problems import YamlError
from paddock.plan.source_map import SourceNode

MAX_CHARACTERS: Final = 4 * 1024 * 1024  # of all texts, counting aliases; four times the largest file
MAX_NUMBER: Final = 128  # characters; 64 bits to base 2 are fewer, and 60 to the power of half of it is still a float

_MAX_NODES_DEEP: Final = MAX_DEPTH + 1  # the outermost of them is at no depth
_TAG: Final = "tag:yaml.org,2002:"
_NUMBERS: Final = (f"{_TAG}int", f"{_TAG}float", f"{_TAG}timestamp")
_PLAIN: Final = (
    'a plan holds text, numbers, truth values, lists and tables: quote what is text, as in `read: [., "!.env"]`, and '
    "leave tags out"
)
_BEGINS_TAG: Final = re.compile(r"[\s\[,]![^\s=]")
_MAX_SAID: Final = 200  # characters of the parser's message, which quotes names in full


def read_yaml(text: str) -> tuple[Any, yaml.Node | None]:
    """Return the value of a YAML text and its node; None and None for an empty one.

    Raises:
        YamlError: it is no YAML, or exceeds the bounds.
    """
    if yaml.__with_libyaml__ and len(text) <= MAX_VALUES and not yaml.reader.Reader.NON_PRINTABLE.search(text):
        with suppress(yaml.YAMLError, YamlError, ValueError, OverflowError, RecursionError):
            return _value_of(_FastLoader(text))
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        raise YamlError(f"not YAML: {error.reason}", line=text.count("\n", 0, error.position) + 1) from error
    try:
        return _value_of(loader)
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, text) from error
    except YamlError:
        raise
    except (OverflowError, ValueError) as error:  # the number of an escape or a directive is invalid
        raise YamlError(f"not YAML: {error}", line=loader.line + 1) from error
    finally:
        loader.dispose()


def _value_of(loader: _Loader | _FastLoader) -> tuple[Any, yaml.Node | None]:
    root = loader.get_single_node()
    if root is None:
        return None, None
    _check_extent(root)
    return loader.construct_document(root), root


if TYPE_CHECKING:
    _AnyLoader = yaml.SafeLoader
else:
    _AnyLoader = object


class _Bounded(_AnyLoader):
    """What of a loader stops where a value is no plain data."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return the value of a node."""
        line = node.start_mark.line + 1
        if node.tag in _NUMBERS:
            if not isinstance(node, yaml.ScalarNode):  # it may be the `=` of a table
                raise YamlError(f"a table or list is no {_kind(node.tag)}", _PLAIN, line)
            if len(node.value) > MAX_NUMBER:
                raise YamlError(f"a number has more than {MAX_NUMBER} characters", _PLAIN, line)
        try:
            value = super().construct_object(node, deep)
        except (yaml.YAMLError, YamlError):
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # The constructors' errors for a value that does not fit its tag: `!!int ""`, `!!bool maybe`, 2024-99-99.
            raise YamlError(f"a value is no {_kind(node.tag)}", _PLAIN, line) from error
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            # It would be refused later. Until then it could be a key chosen to make a table slow.
            raise YamlError("a number is beyond 64 bits", _PLAIN, line)
        return value


class _Loader(_Bounded, yaml.SafeLoader):
    """The standard loader, which stops where a text nests too deeply or contains too much."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._values = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return the next node with everything in it."""
        self._depth += 1
        self._values += 1
        line = self.line + 1
        if self._depth > _MAX_NODES_DEEP:
            raise _too_deep(line)
        if self._values > MAX_VALUES:
            raise _too_many(line)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


if yaml.__with_libyaml__:

    class _FastLoader(_Bounded, yaml.CSafeLoader):
        """The loader of libyaml."""


class _Extent(NamedTuple):
    """The size of a value, with its aliases expanded."""

    depth: int
    values: int
    characters: int


def _check_extent(root: yaml.Node) -> None:
    """Refuse duplicate keys, aliases of their own container, and more than the bounds once aliases are expanded."""
    known: dict[int, _Extent | None] = {}  # by identity of node; None: being measured, so meeting it again is a loop

    def extent_of(node: yaml.Node) -> _Extent:
        line = node.start_mark.line + 1
        if id(node) in known:
            extent = known[id(node)]
            if extent is None:
                raise YamlError(f"what starts on line {line} contains an alias of itself", line=line)
            return extent
        known[id(node)] = None
        depth, values, characters = 0, 1, 0
        for part in _parts(node):
            inner = extent_of(part)
            depth = max(depth, inner.depth)
            values += inner.values
            characters += inner.characters
        if isinstance(node, yaml.ScalarNode):
            characters = len(node.value)
        if depth >= _MAX_NODES_DEEP:
            raise _too_deep(line)
        if values > MAX_VALUES:
            raise _too_many(line)
        if characters > MAX_CHARACTERS:
            problem = f"more than {MAX_CHARACTERS} characters of text, counting what its aliases stand for"
            raise YamlError(problem, line=line)
        extent = known[id(node)] = _Extent(depth + 1, values, characters)
        return extent

    extent_of(root)


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            name = (key.tag, "" if key.tag == f"{_TAG}merge" else key.value)
            if name in seen:
                line = key.start_mark.line + 1
                raise YamlError(
                    f"key `{key.value:.40}` on line {line} stands twice in its table", "keep one of the two", line
                )
            seen.add(name)
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _too_deep(line: int) -> YamlError:
    return YamlError(f"nested too deeply: more than {MAX_DEPTH} levels, counting what its aliases stand for", line=line)


def _too_many(line: int) -> YamlError:
    return YamlError(f"more than {MAX_VALUES} values, counting what its aliases stand for", line=line)


def _kind(tag: str) -> str:
    return f"`!!{tag.removeprefix(_TAG):.40}`"


def _not_yaml(error: yaml.MarkedYAMLError, text: str) -> YamlError:
    mark = error.problem_mark
    line = text.split("\n", mark.line + 1)[mark.line] if mark is not None else ""
    hint = _PLAIN if isinstance(error, yaml.constructor.ConstructorError) or _BEGINS_TAG.search(line) else ""
    if mark is None:
        return YamlError(f"not YAML: {error.problem}", hint)
    said = f"{error.problem:.{_MAX_SAID}}"
    return YamlError(f"not YAML: line {mark.line + 1}, column {mark.column + 1}: {said}", hint, mark.line + 1)


def yaml_lines(root: yaml.Node, file: str = "", above: int = 0) -> SourceNode:
    """Return the parts of a tree of nodes, `above` lines of whose file come first.

    Several aliases share one part, on the line of its anchor.
    """
    found: dict[int, SourceNode] = {}

    def part_of(node: yaml.Node) -> SourceNode:
        known = found.get(id(node))
        if known is not None:
            return known
        part = found[id(node)] = SourceNode(node.start_mark.line + 1 + above, file=file)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = part_of(value)
                # Its own line, not the value's: that may start on a later one, or be an alias of something far away.
                part.parts[str(key.value)] = SourceNode(key.start_mark.line + 1 + above, inner.parts, file)
        elif isinstance(node, yaml.SequenceNode):
            part.parts.update(enumerate(map(part_of, node.value)))
        return part

    return part_of(root)
