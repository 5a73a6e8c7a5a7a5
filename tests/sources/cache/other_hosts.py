"""Other hosts that use the same cache: processes of their own, which may be killed in the middle of what they do.

One process is started for many tests, and forks for each act, so that many of them cost little. What an act finds is
checked in the process that has it in use: an entry that was got has to be whole.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, Self

from paddock_sources.cache import SourceCache, TreeWriter, tree_digest

_SECONDS = 60  # for all acts of one call; hit only by a hang
_FILES = 5

ADD_STAGES = (
    "place made",
    "file written",
    "content written",
    "sealed",
    "written out",
    "marked",
    "about to rename",
    "renamed",
)


def write_tree(number: int) -> Any:
    """Return what writes the tree of that number."""

    def write(tree: TreeWriter) -> None:
        for index in range(_FILES):
            tree.add_file(f"folder{index % 2}/file{index}.py", index == 1, [f"{number}\n".encode() * 100])
        tree.add_link("link", "folder1/file1.py")

    return write


def digest_of(number: int) -> str:
    """Return the digest of the tree of that number."""
    from paddock_sources.cache.tree_writer import TreeChecker

    tree = TreeChecker()
    write_tree(number)(tree)
    return tree.finish()


def assert_whole(root: Path, number: int) -> None:
    """Fail unless what is in `root` is the whole tree of that number."""
    assert tree_digest(root) == digest_of(number), f"tree {number} in {root} is not whole"


@dataclass(frozen=True)
class Act:
    """What a host does with the tree `number`; it is killed when it comes to the stage `killed_at`."""

    what: Literal["add", "get", "prune", "clean", "verify"]
    number: int = 0
    killed_at: str = ""


class OtherHosts:
    """Hosts that are there for as long as this is entered."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(_SECONDS)

    def run(self, folder: Path, *acts: Act) -> Sequence[str]:
        """Do the acts on the cache in `folder` at once, and return how each ended: `done`, `killed`, or otherwise."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), [asdict(act) for act in acts]]) + "\n")
        self._process.stdin.flush()
        ends: list[str] = json.loads(self._process.stdout.readline())
        return ends


def main() -> None:
    for line in sys.stdin:
        pipe_read, pipe_write = os.pipe()
        children = []
        folder, acts = json.loads(line)
        for act in acts:
            child = os.fork()
            if child == 0:
                os.close(pipe_write)
                _act(Path(folder), Act(**act), pipe_read)
            children.append(child)
        os.close(pipe_read)
        os.close(pipe_write)  # now all of them begin
        print(json.dumps([_end_of(child) for child in children]), flush=True)


def _act(folder: Path, act: Act, start: int) -> NoReturn:
    code = 1
    try:
        signal.alarm(_SECONDS // 2)
        os.read(start, 1)
        _do(folder, act)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _do(folder: Path, act: Act) -> None:
    def stage(name: str) -> None:
        if name == act.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(tree: TreeWriter) -> None:
        write_tree(act.number)(tree)
        stage("file written")

    cache = SourceCache(folder, stage=stage)
    if act.what == "add":
        entry = cache.trees.add_tree(write)
        assert_whole(entry.root, act.number)
    elif act.what == "get":
        found = cache.trees.tree(digest_of(act.number))
        if found is not None:
            assert_whole(found.root, act.number)
    elif act.what == "prune":
        cache.upkeep.prune(0)
    elif act.what == "clean":
        cache.upkeep.clean()
    else:
        cache.upkeep.verify()


def _end_of(child: int) -> str:
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {0: "done", -signal.SIGKILL: "killed"}.get(status, f"ended with {status}")


if __name__ == "__main__":
    main()
