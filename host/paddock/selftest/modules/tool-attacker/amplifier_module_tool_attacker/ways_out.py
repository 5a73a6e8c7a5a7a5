"""Attacks of a module that may reach one service, and tries to reach more, or to be reached."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from urllib.parse import urlsplit

from .descriptors import inherited_listener
from .raw_calls import checked, libc
from .talk import (
    SECONDS,
    Connect,
    Place,
    answered,
    ask_proxy,
    asked,
    closed_by_failure,
    connect,
    connect_to_proxy,
    must_reach,
    proxy_credentials,
    tunnel,
)
from .way import RefusedActError, Way, in_one_way

_FAST_OPEN = 0x20000000
_TO_LOOPBACK = (socket.SOL_SOCKET, 25, b"lo\0")  # SO_BINDTODEVICE
_BIND_ADDRESS_NO_PORT = 24

_TIDE = 0.1  # seconds for an answer that does not come


def _asking(place: Place) -> bytes:
    return "GET / HTTP/1.1\r\nHost: {}:{}\r\n\r\n".format(*place).encode()


def connect_to_what_was_not_granted(granted: Place, others: Sequence[Place]) -> Iterator[Way]:
    """Talk to other ports and other addresses than the granted one."""
    must_reach(*granted)
    for place in others:
        host, port = place
        yield f"{host}:{port}", partial(_talked, partial(connect, host, port), place)
        yield f"a tunnel to {host}:{port}", partial(_talked, partial(tunnel, host, port), place)
        yield f"a page of {host}:{port}", partial(ask_proxy, f"{host}:{port}", by_tunnel=False)


def spell_addresses_otherwise(granted: Place, spellings: Sequence[str], straight: Sequence[Place]) -> Iterator[Way]:
    """Ask for forbidden places in spellings that a reader may misunderstand, or connect to what they mean."""
    must_reach(*granted)
    for authority in spellings:
        yield f"{authority!a} by CONNECT", partial(ask_proxy, authority, by_tunnel=True)
        yield f"{authority!a} as a page", partial(ask_proxy, authority, by_tunnel=False)
    for place in straight:
        yield "{}:{} straight".format(*place), partial(_talked, partial(connect, *place), place)


def follow_where_it_is_sent(granted: Place) -> Iterator[Way]:
    """Ask the granted service for something that redirects elsewhere."""
    must_reach(*granted)
    url = "http://{}:{}/elsewhere".format(*granted)
    yield "by the proxy", lambda: _fetched(url)
    yield "straight", lambda: _fetched(url, {})


def connect_by_other_means(granted: Place, others: Sequence[Place]) -> Iterator[Way]:
    """Connect in ways that a watcher of connections may not see."""
    must_reach(*granted)
    ways: tuple[tuple[str, Connect], ...] = (
        ("by sending", _opened_by_sending),
        ("by sending a message", partial(_opened_by_sending, by_message=True)),
        ("from a chosen device", partial(_prepared, prepare=lambda line: line.setsockopt(*_TO_LOOPBACK))),
        ("from a chosen address", partial(_prepared, prepare=_bind_to_address)),
        ("without waiting", _without_waiting),
        ("with a socket that was connected elsewhere", partial(_again, granted)),
    )
    for name, way in ways:
        for place in others:
            yield "{1}:{2} {0}".format(name, *place), partial(_talked, partial(way, *place), place)


def be_reached(granted: Place) -> Iterator[Way]:
    """Wait for connections, at all sorts of ports."""
    must_reach(*granted)
    yield "at a port", lambda: _listened(lambda one: one.bind(("", 0)))
    yield "at a port that the kernel picks", lambda: _listened(lambda one: None)
    yield "at the granted one's port", lambda: _listened(partial(_bind_beside, granted[1]))


def open_a_listener_that_is_there(granted: Place) -> Iterator[Way]:
    """Find a listener among the descriptors of its own process, and of others that it can see."""
    must_reach(*granted)
    yield "its own", inherited_listener
    yield "of its parent", lambda: os.listdir(f"/proc/{os.getppid()}/fd")


def ask_for_names(granted: Place, name: str, servers: Sequence[Place]) -> Iterator[Way]:
    """Look up a name without a grant, and so send the content of the name to every server on the way."""
    must_reach(*granted)
    for server in servers:
        yield "of {}:{}".format(*server), partial(_looked_up, name, *server)
    yield "by a tunnel", lambda: ask_proxy(f"{name}:{granted[1]}", by_tunnel=True)
    yield "by a page", lambda: ask_proxy(f"{name}:{granted[1]}", by_tunnel=False)


def reach_by_a_name(name: str, port: int) -> Iterator[Way]:
    """Reach by its name a service whose address names do not lead to."""
    _must_have(name)
    yield "straight", lambda: _talked(partial(connect, name, port), (name, port))
    yield "a tunnel", lambda: ask_proxy(f"{name}:{port}", by_tunnel=True)
    yield "a page", lambda: ask_proxy(f"{name}:{port}", by_tunnel=False)


def name_another_server_in_tls(name: str, port: int, other: str) -> Iterator[Way]:
    """Begin to talk to a server under the name of another, as works with a server for many names."""
    _must_have(name)
    must_reach(name, port)
    for way, reach in (("straight", connect), ("a tunnel", tunnel)):
        yield f"TLS, {way}", partial(_said, partial(reach, name, port), _hello(other))
        yield f"no name at all, {way}", partial(_said, partial(reach, name, port), _hello("") + other.encode())


def borrow_anothers_proxy(authority: str, proxy: str) -> Iterator[Way]:
    """Use the proxy of another module, which gave it away: `authority` is the service that that one may reach."""
    yield "a tunnel", lambda: ask_proxy(authority, by_tunnel=True, url=proxy)
    yield "a page", lambda: ask_proxy(authority, by_tunnel=False, url=proxy)
    yield (
        "its credentials at the own one",
        lambda: ask_proxy(authority, by_tunnel=True, credentials=proxy_credentials(proxy)),
    )


def pass_for_another_at_the_proxy(granted: Place, authority: str) -> Iterator[Way]:
    """Use the proxy without credentials, or with another's."""
    must_reach(*granted)
    for name, credentials in (
        ("nobody", b""),
        ("a guess", b"Proxy-Authorization: Basic cGFkZG9jazpwYWRkb2Nr\r\n"),
        ("an empty word", b"Proxy-Authorization: Basic cGFkZG9jazo=\r\n"),
        ("no base64", b"Proxy-Authorization: Basic \xff\xff\r\n"),
        ("another scheme", proxy_credentials().replace(b"Basic", b"Bearer")),
        ("to somebody else", proxy_credentials().removeprefix(b"Proxy-")),
    ):
        yield f"as {name}, a tunnel", partial(ask_proxy, authority, by_tunnel=True, credentials=credentials)
        yield f"as {name}, a page", partial(ask_proxy, authority, by_tunnel=False, credentials=credentials)


