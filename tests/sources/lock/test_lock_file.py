"""The lock file: what it says comes back, what is not of its form is refused with its line, nothing of it is lost."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import string
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock_sources.errors import SourceUriError
from paddock_sources.lock import lock_file
from paddock_sources.lock.lock_file import LockedDependency, LockedModule, LockFile, LockFileError
from paddock_sources.lock.lock_placeholder import LockPlaceholder
from paddock_sources.lock.lock_text import LockTextError, lock_text, parse_lock
from paddock_sources.uri import parse_source
from support.rows import each_row

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DIGEST = f"sha256:{'ab' * 32}"
HASHES = (f"sha256:{'01' * 32}", f"sha256:{'02' * 32}")

GIT = LockedModule(
    source="git+https://example.org/team/modules@v1.2#subdirectory=tools/one",
    requested_ref="v1.2",
    requested_kind="tag",
    commit=COMMIT,
    committed_at=datetime(2026, 1, 31, 12, tzinfo=UTC),
    tree=DIGEST,
    subdirectory="tools/one",
    permissions_digest=DIGEST,
    dependencies=(
        LockedDependency("httpx", "0.27.2", HASHES),
        LockedDependency("theirs", "0+abc", source="git+https://example.org/lib@main", commit=COMMIT, tree=DIGEST),
    ),
)
FOLDER = LockedModule(source="./modules/tool-x", tree=DIGEST)
PACKAGE = LockedModule(source="tool-y==1.0", requested_ref="1.0", commit="1.0", hashes=HASHES)

TEXT = f"""\
version = 1

[[module]]
source = "./modules/tool-x"
tree = "{DIGEST}"

[[module]]
source = "git+https://example.org/team/modules@v1.2#subdirectory=tools/one"
requested_ref = "v1.2"
requested_kind = "tag"
commit = "{COMMIT}"
committed_at = 2026-01-31T12:00:00Z
tree = "{DIGEST}"
subdirectory = "tools/one"
permissions_digest = "{DIGEST}"

[[module.dependency]]
name = "httpx"
version = "0.27.2"
hashes = [
    "{HASHES[0]}",
    "{HASHES[1]}",
]

[[module.dependency]]
name = "theirs"
version = "0+abc"
source = "git+https://example.org/lib@main"
commit = "{COMMIT}"
tree = "{DIGEST}"

