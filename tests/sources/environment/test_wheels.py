"""Wheels that must not be unpacked are refused with the reason, and nothing of them is left anywhere.

Each comes from a real index on loopback, by its right hash: its publisher is the attacker.
"""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import unicodedata
import warnings
import zipfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from failures import failing
from paddock_sources.cache import SourceCache
from paddock_sources.commands.command_runner import CommandAccess, CommandResult
from paddock_sources.environment import wheels
from paddock_sources.environment.builder import Environments
from paddock_sources.environment.errors import InstallerError
from paddock_sources.environment.index import Index
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.locked import LockedDistribution
from paddock_sources.environment.task import Task
from paddock_sources.environment.uv import IndexWheel, Uv
from paddock_sources.errors import SourceError
from paddock_sources.progress import SilentProgress
from sources.index_server import IndexServer
from sources.warm.warm_runner import WarmRunner

FILENAME = "hostile-1.0-py3-none-any.whl"
INFO = "hostile-1.0.dist-info"
ZEROS = 100 << 20
LINK = 0o120777 << 16
FIFO = 0o010644 << 16

Member = tuple[str, bytes] | tuple[str, bytes, int]


def packed(members: Iterable[Member], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a wheel with these members; a third value of one is its mode, as archives have it."""
    metadata = b"Metadata-Version: 2.1\nName: hostile\nVersion: 1.0\n"
    told = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    more: list[Member] = [(f"{INFO}/METADATA", metadata), (f"{INFO}/WHEEL", told)]
    every = [*members, *more]
    record = "".join(f"{name},,\n" for name, *_ in every) + f"{INFO}/RECORD,,\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, content, *mode in [*every, (f"{INFO}/RECORD", record.encode())]:
            info = zipfile.ZipInfo("placeholder", (2020, 1, 1, 0, 0, 0))
            info.filename = info.orig_filename = name
            info.compress_type = method
            info.external_attr = mode[0] if mode else 0o100644 << 16
            archive.writestr(info, content)
    return buffer.getvalue()


def package(*members: Member) -> list[Member]:
    return [("hostile/__init__.py", b""), *members]


class Customer:
    """Installs what one index has."""

    def __init__(self, folder: Path, server: IndexServer, python: Interpreter, runner: WarmRunner) -> None:
        self.server = server
        self.runner = runner
        self.cache = SourceCache(folder / "cache")
        self.python = python
        self.reaches: list[CommandAccess] = []

    def open(self, reach: CommandAccess):  # type: ignore[no-untyped-def]
        self.reaches.append(reach)
        return self.runner.open(reach)

    def publish(self, content: bytes, filename: str = FILENAME) -> LockedDistribution:
        return LockedDistribution("hostile", "1.0", (self.server.add("hostile", filename, content),))

    def install(self, *locked: LockedDistribution) -> Path:
        index = Index.of({"PIP_INDEX_URL": self.server.url})
        return Environments(self.cache, self, index, self.python).install(locked)

    def refused(self, content: bytes) -> SourceError:
        """Return why a wheel is refused, of which nothing is left."""
        with failing("UnsafeWheelError") as caught:
            self.install(self.publish(content))
        assert f"the wheel `{FILENAME}` " in caught.value.summary
        left = [path for path in self.cache.folder.rglob("*") if path.is_file() and path.name != FILENAME]
        assert not [path for path in left if "hostile" in path.as_posix()]
        return caught.value


@pytest.fixture
def customer(tmp_path: Path, python: Interpreter, runner: WarmRunner):  # type: ignore[no-untyped-def]
    with IndexServer() as server:
        yield Customer(tmp_path, server, python, runner)


def test_an_honest_wheel_is_installed_with_all_that_modules_need(customer: Customer) -> None:
    members = package(
        ("hostile/data/", b"", 0o040755 << 16),
        ("hostile/data/zeros", bytes(1 << 20)),
        ("hostile/program", b"#!/bin/sh\n", 0o100755 << 16),
        ("hostile-1.0.data/purelib/further.py", b""),
        ("hostile-1.0.data/data/share/hostile/text", b"text"),
        ("hostile-1.0.data/scripts/tool", b"#!python\n"),
        ("hostile-1.0.data/headers/hostile.h", b""),
        (f"{INFO}/entry_points.txt", b"[console_scripts]\n../../outside = hostile:main\n"),
    )
    site = customer.install(customer.publish(packed(members)))
    assert (site / "hostile/data/zeros").stat().st_size == 1 << 20
    assert os.access(site / "hostile/program", os.X_OK) and not os.access(site / "further.py", os.X_OK)
    assert sorted(path.name for path in site.iterdir()) == ["__pycache__", "further.py", "hostile", INFO, "share"]
    listed = [line.partition(",")[0] for line in (site / INFO / "RECORD").read_text().splitlines()]
    assert sorted(listed) == sorted(
        path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc"
    )


def test_a_file_that_two_wheels_have_is_installed_once(customer: Customer) -> None:
    customer.server.add_wheel("other", "1.0", {"hostile/__init__.py": "other = True\n"})
    other = LockedDistribution("other", "1.0", customer.server.hashes_of("other", "1.0"))
    site = customer.install(customer.publish(packed(package())), other)
    assert (site / "hostile/__init__.py").read_text() == "other = True\n"


NAMES = {
    "compiled": ("hostile/outside.pyc", "`hostile/outside.pyc`: it is compiled code without its source"),
    "compiled, elsewhere": ("hostile-1.0.data/purelib/__pycache__/outside.x.pyc", "compiled code without its source"),
    "leads out": ("../outside.py", "its path leads elsewhere"),
    "leads out by a folder of its own": ("hostile/../../outside.py", "its path leads elsewhere"),
    "absolute": ("/tmp/outside.py", "its path is absolute"),
    "leads out of where it is installed": ("hostile-1.0.data/purelib/../../outside.py", "its path leads elsewhere"),
    "absolute where it is installed": ("hostile-1.0.data/data//tmp/outside.py", "its path is absolute|is empty"),
    "nowhere": ("hostile-1.0.data/elsewhere/x", "it is not known where it would be installed"),
    "backslash": ("hostile\\..\\outside.py", "a character in its name"),
    "control character": ("hostile/\x1b[2Jx.py", "a control character in its name"),
    "unprintable": ("hostile/\u202egpj.py", "a character in its name"),
    "repository": ("hostile/.GIT/config", "is taken for a repository"),
    "repository where it is installed": ("hostile-1.0.data/purelib/.git/config", "is taken for a repository"),
    "long": (f"hostile/{'x' * 300}.py", "longer than 255 bytes"),
    "long as a whole": ("hostile/" + "/".join(["x" * 200] * 6), "longer than 1024 bytes"),
    "deep": ("hostile/" + "d/" * 70 + "x.py", "folders deep"),
    "folder that leads out": ("hostile/../../outside/", "its path leads elsewhere"),
    "there twice": ("hostile/__init__.py", "it is there twice"),
    "in two places": ("hostile-1.0.data/platlib/hostile/__init__.py", "it is there twice"),
    "case": ("hostile/__INIT__.py", "on some machines it is the same"),
    "case of a folder": ("HOSTILE/x.py", "on some machines it is the same"),
    "below a file": ("hostile/__init__.py/x.py", "is no folder"),
}


def test_names_are_judged_as_those_of_repositories_are(customer: Customer) -> None:
    for name, (path, reason) in NAMES.items():
        error = customer.refused(packed(package((path, b"evil = True\n"))))
        assert any(one in error.summary for one in reason.split("|")), name
        assert not list(customer.cache.folder.parent.rglob("outside*")), name


def test_accents_that_are_written_in_two_ways_are_one_name(customer: Customer) -> None:
    names = [f"hostile/{unicodedata.normalize(form, 'é')}.py" for form in ("NFC", "NFD")]
    error = customer.refused(packed(package(*((name, b"") for name in names))))
    assert "on some machines it is the same" in error.summary


def test_what_is_neither_a_file_nor_a_folder_is_refused(customer: Customer) -> None:
    for mode in (LINK, FIFO):
        error = customer.refused(packed(package(("hostile/link.py", b"/etc/passwd", mode))))
        assert "neither a file nor a folder" in error.summary, oct(mode)


# -- much from little ---------------------------------------------------------------------------


@cache
def bomb() -> bytes:
    return packed(package(("hostile/zeros", bytes(ZEROS))))


def test_outside_uv_makes_a_thousand_bytes_of_each(tmp_path: Path, python: Interpreter) -> None:
    uv = Uv.find({})
    (tmp_path / FILENAME).write_bytes(bomb())
    assert (tmp_path / FILENAME).stat().st_size < ZEROS // 500
    argv = [uv.path, "pip", "install", "--no-config", "--offline", "--no-deps", "--quiet"]
    argv += ["--cache-dir", tmp_path / "uv", "--python", python.path, "--target", tmp_path / "site"]
    subprocess.run([*argv, tmp_path / FILENAME], check=True, timeout=60, capture_output=True)
    assert (tmp_path / "site/hostile/zeros").stat().st_size == ZEROS


def test_a_wheel_that_is_much_larger_unpacked_is_refused(customer: Customer) -> None:
    assert "times as large when it is unpacked" in customer.refused(bomb()).summary
    assert sum(path.stat().st_size for path in customer.cache.folder.rglob("*") if path.is_file()) < ZEROS // 100


def test_many_members_are_refused(customer: Customer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "MAX_FILES", 20)
    assert (
        "more than 20 members" in customer.refused(packed(package(*((f"hostile/{n}", b"") for n in range(20))))).summary
    )


def test_more_bytes_than_a_module_may_need_are_refused(customer: Customer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "MAX_BYTES", 1 << 20)
    assert (
        "is too large when it is unpacked" in customer.refused(packed(package(("hostile/x", bytes(2 << 20))))).summary
    )


def test_wheels_are_bounded_together(customer: Customer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "MAX_BYTES", 3 << 20)
    locked = customer.publish(packed(package(("hostile/x", bytes(2 << 20)))))
    customer.server.add_wheel("other", "1.0", {"other/__init__.py": bytes(2 << 20)})
    other = LockedDistribution("other", "1.0", customer.server.hashes_of("other", "1.0"))
    with failing("UnsafeWheelError", "all that a module needs may be 3 MiB"):
        customer.install(locked, other)


def lying(content: bytes) -> bytes:
    """Say of the largest member, in both places, that it has ten bytes."""
    return content.replace(struct.pack("<L", 2 << 20), struct.pack("<L", 10))


def sharing(content: bytes) -> bytes:
    """Have the second member of the directory be where the first is."""
    at = content.index(b"PK\x01\x02", content.index(b"PK\x01\x02") + 4)
    return content[: at + 42] + struct.pack("<L", 0) + content[at + 46 :]


DISGUISES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "lies about a size": (lying, "says that a member has 10 bytes"),
    "shares bytes": (sharing, "not where it should be"),
    "is encrypted": (
        lambda content: content.replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"),
        "encrypted",
    ),
    "has something before it": (lambda content: b"#!/bin/sh\n" + content, "not where it should be"),
    "is no archive": (lambda content: b"<html>" * 100, "is no archive"),
    "is cut off": (lambda content: content[: len(content) // 2], "is no archive"),
    "has a broken member": (
        lambda content: content.replace(b"hostile/__init__.py", b"hostile/__init__.pz", 1),
        "cannot be read",
    ),
    "claims very many members": (lambda content: content[:-12] + b"\xff\xff" + content[-10:], "very many members"),
}


def test_an_archive_that_is_not_what_it_says_is_refused(customer: Customer) -> None:
    honest = packed(package(("hostile/zeros", bytes(2 << 20))))
    for how, (disguise, reason) in DISGUISES.items():
        assert reason in customer.refused(disguise(honest)).summary, how


def test_other_compression_is_refused(customer: Customer) -> None:
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        assert "compressed in another way" in customer.refused(packed(package(), method=method)).summary, method


# -- which file, and by whom ---------------------------------------------------------------------


def test_each_file_is_asked_for_once_whatever_the_cache_is_called(
    tmp_path: Path, python: Interpreter, runner: WarmRunner
) -> None:
    name = "with spaces, #, %41, ' and é"
    (tmp_path / name).mkdir()
    with IndexServer() as server:
        customer = Customer(tmp_path / name, server, python, runner)
        site = customer.install(customer.publish(packed(package())))
    assert (site / "hostile/__init__.py").is_file()
    assert customer.server.requests == ["/simple/hostile/", f"/files/{FILENAME}"]


def test_other_bytes_than_those_that_were_locked_are_refused(customer: Customer) -> None:
    locked = customer.publish(packed(package()))
    customer.server.replace("hostile", FILENAME, packed(package(("hostile/x", b""))))
    with failing("HashMismatchError"):
        customer.install(locked)


def test_a_wheel_that_changes_after_it_was_judged_is_not_unpacked(
    customer: Customer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judges = "import io, json, runpy, sys\norder = sys.stdin.read()\nsys.stdin = io.StringIO(order)\n"
    judges += f"runpy.run_path({str(wheels.FETCH_WHEELS)!r}, run_name='__main__')\n"
    (tmp_path / "other.py").write_text(f"{judges}open(json.loads(order)['wheels'][0]['path'], 'ab').write(b'more')\n")
    monkeypatch.setattr(wheels, "FETCH_WHEELS", tmp_path / "other.py")
    with failing("HashMismatchError"):
        customer.install(customer.publish(packed(package())))


def test_what_is_told_of_wheels_is_not_believed_in_any_form(
    customer: Customer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "FETCH_WHEELS", tmp_path / "other.py")
    locked = customer.publish(packed(package()))
    for program in ("", "print('{}')", "print(1)", "print('[' * 9000)", "print('x')"):
        (tmp_path / "other.py").write_text(program)
        with pytest.raises(InstallerError, match="the report about the wheels is not understood"):
            customer.install(locked)


def test_what_uv_says_of_an_index_is_not_believed_in_any_form(tmp_path: Path, python: Interpreter) -> None:
    digest = "a" * 64
    locked = LockedDistribution("hostile", "1.0", (f"sha256:{digest}",))
    wheel = f'{{url = "http://x/{FILENAME}", hashes = {{sha256 = "{digest}"}}}}'
    good = f'[[packages]]\nname = "hostile"\nwheels = [{wheel}]'

    def chosen(printed: str) -> tuple[IndexWheel, ...]:
        session: Any = SimpleNamespace(run=lambda *_, **__: CommandResult(0, printed.encode(), b""))
        index = Index.of({"PIP_INDEX_URL": "http://127.0.0.1:9"})
        places = (tmp_path, tmp_path, tmp_path)
        task = Task("installing", "installing", "m", index, python, *places, session, SilentProgress())
        return Uv(Path("/uv")).wheels([locked], task)

    for listed in (wheel, ", ".join([wheel.replace("py3-none-any", "cp27-cp27m-win32"), wheel])):
        assert [one.path(tmp_path) for one in chosen(good.replace(wheel, listed))] == [tmp_path / digest / FILENAME]
    for old, new in (
        (good, ""),
        (good, "packages = 1"),
        ("[[", "[" * 9000),
        ('name = "hostile"', 'name = "other"'),
        ("wheels = [{", "wheels = [1, {"),
        ("http://x/", "file:///"),
        (f'"http://x/{FILENAME}"', "5"),
        (FILENAME, "other-1.0-py3-none-any.whl"),
        (FILENAME, "hostile-1.1-py3-none-any.whl"),
        (FILENAME, "hostile-1.0-1%2Fa-py3-none-any.whl"),
        ("{url", '{name = "hostile-1.0-1/../../x-py3-none-any.whl", url'),
        ('"aa', '"../'),
    ):
        assert old in good
        with pytest.raises(InstallerError, match="list of files is not understood"):
            chosen(good.replace(old, new))


def test_of_several_wheels_the_one_that_fits_best_is_taken(customer: Customer) -> None:
    better = f"hostile-1.0-cp{sys.version_info[0]}{sys.version_info[1]}-none-any.whl"
    plain = customer.publish(packed(package()))
    built = customer.publish(packed(package(("hostile/better.py", b""))), better)
    elsewhere = customer.publish(packed(package()), "hostile-1.0-cp27-cp27m-win32.whl")
    hashes = tuple(sorted({one for locked in (plain, built, elsewhere) for one in locked.hashes}))
    site = customer.install(LockedDistribution("hostile", "1.0", hashes))
    assert (site / "hostile/better.py").is_file()


def test_a_version_that_only_others_can_use_is_refused_by_name(customer: Customer) -> None:
    with failing("NoWheelError") as caught:
        customer.install(customer.publish(packed(package()), "hostile-1.0-cp27-cp27m-win32.whl"))
    assert "`hostile` has no wheel" in caught.value.summary
    with failing("NoWheelError") as caught:
        customer.install(LockedDistribution("absent", "1.0", ("sha256:" + "a" * 64,)))
    assert "`absent` has no wheel" in caught.value.summary
