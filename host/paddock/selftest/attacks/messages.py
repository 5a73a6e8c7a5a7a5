"""Attacks on the host with messages on the module's own connection."""

from __future__ import annotations

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
_BROKEN_PROTOCOL: Final = frozenset((ExitReason.PROTOCOL,))

MESSAGES: Final = (
    *(
        Attack(
            name,
            "messages",
            "messages.lie_to_the_host",
            tries,
            arguments=lambda stage, lie=lie: {"lie": lie, "patience": _PATIENCE},  # type: ignore[misc]
            outside_arguments=lambda stage, lie=lie: {"lie": lie, "patience": 0.0},  # type: ignore[misc]
            refusals=frozenset(("EPIPE",)),
            ends=_BROKEN_PROTOCOL,
        )
        for name, tries, lie in _LIES
    ),
    Attack(
        "stop_reading",
        "messages",
        "messages.stop_reading",
        "asks without ever reading the answers",
        arguments=lambda stage: {"requests": 128, "patience": _PATIENCE},
        outside_arguments=lambda stage: {"requests": 128, "patience": 0.0},
        refusals=frozenset(("EPIPE",)),
        ends=_BROKEN_PROTOCOL,
    ),
    Attack(
        "flood_the_host",
        "messages",
        "messages.flood_the_host",
        "sends a hundred thousand messages that it may send, as fast as it can",
        arguments=lambda stage: {"messages": 100_000},
        limits={"runtime_max": "60s"},  # a busy host takes its messages slowly
        sign=Sign.LAG,
    ),
    Attack(
        "send_half_a_message",
        "messages",
        "messages.send_half_a_message",
        "announces a large message and sends it a byte at a time",
        arguments=lambda stage: {"mebibytes": 3, "seconds": 0.5},
        outside_arguments=lambda stage: {"mebibytes": 3, "seconds": 0.1},
        limits={"runtime_max": "2s"},
        ends=frozenset((ExitReason.TIMEOUT,)),
    ),
)
