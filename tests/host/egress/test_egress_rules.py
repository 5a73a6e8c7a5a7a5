"""What a module's rules allow, however a destination is spelled."""

from __future__ import annotations

from paddock.egress.rules import NetRules
from paddock.plan.host_name import Destination, parse_authority, parse_host
from paddock.plan.net_rule import NetRule
from paddock.plan.problems import NotAcceptedError
from support.rows import each_row

RULES = NetRules(
    map(NetRule.parse, ["allowed.test", "*.below.test:8443", "xn--bcher-kva.test", "10.1.0.0/16:5432", "[fd00::1]:80"])
)


def allows(rules: NetRules, authority: str) -> bool:
    """Tell what comes of a CONNECT to `authority`: text that is no destination is as refused as one without a rule."""
    try:
        destination = parse_authority(authority, 443)
    except NotAcceptedError:
        return False
    return rules.rule_for(destination) is not None


@each_row(
    "authority",
    [
        "allowed.test:443",
        "allowed.test",
        "ALLOWED.Test:443",
        "allowed.test.:443",
        "allowed.test:0443",
        "a.below.test:8443",
        "b.a.below.test.:8443",
        "xn--bcher-kva.test:443",
        "XN--BCHER-KVA.TEST:443",
        "10.1.255.255:5432",
        "[::ffff:10.1.0.1]:5432",
        "[::ffff:a01:1]:5432",
        "[fd00::1]:80",
        "[FD00:0:0:0::0001]:80",
    ],
)
def test_every_spelling_of_what_was_granted_is_allowed(authority: str) -> None:
    assert allows(RULES, authority)


@each_row(
    "authority",
    [
        # Another domain, dressed as the granted one.
        "denied.test:443",
        "allowed.test.evil:443",
        "evil-allowed.test:443",
        "notallowed.test:443",
        "a.allowed.test:443",
        "below.test:8443",
        "evilbelow.test:8443",
        "a.below.test.evil:8443",
        "test:443",
        # What one parser reads as the granted name and another does not.
        "evil.test#allowed.test:443",
        "evil.test/allowed.test:443",
        "evil.test?allowed.test:443",
        "evil.test\\allowed.test:443",
        "allowed.test@evil.test:443",
        "evil.test@allowed.test:443",
        "allowed.test:443@evil.test:443",
        "evil.test%00allowed.test:443",
        "evil.test\0allowed.test:443",
        "evil.test\r\nHost: allowed.test:443",
        "evil.test allowed.test:443",
        " allowed.test:443",
        "allowed.test :443",
        "allowed.test..:443",
        ".allowed.test:443",
        "[allowed.test]:443",
        "https://allowed.test:443",
        # Letters that look like the granted ones, or become them.
        "аllowed.test:443",  # noqa: RUF001 - a Cyrillic letter is the point
        "ａllowed.test:443",  # noqa: RUF001 - a letter of another width is the point
        "allowed。test:443",
        "bücher.test:443",
        "xn--bcher-kva.test.evil:443",
        # Ports.
        "allowed.test:80",
        "allowed.test:8443",
        "allowed.test:0",
        "allowed.test:65979",  # 443 + 65536
        "allowed.test:443:80",
        "allowed.test:",
        "allowed.test:-443",
        "a.below.test:443",
        # The machine and its surroundings, by address and in disguise.
        "127.0.0.1:443",
        "127.1:443",
        "0x7f.1:443",
        "0x7f000001:443",
        "0177.0.0.1:443",
        "2130706433:443",
        "017700000001:443",
        "127.0.0.1.:443",
        "0.0.0.0:443",
        "0:443",
        "localhost:443",
        "x.localhost:443",
        "[::1]:443",
        "[::]:443",
        "[::ffff:127.0.0.1]:443",
        "[::ffff:7f00:1]:443",
        "[::127.0.0.1]:443",
        "[64:ff9b::7f00:1]:443",
        "[2002:7f00:1::]:443",
        "[fe80::1%25lo]:443",
        "169.254.169.254:80",
        "[fd00:ec2::254]:80",
        "0xa9fea9fe:80",
        "198.18.0.1:443",
        "10.2.0.0:5432",
        "10.1.0.1:443",
        "[::10.1.0.1]:5432",
        "[fd00::1]:443",
        "[fd00::2]:80",
        "1.1.1.1:443",
    ],
)
def test_what_was_not_granted_is_refused_however_it_is_spelled(authority: str) -> None:
    assert not allows(RULES, authority)


def test_no_rules_allow_nothing() -> None:
    nothing = NetRules([])
    assert not nothing
    assert nothing.ports == ()
    assert not allows(nothing, "allowed.test")
    assert not nothing.knows("allowed.test")


def test_the_ports_are_those_of_all_rules_once_each() -> None:
    assert RULES.ports == (80, 443, 5432, 8443)


def test_a_name_is_known_whatever_the_port_if_some_rule_is_about_it() -> None:
    assert all(map(RULES.knows, ["allowed.test", "a.below.test", parse_host("10.1.2.3"), parse_host("fd00::1")]))
    assert not any(map(RULES.knows, ["below.test", "a.allowed.test", "test", parse_host("10.2.2.3")]))


def test_the_rule_that_allows_is_told_as_it_was_written() -> None:
    rules = NetRules(map(NetRule.parse, ["*.Example.org", "a.example.org", "a.example.org:443"]))
    rule = rules.rule_for(Destination("a.example.org", 443))
    assert rule is not None
    assert rule.written == "*.Example.org"
