"""How often one module may do what costs others: the host's time, a person's attention, lines in a record.

The numbers are far above what any known module does: a person answers a question every few seconds. They are a module's
for the whole session, so that ending does not help.
"""

from __future__ import annotations

from typing import Final

from paddock.plan.model import Kind
from paddock.token_bucket import TokenBucket

# They pass on what a model says word by word, and a word that is dropped is missing from an answer. So fast that `work`
# puts off their requests before an event is dropped: a word that one other process handles is 36 values.
_STREAMING: Final = ("provider", "orchestrator")


class ModuleRateLimits:
    """The budgets of one module of a kind."""

    def __init__(self, kind: Kind) -> None:
        streams = kind in _STREAMING
        self.events = TokenBucket(per_second=20_000 if streams else 1000, at_once=100_000 if streams else 10_000)
        # Apart: what floods its other events has its gates closed by that neither sooner nor later.
        self.gates = TokenBucket(per_second=100, at_once=1000)
        self.messages = TokenBucket(per_second=5, at_once=50)
        self.approvals = TokenBucket(per_second=0.5, at_once=30)
        self.attempts = TokenBucket(per_second=50, at_once=500)
        self.running = TokenBucket(per_second=200, at_once=1000)  # tools that it says it starts
        # Bytes of memory, and so of work: what a module says anew of its objects is read by everyone who knows them.
        self.descriptions = TokenBucket(per_second=4 * 1024 * 1024, at_once=32 * 1024 * 1024)
        # Values of messages that the host itself reads or writes for it: a microsecond or two each. Beyond it, its
        # requests are put off.
        self.work = TokenBucket(per_second=256 * 1024, at_once=2 * 1024 * 1024)
        # Values that the host reads of what others answer it; beyond it, it waits for their answers that much longer.
        self.answers = TokenBucket(per_second=256 * 1024, at_once=2 * 1024 * 1024)
