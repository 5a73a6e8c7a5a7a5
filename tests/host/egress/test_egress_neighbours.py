"""Where this machine is, by what the kernel says: asked in a network of a test's own, where any address can be had."""

from __future__ import annotations

import subprocess
import sys
from ipaddress import ip_address

import pytest

from paddock.egress.neighbours import why_near
from support.rows import each_row

# Run in a process of its own, which moves into a new network; prints one line for each question.
_INSIDE = """
import ctypes, socket, struct, sys
from ipaddress import ip_address
from paddock.egress.neighbours import why_near

if ctypes.CDLL(None, use_errno=True).unshare(0x10000000 | 0x40000000):  # CLONE_NEWUSER, CLONE_NEWNET
    print("refused", ctypes.get_errno())
    sys.exit()
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
loopback = socket.if_nametoindex("lo")

def ask(kind, flags, body):
    netlink.send(struct.pack("=IHHII", 16 + len(body), kind, 0x5 | flags, 0, 0) + body)
    error = struct.unpack_from("=i", netlink.recv(4096), 16)[0]
    if error:
        raise OSError(-error, "netlink")

def attribute(kind, value):
    return struct.pack("=HH", 4 + len(value), kind) + value

def have(address, bits):
    packed = ip_address(address).packed
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    ask(20, 0x600, struct.pack("=BBBBI", family, bits, 0, 0, loopback) + attribute(1, packed) + attribute(2, packed))

def lead(network, bits, gateway=None):
    packed = ip_address(network).packed
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    body = struct.pack("=BBBBBBBBI", family, bits, 0, 0, 254, 3, 0 if gateway else 253, 1, 0)
    body += attribute(1, packed) + attribute(4, struct.pack("=i", loopback))
    ask(24, 0x600, body + (attribute(5, ip_address(gateway).packed) if gateway else b""))

def say(*addresses):
    for address in addresses:
        print(address, why_near(ip_address(address)), sep="|")

ask(16, 0, struct.pack("=BxHiII", 0, 0, loopback, 1, 1))
say("93.184.216.34")
have("93.184.216.34", 24)
have("2606:2800:220:1::7", 64)
lead("151.101.0.0", 22)
lead("0.0.0.0", 1)
lead("8.8.8.0", 24, "93.184.216.1")
say("93.184.216.34", "93.184.216.1", "93.184.217.1", "93.184.216.255", "2606:2800:220:1::7", "2606:2800:220:1::8")
say("2606:2800:220:2::8", "151.101.3.1", "151.101.4.1", "8.8.8.8", "127.0.0.1")
"""

_OURS = "an address of this machine"


def test_own_addresses_and_neighbours_are_told_by_address_and_by_route() -> None:
    done = subprocess.run([sys.executable, "-c", _INSIDE], capture_output=True, text=True, timeout=120, check=False)
    if done.stdout.startswith("refused"):
        pytest.skip(f"no network namespace can be had here: {done.stdout.strip()}")
    assert done.stderr == ""
    (before, *told) = [line.split("|") for line in done.stdout.splitlines()]
    assert before == ["93.184.216.34", "None"]  # read anew: it had the address only after this
    assert dict(told) == {
        "93.184.216.34": _OURS,
        "93.184.216.1": "on 93.184.216.0/24, a network that this machine is in",
        "93.184.217.1": "None",
        "93.184.216.255": "on 93.184.216.0/24, a network that this machine is in",
        "2606:2800:220:1::7": _OURS,
        "2606:2800:220:1::8": "on 2606:2800:220:1::/64, a network that this machine is in",
        "2606:2800:220:2::8": "None",
        "151.101.3.1": "on a network that this machine is in",  # by a route alone, without a gateway
        "151.101.4.1": "None",  # half of all addresses are no network
        "8.8.8.8": "None",
        "127.0.0.1": _OURS,
    }


@each_row("address", ["127.0.0.1", "::1"])
def test_this_machines_own_loopback_is_ours(address: str) -> None:
    assert why_near(ip_address(address)) == _OURS
