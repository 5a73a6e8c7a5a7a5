"""Constraints and a module's own lock decide the versions that its worker imports, whichever command chooses them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import Terminal, nothing_outlives_its_command, paddock
from sources.git_repositories import lay_out, module_files, repository
from sources.index_server import IndexServer

_PLAN = """\
session: {{orchestrator: loop-basic, context: context-simple}}
providers:
  - module: provider-mock
    config: {{fallback: "You said: {{prompt}}"}}
tools:
  - module: tool-greet
    source: ./tool-greet
{entry}
{whole}
"""


@contextmanager
def _index() -> Iterator[IndexServer]:
    with IndexServer() as index:
        index.add_wheel("leaf", "1.0")
        index.add_wheel("leaf", "2.0")
        index.add_wheel("branch", "1.0", requires=["leaf>=1"])
        yield index


@pytest.fixture(scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[IndexServer, Path]]:
    """An index that no test adds to, and a cache in which an environment of its wheels is built once."""
    with _index() as index:
        yield index, tmp_path_factory.mktemp("rules") / "cache"


@pytest.fixture(autouse=True)
def folder_with_module(
    nothing_is_left_behind: None,
    _shared: tuple[IndexServer, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """A folder with the module `tool-greet`, and an index with two versions of what it depends on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PADDOCK_CACHE_DIR", str(_shared[1]))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("UV_DEFAULT_INDEX", _shared[0].url)
    module = module_files(
        answer="metadata.version('leaf')", imports="import importlib.metadata as metadata", requires=["branch"]
    )
    lay_out(tmp_path / "tool-greet", module)
    with nothing_outlives_its_command(tmp_path / "scratch", monkeypatch):
        yield


@pytest.fixture
def index(folder_with_module: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexServer]:
    """An index of the test's own, to add to or to count requests of, and an empty cache."""
    monkeypatch.setenv("PADDOCK_CACHE_DIR", str(tmp_path / "cache"))
    with _index() as index:
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        yield index


def plan(entry: str = "", whole: str = "", name: str = "plan.yaml") -> None:
    Path(name).write_text(_PLAN.format(entry=f"    {entry}" if entry else "", whole=whole))


def settings(text: str) -> None:
    folder = Path("config/paddock")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sources.toml").write_text(text)


def answered(*args: str) -> tuple[int, Any]:
    done = paddock(*args, "--json")
    return done.returncode, json.loads(done.stdout)


def locked() -> str | None:
    """Return the locked version of `leaf`."""
    if not Path("paddock.lock").exists():
        return None
    found = re.search(r'name = "leaf"\nversion = "([^"]+)"', Path("paddock.lock").read_text())
    return found[1] if found is not None else None


def imported() -> str:
    """Return the version of `leaf` that the module imports with the lock file of the folder."""
    code, result = answered("call", "./tool-greet", "tool_greet", "--frozen")
    assert code == 0, result
    return str(result["output"])


def uv_lock(leaf: str, source: str = '{ registry = "https://pypi.org/simple" }', hashes: str = "") -> None:
    Path("tool-greet/uv.lock").write_text(f"""\
version = 1

[[package]]
name = "amplifier-module-tool-greet"
version = "1.0.0"
source = {{ editable = "." }}
dependencies = [{{ name = "branch" }}]

[[package]]
name = "branch"
version = "1.0"
source = {{ registry = "https://pypi.org/simple" }}
dependencies = [{{ name = "leaf" }}]

[[package]]
name = "leaf"
version = "{leaf}"
source = {source}
{hashes}
""")


def test_a_constraint_anywhere_bounds_what_is_locked_and_run() -> None:
    plan()
    assert answered("lock")[0] == 0 and locked() == "2.0"
    for entry, whole, user in (
        ('constraints: ["leaf<2"]', "", ""),
        ("", 'constraints: ["leaf<2"]', ""),
        ("", "", 'constraints = ["leaf<2"]\n'),
    ):
        Path("paddock.lock").unlink()
        settings(user)
        plan(entry, whole)
        assert answered("lock")[0] == 0 and locked() == "1.0", (entry, whole, user)
    assert imported() == "1.0"


