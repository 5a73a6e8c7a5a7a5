"""What attackers are granted that need something to start from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.selftest.testbed.testbed import KEY, Stage


def workspace(stage: Stage) -> Mapping[str, list[Any]]:
    """Grant one folder to read and another to write to."""
    return {"read": [str(stage.files.reading)], "write": [str(stage.files.workspace)]}


def a_folder_where_others_save(stage: Stage) -> Mapping[str, list[Any]]:
    """Grant a folder to write to that no other attack is granted: what is guarded in it is guarded for one module."""
    return {"write": [str(stage.files.saved.parent)]}


def one_service(stage: Stage) -> Mapping[str, list[Any]]:
    """Grant one harmless service of the machine."""
    return {"net": [stage.network.service.authority]}


def every_public_host(stage: Stage) -> Mapping[str, list[Any]]:
    """Grant every public host, beside one harmless service of the machine."""
    return {"net": ["public", stage.network.service.authority]}


def a_named_service(stage: Stage) -> Mapping[str, list[Any]]:
    """Grant a service by its name, and by its address, without which a name leads to no private address."""
    network = stage.network
    if not network.name:
        return {}
    return {"net": [f"{network.name}:{network.named.address[1]}", network.named.authority]}


def a_name_alone(stage: Stage) -> Mapping[str, list[Any]]:
    """Grant a service by its name only, which leads to the machine itself."""
    network = stage.network
    return {"net": [f"{network.name}:{network.hidden.address[1]}"]} if network.name else {}


def a_service_with_a_key(stage: Stage) -> Mapping[str, list[Any]]:
    """Grant two services, and a key that the host puts in at one of them."""
    network = stage.network
    return {
        "net": [network.vault.authority, network.service.authority],
        "secrets": [{"name": KEY, "inject": network.vault.authority}],
        "env": [f"{KEY}=${{{KEY}}}"],
    }
