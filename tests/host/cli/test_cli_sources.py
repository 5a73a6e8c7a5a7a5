"""The commands about sources, over code that is made up: what they write, show and refuse, and how they end."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import click
import pytest
import yaml

from host.cli.twin_provider import TwinProvider, Version, commit_of, tree_of
from paddock.authorization.suggestions.proposal import context_of_new_entries
from paddock.cli import commands, failure
from paddock.cli.init.catalogue import ModuleCatalogue
from paddock.cli.init.provider_choice import ProviderChoice, ServiceOptions
from paddock.cli.sources import source_command
from paddock.cli.sources.add_command import fitted_as_init
from paddock.cli.sources.found_module import FoundModule
from paddock.cli.sources.results import pin_text
from paddock.cli.terminal.dialogue import Dialogue
from paddock.cli.terminal.question import Question
from paddock.module_sources import provisioning, sourced_modules
from paddock.module_sources.sourced_modules import SourcedModule
from paddock.module_sources.updates import SourceUpdate, SourceUpdates
from paddock.plan.load import load_plan
from paddock.plan.permissions import Permissions
from paddock.plan.writing import PlannedModule
from paddock.workers import early_template
from paddock_sources import BuiltinSource, SourceUri
from paddock_sources.environment.errors import InstalledDistributionError
from paddock_sources.errors import unavailable
from paddock_sources.lock.lock_file import LockedModule, LockFile
from paddock_sources.lock.locked_module import LockedServer
from paddock_sources.provisioner import PinnedSource
from support.rows import each_row

X = "https://example.org/team/tool-x"
SESSION = "session: {orchestrator: loop-basic, context: context-simple}\n"
PLAN = """\
# mine
session: {orchestrator: loop-basic, context: context-simple}
tools:
  - module: tool-x # the one
    source: git+https://example.org/team/tool-x@v1
"""


class Told:
    """Runs a command line, and returns its exit code, stdout and stderr."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *args: str) -> tuple[int, str, str]:
        try:
            code = commands.paddock.main(args=list(args), prog_name="paddock", standalone_mode=False)
        finally:
            shown = self._capsys.readouterr()
        return code, shown.out, shown.err

    def json(self, *args: str) -> tuple[int, dict[str, Any]]:
        code, shown, _ = self(args[0], "--json", *args[1:])
        assert shown.count("\n") == 1
        return code, json.loads(shown)


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    return Told(capsys)


class OfflineTwin:
    """Names modules by the code in the twin's cache, and fetches none."""

    def __init__(self, twin: TwinProvider) -> None:
        self._twin = twin

    def supply(self, uri: SourceUri) -> Self:
        return self

    def module_ids(self, uri: SourceUri, locked: LockedModule | None) -> tuple[str, ...]:
        if locked is not None and locked.tree and locked.tree not in self._twin.cached:
            raise unavailable(uri.text, "its code")
        return self._twin.module_ids(uri, locked)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> TwinProvider:
    twin = TwinProvider()

    @asynccontextmanager
    async def opened(environ: object, progress: object, *, offline: bool) -> AsyncIterator[TwinProvider]:
        twin.offline = offline
        yield twin

    monkeypatch.setattr(source_command, "open_provider", opened)
    monkeypatch.setattr(provisioning, "offline_provisioner", lambda environ, cache: OfflineTwin(twin))
    return twin


@pytest.fixture
def tagged(provider: TwinProvider) -> TwinProvider:
    """Have a first version of the module at a tag."""
    provider.has(X, "v1", Version("one"), "tag")
    return provider


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(early_template, "begun", lambda locate: nullcontext())  # programs run in a twin, if any do
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


