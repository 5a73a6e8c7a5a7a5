"""Answering name lookups: to the byte, to hostile datagrams, and to resolvers that others wrote."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host.egress.c_resolver import addresses_of, in_a_thread_that_asks, why_no_glibc
from paddock.egress.dns import MAX_DATAGRAM_BYTES, TTL, DnsAnswer, Lookup, answer
from support.examples import examples
from support.rows import each_row

ADDRESS = IPv4Address("198.18.0.7")
GRANTED = "granted.test"

A, NS, SOA, PTR, MX, TXT, AAAA, SRV, OPT, SVCB, HTTPS, AXFR, ANY = 1, 2, 6, 12, 15, 16, 28, 33, 41, 64, 65, 252, 255
NO_ERROR, MALFORMED, NO_SUCH_NAME, NOT_IMPLEMENTED, REFUSED = 0, 1, 3, 4, 5
QUERY = 0x0100  # recursion desired


def lookup(name: str) -> IPv4Address | None:
    return ADDRESS if name == GRANTED else None


def wire_name(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


def query(
    name: str | bytes = GRANTED,
    kind: int = A,
    *,
    flags: int = QUERY,
    rdclass: int = 1,
    counts: tuple[int, int, int, int] = (1, 0, 0, 0),
    more: bytes = b"",
) -> bytes:
    encoded = name if isinstance(name, bytes) else wire_name(name)
    return struct.pack(">HHHHHH", 0xBEEF, flags, *counts) + encoded + struct.pack(">HH", kind, rdclass) + more


def opt(
    *, owner: bytes = b"\0", size: int = 1232, version: int = 0, flags: int = 0x8000, options: bytes = b""
) -> bytes:
    return owner + struct.pack(">HHBBHH", OPT, size, 0, version, flags, len(options)) + options


class Reply(NamedTuple):
    flags: int
    addresses: list[bytes]
    extension: bytes

    @property
    def code(self) -> int:
        return self.flags & 0xF


_BEFORE_AN_ADDRESS = struct.pack(">HHHIH", 0xC00C, A, 1, TTL, 4)  # of the name that was asked for


def asked(datagram: bytes, lookup: Lookup = lookup) -> tuple[DnsAnswer, Reply]:
    """Return the answer, and its reply taken apart: each byte of it has to be one that can be foretold."""
    answered = answer(datagram, lookup)
    assert answered is not None
    reply = answered.reply
    assert len(reply) <= MAX_DATAGRAM_BYTES and reply[:2] == datagram[:2]
    flags, questions, answers, authorities, additional = struct.unpack_from(">HHHHH", reply, 2)
    assert flags & 0x8000 and max(questions, answers, additional) <= 1 and not authorities
    end = len(reply) - len(opt()) * additional
    at = end - (len(_BEFORE_AN_ADDRESS) + 4) * answers
    assert bool(reply[12:at]) == questions and datagram[12:at] == reply[12:at]  # its capitals as they were
    assert reply[at : end - 4 * answers] == _BEFORE_AN_ADDRESS * answers
    return answered, Reply(flags, [reply[end - 4 : end]] * answers, reply[end:])


def test_a_granted_name_has_the_address_it_was_given() -> None:
    answered, reply = asked(query())
    assert (answered.name, answered.known) == (GRANTED, True)
    assert reply == Reply(0x8180, [ADDRESS.packed], b"")
    assert answered.reply.hex(" ") == (
        "be ef 81 80 00 01 00 01 00 00 00 00 "  # a reply without error, recursion as desired; one question, one answer
        "07 67 72 61 6e 74 65 64 04 74 65 73 74 00 00 01 00 01 "
        "c0 0c 00 01 00 01 00 00 00 1e 00 04 c6 12 00 07"
    )


@each_row("kind", [NS, SOA, PTR, MX, TXT, AAAA, SRV, SVCB, HTTPS, AXFR, ANY, 65535])
def test_whatever_else_is_asked_about_a_granted_name_has_an_empty_answer(kind: int) -> None:
    answered, reply = asked(query(kind=kind))
    assert (answered.name, answered.known, reply.code, reply.addresses) == (GRANTED, True, NO_ERROR, [])


@each_row("kind", [A, AAAA, HTTPS, TXT])
def test_a_name_that_was_not_granted_does_not_exist_and_is_told_of(kind: int) -> None:
    answered, reply = asked(query("Secrets.In.Labels.evil.test", kind))
    assert (answered.name, answered.known) == ("secrets.in.labels.evil.test", False)
    assert (reply.code, reply.addresses) == (NO_SUCH_NAME, [])


def test_a_lookup_ignores_capitals_and_returns_them() -> None:
    assert asked(query("GrAnTeD.tEsT"))[1].addresses == [ADDRESS.packed]


@each_row("name", ["localhost", "db.LOCALHOST"])
def test_localhost_is_itself(name: str) -> None:
    assert asked(query(name))[1].addresses == [bytes((127, 0, 0, 1))]
    assert asked(query(name, AAAA))[1] == Reply(0x8180, [], b"")


@each_row(
    "name",
    [
        b"\0",  # the root
        wire_name("7.0.18.198.in-addr.arpa"),
        wire_name("1.0.0.127.IN-ADDR.ARPA"),
        wire_name("1.0.0.0.ip6.arpa"),
        wire_name("127.0.0.1"),
        wire_name("127.1"),
        wire_name("granted.test.0x1"),
        b"\x0cgranted.test\0",  # one label with a dot in it
        b"\x07granted\x05test.\0",
        b"\x08granted\0\x04test\0",
        b"\x07gr@nted\x04test\0",
        b"\x07gr\xe4nted\x04test\0",
        b"\x05[::1]\0",
        b"\x03::1\0",
        b"\x01*\x07granted\x04test\0",
    ],
)
@each_row("kind", [A, PTR])
def test_a_query_that_names_no_host_is_refused_without_a_lookup(name: bytes, kind: int) -> None:
    looked_up: list[str] = []
    answered, reply = asked(query(name, kind), lambda name: looked_up.append(name) or ADDRESS)
    assert (answered.name, answered.known, looked_up, reply.code) == (None, False, [], NO_SUCH_NAME)


@each_row(
    ("datagram", "code"),
    [
        (query(flags=0x0900), NOT_IMPLEMENTED),  # inverse query
        (query(flags=0x2900), NOT_IMPLEMENTED),  # update
        (query(counts=(0, 0, 0, 0)), MALFORMED),
        (query(counts=(2, 0, 0, 0), more=wire_name(GRANTED) + b"\0\1\0\1"), MALFORMED),
        (query(counts=(65535, 65535, 65535, 65535)), MALFORMED),
        (query(counts=(1, 1, 0, 0), more=b"\0" * 11), MALFORMED),
        (query(counts=(1, 0, 1, 0), more=b"\0" * 11), MALFORMED),
        (query(more=b"\0"), MALFORMED),
        (query(b"\xc0\x0c"), MALFORMED),  # a pointer to itself
        (query(b"\x07granted\xc0\x0c"), MALFORMED),
        (query(b"\x40" + b"a" * 64 + b"\0"), MALFORMED),
        (query(b"\x80\0"), MALFORMED),
        (query((b"\x3f" + b"a" * 63) * 4 + b"\0"), MALFORMED),  # 257 bytes
        (query(b"\x01a" * 127 + b"\x01a\0"), MALFORMED),
        (query(b"\x07gran"), MALFORMED),
        (query()[:-1], MALFORMED),
        (query()[:12], MALFORMED),
        (query(more=opt()), MALFORMED),  # there, but not counted
        (query(counts=(1, 0, 0, 1)), MALFORMED),  # counted, but not there
        (query(counts=(1, 0, 0, 1), more=opt()[:-1]), MALFORMED),
        (query(counts=(1, 0, 0, 1), more=opt(options=b"\0\x0a\0\2ab")[:-1]), MALFORMED),
        (query(counts=(1, 0, 0, 1), more=opt() + b"\0"), MALFORMED),
        (query(counts=(1, 0, 0, 2), more=opt() + opt()), MALFORMED),
        (query(counts=(1, 0, 0, 1), more=opt(owner=b"\1a\0")), MALFORMED),
        (query(counts=(1, 0, 0, 1), more=b"\0" + struct.pack(">HHIH", 250, 255, 0, 0)), MALFORMED),  # TSIG
        (query(counts=(1, 0, 0, 1), more=opt(options=b"\0\x0c\x01\xd4" + b"\0" * 468)), MALFORMED),  # 513 bytes
        (query(rdclass=3), REFUSED),
        (query(rdclass=255), REFUSED),
    ],
)
def test_a_query_that_is_not_answered_is_told_why(datagram: bytes, code: int) -> None:
    answered, reply = asked(datagram)
    assert (answered.name, answered.known, reply.code, reply.addresses) == (None, False, code, [])


@each_row("datagram", [b"", b"\0" * 11, query(flags=0x8100), query(flags=0xFFFF)])
def test_what_is_no_query_is_met_with_silence(datagram: bytes) -> None:
    assert answer(datagram, lookup) is None


@each_row("options", [b"", b"\0\x0a\0\x08cookie!!"])
def test_a_client_that_speaks_edns_is_answered_in_it(options: bytes) -> None:
    _, reply = asked(query(counts=(1, 0, 0, 1), more=opt(options=options)))
    assert reply == Reply(0x8180, [ADDRESS.packed], opt(size=512, flags=0))


def test_a_version_of_edns_to_come_is_told_which_there_is() -> None:
    _, reply = asked(query(counts=(1, 0, 0, 1), more=opt(version=1)))
    assert (reply.code, reply.extension[5], reply.addresses) == (0, 1, [])  # together: 16, bad version


def test_the_longest_name_there_is_fits_into_a_reply() -> None:
    longest = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
    answered, reply = asked(query(longest, counts=(1, 0, 0, 1), more=opt()), {longest: ADDRESS}.get)
    assert (answered.name, reply.addresses) == (longest, [ADDRESS.packed])


REAL = query(counts=(1, 0, 0, 1), more=opt(options=b"\0\x0a\0\x08cookie!!"))


@settings(max_examples=examples(600), deadline=None, database=None)
@given(st.binary(max_size=600) | st.binary(max_size=100).map(lambda data: REAL[:12] + data))
def test_any_datagram_has_a_reply_that_can_be_read_or_none(datagram: bytes) -> None:
    if answer(datagram, lookup) is not None:
        asked(datagram)


@settings(max_examples=examples(600), deadline=None, database=None)
@given(st.integers(0, len(REAL) - 1), st.integers(0, 255), st.integers(0, len(REAL)))
def test_a_damaged_query_never_gets_another_names_address(at: int, byte: int, cut: int) -> None:
    changed = bytearray(REAL)
    changed[at] = byte
    for datagram in (bytes(changed), REAL[:cut]):
        if answer(datagram, lookup) is not None:
            answered, reply = asked(datagram)
            assert answered.name == GRANTED or not reply.addresses


class Served(NamedTuple):
    port: int
    names: list[str | None]


@contextmanager
def served() -> Iterator[Served]:
    """Answer whoever asks a UDP socket of the loopback interface, until left."""
    names: list[str | None] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        here = listener.getsockname()

        def serve() -> None:
            while True:
                datagram, client = listener.recvfrom(2048)
                if not datagram:
                    return
                answered = answer(datagram, lookup)
                if answered is not None:
                    names.append(answered.name)
                    listener.sendto(answered.reply, client)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Served(here[1], names)
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stopper:
                stopper.sendto(b"", here)
            thread.join(10)
            assert not thread.is_alive()


@pytest.fixture
def _glibc() -> None:
    if why := why_no_glibc():
        pytest.skip(f"the C library is not glibc: {why}")


@pytest.mark.usefixtures("_glibc")
def test_a_name_with_its_last_dot_is_asked_for_in_no_domain_of_the_network() -> None:
    # In a process of its own: the library keeps the domains that it once knew.
    act = "import sys; from host.egress.c_resolver import addresses_of, in_a_thread_that_asks as ask; "
    act += "[ask(int(port), addresses_of(name)) for port, name in zip(sys.argv[1::2], sys.argv[2::2])]"
    environ = {"LOCALDOMAIN": "corp.test", "RES_OPTIONS": "ndots:5", "PYTHONPATH": os.pathsep.join(sys.path)}
    with served() as without, served() as with_dot:
        wanted = [str(without.port), "denied.test", str(with_dot.port), "denied.test."]
        subprocess.run([sys.executable, "-c", act, *wanted], env={**os.environ, **environ}, timeout=60, check=True)
        asked = {"denied.test": set(without.names), "denied.test.": set(with_dot.names)}
    assert "denied.test.corp.test" in asked["denied.test"]
    assert asked["denied.test."] == {"denied.test"}


@pytest.mark.usefixtures("_glibc")
@pytest.mark.parametrize("edns", [False, True])
def test_the_c_librarys_resolver_finds_granted_names_and_no_others(edns: bool) -> None:
    with served() as server:
        assert in_a_thread_that_asks(server.port, addresses_of(GRANTED), edns=edns) == [str(ADDRESS)]
        assert set(server.names) == {GRANTED}
        refused = in_a_thread_that_asks(server.port, addresses_of("denied.test"), edns=edns)
        assert isinstance(refused, socket.gaierror)
        assert refused.errno == socket.EAI_NONAME
        assert "denied.test" in server.names
        nobody = in_a_thread_that_asks(server.port, lambda: socket.gethostbyaddr(str(ADDRESS)), edns=edns)
        assert isinstance(nobody, socket.herror)


_ASK_WITH_C_ARES = """
const { Resolver } = require("node:dns").promises;
const resolver = new Resolver({ timeout: 3000, tries: 2 });
resolver.setServers([process.argv[1]]);
const asks = {
  a: () => resolver.resolve4("granted.test"), aaaa: () => resolver.resolve6("granted.test"),
  txt: () => resolver.resolveTxt("granted.test"), denied: () => resolver.resolve4("denied.test"),
  reverse: () => resolver.reverse("198.18.0.7"),
};
(async () => {
  const out = {};
  for (const [name, ask] of Object.entries(asks)) {
    try { out[name] = await ask(); } catch (error) { out[name] = error.code; }
  }
  console.log(JSON.stringify(out));
})();
"""


@pytest.mark.skipif(shutil.which("node") is None, reason=f"node, which has c-ares, is not in {os.get_exec_path()}")
def test_c_ares_finds_granted_names_and_no_others() -> None:
    with served() as server:
        done = subprocess.run(
            ["node", "-e", _ASK_WITH_C_ARES, f"127.0.0.1:{server.port}"], capture_output=True, timeout=60, check=True
        )
    assert json.loads(done.stdout) == {
        "a": [str(ADDRESS)],
        "aaaa": "ENODATA",
        "txt": "ENODATA",
        "denied": "ENOTFOUND",
        "reverse": "ENOTFOUND",
    }
