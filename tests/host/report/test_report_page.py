"""The page of a report: foreign text stays text wherever it stands, nothing is loaded, and any session gives a page."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from paddock.report.facts import Call, Connections, Facts, GrantFact, Life, ModuleFacts, Refusal, Turn
from paddock.report.html import Markup, tag
from paddock.report.page import page_of
from support.rows import each_row

_HOSTILE = (
    "<script>document.title='run'</script>",
    '"><img src=x onerror="document.title=1">',
    "</title></style><style>body{display:none}</style>",
    "\x1b[2J\x1b]0;title\x07 \u202eevil\u2066 \u200b &lt;b&gt;",
    "javascript:alert(1)' autofocus onfocus='alert(1)",
    "<svg><a href='javascript:1'>x</a>]]>",
)
_TAGS = "code div h1 h2 h3 head html body main meta li p rect section span strong style svg table td th title tr ul"
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def _at(seconds: float) -> datetime:
    return _BEGAN + timedelta(seconds=seconds)


def _facts(calls: int = 3, name: str = "tool-x") -> Facts:
    """Return facts with something of each form."""
    module = ModuleFacts(
        name=name,
        kind="tool",
        place="tools[0]",
        shared_with=(),
        source="./tool-x",
        pin="c0ffee",
        level="ns",
        grants=(GrantFact("read", "/a", "used", "the module"), GrantFact("net", "a.example.org", "not known", "")),
        unused='permissions: {read: ["/a"]}',
        unseen=("net",),
        programs=("git",),
        limits={"memory_max": "256M", "tasks_max": "32"},
        peak_memory_bytes=7 << 20,
        cpu_seconds=1.5,
        calls=calls,
        restarts=1,
        refusals=(Refusal(_at(2), "read", "/etc/shadow", "not granted", "permissions: {…}", 10, "Paddock"),),
        refusals_left_out=4,
        lives=(
            Life(_at(0), _at(3), "ended for memory", "memory_max, 256 MiB seen", False),
            Life(_at(4), None, "", "", True),
        ),
        connections=(Connections("a.example.org:443", "a.example.org", "ended", 3, 10, 2000),),
    )
    return Facts(
        session="5e551011-0000",
        state="ended",
        plan="/home/you/plan.yaml",
        working_dir="/home/you",
        accepted="you",
        began=_at(0),
        ended=_at(calls + 5),
        notes=("something is not recorded",),
        modules=(module,),
        turns=(Turn("What is here?", _at(0), _at(calls), "answer"),),
        calls=tuple(Call(name, f"t{one % 7}", _at(one), _at(one + 0.5), "ended") for one in range(calls)),
    )


def _filled(value: Any, texts: Iterator[str]) -> Any:
    """Return the same facts with every text replaced."""
    if isinstance(value, str):
        return value if value in ("used", "not seen used", "not known", "unknown") else next(texts)
    if isinstance(value, tuple):
        return tuple(_filled(one, texts) for one in value)
    if isinstance(value, dict):
        return {_filled(key, texts): _filled(one, texts) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: _filled(getattr(value, one.name), texts) for one in fields(value)})
    return value


class _Page(HTMLParser):
    """What a browser makes of a page: its tags, its attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""
        self.rows = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.rows += tag == "tr"
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def _hostile_facts() -> Facts:
    number = iter(range(10_000))
    return _filled(_facts(), (f"{next(number)} {_HOSTILE[one % len(_HOSTILE)]}" for one in range(10_000)))  # type: ignore[no-any-return]


@each_row("is_for_author", [False, True])
def test_hostile_names_and_texts_stay_text(is_for_author: bool) -> None:
    written = page_of(_hostile_facts(), is_for_author=is_for_author)
    page = _Page(written)
    assert page.tags <= {*_TAGS.split()}
    assert {name for tag, name, _ in page.attributes if tag != "meta"} <= {
        *("class", "colspan", "height", "lang", "preserveaspectratio", "scope", "viewbox", "width", "x", "y")
    }
    assert all(re.fullmatch(r"[\w .-]*", value or "") for tag, _, value in page.attributes if tag != "meta")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", written)
    for hostile in _HOSTILE[:3]:
        assert hostile in page.text  # to be read, as it was
    assert "\\u202eevil" in page.text


