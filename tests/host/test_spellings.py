"""Of a value, every spelling that whoever writes texts is likely to choose is known."""

from __future__ import annotations

import base64
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.egress.injection import Injection, Keys
from paddock.plan.net_rule import NetRule
from paddock.policy.secret_values import SecretValues
from paddock.spellings import spellings

VALUE = 'sk-live/51H+x Y=%&"\u00fc\\'


@pytest.mark.parametrize(
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
    assert spelled in set(spellings(VALUE))


@given(st.binary(max_size=7), st.binary(min_size=12, max_size=40), st.binary(max_size=7))
def test_some_of_its_base64_is_the_same_whatever_is_around_it(before: bytes, random: bytes, after: bytes) -> None:
    value = random.hex()
    encoded = base64.b64encode(before + value.encode() + after).decode()
    assert any(spelled in encoded for spelled in spellings(value))


def test_of_several_lines_each_is_known_that_is_long_enough_and_is_no_frame() -> None:
    value = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nshort\n-----END KEY-----"
    assert {line for line in value.splitlines() if line in set(spellings(value))} == {"MIIEvQIBADANBg"}


@given(st.from_regex(r"[\x21-\x7e]{8,30}", fullmatch=True))
def test_what_is_hidden_on_the_way_back_is_what_is_masked_in_output(value: str) -> None:
    keys = Keys([Injection("KEY", "placeholder", value, NetRule.parse("api.test"))])
    secrets = SecretValues({"KEY": value})
    for spelled in spellings(value):
        assert keys.echo_filter().hide(spelled.encode()) == b"*" * len(spelled)
        assert secrets.mask(spelled) == "[secret KEY]"
