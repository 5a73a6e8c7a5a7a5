"""Secrets are masked in every spelling they commonly have, and what stands in their place gives nothing away."""

from __future__ import annotations

import base64
import html
import json
import re
import time
from urllib.parse import quote, quote_plus, urlencode

from hypothesis import given
from hypothesis import strategies as st

from paddock.plan.permissions import Permissions
from paddock.policy.secrets.values import NO_SECRETS, SHORTEST_MASKED, SecretValues
from support.rows import each_row

KEY = 'sk-a/b+c d"e\\f&ü=%'
VALUES = SecretValues({"KEY": KEY, "OTHER": "another-one", "SHORT": "abc"})


@each_row(
    "spelled",
    [
        KEY,
        quote(KEY),
        quote(KEY, safe=""),
        quote_plus(KEY),
        re.sub("%..", lambda escape: escape[0].lower(), quote_plus(KEY)),
        urlencode({"key": KEY}),
        urlencode({"next": f"https://x.test/?{urlencode({'key': KEY})}"}),
        html.escape(KEY),
        html.escape(KEY, quote=False),
        html.escape(KEY).replace("&quot;", "&#34;"),
        html.escape(KEY).replace("+", "&#43;"),
        html.escape(KEY).replace("/", "&#x2F;").replace("=", "&#x3D;"),
        json.dumps({"key": KEY}),
        json.dumps({"key": KEY}, ensure_ascii=False),
        json.dumps({"key": KEY}).replace("/", "\\/"),
        base64.b64encode(KEY.encode()).decode(),
        base64.urlsafe_b64encode(KEY.encode()).decode().rstrip("="),
        base64.b64encode(f"user:{KEY}".encode()).decode(),
        base64.b64encode(f"me:{KEY} and more".encode()).decode(),
        base64.b64encode(f"x:{KEY}".encode()).decode(),
    ],
)
def test_a_secret_is_masked_however_it_is_spelled(spelled: str) -> None:
    masked = VALUES.mask(f"before {spelled} after")
    assert "[secret KEY]" in masked
    assert masked.startswith("before ") and masked.endswith(" after")
    assert KEY not in masked


def test_what_is_no_secret_stays_as_it_is() -> None:
    text = "sk-a/b+c and another thing, one by one: abc"
    assert VALUES.mask(text) == text
    assert NO_SECRETS.mask(text) is text


def test_each_secret_is_masked_by_its_own_name_everywhere() -> None:
    assert VALUES.mask(f"{KEY}another-one{KEY}") == "[secret KEY][secret OTHER][secret KEY]"


def test_of_two_secrets_the_longer_one_goes_as_a_whole() -> None:
    assert SecretValues({"A": "pass", "B": "password"}).mask("my password, pass") == "my [secret B], [secret A]"


def test_a_value_too_short_to_be_masked_is_told_of() -> None:
    assert VALUES.unmasked == ("SHORT",)
    assert SecretValues({"A": "x" * SHORTEST_MASKED}).unmasked == ()


def test_a_secret_of_several_lines_is_masked_line_by_line() -> None:
    lines = ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhki", "G9w0BAQEFAASC", "-----END PRIVATE KEY-----"]
    values = SecretValues({"PEM": "\n".join(lines)})
    assert values.mask("\n".join(lines)) == "[secret PEM]"
    assert [values.mask(line) for line in lines] == [lines[0], "[secret PEM]", "[secret PEM]", lines[3]]


@given(st.text(min_size=SHORTEST_MASKED), st.text(), st.text())
def test_no_value_comes_through_in_any_surroundings(value: str, before: str, after: str) -> None:
    values = SecretValues({"KEY": value})
    pieces = values.mask(before + value + after).split("[secret KEY]")
    assert len(pieces) > 1
    for spelled in (quote(value, safe=""), json.dumps(value), base64.b64encode(value.encode()).decode()):
        assert "[secret KEY]" in values.mask(f"<{spelled}>")


@given(st.binary(max_size=7), st.binary(max_size=7), st.binary(min_size=12, max_size=40))
def test_base64_of_a_text_around_a_secret_does_not_hide_it(before: bytes, after: bytes, random: bytes) -> None:
    value = random.hex()
    values = SecretValues({"KEY": value})
    encoded = base64.b64encode(before + value.encode() + after).decode()
    assert "[secret KEY]" in values.mask(encoded)


# -- what stands in their place


def test_a_placeholder_tells_the_name_and_nothing_of_the_value() -> None:
    placeholder = VALUES.placeholder("KEY")
    assert "KEY" in placeholder and "sk-a" not in placeholder
    assert re.fullmatch(r"[A-Za-z0-9_-]+", placeholder)
    assert VALUES.mask(placeholder) == placeholder


def test_placeholders_are_new_for_every_session() -> None:
    made = {SecretValues({"KEY": "value"}).placeholder("KEY") for _ in range(10)}
    assert len(made) == 10


def test_a_configuration_is_filled_in_with_values_and_placeholders() -> None:
    permissions = Permissions.model_validate({"secrets": ["OTHER", {"name": "KEY", "inject": "a.example"}]})
    config = {"key": "${KEY}", "others": ["x ${OTHER}"], "not": "${SHORT}", "number": 5}
    assert VALUES.expanded(config, permissions) == {
        "key": VALUES.placeholder("KEY"),
        "others": ["x another-one"],
        "not": "${SHORT}",
        "number": 5,
    }


def test_only_granted_references_in_a_text_are_filled_in() -> None:
    permissions = Permissions.model_validate({"secrets": ["OTHER", "SHORT"]})
    config = {"url": "https://x/${OTHER}?a=${SHORT}", "plain": "$OTHER $(OTHER) {OTHER}"}
    assert VALUES.expanded(config, permissions) == {
        "url": "https://x/another-one?a=abc",
        "plain": "$OTHER $(OTHER) {OTHER}",
    }


def test_a_value_that_looks_like_a_reference_is_not_filled_in_itself() -> None:
    permissions = Permissions.model_validate({"secrets": ["KEY", "OTHER"]})
    values = SecretValues({"KEY": "${OTHER}", "OTHER": "another-one"})
    assert values.expanded({"k": "${KEY}"}, permissions) == {"k": "${OTHER}"}


def test_a_configuration_that_is_filled_in_is_a_copy() -> None:
    config = {"deep": {"list": [1]}}
    VALUES.expanded(config, Permissions())["deep"]["list"].append(2)
    assert config == {"deep": {"list": [1]}}


def test_no_value_is_in_what_is_shown_of_the_secrets() -> None:
    shown = f"{VALUES!r} {VALUES} {[VALUES]} {VALUES.mask!r}"
    assert "KEY" in shown
    assert KEY not in shown and "another-one" not in shown


def test_masking_costs_little_for_much_output() -> None:
    values = SecretValues({f"KEY{n}": f"sk-{n}-{'0123456789abcdef' * 3}/{n}" for n in range(20)})
    text = 'an ordinary line of output, with sk- and / and {"json": [1, 2]} in it\n' * 20_000
    began = time.process_time()
    assert values.mask(text) == text
    assert time.process_time() - began < 2.0  # measured: 0.03
