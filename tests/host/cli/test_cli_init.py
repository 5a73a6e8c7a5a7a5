"""The plan that `paddock init` writes: what is in it, what is refused, and that nothing that is there is lost."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from paddock.cli.init.init_command import init
from paddock.plan.load import load_plan
from paddock.plan.permissions import Permissions, grants_of
from paddock.plan.writing import PlannedModule, plan_text, write_plan
from paddock_sources import BuiltinSource


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    # Their versions are chosen in other tests; where no index is to be had, that is tried for seconds.
    monkeypatch.setattr(BuiltinSource, "has_dependencies", lambda source, module_id: False)


class Told:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, plan: str = "plan.yaml", **options: Any) -> tuple[int, str, str]:
        given = {
            "origin": None,
            "provider": None,
            "model": None,
            "key_variable": None,
            "base_url": None,
            "approvals": None,
            "tools": (),
            "logs": None,
            "asks_nothing": False,
            "replaces": False,
            "as_json": False,
        }
        code = init.callback(Path(plan), **{**given, **options})
        shown = self._capsys.readouterr()
        return code, shown.out, shown.err


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    return Told(capsys)


def module_folder(folder: Path, module_id: str, kind: str = "") -> Path:
    package = folder / f"amplifier_module_{module_id.replace('-', '_')}"
    package.mkdir(parents=True)
    declared = f'__amplifier_module_type__ = "{kind}"\n' if kind else ""
    (package / "__init__.py").write_text(f"{declared}async def mount(coordinator, config): ...\n")
    return folder


def test_without_a_terminal_the_vendor_whose_key_is_set_is_taken(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    _, shown, errors = told()
    assert "provider-mock plays a script, as neither" in shown and not errors
    assert "no order to you" in load_plan(Path("plan.yaml")).instruction.text
    monkeypatch.setenv("OPENAI_API_KEY", "sk-123")
    _, shown, _ = told(asks_nothing=True, replaces=True)
    assert load_plan(Path("plan.yaml")).providers[0].module == "provider-openai"
    assert "as OPENAI_API_KEY is set" in shown and "sk-123" not in shown
    _, shown, _ = told(asks_nothing=True, replaces=True, provider="provider-mock")
    assert load_plan(Path("plan.yaml")).providers[0].module == "provider-mock" and "is set" not in shown


def test_a_key_of_a_server_on_this_machine_is_written_once_it_is_set(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    for name, keys in (("ollama", []), ("mistral", ["MISTRAL_API_KEY"])):
        module_folder(tmp_path / f"provider-{name}", f"provider-{name}", "provider")
        _, shown, _ = told(asks_nothing=True, replaces=True, provider=f"./provider-{name}")
        assert [one.name for one in load_plan(Path("plan.yaml")).providers[0].permissions.secrets] == keys
        assert ("export" in shown) == bool(keys)
    monkeypatch.setenv("OLLAMA_API_KEY", "a-key")
    told(asks_nothing=True, replaces=True, provider="./provider-ollama")
    assert load_plan(Path("plan.yaml")).providers[0].permissions.secrets[0].inject == "127.0.0.1:11434"


def test_what_takes_an_accepted_plan_is_announced(told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also code that lies outside: it was refused without a terminal, and nothing had said so."""
    module_folder(tmp_path / "tool-near", "tool-near", "tool")
    elsewhere = module_folder(tmp_path / "tool-far", "tool-far", "tool")
    (tmp_path / "work").mkdir()
    announced = "Paddock asks once whether you accept what the plan names"
    for plan, tool, is_said in (("a.yaml", "./tool-near", False), ("b.yaml", str(elsewhere), True)):
        if is_said:
            monkeypatch.chdir(tmp_path / "work")
        code, shown, errors = told(plan, asks_nothing=True, provider="provider-mock", tools=(tool,))
        assert (code, announced in shown) == (0, is_said), errors


@pytest.mark.parametrize("is_repository", [True, False])
def test_the_folder_is_read_for_git_only_in_a_repository(told: Told, tmp_path: Path, is_repository: bool) -> None:
    if is_repository:
        (tmp_path / ".git").mkdir()
    told(tools=["none"])
    (status,) = load_plan(Path("plan.yaml")).hooks
    granted = grants_of(status.permissions)
    assert (granted.read, granted.run) == (((".",), ("git",)) if is_repository else ((), ()))


