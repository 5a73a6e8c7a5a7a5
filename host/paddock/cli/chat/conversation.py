"""The conversation of a person with a session: its turns, their display, and their interruption.

A turn that fails or is interrupted leaves the session able to take the next one, unless an operator ended it. Denials
and the ends of modules are shown once, after the turn in which they happened.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import anyio

from paddock.cli import failure
from paddock.cli.chat.conversation_screen import ConversationScreen
from paddock.cli.chat.turn_view import TurnView
from paddock.cli.terminal.answer_ends import AnswerEnds
from paddock.cli.terminal.approval import TerminalApproval
from paddock.cli.terminal.denial_notes import tell_denials
from paddock.cli.terminal.interruption import on_interrupt
from paddock.cli.terminal.progress import ActivityLine
from paddock.cli.terminal.render import Screen
from paddock.errors import PaddockError
from paddock.isolation.denials.attempted_path import open_within
from paddock.session.session import Session
from paddock.workers.supervisor import REVOKED
from paddock_sdk.kernel.emitter import event_emitter
from paddock_sdk.kernel.session_stats import Spending as Counted
from paddock_sdk.kernel.session_stats import money

_NAME: Final = "paddock-chat"
_LAST: Final = 1_000_000  # after the handlers of modules, so that what a hook hides or changes is not shown here
_FIRST: Final = -1_000_000  # before any hook decides on a call
_PATIENCE: Final = 2.0  # seconds that a turn has to end by itself after an immediate cancellation
_MAX_FILE: Final = 256 * 1024  # bytes of a file whose change is shown

_COUNTS: Final = {
    "input_tokens": "in",
    "output_tokens": "out",
    "cache_read_tokens": "read from the cache",
    "cache_write_tokens": "written to the cache",
    "reasoning_tokens": "of the output spent on reasoning",
}

_STOPPING: Final = "stopping after the running tool call; press Ctrl-C again to stop at once"


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """The result of a turn: an answer or an error; `is_interrupted` if the person stopped it."""

    answer: str | None = None
    error: Exception | None = None
    is_interrupted: bool = False


def follow(
    session: Session,
    screen: Screen,
    approval: TerminalApproval,
    folder: Path,
    *,
    is_verbose: bool,
) -> TurnView:
    """Return a view that shows the turns of `session` on `screen` while they run, from the events of its modules.

    It handles events after the handlers of modules, so it shows them as hooks left them. Above a question it shows the
    change that this is about, if it is known which one that is.
    """
    view = TurnView(
        ConversationScreen(screen, session.masked_stream),
        session.session_id,
        folder=str(folder),
        is_verbose=is_verbose,
        read=lambda path: read_text(folder, path),
        mask=session.mask,
    )

    def take(event: str, data: Any) -> None:
        view.take(event, data, event_emitter())

    def foresee(event: str, data: Any) -> None:
        view.foresee(data)

    approval.preview_by(view.preview)
    hooks = session.coordinator.hooks
    for event in view.events:
        hooks.register(event, take, priority=_LAST, name=_NAME)
    hooks.register("tool:pre", foresee, priority=_FIRST, name=_NAME)
    return view


class ChatConversation:
    """The conversation of `session`, which must be entered before a turn; without a `view` no turn is shown."""

    def __init__(
        self,
        session: Session,
        screen: Screen,
        approval: TerminalApproval,
        spending: Spending,
        view: TurnView | None,
        *,
        is_verbose: bool,
    ) -> None:
        self.session = session
        self._screen = screen
        self._approval = approval
        self._spending = spending
        self._view = view
        self._is_verbose = is_verbose
        self._ends = AnswerEnds(session)
        self._is_abandoned = False  # whether the turn before was cancelled, since its loop did not end it
        self._refused: list[Mapping[str, object]] = []  # denials that were shown and not asked about
        self._reported: dict[str, tuple[int, int]] = {}  # by module, how many ends and denials were shown
        for event in ("provider:response", "llm:response"):
            session.coordinator.hooks.register(event, self._on_spent, priority=_LAST, name=_NAME)

    def _on_spent(self, event: str, data: Any) -> None:
        if isinstance(data, dict):
            self._spending.take(event, data)

    # -- turns -----------------------------------------------------------------------------

    async def turn(self, prompt: str) -> TurnOutcome:
        """Run one turn, show it, and return its outcome.

        A first Ctrl-C waits for running tools; where none runs, it stops at once, as a second one does.
        """
        session = self.session
        session.coordinator.cancellation.reset()
        if self._is_abandoned:
            await session.close_open_calls()
        if self._view is not None:
            self._view.begin()
        answer: str | None = None
        failed: Exception | None = None
        with anyio.CancelScope() as scope:
            interruption = _Interruption(session, self._screen, self._approval, scope)
            activity = (lambda: "waiting for the answer") if self._view is None else self._view.activity
            with on_interrupt(interruption.request), ActivityLine(self._screen, activity):
                try:
                    answer = await session.execute(prompt)
                except Exception as error:  # modules raise any class; `of_turn` recognises Paddock's own
                    failed = error
                finally:
                    interruption.end()
        self._is_abandoned = scope.cancelled_caught
        self._approval.resume()
        if self._view is not None:
            self._view.end(answer if failed is None else None)
        self._ends.tell(self._screen)
        self.tell_news()
        if interruption.happened:
            self._screen.note("interrupted; the conversation continues")
            return TurnOutcome(answer, is_interrupted=True)
        if failed is None:
            return TurnOutcome(answer)
        cause = failure.of_turn(failed, session.plan.orchestrator.module, session.modules)
        self._screen.text(failure.text(cause) if self._is_verbose else failure.brief(cause, session.mask))
        return TurnOutcome(error=cause)

    # -- what happened ---------------------------------------------------------------------

    def tell_news(self) -> None:
        """Show the ends and denials of modules since this was called last."""
        for module in self.session.modules:
            ends, denials = self._reported.get(module.module, (0, 0))
            for report in module.exit_reports[ends:]:
                if report.detail != REVOKED:  # the person did that, and was told
                    self._screen.warning(f"module {report.describe()}")
            tell_denials(self._screen, module.denials[denials:], plan=self.session.plan)
            self._refused += module.denials[denials:]
            self._reported[module.module] = (len(module.exit_reports), len(module.denials))

    def take_refused(self) -> list[Mapping[str, object]]:
        """Return the denials that `tell_news` showed since this was called last."""
        refused, self._refused = self._refused, []
        return refused

    async def spent(self) -> list[str]:
        """Return the tokens and the cost of the chat, as lines of text."""
        try:
            contributed = await self.session.coordinator.collect_contributions("session.cost")
        except PaddockError:  # a module that contributes is gone
            contributed = []
        return list(self._spending.lines(contributed))


class Spending(Counted):
    """The requests, tokens and cost of a chat, summed from events."""

    def lines(self, contributed: Iterable[Any]) -> Iterator[str]:
        """Yield the sums as lines of text; `contributed` are the contributions of modules to `session.cost`."""
        spent = self.spent
        if not spent.requests:
            yield "no model has answered a request yet"
            return
        requests = "1 request" if spent.requests == 1 else f"{spent.requests} requests"
        counts = [f"{spent.tokens[name]:,} {word}" for name, word in _COUNTS.items() if spent.tokens[name]]
        yield f"{requests}; tokens: {', '.join(counts) or 'not reported'}"
        costs = [
            cost for one in contributed if isinstance(one, Mapping) and (cost := money(one.get("cost_usd"))) is not None
        ]
        by_events = next((one for one in (spent, self.by_providers) if one.has_cost), None)
        if costs:
            yield f"cost: {sum(costs, Decimal(0)):.4f} USD, as reported by the providers"
        elif by_events is not None:
            yield f"cost: {by_events.cost:.4f} USD, as reported by the providers"
        else:
            yield "cost: not reported by the providers"


class _Interruption:
    """What each Ctrl-C does to a turn: the first lets running tools end, the second does not, the third abandons it.

    Where no tool runs, the first is as the second.
    """

    def __init__(
        self,
        session: Session,
        screen: Screen,
        approval: TerminalApproval,
        scope: anyio.CancelScope,
    ) -> None:
        self.happened = False
        self._session = session
        self._screen = screen
        self._approval = approval
        self._scope = scope
        self._timer: asyncio.TimerHandle | None = None

    def request(self) -> None:
        is_first, self.happened = not self.happened, True
        if is_first:
            self._approval.withdraw()
        if is_first and self._session.coordinator.cancellation.running_tools:
            self._session.cancel()
            self._screen.note(_STOPPING)
        elif self._timer is None:
            self._session.cancel(immediate=True)
            self._screen.note("stopping at once")
            # A loop that ignores the cancellation token would otherwise block the chat forever.
            self._timer = asyncio.get_running_loop().call_later(_PATIENCE, self._scope.cancel)
        else:
            self._scope.cancel()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def read_text(folder: Path, path: str) -> str | None:
    """Return the text of a file in `folder`, None if it is elsewhere, no plain file, too large, or no text.

    A module chose the path. What lies outside the folder is not looked up: the host would do that with the user's
    rights, and wait for it.
    """
    descriptor = open_within(folder, path)
    if descriptor is None:
        return None
    try:
        with open(descriptor, "rb") as opened:
            if os.fstat(descriptor).st_size > _MAX_FILE:
                return None
            return opened.read(_MAX_FILE + 1).decode("utf-8")
    except (OSError, ValueError):
        return None
