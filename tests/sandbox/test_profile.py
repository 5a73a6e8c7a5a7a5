"""A profile crosses a socket unharmed, and one that cannot be applied as it is meant is refused, never weakened."""

from __future__ import annotations

import json
from typing import Any

import pytest

from paddock_sandbox.profile import ISOLATION_LEVELS, IsolationLevel, Mount, NetworkAccess, SandboxProfile
from paddock_sandbox.rlimits import Rlimit
from support.rows import each_row

FULL = SandboxProfile(
    level="ns",
    mounts=(Mount("/usr/lib", "/usr/lib", mappable=True), Mount("/home/her/work", "/work", writable=True)),
    programs=("/usr/bin/git", "/lib64/ld-linux-x86-64.so.2"),
    rlimits=(Rlimit("NOFILE", 256), Rlimit("FSIZE", 1 << 40)),
    scratch="/private",
    tmp_bytes=12345,
    network=NetworkAccess((443, 3128), serves=True),
    links=(Mount("/home/her/work/.git", "/work/.git"),),
)


def crossed(profile: SandboxProfile) -> dict[str, Any]:
    """Return a profile as whoever receives it reads it."""
    read: dict[str, Any] = json.loads(json.dumps(profile.as_dict()))
    return read


@each_row("level", ISOLATION_LEVELS)
def test_a_profile_survives_its_way_to_the_worker(level: IsolationLevel) -> None:
    assert SandboxProfile.from_dict(crossed(SandboxProfile(level))) == SandboxProfile(level)


def test_every_part_of_a_profile_arrives() -> None:
    assert SandboxProfile.from_dict(crossed(FULL)) == FULL


@each_row("level", ["none of these", None, "", "NS", 0])
def test_an_unknown_level_is_refused(level: object) -> None:
    with pytest.raises(ValueError, match=r"cannot apply isolation level .*: known are ns, bwrap, landlock, none"):
        SandboxProfile.from_dict({**crossed(FULL), "level": level})


@each_row("part", crossed(FULL))
def test_no_default_takes_the_place_of_a_part_that_is_missing(part: str) -> None:
    data = crossed(FULL)
    del data[part]
    with pytest.raises(KeyError, match=part):
        SandboxProfile.from_dict(data)


def test_a_limit_that_cannot_be_set_does_not_become_a_profile() -> None:
    with pytest.raises(ValueError, match="no resource limit is called 'FILES'"):
        SandboxProfile.from_dict({**crossed(FULL), "rlimits": [["FILES", 1]]})


def test_without_a_program_nothing_may_be_executed() -> None:
    assert not SandboxProfile("ns").may_execute
    assert FULL.may_execute


@each_row("port", [0, -1, 65536, 443.0, "443", True, None])
def test_what_is_no_port_does_not_become_one(port: object) -> None:
    with pytest.raises(ValueError, match="is no port: ports are from 1 to 65535"):
        SandboxProfile.from_dict({**crossed(FULL), "network": [[80, port], False]})


def test_a_port_is_named_once() -> None:
    with pytest.raises(ValueError, match="a port is named twice"):
        NetworkAccess((443, 80, 443))


@each_row("level", ISOLATION_LEVELS)
def test_a_process_makes_its_own_network_where_it_has_a_namespace_for_it(level: IsolationLevel) -> None:
    assert not SandboxProfile(level).has_own_network
    assert SandboxProfile(level, network=NetworkAccess((443,))).has_own_network is (level in ("ns", "bwrap"))