def test_what_is_granted_is_explained_beside_it(told: Told) -> None:
    told(logs=True)
    text = Path("plan.yaml").read_text()
    assert "permissions: workspace # reads and writes the folder it works in" in text
    assert "write: [./logs] # files and folders that it may read and change" in text
    assert all("#" in line for line in text.splitlines() if "permissions: " in line)
    assert Path("logs").is_dir()  # what is granted has to exist
    assert load_plan(Path("plan.yaml")).hooks[0].permissions.write == ("./logs",)


@pytest.mark.parametrize(
    ("has_terminal", "options", "is_there"),
    [
        (False, {}, False),
        (False, {"approvals": True}, True),
        (True, {}, True),
        (True, {"approvals": False}, False),
        (True, {"as_json": True}, False),
        (True, {"tools": ["tool-bash"]}, True),
        (True, {"tools": ["tool-search", "tool-todo"]}, False),
        (True, {"tools": ["tool-search"], "approvals": True}, True),
    ],
)
def test_on_a_terminal_tools_that_change_things_have_approvals(
    told: Told, monkeypatch: pytest.MonkeyPatch, has_terminal: bool, options: dict[str, Any], is_there: bool
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: has_terminal)
    monkeypatch.setattr("sys.stderr.isatty", lambda: has_terminal)
    assert told(asks_nothing=True, **options)[0] == 0
    hooks = load_plan(Path("plan.yaml")).hooks
    assert [hook.module for hook in hooks] == [*["hooks-approval"] * is_there, "hooks-status-context"]
    assert all(hook.permissions == Permissions() and not hook.config for hook in hooks[:-1])
    text = Path("plan.yaml").read_text()
    assert ("# asks you before a tool does more than read files and plan" in text) == is_there


def test_modules_in_folders_are_named_by_what_they_are_and_where_they_are(told: Told, tmp_path: Path) -> None:
    module_folder(tmp_path / "amplifier-module-tool-mine", "tool-mine")
    elsewhere = module_folder(tmp_path / "elsewhere" / "odd name", "provider-own")
    (tmp_path / "plans").mkdir()
    code, _, errors = told(
        "plans/my.yml", provider="./elsewhere/odd name", tools=["./amplifier-module-tool-mine", "tool-filesystem"]
    )
    assert (code, errors) == (0, "")
    plan = load_plan(Path("plans/my.yml"))
    assert (plan.providers[0].module, plan.providers[0].source) == ("provider-own", str(elsewhere))
    assert [entry.module for entry in plan.tools] == ["tool-mine", "tool-filesystem"]
    code, _, _ = told("plan.yaml", tools=["./amplifier-module-tool-mine"])
    assert "source: ./amplifier-module-tool-mine" in Path("plan.yaml").read_text()


