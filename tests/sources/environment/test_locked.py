from __future__ import annotations

from dataclasses import replace

from failures import failing
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.locked import LockedDistribution, environment_digest, without_preloaded
from support.rows import each_row

HASH = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64


@each_row(
    ("name", "version", "hashes"),
    [
        ("-r /etc/passwd", "1", (HASH,)),
        ("Torch", "1", (HASH,)),
        ("a_b", "1", (HASH,)),
        ("a\n", "1", (HASH,)),
        ("", "1", (HASH,)),
        ("a" * 200, "1", (HASH,)),
        ("a", "1 --index-url=http://evil", (HASH,)),
        ("a", "1\n--index-url=http://evil", (HASH,)),
        ("a", "1\\", (HASH,)),
        ("a", "${X}", (HASH,)),
        ("a", "", (HASH,)),
        ("a", "1", ()),
        ("a", "1", ("md5:" + "a" * 32,)),
        ("a", "1", (HASH + "\n--index-url=http://evil",)),
        ("a", "1", (HASH.upper(),)),
    ],
)
def test_what_is_no_pinned_package_is_refused(name: str, version: str, hashes: tuple[str, ...]) -> None:
    with failing("LockedDistributionError") as caught:
        LockedDistribution(name, version, hashes)
    assert str(caught.value).isprintable()


def test_an_environment_is_known_by_what_is_in_it_and_by_its_interpreter() -> None:
    a, b = LockedDistribution("a", "1", (HASH, OTHER)), LockedDistribution("b", "1", (HASH,))
    python = Interpreter.this()
    known = environment_digest([a, b], python)
    assert environment_digest([b, replace(a, hashes=(OTHER, HASH))], python) == known
    others = [
        environment_digest([a], python),
        environment_digest([a, replace(b, version="2")], python),
        environment_digest([a, replace(b, hashes=(OTHER,))], python),
        environment_digest([a, b], replace(python, tag="cpython-399")),
        environment_digest([a, b], replace(python, platform="linux-riscv64")),
    ]
    assert len({known, *others}) == 6


def test_what_a_runtime_has_in_the_same_version_is_not_installed() -> None:
    a, b = LockedDistribution("a", "1", (HASH,)), LockedDistribution("b", "1", (HASH,))
    assert without_preloaded([a, b], {"a": "1", "b": "2", "c": "3"}) == (b,)
