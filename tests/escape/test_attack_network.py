"""The services that attackers aim at notice what they are told, so that silence means something."""

from __future__ import annotations

import contextlib
import socket
import urllib.request
from collections.abc import Iterator

import pytest

from paddock.selftest.testbed.network import AttackNetwork
from paddock.selftest.testbed.service import GREETING, TargetService

_MARK = "0123456789abcdef"
_KEY = "sk/secret+key"
_SECONDS = 60


@pytest.fixture
def network() -> Iterator[AttackNetwork]:
    with contextlib.ExitStack() as stack:
        yield AttackNetwork(stack, _MARK, _KEY)


def _ask(service: TargetService, request: bytes, *, proxy: str = "") -> bytes:
    host, port = service.address
    if proxy:
        name, _, number = proxy.removeprefix("http://").rpartition(":")
        host, port = name, int(number)
    with socket.create_connection((host, port), timeout=_SECONDS) as line:
        line.sendall(request)
        return line.recv(1 << 16)


def test_who_comes_to_a_service_that_was_not_granted_is_noticed_once(network: AttackNetwork) -> None:
    assert GREETING.encode() in _ask(network.another, b"GET / HTTP/1.1\r\n\r\n")
    assert network.knocks() == ("somebody came to another port of the machine",)
    assert network.knocks() == ()


def test_a_bare_connection_is_an_attempt_only_without_a_grant(
    network: AttackNetwork,
) -> None:
    for service in (network.beside, network.service):
        socket.create_connection(service.address, timeout=_SECONDS).close()
    assert network.knocks() == ("somebody came to the same port of another address",)


@pytest.mark.parametrize(
    "words",
    [
        b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n",
        b"\x16\x03\x01 %b",
        b"POST / HTTP/1.1\r\nContent-Length: 999\r\n\r\n%b",
        b"%b",
    ],
)
def test_whatever_names_a_stranger_is_noticed_request_or_not(network: AttackNetwork, words: bytes) -> None:
    with socket.create_connection(network.service.address, timeout=_SECONDS) as line:
        for letter in words % network.stranger.encode():
            line.send(bytes([letter]))
        assert network.knocks() == ("the granted service was sent who is meant by somebody else",)


def test_a_key_is_noticed_by_a_service_that_it_is_not_for(network: AttackNetwork) -> None:
    request = b"GET / HTTP/1.1\r\nAuthorization: Bearer %b\r\n\r\n" % _KEY.encode()
    _ask(network.vault, request)
    assert network.knocks() == ()
    _ask(network.service, request)
    assert network.knocks() == ("the granted service was sent a key",)


@pytest.mark.parametrize(
    "request_of", [b"GET /%b HTTP/1.1\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: 13\r\n\r\n%b"]
)
def test_a_key_is_noticed_by_its_own_service_where_others_may_read_it(
    network: AttackNetwork, request_of: bytes
) -> None:
    _ask(network.vault, request_of % _KEY.encode())
    assert network.knocks() == ("the service with a key was sent a key where it is kept for others to read",)


def test_the_open_proxy_takes_every_spelling_for_what_it_could_mean(network: AttackNetwork) -> None:
    port = network.beside.address[1]
    for authority in (f"0x7f.2:{port}", f"granted@127.0.0.2:{port}", f"127.0.0.1{network.suffix}:{port}"):
        asked = f"GET http://{authority}/ HTTP/1.1\r\n\r\n".encode()
        assert GREETING.encode() in _ask(network.beside, asked, proxy=network.proxy.url), authority
        assert network.knocks() == ("somebody came to the same port of another address",)


def test_the_open_proxy_leads_no_connection_off_the_stage(network: AttackNetwork) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0)
        asked = "CONNECT {}:{} HTTP/1.1\r\n\r\n".format(*other.getsockname()).encode()
        assert b"403" in _ask(network.beside, asked, proxy=network.proxy.url)
        with pytest.raises(BlockingIOError):
            other.accept()


def test_a_name_that_this_process_asks_the_system_for_is_noticed(network: AttackNetwork) -> None:
    name = f"told{network.suffix}"
    with pytest.raises(OSError):
        socket.getaddrinfo(name, 80, flags=socket.AI_NUMERICHOST)  # which asks nobody
    assert network.knocks() == (f"the system was asked for {name}",)


def test_nothing_of_it_is_left_when_it_is_closed() -> None:
    stack = contextlib.ExitStack()
    network = AttackNetwork(stack, _MARK, _KEY)
    where = f"http://{network.service.authority}/"
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(where, timeout=_SECONDS) as answer:
        assert GREETING.encode() in answer.read()
    with socket.create_connection(network.service.address, timeout=_SECONDS) as line:
        stack.close()
        line.settimeout(_SECONDS)
        with contextlib.suppress(ConnectionResetError):
            assert line.recv(1) == b""
    with pytest.raises(OSError):
        socket.create_connection(network.service.address, timeout=_SECONDS).close()