def test_a_page_loads_nothing_and_has_only_its_own_style() -> None:
    written = page_of(_facts())
    (style,) = re.findall("<style>(.*?)</style>", written, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert f'http-equiv="Content-Security-Policy" content="{policy}"' in written
    assert "url(" not in style and "@import" not in style and "http" not in written.replace("http-equiv", "")


@each_row("attribute", [{"onclick": "1"}, {"style": "x"}, {"href": "x"}, {"class_": 'a" onclick="1'}])
def test_no_attribute_that_acts_can_be_made(attribute: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="takes no attribute"):
        tag("p", **attribute)
    assert isinstance(tag("p", "<b>"), Markup) and tag("p", "<b>") == "<p>&lt;b&gt;</p>"


def test_a_page_says_it_is_private_and_an_authors_what_it_contains() -> None:
    own, authors = _Page(page_of(_facts())).text, _Page(page_of(_facts(), is_for_author=True)).text
    assert "This page is private." in own and "What is here?" in own
    assert authors.index("It contains:") < authors.index("5e551011-0000")
    assert "What is here?" not in authors and "the module's id" in authors


def test_a_person_finds_what_was_used_refused_and_taken() -> None:
    text = _Page(page_of(_facts())).text
    for said in (
        'Granted, and not seen used: permissions: {read: ["/a"]}',
        "Too little is known of the use of: net.",
        "Programs that it says it started: git.",
        "4 more are not recorded one by one.",
        "ended for it: memory_max, 256 MiB seen",
        "something is not recorded",
        "a.example.org:443",
    ):
        assert said in text


def test_what_was_not_recorded_is_said() -> None:
    nothing = dict.fromkeys(("unused", "programs", "peak_memory_bytes", "cpu_seconds", "calls", "restarts"))
    module = replace(_facts().modules[0], **nothing, lives=(), refusals=(), grants=())  # type: ignore[arg-type]
    text = _Page(page_of(replace(_facts(), modules=(module,), turns=(), calls=(), ended=None, plan=None))).text
    assert text.count("not recorded") >= 4 and "Nothing was granted." in text and "not yet" in text
    shared = replace(module, shared_with=("agents.a.tools[0]",))
    said = "shared with the module of this name at agents.a.tools[0]"
    assert said not in text and said in _Page(page_of(replace(_facts(), modules=(shared,)))).text


@pytest.mark.exhaustive
def test_a_session_of_100000_calls_and_refusals_gives_a_page_that_opens() -> None:
    facts = _facts(100_000)
    refusals = tuple(replace(facts.modules[0].refusals[0], at=_at(one)) for one in range(2000))
    page = page_of(replace(facts, modules=(replace(facts.modules[0], refusals=refusals),)))
    assert len(page) < 1_000_000
    text = _Page(page).text
    assert "1800 earlier rows are left out" in text and "that fall on each other" in text
    assert facts.as_dict()["calls_left_out"] == 99_000


_CHROMIUM = [
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
]
_SMALL = "--force-device-scale-factor=0.5"  # a smaller picture, which is quickly read


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("is_dark", [False, True])
def test_a_browser_shows_the_page_in_its_width_light_and_dark(width: int, is_dark: bool, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(page_of(_hostile_facts()), encoding="utf-8")
    theme = ["--blink-settings=preferredColorScheme=0"] if is_dark else []
    options = [f"--user-data-dir={tmp_path}/profile", f"--window-size={width},2000", _SMALL, *theme]
    address = (tmp_path / "report.html").as_uri()
    shot = f"--screenshot={tmp_path}/shot.png"
    subprocess.run([*_CHROMIUM, *options, shot, address], check=True, capture_output=True, timeout=120)
    wide, rows = _pixels((tmp_path / "shot.png").read_bytes())
    assert wide == width / 2
    paper = (0x16, 0x19, 0x1C) if is_dark else (255, 255, 255)
    assert {tuple(row[-3:]) for row in rows} == {paper}, "something is wider than the page"
    inked = sum(len({row[at : at + 3] for at in range(0, len(row), 3)}) > 1 for row in rows)
    assert inked > len(rows) / 3, "the page is empty: a text of it acted"
    dumped = subprocess.run([*_CHROMIUM, *options, "--dump-dom", address], check=True, capture_output=True, timeout=120)
    assert "<script" not in dumped.stdout.decode() and "<title>What the modules of session" in dumped.stdout.decode()


def _pixels(png: bytes) -> tuple[int, list[bytes]]:
    """Return the width of a picture and its rows, each pixel as three bytes."""
    width, height, depth, colours = (
        int.from_bytes(png[16:20], "big"),
        int.from_bytes(png[20:24], "big"),
        png[24],
        {2: 3, 6: 4}[png[25]],
    )
    assert depth == 8
    packed, at = b"", 8
    while at < len(png):
        size, kind = int.from_bytes(png[at : at + 4], "big"), png[at + 4 : at + 8]
        packed += png[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    raw, stride = zlib.decompress(packed), width * colours
    rows, above = [], bytes(stride)
    for number in range(height):
        filtered = raw[number * (stride + 1)]
        above = _unfiltered(filtered, raw[number * (stride + 1) + 1 : (number + 1) * (stride + 1)], above, colours)
        rows.append(bytes(byte for place, byte in enumerate(above) if place % colours < 3))
    return width, rows


def _unfiltered(filtered: int, row: bytes, above: bytes, step: int) -> bytes:
    """Undo one of the five filters of a row of a PNG."""
    out = bytearray(row)
    for at in range(len(out)):
        left, up = out[at - step] if at >= step else 0, above[at]
        corner = above[at - step] if at >= step else 0
        guess = left + up - corner
        paeth = min((left, up, corner), key=lambda one: abs(guess - one))
        out[at] = (out[at] + (0, left, up, (left + up) // 2, paeth)[filtered]) & 255
    return bytes(out)