def test_a_known_vendors_module_gets_its_host_and_an_injected_key(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    module_folder(tmp_path / "amplifier-module-provider-openai", "provider-openai")
    code, shown, _ = told(provider="./amplifier-module-provider-openai")
    assert code == 0
    assert "read -rs OPENAI_API_KEY && export OPENAI_API_KEY" in shown and "--trust-plan" in shown
    granted = load_plan(Path("plan.yaml")).providers[0].permissions
    assert granted.net == ("api.openai.com:443",) and granted.env == ("OPENAI_API_KEY=${OPENAI_API_KEY}",)
    assert [(secret.name, bool(secret.inject)) for secret in granted.secrets] == [("OPENAI_API_KEY", True)]
    assert "it never sees the value" in Path("plan.yaml").read_text()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-123")
    _, shown, _ = told(provider="./amplifier-module-provider-openai", replaces=True)
    assert "export" not in shown and "sk-123" not in shown + Path("plan.yaml").read_text()


def test_what_a_module_goes_without_is_said_in_the_plan(told: Told, tmp_path: Path) -> None:
    module_folder(tmp_path / "amplifier-module-tool-web", "tool-web")
    told(tools=["./amplifier-module-tool-web"])
    assert "# it goes without the network" in Path("plan.yaml").read_text()


def test_no_tool_is_an_answer_and_the_same_one_twice_is_one(told: Told) -> None:
    told(tools=["none"])
    assert load_plan(Path("plan.yaml")).tools == ()
    told(tools=["tool-filesystem", "builtin:tool-filesystem"], replaces=True)
    assert len(load_plan(Path("plan.yaml")).tools) == 1 and os.listdir() == ["plan.yaml"]


@pytest.mark.parametrize(
    "put", [lambda plan: plan.write_text("mine"), lambda plan: plan.symlink_to("nowhere"), Path.mkdir]
)
def test_a_plan_that_is_there_stays_as_it_is(told: Told, tmp_path: Path, put: Callable[[Path], object]) -> None:
    put(plan := tmp_path / "plan.yaml")
    code, shown, errors = told(as_json=True)
    assert code == 1 and "is there already" in errors
    assert json.loads(shown)["error"]["type"] == "PlanExistsError"
    assert not plan.is_file() or plan.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["plan.yaml"]


@pytest.mark.parametrize(
    ("options", "told_of"),
    [
        ({"provider": "git+file:///nowhere/amplifier-module-provider-x@v1"}, "/nowhere/amplifier-module-provider-x"),
        ({"provider": "provider-gemini"}, "name its code: `git+https://…`, `./folder`"),
        ({"provider": "tool-filesystem"}, "is of kind tool, not provider"),
        ({"tools": ["provider-mock"]}, "is of kind provider, not tool"),
        ({"provider": "./nowhere"}, "no such file or directory"),
        ({"provider": "\x1b[2J"}, r"\x1b[2J"),
        ({"provider": "https://host/x.zip"}, "archives are not available"),
        ({"tools": ["./empty"]}, "there is no package in it"),
        ({"tools": ["./resolver-x"]}, "resolver"),
    ],
)
def test_what_a_plan_cannot_run_is_refused_and_nothing_written(
    told: Told, tmp_path: Path, options: dict[str, Any], told_of: str
) -> None:
    (tmp_path / "empty").mkdir()
    module_folder(tmp_path / "resolver-x", "resolver-x", "resolver")
    code, shown, errors = told(**options)
    assert code == 1 and told_of in errors and "\x1b" not in errors
    assert not shown and not (tmp_path / "plan.yaml").exists()


@pytest.mark.parametrize("name", ["plan.json", "plan.toml", "plan"])
def test_a_plan_with_comments_is_yaml(told: Told, name: str) -> None:
    with pytest.raises(click.UsageError, match="written as YAML"):
        told(name)


# -- the text ------------------------------------------------------------------------------

ALL = Permissions.model_validate(
    {
        "read": [".", "./a b # c"],
        "write": ["./out"],
        "run": ["*"],
        "net": ["api.example.org:443"],
        "env": ["KEY=${KEY}", "LANG"],
        "secrets": ["PLAIN", {"name": "KEY", "inject": "host"}],
        "call": ["tools:x"],
        "emit": ["tool:*"],
        "hooks": ["*"],
        "mount": ["providers"],
    }
)


@pytest.mark.parametrize(
    "permissions", [Permissions(), ALL, *(Permissions(preset=one) for one in ("isolated", "shell"))]
)
@pytest.mark.parametrize("purpose", ["", "says: # \n- module: evil\x1b[2J"])
def test_a_plan_reads_back_as_what_was_meant(tmp_path: Path, permissions: Permissions, purpose: str) -> None:
    config = {"text": "a: b\n# c", "on": "yes", "number": 1, "list": ["{prompt}", None], "é": "\u2028"}
    modules = [
        PlannedModule("orchestrator", "loop-basic"),
        PlannedModule("context", "context-simple", purpose=purpose),
        PlannedModule("tool", "tool-x", "./a b: #c", config, permissions, purpose),
    ]
    text = plan_text(modules)
    assert "\x1b" not in text
    plan = write_plan(tmp_path / "plan.yaml", text)
    (tool,) = plan.tools
    assert tool.permissions == permissions
    assert tool.config == config and tool.source == str(tmp_path / "a b: #c")
    assert yaml.safe_load(text).keys() == {"session", "tools"}


def test_a_text_that_is_no_plan_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="problem"):
        write_plan(tmp_path / "plan.yaml", "tools: 1\n")
    assert not list(tmp_path.iterdir())


def test_everybody_may_read_a_plan_as_they_may_other_files(told: Told, tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    told()
    assert stat.S_IMODE((tmp_path / "plan.yaml").stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)