@in_one_way("straight")
def reach_others_at_the_proxys_port(granted: Place, address: str) -> str:
    """Connect to another address at the number of the port that the proxy has."""
    must_reach(*granted)
    port = urlsplit(os.environ["HTTP_PROXY"]).port or 0
    try:
        with connect(address, port) as line:
            return asked(line, _asking((address, port))).decode(errors="replace")
    except ConnectionRefusedError:
        return "let through: the machine itself refused the connection"


@in_one_way("proxy")
def tell_its_proxy() -> str:
    """Give away the module's knowledge of its own proxy."""
    return os.environ["HTTP_PROXY"]


# -- talking ------------------------------------------------------------------------------------


def _must_have(name: str) -> None:
    if not name:
        raise RefusedActError("ENODATA", "the machine has no name of its own")


def _talked(line_of: Callable[[], socket.socket], place: Place) -> str:
    with line_of() as line:
        return answered(line, _asking(place))


def _said(line_of: Callable[[], socket.socket], words: bytes) -> str:
    """Send data that another process is to notice, with any answer."""
    with line_of() as line:
        line.sendall(words)
        line.settimeout(_TIDE)
        try:
            line.recv(1)
        except TimeoutError:
            return "said"
    raise RefusedActError("ECONNRESET", "the connection was closed for it")


