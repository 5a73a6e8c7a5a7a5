"""Attacks with memory that no process maps. Outside, each takes no more than a machine has to spare."""

from __future__ import annotations

from typing import Final

from paddock.selftest.attack import REFUSALS, Attack
from paddock.selftest.attacks.grants import with_a_loopback
from paddock.selftest.expected_failures import may_lack
from paddock.workers.exit_report import ExitReason

_REFUSALS: Final = REFUSALS | frozenset(("EINVAL", "ENOTSUP", "ENOMEM", "ENOSPC", "EMFILE", "ETOOMANYREFS", "SIGKILL"))
_SECONDS: Final = 20.0  # the watchdog checks unmapped memory twice, later where other processes are busy


def _attack(
    name: str,
    tries: str,
    inside: tuple[int, int],
    outside: int,
    *lacking: str,
    kind: str = "",
    memory_max: str = "128M",
) -> Attack:
    """Return an attack that takes so many mebibytes in so many processes inside, and less, in one process, outside.

    The `kind` of memory is by default what the name says that it holds.
    """
    mebibytes, processes = inside
    kind = kind or name.removeprefix("hold_").replace("_", " ")
    return Attack(
        "unmapped.hold_unmapped_memory",
        tries,
        family="resources",
        own_name=name,
        arguments=lambda testbed: {
            "kind": kind,
            "mebibytes": mebibytes,
            "processes": processes,
            "seconds": _SECONDS,
        },
        outside_arguments=lambda testbed: {"mebibytes": outside, "processes": 1, "seconds": 0.0},
        limits={"memory_max": memory_max, "runtime_max": "60s"},
        refusals=_REFUSALS,
        ends=frozenset((ExitReason.MEMORY,)),
        expected_failures=tuple(may_lack(what, "ENOTSUP", "ENOSYS", "EINVAL", "ENOSPC", "EMFILE") for what in lacking),
    )


_ALONE: Final = (
    _attack(
        "hold_shared_memory_that_was_dropped", "fills shared memory and takes it out of its address space", (256, 2), 32
    ),
    _attack(
        "hold_shared_zeros_that_were_dropped",
        "fills what is mapped of a device, and takes it out of its address space",
        (256, 2),
        32,
    ),
    _attack("hold_segments", "fills shared segments that it has no longer mapped", (256, 1), 32),
    _attack("hold_messages", "leaves messages in many queues", (160, 1), 1),
    _attack(
        "hold_unread_bytes_of_sockets",
        "writes to many sockets and reads nothing",
        (250, 10),
        16,
        kind="unread bytes of socket pairs",
    ),
    _attack("hold_descriptors_on_their_way", "sends full sockets through a socket, and receives none", (250, 1), 8),
    _attack(
        "hold_pages_lent_to_pipes",
        "lends huge pages to pipes, and gives them up itself",
        (256, 2),
        16,
        "huge pages to spare",
    ),
    _attack("hold_record_locks", "locks more bytes of files than the kernel counts", (3, 1), 1),
    _attack("hold_record_locks_of_descriptions", "locks bytes of files for no process in particular", (3, 1), 1),
    _attack(
        "hold_watches",
        "waits for everything it has open in every set it has",
        (38, 2),
        2,
        memory_max="32M",  # it takes long to take more
    ),
    _attack("hold_access_lists", "attaches long lists of access rights to empty files", (200, 1), 8, "access lists"),
    _attack(
        "hold_events_that_nobody_reads",
        "watches a folder with many queues, and reads none",
        (200, 1),
        8,
        "watches to spare",
        kind="events that are not read",
    ),
    _attack(
        "hold_rules",
        "writes down rules of a confinement that it never enters",
        (36, 1),
        1,
        "Landlock",
        memory_max="32M",  # it takes long to take more
    ),
    _attack("hold_everything", "takes some of each kind of memory, of none as much as its limit", (512, 2), 48),
)
_BY_CONNECTIONS: Final = _attack(
    "hold_unread_bytes_of_connections", "writes to many connections to itself", (250, 10), 16
)
_NAMES: Final = {
    "hold_unread_bytes_of_connections": "hold_unread_bytes_of_connections",
    "hold_unread_bytes_of_sockets": "hold_unread_bytes_of_sockets_beside_a_loopback",
    "hold_descriptors_on_their_way": "hold_descriptors_on_their_way_beside_a_loopback",
    "hold_everything": "hold_everything_beside_a_loopback",
}
UNMAPPED: Final = (*_ALONE, *with_a_loopback((*_ALONE, _BY_CONNECTIONS), _NAMES))
