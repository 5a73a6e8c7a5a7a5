"""What is read of npm's files: its choice of packages, a package's own description, and the rows of a lock file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from failures import failing
from paddock_sources import SourceError, parse_source
from paddock_sources.environment.index import Index
from paddock_sources.kinds.mcp_uri import McpNpmUri
from paddock_sources.kinds.npm_name import NPM_NAME, is_npm_path
from paddock_sources.lock.lock_text import LockTextError, lock_text, parse_lock
from paddock_sources.lock.locked_module import LockedDependency, LockedModule
from paddock_sources.npm.package_files import parsed, programs, read_package_lock, scripts
from sources.npm_registry import integrity
from support.rows import each_row

_HERE = {"os": "linux", "cpu": "x64", "libc": "glibc"}
_REGISTRY = Index("https://npm.example.org", ("npm.example.org:443", "[::1]:8080"))
_INTEGRITY = integrity(b"")
_SHA512 = f"sha512:{hashlib.sha512(b'').hexdigest()}"
_FACTS = {"version": "1.0.0", "integrity": _INTEGRITY, "resolved": "https://npm.example.org/a/-/a-1.0.0.tgz"}
_UNPINNED = "it is bundled, a folder, or without a version and a sha512"
_PACKAGE = LockedDependency("a", "1.0.0", (_SHA512,), path="node_modules/a")


def chosen(packages: Any) -> tuple[LockedDependency, ...]:
    return read_package_lock(json.dumps({"packages": packages}).encode(), _REGISTRY, _HERE)


def test_packages_are_taken_by_path_version_and_hash() -> None:
    deep = "node_modules/b/node_modules/@s/a"
    found = chosen({"": {"dependencies": {}}, deep: {**_FACTS, "version": "2.0.0-rc.1+x"}, "node_modules/a": _FACTS})
    assert found == (_PACKAGE, LockedDependency("@s/a", "2.0.0-rc.1+x", (_SHA512,), path=deep))
    alias = chosen({"node_modules/other": {**_FACTS, "name": "a", "resolved": "http://[::1]:8080/a.tgz"}})
    assert alias == (replace(_PACKAGE, path="node_modules/other"),)


@each_row(
    "facts, is_taken",
    [
        ({"os": ["linux"]}, True),
        ({"os": ["darwin", "linux"], "cpu": "x64", "libc": ["glibc"]}, True),
        ({"os": ["!win32"]}, True),
        ({"os": ["any"]}, True),
        ({"os": []}, True),
        ({"os": {}}, True),
        ({"os": ["darwin"]}, False),
        ({"os": ["!linux", "linux"]}, False),
        ({"cpu": ["arm64"]}, False),
        ({"libc": ["musl"]}, False),
    ],
)
def test_optional_packages_for_other_machines_are_left_out(facts: Any, is_taken: bool) -> None:
    assert len(chosen({"node_modules/a": {**_FACTS, **facts, "optional": True}})) == is_taken
    assert len(chosen({"node_modules/a": {**_FACTS, **facts}})) == 1  # npm refuses it itself, where it is needed


@each_row(
    "path, facts, said",
    [
        ("node_modules/a", {"resolved": "git+ssh://git@github.com/o/a.git#1"}, "`git+ssh://github.com/o/a.git#1`"),
        ("node_modules/a", {"resolved": "https://example.org/a.tgz"}, "`https://example.org/a.tgz`, and not from"),
        ("node_modules/a", {"resolved": "https://npm.example.org:80/a.tgz"}, "not from the registry"),
        ("node_modules/a", {"resolved": "https://npm.example.org:x/"}, "not from the registry"),
        ("node_modules/a", {"resolved": "file:../a.tgz"}, "not from the registry"),
        ("node_modules/a", {"resolved": "../a", "link": True}, "not from the registry"),
        ("node_modules/a", {"integrity": None, "link": True}, _UNPINNED),
        ("../a", {}, _UNPINNED),
        ("node_modules/a/../b", {}, _UNPINNED),
        ("node_modules/a", {"inBundle": True, "integrity": None}, _UNPINNED),
        ("node_modules/a", {"integrity": "sha1-TzKo4gAUUVN7m6uCxS7XlcY9iI4="}, _UNPINNED),
        ("node_modules/a", {"integrity": "sha512-AAAA"}, _UNPINNED),
        ("node_modules/a", {"integrity": f"x{_INTEGRITY}"}, _UNPINNED),
        ("node_modules/a", {"integrity": f"{_INTEGRITY}A"}, _UNPINNED),
        ("node_modules/a", {"version": None}, _UNPINNED),
        ("node_modules/a", {"version": "1 --registry=x"}, _UNPINNED),
        ("node_modules/a", {"name": "--x"}, _UNPINNED),
        ("node_modules/a", {"name": ["a"]}, _UNPINNED),
    ],
)
def test_a_package_that_no_hash_of_the_registry_pins_is_refused_by_name(path: str, facts: Any, said: str) -> None:
    with failing("NpmPackageError") as caught:
        chosen({path: {**_FACTS, **facts}})
    assert said in caught.value.summary and path in caught.value.summary


@each_row(
    "content",
    [
        *(b"", b"[]", b"{", b"[" * 100_000, b'{"packages": []}', b'{"packages": {"a": 1}}', b'{"a": "\xff"}'),
        *(b'{"x": ' + b"1" * 5000 + b"}", b'{"packages": null}'),
        json.dumps({"packages": {f"node_modules/a{n}": {} for n in range(2001)}}).encode(),
    ],
)
def test_what_is_no_choice_of_packages_is_refused(content: bytes) -> None:
    with failing("NpmPackageError"):
        read_package_lock(content, _REGISTRY, _HERE)


def test_names_and_paths_are_those_that_npm_has() -> None:
    for name in ("a", "@s/a", "a.b-c_d~e", "A1", "node_modules2", "node_modules.x"):
        assert NPM_NAME.fullmatch(name) and is_npm_path(f"node_modules/{name}/node_modules/{name}"), name
    for name in (
        "",
        ".a",
        "_a",
        "a/b",
        "@s",
        "@s/",
        "@/a",
        "@s/.a",
        "..",
        "-" * 102,
        "a b",
        "a\n",
        "-a",
        "é",
        "node_modules",
    ):
        assert not NPM_NAME.fullmatch(name) and not is_npm_path(f"node_modules/{name}"), name
    for path in ("", "a", "node_modules", "x/node_modules/a", "/node_modules/a", "node_modules/a/", "node_modules//a"):
        assert not is_npm_path(path), path
    assert not is_npm_path("/".join(["node_modules/a"] * 100))


def installed(root: Path, package_json: Any, files: tuple[str, ...] = ()) -> Path:
    folder = root / _PACKAGE.path
    folder.mkdir(parents=True, exist_ok=True)
    text = package_json if isinstance(package_json, str) else json.dumps(package_json)
    (folder / "package.json").write_text(text)
    for name in files:
        (folder / name).touch()
    return root


@each_row(
    "said, names",
    [
        ({"bin": "./x.js"}, ["a"]),
        ({"bin": {"a": "x.js", "b": "./x.js"}}, ["a", "b"]),
        ({"bin": {}}, []),
        ({"bin": ""}, []),
        ({}, []),
    ],
)
def test_programs_are_those_of_the_installed_package(tmp_path: Path, said: Any, names: list[str]) -> None:
    root = installed(tmp_path, said, ("x.js",))
    assert programs(root, _PACKAGE) == dict.fromkeys(names, root / _PACKAGE.path / "x.js")


@each_row(
    "said",
    [
        *({"bin": path} for path in ("../x.js", "/etc/passwd", "y/../../x.js", "gone.js", ".", "\0", "a\nb")),
        *({"bin": {"a": path}} for path in (None, 7, [], "../a/../x.js")),
        *({"bin": ["x.js"]}, {"bin": {f"p{n}": "x.js" for n in range(201)}}, "[]", "{", '{"a": 1, ' + " " * (1 << 20)),
    ],
)
def test_programs_that_lead_out_or_nowhere_are_refused(tmp_path: Path, said: Any) -> None:
    root = installed(tmp_path, said, ("x.js",))
    (root / "node_modules" / "x.js").touch()
    with pytest.raises(SourceError):
        programs(root, _PACKAGE)


def test_scripts_of_an_installation_are_told_by_package(tmp_path: Path) -> None:
    for said, files, told in (
        ({"scripts": {"prepare": "x", "test": "x", "install": ""}}, (), []),
        ({"scripts": ["install"]}, (), []),
        (
            {"scripts": {"preinstall": "x", "install": "y", "postinstall": "z"}},
            (),
            ["preinstall, install, postinstall"],
        ),
    ):
        assert [*scripts(installed(tmp_path, said, files), [_PACKAGE])] == [f"a 1.0.0 ({one})" for one in told]
    assert [*scripts(installed(tmp_path, {}, ("binding.gyp",)), [_PACKAGE])] == ["a 1.0.0 (binding.gyp)"]
    with failing("NpmPackageError", "node_modules/b/package.json"):
        list(scripts(tmp_path, [replace(_PACKAGE, path="node_modules/b")]))


def test_json_that_is_no_object_is_refused() -> None:
    assert parsed(b'{"a": 1}', "x") == {"a": 1}
    with failing("NpmPackageError", "`x` of npm is refused"):
        parsed(b"7", "x")


_LOCKED = LockedModule(
    "mcp+npm:@s/server-a@1.0.0",
    "1.0.0",
    "1.0.0",
    tree=f"sha256:{'0a' * 32}",
    dependencies=(
        LockedDependency("@s/server-a", "1.0.0", (_SHA512,), path="node_modules/@s/server-a"),
        LockedDependency("b", "1.0.0", (_SHA512,), path="node_modules/b"),
        LockedDependency("b", "2.0.0", (_SHA512,), path="node_modules/@s/server-a/node_modules/b"),
    ),
)


def test_a_locked_server_has_a_row_for_each_place_of_a_package() -> None:
    (again,) = parse_lock(lock_text([_LOCKED])).modules
    assert again.digest == _LOCKED.digest and set(again.dependencies) == set(_LOCKED.dependencies)
    moved = replace(_LOCKED.dependencies[1], path="node_modules/c")
    assert replace(_LOCKED, dependencies=(*_LOCKED.dependencies[:1], moved)).digest != _LOCKED.digest


@each_row(
    "old, new, said",
    [
        ('path = "node_modules/b"', 'path = "../b"', "`path` is not what"),
        ('path = "node_modules/b"', 'path = "node_modules/@s/server-a"', "stands twice"),
        ('path = "node_modules/b"\n', "", "neither `commit` nor `tree`|each with a `path`"),
        (
            'name = "@s/server-a"\nversion = "1.0.0"\npath = "node_modules/@s/server-a"\n',
            'name = "@s/x"\nversion = "1"\n',
            "`name`",
        ),
        (_SHA512, f"sha256:{'0a' * 32}", "one sha512"),
        ('path = "node_modules/b"', f'path = "node_modules/b"\ntree = "sha256:{"0a" * 32}"', "one sha512"),
        (f'tree = "sha256:{"0a" * 32}"\n', "", "pinned by version, `tree`"),
    ],
)
def test_rows_of_packages_are_read_strictly(old: str, new: str, said: str) -> None:
    text = lock_text([_LOCKED])
    assert old in text
    with pytest.raises(LockTextError, match=said):
        parse_lock(text.replace(old, new, 1))


def test_a_server_in_a_package_of_npm_has_one_key_and_a_short_name() -> None:
    for text, module_id in (
        ("mcp+npm:@modelcontextprotocol/server-filesystem@2026.8.31", "tool-mcp-filesystem"),
        ("mcp+npm:mcp-server-x@1.0.0-rc.1+b", "tool-mcp-x"),
        ("mcp+npm:@s/weather", "tool-mcp-weather"),
    ):
        uri = parse_source(text)
        assert isinstance(uri, McpNpmUri)
        assert (uri.key(Path("/")), uri.short_name) == (text, module_id)
    for text in (
        "mcp+npm:",
        "mcp+npm:@s@1",
        "mcp+npm:a@^1",
        "mcp+npm:a@",
        "mcp+npm:../a",
        "mcp+npm:-a",
        "mcp+npm:a@latest",
    ):
        with failing("SourceUriError", "at an exact version"):
            parse_source(text)
