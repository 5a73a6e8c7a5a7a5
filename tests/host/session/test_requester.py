"""Whose question it is that an emitter has the person asked, and what is kept until it does."""

from __future__ import annotations

import weakref

from paddock.session.requester import PendingPrompts, Requester, collecting_prompts, note_prompt

GUARD, OTHER = Requester("hook", "hooks-guard"), Requester("hook", "hooks-other")


class _Text(str):
    """A text that tells when it is gone."""


class _Emitter:
    """A life of a module that emits events."""


def answered(questions: PendingPrompts, emitter: object, *answers: tuple[Requester, str | None]) -> None:
    with collecting_prompts() as asked:
        for requester, prompt in answers:
            note_prompt(requester, prompt)
    questions.note(emitter, answers[0][1], asked)


def test_a_question_is_its_hooks_once_for_each_time_it_was_answered_with() -> None:
    questions, emitter = PendingPrompts(), _Emitter()
    answered(questions, emitter, (GUARD, "May it?"), (OTHER, "Really?"))
    answered(questions, emitter, (OTHER, None))
    with collecting_prompts() as asked:
        note_prompt(GUARD, ["no question"])
    assert asked == []
    assert questions.take(emitter, "Really?") is None, "the registry went by the first"
    assert questions.take(_Emitter(), "May it?") is None, "another emitter was not answered"
    assert [questions.take(emitter, "May it?") for _ in range(2)] == [GUARD, None]
    assert questions.take(emitter, None) == OTHER


def test_no_pending_question_keeps_memory_or_an_emitter() -> None:
    questions, emitter = PendingPrompts(), _Emitter()
    prompt = _Text("May it?")
    text, life = weakref.ref(prompt), weakref.ref(emitter)
    answered(questions, emitter, (GUARD, prompt))
    del prompt
    assert text() is None
    questions.forget(emitter)
    del emitter
    assert life() is None
