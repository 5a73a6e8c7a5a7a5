"""Bundles in folders, put under a plan: what it becomes, and each way in which one can be wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from paddock.authorization.preflight import checked_resolutions
from paddock.errors import ModuleMissingError, PlanError, render
from paddock.isolation.mentioned_files import MentionedFiles, MentionResolver, with_instruction
from paddock.plan.bundles.bundle_file import Named
from paddock.plan.bundles.composition import Composition
from paddock.plan.edit import PlanNotEditedError, with_bundle, with_permissions, without_bundle, without_entry
from paddock.plan.load import load_plan
from paddock.plan.model import MountPlan
from paddock.plan.permissions import Permissions
from paddock.plan.source_map import SourceNode
from paddock.policy.owner import Owner
from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.describing import describe
from paddock_sdk.protocol.description import decode_description, encode_description
from paddock_sources import Resolution
from support.rows import each_row

HARBOUR = Path(__file__).parents[2] / "fixtures/bundles/harbour"
LIGHTHOUSE = HARBOUR.parent / "lighthouse"
ADDED = "git+https://example.org/bundle@main#subdirectory=b.md"
BUOY = HARBOUR.parent / "buoy"
HEAD = "bundle: {name: mine}\nsession: {orchestrator: loop-basic, context: context-simple}\n"


def extending(folder: Path, written: str) -> MountPlan:
    (folder / "plan.yaml").write_text(written)
    return load_plan(folder / "plan.yaml")


@pytest.fixture
def harbour(tmp_path: Path) -> MountPlan:
    return extending(tmp_path, f"extends: {HARBOUR}/bundle.md\n")


# -- what a plan has from bundles


def test_modules_of_bundles_are_merged_by_their_names_later_ones_win(harbour: MountPlan) -> None:
    assert harbour.orchestrator.config == {"max_iterations": 5, "show_messages": True}
    assert [(one.module, one.instance_id, one.config) for one in harbour.tools] == [
        ("tool-tide", None, {"bay": {"name": "north", "depth": 3, "tides": ["ebb", "flood"]}}),
        ("tool-tide", "tide-south", {"bay": {"name": "south"}}),
    ]
    assert [one.config for one in harbour.hooks] == [{"path": "harbour.jsonl", "max_files": 2}]
    assert harbour.raw["spawn"] == {"most": 2} and "extends" not in harbour.raw


def test_a_relative_source_starts_at_the_file_that_has_it(harbour: MountPlan) -> None:
    assert {one.source for one in harbour.tools} == {str(HARBOUR / "modules/tool-tide")}


def test_a_bundle_grants_nothing_and_a_note_says_what_it_names(harbour: MountPlan) -> None:
    assert all(one.permissions == Permissions() for one in harbour.entries())
    assert all(one.limits.memory_max is None for one in harbour.entries())
    assert "a bundle names `permissions` for tool-tide, and only a plan gives that" in harbour.notes


def test_agents_are_those_of_files_and_of_tables(harbour: MountPlan) -> None:
    assert list(harbour.agents) == ["watch", "pilot", "harbour:keeper"]
    pilot = harbour.agents["pilot"]
    assert pilot.raw["description"] == "Brings boats in." and pilot.raw["model_role"] == "quick"
    assert [(one.module, one.permissions) for one in pilot.tools] == [("tool-filesystem", Permissions())]
    assert pilot.instruction.startswith("Bring boats in") and "Wind is told at noon" in pilot.instruction
    assert harbour.agents["harbour:keeper"].instruction == "Keep the light."


def test_contexts_and_mentions_follow_the_instruction_once(harbour: MountPlan) -> None:
    assert harbour.bundles is not None
    told = harbour.bundles.told.text
    assert told.startswith("You watch the harbour.") and "@context/code.md`" in told
    for text in ("Slow boats first.", "The Marie, the Petra.", "Wind is told at noon"):
        assert told.count(text) == 1
    assert set(harbour.bundles.context) == {"tides:rules", "harbour:context/rules.md", "harbour:context/boats.md"}


def test_keys_that_may_be_misspelt_are_noted_with_their_lines(tmp_path: Path) -> None:
    wrong = "tolls: []\nagents: [x]\ntools:\n- {module: tool-bash, sorce: ./x, permissions: shell, purpose: mine}\n"
    (tmp_path / "bundle.md").write_text(f"---\n{HEAD}{wrong}---\n")
    plan = extending(tmp_path, "extends: ./bundle.md\n")
    said = [note.removeprefix(f"{tmp_path}/") for note in plan.notes]
    assert said == [
        "a bundle names `permissions` for tool-bash, and only a plan gives that",
        "bundle.md:4: `tolls` is ignored; did you mean `tools`?",
        "bundle.md:7: `sorce` is ignored; did you mean `source`?",
        "bundle.md:5: `agents` is ignored: it is a table, as in `agents: {include: [name]}`",
    ]


def test_a_bundle_without_a_name_and_a_session_is_one_as_well(tmp_path: Path) -> None:
    plan = extending(tmp_path, f"extends: {BUOY}\n")
    assert [one.config for one in plan.hooks] == [{"path": "buoy.jsonl"}]
    assert plan.bundles is not None and set(plan.bundles.context) == {"buoy:context/bells.md", "tone"}
    assert (plan.orchestrator.module, plan.context.module) == ("loop-streaming", "context-simple")
    assert plan.agents["ringer"].raw["description"] == "Rings\ntwice."  # the line before the fence ends the table
    assert "no bundle names a `session.context`: `context-simple` is in its place" in plan.notes
    assert f"{BUOY}/bundle.md:5 includes behavior, which is no `bundle`" in plan.notes


def test_lines_of_other_systems_end_alike(tmp_path: Path) -> None:
    (tmp_path / "bundle.md").write_bytes(f"---\n{HEAD}---\nOne.\nTwo.\n".replace("\n", "\r\n").encode())
    plan = extending(tmp_path, "extends: ./bundle.md\n")
    assert plan.bundles is not None and plan.bundles.instruction == "One.\nTwo."


def test_a_mention_that_several_agents_share_is_noted_once(tmp_path: Path) -> None:
    (tmp_path / "shared.md").write_text("See @absent.md")
    (tmp_path / "bundle.yaml").write_text(
        f"{HEAD}agents: {{a: {{instruction: One. @shared.md}}, b: {{instruction: Two. @shared.md}}}}\n"
    )
    plan = extending(tmp_path, "extends: ./bundle.yaml\n")
    assert sum("@absent.md" in note for note in plan.notes) == 1


def test_a_bundle_that_includes_itself_is_left_out_there_with_a_note(harbour: MountPlan) -> None:
    (note,) = [one for one in harbour.notes if "itself" in one]
    assert note.startswith("`harbour:bundle.md` at ") and "logging.yaml:2 " in note


def test_every_value_knows_its_bundle_and_line(harbour: MountPlan) -> None:
    assert harbour.place_of("tools[0].config.bay.depth").text == f"{HARBOUR}/bundle.md:17"
    assert harbour.place_of("hooks[0].config.max_files").text == f"{HARBOUR}/behaviors/logging.yaml:4"


def test_a_plan_is_over_its_bundles_and_the_later_of_two_over_the_earlier(tmp_path: Path) -> None:
    plan = extending(
        tmp_path,
        f"extends: [{HARBOUR}, {LIGHTHOUSE}]\n"
        "session: {orchestrator: {module: loop-basic, config: {max_iterations: 9}}}\n"
        "tools: [{module: tool-tide, permissions: isolated}, {module: tool-bash}]\n",
    )
    assert plan.orchestrator.config["max_iterations"] == 9
    assert [(one.module, one.permissions.preset) for one in plan.tools] == [
        ("tool-tide", "isolated"),
        ("tool-tide", None),
        ("tool-bash", None),
    ]
    assert plan.place_of("tools[0].permissions").text == f"{tmp_path}/plan.yaml:3"
    assert plan.bundles is not None and plan.bundles.instruction.startswith("You keep the light.")


def test_the_own_instruction_of_a_plan_replaces_that_of_bundles(tmp_path: Path) -> None:
    plan = extending(tmp_path, f"extends: {HARBOUR}\nsession: {{instruction: Be brief.}}\n")
    told = with_instruction(plan, tmp_path, Owner.current(os.environ)).instruction.text
    assert told.startswith("Be brief.\n") and "Slow boats first." in told and "You watch" not in told


def test_what_a_plan_tells_and_accepts_covers_every_file(tmp_path: Path) -> None:
    for name in ("a.md", "agents/b.md", "context/c.md", "d.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one")
    head = f"---\n{HEAD}agents: {{include: [b]}}\ncontext: {{include: [context/c.md]}}\n---\nSee @d.md\n"
    (tmp_path / "a.md").write_text(head)
    digests = {extending(tmp_path, "extends: ./a.md\n").digest}
    for name in ("agents/b.md", "context/c.md", "d.md"):
        (tmp_path / name).write_text("two")
        digests.add(load_plan(tmp_path / "plan.yaml").digest)
    assert len(digests) == 4


# -- what a text of a bundle may mention


def test_a_bundle_mentions_no_file_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the secret")
    inner = tmp_path / "bundle"
    (inner / ".hidden").mkdir(parents=True)
    (inner / ".hidden/key").write_text("the secret")
    (inner / "link").symlink_to("../secret")
    (inner / "binary").write_bytes(b"the secret\0")
    (inner / "note.md").write_text("the note")
    mentions = f"@../secret @{tmp_path}/secret @~/secret @.hidden/key @link @binary @none:x.md @note.md"
    (inner / "bundle.md").write_text(f"---\n{HEAD}---\n{mentions}\n")
    plan = extending(tmp_path, "extends: ./bundle\n")
    assert plan.bundles is not None
    assert "the note" in plan.bundles.told.text and "the secret" not in plan.bundles.told.text
    hidden, absent = (
        next(note.replace(name, "") for note in plan.notes if name in note) for name in (".hidden/key", "none:x.md")
    )
    assert hidden == absent  # in the same words, whether it exists


@each_row("reference", ["file://FOLDER/secret", "../secret", ".hidden/key", "mine:../secret"])
def test_a_context_of_a_bundle_is_no_file_of_the_user(reference: str, tmp_path: Path) -> None:
    folder = tmp_path / reference.partition("/")[0]
    inner = folder / "bundle"
    (inner / ".hidden").mkdir(parents=True)
    (folder / "secret").write_text("the secret")
    (inner / ".hidden/key").write_text("the secret")
    (inner / "bundle.md").write_text(f"---\n{HEAD}context: {{a: '{reference.replace('FOLDER', str(folder))}'}}\n---\n")
    with pytest.raises(PlanError, match=r"leads out of the bundle|is named `file`"):
        extending(folder, "extends: ./bundle\n")


@each_row("front", ["agents: {include: [../../secret]}", "agents: {include: [../.hidden]}"])
def test_an_agent_of_a_bundle_is_no_file_of_the_user(front: str, tmp_path: Path) -> None:
    inner = tmp_path / "bundle"
    inner.mkdir(exist_ok=True)
    for secret in (tmp_path / "secret.md", inner / ".hidden.md"):
        secret.write_text("the secret")
    (inner / "bundle.md").write_text(f"---\n{HEAD}{front}\n---\n")
    with pytest.raises(PlanError, match=r"leads out of .*agents"):
        extending(tmp_path, "extends: ./bundle\n")


def test_the_namespace_of_a_bundle_in_a_folder_is_not_what_is_around_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the secret")
    (tmp_path / "bundle").mkdir()
    head = HEAD.replace("mine", "mine, namespace_root: ..")
    (tmp_path / "bundle/bundle.md").write_text(f"---\n{head}---\n@secret\n")
    with pytest.raises(PlanError, match="`namespace_root` of `mine` leads out"):
        extending(tmp_path, "extends: ./bundle\n")


def test_a_bundle_of_a_repository_includes_no_folder_of_the_user() -> None:
    composition = Composition([Named("git+https://a.example/b@main", SourceNode(1))])
    (wanted,) = composition.missing()
    composition.take(wanted, ("bundle.md", f"---\n{HEAD}includes: ['file:///home/me/bundle']\n---\n"))
    with pytest.raises(PlanError, match="is a folder of this machine"):
        composition.missing()


def test_the_instruction_of_bundles_has_as_many_texts_as_files(harbour: MountPlan, tmp_path: Path) -> None:
    told = with_instruction(harbour, tmp_path, Owner.current({})).instruction
    assert len(told.files) == len(told.texts)  # what a session compares at its end


def test_modules_are_told_where_files_of_bundles_are_and_of_no_others(tmp_path: Path) -> None:
    for name in ("tree/modes/plan.md", "tree/.hidden/key", "tree/inner/x.md", "here/open.md", "here/closed.md", "key"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "tree/out").symlink_to(tmp_path / "key")
    granted = (tmp_path / "here/open.md", tmp_path / "inner")
    files = MentionedFiles(tmp_path, Owner.current({}), granted)
    local = {"near": (tmp_path / "here", False), "mine": (tmp_path / "inner/it", False)}
    resolver = MentionResolver(files, {"far": (tmp_path / "tree", True), **local})
    codec = Codec(ContractVocabulary())
    shown = decode_description(encode_description(describe(resolver), codec), codec).attributes["bundles"]
    assert {name: one.base_path for name, one in shown.items()} == {
        "far": tmp_path / "tree",
        "mine": tmp_path / "inner/it",
    }
    found = {name: resolver.resolve(f"@{name}") for name in ("far:modes", "far:modes/plan", "near:open.md")}
    assert found == {
        "far:modes": tmp_path / "tree/modes",
        "far:modes/plan": tmp_path / "tree/modes/plan.md",
        "near:open.md": tmp_path / "here/open.md",
    }
    for name in ("far:../key", "far:.hidden/key", "far:out", f"far:{tmp_path}/key", "far:~/x", "near:closed.md"):
        assert resolver.resolve(f"@{name}") is None, name
    assert resolver.resolve("@near:../key") is None and resolver.resolve("@none:modes") is None


# -- changes of a plan that extends bundles


def test_a_grant_for_a_module_of_a_bundle_is_an_entry_of_the_plan(tmp_path: Path) -> None:
    extending(tmp_path, f"extends: {HARBOUR}\ntools:\n  - module: tool-bash\n")
    path = tmp_path / "plan.yaml"
    edit = with_permissions(path, "tools[0]", Permissions(read=("./bay",)))
    edit.write()
    assert "module: tool-tide" in path.read_text()
    assert [one.permissions.read for one in load_plan(path).tools] == [("./bay",), (), ()]
    with_permissions(path, "tools[2]", Permissions(read=("./x",))).write()  # its own, at another place in its file
    assert [one.permissions.read for one in load_plan(path).tools] == [("./bay",), (), ("./x",)]
    without_entry(path, "tools[0]").write()
    assert [one.permissions.read for one in load_plan(path).tools] == [(), (), ("./x",)]


def test_a_plan_may_leave_out_what_cannot_be_had_and_a_note_says_so(tmp_path: Path) -> None:
    head = f"---\n{HEAD}includes: [./no.md, './there.md', 'sea:a.md']\n"
    named = "agents: {include: [sea:pilot, keeper]}\ncontext: {include: ['sea:rules.md']}\n---\nText.\n"
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/keeper.md").write_text("Keep.")
    (tmp_path / "there.md").write_text("---\nbundle: {name: there}\ntools: [{module: tool-bash}]\n---\n")
    (tmp_path / "bundle.md").write_text(head + named)
    with pytest.raises(PlanError, match="has a problem"):
        extending(tmp_path, "extends: ./bundle.md\n")
    plan = extending(tmp_path, "extends: ./bundle.md\nmissing: skip\n")
    assert [one.module for one in plan.tools] == ["tool-bash"] and [*plan.agents] == ["keeper"]
    said = "\n".join(plan.notes)
    assert f"bundle.md:4: `{tmp_path}/no.md` is not there" in said
    assert all(f"there: {name}" in said for name in ("sea:a.md", "sea:pilot", "sea:rules.md"))
    with pytest.raises(PlanError, match="has a problem"):
        extending(tmp_path, "extends: ./none.md\nmissing: skip\n")
    with pytest.raises(PlanError, match="has a problem"):
        extending(tmp_path, "extends: ./bundle.md\nmissing: yes\n")


# -- what is wrong with bundles


def test_a_module_without_code_is_named_with_the_line_of_its_bundle(tmp_path: Path) -> None:
    (tmp_path / "bundle.md").write_text(f"---\n{HEAD}tools:\n- module: tool-none\n---\n")
    plan = extending(tmp_path, "extends: ./bundle.md\n")
    here = Resolution("x", "x", tmp_path, "x", tmp_path, tmp_path, None)
    found = {one.path: here for one in plan.entries()} | {"tools[0]": ModuleMissingError("tool-none")}
    with pytest.raises(ModuleMissingError) as caught:
        checked_resolutions(plan, found)
    assert f"named at {tmp_path}/bundle.md:5" in render(caught.value)


class Bad:
    """Files of a folder, the plan of which extends `bundle.md`, and what the error says at which place."""

    def __init__(self, said: str, place: str, files: Mapping[str, str | bytes] = {}, **bundle: Any) -> None:
        front = bundle.get("front", HEAD)
        self.files: dict[str, str | bytes] = {"bundle.md": f"---\n{front}---\nText.\n", **files}
        self.said, self.place = said, place


BAD = {
    "an include that is missing": Bad(
        "`FOLDER/no.md` is not there", "bundle.md:4", front=f"{HEAD}includes: [./no.md]\n"
    ),
    "an include that is no bundle": Bad(
        "bundle.name: is missing, or no name",
        "other.yaml:1",
        {"other.yaml": "a: 1\n"},
        front=f"{HEAD}includes: [./other]\n",
    ),
    "an include that names nothing": Bad("names no bundle", "bundle.md:4", front=f"{HEAD}includes: [{{bundle: 7}}]\n"),
    "an include out of its tree": Bad("leads out of `FOLDER`", "bundle.md:4", front=f"{HEAD}includes: [../../x.md]\n"),
    "a name that nobody defined": Bad(
        "`harbor` is the name of no well-known bundle", "bundle.md:4", front=f"{HEAD}includes: [harbor]\n"
    ),
    "a namespace nobody loaded": Bad(
        "no bundle that is included is named `sea`", "bundle.md:4", front=f'{HEAD}includes: ["sea:a.md"]\n'
    ),
    "two bundles of one name": Bad(
        "`mine` is the name of this bundle and of another one",
        "other/bundle.md:2",
        {"../../other/bundle.md": f"---\n{HEAD}---\n"},
        front=f"{HEAD}includes: [FOLDER/../other/bundle.md]\n",
    ),
    "front matter that is no table": Bad("must be a table, is a list", "bundle.md:2", front="[1]\n"),
    "front matter that does not end": Bad("front matter does not end", "bundle.md:1", {"bundle.md": "---\na: 1\n"}),
    "a YAML tag": Bad("tag", "bundle.md:2", front="bundle: !!python/object:os.system {name: x}\n"),
    "anchors that expand": Bad(
        "values",
        "bundle.md",
        front="".join([f"a0: &a0 [{'x, ' * 9}]\n", *(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 9))]),
    ),
    "ten thousand includes": Bad(
        "more than 500 bundles",
        "bundle.md",
        front=f"{HEAD}includes: [{', '.join(f'./b{n}.md' for n in range(10_000))}]\n",
    ),
    "a file of two megabytes": Bad("is larger than", "plan.yaml:1", {"bundle.md": bytes(2 << 20)}),
    "a bundle that extends the plan that extends it": Bad(
        "extends: only a plan extends bundles", "bundle.md:4", front=f"{HEAD}extends: ./plan.yaml\n"
    ),
    "a plan in place of a bundle": Bad(
        "extends: only a plan extends bundles", "bundle.md:2", front="extends: ./plan.yaml\nsession: {}\n"
    ),
    "a source that is relative to nothing": Bad(
        "is not a module source", "bundle.md:4", front=f"{HEAD}tools: [{{module: tool-a, source: modules/x}}]\n"
    ),
    "a binary file": Bad("is binary", "plan.yaml:1", {"bundle.md": b"---\n\xff\n---\n"}),
    "a link out of the folder": Bad(
        "leads out", "bundle.md:4", {"out.md": "LINK"}, front=f"{HEAD}includes: [./out.md]\n"
    ),
    "an agent file that is missing": Bad(
        "`FOLDER/agents/pilot.md` is not there", "bundle.md:4", front=f"{HEAD}agents: {{include: [pilot]}}\n"
    ),
    "a context that is missing": Bad("is not there", "", front=f"{HEAD}context: {{include: [rules.md]}}\n"),
    "modules that are no list": Bad("tools: must be a list", "bundle.md:4", front=f"{HEAD}tools: {{a: 1}}\n"),
    "a module without a name": Bad("`module` is missing", "bundle.md:4", front=f"{HEAD}tools: [{{source: ./x}}]\n"),
    "a module whose key is misspelt": Bad(
        "did you mean `module`?", "bundle.md:4", front=f"{HEAD}tools: [{{modul: tool-a}}]\n"
    ),
    "a source out of its tree": Bad(
        "leads out of `FOLDER`", "bundle.md:4", front=f"{HEAD}tools: [{{module: tool-a, source: ../../../x}}]\n"
    ),
    "an id that is none": Bad("is not a module id", "bundle.md:4", front=f"{HEAD}tools: [{{module: ../a}}]\n"),
    "an include that nobody pinned": Bad(
        "is not pinned in", "bundle.md:4", front=f"{HEAD}includes: ['git+https://a.example/b@main']\n"
    ),
}


@each_row("bad", [pytest.param(bad, id=name) for name, bad in BAD.items()])
def test_a_bundle_that_is_wrong_is_an_error_with_its_file_and_line(bad: Bad, tmp_path: Path) -> None:
    folder = tmp_path / str(len([*tmp_path.iterdir()])) / "it"
    for name, content in bad.files.items():
        file = folder / name.replace("../../", "../")
        file.parent.mkdir(parents=True, exist_ok=True)
        if content == "LINK":
            file.symlink_to("/etc/hostname")
        else:
            text = content if isinstance(content, bytes) else content.replace("FOLDER", str(folder)).encode()
            file.write_bytes(text)
    with pytest.raises(PlanError) as caught:
        extending(folder, "extends: ./bundle.md\n")
    said = render(caught.value)
    assert bad.said.replace("FOLDER", str(folder)) in said
    assert bad.place in said


@each_row("written", ["1", "[]", "harbor", "https://a.example/b"])
def test_what_a_plan_extends_has_to_be_an_address(written: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        extending(tmp_path, f"extends: {written}\n")
    assert caught.value.problems[0].line == 1


def test_what_is_wrong_in_a_plan_is_said_before_its_bundles_are_looked_for(tmp_path: Path) -> None:
    own = "tols: []\npermissions: shell\ntools: [{instance_id: x}, {module: tool-x, limits: {memory_max: 5}}]\n"
    with pytest.raises(PlanError) as caught:
        extending(tmp_path, f"extends: ./not-there.md\n{own}")
    assert [one.path for one in caught.value.problems] == ["", "permissions", "tools[1].limits.memory_max"]


def test_includes_that_branch_at_each_step_take_no_time() -> None:
    assert [*branching("tools: [{module: tool-a}]")["tools"]] == [{"module": "tool-a"}]


def test_includes_that_branch_in_circles_are_refused() -> None:
    with pytest.raises(PlanError, match="too many circles"):
        branching("includes: [./b0.md]")


def branching(last: str) -> dict[str, Any]:
    """Return what sixty bundles become, each of which includes the next one twice."""
    texts = {
        f"b{n}.md": f"---\nbundle: {{name: b{n}}}\nincludes: [./b{n + 1}.md, ./b{n + 1}.md]\n---\n" for n in range(60)
    }
    texts["b60.md"] = f"---\nbundle: {{name: last}}\n{last}\n---\n"
    composition = Composition([Named("/x/b0.md", SourceNode(1))])
    while wanted := composition.missing():
        for one in wanted:
            composition.take(one, next(((name, texts[name]) for name in one.names if name in texts), None))
    content: dict[str, Any] = composition.result().content.value
    return content


@each_row(
    ("text", "after"),
    [
        ("x: 1 # one\n", f"x: 1 # one\n\nextends:\n  - {ADDED}\n"),
        ("extends: anchors # why\nx: 1\n", f"extends: [anchors, {ADDED}] # why\nx: 1\n"),
        ("extends: [anchors]\nx: 1\n", f"extends: [anchors, {ADDED}]\nx: 1\n"),
        ("extends:\n  - anchors # why\n\nx: 1\n", f"extends:\n  - anchors # why\n  - {ADDED}\n\nx: 1\n"),
    ],
)
def test_a_bundle_is_added_and_all_else_stays(text: str, after: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(f"session: {{orchestrator: loop-basic, context: context-simple}}\n{text}")
    plan = MountPlan.__new__(MountPlan)  # what its text is read as does not matter
    with_bundle(path, ADDED, lambda written: plan).write()
    assert path.read_text().partition("\n")[2] == after
    with pytest.raises(PlanNotEditedError, match="already"):
        with_bundle(path, ADDED, lambda written: plan)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("extends: ./harbour # why\nhooks: []\n", "hooks: []\n"),
        ("extends: [./harbour]\nhooks: []\n", "hooks: []\n"),
        ("extends:\n  # ours\n  - ./harbour\n\n# hooks\nhooks: []\n", "\n# hooks\nhooks: []\n"),
        ("extends: [./harbour, ./other]\n", "extends: [./other]\n"),
        ("extends:\n- ./harbour\n- ./other # why\n", "extends:\n- ./other # why\n"),
    ],
)
def test_a_bundle_is_taken_out_of_what_a_plan_extends(text: str, after: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/bundle.md").write_text("---\nbundle: {name: other}\n---\n")
    path = tmp_path / "plan.yaml"
    session = "session: {orchestrator: loop-basic, context: context-simple}\n"
    path.write_text(session + text)
    without_bundle(path, 0).write()
    assert path.read_text().removeprefix(session) == after
