"""What a line of `net` allows, and which lines allow all that another does."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.plan.host_name import Destination, parse_authority, parse_host
from paddock.plan.net_rule import NetRule
from paddock.plan.problems import NotAcceptedError
from support.examples import examples
from support.rows import each_row


@each_row(
    ("written", "text"),
    [
        ("example.org", "example.org:443"),
        ("Example.ORG.:8080", "example.org:8080"),
        ("*.Example.org", "*.example.org:443"),
        ("*.example.org.:80", "*.example.org:80"),
        ("localhost", "127.0.0.1:443"),
        ("localhost:11434", "127.0.0.1:11434"),
        ("127.0.0.1:11434", "127.0.0.1:11434"),
        ("::1", "[::1]:443"),
        ("[::1]:80", "[::1]:80"),
        ("[::ffff:10.0.0.1]:80", "10.0.0.1:80"),
        ("10.0.0.0/8", "10.0.0.0/8:443"),
        ("10.0.0.0/8:80", "10.0.0.0/8:80"),
        ("10.0.0.1/32", "10.0.0.1:443"),
        ("fd00::/8", "[fd00::/8]:443"),
        ("[fd00::/8]:80", "[fd00::/8]:80"),
        ("fc00::/7", "[fc00::/7]:443"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8:443"),
    ],
)
def test_a_rule_has_one_spelling_whatever_was_written(written: str, text: str) -> None:
    rule = NetRule.parse(written)
    assert (rule.text, rule.written) == (text, written)
    assert NetRule.parse(text) == rule
    assert hash(NetRule.parse(text)) == hash(rule)


@each_row(
    ("written", "why"),
    [
        ("*", "every host"),
        ("*:443", "every host"),
        ("*.com", "top-level domain"),
        ("*.com.", "top-level domain"),
        ("*.internal:80", "top-level domain"),
        ("*.localhost", "star before an address"),
        ("*.127.0.0.1", "star before an address"),
        ("*.[::1]", "star before an address"),
        ("*.10.0.0.0/8", "no name of a host"),
        ("*.*.example.org", "not the first"),
        ("a.*.example.org", "not the first"),
        ("*example.org", "not the first"),
        ("exam*.org", "not the first"),
        ("*.", "missing"),
        ("*..example.org", "between two dots"),
        (f"*.{'a.' * 125}aa", "too long"),
        ("0.0.0.0/0", "any one network"),
        ("::/0", "any one network"),
        ("0.0.0.0/1", "any one network"),
        ("8.0.0.0/7", "any one network"),
        ("2000::/3", "any one network"),
        ("::ffff:0:0/96", "any one network"),
        ("10.0.0.1/8", "bits set"),
        ("10.0.0.0/33", "no network"),
        ("10.0.0.0/", "no network"),
        ("10.0.0.0/255.0.0.0", "no network"),
        ("10.0.0.0/0.255.255.255", "no network"),
        ("10.0.0.0/8/8", "no network"),
        ("10.0.0.0/ 8", "no network"),
        ("10/8", "no network"),
        ("[10.0.0.0/8]:80", "brackets"),
        ("example.org/v1", "a path"),
        ("example.org:443/v1", "no port"),
        ("https://example.org", "a scheme"),
        ("//example.org", "a path"),
        ("user@example.org", "`@`"),
        ("user:secret@example.org", "no port"),
        ("127.1", "ends in a number"),
        ("self:443", "the module's own loopback"),
        ("SELF", "the module's own loopback"),
        ("2130706433:80", "ends in a number"),
        ("bücher.example", "beyond ASCII"),
        ("fe80::1%eth0", "`%`"),
        ("", "missing"),
        (":443", "missing"),
    ],
)
def test_a_line_that_is_no_rule_is_refused_with_reason_and_remedy(written: str, why: str) -> None:
    with pytest.raises(NotAcceptedError) as caught:
        NetRule.parse(written)
    assert why in caught.value.problem
    assert caught.value.accepted


@each_row(
    ("rule", "allowed", "refused"),
    [
        (
            "example.org",
            ["example.org:443", "EXAMPLE.ORG.:443"],
            ["example.org:80", "a.example.org:443", "badexample.org:443", "example.org.evil.test:443"],
        ),
        (
            "*.example.org",
            ["a.example.org:443", "a.b.example.org:443"],
            ["example.org:443", "badexample.org:443", "a.example.org:80", "a.example.org.evil.test:443"],
        ),
        ("localhost:80", ["127.0.0.1:80", "x.localhost:80"], ["127.0.0.2:80", "[::1]:80", "127.0.0.1:443"]),
        ("10.0.0.0/8:80", ["10.0.0.1:80", "[::ffff:10.9.8.7]:80"], ["11.0.0.1:80", "10.0.0.1:443", "[::a00:1]:80"]),
        ("[::1]:80", ["[::1]:80", "[0:0::1]:80"], ["127.0.0.1:80", "[::2]:80"]),
        (
            "public",
            ["example.org:443", "EXAMPLE.ORG.:80", "xn--bcher-kva.de:443"],
            [
                *("example.org:22", "example.org:8080", "8.8.8.8:443", "[2606:4700::1111]:443", "localhost:80"),
                *("router:443", "printer.local:80", "git.corp:443", "metadata.google.internal:80", "7.in-addr.arpa:80"),
            ],
        ),
        ("self", [], ["127.0.0.1:443", "[::1]:443", "localhost:80", "self:443", "self.example.org:443"]),
        ("::/8", ["[::1]:443"], ["127.0.0.1:443", "[::ffff:127.0.0.1]:443"]),
    ],
)
def test_a_rule_allows_its_hosts_at_its_port_and_nothing_beside(
    rule: str, allowed: list[str], refused: list[str]
) -> None:
    parsed = NetRule.parse(rule)
    assert [text for text in allowed if not parsed.matches(parse_authority(text))] == []
    assert [text for text in refused if parsed.matches(parse_authority(text))] == []


def test_a_rule_is_about_a_host_whatever_the_port() -> None:
    assert NetRule.parse("example.org:80").names("example.org")
    assert NetRule.parse("localhost:80").names(parse_host("localhost"))
    assert not NetRule.parse("example.org:80").names("org")


@each_row(
    ("rule", "destination"),
    [
        ("example.org", "example.org:443"),
        ("10.0.0.1/32:80", "10.0.0.1:80"),
        ("[::1]:80", "[::1]:80"),
        ("*.example.org", None),
        ("10.0.0.0/31", None),
        ("public", None),
        ("self", None),
    ],
)
def test_a_rule_for_one_host_says_which(rule: str, destination: str | None) -> None:
    expected = None if destination is None else parse_authority(destination)
    assert NetRule.parse(rule).destination == expected


# Small enough to try every destination there is: all names of up to four labels, all addresses of two networks.
LABELS = ["a", "b", "ab"]
NAMES = [".".join(labels) for length in range(1, 5) for labels in product(LABELS, repeat=length)]
ADDRESSES = [f"10.0.0.{n}" for n in range(16)] + [f"[fd00::{n:x}]" for n in range(16)]
EVERYWHERE = [Destination(parse_host(host), port) for host in NAMES + ADDRESSES for port in (80, 443)]

PATTERNS = [f"*.{name}" for name in NAMES if 1 <= name.count(".") <= 2]
NETWORKS = [
    network
    for prefix in (28, 29, 30, 31, 32)
    for start in range(0, 16, 1 << (32 - prefix))
    for network in (f"10.0.0.{start}/{prefix}", f"[fd00::{start:x}/{prefix + 96}]")
]
HOSTS_AT_PORTS = st.builds("{}:{}".format, st.sampled_from(NAMES + PATTERNS + NETWORKS), st.sampled_from([80, 443]))
RULES = (st.just("public") | HOSTS_AT_PORTS).map(NetRule.parse)


@settings(max_examples=examples(400), deadline=None, database=None)
@given(RULES, RULES)
def test_a_rule_subsumes_another_exactly_if_it_allows_all_of_it(rule: NetRule, other: NetRule) -> None:
    allowed = [destination for destination in EVERYWHERE if other.matches(destination)]
    assert rule.covers(other) == all(map(rule.matches, allowed))


@settings(max_examples=examples(100), deadline=None, database=None)
@given(RULES)
def test_the_own_loopback_is_covered_by_itself_alone(rule: NetRule) -> None:
    own = NetRule.parse("self")
    assert own.covers(own) and own.text == "self" and NetRule.parse(own.text) == own
    assert not rule.covers(own) and not own.covers(rule)
    assert not NetRule.parse("127.0.0.0/8:80").covers(own)


@settings(max_examples=examples(200), deadline=None, database=None)
@given(RULES)
def test_a_rule_covers_itself_and_is_its_own_spelling(rule: NetRule) -> None:
    assert rule.covers(rule)
    assert NetRule.parse(rule.text) == rule


@settings(max_examples=examples(300), deadline=None, database=None)
@given(st.text() | st.text("abc*./:[]0123456789@", max_size=30))
def test_any_text_is_a_rule_or_refused(text: str) -> None:
    try:
        rule = NetRule.parse(text)
    except NotAcceptedError:
        return
    assert NetRule.parse(rule.text) == rule
