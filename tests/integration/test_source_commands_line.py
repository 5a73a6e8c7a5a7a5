"""Modules from real repositories, as people and scripts add, lock, update and verify them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import Terminal, paddock
from paddock_sources.lock.lock_text import lock_text
from paddock_sources.lock.locked_module import LockedModule
from sources.git.origin_repository import OriginRepository

pytestmark = pytest.mark.usefixtures("in_tmp_path")

_SHOUT = """
from amplifier_core import ToolResult

class Shout:
    name = "shout"
    description = "Says it louder."
    input_schema = {"type": "object", "properties": {"text": {"type": "string"}}}

    async def execute(self, input):
        return ToolResult(output=input["text"].upper() + "MARK")

async def mount(coordinator, config):
    await coordinator.mount("tools", Shout())
"""
_PLAN = """\
# mine
session: {orchestrator: loop-basic, context: context-simple}
providers:
  - module: provider-mock
    config: {fallback: "You said: {prompt}"}
"""


def _files(mark: str, *, asks: str = "") -> dict[str, str | bytes]:
    project = '[project]\nname = "amplifier-module-tool-shout"\nversion = "1.0"\n'
    return {
        "pyproject.toml": project + (f"[tool.paddock.permissions]\n{asks}\n" if asks else ""),
        "amplifier_module_tool_shout/__init__.py": _SHOUT.replace("MARK", mark),
    }


_SINGER = """
from pathlib import Path

from amplifier_core import ToolResult

_TOP = Path(__file__).parents[3]

class Sing:
    name = "sing"
    description = "Sings a song of the collection."
    input_schema = {"type": "object"}

    async def execute(self, input):
        song = (_TOP / "songs" / "first.txt").read_text()
        try:
            (_TOP / "songs" / "second.txt").write_text(song)
        except OSError:
            song += ", and it stays as it is"
        return ToolResult(output=[song, sorted(path.name for path in _TOP.parent.iterdir())])

async def mount(coordinator, config):
    await coordinator.mount("tools", Sing())
