"""The first hour with Paddock as a person at a terminal has it: what is asked when, and what an answer is good for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.command_line import Terminal, paddock
from integration.conftest import WriteModule
from integration.probe import tool_code
from sources.git_repositories import module_repository

pytestmark = pytest.mark.usefixtures("in_tmp_path")

_LOOP = """
    class Loop:
        \"\"\"Answers with what the one provider says of its key.\"\"\"

        async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **kwargs):
            return await providers["mistral"].complete(prompt)

    async def mount(coordinator, config):
        await coordinator.mount("orchestrator", Loop())
"""
_PROVIDER = """
    import os

    class Provider:
        name = "mistral"

        async def complete(self, prompt):
            key = os.environ.get("MISTRAL_API_KEY", "")
            return "no key" if not key else "the key itself" if key == "a-key-of-mistral" else "a placeholder"

    async def mount(coordinator, config):
        await coordinator.mount("providers", Provider(), name="mistral")
"""
_ASKS = "type the word yes, no or stop, and Enter:"
_FETCHES = "type the word yes or stop, and Enter:"
_KEY = {"MISTRAL_API_KEY": "a-key-of-mistral"}


@pytest.fixture
def mistral(tmp_path: Path, write_module: WriteModule) -> Path:
    """A plan whose provider, by its name of a known vendor, needs a key."""
    write_module("loop-ask", _LOOP)
    write_module("provider-mistral", _PROVIDER)
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "session:\n"
        "  orchestrator: {module: loop-ask, source: ./amplifier-module-loop-ask, permissions: isolated}\n"
        "  context: context-simple\n"
        "providers:\n"
        "  - module: provider-mistral\n"
        "    source: ./amplifier-module-provider-mistral\n"
    )
    return plan


def _answered(plan: Path, answer: str, *, environ: dict[str, str] | None = None) -> str:
    with Terminal("run", str(plan), "hello", environ=environ) as terminal:
        terminal.until(_ASKS)
        terminal.type(f"{answer}\n")
        assert terminal.exit_code() == 0, terminal.shown
        return terminal.shown


def _unasked(plan: Path, *, environ: dict[str, str] | None = None) -> str:
    with Terminal("run", str(plan), "hello", environ=environ) as terminal:
        assert terminal.exit_code() == 0, terminal.shown
        assert "Paddock asks" not in terminal.shown
        return terminal.shown


@pytest.mark.exhaustive
def test_plan_accepted_without_a_key_is_asked_about_once_it_is_set(mistral: Path) -> None:
    """And about that one module: the others keep what they were granted."""
    mistral.write_text(f"{mistral.read_text()}tools:\n  - module: tool-filesystem\n")
    assert "no key" in _answered(mistral, "yes")
    assert "no key" in _answered(mistral, "no", environ=_KEY)
    with Terminal("run", str(mistral), "hello", environ=_KEY) as terminal:
        terminal.until("has MISTRAL_API_KEY sent to api.mistral.ai")
        terminal.until("You accepted it before")
        terminal.until(_ASKS)
        terminal.type("yes\n")
        assert terminal.exit_code() == 0 and "a placeholder" in terminal.shown, terminal.shown
    assert "a placeholder" in _unasked(mistral, environ=_KEY)
    why = paddock("why", "tool-filesystem", "write", "new.txt", "--plan", str(mistral))
    assert why.returncode == 0, why.stdout


def test_why_names_the_reference_that_a_secret_lacks(mistral: Path) -> None:
    key = "MISTRAL_API_KEY"
    asked = ("why", "provider-mistral", "secrets", key, "--plan", str(mistral), "--json")
    told = json.loads(paddock(*asked).stdout)
    line = told["grant"]
    assert told["instead"] == f'config: {{api_key: "${{{key}}}"}}'
    mistral.write_text(f"{mistral.read_text()}    {line}\n")  # as a person pastes it
    assert paddock(*asked).returncode == 0
    done = paddock("run", str(mistral), "hello", "--trust-plan", environ=_KEY)
    assert (done.returncode, done.stdout) == (0, "a placeholder\n"), done.stderr
    mistral.write_text(mistral.read_text().replace(f'env: ["{key}=${{{key}}}"], ', ""))
    told = json.loads(paddock(*asked).stdout)
    assert not told["allowed"] and "neither its `config` nor its `env` says" in told["reason"]
    assert told["grant"] == line


@pytest.mark.exhaustive
def test_an_added_provider_takes_the_place_of_the_mock(tmp_path: Path, write_module: WriteModule) -> None:
    write_module("provider-mistral", _PROVIDER)
    write_module("loop-ask", _LOOP)
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "session:\n"
        "  orchestrator: {module: loop-ask, source: ./amplifier-module-loop-ask}\n"
        "  context: context-simple\n"
        "providers:\n"
        "  # plays a script\n"
        "  - module: provider-mock\n"
        "# the end\n"
    )
    with Terminal("add", "./amplifier-module-provider-mistral", "--to", "plan.yaml") as terminal:
        terminal.until("written into the plan: net api.mistral.ai:443")
        terminal.until("in place of: provider-mock, which plays a script and asks no model")
        for question in ("write nothing", "Write net", "Write env", "Write secrets"):
            terminal.until(question)
            terminal.until("type yes or no")
            terminal.type("yes\n")
        terminal.until("read -rs MISTRAL_API_KEY && export MISTRAL_API_KEY")
        assert terminal.exit_code() == 0, terminal.shown
    written = plan.read_text()
    assert "mock" not in written and "script" not in written and written.endswith("# the end\n")
    assert "inject: 'api.mistral.ai:443'} # it never sees the value" in written
    done = paddock("run", "plan.yaml", "hello", "--trust-plan", environ=_KEY)
    assert (done.returncode, done.stdout) == (0, "a placeholder\n"), done.stderr
    assert "no model answers" not in done.stderr


def test_a_second_provider_stands_beside_one_that_asks_a_model(mistral: Path, write_module: WriteModule) -> None:
    write_module("provider-groq", _PROVIDER)
    told = json.loads(paddock("add", "./amplifier-module-provider-groq", "--to", str(mistral), "--json").stdout)
    assert (told["place"], told["replaced"]) == ("providers[1]", None)


_TRIES = tool_code(
    "tries",
    """
    for name in ("one.txt", "two.txt"):
        try:
            Path(input["folder"], name).read_text()
        except OSError:
            pass
    return ToolResult(output="done")
    """,
)


@pytest.fixture
def tries(tmp_path: Path, write_module: WriteModule) -> Path:
    """A plan beside a folder with the code of a tool that reads two files of the working directory."""
    write_module("tool-tries", _TRIES)
    work = tmp_path / "work"
    work.mkdir()
    for name in ("one.txt", "two.txt"):
        (work / name).write_text(name)
    calls = json.dumps([{"tool_calls": [{"name": "tries", "arguments": {"folder": str(work)}}]}, "It is over."])
    plan = work / "plan.yaml"
    plan.write_text(
        "session: {orchestrator: loop-basic, context: context-simple}\n"
        f"providers: [{{module: provider-mock, config: {{responses: {calls}}}}}]\n"
        "tools:\n"
        "  - module: tool-filesystem\n"
        "  - module: tool-tries\n"
        "    source: ../amplifier-module-tool-tries\n"
    )
    return plan


def test_code_outside_the_folder_is_asked_about_and_y_is_yes(tries: Path) -> None:
    with Terminal("run", str(tries), "hello", "-C", str(tries.parent)) as terminal:
        terminal.until("its code, which lies neither beside the plan nor in the working directory")
        terminal.until("no   start nothing, and show the lines of the plan that need your consent")
        terminal.until(_ASKS)
        terminal.type("n\n")
        assert terminal.exit_code() == 4, terminal.shown
    with Terminal("run", str(tries), "hello", "-C", str(tries.parent)) as terminal:
        terminal.until(_ASKS)
        terminal.type("y\n")
        assert terminal.exit_code() == 0 and "It is over." in terminal.shown, terminal.shown
    assert paddock("run", str(tries), "hello", "-C", str(tries.parent)).returncode == 0  # the yes is remembered


def test_a_repository_of_this_machine_is_asked_about_before_a_look(tmp_path: Path) -> None:
    repository = module_repository(tmp_path / "greet")
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "session: {orchestrator: loop-basic, context: context-simple}\n"
        'providers: [{module: provider-mock, config: {fallback: "It is over."}}]\n'
        "tools:\n"
        "  - module: tool-greet\n"
        f"    source: git+file://{tmp_path}/greet\n"
    )
    said = f"`git+file://{tmp_path}/greet` is on this machine or a private network"
    done = paddock("run", str(plan), "hello")
    assert done.returncode == 4 and "no code was found" not in done.stderr and "looking up" not in done.stderr
    assert f"plan.yaml:5: tools[0].source: {said}, which needs a plan that you accepted" in done.stderr
    with Terminal("run", str(plan), "hello") as terminal:
        terminal.until(said)
        terminal.until(_FETCHES)
        terminal.type("stop\n")
        assert terminal.exit_code() != 0 and "looking up" not in terminal.shown, terminal.shown
    assert not (tmp_path / "paddock.lock").exists()
    why = ("why", "tool-greet", "read", "x", "--plan", str(plan))
    assert f"while there is a network: `paddock lock {plan}`" in paddock(*why).stderr
    with Terminal("run", str(plan), "hello") as terminal:
        terminal.until(_FETCHES)
        terminal.type("yes\n")
        assert terminal.exit_code() == 0 and "It is over." in terminal.shown, terminal.shown
    assert repository.git("rev-parse", "HEAD").strip() in (tmp_path / "paddock.lock").read_text()
    assert paddock("run", str(plan), "hello").returncode == 0  # it is here, and pinned
    assert paddock(*why).returncode == 4  # the module may not


def test_each_source_that_would_get_keys_is_asked_about_by_name(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    sources = {
        "git+ssh://git@git.example.org/x@v1": "is fetched with your own keys or credentials (ssh)",
        "git+ssh://git@evil.example/y@v1": "is fetched with your own keys or credentials (ssh)",
        "git+ssh://git@10.0.0.9/z@v1": "is on this machine or a private network, and is fetched with your own keys",
        "git+https://10.0.0.9/z@v1": "is on this machine or a private network, and gets the credentials that git has",
        "git+http://127.0.0.1:9/z@v1": "is on this machine or a private network, and is asked unencrypted",
    }
    listed = [f"  - {{module: tool-{index}, source: '{source}'}}\n" for index, source in enumerate(sources)]
    plan.write_text(
        "session: {orchestrator: loop-basic, context: context-simple}\n"
        f"providers: [{{module: provider-mock}}]\ntools:\n{''.join(listed)}"
    )
    with Terminal("run", str(plan), "hello") as terminal:
        for source, takes in sources.items():
            terminal.until(f"`{source}` {takes}")
        terminal.until(_FETCHES)
        terminal.type("stop\n")
        assert terminal.exit_code() != 0 and "looking up" not in terminal.shown, terminal.shown
    done = paddock("run", str(plan), "hello", "--json")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["type"]) == (4, "PolicyRefusedError"), error
    assert all(f"`{source}` {takes}" in error["message"] for source, takes in sources.items()), error


def test_an_address_that_git_never_gets_is_refused_not_asked_about(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "session: {orchestrator: loop-basic, context: context-simple}\n"
        "providers: [{module: provider-mock}]\n"
        "tools: [{module: tool-x, source: 'git+http://evil.example/x@v1'}]\n"
    )
    with Terminal("run", str(plan), "hello") as terminal:
        assert terminal.exit_code() != 0, terminal.shown
        assert "`http` is for this machine only" in terminal.shown and _FETCHES not in terminal.shown, terminal.shown
        assert "private network" not in terminal.shown, terminal.shown


@pytest.mark.exhaustive
def test_no_goes_on_where_it_says_so_and_starts_nothing_elsewhere(mistral: Path) -> None:
    with Terminal("run", str(mistral), "hello") as terminal:
        terminal.until("go on without that, this time")
        terminal.until(_ASKS)
        terminal.type("n\n")
        assert terminal.exit_code() == 0 and "no key" in terminal.shown, terminal.shown
    mistral.write_text(f'{mistral.read_text()}    config: {{api_key: "${{MISTRAL_API_KEY}}"}}\n')
    with Terminal("run", str(mistral), "hello", environ=_KEY) as terminal:
        terminal.until("refuse that; nothing starts")
        terminal.until(_ASKS)
        terminal.type("no\n")
        assert terminal.exit_code() == 1 and "started" not in terminal.shown, terminal.shown


@pytest.mark.exhaustive
def test_denials_and_proposals_are_one_line_to_paste_for_each_module(tries: Path) -> None:
    args = ("run", str(tries), "hello", "-C", str(tries.parent), "--trust-plan")
    done = paddock(*args, "--print-grants")
    line = 'permissions: {read: ["./one.txt", "./two.txt"]}'
    assert done.stderr.count("may not read") == 2
    assert f"write in the entry of `tool-tries` in the plan:\n  {line}\n" in done.stderr
    assert (
        'entry of `tool-filesystem` in the plan:\n  permissions: {read: [".", "!@secrets"], write: ["."]}\n'
        in done.stderr
    )
    told = json.loads(paddock(*args, "--print-grants", "--json").stdout)
    assert told["grants"]["tool-tries"] == line
    tries.write_text(f"{tries.read_text()}    {line}\n")  # as a person pastes it
    done = paddock(*args)
    assert done.returncode == 0 and "may not" not in done.stderr and "to allow" not in done.stderr
    assert "`run --print-grants` prints them as lines for the plan" in done.stderr


def test_each_denial_of_a_call_has_its_option(tries: Path) -> None:
    folder = tries.parent
    asked = ("call", "./amplifier-module-tool-tries", "tries", json.dumps({"folder": str(folder)}), "-C", str(folder))
    done = paddock(*asked)
    for name in ("one", "two"):
        assert f"to allow it, add --allow-read=./{name}.txt\n" in done.stderr


@pytest.mark.exhaustive
def test_doctor_fails_for_files_that_stop_every_session(mistral: Path, tmp_path: Path) -> None:
    folder = tmp_path / "config/paddock"
    folder.mkdir(parents=True)
    files = [folder / name for name in ("policy.toml", "grants.toml", "secrets.toml")]
    for file in files:
        file.write_text("# mine\nno such key = \n")
        file.chmod(0o600)
    environ = {"XDG_CONFIG_HOME": str(folder.parent)}
    assert paddock("run", str(mistral), "hello", environ=environ).returncode != 0
    done = paddock("doctor", environ=environ)
    assert done.returncode == 1
    assert all(f"{file}:2" in done.stderr + done.stdout for file in files)
    for file in files:
        file.write_text("")
    told = json.loads(paddock("doctor", "--json", environ=environ).stdout)
    assert {one["file"]: one["state"] for one in told["files"]}.items() >= {
        str(one): "in force" for one in files
    }.items()
