"""Ask the person at the terminal whether a plan is to be trusted, before any of its modules is started.

Each module is shown with its grants in the plan and the proposed ones; then there is one question. It is Paddock's own,
and looks like none that a module can ask. It names the digest of the plan that the answer is for. Off a terminal the
same is shown, and no question is asked. One answer accepts the plan and writes into it what opens the places that are
named as closed; the command then starts its session again, with the plan as it is by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio.to_thread

from paddock.authorization.consent import ConsentAnswer, ModuleReview, PlanReview
from paddock.cli.bundle_plan import as_named
from paddock.cli.terminal.dialogue import Dialogue
from paddock.cli.terminal.question import Option, Question
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError, PlanError, render
from paddock.lookalikes import marked
from paddock.plan.edit import PlanEdit, PlanNotEditedError, with_permissions
from paddock.plan.load import load_plan
from paddock.plan.permissions import Permissions

_NAMED: Final = 12  # modules; of more only the number
_DIGITS: Final = 12  # of a digest; enough to distinguish two plans by eye
_WORDS: Final[Mapping[str, ConsentAnswer]] = {
    "yes": ConsentAnswer.ACCEPT,
    "y": ConsentAnswer.ACCEPT,
    "no": ConsentAnswer.AS_IT_IS,
    "n": ConsentAnswer.AS_IT_IS,
    "stop": ConsentAnswer.STOP,
    "open": ConsentAnswer.STOP,
}
_OPEN: Final = "open"


class TerminalConsent:
    """Asks through `dialogue` about the plan at `plan`.

    `reviews` says that a review is wanted also where no person can be asked.
    """

    def __init__(self, dialogue: Dialogue, plan: Path, *, reviews: bool = False) -> None:
        # Proposed to modules at the last question, and not accepted: grants, and a home that stays.
        self.not_given: dict[str, Permissions] = {}
        self.not_kept: tuple[str, ...] = ()
        self._dialogue = dialogue
        self._plan = plan
        self._opened: PlanReview | None = None  # as it was asked about, with the digest of the plan that it opened
        self._reviews = reviews

    @property
    def starts_again(self) -> bool:
        """Whether the answer that stopped the session changed the plan, so that another one starts with it."""
        return self._opened is not None

    @property
    def is_attended(self) -> bool:
        """Whether there is anything to gain by a review: a person who answers, or reads what is proposed."""
        return self._reviews or self._dialogue.has_person

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        """Show the review and return the answer; without a person to ask, `AS_IT_IS`."""
        review = replace(review, plan=as_named(review.plan))
        answer = await self._asked(review)
        is_given = answer is ConsentAnswer.ACCEPT
        proposed = {module.name: module.proposed or Permissions() for module in review.modules}
        self.not_given = {} if is_given else {name: one for name, one in proposed.items() if one != Permissions()}
        self.not_kept = () if is_given else tuple(module.name for module in review.modules if module.keeps)
        return answer

    async def _asked(self, review: PlanReview) -> ConsentAnswer:
        screen, (opened, self._opened) = self._dialogue.screen, (self._opened, None)
        if opened is not None and _is_like(review, opened):
            return ConsentAnswer.ACCEPT
        _show(screen, review)
        if review.fetches:
            return _WORDS[await self._word(_fetch_question(review), "yes", "y", "stop")]
        if review.is_of_the_lock:
            return _WORDS[await self._word(_lock_question(review), "yes", "y", "stop")]
        if not (review.needs_trust or review.has_proposals):
            return ConsentAnswer.AS_IT_IS
        if not self._dialogue.has_person:
            nobody = "there is no terminal to ask at, so"
            if review.needs_trust and not review.is_accepted:
                screen.note(f"{nobody} grants that need an accepted plan are refused")
            if any(module.proposed is not None for module in review.modules):
                screen.note(
                    f"{nobody} the proposed grants are not given; `run --print-grants` prints them as lines for the "
                    "plan, and `--grant MODULE=PRESET` gives a module a preset"
                )
        word = await self._word(_question(review), *(word for word in _WORDS if word != _OPEN or _opening(review)))
        if word == _OPEN:
            try:
                self._opened = await anyio.to_thread.run_sync(self._open, review)
                screen.note(f"the plan {self._plan} is written; the session starts with it")
            except (PlanError, PlanNotEditedError) as error:
                screen.text(render(error))
        return _WORDS[word]

    async def ask_changes(self, changes: Sequence[str]) -> bool:
        """Whether the person goes on with a session in spite of what has changed since; without a person, no."""
        lines = ["Since this session last ran:", *(f"- {marked(change)}" for change in changes)]
        options = (Option("yes ", "go on with it"), Option("stop", "start nothing"))
        question = Question.of_ours(lines, options, "go on? yes or stop:", "yes/stop:")
        return await self._word(question, "yes", "y", "stop") in ("yes", "y")

    def _open(self, review: PlanReview) -> PlanReview:
        """Write into the plan what opens the places that the question named; return the review with its new digest.

        Raises:
            PlanError, PlanNotEditedError: it cannot be written, and the plan is as it was.
        """
        digest, before, written = "", load_plan(self._plan).digest, list[PlanEdit]()
        try:
            for module, permissions in _opening(review):
                edit = with_permissions(self._plan, module.place, permissions, keeps_home=module.keeps)
                digest = edit.write().digest
                written.append(edit)
        except PlanNotEditedError:
            for edit in reversed(written):
                edit.undo()
            raise
        return replace(review, digest=digest if before == review.digest else "")  # else the new plan is asked about

    async def _word(self, question: Question, *words: str) -> str:
        """Return the answer to a question, one of these words; `no` where there is no person."""
        if not self._dialogue.has_person:
            return "no"
        answer = await self._dialogue.ask(
            question, lambda line, _: line.casefold() if line.casefold() in words else None
        )
        return answer or "stop"  # the end of the input is no consent to anything


class ServerConsent(TerminalConsent):
    """Asks whether a client may start one server, `title`, with its flags, of which `notes` say more.

    `says_yes`: an option has given the answer, and the review is only shown.
    """

    def __init__(self, dialogue: Dialogue, title: str, notes: Sequence[str], *, says_yes: bool) -> None:
        super().__init__(dialogue, Path(), reviews=True)
        self._title = title
        self._notes = notes
        self._says_yes = says_yes

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        """Show the review and return the answer.

        Raises:
            KindError: no person is there to ask.
        """
        _show(self._dialogue.screen, replace(review, plan=self._title, notes=(*self._notes, *review.notes)))
        if self._says_yes:
            return ConsentAnswer.ACCEPT
        if not self._dialogue.has_person:
            hints = ["read what is shown above, and add `--yes` to accept it"]
            raise KindError("NobodyToAskError", "there is no terminal to ask at", hints=hints)
        text = [f"May a client start {self._title}, with what is listed above?"]
        if review.weaker_level is not None:
            text.append(f"On this machine it runs at isolation level {review.weaker_level}, weaker than usual.")
        question = _yes_or_stop(text, "accept it; remembered until its source, arguments or flags change")
        return _WORDS[await self._word(question, "yes", "y", "stop")]


def _show(screen: Screen, review: PlanReview) -> None:
    if review.moved:
        screen.title(f"pinned otherwise than you accepted, in the lock file of plan {review.plan}:")
        screen.labelled([("    ", one.describe()) for one in review.moved])
    if review.fetches:
        screen.title(f"not accepted yet, and code of plan {review.plan} takes your own rights to fetch:")
        screen.labelled([("    ", marked(one)) for one in review.fetches])
    if not review.modules:
        return
    screen.title(f"plan {review.plan} (sha256 {_digits(review.digest)}), its modules and what they may do:")
    alike: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[str]] = {}
    for module in review.modules:
        alike.setdefault((module.kind, module.source, tuple(_lines(module))), []).append(module.name)
    for (kind, source, lines), names in alike.items():
        screen.title(marked(f"- {', '.join(names)} ({kind}) from {source}"))
        screen.labelled(lines or [("    ", "is granted nothing, and needs nothing more")])
    if review.told:
        screen.title(marked(f"- the model is told what is in {', '.join(review.told)}"))
    for note in review.notes:
        screen.title(marked(f"- {note}"))
    for warning in review.warnings:
        screen.alarm(marked(warning))


def _lines(module: ModuleReview) -> Iterator[tuple[str, str]]:
    needs_trust = set(module.needs_trust)
    yield from _labelled("the plan grants", [line for line in module.granted if line not in needs_trust])
    yield from _labelled("once accepted", module.needs_trust)
    yield from _labelled("given besides", module.given)
    yield from _labelled("goes without", module.lacks)
    yield from _labelled("would be given", module.proposed_lines)


def _labelled(label: str, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for index, line in enumerate(lines):
        yield f"    {label if index == 0 else ''}  ", line


def _question(review: PlanReview) -> Question:
    names = ", ".join(module.name for module, _ in _opening(review))
    text = f"yes, and write the `write: …` above, which opens that, into the plan, for {names}"
    opening = [Option(_OPEN, text)] if names else []
    given = " and what would be given" if review.has_proposals else ""
    needs_consent = "start nothing, and show the lines of the plan that need your consent"
    options = (
        Option("yes ", f"accept the plan{given}; remembered until the plan changes"),
        Option("no  ", "go on without that, this time" if review.starts_as_it_is else needs_consent),
        *opening,
        Option("stop", "start nothing"),
    )
    words = "yes, no, open or stop" if opening else "yes, no or stop"
    return Question.of_ours(_text(review), options, f"type the word {words}, and Enter:", f"{words}:")


def _opening(review: PlanReview) -> list[tuple[ModuleReview, Permissions]]:
    """Return the modules whose entries can be changed so that nothing stays closed to them, with what these state."""
    return [(module, module.opens) for module in review.modules if module.opens is not None]


def _is_like(review: PlanReview, before: PlanReview) -> bool:
    """Whether a review asks for no more than one that was answered, but for what the answer wrote into the plan."""
    asked = {line for module in before.modules for line in module.proposed_lines}
    new = {line for module in review.modules for line in module.proposed_lines}
    return replace(review, modules=()) == replace(before, modules=()) and new <= asked


def _fetch_question(review: PlanReview) -> Question:
    text = [
        f"Plan {review.plan} (sha256 {_digits(review.digest)}) names the code listed above.",
        "It can only be fetched with your own rights, as `paddock lock` does. No module runs before the next question.",
    ]
    return _yes_or_stop(text, "fetch it with your own rights, this time")


def _lock_question(review: PlanReview) -> Question:
    count = len(review.moved)
    moved = "1 of its sources is" if count == 1 else f"{count} of its sources are"
    text = [
        f"You accepted {review.plan} (sha256 {_digits(review.digest)}), but not what {moved} pinned to now.",
        "A pin chooses the code that runs. Those listed above moved by other means than Paddock's commands.",
        "Is that code to be run with what you granted?",
    ]
    return _yes_or_stop(text, "accept these pins too; remembered until the plan or one of them changes")


def _yes_or_stop(text: Sequence[str], accepting: str) -> Question:
    options = (Option("yes ", accepting), Option("stop", "start nothing"))
    return Question.of_ours(text, options, "type the word yes or stop, and Enter:", "yes or stop:")


def _text(review: PlanReview) -> Iterator[str]:
    asking = [module.name for module in review.modules if module.needs_trust]
    given = [module.name for module in review.modules if module.proposed_lines]
    yield f"Do you accept {review.plan} as it is now, sha256 {_digits(review.digest)}?"
    if review.is_again:
        yield "You accepted it before, but not what its modules could be given now."
    if asking:
        yield f"It has grants that need your consent, for {_few(asking)}."
    if review.told_outside:
        yield f"Its instruction has what is in {', '.join(review.told_outside)}, outside the working directory."
    if given:
        yield f"With your consent Paddock also grants what fits, to {_few(given)}."
    if review.warnings:
        yield "It opens the whole public web to what its modules read; the warning above says how."
    if review.moved:
        yield "Its lock file pins sources otherwise than you accepted before."
    yield "All of that is listed above."
    if review.weaker_level is not None:
        yield f"On this machine its modules run at isolation level {review.weaker_level}, weaker than usual."


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _NAMED else f"{len(names)} modules, those of agents included"


def _digits(digest: str) -> str:
    return digest.partition(":")[2][:_DIGITS] or digest[:_DIGITS]
