"""Attacks on the host with messages on the module's own connection."""

from __future__ import annotations

from functools import partial
from typing import Final

from paddock.selftest.attack import Attack, Sign
from paddock.workers.exit_report import ExitReason

_PATIENCE: Final = 4.0  # seconds after which an undetected lie counts as believed
_LIES: Final = (
    ("send_garbage", "sends the host bytes that are no message", "garbage"),
    ("announce_a_huge_message", "announces a message of four gigabytes", "a huge length"),
    ("announce_a_message_of_nothing", "announces messages without content", "a length of nothing"),
    ("answer_what_nobody_asked", "answers a call that was never made", "an answer to no question"),
    ("speak_as_the_host", "sends what only the host may say", "the host's own words"),
    ("nest_too_deeply", "sends a value nested a hundred thousand times", "deep nesting"),
    ("send_a_million_values", "sends a million empty lists", "a million values"),
    ("promise_more_than_is_there", "declares four thousand million values, and sends few", "more than is there"),
    ("send_a_pickle", "sends an object that runs a command when it is loaded", "a pickle"),
    ("call_what_it_was_never_handed", "calls an object of another module", "an object of others"),
)

_attack = partial(Attack, family="messages")
_breach = partial(
    _attack,
    outside_arguments=lambda testbed: {"patience": 0.0},
    refusals=frozenset(("EPIPE",)),
    ends=frozenset((ExitReason.PROTOCOL,)),
)

MESSAGES: Final = (
    *(
        _breach(
            "messages.lie_to_the_host",
            tries,
            own_name=name,
            arguments=lambda testbed, lie=lie: {"lie": lie, "patience": _PATIENCE},
        )
        for name, tries, lie in _LIES
    ),
    _breach(
        "messages.stop_reading",
        "asks without ever reading the answers",
        arguments=lambda testbed: {"requests": 128, "patience": _PATIENCE},
    ),
    _attack(
        "messages.flood_the_host",
        "sends a hundred thousand messages that it may send, as fast as it can",
        arguments=lambda testbed: {"messages": 100_000},
        limits={"runtime_max": "60s"},  # a busy host takes its messages slowly
        sign=Sign.LAG,
    ),
    _attack(
        "messages.send_half_a_message",
        "announces a large message and sends it a byte at a time",
        arguments=lambda testbed: {"mebibytes": 3, "seconds": 0.5},
        outside_arguments=lambda testbed: {"seconds": 0.1},
        limits={"runtime_max": "2s"},
        ends=frozenset((ExitReason.TIMEOUT,)),
    ),
)
