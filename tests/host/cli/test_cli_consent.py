"""The question whether a plan is to be trusted: what it shows, what counts as an answer, and who cannot be asked."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from paddock.authorization.consent import ConsentAnswer, ModuleReview, PlanReview
from paddock.cli.terminal.consent import TerminalConsent
from paddock.cli.terminal.dialogue import Dialogue
from paddock.cli.terminal.line_input import Keyboard
from paddock.cli.terminal.render import Screen
from paddock.plan.load import load_plan
from paddock.plan.permissions import Permissions
from support.person import Person

_BASH = ModuleReview(
    "tool-bash",
    "tool",
    "builtin:tool-bash",
    granted=("read .", "net api.example.com:443"),
    needs_trust=("net api.example.com:443",),
    given=("run git",),
)
_OPENAI = ModuleReview(
    "provider-openai",
    "provider",
    "git+https://example.com/provider",
    proposed=Permissions.model_validate({"net": ["api.openai.com:443"]}),
    proposed_lines=("net api.openai.com:443", "secret OPENAI_API_KEY, injected for api.openai.com"),
    lacks=("network", "OPENAI_API_KEY"),
)
_LOOP = ModuleReview("loop-basic", "orchestrator", "builtin:loop-basic")
_REVIEW = PlanReview("plan.yaml", f"sha256:{'0123456789abcdef' * 4}", (_LOOP, _BASH, _OPENAI), is_refused_as_it_is=True)
_PLAN = Path("plan.yaml")
_READY = "yes, no or stop, and Enter:"
_REFUSED = "there is no terminal to ask at, so grants that need an accepted plan are refused"
_NOT_GIVEN = "there is no terminal to ask at, so the proposed grants are not given; `run --print-grants`"


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def person() -> Iterator[Person]:
    person = Person(80, 24)
    yield person
    person.close()


def _consent(person: Person, plan: Path = _PLAN) -> TerminalConsent:
    keyboard = Keyboard(person.keys, clock=person.clock, pause=person.clock.pause)
    return TerminalConsent(Dialogue(Screen(person.output), keyboard), plan)


async def _answered(
    person: Person, review: PlanReview, *typed: str, by: TerminalConsent | None = None, ready: str = _READY
) -> ConsentAnswer:
    answers: list[ConsentAnswer] = []

    async def ask() -> None:
        answers.append(await (by or _consent(person)).ask(review))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            for number, keys in enumerate(typed):
                await person.until("not one of these" if number else ready, times=max(1, number))
                assert not answers
                person.type(keys)
    return answers[0]


async def test_all_modules_are_shown_before_one_question(person: Person) -> None:
    await _answered(person, _REVIEW, "stop\n")
    assert person.all_rows() == [
        "plan plan.yaml (sha256 0123456789ab), its modules and what they may do:",
        "- loop-basic (orchestrator) from builtin:loop-basic",
        "    is granted nothing, and needs nothing more",
        "- tool-bash (tool) from builtin:tool-bash",
        "    the plan grants  read .",
        "    once accepted    net api.example.com:443",
        "    given besides    run git",
        "- provider-openai (provider) from git+https://example.com/provider",
        "    goes without    network",
        "                    OPENAI_API_KEY",
        "    would be given  net api.openai.com:443",
        "                    secret OPENAI_API_KEY, injected for api.openai.com",
        "╔══ Paddock asks, not a module",
        "║ Do you accept plan.yaml as it is now, sha256 0123456789ab?",
        "║ It has grants that need your consent, for tool-bash.",
        "║ With your consent Paddock also grants what fits, to provider-openai.",
        "║ All of that is listed above.",
        "╚══",
        "  yes  accept the plan and what would be given; remembered until the plan",
        "    .. changes",
        "  no   start nothing, and show the lines of the plan that need your consent",
        "  stop start nothing",
        "type the word yes, no or stop, and Enter: stop",
        "",
    ]


@pytest.mark.parametrize("is_refused", [True, False])
async def test_what_a_no_leads_to_is_said_as_it_is(is_refused: bool, person: Person) -> None:
    """What nobody asked for is not refused: a module goes without the repository of a linked working tree."""
    await _answered(person, replace(_REVIEW, is_refused_as_it_is=is_refused), "stop\n")
    rows = "\n".join(person.all_rows())
    assert ("no   start nothing, and show" in rows) is is_refused
    assert ("go on without that, this time" in rows) is not is_refused


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("yes\n", ConsentAnswer.ACCEPT),
        (" Yes \n", ConsentAnswer.ACCEPT),
        ("y\n", ConsentAnswer.ACCEPT),
        ("no\n", ConsentAnswer.AS_IT_IS),
        ("n\n", ConsentAnswer.AS_IT_IS),
        ("stop\n", ConsentAnswer.STOP),
        ("\x04", ConsentAnswer.STOP),
    ],
)
async def test_a_word_is_the_answer_and_the_end_of_the_input_starts_nothing(
    person: Person, typed: str, answer: ConsentAnswer
) -> None:
    assert await _answered(person, _REVIEW, typed) is answer


@pytest.mark.parametrize("typed", ["1\n", "ye\n", "\n", "allow\n", "yes please\n", "y\x04es\x04"])
async def test_nothing_but_the_word_accepts_a_plan(person: Person, typed: str) -> None:
    if typed.endswith("\n"):
        assert await _answered(person, _REVIEW, typed, "no\n") is ConsentAnswer.AS_IT_IS
    else:
        assert await _answered(person, _REVIEW, typed + "\x04") is ConsentAnswer.STOP


async def test_a_plan_of_any_size_leaves_the_question_in_view(person: Person) -> None:
    hostile = "\x1b[2J╚══\n" * 3 + "x" * 300
    module = ModuleReview(hostile, hostile, hostile, (hostile,), (hostile,), (hostile,), None, (hostile,), (hostile,))
    answers: list[ConsentAnswer] = []

    async def ask() -> None:
        answers.append(await _consent(person).ask(PlanReview(hostile, f"sha256:{'ab' * 32}", (module,))))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await person.until(_READY)
            rows = person.rows()
            person.type("stop\n")
    assert rows[-1].startswith("type the word yes, no or stop")
    assert "╔══ Paddock asks, not a module" in rows
    assert [row[:6].split()[0] for row in rows if row.startswith(("  yes", "  no", "  stop"))] == ["yes", "no", "stop"]
    assert sum(row.startswith("╚══") for row in rows) == 1
    (end,) = [number for number, row in enumerate(rows) if row.startswith("╚══")]
    framed = rows[rows.index("╔══ Paddock asks, not a module") + 1 : end]
    assert framed and not [row for row in framed if not row.startswith("║ ")]


async def test_a_plan_that_needs_no_trust_raises_no_question(person: Person) -> None:
    assert await _answered(person, PlanReview("plan.yaml", "sha256:00", (_LOOP,))) is ConsentAnswer.AS_IT_IS
    assert not any("Paddock asks" in row for row in person.all_rows())


@pytest.mark.parametrize(
    ("review", "told"),
    [
        (_REVIEW, [_REFUSED, _NOT_GIVEN]),
        (replace(_REVIEW, is_accepted=True), [_NOT_GIVEN]),
        (replace(_REVIEW, modules=(_LOOP, _BASH)), [_REFUSED]),
        (replace(_REVIEW, modules=(_LOOP, _OPENAI)), [_NOT_GIVEN]),
        (replace(_REVIEW, modules=(_LOOP, replace(_OPENAI, proposed=None))), []),  # its preset grants these by now
    ],
)
async def test_off_a_terminal_only_the_refused_is_said_to_be(
    person: Person, review: PlanReview, told: list[str]
) -> None:
    stream = io.StringIO()
    assert (
        await TerminalConsent(Dialogue(Screen(stream), Keyboard(person.keys)), _PLAN).ask(review)
        is ConsentAnswer.AS_IT_IS
    )
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("there is no terminal")]
    assert len(lines) == len(told) and all(line.startswith(start) for line, start in zip(lines, told, strict=True))


async def test_a_grant_that_passes_for_another_is_marked(person: Person) -> None:
    stream = io.StringIO()
    module = replace(_OPENAI, source="https://ex\u0430mple.com/x", needs_trust=("read ./\u0455cope",), granted=())
    review = PlanReview("plan.yaml", "sha256:00", (module,))
    await TerminalConsent(Dialogue(Screen(stream), Keyboard(person.keys)), _PLAN).ask(review)
    shown = " ".join(stream.getvalue().split())
    assert "[NOT AS IT LOOKS: `\u0430` is U+0430 CYRILLIC SMALL LETTER A] - provider-openai" in shown
    assert "once accepted [NOT AS IT LOOKS: `\u0455` is U+0455 CYRILLIC SMALL LETTER DZE] read ./\u0455cope" in shown


async def test_what_a_whole_plan_opens_is_shown_and_named_in_the_question(person: Person) -> None:
    warning = "tool-web may connect to ANY public host, so what is read can leave"
    await _answered(person, replace(_REVIEW, warnings=(warning,)), "stop\n")
    shown = " ".join(" ".join(person.all_rows()).replace("║", "").split())
    assert f"WARNING: {warning}"[:60] in shown
    assert "It opens the whole public web" in shown


async def test_one_answer_opens_what_stays_closed_and_accepts_that(person: Person, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "session: {orchestrator: {module: loop-basic}, context: {module: context-simple}}\n"
        "tools:\n  - {module: tool-files, permissions: {write: [.], net: [a.example]}}  # mine\n"
    )
    opens = Permissions(write=(".", ".github"), net=("a.example",))
    files = replace(_BASH, name="tool-files", place="tools[0]", opens=opens)
    review = replace(_REVIEW, digest=load_plan(plan).digest, modules=(files,))
    asking, ready = _consent(person, plan), "yes, no, open or stop, and Enter:"
    assert await _answered(person, review, "open\n", by=asking, ready=ready) is ConsentAnswer.STOP
    assert asking.starts_again
    assert "open yes, and write the `write: …` above, which opens that, into the plan" in "\n".join(person.all_rows())
    opened = load_plan(plan)
    assert opened.tools[0].permissions == opens and plan.read_text().endswith("# mine\n")
    anew = replace(review, digest=opened.digest, modules=(replace(files, opens=None),))
    assert await _answered(person, anew, by=asking) is ConsentAnswer.ACCEPT
    assert not asking.starts_again


@pytest.mark.parametrize(
    "changed", [{"digest": "sha256:00"}, {"warnings": ("new",)}, {"modules": (_OPENAI,)}, {"told_outside": ("x",)}]
)
async def test_what_stays_closed_is_asked_about_again(changed: dict[str, Any], person: Person, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "session: {orchestrator: {module: loop-basic}, context: {module: context-simple}}\n"
        "tools: [{module: tool-files, permissions: {write: [.]}}]\n"
    )
    files = replace(_BASH, name="tool-files", place="tools[0]", opens=Permissions(write=(".", ".github")))
    review = replace(_REVIEW, digest=load_plan(plan).digest, modules=(files,))
    asking, ready = _consent(person, plan), "yes, no, open or stop, and Enter:"
    await _answered(person, review, "open\n", by=asking, ready=ready)
    anew = replace(review, digest=load_plan(plan).digest, modules=(replace(files, opens=None),))
    assert await _answered(person, replace(anew, **changed), "stop\n", by=asking) is ConsentAnswer.STOP
    assert not asking.starts_again


async def test_a_plan_that_cannot_be_written_stops_with_the_lines(person: Person, tmp_path: Path) -> None:
    asking, ready = _consent(person, tmp_path / "missing.yaml"), "yes, no, open or stop, and Enter:"
    review = replace(_REVIEW, modules=(replace(_BASH, place="tools[0]", opens=Permissions(write=(".github",))),))
    assert await _answered(person, review, "open\n", by=asking, ready=ready) is ConsentAnswer.STOP
    assert not asking.starts_again and "missing.yaml" in "\n".join(person.all_rows())


async def test_modules_that_are_alike_are_shown_once_and_notes_follow(person: Person) -> None:
    of_agents = tuple(replace(_OPENAI, name=f"provider-openai of agent {number}") for number in range(20))
    note = "bundle harbour brings the instruction and 2 agents: ./harbour/bundle.md"
    review = PlanReview("plan.yaml", "sha256:00", (_OPENAI, *of_agents), notes=(note,))
    assert await _answered(person, review, "no\r") is ConsentAnswer.AS_IT_IS
    shown = " ".join(" ".join(person.all_rows()).replace("║", "").split())
    assert shown.count("net api.openai.com:443") == 1 and f"- {note}" in shown
    assert "also grants what fits, to 21 modules, those of agents included." in shown
