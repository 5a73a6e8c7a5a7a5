"""Describe what each module did and how it was contained, from observations: reports, counts and the conversation.

A `ModulePart` contains sentences for people, and the facts themselves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from paddock.plan.units import size_text
from paddock.session.session import ModuleStatus
from paddock.workers.exit_report import ExitReport

BEHAVED: Final = "nothing to contain"
_TRIES: Final[Mapping[str, tuple[str, ...]]] = {
    "tool-snoop": ("read_key", "call_out", "signal_host"),
    "tool-forker": ("fork_bomb",),
}
_DID: Final[Mapping[str, str]] = {
    "loop-basic": "ran {calls} tool calls, to the end of the turn",
    "context-simple": "kept the {seen.messages} messages of the conversation",
    "provider-mock": "gave {seen.replies} replies from a script",
    "tool-filesystem": "read {seen.answered[read_file]} files, wrote {seen.answered[write_file]}",
    "tool-sum-column": "added up the files and appended the sums to the summary",
    "tool-crasher": "read from address 0 in its tool",
    "tool-chatterbox": "printed {printed}, from Python and from C, to stdout and stderr",
    "tool-snoop": "tried to read a private key, to call a server, and to signal this process",
    "tool-forker": "started processes without end",
    "tool-glutton": "took all the memory it could get",
    "hooks-logging": "logged {logged} events",
    "hooks-sleeper": "never returned from its handler of tool:post",
}
_REFUSAL: Final = re.compile(r"\[Errno \d+\] (?P<reason>[A-Z][a-z]+(?: [a-z]+)*)")


class TurnMessages:
    """The messages of the turn, counted."""

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self.messages = len(messages)
        self.replies = sum(message["role"] == "assistant" for message in messages)
        self.answers = [
            (str(message.get("name")), str(message.get("content"))) for message in messages if message["role"] == "tool"
        ]
        self.answered = Counter(name for name, _ in self.answers)

    def refusals(self, tools: Collection[str]) -> list[str]:
        """Return the system's answer to each of these tools' attempts, where it was refused."""
        found = (_REFUSAL.search(content) for name, content in self.answers if name in tools)
        return [match["reason"] for match in found if match is not None]


@dataclass(frozen=True, slots=True)
class ModulePart:
    """One module's part in the demonstration."""

    status: ModuleStatus
    did: str
    contained: str
    is_refused: bool
    printed_bytes: int
    kept_bytes: int

    @classmethod
    def of(cls, status: ModuleStatus, ended: ModuleStatus, conversation: TurnMessages, logged: int) -> ModulePart:
        """Return the part of a module: its state after the turn, and `ended`, its state at the very end."""
        return cls(
            status,
            _did(status, ended, conversation, logged),
            _contained(status, ended, conversation),
            _is_refused(status, conversation),
            ended.printed_bytes,
            ended.kept_bytes,
        )

    def as_dict(self) -> dict[str, object]:
        """Return it as data for JSON."""
        return {
            **self.status.as_dict(),
            "did": self.did,
            "contained": self.contained,
            "printed_bytes": self.printed_bytes,
            "kept_bytes": self.kept_bytes,
        }


def _did(status: ModuleStatus, ended: ModuleStatus, conversation: TurnMessages, logged: int) -> str:
    return _DID[status.module].format(
        seen=conversation,
        calls=conversation.answered.total(),
        printed=size_text(ended.printed_bytes),
        logged=logged,
    )


def _contained(status: ModuleStatus, ended: ModuleStatus, conversation: TurnMessages) -> str:
    facts = ends_of(status)
    if ended.printed_bytes > ended.kept_bytes:
        facts.append(
            f"the last {size_text(ended.kept_bytes)} kept, the rest dropped as it came; its calls were not disturbed"
        )
    refusals = conversation.refusals(_TRIES.get(status.module, ()))
    if refusals:
        facts.append(f"refused by the system: {', '.join(refusals)}")
    return "; ".join(facts) or BEHAVED


def _is_refused(status: ModuleStatus, conversation: TurnMessages) -> bool:
    tries = _TRIES.get(status.module, ())
    return bool(tries) and len(conversation.refusals(tries)) == len(tries)


def ends_of(status: ModuleStatus) -> list[str]:
    """Return how a module's processes ended early, and what followed; empty where none did."""
    return [*map(_end, status.exit_reports), _afterwards(status)] if status.exit_reports else []


def _end(report: ExitReport) -> str:
    if report.limit is not None:
        return f"ended at {report.limit.name} {report.limit.configured} ({report.limit.mechanism})"
    return f"killed by {report.signal_name}" if report.signal_name is not None else report.describe()


def _afterwards(status: ModuleStatus) -> str:
    again = {0: "not needed again", 1: "started again once"}.get(
        status.restarts, f"started again {status.restarts} times"
    )
    if status.kind == "hook":
        return f"its silence counted as `continue`; {again}"
    return f"its call got an error for a result; {again}"