@pytest.mark.exhaustive
def test_a_run_chooses_again_where_the_lock_contradicts_a_constraint() -> None:
    plan()
    assert answered("lock")[0] == 0 and locked() == "2.0"
    plan('constraints: ["leaf<2"]')
    for flag in ("--locked", "--frozen"):
        done = paddock("run", "plan.yaml", "hi", "--trust-plan", flag)
        assert "`paddock.lock` has other dependencies for `./tool-greet`" in done.stderr, done.stderr
        assert "leaf 2.0, where only `leaf<2` (plan.yaml:8) is wanted" in done.stderr
        assert "`paddock update ./tool-greet`" in done.stderr and locked() == "2.0"
    done = paddock("run", "plan.yaml", "hi", "--trust-plan")
    assert (done.returncode, locked()) == (0, "1.0"), done.stderr
    assert "its dependencies are chosen and locked again" in done.stderr
    assert imported() == "1.0"
    done = paddock("run", "plan.yaml", "hi", "--trust-plan", "--locked")
    assert (done.returncode, "again" in done.stderr) == (0, False), done.stderr


@pytest.mark.exhaustive
def test_why_names_the_locked_version_and_what_bounds_it() -> None:
    plan('constraints: ["leaf<2"]', 'constraints: ["branch<9"]')
    asked = ("why", "tool-greet", "package", "Leaf")
    done = paddock(*asked)
    assert done.returncode == 1 and "nothing is locked for `tool-greet`" in done.stderr
    assert answered("lock")[0] == 0
    code, told = answered(*asked)
    here = Path.cwd()
    assert (code, told["version"], told["contradicted"]) == (0, "1.0", False), told
    assert told["constraints"] == [f"`leaf<2` ({here}/plan.yaml:8)"]
    said = paddock(*asked, environ={"COLUMNS": "400"}).stdout
    assert f"`tool-greet` has `leaf` 1.0\n  bounded by  `leaf<2` ({here}/plan.yaml:8)\n" in said
    assert paddock("update", "tool-greet", "--packages").returncode == 0 and locked() == "1.0"  # as it proposes
    plan('constraints: ["leaf>1"]')
    said = paddock(*asked, "--plan", "plan.yaml").stdout
    assert "the lock contradicts that; `paddock lock` chooses the version again" in said
    assert answered("lock")[0] == 0 and answered(*asked)[1]["version"] == "2.0"
    done = paddock("why", "tool-greet", "package", "laef")
    assert done.returncode == 1 and "did you mean `leaf`?" in done.stderr
    done = paddock("why", "tool-great", "package", "leaf")
    assert done.returncode == 1 and "did you mean `tool-greet`?" in done.stderr
    assert paddock(*asked, "--session", "x").returncode == 2
    Path("plan.yaml").rename("other.yaml")
    said = paddock(*asked, "--plan", "other.yaml", environ={"COLUMNS": "400"}).stdout
    assert f"`paddock update tool-greet --packages --plan {here}/other.yaml` takes newer versions" in said


@pytest.mark.exhaustive  # each command locks by the same choice
def test_update_lock_and_sync_keep_to_constraints() -> None:
    plan()
    assert answered("lock")[0] == 0
    plan('constraints: ["leaf<2"]')
    code, facts = answered("sync")
    assert code == 1 and "other dependencies" in facts["modules"][-1]["problem"]
    code, facts = answered("lock", "--check")
    assert (code, locked()) == (1, "2.0") and facts["missing"][0]["reason"].startswith(
        "locked with leaf 2.0, where only"
    )
    assert "plan.yaml:8) is wanted  ./tool-greet" in paddock("lock", "--check").stdout
    row = answered("list")[1]["modules"][-1]
    assert len(row["constraints"]) == 1 and row["constraints"][0].startswith("`leaf<2` (")
    assert "tool-greet: its dependencies keep to `leaf<2` (" in paddock("list").stdout
    code, facts = answered("update", "./tool-greet")
    assert (code, locked(), facts["modules"][0]["state"]) == (0, "1.0", "updated")
    assert facts["modules"][0]["reason"] == "dependencies: leaf 2.0 -> 1.0"
    assert [answered("lock", "--check")[0], answered("sync")[0]] == [0, 0]
    # A wider constraint moves nothing by itself: what is locked is within it.
    plan('constraints: ["leaf<3"]')
    assert answered("lock")[1]["locked"] == [] and answered("update")[0] == 0 and locked() == "1.0"
    code, facts = answered("update", "tool-greet", "--packages")
    assert (code, locked(), facts["modules"][0]["reason"]) == (0, "2.0", "dependencies: leaf 1.0 -> 2.0")
    assert answered("update", "--packages")[1]["modules"][0]["state"] == "current"
    plan('constraints: ["leaf<2"]')
    assert answered("lock")[0] == 0 and locked() == "1.0"
    plan('constraints: ["leaf>=2"]')
    assert len(answered("lock")[1]["locked"]) == 1 and locked() == "2.0"