def _fetched(url: str, proxies: dict[str, str] | None = None) -> str:
    """Fetch a page as usual clients do, through the proxies of their environment unless others are given."""
    import urllib.error
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    try:
        with opener.open(url, timeout=SECONDS) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            raise RefusedActError(str(error.code), error.reason) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, OSError):
            raise error.reason from None
        raise


# -- connecting ----------------------------------------------------------------------------------


def _opened_by_sending(host: str, port: int, *, by_message: bool = False) -> socket.socket:
    line = socket.socket(socket.AF_INET, socket.SOCK_STREAM)  # one that waits: others get the answer to try again
    with closed_by_failure(line):
        words = _asking((host, port))
        if by_message:
            line.sendmsg([words], [], _FAST_OPEN, (host, port))
        else:
            line.sendto(words, _FAST_OPEN, (host, port))
    return line


def _prepared(host: str, port: int, prepare: Callable[[socket.socket], None]) -> socket.socket:
    line = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    line.settimeout(SECONDS)
    with closed_by_failure(line):
        prepare(line)
        line.connect((host, port))
    return line


def _bind_to_address(line: socket.socket) -> None:
    line.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
    line.bind(("127.0.0.3", 0))


def _without_waiting(host: str, port: int) -> socket.socket:
    line = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    with closed_by_failure(line):
        error = line.connect_ex((host, port))
        if error not in (0, errno.EINPROGRESS):
            raise OSError(error, os.strerror(error))
        select.select([], [line], [], SECONDS)
        error = line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
    return line


class _Nowhere(ctypes.Structure):
    _fields_ = (("family", ctypes.c_ushort), ("rest", ctypes.c_char * 14))


def _again(granted: Place, host: str, port: int) -> socket.socket:
    """Disconnect a socket whose connection was allowed, and connect it elsewhere."""
    line = _allowed(granted)
    with closed_by_failure(line):
        nowhere = _Nowhere(socket.AF_UNSPEC, b"")
        checked(libc.connect(line.fileno(), ctypes.byref(nowhere), ctypes.sizeof(nowhere)))
        line.connect((host, port))
    return line


def _allowed(granted: Place) -> socket.socket:
    try:
        return connect(*granted)
    except OSError:
        return connect_to_proxy()


# -- listening -----------------------------------------------------------------------------------


def _listened(bind: Callable[[socket.socket], None]) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        bind(one)
        one.listen()
        return f"listens at port {one.getsockname()[1]}"


def _bind_beside(port: int, one: socket.socket) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    one.bind(("127.0.0.9", port))


# -- names ---------------------------------------------------------------------------------------


def _looked_up(name: str, host: str, port: int) -> str:
    """Ask a server for the address of a name."""
    question = b"".join(bytes([len(label)]) + label for label in name.encode().split(b"."))
    query = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + question + b"\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as requester:
        requester.settimeout(_TIDE)
        requester.connect((host, port))
        requester.send(query)
        try:
            reply = requester.recv(512)
        except TimeoutError:
            return "somebody listens to it"
    code = reply[3] & 0xF
    if code:
        raise RefusedActError("ENOENT", f"there is no such name, says {host}: {code}")
    return f"it is known at {host}"


# -- TLS -----------------------------------------------------------------------------------------


def _hello(name: str) -> bytes:
    """Return the first bytes of a client that wants to talk to a server of some name."""
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname=name or None).do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise RuntimeError("a handshake that needs no answer")
