"""Grants for attackers that need something to start from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from paddock.selftest.attack import Attack
from paddock.selftest.testbed.testbed import KEY, AttackTestbed


def workspace(testbed: AttackTestbed) -> Mapping[str, list[Any]]:
    """Grant one folder to read and another to write to."""
    return {"read": [str(testbed.files.reading)], "write": [str(testbed.files.workspace)]}


def all_but_one_file(testbed: AttackTestbed) -> Mapping[str, list[Any]]:
    """Grant the folder to write to without one file in it."""
    return {"read": [f"!{testbed.files.excluded}"], "write": [str(testbed.files.workspace)]}


def a_folder_where_others_save(testbed: AttackTestbed) -> Mapping[str, list[Any]]:
    """Grant a folder to write to that no other attack is granted: its guarded places are guarded for one module."""
    return {"write": [str(testbed.files.saved.parent)]}


def the_users_home(testbed: AttackTestbed) -> Mapping[str, list[Any]]:
    """Grant the whole home of the user for whom the session runs, to write to."""
    return {"write": [str(testbed.files.users_home)]}


def what_is_around_paddocks_own(testbed: AttackTestbed) -> Mapping[str, list[Any]]:
    """Grant a folder around the one in which Paddock keeps sessions, to write to."""
    return {"write": [str(testbed.files.states)]}


def one_service(testbed: AttackTestbed) -> Mapping[str, list[Any]]:
    """Grant one harmless service of the machine."""
    return {"net": [testbed.network.service.authority]}


def a_loopback(testbed: AttackTestbed) -> Mapping[str, list[Any]]:
    """Grant a loopback of its own, and the folders of `workspace`."""
    return {**workspace(testbed), "net": ["self"]}


def with_a_loopback(attacks: Iterable[Attack], names: Mapping[str, str], **changes: Any) -> Iterator[Attack]:
    """Yield those attacks that have a new name in `names`, by a module with a loopback of its own."""
    for attack in attacks:
        if attack.name in names:
            yield replace(attack, own_name=names[attack.name], grants=a_loopback, only_at=("ns", "bwrap"), **changes)


def every_public_host(testbed: AttackTestbed) -> Mapping[str, list[Any]]:
    """Grant every public host, beside one harmless service of the machine."""
    return {"net": ["public", testbed.network.service.authority]}


def a_named_service(testbed: AttackTestbed) -> Mapping[str, list[Any]]:
    """Grant a service by its name, and by its address, without which a name leads to no private address."""
    network = testbed.network
    if not network.name:
        return {}
    return {"net": [f"{network.name}:{network.named.address[1]}", network.named.authority]}


def a_name_alone(testbed: AttackTestbed) -> Mapping[str, list[Any]]:
    """Grant a service by its name only; the name leads to the machine itself."""
    network = testbed.network
    return {"net": [f"{network.name}:{network.hidden.address[1]}"]} if network.name else {}


def a_service_with_a_key(testbed: AttackTestbed) -> Mapping[str, list[Any]]:
    """Grant two services, and a key that the host injects at one of them."""
    network = testbed.network
    return {
        "net": [network.vault.authority, network.service.authority],
        "secrets": [{"name": KEY, "inject": network.vault.authority}],
        "env": [f"{KEY}=${{{KEY}}}"],
    }
