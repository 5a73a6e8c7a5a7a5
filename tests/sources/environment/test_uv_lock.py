"""A module's `uv.lock` is read as data, from the project on, and refused by name where it names other origins."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from failures import failing
from paddock_sources.constraints import refuse_contradictions
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.locked import LockedDistribution
from paddock_sources.environment.requirements import Requirements
from paddock_sources.environment.uv_lock import UvLock
from paddock_sources.errors import SourceError
from paddock_sources.lock.locked_module import LockedDependency

_REGISTRY = '{ registry = "https://pypi.org/simple" }'
_HASH = "sha256:" + "a" * 64
_COMMIT = "c" * 40
_PYTHON = Interpreter.this()


def package(name: str, version: str = "1.0", source: str = _REGISTRY, needs: str = "", more: str = "") -> str:
    return f'[[package]]\nname = "{name}"\nversion = "{version}"\nsource = {source}\ndependencies = [{needs}]\n{more}\n'


def project(needs: str, more: str = "") -> str:
    return package("tool-demo", source='{ editable = "." }', needs=needs, more=more)


def read(
    folder: Path, *parts: str, wants: tuple[str, ...] = (), version: str = "version = 1\n", **more: object
) -> UvLock:
    (folder / "uv.lock").write_text(version + "".join(parts))
    return UvLock.read(folder, folder, Requirements("tool-demo", "1", wants), _PYTHON, **more)  # type: ignore[arg-type]


def versions(lock: UvLock) -> dict[str, str]:
    return {name: one.version for name, one in sorted(lock.packages.items())}


def test_what_the_project_needs_here_is_followed(tmp_path: Path) -> None:
    lock = read(
        tmp_path,
        project(
            '{ name = "Branch" }, { name = "windows", marker = "sys_platform == \'win32\'" },'
            ' { name = "extra", extra = ["fast"] }, { name = "amplifier-core" }'
        ),
        package("branch", needs='{ name = "leaf" }'),
        package("leaf", "2.0", needs='{ name = "branch" }'),
        package("windows", source='{ path = "x.whl" }'),
        package("extra", more='[package.optional-dependencies]\nfast = [{ name = "quick" }]\nslow = [{ name = "no" }]'),
        package("quick", "3"),
        package("amplifier-core", source='{ directory = "../core" }'),
        package("dev-only", source='{ url = "https://x/y.whl" }'),
        wants=("branch>=1", "extra[fast]"),
    )
    assert versions(lock) == {"branch": "1.0", "extra": "1.0", "leaf": "2.0", "quick": "3"}


def test_an_extra_of_the_project_made_of_its_others_is_followed(tmp_path: Path) -> None:
    extras = """[package.optional-dependencies]