class Answers:
    """Somebody at the terminal who types these lines, one for each question."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.questions: list[Question] = []
        self.has_person = True

    async def ask(self, question: Question, understood: Callable[[str, int], bool | None]) -> bool | None:
        self.questions.append(question)
        return understood(self.lines.pop(0), len(question.options)) if self.lines else None


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answers]:
    def come(*lines: str) -> Answers:
        answers = Answers(*lines)
        monkeypatch.setattr(Dialogue, "at", lambda screen, terminal: answers)
        return answers

    return come


LOCK = Path("paddock.lock")


def plan_in(folder: Path, text: str = PLAN) -> Path:
    path = folder.absolute() / "plan.yaml"
    path.write_text(text)
    return path


def planned(text: str = PLAN) -> Path:
    return plan_in(Path(), text)


def said_of(text: str, name: str = "sources.toml") -> Path:
    """Let the user have said this of sources, or of what is allowed, and return where."""
    path = Path("../config/paddock", name)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def locked(folder: Path = Path()) -> dict[str, LockedModule]:
    return {module.source: module for module in LockFile.read(folder / LOCK).modules}


# -- add -----------------------------------------------------------------------------------


def test_added_to_no_plan_it_is_locked_and_shown(told: Told, provider: TwinProvider) -> None:
    provider.has(X, "v1", Version("one", {"net": ["api.example.org:443"]}, needs={"httpx": "0.27"}), "tag")
    code, shown, errors = told("add", f"git+{X}.git@v1")
    assert code == 0, errors
    (only,) = locked().values()
    assert (only.source, only.commit) == (f"git+{X}@v1", commit_of("one"))
    assert (only.requested_kind, only.tree) == ("tag", tree_of("one"))
    assert "asks for    net api.example.org:443" in shown and "depends on  httpx 0.27" in shown
    assert "permissions: {net: ['api.example.org:443']}" in shown and "would grant it" in shown
    assert "tag v1, dated 2026-01-01 by its author" in shown
    assert f"source: git+{X}.git@v1" in shown
    assert [path.name for path in Path().iterdir()] == ["paddock.lock"]


def test_no_line_or_entry_gives_a_key_and_a_host_of_its_author(told: Told, provider: TwinProvider) -> None:
    asked = {"net": ["evil.example"], "env": ["K=${OPENAI_API_KEY}", "OWN_TOKEN"], "secrets": ["OPENAI_API_KEY", "OWN"]}
    planned()
    Path(".vscode").mkdir()
    provider.has(X, "v1", Version("one", {**asked, "write": [".vscode", "."]}), "tag")
    for options in ((), ("--to", "plan.yaml", "--yes", "--as", "tool-one")):
        code, facts = told.json("add", f"git+{X}@v1", *options)
        assert code == 0, facts
        line = Permissions.parse(yaml.safe_load(facts["grant"])["permissions"])
        assert line.net == ("api.openai.com:443",) and line.write == (".",) and line.env == ("K=${OPENAI_API_KEY}",)
        assert [(one.name, one.inject) for one in line.secrets] == [("OPENAI_API_KEY", "api.openai.com:443")]
        left = ["the value of OWN", "write .vscode", "net evil.example", "env OWN_TOKEN"]
        assert facts["not_proposed"] == left
    assert load_plan(Path("plan.yaml")).tools[-1].permissions.net == ()
    assert "written into the plan" in told("add", f"git+{X}@v1", "--to", "plan.yaml", "--yes", "--as", "tool-two")[1]


def test_added_to_a_plan_it_is_granted_what_suits_it(told: Told, provider: TwinProvider) -> None:
    path = planned()
    provider.has("https://example.org/hooks", "", Version("h", "shell", ("hooks-y",), kind="hook"), "default")
    code, facts = told.json("add", "git+https://example.org/hooks", "--to", "plan.yaml")
    assert (code, facts["place"], facts["kind"], facts["asks_for"]) == (0, "hooks[0]", "hook", ["preset shell"])
    assert (facts["grant"], facts["permissions"]) == ("permissions: shell", "shell")
    assert facts["granted"] == {"read": [".", "!@secrets"], "write": ["."]} and facts["replaced"] is None
    assert path.read_text().startswith(PLAN)
    (added,) = load_plan(path).hooks
    assert (added.module, added.source) == ("hooks-y", "git+https://example.org/hooks")
    assert added.permissions.as_written() == facts["granted"]  # no family as a whole by a stranger's manifest
    assert "# files and folders that it may read and change" in path.read_text()
    assert list(locked()) == ["git+https://example.org/hooks"]


def test_a_shipped_provider_is_written_as_init_and_the_readme_write_it(folder: Path) -> None:
    code = BuiltinSource().resolve("provider-openai")
    pinned = PinnedSource("", "builtin", "")
    planned, lock = PlannedModule("provider", "provider-openai"), LockFile()
    found = FoundModule("provider-openai", "provider", "", None, pinned, None, None, code, folder, lock, False)
    known = context_of_new_entries({}, folder, is_unread=False)
    catalogue = ModuleCatalogue(folder, {}, lambda *_: found)
    chosen = ProviderChoice(catalogue, ServiceOptions(), frozenset(), None).choose("openai")
    written = fitted_as_init(planned, found, known).as_entry()
    readme = (Path(__file__).parents[3] / "README.md").read_text().partition("```yaml plan\n")[2].partition("```")[0]
    assert written == chosen.as_entry() == yaml.safe_load(readme)["providers"][0]


def test_what_is_pinned_of_a_command_is_the_tools_of_its_server() -> None:
    server = LockedServer("2025-11-25", "hello 1", {"hello": "sha256:0"})
    assert pin_text(LockedModule("mcp+command:./hello.py", mcp=server)) == "1 tool"


def test_the_lock_file_lies_beside_the_plan(told: Told, provider: TwinProvider, folder: Path) -> None:
    Path("plans").mkdir()
    Path("module").mkdir()
    plan_in(folder / "plans")
    provider.folders[folder / "module"] = Version("m")
    code, facts = told.json("add", "./module", "--to", "plans/plan.yaml")
    assert code == 0 and facts["lock"] == str(folder / "plans" / "paddock.lock")
    assert load_plan(folder / "plans/plan.yaml").tools[1].source == str(folder / "module")
    assert list(locked(folder / "plans")) == [str(folder / "module")]


@pytest.mark.parametrize("args", [(), ("--as", "tool-c")])
def test_of_several_modules_one_has_to_be_named(args: tuple[str, ...], told: Told, provider: TwinProvider) -> None:
    provider.has(X, "", Version("several", ids=("tool-a", "tool-b")), "default")
    code, _, errors = told("add", f"git+{X}", *args)
    assert code == 1 and "tool-a, tool-b" in errors and "--as ID" in errors and "#subdirectory=" in errors
    assert not list(Path().iterdir())
    assert told("add", f"git+{X}", "--as", "tool-b")[0] == 0
    assert told.json("add", f"git+{X}", "--as", "tool-b")[1]["module"] == "tool-b"


def test_only_a_terminal_is_asked_and_the_default_is_no(
    told: Told, provider: TwinProvider, answering: Callable[..., Answers]
) -> None:
    provider.has(X, "v1", Version("one", {"net": ["\u202egro.elpmaxe"]}), "tag")
    for line, code, written in (("", 4, False), ("no", 4, False), ("yes", 0, True)):
        answers = answering(line)
        ended, shown, errors = told("add", f"git+{X}@v1")
        assert (ended, LOCK.exists()) == (code, written), (shown, errors)
        (question,) = answers.questions
        assert question.is_ours and "Add tool-x" in question.text and "\\u202e" in question.text
        assert [option.key.strip() for option in question.options] == ["yes", "no"]
        assert written or "nothing was written" in errors
    LOCK.unlink()
    for args in (("--yes",), ("--json",)):
        answers = answering("no")
        assert told("add", f"git+{X}@v1", *args)[0] == 0 and not answers.questions


def test_a_person_is_asked_whether_the_plan_here_is_to_name_it(
    told: Told, tagged: TwinProvider, answering: Callable[..., Answers], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = planned(SESSION)
    monkeypatch.setattr("sys.argv", ["paddock", "add", f"git+{X}@v1"])
    for answers, names in ((["no", "yes"], []), (["yes", "yes"], ["tool-x"])):
        person = answering(*answers)
        code, shown, errors = told("add", f"git+{X}@v1")
        assert code == 0 and [one.module for one in load_plan(path).tools] == names, errors
        assert ["Name it in plan.yaml too?" in one.text for one in person.questions] == [True, False]
        assert (f"paddock add git+{X}@v1 --to plan.yaml" in shown) == (not names)


def test_a_repository_draws_nothing_on_the_screen(told: Told, provider: TwinProvider) -> None:
    provider.has(X, "v1", Version("one", {"net": ["a\x1b[2Jb", "c\nerror: d"]}, needs={"httpx": "0.27"}), "tag")
    _, shown, _ = told("add", f"git+{X}@v1")
    assert "\x1b" not in shown and "\nerror" not in shown and r"a\x1b[2Jb" in shown
    assert "not all of it is of a form that a plan can grant" in shown


def test_credentials_are_neither_written_nor_shown(told: Told, provider: TwinProvider) -> None:
    path = planned()
    with_secret = "https://me:s3cr3t@example.org/team/tool-z"
    provider.has(with_secret, "", Version("z"), "default")
    code, shown, errors = told("add", f"git+{with_secret}", "--to", "plan.yaml")
    told_json = told("list", "--json")
    missing = told("add", f"git+{with_secret}@nothing")
    assert (code, missing[0]) == (0, 1)
    written = path.read_text() + LOCK.read_text()
    assert "s3cr3t" not in "".join([shown, errors, *map(str, (*told_json, *missing)), written])
    assert load_plan(path).tools[1].source == "git+https://example.org/team/tool-z"


def test_with_ssh_the_user_is_kept_and_what_ran_outside_is_told(told: Told, provider: TwinProvider) -> None:
    provider.has("ssh://git@example.org/x", "", Version("s"), "default")
    code, shown, _ = told("add", "git+ssh://git@example.org/x")
    assert code == 0 and "outside the sandbox" in shown
    assert list(locked()) == ["git+ssh://git@example.org/x"]


def test_an_impostor_is_added_only_if_that_is_said(told: Told, provider: TwinProvider) -> None:
    commit = commit_of("fork")
    provider.has(X, commit, Version("fork"), "commit")
    provider.impostors.add("fork")
    code, _, errors = told("add", f"git+{X}@{commit}")
    assert code == 1 and "--allow-impostor" in errors and not LOCK.exists()
    assert told("add", f"git+{X}@{commit}", "--allow-impostor")[0] == 0


def test_what_is_shipped_is_named_in_a_plan_and_not_locked(told: Told, provider: TwinProvider) -> None:
    path = planned()
    code, _, errors = told("add", "tool-filesystem")
    assert code == 1 and "it is shipped" in errors and "--to PLAN" in errors
    assert told("add", "tool-filesystem", "--to", "plan.yaml")[0] == 0
    assert "- module: tool-filesystem\n" in path.read_text() and not LOCK.exists()


def test_a_plan_that_has_it_already_and_one_that_is_none_are_left_alone(told: Told, tagged: TwinProvider) -> None:
    path = planned()
    tagged.has(X, "", Version("one"), "default")
    code, _, errors = told("add", f"git+{X}", "--to", "plan.yaml")
    assert code == 1 and "plan.yaml:4" in errors and "take it out first: `paddock remove tool-x" in errors
    assert "`paddock update tool-x --to v1 --plan plan.yaml`" in told("add", f"git+{X}@v1", "--to", "plan.yaml")[2]
    assert path.read_text() == PLAN and not LOCK.exists()
    planned("tools: 3\n")
    assert told("add", f"git+{X}", "--to", "plan.yaml")[0] == 1
    assert not LOCK.exists()


def test_what_is_locked_already_is_not_moved_by_adding_it_again(told: Told, provider: TwinProvider) -> None:
    planned(SESSION)
    provider.has(X, "v1", Version("one", {"net": ["a.example"]}), "tag")
    told("add", f"git+{X}@v1")
    provider.has(X, "v1", Version("two"), "tag")
    provider.asked.clear()
    before = LOCK.read_bytes()
    code, shown, _ = told("add", f"git+{X}@v1", "--to", "plan.yaml", "--offline")
    assert (code, provider.asked) == (0, []) and "stays as it was" in shown and "net a.example" in shown
    assert LOCK.read_bytes() == before


def test_a_folder_that_changed_is_locked_anew_by_adding_it_again(
    told: Told, provider: TwinProvider, folder: Path
) -> None:
    Path("module").mkdir()
    for name in ("one", "two"):
        provider.folders[folder / "module"] = Version(name)
        assert told("add", "./module")[0] == 0 and locked()["./module"].tree == tree_of(name)


def test_a_source_that_no_module_may_come_from_is_not_even_asked(told: Told, tagged: TwinProvider) -> None:
    assert told("add", f"git+{X}@v1")[0] == 0
    planned()
    tagged.asked.clear()
    said_of('git_hosts = ["elsewhere.example"]\n', "policy.toml")
    for args in (("add", f"git+{X}@v1"), ("lock",), ("sync",), ("update",), ("verify",)):
        code, facts = told.json(*args)
        assert (code, facts["error"]["type"]) == (4, "PolicyRefusedError"), args
    assert not tagged.asked


def test_a_pinned_source_is_what_locking_makes_of_any(told: Told, tagged: TwinProvider) -> None:
    said_of("require_pinned = true\n", "policy.toml")
    assert told("add", f"git+{X}@v1")[0] == 0


@pytest.mark.parametrize("source", ["--upload-pack=x", "git+ext::sh -c id", "a b", "../../"])
def test_what_is_no_source_is_told(source: str, told: Told, provider: TwinProvider, folder: Path) -> None:
    provider.folders[folder.parent.parent] = Version("f", ids=("tool-f", "tool-g"))
    code, facts = told.json("add", "--as", "tool-q", "--", source)
    assert code == 1 and facts["error"]["message"] and not provider.asked


def test_a_wrong_id_is_a_wrong_call(told: Told, provider: TwinProvider) -> None:
    with pytest.raises(click.UsageError, match="--as"):
        told("add", f"git+{X}", "--as", "../x")


def test_what_is_not_here_is_told_with_what_may_be_meant(told: Told, provider: TwinProvider, folder: Path) -> None:
    for name in ("tool-shout", "module"):
        (folder / name).mkdir()
    for source, problem, hint in (
        ("tool-shot", "no module `tool-shot` is shipped", "did you mean `./tool-shout`?"),
        ("tool-filesytem", "no module `tool-filesytem` is shipped", "did you mean `tool-filesystem`?"),
        ("./modul", f"there is no folder `{folder / 'modul'}`", f"did you mean `{folder / 'module'}`?"),
    ):
        for args in ((), ("--to", str(planned()))):
            code, _, errors = told("add", source, *args)
            assert code == 1 and problem in errors and hint in errors
            assert "--dev" not in errors and "installed here\n" not in errors
    provider.packages["tool-there"] = Version("there")
    assert "it is what is installed here" in told("add", "tool-there")[2]


def test_what_is_installed_is_within_the_plan_s_constraints(told: Told, provider: TwinProvider) -> None:
    provider.packages["tool-there"] = Version("there", needs={"leaf": "2.0"})
    for bound, code in (("leaf<2", 1), ("leaf<3", 0)):
        planned(f"{SESSION}constraints: ['{bound}']\ntools: [{{module: tool-there, source: tool-there}}]\n")
        done, _, errors = told("sync")
        assert (done, f"leaf 2.0, where only `{bound}` (" in errors) == (code, bool(code)), errors
        plan = planned(f"{SESSION}constraints: ['{bound}']\n")
        done, _, errors = told("add", "tool-there", "--to", str(plan), "--yes")
        assert (done, f"leaf 2.0, where only `{bound}` (" in errors) == (code, bool(code)), errors


def test_a_package_of_the_index_without_a_module_is_told_as_one(
    told: Told, provider: TwinProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_module(uri: object, locked: object) -> tuple[str, ...]:
        raise InstalledDistributionError("six", "there is no module in it")

    provider.packages["six"] = Version("six")
    monkeypatch.setattr(provider, "module_ids", no_module)
    code, _, errors = told("add", "six==1.17.0")
    assert code == 1 and "`six==1.17.0` of the index cannot be added: there is no module in it" in errors
    assert "installed" not in errors and not LOCK.exists()


@each_row(
    ("text", "shown"),
    [
        ("git+https://me:s3cr3t@example.org/x", "git+https://example.org/x"),
        ("git+ssh://git@example.org/x", "git+ssh://git@example.org/x"),
        ("ssh://git:s3cr3t@example.org/x", "ssh://example.org/x"),
        ("ssh://me@s3cr3t@example.org/x", "ssh://example.org/x"),
        ("xssh://me@example.org/x", "xssh://example.org/x"),
        ("https://me:s3/cr3t@h/x and ssh://git@h/y, https://t@h/z", "https://h/x and ssh://git@h/y, https://h/z"),
    ],
)
def test_of_an_address_only_a_user_of_ssh_is_shown(text: str, shown: str) -> None:
    assert failure.masked(text) == shown


# -- lock ----------------------------------------------------------------------------------


def test_what_the_plan_names_is_locked_and_what_is_locked_stays(told: Told, tagged: TwinProvider) -> None:
    planned()
    assert told.json("lock", "--check")[1]["missing"][0]["module"] == "tool-x"
    assert told("lock", "--check")[0] == 1 and not LOCK.exists()
    code, facts = told.json("lock")
    assert (code, facts["locked"][0]["locked"]["commit"], facts["kept"]) == (0, commit_of("one"), 0)
    tagged.has(X, "v1", Version("two"), "tag")
    before = LOCK.read_bytes()
    code, facts = told.json("lock")
    assert (code, facts["locked"], facts["kept"]) == (0, [], 1)
    assert told("lock", "--check")[0] == 0 and LOCK.read_bytes() == before


def test_a_folder_with_dependencies_is_locked_and_relocked_when_changed(
    told: Told, provider: TwinProvider, folder: Path
) -> None:
    Path("module").mkdir()
    planned(PLAN.replace("git+https://example.org/team/tool-x@v1", "./module"))
    provider.folders[folder / "module"] = Version("plain")
    assert told("lock", "--check")[0] == 0
    provider.folders[folder / "module"] = Version("one", needs={"httpx": "1"})
    assert told("lock")[0] == 0 and locked()["./module"].tree == tree_of("one")
    provider.folders[folder / "module"] = Version("two", needs={"httpx": "1"})
    assert told("lock", "--check")[0] == 1
    assert told("lock")[0] == 0 and locked()["./module"].tree == tree_of("two")


def test_one_that_cannot_be_locked_does_not_keep_the_others_from_it(told: Told, tagged: TwinProvider) -> None:
    planned(f"{PLAN}  - module: tool-gone\n    source: git+https://example.org/gone\n")
    code, _, errors = told("lock")
    assert code == 1 and "tool-gone: cannot fetch `https://example.org/gone`" in errors and "hint: look again" in errors
    assert list(locked()) == [f"git+{X}@v1"]


def test_without_a_plan_there_is_nothing_to_lock(told: Told, provider: TwinProvider) -> None:
    with pytest.raises(click.UsageError, match="name the PLAN"):
        told("lock")


def test_a_broken_lock_file_is_told_with_its_line_and_left_alone(told: Told, provider: TwinProvider) -> None:
    planned()
    LOCK.write_text("version = 1\nmodule = 3\n")
    for args in (("lock",), ("list",), ("sync",), ("update",), ("verify",), ("remove", "tool-x"), ("add", f"git+{X}")):
        provider.has(X, "", Version("one"), "default")
        code, _, errors = told(*args)
        assert code == 1 and "paddock.lock:2" in errors, (args, errors)
    assert LOCK.read_text() == "version = 1\nmodule = 3\n"


# -- sync ----------------------------------------------------------------------------------


def test_all_that_is_locked_is_had_and_what_is_not_locked_is_told(told: Told, tagged: TwinProvider) -> None:
    planned()
    code, _, errors = told("sync")
    assert code == 1 and "not locked" in errors and "paddock lock" in errors
    told("lock")
    tagged.cached.clear()
    assert told("sync", "--offline")[0] == 1
    code, facts = told.json("sync")
    assert (code, facts["modules"][0]["ready"]) == (0, True) and tree_of("one") in tagged.cached
    assert told("sync", "--offline")[0] == 0


def test_without_a_plan_each_module_of_each_source_is_had(told: Told, provider: TwinProvider) -> None:
    provider.has(X, "v1", Version("one", ids=("tool-a", "tool-b")), "tag")
    told("add", f"git+{X}@v1", "--as", "tool-a")
    provider.cached.clear()
    assert told("sync")[0] == 0 and tree_of("one") in provider.cached


# -- list ----------------------------------------------------------------------------------


def test_modules_are_listed_with_what_they_are_pinned_to(
    told: Told, tagged: TwinProvider, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("module").mkdir()
    planned(
        f"{PLAN}  - module: tool-f\n    source: ./module\n  - module: tool-p\n    source: pkg==1.0\n"
        "  - module: tool-i\n    source: pkg\n",
    )
    tagged.has("https://example.org/old", "", Version("old"), "default")
    told("add", f"git+{X}@v1")
    told("add", "git+https://example.org/old")
    monkeypatch.setattr(sourced_modules, "_find_installed", lambda module_id: None)
    code, facts = told.json("list", "--dev")
    found = {one["module"]: one for one in facts["modules"]}
    assert code == 0 and list(found) == ["loop-basic", "context-simple", "tool-x", "tool-f", "tool-p", "tool-i"]
    pins = ["shipped", "shipped", "tag", "folder", "version", "installed"]
    assert [one["pin"] for one in found.values()] == pins
    assert [name for name, one in found.items() if one["live"]] == ["tool-f"]
    assert found["tool-x"]["locked"]["commit"] == commit_of("one") and found["tool-f"]["locked"] is None
    assert facts["unused"] == ["git+https://example.org/old"]
    _, shown, _ = told("list", "--dev")
    assert f"tag, {commit_of('one')[:12]} of 2026-01-01" in shown and "LIVE" in shown
    assert "version, not locked" in shown
    rows = [line.split() for line in shown.splitlines()]
    assert ["loop-basic", "shipped"] in rows and ["tool-i", "installed", "pkg"] in rows
    assert "of no module of this plan: git+https://example.org/old" in shown
    assert "live" not in told("list")[1].lower()


@pytest.mark.parametrize("layer", ["settings", "workspace", "environment variable AMPLIFIER_MODULE_TOOL_X"])
@pytest.mark.parametrize("plan", [PLAN, f"{SESSION}tools: [{{module: tool-x}}]\n"])
def test_what_is_named_before_the_plan_is_what_is_listed_and_locked(
    layer: str, plan: str, told: Told, tagged: TwinProvider, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(plan)
    mine = folder.parent / "mine" / "tool-x"
    (mine / "amplifier_module_tool_x").mkdir(parents=True)
    (mine / "amplifier_module_tool_x" / "__init__.py").write_text("")
    (mine / "pyproject.toml").write_text('[project]\nname = "amplifier-module-tool-x"\n')
    tagged.folders[mine] = Version("mine", needs={"httpx": "1"})
    tagged.has("https://example.org/mine", "", Version("mine"), "default")
    key = "git+https://example.org/mine" if layer == "settings" else str(mine)
    if layer.startswith("environment"):
        monkeypatch.setenv("AMPLIFIER_MODULE_TOOL_X", str(mine))
    else:
        said = f'workspace = "{mine.parent}"\n' if layer == "workspace" else f'[modules]\ntool-x = "{key}"\n'
        said_of(said)
    (one,) = [one for one in told.json("list")[1]["modules"] if one["module"] == "tool-x"]
    assert (one["source"], one["layer"]) == (key, layer)
    assert f"{key}, by {layer}" in told("list")[1]
    assert told("lock", "--check")[0] == 1
    assert told("lock")[0] == 0 and list(locked()) == [key]
    assert told("lock", "--check")[0] == 0 and told("sync")[0] == 0
    assert told.json("list")[1]["unused"] == []
    assert told.json("verify")[1]["modules"][0]["source"] == key


def test_what_the_plan_names_is_of_use_also_while_another_source_stands_in(told: Told, tagged: TwinProvider) -> None:
    path = planned()
    tagged.has("https://example.org/mine", "", Version("mine"), "default")
    told("lock")
    said_of('[modules]\ntool-x = "git+https://example.org/mine"\n')
    code, facts = told.json("lock")
    assert (code, facts["unused"], len(locked())) == (0, [], 2)
    code, facts = told.json("remove", f"git+{X}@v1", "--from", "plan.yaml")
    assert (code, locked(), load_plan(path).tools) == (0, {}, ())


def test_an_unknown_module_is_reported_and_the_others_are_locked(told: Told, tagged: TwinProvider) -> None:
    planned(f"{PLAN}  - module: tool-nowhere\n")
    code, shown, _ = told("list")
    assert code == 0 and "not found" in shown and "no code was found for module `tool-nowhere`" in shown
    for args in (("lock",), ("lock", "--check"), ("sync",)):
        code, _, errors = told(*args)
        assert code == 1 and "tool-nowhere: no code was found" in errors, args
    assert list(locked()) == [f"git+{X}@v1"]


def test_settings_that_are_not_understood_are_told(told: Told, provider: TwinProvider) -> None:
    planned()
    said_of("modules = 3\n")
    for command in ("list", "lock", "sync", "update", "verify"):
        code, _, errors = told(command)
        assert code != 0 and "sources.toml" in errors, command


def test_where_nothing_is_locked_the_list_is_empty(told: Told) -> None:
    code, shown, errors = told("list")
    assert (code, errors) == (0, "") and shown.startswith("nothing is locked")


# -- update --------------------------------------------------------------------------------

MAIN = f"git+{X}@main"
NEW = datetime(2026, 2, 1, tzinfo=UTC)


def moved(
    told: Told, provider: TwinProvider, new: Version, *, old: Version | None = None, kind: str = "branch"
) -> None:
    provider.has(X, "main", old or Version("one", {"net": ["a.example"]}), kind)
    assert told("add", MAIN)[0] == 0
    provider.has(X, "main", new, kind)


def test_a_branch_that_went_on_is_followed_and_shown(told: Told, provider: TwinProvider) -> None:
    moved(told, provider, Version("two", {"net": ["a.example"]}, made=NEW))
    code, shown, errors = told("update")
    assert (code, errors) == (0, "")
    change = f"{commit_of('one')[:12]} (2026-01-01) → {commit_of('two')[:12]} (2026-02-01)"
    assert "updated" in shown and change in shown
    assert locked()[MAIN].commit == commit_of("two")
    assert "up to date" in told("update")[1]


@pytest.mark.parametrize("asks", [{"net": ["a.example", "b.example"]}, "shell", {"net": ["*.example"]}])
def test_a_version_that_asks_for_more_is_not_taken_unaccepted(asks: object, told: Told, provider: TwinProvider) -> None:
    moved(told, provider, Version("two", asks, made=NEW))
    before = LOCK.read_bytes()
    code, shown, errors = told("update")
    assert code == 4 and "refused" in shown and "it asks for more" in shown and "--yes" in errors
    assert LOCK.read_bytes() == before
    code, facts = told.json("update")
    assert (code, facts["modules"][0]["state"]) == (4, "refused") and facts["modules"][0]["asks_more"]
    assert told("update", "--yes")[0] == 0 and locked()[MAIN].commit == commit_of("two")


def test_the_difference_is_shown_before_the_answer_and_no_is_the_default(
    told: Told, provider: TwinProvider, answering: Callable[..., Answers]
) -> None:
    provider.has(X, "main", Version("one", {"net": ["a.example"], "run": ["git"]}), "branch")
    told("add", MAIN)
    provider.has(X, "main", Version("two", {"net": ["a.example", "b\x1b.example"]}, made=NEW), "branch")
    for line, code, commit in (("", 4, "one"), ("no", 4, "one"), ("yes", 0, "two")):
        answers = answering(line)
        assert told("update")[0] == code and locked()[MAIN].commit == commit_of(commit)
        (question,) = answers.questions
        assert r"+ net b\x1b.example" in question.text and "- run git" in question.text
        assert commit_of("two")[:12] in question.text and "\x1b" not in question.text


def test_what_asks_for_less_or_the_same_in_other_words_is_taken(told: Told, provider: TwinProvider) -> None:
    moved(told, provider, Version("two", {"run": ["git"], "read": []}, made=NEW), old=Version("one", {"run": ["*"]}))
    code, facts = told.json("update")
    assert (code, facts["modules"][0]["asks_less"]) == (0, ["run *"])


def test_where_the_old_request_is_not_at_hand_all_of_the_new_one_is_more(told: Told, provider: TwinProvider) -> None:
    moved(told, provider, Version("two", {"net": ["a.example"], "run": ["git"]}, made=NEW))
    provider.cached.clear()
    code, facts = told.json("update")
    assert (code, facts["modules"][0]["asks_more"]) == (4, ["net a.example", "run git"])


def test_a_tag_that_moved_is_red_and_not_followed(told: Told, provider: TwinProvider) -> None:
    moved(told, provider, Version("two", made=NEW), old=Version("one"), kind="tag")
    for args in ((), ("--yes",)):
        code, shown, errors = told("update", *args)
        assert code == 4 and "refused" in shown and locked()[MAIN].commit == commit_of("one")
        assert "WARNING: tool-x: the tag `main` was moved" in errors and "--allow-moved-tag" in errors
    assert told("update", "--allow-moved-tag")[0] == 0 and locked()[MAIN].commit == commit_of("two")


_AT_V1 = f"""{PLAN}    config: {{ unit: C }} # mine, too
    permissions: {{read: [.]}}
