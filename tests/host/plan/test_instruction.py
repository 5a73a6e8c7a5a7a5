"""The instruction of a plan, and what becomes of the mentions in a text; no file is read here."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import PlanError
from paddock.plan.instruction import Instruction, MentioningText, NoSuchFileError, compose, mentions_in
from paddock.plan.load import load_plan
from paddock.plan.problems import NotAcceptedError
from support.rows import each_row

_SESSION = {"orchestrator": "loop-basic", "context": "context-simple"}


def composed(text: str, files: Mapping[str, str]) -> Instruction:
    """Compose a text over files that are a table; those whose name begins with `secret` are refused."""

    def read(mention: str) -> MentioningText:
        if mention.startswith("secret"):
            raise NotAcceptedError("it is not yours")
        if mention not in files:
            raise NoSuchFileError("it is not there")
        return MentioningText(files[mention], read, mention)

    return compose(MentioningText(text, read))


@each_row(
    ("text", "found"),
    [
        ("Read @AGENTS.md.", ["AGENTS.md"]),
        ("(@a.md), '@./b/c.md': @~/d.md and @/e/f", ["a.md", "./b/c.md", "~/d.md", "/e/f"]),
        ("@one:two/three.md first", ["one:two/three.md"]),
        ("@größe.md\n@b.md", ["größe.md", "b.md"]),
        ("me@example.org, a.b@c.d, x/@y, @@z, @ w, @", []),
        ("`@a.md` and ``@b.md`` @c.md", ["c.md"]),
        ("```\n@a.md\n```\n@b.md\n```py\n@c.md\n```\n", ["b.md"]),
        ("```\n@a.md is in code that does not end", ["a.md"]),
    ],
)
def test_what_is_a_mention(text: str, found: list[str]) -> None:
    assert [*mentions_in(text)] == found


def test_each_file_is_in_once_after_the_text_that_keeps_its_mentions() -> None:
    files = {"a": "A, see @b and @c\n", "b": "B", "c": "B", "d": "D"}
    told = composed("Read @a, @b, then @d and @a.\n", files)
    assert told.files == ("a", "b", "d") and not told.notes
    assert told.text == (
        "Read @a, @b, then @d and @a.\n\n"
        '<file path="a">\nA, see @b and @c\n</file>\n\n<file path="b">\nB\n</file>\n\n<file path="d">\nD\n</file>'
    )


@each_row(
    ("text", "notes"),
    [
        ("@a.md", ("`@a.md` stays text: it is not there",)),
        ("@secret", ("`@secret` stays text: it is not yours",)),
        ("@dataclass", ()),  # which is no path, and no file either
        ("@loop", ("`@loop` in loop stays text: the mentions go in a circle, and each file is in once",)),
        ("@one", ("`@one` in two stays text: the mentions go in a circle, and each file is in once",)),
    ],
)
def test_a_mention_that_is_not_followed_is_noted(text: str, notes: tuple[str, ...]) -> None:
    told = composed(text, {"loop": "again @loop", "one": "1 @two", "two": "2 @one"})
    assert told.notes == notes


def test_only_so_many_mentions_are_followed() -> None:
    told = composed("@a", {"a": " ".join(f"@{n}" for n in range(1000)), **{str(n): f"{n}" for n in range(1000)}})
    assert len(told.files) == 100 and told.notes == ("no more than 100 mentions are followed",)


@given(st.dictionaries(st.sampled_from("abcdef"), st.text("abcdef@ \n`", max_size=30)), st.text("abcdef@ \n`"))
def test_any_mentions_end_with_each_content_once(files: dict[str, str], text: str) -> None:
    told = composed(text, files)
    contents = [files[name] for name in told.files]
    assert len(set(contents)) == len(contents) and text not in contents
    reached, waiting = set(), [text]
    while waiting:  # by another way: what can be reached at all
        for name in mentions_in(waiting.pop()):
            if name in files and files[name] not in reached:
                reached.add(files[name])
                waiting.append(files[name])
    assert set(contents) == reached - {text}


@each_row(
    ("written", "instruction"),
    [("Be brief.", Instruction("Be brief.")), ({"file": "a.md"}, Instruction(file="a.md"))],
)
def test_a_plan_has_an_instruction(written: object, instruction: Instruction) -> None:
    assert load_plan({"session": {**_SESSION, "instruction": written}}).instruction == instruction


@each_row("written", [None, "", " \n", 3, ["a"], {}, {"file": ""}, {"file": 3}, {"file": "a", "b": "c"}])
def test_an_instruction_is_text_or_names_a_file(written: object) -> None:
    with pytest.raises(PlanError, match="a problem") as caught:
        load_plan({"session": {**_SESSION, "instruction": written}})
    assert "session.instruction: must be text, or a table with the name of a `file`" in str(caught.value.detail)


def test_an_agent_has_its_instruction_elsewhere() -> None:
    agents = {"helper": {"instruction": "Help.", "session": {"instruction": "no"}}}
    with pytest.raises(PlanError) as caught:
        load_plan({"session": _SESSION, "agents": agents})
    assert "unknown key `instruction`" in str(caught.value.detail)
