"""Attacks on the session itself: acts in another's name, or with another's rights."""

from __future__ import annotations

from functools import partial
from typing import Final

from paddock.selftest.attack import Attack, Sign
from paddock.selftest.testbed.observers import GATES

_OTHER: Final = "confidant"
_ALIKE: Final = (
    "\u0441onfidant",  # a letter of another alphabet
    "\uff43onfidant",
    "confidant\u200b",
    "confidant\u202e",
    "confidant ",
    "CONFIDANT",
    "confidant\x1b[0m",
    "",
)
_HEARD: Final = ("tool:pre", "prompt:submit", "provider:request", "session:end")

_attack = partial(Attack, family="identity", refusals=frozenset(("EPERM",)))

IDENTITY: Final = (
    _attack(
        "identity.mount_in_anothers_name",
        "mounts itself in the place of another module's tool, the provider, the context and the loop",
        arguments=lambda testbed: {"other": _OTHER},
    ),
    _attack(
        "identity.become_the_model",
        "mounts a provider of its own that is asked before every other, without a grant",
    ),
    _attack(
        "identity.mount_under_a_name_that_looks_alike",
        "mounts tools under names that people and models take for another's",
        arguments=lambda testbed: {"names": list(_ALIKE)},
    ),
    _attack(
        "identity.take_anothers_things_away",
        "unmounts what others mounted, and takes their handlers away",
        arguments=lambda testbed: {"other": _OTHER},
        limits={"runtime_max": "13s"},  # a process of its own: afterwards it may really see the session without them
        sign=Sign.MARKS,
    ),
    _attack(
        "identity.offer_in_the_hosts_name",
        "offers capabilities under names that are the host's",
    ),
    _attack(
        "identity.listen_without_being_a_hook",
        "registers handlers for what others do, without a grant",
        arguments=lambda testbed: {"events": list(_HEARD)},
    ),
    _attack(
        "identity.emit_what_others_decide_by",
        "emits events of the session that it has no part in",
        arguments=lambda testbed: {"events": list(GATES)},
    ),
    _attack(
        "identity.reach_what_it_was_not_handed",
        "calls other tools, the provider, the conversation, the loop and another session, without a grant",
        arguments=lambda testbed: {"other": _OTHER},
    ),
    _attack(
        "identity.use_what_it_was_lent",
        "calls a provider that came with a call after that call has ended",
        before="identity.keep_what_it_is_lent",
    ),
    _attack(
        "identity.ask_in_the_hosts_name",
        "asks the person for approval in the words of the host",
    ),
    _attack(
        "identity.flood_with_questions",
        "asks the person for approval hundreds of times",
        arguments=lambda testbed: {"questions": 400},
        limits={"runtime_max": "14s"},  # a process of its own, which has its own budget
    ),
    _attack(
        "identity.flood_an_honest_hook",
        "emits more events at once than an honest module that handles them gets through in the time of a call",
        arguments=lambda testbed: {"events": 500},
        outside_arguments=lambda testbed: {"events": 50},
        limits={"runtime_max": "60s"},  # it takes as long as the other module takes to answer
        sign=Sign.MARKS,  # the other module is ended
    ),
    _attack(
        "identity.stall_while_others_write",
        "reads nothing while an honest module writes forty mebibytes of shared state",
        arguments=lambda testbed: {"seconds": 3.0},
        outside_arguments=lambda testbed: {"seconds": 0.3},
        limits={"runtime_max": "60s"},
    ),
)