"""


def test_a_newer_tag_is_named_and_taken_with_config_and_grants_kept(
    told: Told, provider: TwinProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = planned(_AT_V1)
    for tag, version in (("v1", "one"), ("v2", "two"), ("v3", "three")):
        provider.has(X, tag, Version(version), "tag")
    assert told("lock")[0] == 0 and told("add", f"git+{X}@v1")[0] == 0
    code, shown, errors = told("update")
    assert code == 0 and "tool-x: v3 is newer; `paddock update tool-x --to v3` takes it" in errors
    assert told.json("update")[1]["modules"][0]["newer"] == ["v3", "v2"] and "up to date" in shown
    code, facts = told.json("update", "tool-x", "--to", "v2")
    assert (code, facts["modules"][0]["state"], facts["modules"][0]["newer"]) == (0, "updated", ["v3"])
    assert path.read_text() == _AT_V1.replace("@v1", "@v2")
    assert [(key, one.commit) for key, one in locked().items()] == [(f"git+{X}@v2", commit_of("two"))]


def test_what_cannot_be_taken_at_a_ref_is_refused_before_it_is_fetched(told: Told, tagged: TwinProvider) -> None:
    path = planned(f"{PLAN}  - module: tool-todo\n")
    tagged.has(X, "v2", Version("two", {"net": ["more.example"]}), "tag")
    assert told("lock")[0] == 0
    tagged.asked.clear()
    before = path.read_bytes(), LOCK.read_bytes()
    for args, said in (
        (["--to", "v2"], "`--to` is about one module"),
        (["tool-todo", "--to", "v2"], "there is no module `tool-todo`"),
        (["tool-x", "--to", "v 2"], "no branch, tag or commit"),
    ):
        code, _, errors = told("update", *args)
        assert code == 1 and said in errors and not tagged.asked, errors
    policy = said_of('[[module]]\nmatch = "git+https://example.org/*"\ndeny = true\n', "policy.toml")
    policy.chmod(0o600)
    assert told("update", "tool-x", "--to", "v2")[0] == 4 and not tagged.asked
    policy.unlink()
    assert told("update", "tool-x", "--to", "v2")[0] == 4  # it asks for more
    assert (path.read_bytes(), LOCK.read_bytes()) == before
    assert told("update", "tool-x", "--to", "v2", "--yes")[0] == 0 and "@v2" in path.read_text()


def test_a_plan_that_changes_meanwhile_keeps_its_lock(
    told: Told, provider: TwinProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = planned(_AT_V1)
    for tag, version in (("v1", "one"), ("v2", "two")):
        provider.has(X, tag, Version(version), "tag")
    assert told("lock")[0] == 0
    before, look = LOCK.read_bytes(), SourceUpdates.look

    def look_while_somebody_writes(updates: SourceUpdates, module: SourcedModule) -> SourceUpdate:
        path.write_text(f"{_AT_V1}# mine\n")
        return look(updates, module)

    monkeypatch.setattr(SourceUpdates, "look", look_while_somebody_writes)
    code, _, errors = told("update", "tool-x", "--to", "v2")
    assert code == 1 and "somebody else changed it" in errors
    assert path.read_text() == f"{_AT_V1}# mine\n" and LOCK.read_bytes() == before


def test_a_branch_that_took_a_tags_name_is_a_moved_tag(told: Told, provider: TwinProvider) -> None:
    moved(told, provider, Version("two", made=NEW), old=Version("one"), kind="tag")
    provider.has(X, "main", Version("two", made=NEW), "branch")
    assert told("update")[0] == 4 and locked()[MAIN].commit == commit_of("one")


@pytest.mark.parametrize(
    ("made", "held"),
    [
        (timedelta(days=1), "it is 1d old"),
        (timedelta(days=6, hours=23), "it is 6d old"),
        (timedelta(days=7), ""),
        (timedelta(days=-3), "in the future"),
        (None, "nothing says how old"),
    ],
)
def test_what_is_too_young_is_held_back(made: timedelta | None, held: str, told: Told, provider: TwinProvider) -> None:
    date = datetime.now(UTC) - made if made is not None else None
    moved(told, provider, Version("two", {"net": ["a.example"]}, made=date))
    code, facts = told.json("update", "--min-age", "7d")
    (one,) = facts["modules"]
    assert not held or one["reason"].endswith(" (--min-age 7d)")
    assert (code, one["state"]) == (0, "held" if held else "updated") and held in (one["reason"] or "")
    assert locked()[MAIN].commit == commit_of("one" if held else "two")


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_files_that_differ_from_the_lock_are_relocked_and_reported(
    kind: str, told: Told, provider: TwinProvider
) -> None:
    provider.has(X, "main", Version("one", made=datetime.now(UTC).replace(microsecond=0)), kind)
    told("add", MAIN)
    path = LOCK
    path.write_text(path.read_text().replace(tree_of("one"), tree_of("by hand")))
    code, shown, errors = told("update", "--min-age", "7d")
    said = "locked again: its files were not those of the lock"
    assert code == 0 and said in shown and f"tool-x: {said}" in errors and "moved" not in errors
    assert locked()[MAIN].tree == tree_of("one")
    provider.cached.clear()
    code, facts = told.json("update")
    assert (code, facts["modules"][0]["state"]) == (0, "current")


def test_a_commit_from_before_the_locked_one_is_told_of(told: Told, provider: TwinProvider) -> None:
    moved(told, provider, Version("two", {"net": ["a.example"]}, made=datetime(2025, 1, 1, tzinfo=UTC)))
    assert "made before the one that is locked" in told("update")[2]


def test_only_the_named_modules_are_updated(told: Told, provider: TwinProvider) -> None:
    other = "https://example.org/other"
    for url in (X, other):
        provider.has(url, "main", Version(f"one {url}"), "branch")
        told("add", f"git+{url}@main")
        provider.has(url, "main", Version(f"two {url}", made=NEW), "branch")
    assert told("update", "tool-x")[0] == 0
    found = locked()
    assert found[MAIN].commit == commit_of(f"two {X}")
    assert found[f"git+{other}@main"].commit == commit_of(f"one {other}")
    assert told("update", f"git+{other}")[0] == 0
    assert locked()[f"git+{other}@main"].commit == commit_of(f"two {other}")
    code, _, errors = told("update", "tool-none")
    assert code == 1 and "other, tool-x" in errors


def test_a_remote_that_is_gone_is_told_and_the_others_are_updated(told: Told, provider: TwinProvider) -> None:
    provider.has("https://example.org/gone", "main", Version("gone"), "branch")
    told("add", "git+https://example.org/gone@main")
    moved(told, provider, Version("two", {"net": ["a.example"]}, made=NEW))
    del provider.refs["https://example.org/gone"]
    code, _, errors = told("update")
    assert code == 1 and "gone: cannot fetch" in errors
    assert locked()[MAIN].commit == commit_of("two")
    assert "git+https://example.org/gone@main" in locked()


def test_what_somebody_else_locked_meanwhile_is_not_undone(
    told: Told, provider: TwinProvider, answering: Callable[..., Answers]
) -> None:
    moved(told, provider, Version("two", {"net": ["b.example"]}, made=NEW))
    answers = answering("yes")
    ask = answers.ask

    async def slowly(*args: Any) -> bool | None:
        path = LOCK
        path.write_text(path.read_text().replace(commit_of("one"), commit_of("three")))
        return await ask(*args)

    answers.ask = slowly  # type: ignore[method-assign]
    _, shown, _ = told("update")
    assert locked()[MAIN].commit == commit_of("three") and "somebody else locked it" in shown


@pytest.mark.parametrize("command", [("lock",), ("add", f"git+{X}@v1"), ("add", f"git+{X}@v1", "--to", "plan.yaml")])
def test_nor_is_what_they_locked_first(
    command: tuple[str, ...], told: Told, tagged: TwinProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SESSION if "--to" in command else PLAN
    path = planned(text)
    lock = tagged.lock

    def slowly(*args: Any, **more: Any) -> LockedModule:
        found = lock(*args, **more)
        theirs = replace(found, source=f"git+{X}@v1", commit=commit_of("theirs"))
        LockFile((theirs,)).write(LOCK)
        return found

    monkeypatch.setattr(tagged, "lock", slowly)
    code, _, errors = told(*command)
    assert (code, locked()[f"git+{X}@v1"].commit) == (int(command[0] == "add"), commit_of("theirs"))
    assert "somebody else" in errors and path.read_text() == text


# -- verify --------------------------------------------------------------------------------


def test_what_is_as_it_was_locked_is_fine(told: Told, tagged: TwinProvider) -> None:
    told("add", f"git+{X}@v1")
    code, shown, errors = told("verify")
    assert (code, errors) == (0, "") and "as locked" in shown
    tagged.cached.clear()
    code, facts = told.json("verify")
    assert (code, facts["modules"][0]["state"]) == (1, "missing")


def test_damage_and_moved_tags_are_found(told: Told, tagged: TwinProvider) -> None:
    told("add", f"git+{X}@v1")
    tagged.damaged.add(tree_of("one"))
    code, shown, errors = told("verify")
    assert (
        code == 1
        and "DAMAGED" in shown
        and "WARNING: tool-x: no longer what was put into the cache: its code" in errors
    )
    tagged.damaged.clear()
    for kind, said in (("tag", "the tag `v1` is at"), ("branch", "was a tag and is a branch")):
        tagged.has(X, "v1", Version("two"), kind)
        code, shown, errors = told("verify")
        assert code == 1 and "MOVED" in shown and said in errors
        assert tagged.fetched == {"one"}, "nothing is fetched of what a tag was moved to"
        assert told("verify", "--offline")[0] == 0
    del tagged.refs[X]
    code, shown, errors = told("verify")
    assert code == 1 and "not known" in shown and "cannot fetch" in errors


def test_a_branch_that_went_on_is_no_finding(told: Told, provider: TwinProvider) -> None:
    moved(told, provider, Version("two", made=NEW))
    assert told("verify")[0] == 0


# -- remove --------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["tool-x", f"git+{X}", f"git+{X}.git@v1", f"git+{X}@v1"])
def test_a_module_is_taken_out_of_the_lock_file(named: str, told: Told, tagged: TwinProvider) -> None:
    tagged.has("https://example.org/other", "", Version("other"), "default")
    told("add", f"git+{X}@v1")
    told("add", "git+https://example.org/other")
    code, facts = told.json("remove", named)
    assert (code, facts["removed"]) == (0, [f"git+{X}@v1"])
    assert list(locked()) == ["git+https://example.org/other"]


def test_an_id_that_only_its_code_tells_is_known_too(told: Told, provider: TwinProvider) -> None:
    provider.has(X, "", Version("one", ids=("tool-a", "tool-b")), "default")
    told("add", f"git+{X}", "--as", "tool-a")
    assert told("remove", "tool-b")[0] == 0 and not locked()
    code, _, errors = told("remove", "tool-b")
    assert code == 1 and "no module `tool-b`" in errors


def test_out_of_a_plan_it_goes_with_its_lock_unless_another_needs_that(told: Told, tagged: TwinProvider) -> None:
    path = planned(f"{PLAN}  - module: tool-y\n    source: git+{X}@v1\n")
    told("lock")
    code, facts = told.json("remove", "tool-y", "--from", "plan.yaml")
    assert (code, facts["removed"], facts["kept"]) == (0, [], [f"git+{X}@v1"])
    assert path.read_text() == PLAN and list(locked()) == [f"git+{X}@v1"]
    code, facts = told.json("remove", f"git+{X}", "--from", "plan.yaml")
    assert (code, facts["removed"], facts["places"]) == (0, [f"git+{X}@v1"], ["tools[0]"])
    assert not locked() and "# mine" in path.read_text()


def test_what_is_several_or_none_or_needed_is_not_taken_out(told: Told, tagged: TwinProvider) -> None:
    tagged.has(X, "main", Version("two"), "branch")
    told("add", f"git+{X}@v1")
    told("add", MAIN)
    code, _, errors = told("remove", "tool-x")
    assert code == 1 and f"git+{X}@v1" in errors and MAIN in errors
    assert told("remove", MAIN)[0] == 0 and list(locked()) == [f"git+{X}@v1"]
    planned()
    assert told("remove", "loop-basic", "--from", "plan.yaml")[0] == 1
    assert told("remove", "tool-none", "--from", "plan.yaml")[0] == 1


@pytest.mark.parametrize("named", ["tool-x", f"git+{X}", f"git+{X}@v1"])
def test_a_module_of_the_plan_is_not_removed_from_the_lock_alone(named: str, told: Told, tagged: TwinProvider) -> None:
    path = planned()
    told("lock")
    before = LOCK.read_bytes()
    code, facts = told.json("remove", named)
    assert (code, facts["error"]["type"]) == (1, "StillNamedError")
    assert f"`paddock remove {named} --from {path}`" in told("remove", named)[2]
    assert (LOCK.read_bytes(), path.read_text()) == (before, PLAN)
    assert told("remove", named, "--from", "plan.yaml")[0] == 0 and not locked()


def test_what_the_plan_of_the_folder_does_not_name_is_taken_out(told: Told, tagged: TwinProvider) -> None:
    planned()
    tagged.has("https://example.org/other", "", Version("other"), "default")
    told("lock")
    told("add", "git+https://example.org/other")
    assert told("remove", "other")[0] == 0 and list(locked()) == [f"git+{X}@v1"]


def test_where_nothing_is_locked_no_name_is_told(told: Told) -> None:
    assert "hint: nothing is locked there; `-C DIR` names another folder\n" in told("remove", "tool-shot")[2]


def test_what_is_not_there_is_told_by_the_names_that_are_listed(told: Told, provider: TwinProvider) -> None:
    repository = "https://example.org/repo"
    planned(f"{SESSION}tools:\n  - module: tool-shout\n    source: git+{repository}\n")
    provider.has(repository, "", Version("one"), "default")
    told("lock")
    assert "did you mean `tool-shout`?\n" in told("remove", "tool-shot")[2]
    assert "known there: tool-shout\n" in told("remove", "tool-web")[2]
    assert "tool-shout" in told("list")[1]


# -- all of them ---------------------------------------------------------------------------


def test_servers_are_asked_in_threads(told: Told, provider: TwinProvider) -> None:
    moved(told, provider, Version("two", made=NEW))
    told("update", "--yes")
    assert provider.threads and threading.get_ident() not in provider.threads


def test_a_defect_is_told_as_one(told: Told, provider: TwinProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **more: object) -> None:
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(provider, "pin", broken)
    code, shown, errors = told("add", f"git+{X}")
    assert (code, shown) == (3, "") and "not foreseen" in errors and "paste" in errors


def test_a_module_that_may_connect_everywhere_is_marked_in_the_list(told: Told, provider: TwinProvider) -> None:
    planned(
        f"{SESSION}tools:\n  - {{module: tool-web, source: ./module, permissions: {{net: [public]}}}}\n"
        "  - {module: tool-f, source: ./module, permissions: {net: [example.org]}}\n",
    )
    Path("module").mkdir()
    code, facts = told.json("list")
    assert code == 0
    assert [one["module"] for one in facts["modules"] if one["public"]] == ["tool-web"]
    rows = [line for line in told("list")[1].splitlines() if "ANY PUBLIC HOST" in line]
    assert len(rows) == 1 and rows[0].startswith("tool-web")