[[module]]
source = "tool-y==1.0"
requested_ref = "1.0"
commit = "1.0"
hashes = [
    "{HASHES[0]}",
    "{HASHES[1]}",
]
"""


# -- what is written -----------------------------------------------------------------------


def test_the_text_is_the_same_in_whichever_order_things_were_locked() -> None:
    shuffled = replace(GIT, dependencies=GIT.dependencies[::-1])
    turned = replace(PACKAGE, hashes=HASHES[::-1])
    assert lock_text([turned, shuffled, FOLDER]) == lock_text([FOLDER, GIT, PACKAGE])
    assert "".join(lock_text([GIT, PACKAGE, FOLDER]).partition("version = 1")[1:]) == TEXT


def test_one_change_is_a_difference_of_few_lines() -> None:
    before = lock_text([FOLDER, GIT, PACKAGE]).splitlines()
    after = lock_text([FOLDER, replace(GIT, commit="f" * 40), PACKAGE]).splitlines()
    assert [line for line in after if line not in before] == [f'commit = "{"f" * 40}"']


_WORDS = st.text(string.ascii_letters + string.digits, min_size=1, max_size=12)
_SHOWN = st.text(st.characters(min_codepoint=33, exclude_categories=("C", "Z")), min_size=1, max_size=20)
_DIGESTS = st.binary(min_size=32, max_size=32).map(lambda raw: f"sha256:{raw.hex()}")
_COMMITS = st.binary(min_size=20, max_size=20).map(bytes.hex)
_HASH_LISTS = st.lists(_DIGESTS, min_size=1, max_size=3, unique=True).map(lambda found: tuple(sorted(found)))
_MOMENTS = st.none() | st.datetimes(
    min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29), timezones=st.just(UTC)
).map(lambda moment: moment.replace(microsecond=0))
_PACKAGED = st.builds(LockedDependency, _WORDS, st.just("1.0"), _HASH_LISTS)
_FROM_GIT = st.builds(
    lambda name, commit, tree: LockedDependency(
        name, "0+x", source=f"git+https://example.org/{name}", commit=commit, tree=tree
    ),
    _WORDS,
    _COMMITS,
    _DIGESTS,
)


@st.composite
def _modules(draw: st.DrawFn) -> LockedModule:
    dependencies = draw(st.lists(_PACKAGED | _FROM_GIT, max_size=3, unique_by=lambda one: one.name.lower()))
    common = {
        "permissions_digest": draw(st.just("") | _DIGESTS),
        "dependencies": tuple(sorted(dependencies, key=lambda one: one.name.lower())),
    }
    kind = draw(st.sampled_from(["git", "folder", "package"]))
    if kind == "folder":
        path = "/" + "/".join(draw(st.lists(_SHOWN.filter(lambda part: "/" not in part), min_size=1, max_size=3)))
        uri = parse_source(os.path.normpath("/" + path.strip("/")))
        return LockedModule(source=uri.key(Path("/nowhere")), tree=draw(_DIGESTS), **common)
    if kind == "package":
        return LockedModule(source=draw(_WORDS).lower(), commit="1.0", hashes=draw(_HASH_LISTS), **common)
    return LockedModule(
        source=f"git+https://example.org/{draw(_WORDS)}",
        requested_kind=draw(st.sampled_from(["", "branch", "tag", "commit", "default"])),
        commit=draw(_COMMITS),
        tree=draw(_DIGESTS),
        committed_at=draw(_MOMENTS),
        **common,
    )


@settings(deadline=None)
@given(st.lists(_modules(), max_size=5, unique_by=lambda module: module.source))
def test_what_is_written_is_what_is_read(modules: list[LockedModule]) -> None:
    text = lock_text(modules)
    read = parse_lock(text).modules
    assert sorted(read, key=lambda one: one.source) == sorted(modules, key=lambda one: one.source)
    assert lock_text(read) == text


def test_a_moment_is_written_in_utc_to_the_second() -> None:
    local = datetime(2026, 1, 1, 1, 30, 5, 999, tzinfo=timezone(timedelta(hours=2)))
    (read,) = parse_lock(lock_text([replace(GIT, committed_at=local)])).modules
    assert read.committed_at == datetime(2025, 12, 31, 23, 30, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "module",
    [
        replace(GIT, commit="short"),
        replace(GIT, tree=""),
        replace(GIT, source="git+https://user:secret@example.org/x"),
        replace(GIT, source="nonsense at all"),
        replace(FOLDER, commit=COMMIT),
        replace(FOLDER, source="../outside"),
        replace(GIT, dependencies=(LockedDependency("a", "1", HASHES), LockedDependency("A", "2", HASHES))),
        replace(GIT, dependencies=(LockedDependency("a", "1"),)),
        replace(GIT, dependencies=(LockedDependency('a"\n', "1", HASHES),)),
    ],
)
def test_what_could_not_be_read_is_not_written(module: LockedModule, tmp_path: Path) -> None:
    path = tmp_path / "paddock.lock"
    LockFile((FOLDER,)).write(path)
    before = path.read_bytes()
    with pytest.raises(LockFileError):
        LockFile((module,)).write(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["paddock.lock"]


# -- what is refused -----------------------------------------------------------------------


def test_no_file_locks_nothing(tmp_path: Path) -> None:
    assert LockFile.read(tmp_path / "paddock.lock") == LockFile()
    assert parse_lock("version = 1\n") == ((), ())


# What of the text above is replaced by what, the line that is told, and what is said there.
BROKEN = [
    ("version = 1", "version = 3", 1, "version 3"),
    ("version = 1", "version = true", 1, "does not begin with"),
    ("version = 1\n", "", None, "does not begin with"),
    ("version = 1", "version = 1\nextra = 3", 2, "unknown key `extra`"),
    ('requested_ref = "v1.2"', 'requested_ref = "v1.3"', 9, "is not what `source` says"),
    ('requested_ref = "v1.2"', "requested_ref = 3", 9, "is not text"),
    ('requested_ref = "v1.2"', 'requested_reff = "v1.2"', 9, "unknown key `requested_reff`"),
    ('requested_kind = "tag"', 'requested_kind = "bough"', 10, "is not what a lock file has there"),
    ("committed_at = 2026-01-31T12:00:00Z", "committed_at = 2026-01-31T12:00:00", 12, "is no moment"),
    ("committed_at = 2026-01-31T12:00:00Z", "committed_at = 2026-02-31T12:00:00Z", 12, "not TOML"),
    (f'commit = "{COMMIT}"\ncommitted', 'commit = "v1"\ncommitted', 7, "pinned by a `commit` of 40"),
    (f'tree = "{DIGEST}"\nsub', 'tree = "abc"\nsub', 13, "is not what a lock file has there"),
    ('subdirectory = "tools/one"', 'subdirectory = "../one"', 14, "is not what a lock file has there"),
    ('subdirectory = "tools/one"', 'subdirectory = "tools/two"', 14, "is not what `source` says"),
    ("example.org/team", "Example.org/team", 8, "spelled in another way"),
    ("https://example.org/team", "https://me:pw@example.org/team", 8, "spelled in another way"),
    ("https://example.org/team", "ext::sh -c id /team", 8, "not a module source"),
    ('source = "./modules/tool-x"', 'source = "./modules/../../x"', 4, "spelled in another way"),
    ('source = "./modules/tool-x"', 'source = "builtin:loop-basic"', 4, "only its dependencies"),
    ('source = "./modules/tool-x"', 'source = "tool-y==1.0"\nrequested_ref = "1.0"', 34, "is locked twice"),
    ('source = "./modules/tool-x"', 'source = ""', 4, "is not what a lock file has there"),
    ('source = "./modules/tool-x"', 'source = "./modules/\\u202etool-x"', 4, "is not what a lock file has there"),
    ('name = "httpx"', 'name = "ht tpx"', 18, "is not what a lock file has there"),
    ('name = "httpx"', 'name = "Theirs"', 26, "stands twice"),
    ('version = "0.27.2"', 'version = "-rf"', 19, "is not what a lock file has there"),
    ('version = "0.27.2"\n', "", 17, "has a `name` and a `version`"),
    (f'    "{HASHES[0]}",\n    "{HASHES[1]}",\n]\n\n[[module.dep', "]\n\n[[module.dep", 17, "has hashes"),
    (HASHES[1], HASHES[0], 20, "has one twice"),
    (HASHES[1], "md5:00", 20, "is not `sha256:…`"),
    ('source = "git+https://example.org/lib@main"', 'source = "./lib"', 28, "is not what a lock file has there"),
    (f'tree = "{DIGEST}"\n\n[[module]]\nsource = "tool-y', '\n[[module]]\nsource = "tool-y', 25, "from git has"),
    ("[[module]]\nsource = \"tool-y", "[module]\nsource = \"tool-y", 32, "not TOML"),
    ("[[module]]\nsource = \"tool-y", "<<<<<<< ours\n[[module]]\nsource = \"tool-y", 32, "not TOML"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "said"), BROKEN)
def test_what_is_not_of_its_form_is_told_with_its_line(
    old: str, new: str, line: int | None, said: str, tmp_path: Path
) -> None:
    assert old in TEXT and parse_lock(TEXT)
    path = tmp_path / "paddock.lock"
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(LockFileError, match=r"paddock\.lock") as caught:
        LockFile.read(path)
    assert (caught.value.line, said in caught.value.problem) == (line, True), caught.value
    assert line is None or f"paddock.lock:{line}`" in caught.value.summary
    assert "pw@" not in str(caught.value)


def test_of_a_later_version_it_is_told_what_to_do() -> None:
    with pytest.raises(LockTextError) as caught:
        parse_lock("version = 7\nanything = 'else'\n")
    assert "newer Paddock" in caught.value.hints[0] and "paddock lock" in caught.value.hints[0]


@settings(deadline=None)
@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_a_lock_file_or_a_lock_error(text: str) -> None:
    try:
        parse_lock(text)
    except LockTextError as error:
        assert error.problem


_VALUES = st.recursive(
    st.integers() | st.text(max_size=8) | st.booleans(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_WORDS, inner, max_size=2),
    max_leaves=4,
)


@settings(deadline=None)
@given(st.sampled_from(TEXT.splitlines()), _VALUES)
def test_any_value_in_any_place_is_read_or_told(line: str, value: object) -> None:
    key = line.partition(" = ")[0]
    try:
        parse_lock(TEXT.replace(line, f"{key} = {_toml(value)}", 1))
    except LockTextError as error:
        assert error.problem


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_toml(one)}' for key, one in value.items())}}}"
    return repr(value) if isinstance(value, int) else "'" + str(value).replace("'", "").replace("\n", "") + "'"


def test_what_is_no_file_of_its_size_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "paddock.lock"
    os.mkfifo(path)
    with pytest.raises(LockFileError, match="not a regular file"):
        LockFile.read(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(LockFileError):
        LockFile.read(path)
    path.rmdir()
    path.write_bytes(b"# \xff\n")
    with pytest.raises(LockFileError, match="not UTF-8"):
        LockFile.read(path)
    with open(path, "wb") as file:
        file.truncate(9 << 20)
    with pytest.raises(LockFileError, match="larger than 2 MiB"):
        LockFile.read(path)


def test_deep_nesting_and_endless_lists_are_refused() -> None:
    with pytest.raises(LockTextError):
        parse_lock("a = " + "[" * 100_000)
    with pytest.raises(LockTextError, match="more than 1000"):
        parse_lock("version = 1\n" + "[[module]]\n" * 1001)


# -- writing a file ------------------------------------------------------------------------


def test_a_file_keeps_its_rights(tmp_path: Path) -> None:
    path = tmp_path / "paddock.lock"
    LockFile((FOLDER,)).write(path)
    path.chmod(0o640)
    LockFile((GIT,)).write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and LockFile.read(path) == LockFile((GIT,))


@pytest.mark.parametrize("is_there", [True, False])
def test_what_a_link_leads_to_is_neither_read_nor_written(is_there: bool, tmp_path: Path) -> None:
    elsewhere = tmp_path / ".bash_aliases"
    if is_there:
        elsewhere.write_text("version = 1\n")
    link = tmp_path / "paddock.lock"
    link.symlink_to(elsewhere)
    for act in (LockFile.read, lambda path: LockFile.update(path, lambda lock: lock.with_modules([GIT]))):
        with pytest.raises(LockFileError, match="it is a link"):
            act(link)
    assert elsewhere.exists() is is_there
    LockFile((GIT,)).write(link)  # in its place
    assert not link.is_symlink() and (not is_there or elsewhere.read_text() == "version = 1\n")


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failure_on_the_way_leaves_the_old_file(broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "paddock.lock"
    LockFile((FOLDER,)).write(path)
    before = path.read_bytes()

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lock_file.os, broken, fail)
    with pytest.raises(LockFileError, match="no space left on device"):
        LockFile((GIT,)).write(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["paddock.lock"]


def test_what_did_not_change_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "paddock.lock"
    LockFile.update(path, lambda lock: lock.with_modules([FOLDER, GIT]))
    before = path.stat()
    assert LockFile.update(path, lambda lock: lock.with_modules([GIT])).get(GIT.source) == GIT
    assert path.stat().st_ino == before.st_ino and path.stat().st_mtime_ns == before.st_mtime_ns
    assert LockFile.update(path, lambda lock: lock.without([GIT.source])) == LockFile((FOLDER,))


def test_what_others_locked_since_the_file_was_read_stays(tmp_path: Path) -> None:
    path = tmp_path / "paddock.lock"
    read = LockFile((FOLDER,))
    folder, git = replace(FOLDER, tree=GIT.tree), replace(GIT, requested_ref="mine")
    assert read.with_news([folder, git], since=read) == LockFile((folder, git))
    LockFile((replace(FOLDER, requested_ref="theirs"), GIT)).write(path)
    theirs = LockFile.read(path)
    assert LockFile.update(path, lambda lock: lock.with_news([folder, git], since=read)) == theirs
    assert LockFile().with_news([folder, git], since=read) == LockFile((git,))  # what they took out stays out


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(LockFileError, match="its folder cannot be opened"):
        LockFile.update(tmp_path / "nowhere" / "paddock.lock", lambda lock: lock.with_modules([GIT]))


def test_of_many_who_write_at_once_none_undoes_anothers(tmp_path: Path) -> None:
    path = tmp_path / "paddock.lock"
    begun = threading.Barrier(8)

    def add(number: int) -> None:
        begun.wait(100)
        for turn in range(5):
            one = replace(FOLDER, source=f"./module-{number}-{turn}")
            LockFile.update(path, lambda lock, one=one: lock.with_modules([one]), seconds=100)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    assert len(LockFile.read(path).modules) == 40
    assert os.listdir(tmp_path) == ["paddock.lock"]


_ADDING = """
import sys
from pathlib import Path
from paddock_sources.lock.lock_file import LockedModule, LockFile
for turn in range(10):
    one = LockedModule(source=f"./module-{sys.argv[2]}-{turn}", tree="sha256:" + "ab" * 32)
    # The others' turns may be long on a busy machine.
    LockFile.update(Path(sys.argv[1]), lambda lock: lock.with_modules([one]), seconds=100)
