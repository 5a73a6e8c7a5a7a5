"""Of a value, every spelling that whoever writes texts is likely to choose is known."""

from __future__ import annotations

import base64
import json
import re
from itertools import product
from typing import Any
from urllib.parse import quote, quote_plus

from hypothesis import given
from hypothesis import strategies as st

from paddock.egress.injection import InjectedKeys, KeyInjection
from paddock.encodings import encoded_forms
from paddock.plan.net_rule import NetRule
from paddock.policy.secrets.values import SecretValues
from support.rows import each_row

VALUE = 'sk-live/51H+x Y=%&"\u00fc\\'


@each_row(
    "spelled",
    [
        VALUE,
        json.dumps(VALUE)[1:-1],
        json.dumps(VALUE, ensure_ascii=False)[1:-1],
        json.dumps(VALUE)[1:-1].replace("/", r"\/"),
        quote(VALUE),
        quote(VALUE, safe=""),
        quote_plus(VALUE),
        re.sub("%..", lambda escape: escape[0].lower(), quote_plus(VALUE)),
        base64.b64encode(VALUE.encode()).decode(),
        base64.urlsafe_b64encode(VALUE.encode()).decode(),
    ],
)
def test_a_value_is_known_however_it_is_spelled(spelled: str) -> None:
    assert spelled in set(encoded_forms(VALUE))


STYLES = {
    "Python": json.dumps,
    "JavaScript": lambda value: json.dumps(value, ensure_ascii=False),
    "PHP": lambda value: json.dumps(value).replace("/", r"\/"),
    "PHP, not ASCII": lambda value: json.dumps(value, ensure_ascii=False).replace("/", r"\/"),
    "Go": lambda value: re.sub("[<>&]", lambda one: rf"\u{ord(one[0]):04x}", json.dumps(value, ensure_ascii=False)),
}


def test_a_value_is_known_in_json_in_json() -> None:
    secrets = SecretValues({"KEY": VALUE})
    for styles in (*product(STYLES, repeat=2), *product(STYLES, repeat=3)):
        told: Any = {"output": VALUE}
        for style in styles:
            told = {"line": STYLES[style](told)}
        masked = secrets.mask(told["line"])
        assert masked.count("[secret KEY]") == 1, styles
        assert not any(part in masked for part in ("sk-live", "51H")), styles


def test_a_value_is_known_as_dotnet_escapes_it() -> None:
    value = "ab+c'd\"e&f\u00fc\U0001f600"
    escaped = r"ab\u002Bc\u0027d\u0022e\u0026f\u00FC\uD83D\uDE00"
    assert json.loads(f'"{escaped}"') == value
    assert {escaped, json.dumps(escaped)[1:-1]} <= set(encoded_forms(value))


def test_base64_and_lines_are_known_in_json_too() -> None:
    value = "a?/key~of>some~sort\nanother/line/of+it"
    for told in (base64.b64encode(value.encode()).decode(), "another/line/of+it"):
        assert json.dumps(json.dumps(told).replace("/", r"\/"))[3:-3] in set(encoded_forms(value))


@given(st.text(min_size=4, max_size=40))
def test_there_are_only_so_many_spellings(value: str) -> None:
    lines = len(value.splitlines())
    assert len(set(encoded_forms(value))) < 700 + 259 * lines


@given(st.binary(max_size=7), st.binary(min_size=12, max_size=40), st.binary(max_size=7))
def test_some_of_its_base64_is_the_same_whatever_is_around_it(before: bytes, random: bytes, after: bytes) -> None:
    value = random.hex()
    encoded = base64.b64encode(before + value.encode() + after).decode()
    assert any(spelled in encoded for spelled in encoded_forms(value))


def test_each_long_line_of_a_secret_is_hidden() -> None:
    value = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nshort\n-----END KEY-----"
    assert {line for line in value.splitlines() if line in set(encoded_forms(value))} == {"MIIEvQIBADANBg"}


@given(st.from_regex(r"[\x21-\x7e]{8,30}", fullmatch=True))
def test_what_is_hidden_on_the_way_back_is_what_is_masked_in_output(value: str) -> None:
    keys = InjectedKeys([KeyInjection("KEY", "placeholder", value, NetRule.parse("api.test"))])
    secrets = SecretValues({"KEY": value})
    for spelled in encoded_forms(value):
        assert keys.redactor().hide(spelled.encode()) == b"*" * len(spelled)
        assert secrets.mask(spelled) == "[secret KEY]"