"""


@pytest.fixture
def origin(tmp_path: Path) -> OriginRepository:
    repository = OriginRepository(tmp_path / "amplifier-module-tool-shout")
    repository.commit(_files("!", asks='net = ["a.example:443"]'))
    repository.git("tag", "v1")
    return repository


def told(*args: str) -> tuple[int, Any]:
    done = paddock(*args, "--json")
    assert done.stdout.count("\n") == 1, done.stderr
    return done.returncode, json.loads(done.stdout)


def shouted(*more: str) -> str:
    source = f"git+file://{Path.cwd()}/amplifier-module-tool-shout@main"
    code, result = told("call", source, "shout", '{"text": "a"}', *more)
    assert code == 0, result
    return str(result["output"])


@pytest.mark.exhaustive
def test_a_module_is_added_to_a_plan_and_is_part_of_its_session(tmp_path: Path, origin: OriginRepository) -> None:
    (tmp_path / "plan.yaml").write_text(_PLAN)
    added = paddock("add", f"{origin.address}@v1", "--to", "plan.yaml")
    assert added.returncode == 0, added.stderr
    assert "tag v1, dated 2024-01-02" in added.stdout and "a.example:443" in added.stdout
    written = (tmp_path / "plan.yaml").read_text()
    assert written.startswith(_PLAN)
    assert "net: ['a.example:443'] # where it may connect to, and nowhere else" in written
    assert told("run", "plan.yaml", "hello")[0] == 4  # nobody accepted that yet
    code, turn = told("run", "plan.yaml", "hello", "--trust-plan")
    assert (code, turn["response"]) == (0, "You said: hello")
    assert "tool-shout" in [module["module"] for module in turn["modules"]]
    assert told("lock", "--check", "--offline")[0] == 0


def test_a_module_reads_all_of_its_repository_and_nothing_beside_it(tmp_path: Path) -> None:
    repository = OriginRepository(tmp_path / "collection")
    repository.commit({"songs/first.txt": "la", "modules/singer/amplifier_module_tool_sing/__init__.py": _SINGER})
    code, result = told("call", f"git+file://{tmp_path}/collection@main#subdirectory=modules/singer", "sing")
    assert (code, result["output"]) == (0, ["la, and it stays as it is", ["tree.d"]]), result
    assert not list(tmp_path.glob("**/second.txt"))


def test_a_listed_source_that_passes_for_another_is_marked(tmp_path: Path) -> None:
    for name, said in (
        ("t\u043eol-x", "`\u043e` is U+043E CYRILLIC SMALL LETTER O"),
        ("tool\ufe0f-x", "`\ufe0f` is U+FE0F VARIATION SELECTOR-16"),  # which shows nothing
    ):
        (tmp_path / "plan.yaml").write_text(f"{_PLAN}tools:\n- {{module: tool-x, source: ./{name}}}\n")
        done = paddock("list", "plan.yaml")
        shown = " ".join(done.stdout.partition("tool-x")[2].split())
        assert shown.startswith(f"folder, not locked [NOT AS IT LOOKS: {said}]")


def test_a_plans_path_draws_nothing_on_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "\x1b]0;owned\x07"
    folder.mkdir()
    plan = folder / "other.yaml"
    plan.write_text(f"{_PLAN}tools:\n- {{module: tool-x, source: 'git+https://h.example/x@v1'}}\n")
    unlocked = paddock("sync", str(plan))
    locked = LockedModule("git+https://h.example/x@v1", "v1", "0" * 40, f"sha256:{'0' * 64}", requested_kind="branch")
    (folder / "paddock.lock").write_text("".join(lock_text([locked])))
    unfetched = paddock("verify", str(plan))
    for done in (unlocked, unfetched):
        assert done.returncode == 1 and "hint:" in done.stderr, done.stderr
        assert "\\x1b]0;owned\\x07/other.yaml" in done.stderr
        assert not {"\x1b", "\x07"} & set(done.stdout + done.stderr)


def test_what_a_module_asks_for_in_other_letters_is_marked(tmp_path: Path, origin: OriginRepository) -> None:
    mark = "[NOT AS IT LOOKS: `\u0430` is U+0430 CYRILLIC SMALL LETTER A]"
    origin.commit(_files("!", asks='net = ["\u0430pi.example:443"]\nread = ["./notes"]'))
    added = paddock("add", f"{origin.address}@main")
    assert added.returncode == 0, added.stderr
    assert f"{mark} net \u0430pi.example:443; read ./notes" in " ".join(added.stdout.split())
    origin.commit(_files("!", asks='net = ["\u0430pi.example:443"]\nread = ["./notes", "./d\u0430ta"]'))
    updated = paddock("update", "--yes")
    assert f"{mark} read ./d\u0430ta" in " ".join(updated.stdout.split())


def test_what_is_locked_is_what_runs_until_it_is_updated(tmp_path: Path, origin: OriginRepository) -> None:
    assert told("add", f"{origin.address}@main")[0] == 0
    origin.commit(_files("?", asks='net = ["a.example:443"]'), GIT_COMMITTER_DATE="2024-02-02T00:00:00Z")
    assert shouted() == "A!"
    code, updated = told("update", "--min-age", "7d")
    assert (code, updated["modules"][0]["state"]) == (0, "updated")
    assert updated["modules"][0]["new"]["committed_at"] == "2024-02-02T00:00:00+00:00"
    assert shouted("--offline", "--frozen") == "A?"


def test_a_version_that_asks_for_more_is_taken_after_a_yes(tmp_path: Path, origin: OriginRepository) -> None:
    assert told("add", f"{origin.address}@main")[0] == 0
    origin.commit(_files("?", asks='net = ["a.example:443", "b.example:443"]'))
    before = (tmp_path / "paddock.lock").read_bytes()
    with Terminal("update") as terminal:
        terminal.type("no\n")  # before there is a question: no answer
        terminal.until("Paddock asks, not a module")
        terminal.until("+ net b.example:443")
        terminal.until("yes or no, and Enter [no]:")
        assert (tmp_path / "paddock.lock").read_bytes() == before
        terminal.type("yes\n")
        assert terminal.exit_code() == 0, terminal.shown
    assert (tmp_path / "paddock.lock").read_bytes() != before


def test_a_tag_that_moved_is_seen_and_not_followed(tmp_path: Path, origin: OriginRepository) -> None:
    assert told("add", f"{origin.address}@v1")[0] == 0
    origin.commit(_files("?"))
    origin.git("tag", "--force", "v1")
    code, verified = told("verify")
    assert (code, verified["modules"][0]["state"]) == (1, "moved")
    refused = paddock("update", "--yes")
    assert refused.returncode == 4 and "WARNING" in refused.stderr and "--allow-moved-tag" in refused.stderr


def test_damage_to_what_is_locked_is_found(tmp_path: Path, origin: OriginRepository) -> None:
    assert told("add", f"{origin.address}@v1")[0] == 0
    (damaged,) = (tmp_path / "cache").glob("trees-v2/*/tree.d/pyproject.toml")
    damaged.chmod(0o644)
    damaged.write_text("[project]\n")
    code, verified = told("verify", "--offline")
    assert (code, verified["modules"][0]["state"]) == (1, "damaged")


@pytest.mark.exhaustive
def test_without_its_remote_what_is_not_in_the_cache_is_named(tmp_path: Path, origin: OriginRepository) -> None:
    done = paddock("add", f"{origin.address}@v1", "--offline")
    assert done.returncode == 1 and "offline" in done.stderr and not (tmp_path / "paddock.lock").exists()
    assert told("add", f"{origin.address}@v1")[0] == 0
    shutil.rmtree(tmp_path / "amplifier-module-tool-shout")
    code, synced = told("sync")
    assert (code, synced["modules"][0]["ready"]) == (0, True)
    (tmp_path / "cache").rename(tmp_path / "cache that is gone")
    code, synced = told("sync")
    assert (code, synced["modules"][0]["ready"]) == (1, False) and "tool-shout" in synced["modules"][0]["problem"]


@pytest.mark.exhaustive
def test_work_that_is_in_no_commit_does_not_run_and_is_told_of(origin: OriginRepository) -> None:
    call = ("call", f"{origin.address}@main", "shout", '{"text": "a"}')
    assert "warning" not in paddock(*call).stderr
    origin.folder.joinpath("amplifier_module_tool_shout/__init__.py").write_text(_SHOUT.replace("MARK", "?"))
    done = paddock(*call)
    assert done.stdout.strip() == "A!" and "working tree" in done.stderr
    (folder,) = re.findall("name the folder to run it as it is: `(.*)`", done.stderr)
    assert paddock("call", folder, *call[2:]).stdout.strip() == "A?"


def test_ctrl_c_ends_a_question_and_writes_nothing(tmp_path: Path, origin: OriginRepository) -> None:
    with Terminal("add", f"{origin.address}@v1") as terminal:
        terminal.until("yes or no, and Enter [no]:")
        terminal.type("\x03")
        assert terminal.exit_code() == 130, terminal.shown
    assert not (tmp_path / "paddock.lock").exists()
