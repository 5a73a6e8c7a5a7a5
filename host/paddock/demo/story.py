"""Tell what each module did and how it was contained, from what was observed: reports, counts and the conversation.

Sentences for people about facts; whoever wants the facts themselves finds them in the same `Part`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from paddock.kernel.session import ModuleStatus
from paddock.plan.units import size_text
from paddock.process.exit_report import ExitReport

_BEHAVED: Final = "nothing to contain"


class Conversation:
    """The messages of the turn, counted."""

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self.messages = len(messages)
        self.replies = sum(message["role"] == "assistant" for message in messages)
        self.answered = Counter(str(message.get("name")) for message in messages if message["role"] == "tool")


@dataclass(frozen=True, slots=True)
class Part:
    """One module's part in the demonstration."""

    status: ModuleStatus
    did: str
    contained: str
    printed_bytes: int
    kept_bytes: int

    @classmethod
    def of(cls, status: ModuleStatus, ended: ModuleStatus, conversation: Conversation, logged: int) -> Part:
        """Return the part of a module: as it was when the turn was over, and `ended`, when everything was."""
        return cls(
            status,
            _did(status, ended, conversation, logged),
            _contained(status, ended),
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


def _did(status: ModuleStatus, ended: ModuleStatus, conversation: Conversation, logged: int) -> str:
    answered = conversation.answered
    match status.module:
        case "loop-basic":
            return f"ran {answered.total()} tool calls, to the end of the turn"
        case "context-simple":
            return f"kept the {conversation.messages} messages of the conversation"
        case "provider-mock":
            return f"gave {conversation.replies} replies from a script"
        case "tool-filesystem":
            return f"read {answered['read_file']} files, wrote {answered['write_file']}"
        case "tool-sum-column":
            return "added up the files and appended the sums to the summary"
        case "tool-crasher":
            return "read from address 0 in its tool"
        case "tool-chatterbox":
            return f"printed {size_text(ended.printed_bytes)}, from Python and from C, to stdout and stderr"
        case "hooks-logging":
            return f"logged {logged} events"
        case _:
            return "never returned from its handler of tool:post"


def _contained(status: ModuleStatus, ended: ModuleStatus) -> str:
    facts = [_end(report) for report in status.exit_reports]
    if status.exit_reports:
        facts.append(_afterwards(status))
    if ended.printed_bytes > ended.kept_bytes:
        facts.append(
            f"the last {size_text(ended.kept_bytes)} kept, the rest dropped as it came; its calls were not disturbed"
        )
    return "; ".join(facts) or _BEHAVED


def _end(report: ExitReport) -> str:
    if report.limit is not None:
        return f"ended after {report.limit.name} {report.limit.configured}"
    return f"killed by {report.signal_name}" if report.signal_name is not None else report.describe()


def _afterwards(status: ModuleStatus) -> str:
    again = {0: "not needed again", 1: "started again once"}.get(
        status.restarts, f"started again {status.restarts} times"
    )
    if status.kind == "hook":
        return f"its silence counted as `continue`; {again}"
    return f"its call got an error for a result; {again}"
