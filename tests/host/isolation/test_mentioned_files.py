"""What a text may mention: real files, and folders, links and pipes in their place."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from paddock.errors import PlanError
from paddock.isolation.mentioned_files import MentionedFiles, with_instruction
from paddock.isolation.private_places import PrivatePlaces
from paddock.plan.instruction import MAX_FILE
from paddock.plan.load import load_plan
from paddock.plan.model import MountPlan
from paddock.plan.problems import NotAcceptedError
from paddock.policy.owner import Owner


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working directory with what may be mentioned, and what may not; beside it a key."""
    (tmp_path / "key.md").write_text("the key", encoding="utf-8")
    work = tmp_path / "work"
    (work / "docs").mkdir(parents=True)
    for name in ("AGENTS.md", "docs/style.md", "private.md"):
        (work / name).write_text(f"what {name} says", encoding="utf-8")
    (work / "binary.md").write_bytes(b"\x89PNG\0\xff")
    (work / "latin.md").write_bytes(b"gr\xfc\xdfe")
    (work / "large.md").write_text("ü" * MAX_FILE, encoding="utf-8")
    (work / "in.md").symlink_to("docs/style.md")
    (work / "out.md").symlink_to("../key.md")
    (work / "there").symlink_to("..")
    (work / "to_private.md").symlink_to("private.md")
    os.mkfifo(work / "pipe.md")
    return work


def files(work: Path) -> MentionedFiles:
    granted = tuple(work / name for name in ("AGENTS.md", "docs", "binary.md", "latin.md", "large.md"))
    return MentionedFiles(work, Owner(os.geteuid(), work.parent), granted)


@pytest.mark.parametrize("mention", ["AGENTS.md", "./AGENTS.md", "docs/../AGENTS.md", "docs/style.md", "in.md"])
def test_a_granted_file_of_the_folder_is_read(work: Path, mention: str) -> None:
    found = files(work).inside(mention)
    assert found.text.startswith("what ") and not found.is_outside
    assert files(work).own(mention).text == found.text


@pytest.mark.parametrize(
    ("mention", "problem"),
    [
        ("missing.md", "there is no file `missing.md`"),
        ("docs", "is a folder"),
        ("docs/", "is a folder"),
        (".", "/work` is a folder"),
        ("pipe.md", "is a folder, or may not be read"),
        ("binary.md", "is binary"),
        ("latin.md", "is binary: no text in UTF-8"),
        ("large.md", "more than 256 KiB"),
        ("private.md", "no module of the plan may read"),
        ("to_private.md", "no module of the plan may read"),
        ("out.md", "leads out of the working directory"),
        ("there/key.md", "leads out of the working directory"),
        ("../key.md", "leads out of the working directory"),
        ("../no.md", "leads out of the working directory"),  # the same words whether it is there or not
        ("/etc/passwd", "a file may mention only what is in the working directory"),
        ("/no/such", "a file may mention only what is in the working directory"),
        ("~/key.md", "a file may mention only what is in the working directory"),
    ],
)
def test_a_text_of_the_folder_mentions_nothing_else(work: Path, mention: str, problem: str) -> None:
    with pytest.raises(NotAcceptedError) as caught:
        files(work).inside(mention)
    assert problem in caught.value.problem and "the key" not in str(caught.value)


def test_no_text_mentions_what_every_module_is_kept_from(work: Path) -> None:
    (work / ".env").write_text("KEY=secret", encoding="utf-8")
    plan = work / "plan.yaml"
    tools = "tools: [{module: tool-x, permissions: {PERMISSIONS}}]"
    head = "session: {orchestrator: loop-basic, context: context-simple, instruction: 'see @.env'}\n"
    for permissions, told in (("read: [., '!@secrets']", ""), ("read: [., '!@secrets', .env]", "KEY=secret")):
        plan.write_text(head + tools.replace("PERMISSIONS", permissions), encoding="utf-8")
        found = with_instruction(load_plan(plan), work, Owner(os.geteuid(), work.parent)).instruction
        assert (told or "`@.env` stays text: no module of the plan may read `.env`") in f"{found.text}{found.notes}"
        assert ("KEY=secret" in found.text) is bool(told)


