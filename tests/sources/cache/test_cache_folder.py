"""The cache's folder: where it is, how it is made, who may have a hand in it, and what is locked there."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from failures import failing
from paddock_sources.cache import CacheError, SourceCache
from paddock_sources.cache.cache_folder import CacheFolder
from paddock_sources.progress import ProgressStep
from sources.cache.other_hosts import digest_of, write_tree
from support.rows import each_row

NOBODY = 65534


def as_nobody(act: Callable[[], None]) -> None:
    """Do something as an ordinary user, in a process of its own; root is stopped by no mode."""
    if os.geteuid() != 0:
        act()
        return
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            act()
            code = 0
        except BaseException as error:
            print(repr(error))
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@each_row(
    ("environ", "expected"),
    [
        ({"PADDOCK_CACHE_DIR": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c"),
        ({"PADDOCK_CACHE_DIR": "", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/paddock"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/paddock"),
        ({"HOME": "/h"}, "/h/.cache/paddock"),
    ],
)
def test_it_is_where_the_environment_says(environ: dict[str, str], expected: str) -> None:
    assert SourceCache.of_user(environ).folder == Path(expected)


def test_without_a_home_it_is_where_the_system_has_caches() -> None:
    assert SourceCache.of_user({}).folder.is_absolute()


def test_a_relative_folder_is_meant_from_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert SourceCache.of_user({"PADDOCK_CACHE_DIR": "here"}).folder == tmp_path / "here"


def test_it_is_made_for_its_user_alone_and_marked_as_a_cache(folder: Path) -> None:
    umask = os.umask(0)
    try:
        SourceCache(folder).trees.add_tree(write_tree(1))
    finally:
        os.umask(umask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55")
    assert (folder / ".gitignore").read_bytes() == b"*\n"


REFUSED: dict[str, Callable[[Path], object]] = {
    "its group": lambda folder: folder.chmod(0o770),
    "everybody": lambda folder: folder.chmod(0o707),
    "everybody, by the folder around it": lambda folder: folder.parent.chmod(0o777),
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_what_others_may_write_to_is_refused(
    folder: Path, change: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("staff", "x", gid, ["somebody"])))
    SourceCache(folder).trees.add_tree(write_tree(1))
    assert SourceCache(folder).trees.get(digest_of(1)) is not None
    change(folder)
    for act in (
        lambda cache: cache.trees.get(digest_of(1)),
        lambda cache: cache.trees.add_tree(write_tree(2)),
        lambda cache: cache.repositories.commit("https://host", "a" * 40),
        lambda cache: cache.upkeep.clean(),
    ):
        with failing("CacheFolderError") as caught:
            act(SourceCache(folder))
        assert any("chmod go-w" in hint for hint in caught.value.hints)


def test_a_group_of_the_user_alone_may_write_to_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SourceCache(folder).trees.add_tree(write_tree(1))
    folder.chmod(0o770)
    group = folder.stat().st_gid
    user = pwd.struct_passwd(("me", "x", os.geteuid(), group, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: user)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("me", "x", group, [])))
    assert SourceCache(folder).trees.get(digest_of(1)) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason=f"only root can give folders away, not user {os.geteuid()}")
@pytest.mark.parametrize("which", ["itself", "the one around it"])
def test_a_folder_of_another_user_is_refused(folder: Path, which: str) -> None:
    SourceCache(folder).trees.add_tree(write_tree(1))
    os.chown(folder if which == "itself" else folder.parent, 1234, 1234)
    with failing("CacheFolderError", r"1234|another in its place"):
        SourceCache(folder).trees.get(digest_of(1))


def test_a_file_in_its_place_is_said(folder: Path) -> None:
    folder.write_text("", encoding="utf-8")
    for act in (lambda cache: cache.trees.get(digest_of(1)), lambda cache: cache.trees.add_tree(write_tree(1))):
        with pytest.raises(CacheError):
            act(SourceCache(folder))


def test_what_a_read_only_cache_has_is_used_and_adding_says_what_to_do(folder: Path) -> None:
    with SourceCache(folder) as cache:
        cache.trees.add_tree(write_tree(1))
        cache.repositories.note("https://host", "a" * 40, {"tree": "t"})
    if os.geteuid() == 0:
        # As an administrator's cache is: nobody but root may change it, others may read it.
        for path in (folder.parent, folder, *folder.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
            elif path.name != "names" and not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o444)
    else:
        for path in (folder, *folder.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o555)

    def use() -> None:
        cache = SourceCache(folder)
        assert cache.trees.get(digest_of(1)) is not None
        assert cache.repositories.commit("https://host", "a" * 40) == {"tree": "t"}
        assert cache.upkeep.verify() == ()
        with failing("ReadOnlyCacheError") as caught:
            cache.trees.add_tree(write_tree(2))
        assert str(folder) in caught.value.summary
        assert any("PADDOCK_CACHE_DIR" in hint for hint in caught.value.hints)
        with pytest.raises(CacheError), cache.repositories.locked("https://host", 1):
            pass
        assert cache.trees.entries() == (digest_of(1),)
        cache.close()

    as_nobody(use)


# -- locks


def test_what_is_locked_is_had_by_one_at_a_time(folder: Path) -> None:
    inside, most = 0, 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal inside, most
        with CacheFolder(folder).locked("a name", 20):
            with lock:
                inside += 1
                most = max(most, inside)
            with lock:
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert (inside, most) == (0, 1)


def test_another_name_is_not_locked(folder: Path) -> None:
    with CacheFolder(folder).locked("one", 1), CacheFolder(folder).locked("two", 0):
        pass


@pytest.mark.parametrize("deadline", [0, 0.7])
def test_a_wait_ends_at_its_deadline(folder: Path, deadline: float) -> None:
    with CacheFolder(folder).locked("a name", 1):
        before = time.monotonic()
        with failing("CacheBusyError") as caught, CacheFolder(folder).locked("a name", deadline):
            pass
    assert deadline <= time.monotonic() - before < deadline + 60
    assert f"has kept `a name` for {deadline:g} s" in caught.value.summary
    with CacheFolder(folder).locked("a name", 0):
        pass


@pytest.mark.parametrize("what", ["a repository", "the names"])
def test_a_cancelled_wait_ends_at_once(folder: Path, what: str) -> None:
    def cancelled() -> None:
        raise InterruptedWait

    waits: dict[str, Callable[[SourceCache], AbstractContextManager[object]]] = {
        "a repository": lambda cache: cache.repositories.locked("https://host", 600),
        "the names": lambda cache: nullcontext(cache.trees.add_tree(write_tree(1))),
    }
    held = {**waits, "the names": lambda cache: CacheFolder(cache.folder).locked("names", 600)}
    with held[what](SourceCache(folder)):
        before = time.monotonic()
        with pytest.raises(InterruptedWait), waits[what](SourceCache(folder, check=cancelled)):
            pass
        assert time.monotonic() - before < 60  # against the 600 s that it would wait
    assert SourceCache(folder).trees.entries() == ()
    with waits[what](SourceCache.of_user({"PADDOCK_CACHE_DIR": str(folder)}, check=cancelled)):
        pass  # who need not wait is not asked


class InterruptedWait(BaseException):
    """As a cancellation is."""


def test_a_wait_that_lasts_is_told_of(folder: Path) -> None:
    told: list[str] = []
    is_told = threading.Event()

    class Listener:
        def step(self, step: ProgressStep) -> None:
            told.append(f"{step.phase} {step.subject}")
            is_told.set()

        def finished(self, subject: str) -> None:
            told.append(f"finished {subject}")

    def wait() -> None:
        with CacheFolder(folder).locked("n", 20, subject="https://host/repo", progress=Listener()):
            pass

    waiter = threading.Thread(target=wait)
    with CacheFolder(folder).locked("n", 1):
        waiter.start()
        assert is_told.wait(20)
    waiter.join(20)
    waiting = "https://host/repo (waiting for another process that is at it)"
    assert told == [f"fetching {waiting}", f"finished {waiting}"]


def test_a_short_wait_is_not_reported(folder: Path) -> None:
    class Listener:
        def step(self, step: ProgressStep) -> None:
            raise AssertionError(step)

        def finished(self, subject: str) -> None:
            raise AssertionError(subject)

    with CacheFolder(folder).locked("n", 20, progress=Listener()):
        pass


@pytest.mark.parametrize("name", ["a/b", "../../up", "x" * 300, "ü", ""])
def test_whatever_is_locked_its_file_is_where_such_files_are(folder: Path, name: str) -> None:
    with CacheFolder(folder).locked(name, 1):
        assert len(os.listdir(folder / "locks")) == 1
