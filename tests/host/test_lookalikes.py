"""Characters that pass for others are named, and ordinary names of any language are left alone."""

from __future__ import annotations

from paddock.lookalikes import marked, not_as_it_looks
from support.rows import each_row


@each_row(
    ("text", "names"),
    [
        ("net \u0430pi.example.org", ["CYRILLIC SMALL LETTER A"]),
        ("read ./\u0455cope", ["CYRILLIC SMALL LETTER DZE"]),
        ("read ./\u0441\u043e\u0440", ["CYRILLIC SMALL LETTER ES", "CYRILLIC SMALL LETTER O"]),
        ("run \u0261it", ["LATIN SMALL LETTER SCRIPT G"]),
        ("run g\u0131t", ["LATIN SMALL LETTER DOTLESS I"]),
        ("env \uff30ATH", ["FULLWIDTH LATIN CAPITAL LETTER P"]),
        ("env \U0001d40fATH", ["MATHEMATICAL BOLD CAPITAL P"]),
        ("read ./a\u2215b", ["DIVISION SLASH"]),
        ("read /etc\u30cepasswd", ["KATAKANA LETTER NO"]),
        ("net api\u2024example.org", ["ONE DOT LEADER"]),
        ("read ./a\u00a0b", ["NO-BREAK SPACE"]),
        ("read ./Jose\u0301", ["COMBINING ACUTE ACCENT"]),
        ("read ./g\u0337it", ["COMBINING SHORT SOLIDUS OVERLAY"]),
        ("read ./\u03b1\u0430", ["GREEK SMALL LETTER ALPHA", "CYRILLIC SMALL LETTER A"]),
        ("net \ua4ee\ua4d1\ua4f2.example", ["LISU LETTER A", "LISU LETTER PA"]),
        ("read ./\u13aa\u13e2\u13c6", ["CHEROKEE LETTER GO"]),
        ("read ./\u2ca3\u2c9f", ["COPTIC SMALL LETTER RO"]),
        ("read ./\u2d54\u2d4f", ["TIFINAGH LETTER YAR"]),
        ("run \U0001042c\U0001043d", ["DESERET SMALL LETTER LONG O"]),
        ("run githu\u0184", ["LATIN CAPITAL LETTER TONE SIX"]),
        ("run git\ufe0f", ["VARIATION SELECTOR-16"]),
        ("run gi\u00e9\U000e0100t", ["VARIATION SELECTOR-17"]),
        ("\u180btool", ["MONGOLIAN FREE VARIATION SELECTOR ONE"]),
        ("read ./a\u2800b", ["BRAILLE PATTERN BLANK"]),
        ("read ./tool\u3164", ["HANGUL FILLER"]),
        ("read ./tool\u17b4", ["KHMER VOWEL INHERENT AQ"]),
        ("net xn--pypal-4ve.com", ["`xn--pypal-4ve` in a host name is `p\u0430ypal`", "CYRILLIC SMALL LETTER A"]),
        ("net a.XN--PYPAL-4VE:443", ["CYRILLIC SMALL LETTER A"]),
    ],
)
def test_what_passes_for_another_character_is_named(text: str, names: list[str]) -> None:
    shown = marked(text)
    assert shown.startswith("[NOT AS IT LOOKS: ") and shown.endswith(f"] {text}")
    assert all(name in shown for name in names)


@each_row(
    "text",
    [
        "",
        "net api.example.org:443",
        "read ./Documents, read ./caf\u00e9/stra\u00dfe, \u0141\u00f3d\u017a, Vi\u1ec7t",
        "read ./\u0414\u043e\u043a\u0443\u043c\u0435\u043d\u0442\u044b2024",
        "read ./\u65e5\u672c\u8a9e\u30d5\u30a1\u30a4\u30eb",
        "read ./\u05e9\u05dc\u05d5\u05dd and ./\u0e44\u0e17\u0e22",
        "read ./\u2764\ufe0f and ./1\ufe0f\u20e3 and ./\u8fbb\U000e0100",
        "read ./\u182e\u1823\u1829\u180b\u182d\u1823\u182f and ./\u13e3\u13b3\u13a9",
        "read ./\ua4cc and ./\u2d30\u2d4e\u2d30\u2d63\u2d49\u2d56",
        "a text that was cut\u2026 \u2013 and \u201cquoted\u201d",
        "net axn--b.example, xn--.example, xn--!!!",
    ],
)
def test_ordinary_names_stay_as_they_are(text: str) -> None:
    assert marked(text) == text


def test_one_character_is_named_once_and_of_many_the_first() -> None:
    said = not_as_it_looks("\u0430pi \u0430pi")
    assert said.count("U+0430") == 1
    said = not_as_it_looks("a" + "".join(chr(code) for code in range(0x430, 0x450)))
    assert said.count("U+") == 3 and said.endswith("and 29 more")


def test_the_mark_is_in_front_of_a_text_of_any_length_and_bounded() -> None:
    text = "\u0430pi" + "\u0431x" * 1_000_000
    said = not_as_it_looks(text)
    assert said.startswith("`\u0430` is U+0430") and len(said) < 1000
    assert marked(text) == f"[NOT AS IT LOOKS: {said}] {text}"


def test_no_character_makes_it_fail() -> None:
    for start in range(0, 0x110000, 4096):
        text = "".join(map(chr, range(start, start + 4096)))
        assert marked(f"a{text}").endswith(text)