all = [{ name = "tool-demo", extra = ["fast", "all"] }]
fast = [{ name = "quick" }]
slow = [{ name = "no" }]"""
    parts = (project('{ name = "leaf" }', extras), package("leaf"), package("quick"), package("no"))
    assert versions(read(tmp_path, *parts, extras=("all",))) == {"leaf": "1.0", "quick": "1.0"}
    # Another package may need the project, with an extra.
    parts = (parts[0], package("leaf", needs='{ name = "tool-demo", extra = ["slow"] }'), *parts[2:])
    assert versions(read(tmp_path, *parts)) == {"leaf": "1.0", "no": "1.0"}


def test_of_two_versions_the_one_for_this_python_counts(tmp_path: Path) -> None:
    lock = read(
        tmp_path,
        project('{ name = "leaf" }'),
        package("leaf", "1.0", more="resolution-markers = [\"python_full_version < '3'\"]"),
        package("leaf", "2.0", more="resolution-markers = [\"python_full_version >= '3'\"]"),
    )
    assert versions(lock) == {"leaf": "2.0"}


def test_a_lock_of_the_workspace_around_is_found(tmp_path: Path) -> None:
    inside = tmp_path / "modules" / "tool-demo"
    inside.mkdir(parents=True)
    (tmp_path / "uv.lock").write_text("version = 1\n" + project('{ name = "leaf" }') + package("leaf"))
    needs = Requirements("tool-demo", "1", ("leaf",))
    assert versions(UvLock.read(inside, tmp_path, needs, _PYTHON)) == {"leaf": "1.0"}
    with failing("UvLockMissingError"):
        UvLock.read(inside, inside, needs, _PYTHON)  # nothing above the pinned code is read


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("path", '{ path = "leaf.whl" }'),
        ("url", '{ url = "https://example.com/leaf.whl" }'),
        ("directory", '{ directory = "../leaf" }'),
        ("editable", '{ editable = "../leaf" }'),
        ("virtual", '{ virtual = "../leaf" }'),
    ],
)
def test_other_origins_are_refused_by_name(tmp_path: Path, kind: str, source: str) -> None:
    with failing("UvLockSourceError") as caught:
        read(
            tmp_path,
            project('{ name = "branch" }'),
            package("branch", needs='{ name = "leaf" }'),
            package("leaf", source=source),
        )
    assert "`leaf` in it comes from" in caught.value.summary and f"(`{kind}`)" in caught.value.summary
    assert any("dependencies: locked" in hint for hint in caught.value.hints)


def test_a_repository_counts_where_the_project_names_it(tmp_path: Path) -> None:
    source = f'{{ git = "https://example.com/org/leaf?rev=main#{_COMMIT}" }}'
    lock = read(tmp_path, project('{ name = "leaf" }'), package("leaf", source=source))
    assert lock.constraints == ()
    assert lock.commit_of("leaf", "https://example.com/org/leaf.git") == _COMMIT
    with failing("UvLockCoverageError"):
        lock.commit_of("leaf", "https://example.com/other/leaf")
    lock.check_repositories(["leaf"])
    with failing("UvLockSourceError") as caught:
        lock.check_repositories([])
    assert "`leaf` in it comes from the repository https://example.com/org/leaf" in caught.value.summary


@pytest.mark.parametrize(
    ("wants", "there"),
    [("leaf>=2", "has 1.0"), ("other", "does not have it")],
)
def test_a_lock_that_does_not_cover_is_refused(tmp_path: Path, wants: str, there: str) -> None:
    with failing("UvLockCoverageError") as caught:
        read(tmp_path, project('{ name = "leaf" }'), package("leaf"), wants=(wants,))
    assert f"`{wants}` is needed" in caught.value.summary and there in caught.value.summary


def test_what_was_chosen_has_the_files_of_the_lock(tmp_path: Path) -> None:
    wheels = f'wheels = [{{ url = "https://x/leaf.whl", hash = "{_HASH}" }}]'
    lock = read(tmp_path, project('{ name = "leaf" }'), package("leaf", more=wheels))
    other = "sha256:" + "b" * 64
    (narrowed,) = lock.narrowed([LockedDistribution("leaf", "1.0", (_HASH, other))])
    assert narrowed.hashes == (_HASH,)
    with failing("HashMismatchError"):
        lock.narrowed([LockedDistribution("leaf", "1.0", (other,))])
    with failing("UvLockCoverageError"):
        lock.narrowed([LockedDistribution("unknown", "1.0", (_HASH,))])
    assert lock.difference([LockedDependency("leaf", "1.0", (_HASH,))]) is None
    assert lock.difference([LockedDependency("leaf", "1.0", (_HASH, other))]) == (
        "leaf 1.0 with other files than the module's uv.lock has"
    )


def test_a_lock_without_hashes_accepts_the_files_that_were_chosen(tmp_path: Path) -> None:
    lock = read(tmp_path, project('{ name = "leaf" }'), package("leaf"))
    chosen = LockedDistribution("leaf", "1.0", (_HASH,))
    assert lock.narrowed([chosen]) == (chosen,)
    assert lock.difference([LockedDependency("leaf", "1.0", (_HASH,))]) is None


@pytest.mark.parametrize(
    ("version", "code"),
    [
        ("version = 2\n", "UvLockVersionError"),
        ("", "UvLockVersionError"),
        ("version = true\n", "UvLockVersionError"),
        ('version = "1"\n', "UvLockVersionError"),
        ("version = \n", "UvLockError"),
        ("a" * (9 << 20), "UvLockError"),
    ],
)
def test_a_lock_of_another_form_is_refused(tmp_path: Path, version: str, code: str) -> None:
    with failing(code):
        read(tmp_path, version=version)


@pytest.mark.parametrize(
    "parts",
    [
        "package = 1\n",
        "package = [1]\n",
        '[[package]]\nversion = "1"\n',
        package("leaf"),  # without the project
        project("1"),
        project('{ name = "leaf" }'),  # which is not there
        project('{ name = "leaf" }') + package("leaf") + package("leaf", "2.0"),
        project('{ name = "leaf" }') + package("leaf", source="1"),
        project('{ name = "leaf" }') + package("leaf", source="{ odd = 'x' }"),
        project('{ name = "leaf" }') + package("leaf", source="{ git = 'https://x/leaf' }"),
        project('{ name = "leaf" }') + package("leaf", "1.0 --index-url=x"),
        project('{ name = "leaf" }') + package("leaf", "abc"),
        project('{ name = "leaf" }') + package("leaf", more="optional-dependencies = 1"),
        project('{ name = "leaf" }') + package("leaf", more="wheels = [{ hash = 'md5:1' }]"),
        project('{ name = "leaf", marker = "((" }') + package("leaf"),
        project('{ name = "leaf", extra = "fast" }') + package("leaf"),
        project('{ name = "../leaf" }'),
    ],
)
def test_parts_of_another_form_are_refused(tmp_path: Path, parts: str) -> None:
    with pytest.raises(SourceError) as caught:
        refuse_contradictions(read(tmp_path, parts).constraints)
    assert caught.value.code.startswith("UvLock") and "uv.lock" in caught.value.summary


def test_a_hostile_lock_costs_little_time(tmp_path: Path) -> None:
    wheels = ", ".join(f'{{ hash = "{_HASH}" }}' for _ in range(1500))
    edges = ", ".join('{ name = "leaf" }' for _ in range(900))
    repeated = [package(f"p{number}", needs=edges) for number in range(20)]
    names = ", ".join(f'{{ name = "p{number}" }}' for number in range(20))
    started = time.process_time()
    lock = read(tmp_path, project(names), *repeated, package("leaf", more=f"wheels = [{wheels}]"))
    assert len(lock.packages) == 21
    # Of each edge the files would be looked at again: 27 million of them.
    assert time.process_time() - started < 10
    few = range(600)
    many = [
        package(
            f"p{number}",
            needs=", ".join(f"{{ name = 'leaf', marker = \"python_version > '9.{number}.{n}'\" }}" for n in few),
        )
        for number in range(20)
    ]
    with failing("UvLockError") as caught:
        read(tmp_path, project(names), *many, package("leaf"))
    assert "more than 10000 different markers" in caught.value.summary
    # Of each requested extra, all that the package has would be compared again: 400 million of them.
    extras = [f"e{number}" for number in range(20_000)]
    table = "[package.optional-dependencies]\n" + "\n".join(f"{extra} = []" for extra in extras)
    requested = f'{{ name = "leaf", extra = {extras} }}'
    started = time.process_time()
    assert versions(read(tmp_path, project(requested), package("leaf", more=table))) == {"leaf": "1.0"}
    assert time.process_time() - started < 10
