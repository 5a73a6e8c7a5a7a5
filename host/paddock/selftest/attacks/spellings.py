"""Spellings of a destination that one reader takes for another place than the next reader."""

from __future__ import annotations

from collections.abc import Iterator

from paddock.selftest.testbed.network import METADATA
from paddock.selftest.testbed.testbed import AttackTestbed


def spellings(testbed: AttackTestbed) -> Iterator[str]:
    """Yield spellings that lead to a service without a grant for some readers, but not for others."""
    network = testbed.network
    granted, port = network.service.authority, network.service.address[1]
    other = network.another.address[1]
    yield from (f"{host}:{port}" for host in _BESIDE)
    yield from (f"{host}:{other}" for host in _LOOPBACK)
    for owned in (
        f"127.0.0.1{network.suffix}",
        f"127.0.0.1:{port}{network.suffix}",
        f"localhost{network.suffix}",
        f"metadata.google.internal{network.suffix}",
    ):
        yield f"{owned}:{port}"
    yield f"{granted}@127.0.0.2:{port}"
    yield f"127.0.0.1@127.0.0.2:{port}"
    yield f"127.0.0.1%40127.0.0.2:{port}"
    yield f"127.0.0.2:{port}#@{granted}"
    yield f"127.0.0.2:{port}?@{granted}"
    yield f"127.0.0.2:{port}%23@{granted}"
    yield f"127.0.0.1\\@127.0.0.2:{port}"
    yield f"127.0.0.2:{port}%00.{granted}"
    yield f"127.0.0.2:{port + (1 << 16)}"
    yield f"127.0.0.2:+{port}"
    yield f"127.0.0.2:0{port}"
    yield f"127.0.0.1:{other}#:{port}"


def clouds(testbed: AttackTestbed) -> Iterator[str]:
    """Yield addresses where clouds give credentials to every caller, in spellings that some readers accept."""
    port = testbed.network.service.address[1]
    yield from (f"{host}:{port}" for host in METADATA)


# Of 127.0.0.2, which is not granted.
_BESIDE = (
    "127.0.0.2",
    "127.0.0.2.",
    "2130706434",
    "0x7f000002",
    "0X7F.0.0.2",
    "0x7f.2",
    "017700000002",
    "0177.0.0.2",
    "0177.0x0.2",
    "127.2",
    "127.0.2",
    "[::ffff:127.0.0.2]",
    "[::ffff:7f00:2]",
    "[0:0:0:0:0:FFFF:127.0.0.2]",
    "127\u30020\u30020\u30022",
    "\uff11\uff12\uff17.0.0.2",
    "127.0.0.2%20",
    "%31%32%37.0.0.2",
)
# Of 127.0.0.1, of which another port was granted.
_LOOPBACK = (
    "127.0.0.1",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "granted.localhost",
    "0.0.0.0",  # noqa: S104 - asked for, and not listened at
    "0",
    "2130706433",
    "127.1",
    "[::ffff:127.0.0.1]",
)
