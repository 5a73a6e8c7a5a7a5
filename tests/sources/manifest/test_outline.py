from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock_sources.manifest.outline import PackageOutline
from support.examples import IN_FULL
from support.rows import each_row


@each_row(
    ("source", "defines_mount"),
    [
        ("async def mount(coordinator, config=None): ...", True),
        ("def mount(c, d): ...", True),
        ("class mount: ...", True),
        ("from .tool import mount", True),
        ("from .tool import start as mount", True),
        ("import x.y as mount", True),
        ("mount = make()", True),
        ("a = b = mount = 1", True),
        ("(a, [*mount]) = x", True),
        ("mount: object = x", True),
        ("try:\n    from .a import mount\nexcept ImportError:\n    mount = None", True),
        ("if x:\n    pass\nelse:\n    def mount(): ...", True),
        ("with x:\n    for y in z:\n        mount = y", True),
        ("match x:\n    case 1:\n        mount = 1", True),
        ("", False),
        ("mount: object", False),
        ("def f():\n    mount = 1", False),
        ("class A:\n    def mount(self): ...", False),
        ("import mount.x as y", False),
        ("mounted = 1", False),
        ("from .tool import *", None),
        ("def __getattr__(name): ...", None),
        ("from .tool import *\nmount = 1", True),
        ("def mount(:", None),
        ("x = '\\d'\nmount = 1", True),
    ],
)
def test_whether_mount_is_bound_is_read_from_the_syntax(source: str, defines_mount: bool | None) -> None:
    assert PackageOutline.of(source.encode()).defines_mount is defines_mount


@each_row(
    ("source", "declared"),
    [
        ('__amplifier_module_type__ = "hook"', "hook"),
        ('__amplifier_module_type__: str = "hook"', "hook"),
        ('__amplifier_module_type__ = "tool"\n__amplifier_module_type__ = "hook"', "hook"),
        ('if True:\n    __amplifier_module_type__ = "context"', "context"),
        ("__amplifier_module_type__ = 5", 5),
        ("__amplifier_module_type__ = kind()", None),
        ("__amplifier_module_type__: str", None),
        ("def f():\n    __amplifier_module_type__ = 'hook'", None),
        ("", None),
    ],
)
def test_the_declared_kind_is_a_constant_of_the_top_level(source: str, declared: object) -> None:
    assert PackageOutline.of(source.encode()).declared_kind == declared


@each_row(
    "source",
    [
        b"\x00",
        b"\xff\xfe",
        b"# coding: nonsense\n",
        b"(" * 10_000,
        b"-" * 200_000 + b"1",
        b"x" + b".y" * 100_000,
        b"x = " + b"1+" * 100_000 + b"1",
        b"x = " + b"9" * 10_000,
        b"if 1:\n" + b"".join(b" " * depth + b"if 1:\n" for depth in range(1, 200)),
    ],
    ids=["nul", "not-utf8", "codec", "parentheses", "minuses", "attributes", "sums", "digits", "indents"],
)
def test_a_file_made_to_break_the_reader_says_nothing(source: bytes) -> None:
    outline = PackageOutline.of(source)
    assert outline.declared_kind is None
    assert outline.defines_mount in (None, False)


@each_row("cookie", [b"", b"# coding: utf-8\n", b"# coding: punycode\n", b"# coding: rot13\n"])
def test_a_file_is_read_as_utf8_whatever_codec_it_names(cookie: bytes) -> None:
    # The codecs that a file may name include some that take minutes for what fits in here.
    source = "name = 'é'\nmount = 1\n".encode()
    assert PackageOutline.of(cookie + source).defines_mount is True
    assert PackageOutline.of(b"\xef\xbb\xbf" + cookie + source).defines_mount is True


def test_a_file_in_another_encoding_says_nothing() -> None:
    assert PackageOutline.of("# coding: latin-1\nname = 'é'\nmount = 1\n".encode("latin-1")) == PackageOutline()


@each_row(
    "filling",
    [
        b"#" * 256 * 1024,
        b"a;" * 40_000,
        b"0\n" * 70_000,
        b"x = [" + b"a," * 40_000 + b"]",
        b"x = f'" + b"{a}" * 40_000 + b"'",
    ],
    ids=["bytes", "statements", "lines", "elements", "replacements"],
)
def test_a_file_of_more_than_a_package_needs_is_not_parsed(filling: bytes) -> None:
    assert PackageOutline.of(filling + b"\nmount = 1\n") == PackageOutline()


def test_a_large_ordinary_file_is_parsed() -> None:
    function = (
        b"def handle_%d(request, options=None):\n    return {'request': request, 'answer': options or 'none'}\n\n\n"
    )
    source = b"".join(function % number for number in range(2000)) + b"mount = 1\n"
    assert len(source) > 190_000
    assert PackageOutline.of(source).defines_mount is True


@given(st.binary(max_size=80) | st.text(max_size=80).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_have_an_outline(source: bytes) -> None:
    assert PackageOutline.of(source).defines_mount in (True, False, None)


class _Litter:
    """Garbage whose end lets another thread run, in the middle of whatever allocated memory just then."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        sum(range(20))


@pytest.fixture
def threads_take_turns_often() -> Iterator[None]:
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    yield
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)


@pytest.mark.costly
@pytest.mark.usefixtures("threads_take_turns_often")
def test_files_are_read_side_by_side_by_many_threads() -> None:
    source = b"def mount(a, b):\n    return [(a, {b: [c for c in d]})]\n" * 200

    def read(number: int) -> bool | None:
        for _ in range(30):
            _Litter()
        return PackageOutline.of(source).defines_mount

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(40 if IN_FULL else 12)))
