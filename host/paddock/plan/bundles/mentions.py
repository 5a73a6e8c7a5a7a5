"""What texts of bundles mention: files of the bundles' own trees, and nothing else of the machine.

A text of a repository mentions files of repositories that are part of the composition. One in a local folder mentions
files below that folder as well, without hidden ones. For a file that may not be mentioned, the answer is the same as
for one that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from paddock.plan.bundles.composition import Composed, Wanted
from paddock.plan.bundles.tree_path import TreePath
from paddock.plan.bundles.trees import PinnedTrees
from paddock.plan.instruction import MAX_FILE, Instruction, MentioningText, NoSuchFileError, compose
from paddock.plan.problems import NotAcceptedError


@dataclass(frozen=True, slots=True)
class BundleMentions:
    """The files that a text below the folder `root` may mention; `roots` are those of all namespaces."""

    trees: PinnedTrees
    roots: Mapping[str, TreePath]
    root: TreePath

    def read(self, mention: str) -> MentioningText:
        """Return the file for a mention, whose own mentions start at the same root; see `Reader`."""
        name, has_name, path = mention.partition(":")
        root = self.roots.get(name) if has_name else self.root
        if root is None or (root.is_local and root.tree != self.root.tree):
            raise _not_there(mention)
        return replace(self, root=root).file(path if has_name else mention, mention)

    def file(self, path: str, shown: str) -> MentioningText:
        """Return the file at a path below the root."""
        if path.startswith(("/", "~")) or (self.root.is_local and any(one[:1] == "." for one in path.split("/"))):
            raise _not_there(shown)
        at = self.root.joined(path)
        if not f"{at.path}/".startswith(f"{self.root.path}/".lstrip("/")):
            raise _not_there(shown)
        found = self.trees.find(Wanted(at.tree, (at.path, f"{at.path}.md"), is_needed=False), MAX_FILE)
        if found is None:
            raise _not_there(shown)
        return MentioningText(found[1], self.read, TreePath(at.tree, found[0]).text)


def instruction_of(composed: Composed, trees: PinnedTrees) -> Instruction:
    """Return the instruction of bundles, with what it mentions and the files of their contexts.

    Raises:
        NotAcceptedError: a file of a context is not there, or no text.
    """
    also = []
    for name, at in composed.context.items():
        space = name.partition(":")[0]
        reader = BundleMentions(trees, composed.roots, composed.roots.get(space, at.folder))
        found = trees.find(Wanted(at.tree, (at.path, f"{at.path}.md")), MAX_FILE)
        if found is None:
            raise NotAcceptedError(f"`{at.text}`, a context that a bundle includes, is not there", "correct its path")
        also.append(MentioningText(found[1], reader.read, name))
    first = composed.instruction
    if first is None:
        return compose(MentioningText("", _nothing), also)
    reader = BundleMentions(trees, composed.roots, first.root)
    return compose(MentioningText(first.text, reader.read, first.at.text), also)


def text_of_agent(name: str, text: str, composed: Composed, trees: PinnedTrees) -> Instruction:
    """Return the instruction of an agent of a bundle, with what it mentions."""
    reader = BundleMentions(trees, composed.roots, composed.agent_roots[name])
    return compose(MentioningText(text, reader.read, f"agent `{name}`"))


def _nothing(mention: str) -> MentioningText:
    raise _not_there(mention)


def _not_there(mention: str) -> NoSuchFileError:
    return NoSuchFileError(f"no bundle has `{mention}`, and a bundle mentions only files of bundles", "leave it out")