@pytest.mark.exhaustive  # a call chooses as a run does
def test_a_call_by_an_accepted_plan_keeps_to_its_rules(tmp_path: Path, index: IndexServer) -> None:
    """What an accepted plan names is called within the plan's rules, and those of every entry of the same source."""
    index.add_wheel("leaf", "1.1")
    # The permissions are there only to be accepted.
    again = "  - module: tool-other\n    source: ./tool-greet\n    replaces: tool_greet"
    again += "\n    constraints: ['leaf!=1.1']"
    plan("permissions: {read: [../other]}", f"{again}\nconstraints: ['leaf<2']")
    (tmp_path.parent / "other").mkdir(exist_ok=True)
    with Terminal("run", "plan.yaml", "hi") as terminal:
        terminal.until("type the word yes")
        terminal.type("yes\n")
        assert terminal.exit_code() == 0, terminal.shown
    assert locked() == "1.0"
    code, result = answered("call", "tool-greet", "tool_greet")
    assert (code, result["output"]) == (0, "1.0"), result
    project = Path("tool-greet/pyproject.toml")
    as_accepted = project.read_text()
    # The code may change; what it asks for then is within the rules, or it does not run.
    for wanted, broken in (("leaf>=1", None), ("leaf==1.1", "`leaf!=1.1` (")):
        project.write_text(as_accepted.replace("branch", wanted))
        done = paddock("call", "tool-greet", "tool_greet")
        assert (done.returncode == 0) == (broken is None) and locked() == "1.0", done.stderr
        assert "as plan.yaml says" in done.stderr and (broken or "") in done.stderr


def test_a_contradiction_names_both_places(tmp_path: Path) -> None:
    settings('constraints = ["leaf>=2"]\n')
    plan('constraints: ["leaf<2"]')
    for args in (("lock",), ("run", "plan.yaml", "hi", "--trust-plan")):
        done = paddock(*args)
        assert done.returncode == 1 and locked() is None
        assert "no version of `leaf` is within all its constraints" in done.stderr, done.stderr
        assert "`leaf<2` (" in done.stderr and "plan.yaml:8)" in done.stderr and "sources.toml:1)" in done.stderr
    settings("")
    plan('constraints: ["leaf<2"]', 'constraints: ["leaf>=2"]')
    done = paddock("lock")
    assert done.returncode == 1 and "plan.yaml:9)" in done.stderr and "plan.yaml:8)" in done.stderr, done.stderr


def test_constraints_that_leave_nothing_are_named() -> None:
    plan('constraints: ["leaf>5"]')
    done = paddock("lock")
    assert done.returncode == 1, done.stdout
    assert "no set of versions is within the constraints `leaf>5` (" in done.stderr and "plan.yaml:8)" in done.stderr


def test_a_constraint_of_another_form_is_an_error_at_its_line() -> None:
    plan('constraints: ["leaf<2", "leaf @ https://example.com/leaf.whl"]', 'constraints: ["x[y]<1"]')
    done = paddock("lock")
    assert done.returncode == 1
    assert "plan.yaml:8" in done.stderr and "a constraint names no source" in done.stderr
    assert "plan.yaml:9" in done.stderr and "has extras" in done.stderr


@pytest.mark.exhaustive
def test_the_module_s_own_lock_decides_versions_when_asked_for(_shared: tuple[IndexServer, Path]) -> None:
    (kept,) = _shared[0].hashes_of("leaf", "1.0")
    uv_lock("1.0", hashes=f'wheels = [{{ url = "https://x/leaf.whl", hash = "{kept}" }}]')
    plan()
    assert answered("lock")[0] == 0 and locked() == "2.0"
    plan("dependencies: locked")
    done = paddock("run", "plan.yaml", "hi", "--trust-plan", "--locked")
    assert "leaf 2.0, where the module's uv.lock has 1.0" in done.stderr, done.stderr
    done = paddock("run", "plan.yaml", "hi", "--trust-plan")
    assert (done.returncode, locked()) == (0, "1.0"), done.stderr
    assert imported() == "1.0"
    plan("dependencies: locked\n    constraints: ['leaf>=2']")
    done = paddock("lock")
    assert done.returncode == 1 and "`leaf>=2` (" in done.stderr and "plan.yaml:9)" in done.stderr, done.stderr
    assert "`leaf==1.0` (the module's uv.lock)" in done.stderr


