"""Repositories that were made to do harm: by how they unfold, by what their files are called, by what these say.

Each is made of the harmless `tool-greet` and one thing more, so that nothing but that can be what it is refused for.
Where a row says `refused` names the errors that it may be refused with; without any it has to be taken, and do nothing.
`left_out` is a path that must not have become anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sources.git.origin_repository import Entries, OriginRepository
from sources.git_repositories import module_files

FILE, PROGRAM, LINK, SUBMODULE = "100644", "100755", "120000", "160000"
CANARY = "executed"  # a file of that name anywhere says that something was run

_UNSAFE = ("UnsafeTreeError", "DamagedRepositoryError")  # by our own checks, or by git's
_LAYOUT = ("ManifestError", "ModuleLayoutError")
_PROJECT = ("SourceUriError", "ManifestError", "RequirementsError", "OwnRightsError", "DistributionMetadataError")


@dataclass(frozen=True)
class Hostile:
    """A repository of one bad kind; `make` puts it on branch `main` of an empty one."""

    what: str
    make: Callable[[OriginRepository], object]
    refused: Sequence[str] = ()
    left_out: str = ""

    def __str__(self) -> str:
        return self.what.replace(" ", "-")


def harmless() -> dict[str, tuple[str, bytes]]:
    """Return the entries of a module that nothing is wrong with."""
    return {path: (FILE, content.encode()) for path, content in module_files("tool-greet").items()}


def entries(more: Entries) -> Callable[[OriginRepository], None]:
    """Have these files besides, which no work tree need be able to have."""

    def make(origin: OriginRepository) -> None:
        origin.commit_entries({**harmless(), **more}, "refs/heads/main")

    return make


def project(text: str | bytes) -> Callable[[OriginRepository], None]:
    """Have this project file instead."""
    return entries({"pyproject.toml": (FILE, text if isinstance(text, bytes) else text.encode())})


def more_project(text: str, dependencies: str = "[]") -> Callable[[OriginRepository], None]:
    """Have this in the project file besides."""
    plain = module_files("tool-greet")["pyproject.toml"].replace("dependencies = []", f"dependencies = {dependencies}")
    return project(plain + text)


def raw_tree(origin: OriginRepository, lines: Sequence[tuple[str, str, str]]) -> str:
    """Write a tree of modes, names and objects, in that order and as they are, and return what it is called."""
    return origin.put("tree", b"".join(origin.line(mode, what, name) for mode, name, what in lines))


def _put(origin: OriginRepository, tree: str) -> None:
    """Have `main` be a commit of the harmless files and a folder `more`."""
    whole = origin.tree([*origin.lines(harmless()), origin.line("40000", tree, "more")])
    origin.commit_tree(whole, "refs/heads/main")


# -- what unfolds


def wide_bomb(origin: OriginRepository) -> None:
    """A few hundred bytes that are ten thousand million files."""
    tree = raw_tree(origin, [("100644", "x", origin.put("blob", b""))])
    for _ in range(10):
        tree = raw_tree(origin, [("40000", f"d{number}", tree) for number in range(10)])
    _put(origin, tree)


def deep_bomb(origin: OriginRepository, depth: int = 4000) -> None:
    """Folders in folders, so deep that git itself may run out of stack."""
    lines = [b"blob\nmark :1\ndata 0\n\n", b"commit refs/heads/deep\ncommitter A <a@b> 1 +0000\ndata 0\n\n"]
    lines.append(b"M 100644 :1 " + b"d/" * depth + b"x\n")
    origin.git("fast-import", "--quiet", stdin=b"".join(lines))
    tree = origin.git("rev-parse", "deep^{tree}")
    _put(origin, tree)


def blob_bomb(origin: OriginRepository) -> None:
    """A file of nothing, which takes no room until it is unpacked."""
    blob = origin.put("blob", bytes((64 << 20) + 1))
    _put(origin, raw_tree(origin, [("100644", "zeros", blob)]))


# -- what no tree may have


def twice(origin: OriginRepository) -> None:
    one, other = (origin.put("blob", text) for text in (b"1", b"2"))
    _put(origin, raw_tree(origin, [("100644", "x.py", one), ("100644", "x.py", other)]))


def file_and_folder(origin: OriginRepository) -> None:
    blob = origin.put("blob", b"1")
    folder = raw_tree(origin, [("100644", "y", blob)])
    _put(origin, raw_tree(origin, [("100644", "x", blob), ("40000", "x", folder)]))


def slash_in_a_name(name: str) -> Callable[[OriginRepository], None]:
    def make(origin: OriginRepository) -> None:
        blob = origin.put("blob", b"1")
        _put(origin, raw_tree(origin, [("100644", name, blob)]))

    return make


def odd_mode(mode: str) -> Callable[[OriginRepository], None]:
    def make(origin: OriginRepository) -> None:
        blob = origin.put("blob", b"1")
        _put(origin, raw_tree(origin, [(mode, "odd", blob)]))

    return make


# -- what git would do something for


def hooks(origin: OriginRepository) -> None:
    """Have hooks, in the repository and among the files, and a configuration that names programs."""
    run = f"#!/bin/sh\ntouch {origin.folder.parent / CANARY}\n".encode()
    names = ("post-checkout", "post-merge", "pre-auto-gc", "reference-transaction", "post-update", "pre-receive")
    more = {f"hooks/{name}": (PROGRAM, run) for name in names} | {"config": (FILE, b"[core]\n\tbare = true\n")}
    entries(more)(origin)
    for name in names:
        hook = origin.folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_bytes(run)
        hook.chmod(0o755)
    program = f"touch {origin.folder.parent / CANARY}"
    for name in ("core.fsmonitor", "core.sshCommand", "uploadpack.packObjectsHook", "core.pager", "gpg.program"):
        origin.git("config", name, program)


def filters(origin: OriginRepository) -> None:
    program = f"touch {origin.folder.parent / CANARY}; cat"
    attributes = b"* filter=evil diff=evil merge=evil ident text eol=crlf working-tree-encoding=UTF-16\n"
    entries(
        {".gitattributes": (FILE, attributes), "model.bin": (FILE, b"version https://git-lfs.github.com/spec/v1\n")}
    )(origin)
    for name in ("filter.evil.smudge", "filter.evil.clean", "filter.evil.process", "diff.evil.textconv"):
        origin.git("config", name, program)


def replaced(origin: OriginRepository) -> None:
    """Have another commit stand for `main`, wherever git is told to look at replacements."""
    entries({})(origin)
    origin.commit_entries({**harmless(), "stranger.py": (FILE, b"1")}, f"refs/replace/{origin.head()}")


_SUBMODULE = b'[submodule "x"]\n\tpath = %s\n\turl = %s\n'
_EXECUTE = "open('/tmp/" + CANARY + "', 'w')"
_SIXTEEN = "1" * 40

HOSTILE: Sequence[Hostile] = (
    Hostile("nothing wrong", entries({})),
    Hostile("a tree that is ten thousand million files", wide_bomb, ("TooLargeError",)),
    Hostile("folders deeper than git can go", deep_bomb, (*_UNSAFE, "FetchError")),
    Hostile("a file of nothing that is larger than one may be", blob_bomb, _UNSAFE),
    Hostile("a name that is there twice", twice, _UNSAFE),
    Hostile("a file that is a folder as well", file_and_folder, _UNSAFE),
    Hostile("a slash in a name", slash_in_a_name("a/b"), _UNSAFE),
    Hostile("a name that leads up", slash_in_a_name("../up"), _UNSAFE),
    Hostile("a name that is an absolute path", slash_in_a_name("/tmp/up"), _UNSAFE),
    Hostile("a name of two dots", slash_in_a_name(".."), _UNSAFE),
    Hostile("an empty name", slash_in_a_name(""), _UNSAFE),
    Hostile("a repository within", entries({"x/.git/config": (FILE, b"[core]\n")}), _UNSAFE),
    Hostile("a repository within in capitals", entries({"x/.GiT/config": (FILE, b"[core]\n")}), _UNSAFE),
    Hostile("a repository within by its short name", entries({"GIT~1/config": (FILE, b"[core]\n")}), _UNSAFE),
    Hostile("a repository within behind what is not seen", entries({".g\u200cit/config": (FILE, b"x")}), _UNSAFE),
    Hostile("names that differ in case alone", entries({"PyProject.toml": (FILE, b"x")}), _UNSAFE),
    Hostile("a name of 256 bytes", entries({"x" * 256: (FILE, b"x")}), _UNSAFE),
    Hostile("a path of a thousand bytes and more", entries({"/".join(["d" * 200] * 6): (FILE, b"x")}), _UNSAFE),
    Hostile("a name that draws on terminals", entries({"a\x1b[2Jb": (FILE, b"x")}), _UNSAFE),
    Hostile("a name of more than a line", entries({"a\nb": (FILE, b"x")}), _UNSAFE),
    Hostile("a name that is no text", entries({"\udcff": (FILE, b"x")}), _UNSAFE),
    *(
        Hostile(f"a mode of {mode}", odd_mode(mode), left_out="more/odd")  # to git, another repository's place
        for mode in ("20666", "60666", "10644", "140755", "170000")
    ),
    Hostile("no mode at all", odd_mode("0"), _UNSAFE),
    Hostile("a link out", entries({"link": (LINK, b"../outside")}), _UNSAFE),
    Hostile("a link to an absolute path", entries({"link": (LINK, b"/etc/passwd")}), _UNSAFE),
    Hostile(
        "links that lead out together",
        entries({"a/b": (LINK, b".."), "c": (LINK, b"a/b/../../outside")}),
        _UNSAFE,
    ),
    Hostile("links in a circle", entries({"a": (LINK, b"b"), "b": (LINK, b"a")}), _UNSAFE),
    Hostile("a project file that leads out", entries({"pyproject.toml": (LINK, b"/etc/passwd")}), _UNSAFE),
    Hostile(
        "a link through which a file would be written", entries({"a": (LINK, b"/tmp"), "a/x": (FILE, b"")}), _UNSAFE
    ),
    # What git would do something for.
    Hostile("hooks and programs in its configuration", hooks),
    Hostile("filters", filters),
    Hostile("a commit that stands for another", replaced),
    Hostile(
        "a submodule elsewhere",
        entries(
            {".gitmodules": (FILE, _SUBMODULE % (b"sub", b"https://127.0.0.1:1/x")), "sub": (SUBMODULE, b"1" * 40)}
        ),
    ),
    Hostile(
        "a submodule that is a program",
        entries({".gitmodules": (FILE, _SUBMODULE % (b"sub", b"ext::sh -c touch% " + CANARY.encode()))}),
        (),
    ),
    Hostile("a submodule that is an option", entries({".gitmodules": (FILE, _SUBMODULE % (b"-x", b"-u./x"))}), _UNSAFE),
    Hostile("modules of git in a link", entries({".gitmodules": (LINK, b"pyproject.toml")}), _UNSAFE),
    # What the project file says.
    Hostile("a project file larger than one may be", project("#" * (300 << 10)), _PROJECT),
    Hostile("a project file that is a folder", lambda origin: _folder_for_project(origin), _PROJECT),
    Hostile(
        "a name that leads up from its metadata", project('[project]\nname = "../../../../x"\nversion = "1"'), _PROJECT
    ),
    *(
        Hostile(f"a dependency that is {what}", more_project("", f"['{text}']"), _PROJECT)
        for what, text in {
            "a local repository": "x @ git+file:///etc",
            "a program": "x @ git+ext::sh -c id",
            "reached with keys": "x @ git+ssh://git@evil.example/x",
        }.items()
    ),
    Hostile("an entry point that leads up", more_project('x = "../../evil:mount"\n'), _PROJECT),
    Hostile(
        "an entry point into the standard library",
        project('[project]\nname = "x"\n[project.entry-points."amplifier.modules"]\ntool-greet = "os:system"'),
    ),
    Hostile("a package that is a link", lambda origin: _package_link(origin), (*_UNSAFE, *_LAYOUT)),
    Hostile("a build that runs what it likes", entries({"setup.py": (FILE, _EXECUTE.encode())})),
    Hostile(
        "a backend of its own",
        more_project('[build-system]\nrequires = ["evil"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'),
    ),
    Hostile(
        "paths that are processed when Python starts",
        entries({"evil.pth": (FILE, f"import os; {_EXECUTE}".encode()), "sitecustomize.py": (FILE, _EXECUTE.encode())}),
    ),
)


def _folder_for_project(origin: OriginRepository) -> None:
    files = harmless()
    del files["pyproject.toml"]
    origin.commit_entries({**files, "pyproject.toml/x": (FILE, b"")}, "refs/heads/main")


def _package_link(origin: OriginRepository) -> None:
    files = harmless()
    package = next(path for path in files if path.endswith("__init__.py"))
    folder = package.rpartition("/")[0]
    origin.commit_entries(
        {"pyproject.toml": files["pyproject.toml"], "other/x.py": (FILE, b""), folder: (LINK, b"other/../other")},
        "refs/heads/main",
    )