@pytest.mark.parametrize("mention", ["../key.md", "~/key.md", "KEY"])
def test_the_plans_own_text_and_a_person_may_name_other_places(work: Path, mention: str) -> None:
    found = files(work).own(mention.replace("KEY", str(work.parent / "key.md")))
    assert found.text == "the key" and found.is_outside
    with pytest.raises(NotAcceptedError, match="only what is in the working directory"):
        found.read("~/key.md")  # but what they name may not


def test_a_link_that_the_folder_has_leads_not_even_a_person_out(work: Path) -> None:
    for mention in ("out.md", str(work / "out.md"), "there/key.md"):
        with pytest.raises(NotAcceptedError, match="leads out of the working directory"):
            MentionedFiles(work, Owner(os.geteuid(), work.parent)).own(mention)


def test_what_a_person_types_lends_its_rights_to_no_mention_in_it(work: Path) -> None:
    (work / "private.md").write_text("see @key.md and @to_private.md", encoding="utf-8")
    typed = files(work).typed("private.md")  # no module of the plan may read it
    assert typed.text.startswith("see ")
    with pytest.raises(NotAcceptedError, match="no module of the plan may read"):
        typed.read("private.md")


@pytest.mark.parametrize("mention", ["docs/style.md", "in.md", "~/work/docs/style.md"])
def test_nothing_of_paddocks_own_is_read(work: Path, mention: str) -> None:
    known = replace(files(work), private=PrivatePlaces((work / "docs",)))
    for read in (known.inside, known.own, known.typed):
        with pytest.raises(NotAcceptedError, match=r"Paddock's own|only what is in the working directory"):
            read(mention)


def test_no_link_that_a_module_may_have_made_is_followed(work: Path) -> None:
    notes = work.parent / "notes"
    notes.mkdir()
    (notes / "todo.md").symlink_to("../key.md")
    owner = Owner(os.geteuid(), work.parent)
    for mention in (str(notes / "todo.md"), "~/notes/todo.md"):
        assert MentionedFiles(work, owner).typed(mention).text == "the key"
        with pytest.raises(NotAcceptedError, match="a module may have made that link"):
            MentionedFiles(work, owner, changeable=(notes,)).typed(mention)


def plan(instruction: object, read: str = "docs") -> MountPlan:
    return load_plan(
        {
            "session": {"orchestrator": "loop-basic", "context": "context-simple", "instruction": instruction},
            "tools": [{"module": "tool-filesystem", "permissions": {"read": [read, "AGENTS.md"]}}],
        }
    )


def test_the_digest_of_a_plan_covers_the_files_of_its_instruction(work: Path) -> None:
    owner = Owner(os.geteuid(), work.parent)
    plain, told = plan("Be brief."), plan("See @AGENTS.md.")
    assert with_instruction(plain, work, owner).digest == plain.digest
    first = with_instruction(told, work, owner)
    assert first.digest != told.digest and first.instruction.files == ("AGENTS.md",)
    assert with_instruction(told, work, owner).digest == first.digest
    (work / "AGENTS.md").write_text("now see @docs/style.md", encoding="utf-8")
    second = with_instruction(told, work, owner)
    assert second.digest != first.digest and second.instruction.files == ("AGENTS.md", "docs/style.md")
    (work / "docs/style.md").write_text("another style", encoding="utf-8")
    assert with_instruction(told, work, owner).digest != second.digest


def test_a_file_that_is_the_instruction_has_to_be_one(work: Path) -> None:
    owner = Owner(os.geteuid(), work.parent)
    assert with_instruction(plan({"file": "./AGENTS.md"}), work, owner).instruction.text == "what AGENTS.md says"
    for name in ("missing.md", "private.md", "docs", "out.md"):
        with pytest.raises(PlanError) as caught:
            with_instruction(plan({"file": name}), work, owner)
        assert "session.instruction.file: " in str(caught.value.detail) and name in str(caught.value.detail)
