"""Attacks on the session itself: acts in another's name, or with another's rights."""

from __future__ import annotations

from typing import Final

from paddock.selftest.attack import Attack, Sign
from paddock.selftest.testbed.observers import GATES

_REFUSED: Final = frozenset(("EPERM",))
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

IDENTITY: Final = (
    Attack(
        "mount_in_anothers_name",
        "identity",
        "identity.mount_in_anothers_name",
        "mounts itself in the place of another module's tool, the provider, the context and the loop",
        arguments=lambda stage: {"other": _OTHER},
        refusals=_REFUSED,
    ),
    Attack(
        "become_the_model",
        "identity",
        "identity.become_the_model",
        "mounts a provider of its own that is asked before every other, without a grant",
        refusals=_REFUSED,
    ),
    Attack(
        "mount_under_a_name_that_looks_alike",
        "identity",
        "identity.mount_under_a_name_that_looks_alike",
        "mounts tools under names that people and models take for another's",
        arguments=lambda stage: {"names": list(_ALIKE)},
        refusals=_REFUSED,
    ),
    Attack(
        "take_anothers_things_away",
        "identity",
        "identity.take_anothers_things_away",
        "unmounts what others mounted, and takes their handlers away",
        arguments=lambda stage: {"other": _OTHER},
        limits={"runtime_max": "13s"},  # a process of its own: afterwards it may really see the session without them
        sign=Sign.MARKS,
    ),
    Attack(
        "offer_in_the_hosts_name",
        "identity",
        "identity.offer_in_the_hosts_name",
        "offers capabilities under names that are the host's",
        refusals=_REFUSED,
    ),
    Attack(
        "listen_without_being_a_hook",
        "identity",
        "identity.listen_without_being_a_hook",
        "registers handlers for what others do, without a grant",
        arguments=lambda stage: {"events": list(_HEARD)},
        refusals=_REFUSED,
    ),
    Attack(
        "emit_what_others_decide_by",
        "identity",
        "identity.emit_what_others_decide_by",
        "emits events of the session that it has no part in",
        arguments=lambda stage: {"events": list(GATES)},
        refusals=_REFUSED,
    ),
    Attack(
        "reach_what_it_was_not_handed",
        "identity",
        "identity.reach_what_it_was_not_handed",
        "calls other tools, the provider, the conversation, the loop and another session, without a grant",
        arguments=lambda stage: {"other": _OTHER},
        refusals=_REFUSED,
    ),
    Attack(
        "use_what_it_was_lent",
        "identity",
        "identity.use_what_it_was_lent",
        "calls a provider that came with a call after that call has ended",
        before="identity.keep_what_it_is_lent",
        refusals=_REFUSED,
    ),
    Attack(
        "ask_in_the_hosts_name",
        "identity",
        "identity.ask_in_the_hosts_name",
        "asks the person for approval in the words of the host",
        refusals=_REFUSED,
    ),
    Attack(
        "flood_with_questions",
        "identity",
        "identity.flood_with_questions",
        "asks the person for approval hundreds of times",
        arguments=lambda stage: {"questions": 400},
        limits={"runtime_max": "14s"},  # a process of its own, which has its own budget
        refusals=_REFUSED,
    ),
    Attack(
        "flood_an_honest_hook",
        "identity",
        "identity.flood_an_honest_hook",
        "emits more events at once than an honest module that handles them gets through in the time of a call",
        arguments=lambda stage: {"events": 500},
        outside_arguments=lambda stage: {"events": 50},
        limits={"runtime_max": "60s"},  # it takes as long as the other module takes to answer
        sign=Sign.MARKS,  # the other module is ended
    ),
    Attack(
        "stall_while_others_write",
        "identity",
        "identity.stall_while_others_write",
        "reads nothing while an honest module writes forty mebibytes of shared state",
        arguments=lambda stage: {"seconds": 3.0},
        outside_arguments=lambda stage: {"seconds": 0.3},
        limits={"runtime_max": "60s"},
        refusals=_REFUSED,
    ),
)
