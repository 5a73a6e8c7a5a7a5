"""A file or folder in what one source brings: a repository at a ref, or a folder of this machine."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from paddock.plan.problems import NotAcceptedError
from paddock_sources import SourceUriError, parse_source

_FOLDER: Final = "/"
_OTHER_WAY: Final = "an include is `git+https://…@ref#subdirectory=…`, `./path`, `namespace:path` or a known name"


@dataclass(frozen=True, slots=True)
class TreePath:
    """The place `path` in a tree; `tree` is a source without a folder in it, and `path` is empty for the whole tree."""

    tree: str
    path: str = ""

    @classmethod
    def of(cls, address: str) -> TreePath:
        """Return the place that an address names.

        Raises:
            NotAcceptedError: it is no address of a repository or of an absolute folder.
        """
        try:
            uri = parse_source(address)
        except SourceUriError as error:
            raise NotAcceptedError(f"`{error.text}` is no address of a bundle: {error.problem}", _OTHER_WAY) from error
        form, folder = uri.ruled_by
        if form == "address":
            return cls(address.partition("#")[0], posixpath.normpath(uri.requested[1]) if uri.requested[1] else "")
        if uri.kind == "folder" and folder.startswith(_FOLDER):
            return cls(posixpath.dirname(folder), posixpath.basename(folder))
        raise NotAcceptedError(f"`{address}` is no address of a bundle", _OTHER_WAY)

    @property
    def is_local(self) -> bool:
        """Whether it is in a folder of this machine, which nothing pins."""
        return self.tree.startswith(_FOLDER)

    @property
    def text(self) -> str:
        """The source that leads here."""
        if not self.path:
            return self.tree
        if self.is_local:
            return posixpath.join(self.tree, self.path)
        return f"{self.tree}#subdirectory={quote(self.path)}"

    @property
    def folder(self) -> TreePath:
        """The folder that contains it."""
        return TreePath(self.tree, posixpath.dirname(self.path))

    def is_shown_below(self, folder: TreePath) -> bool:
        """Whether it is in a folder of the same tree, and neither hidden in there nor in what is."""
        above = f"{folder.path}/".lstrip("/")
        return self.path.startswith(above) and not any(
            name.startswith(".") for name in self.path.removeprefix(above).split("/")
        )

    def joined(self, relative: str) -> TreePath:
        """Return the place `relative` to this folder.

        Raises:
            NotAcceptedError: it is outside the tree.
        """
        path = posixpath.normpath(posixpath.join(self.path, relative.lstrip("/")))
        if path == ".." or path.startswith("../"):
            raise NotAcceptedError(f"`{relative}` leads out of `{self.tree}`", "name a file of the same repository")
        return TreePath(self.tree, "" if path == "." else path)
