"""Attacks on keys that the host injects into requests and that no module receives."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from paddock.selftest.attack import Attack, Sign
from paddock.selftest.attacks.grants import a_service_with_a_key
from paddock.selftest.testbed.testbed import KEY, AttackTestbed

_NOT_THERE: Final = frozenset(("ENOENT", "EACCES", "EPERM"))
_HIDDEN: Final = frozenset(("ENOENT", "502"))
_PLAIN: Final = (
    "header",
    "reason",
    "target",
    "body",
    "chunks",
    "trailer",
    "news",
    "parts",
    "gzip",
    "json",
    "json-in-json",
    "url",
    "base64",
    "websocket",
)
_TRANSFORMED: Final = ("upper", "backwards", "hex", "spaced")
_SLOW: Final = ("page", "events", "websocket")
_USED: Final = (
    "injection keeps a key from being stolen as it is kept, and not from being used: what its host says of it in a "
    "spelling of its own is said to the module"
)


def shifted(text: str) -> str:
    """Return a text with each letter as the one after it, so that the text itself is nowhere in memory."""
    return "".join(chr(ord(letter) + 1) for letter in text)


def _looking(testbed: AttackTestbed) -> Mapping[str, Any]:
    return {
        "shifted": shifted(testbed.key),
        "folders": [str(testbed.files.home), "/etc", "/run"],
        "vault": None,
        "variable": KEY,
    }


def _echoed(testbed: AttackTestbed, ways: tuple[str, ...]) -> Mapping[str, Any]:
    vault = list(testbed.network.vault.address)
    return {"shifted": shifted(testbed.key), "vault": vault, "variable": KEY, "ways": list(ways)}


def _guessed(testbed: AttackTestbed, place: tuple[str, int]) -> Mapping[str, Any]:
    return {"shifted": shifted(testbed.key), "vault": list(place), "variable": KEY, "kinds": list(_SLOW)}


_attack = partial(Attack, family="keys", refusals=_NOT_THERE)

KEYS: Final = (
    _attack(
        "keys.find_a_key",
        "looks for a key that the host puts into its requests, wherever a process can look",
        own_name="find_a_key_that_it_uses",
        arguments=lambda testbed: {**_looking(testbed), "vault": list(testbed.network.vault.address)},
        grants=a_service_with_a_key,
    ),
    _attack(
        "keys.find_a_key",
        "looks for a key that the host puts into another module's requests",
        own_name="find_a_key_of_another_module",
        arguments=_looking,
    ),
    _attack(
        "keys.have_a_key_shown",
        "has a service repeat the key that it was sent, as it is and as messages of all sorts spell it",
        arguments=lambda testbed: _echoed(testbed, _PLAIN),
        grants=a_service_with_a_key,
        refusals=_HIDDEN,
    ),
    _attack(
        "keys.have_a_key_shown",
        "has a service repeat the key that it was sent in a form that only it knows",
        own_name="have_a_key_shown_in_another_form",
        arguments=lambda testbed: _echoed(testbed, _TRANSFORMED),
        grants=a_service_with_a_key,
        refusals=_HIDDEN,
        known={"ns": _USED, "bwrap": _USED, "landlock": _USED},
    ),
    _attack(
        "keys.guess_a_key_by_the_time_of_its_echo",
        "has a service repeat right and wrong guesses at how the key begins, and sees which of them arrive later",
        arguments=lambda testbed: _guessed(testbed, testbed.network.vault.address),
        outside_arguments=lambda testbed: _guessed(testbed, testbed.network.redactor.address),
        grants=a_service_with_a_key,
    ),
    _attack(
        "keys.take_a_key_elsewhere",
        "has the key put into requests for another service, and into paths and bodies",
        arguments=lambda testbed: {
            "vault": list(testbed.network.vault.address),
            "granted": list(testbed.network.service.address),
            "variable": KEY,
        },
        grants=a_service_with_a_key,
        sign=Sign.MARKS,
        marks=True,
    ),
)