@pytest.mark.exhaustive
def test_add_takes_the_module_s_own_lock() -> None:
    uv_lock("1.0")
    plan()
    Path("plan.yaml").write_text(Path("plan.yaml").read_text().partition("tools:")[0])
    done = paddock("add", "./tool-greet", "--to", "plan.yaml", "--dependencies", "locked", "--yes")
    assert (done.returncode, locked()) == (0, "1.0"), done.stderr
    assert "dependencies: locked" in Path("plan.yaml").read_text()
    assert paddock("run", "plan.yaml", "hi", "--trust-plan", "--locked").returncode == 0


@pytest.mark.exhaustive
def test_add_keeps_to_the_rules_of_the_source_s_other_entries(index: IndexServer) -> None:
    plan('constraints: ["leaf<2"]', 'constraints: ["leaf<9"]')
    done = paddock("add", "./tool-greet", "--to", "plan.yaml", "--as", "tool-again", "--yes")
    assert (done.returncode, locked()) == (0, "1.0"), done.stderr
    assert answered("lock", "--check")[0] == 0
    Path("paddock.lock").unlink()
    index.add_wheel("leaf", "1.0", tag="py2.py3-none-any")  # the same bytes under another name
    assert answered("lock")[0] == 0 and locked() == "1.0"
    assert imported() == "1.0"


@pytest.mark.exhaustive
def test_a_repository_stays_at_its_commit_when_versions_change(tmp_path: Path) -> None:
    files = module_files(
        requires=["branch"], answer="metadata.version('leaf')", imports="import importlib.metadata as metadata"
    )
    made = repository(tmp_path / "many", {f"modules/greet/{path}": text for path, text in files.items()})
    source = f"git+file://{tmp_path}/many@main#subdirectory=modules/greet"
    plan()
    text = Path("plan.yaml").read_text().replace("./tool-greet", source)
    Path("plan.yaml").write_text(text)
    assert answered("lock")[0] == 0 and locked() == "2.0"
    commit = made.git("rev-parse", "HEAD").strip()
    uv_lock("1.0")
    (tmp_path / "many/uv.lock").write_text(Path("tool-greet/uv.lock").read_text())  # of the workspace around
    made.git("add", "-A")
    made.git("commit", "-qm", "Lock")
    Path("plan.yaml").write_text(f'{text}constraints: ["leaf<2"]\n')
    for args in (["run", "plan.yaml", "hi", "--trust-plan", "--offline"], ["sync"]):
        done = paddock(*args)
        assert done.returncode == 1 and "leaf 2.0, where only `leaf<2`" in done.stdout + done.stderr, done
    done = paddock("run", "plan.yaml", "hi", "--trust-plan")
    assert (done.returncode, locked()) == (0, "1.0") and commit in Path("paddock.lock").read_text(), done.stderr
    # With its own lock, which is in the newer commit alone, it is refused until an update takes that.
    Path("plan.yaml").write_text(text.replace(f"source: {source}", f"source: {source}\n    dependencies: locked"))
    assert "there is no such file in the module's folder or repository" in paddock("lock").stderr
    Path("paddock.lock").unlink()
    assert answered("lock")[0] == 0 and locked() == "1.0" and commit not in Path("paddock.lock").read_text()
    assert paddock("run", "plan.yaml", "hi", "--trust-plan", "--locked").returncode == 0


def test_an_unaccepted_plan_may_only_narrow_versions(index: IndexServer) -> None:
    plan('constraints: ["leaf @ http://127.0.0.1:1/leaf.whl"]')
    done = paddock("run", "plan.yaml", "hi")
    assert done.returncode == 1 and "names no source" in done.stderr and not index.requests
    uv_lock("1.0", '{ registry = "http://127.0.0.1:1/simple" }')
    plan('constraints: ["branch<2"]\n    dependencies: locked')
    done = paddock("run", "plan.yaml", "hi")
    assert (done.returncode, locked()) == (0, "1.0"), done.stderr
    assert index.requests  # the user's index, and not the one that the lock names


def test_what_has_no_own_lock_cannot_follow_one() -> None:
    plan("dependencies: locked")
    Path("plan.yaml").write_text(
        Path("plan.yaml").read_text().replace("source: ./tool-greet", "source: builtin:tool-bash")
    )
    done = paddock("lock")
    assert done.returncode == 1 and "is no repository or folder" in done.stderr, done.stderr