"""


@pytest.mark.costly
def test_nor_do_other_processes(tmp_path: Path) -> None:
    path = tmp_path / "paddock.lock"
    others = [subprocess.Popen([sys.executable, "-c", _ADDING, str(path), str(number)]) for number in range(3)]
    assert [other.wait(200) for other in others] == [0, 0, 0]
    assert len(LockFile.read(path).modules) == 30


def test_a_lock_file_held_for_too_long_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "paddock.lock"

    def change(lock: LockFile) -> LockFile:
        with pytest.raises(LockFileError, match="somebody else has been changing it"):
            LockFile.update(path, lambda inner: inner.with_modules([GIT]), seconds=0.05)
        return lock.with_modules([FOLDER])

    assert LockFile.update(path, change) == LockFile((FOLDER,))


# -- keys ----------------------------------------------------------------------------------

SPELLINGS = {
    "git+https://example.org/team/x@v1": [
        "git+https://example.org/team/x@v1",
        "git+https://EXAMPLE.org/team/x@v1",
        "git+https://example.org:443/team/x@v1",
        "git+https://example.org/team/x.git@v1",
        "git+https://example.org/team/x/@v1",
        "git+https://example.org//team/%78@v1",
        "git+https://token@example.org/team/x@v1",
        "git+https://user:secret@example.org/team/x.git@v1",
        "git+https://example.org./team/x@v1",
    ],
    "git+https://example.org:8443/team/X": ["git+https://example.org:8443/team/X.git"],
    "git+https://example.org/team/X": ["git+https://example.org/team/X"],
    "git+ssh://git@example.org/team/x": ["git+ssh://git@example.org:22/team/x", "git+ssh://git:pw@example.org/team/x"],
    "git+https://example.org/x@main#subdirectory=a/b": [
        "git+https://example.org/x@main#subdirectory=a/b/",
        "git+https://example.org/x.git@main#subdirectory=./a//b",
    ],
    "git+file:///srv/x.git": ["git+file:///srv/x.git", "git+file://localhost/srv/x.git", "git+file:///srv//x.git/"],
    "git+file:///srv/x": ["git+file:///srv/x", "git+file:///srv/x/.git"],
    "tool-x==1.0": ["tool-x==1.0", "Tool_X==1.0", "tool.x==1.0"],
    "tool-x": ["tool-x", "TOOL_x"],
    "builtin:loop-basic": ["builtin:loop-basic"],
}


@each_row(("expected", "written"), [(key, spelling) for key, spellings in SPELLINGS.items() for spelling in spellings])
def test_a_source_has_one_key_however_it_is_spelled(expected: str, written: str) -> None:
    key = parse_source(written).key(Path("/somewhere"))
    assert key == expected
    assert parse_source(key).key(Path("/elsewhere")) == key


def test_folders_are_named_from_the_lock_files_folder_on(tmp_path: Path) -> None:
    inside, beside = tmp_path / "plans" / "modules" / "x", tmp_path / "beside"
    inside.mkdir(parents=True)
    beside.mkdir()
    (tmp_path / "link").symlink_to(inside)
    plans = tmp_path / "plans"
    spelled = ["./modules/x", "./modules/../modules/x", str(inside), f"file://{inside}", str(tmp_path / "link")]
    spelled.append(f"file://{plans}#subdirectory=modules/x")
    assert {parse_source(one).key(plans) for one in spelled} == {"./modules/x"}
    assert parse_source(".").key(plans) == "."
    assert parse_source("../beside").key(plans) == str(beside)
    assert LockedModule(source="./modules/x").uri(plans) == parse_source(str(inside))


@pytest.mark.parametrize(
    "name", ["two\nlines", "trailing ", "\u202e", b"not-utf8-\xff".decode(errors="surrogateescape")]
)
def test_a_folder_of_any_name_has_a_key_that_can_be_written_and_read(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    key = parse_source(f"file://{_quoted(folder)}").key(tmp_path)
    assert key.isprintable() and key.isascii()
    (read,) = parse_lock(lock_text([LockedModule(source=key, tree=DIGEST)])).modules
    assert read.uri(tmp_path).path == folder  # type: ignore[attr-defined]


def _quoted(path: Path) -> str:
    return "".join(f"%{byte:02x}" for byte in os.fsencode(path)).replace("%2f", "/")


@each_row("written", ["git+https://example.org/a/%2e%2e/b", "git+https://example.org/a%2fb"])
def test_an_address_that_could_be_two_has_no_key(written: str) -> None:
    with pytest.raises(SourceUriError, match="two ways"):
        parse_source(written).key(Path("/"))


def test_the_last_session_removes_the_placeholder(tmp_path: Path) -> None:
    path = tmp_path / "paddock.lock"
    first, second = LockPlaceholder.hold(path), LockPlaceholder.hold(path)
    assert first is not None and second is not None and LockFile.read(path) == LockFile()
    first.release()
    assert path.exists()
    second.release()
    assert os.listdir(tmp_path) == []


def test_a_placeholder_of_a_killed_session_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "paddock.lock"
    killed = LockPlaceholder.hold(path)
    assert killed is not None
    text = path.read_bytes()
    killed.release()
    path.write_bytes(text)
    following = LockPlaceholder.hold(path)
    assert following is not None
    following.release()
    assert not path.exists()


def test_a_lock_file_in_place_of_the_placeholder_stays(tmp_path: Path) -> None:
    path = tmp_path / "paddock.lock"
    held = LockPlaceholder.hold(path)
    assert held is not None
    LockFile.update(path, lambda lock: lock.with_modules([GIT]))
    held.release()
    assert LockFile.read(path).modules == (GIT,)
    assert LockPlaceholder.hold(path) is None and path.exists()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert LockPlaceholder.hold(path) is None and os.listdir(tmp_path) == ["paddock.lock"]


@pytest.mark.costly
def test_the_placeholder_is_made_though_another_keeps_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "paddock.lock"
    with _kept(tmp_path):
        first, second = LockPlaceholder.hold(path), LockPlaceholder.hold(path)
        assert first is not None and second is not None and LockFile.read(path) == LockFile()
        second.release()
        assert path.exists()
    first.release()
    assert os.listdir(tmp_path) == []


def test_a_placeholder_not_yet_written_is_held_and_a_lock_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "paddock.lock"
    path.touch()
    held = LockPlaceholder.hold(path)
    assert held is not None
    held.release()
    assert path.exists()


def test_a_placeholder_that_cannot_be_made_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: object, flags: int, *mode: int, **options: object) -> int:
        if flags & os.O_EXCL:
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(path, flags, *mode, **options)  # type: ignore[arg-type]

    opened = os.open
    monkeypatch.setattr(os, "open", full)
    with pytest.raises(LockFileError, match="no space left"):
        LockPlaceholder.hold(tmp_path / "paddock.lock")


@contextmanager
def _kept(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, as anybody can who may open it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
