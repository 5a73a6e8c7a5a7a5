"""The lines of what stands in a YAML text that has already been found to be one, from the tree of its nodes."""

from __future__ import annotations

import yaml

from paddock.plan.source_map import SourceNode


def yaml_lines(root: yaml.Node) -> SourceNode:
    """Return the parts of a tree of nodes; what several aliases stand for is one part, on the line of its anchor."""
    found: dict[int, SourceNode] = {}

    def part_of(node: yaml.Node) -> SourceNode:
        known = found.get(id(node))
        if known is not None:
            return known
        part = found[id(node)] = SourceNode(node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = part_of(value)
                # Its own line, not the value's: that may start on a later one, or be an alias of something far away.
                part.parts[str(key.value)] = SourceNode(key.start_mark.line + 1, inner.parts)
        elif isinstance(node, yaml.SequenceNode):
            part.parts.update(enumerate(map(part_of, node.value)))
        return part

    return part_of(root)
