"""What fits a module that nothing was said about: what is usual for its like, and nothing that only might be of use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paddock.authorization.grant_lines import NO_SECRETS_READ
from paddock.authorization.suggestions.advice import ManifestAdvice, advice_of
from paddock.authorization.suggestions.needs import Needs, ProposalContext
from paddock.authorization.suggestions.proposal import has_no_say, propose
from paddock.authorization.suggestions.service_address import parse_address
from paddock.authorization.suggestions.vendors import vendor_of, vendor_of_key
from paddock.plan.model import EntryPlace, Kind, ModuleEntry
from paddock.plan.permissions import Permissions
from paddock.plan.problems import NotAcceptedError
from paddock.policy.programs import Program
from support.examples import IN_FULL
from support.rows import each_row

from ..policy.entries import module_at, owner

NOTHING: dict[str, Any] = {}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "logs" / "deep").mkdir(parents=True)
    return folder


def proposed(
    kind: Kind,
    module: str,
    config: Mapping[str, Any] | None = None,
    *,
    folder: Path = Path("/"),
    environ: Mapping[str, str] | None = None,
    secrets: tuple[str, ...] = (),
    advice: ManifestAdvice | None = None,
    home: Path = Path("/home/nobody-in-particular"),
) -> Needs:
    entry = ModuleEntry.read({"module": module, "config": dict(config or {})}, EntryPlace(kind, "x[0]", Path("/")))
    environ = environ or {}
    known = ProposalContext(folder, owner(home), environ, {*secrets, *environ})
    return propose(entry, advice, known)


def written(needs: Needs) -> str | dict[str, Any]:
    return needs.permissions.as_written()


# -- tools, hooks and the rest

GIT = {"run": ["git"]}


@each_row(
    ("kind", "module", "expected"),
    [
        ("tool", "tool-filesystem", "workspace"),
        ("tool", "tool-apply-patch", "workspace"),
        ("tool", "tool-bash", "shell"),
        ("tool", "tool-pwsh", "shell"),
        ("tool", "tool-exec", "shell"),
        ("tool", "tool-search", "workspace-read"),
        ("tool", "tool-grep", "workspace-read"),
        ("tool", "tool-glob", "workspace-read"),
        ("tool", "tool-skills", "workspace-read"),
        ("tool", "tool-web", NOTHING),  # but what its own manifest asks for, see below
        ("tool", "tool-web-search", NOTHING),
        ("tool", "tool-task", NOTHING),  # the line that allows it is shown, see below
        ("tool", "tool-todo", NOTHING),
        ("tool", "tool-whatever", NOTHING),
        ("tool", "tool-bashful", NOTHING),
        ("hook", "hooks-logging", "workspace"),
        ("hook", "hook-shell", "shell"),
        ("hook", "hooks-approval", NOTHING),
        ("hook", "hooks-redaction", NOTHING),
        ("hook", "hooks-whatever", NOTHING),
        ("context", "context-simple", NOTHING),
        ("context", "context-persistent", NOTHING),
        ("orchestrator", "loop-basic", NOTHING),
        ("orchestrator", "loop-streaming", NOTHING),
        ("provider", "provider-mock", NOTHING),
        ("provider", "provider-whatever", NOTHING),
    ],
)
def test_a_module_is_proposed_what_is_usual_for_its_like(
    kind: Kind, module: str, expected: object, folder: Path
) -> None:
    assert written(proposed(kind, module, folder=folder)) == expected


@each_row("module", ["tool-web", "tool-whatever", "hooks-whatever", "provider-whatever"])
def test_what_nothing_fits_is_told_what_it_lacks_and_how_to_give_it(module: str, folder: Path) -> None:
    kind: Any = {"tool": "tool", "hooks": "hook", "provider": "provider"}[module.partition("-")[0]]
    needs = proposed(kind, module, folder=folder)
    assert needs.lines == ()
    assert any("permissions:" in one for one in needs.lacks)


@each_row("module", ["tool-task", "tool-delegate"])
def test_what_hands_work_on_is_told_the_line_that_allows_it(module: str, folder: Path) -> None:
    assert "permissions: {call: [spawn]}" in " ".join(proposed("tool", module, folder=folder).lacks)


@each_row(
    ("kind", "module"),
    [("tool", "tool-todo"), ("hook", "hooks-approval"), ("context", "context-simple"), ("orchestrator", "loop-basic")],
)
def test_what_does_all_it_does_in_the_session_lacks_nothing(kind: Kind, module: str, folder: Path) -> None:
    assert proposed(kind, module, folder=folder) == Needs()


@pytest.mark.parametrize(
    ("config", "expected", "said"),
    [
        ({"path": "logs/session.jsonl"}, {"write": ["./logs"]}, "/logs"),
        ({"path": "./logs/deep/a.jsonl"}, {"write": ["./logs/deep"]}, "/logs/deep"),
        ({"log_dir": "logs"}, {"write": ["./logs"]}, "/logs"),
        ({"session_log_template": "logs/{session_id}/events.jsonl"}, {"write": ["./logs"]}, "/logs"),
        ({"path": "session.jsonl"}, "workspace", "the working directory"),
        ({"path": "not/there/yet.jsonl"}, "workspace", "the working directory"),
        ({}, "workspace", "the working directory"),
        ({"path": "../session.jsonl"}, {}, "outside the working directory"),
        ({"path": "/var/log/session.jsonl"}, {}, "outside the working directory"),
        ({"path": "~/session.jsonl"}, {}, "its log is in `~`"),
        ({"path": "leads/out.jsonl"}, {}, "outside the working directory"),
        ({"path": 5}, "workspace", "the working directory"),
    ],
)
def test_a_log_is_given_the_folder_it_is_written_into(
    config: dict[str, Any], expected: object, said: str, folder: Path
) -> None:
    (folder / "leads").symlink_to("/var")
    needs = proposed("hook", "hooks-logging", config, folder=folder)
    assert written(needs) == expected
    assert said in " ".join((*needs.lines, *needs.lacks))


@pytest.mark.parametrize("shipped", [True, False])
def test_an_audit_of_approvals_is_given_its_folder(shipped: bool, folder: Path, tmp_path: Path) -> None:
    advice = advised(tmp_path / "module", "[tool.paddock]\npermissions = 'isolated'\n", shipped=shipped)
    config = {"audit_path": "logs/approvals.jsonl"}
    needs = proposed("hook", "hooks-approval", config, folder=folder, advice=advice)
    assert written(needs) == {"write": ["./logs"]}
    assert proposed("hook", "hooks-approval", folder=folder, advice=advice) == Needs()


def test_a_program_is_proposed_where_there_is_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Program, "find", lambda name: Program(name, Path("/usr/bin/git")))
    assert written(proposed("hook", "hooks-status-context", folder=folder)) == {
        "read": [".", "!@secrets"],
        "run": ["git"],
    }

    def find(name: str) -> None:
        raise NotAcceptedError(f"there is no {name}")

    monkeypatch.setattr(Program, "find", find)
    assert written(proposed("hook", "hooks-status-context", folder=folder)) == "workspace-read"


def test_the_words_name_the_folder_itself_and_warn_of_ones_home(folder: Path) -> None:
    line, besides = proposed("tool", "tool-filesystem", folder=folder).lines
    assert besides.startswith("does not read your secret files that git does not have (.env, keys, tokens)")
    assert line == f"reads and writes the working directory, {folder}"
    entry = ModuleEntry.read({"module": "tool-bash"}, EntryPlace("tool", "tools[0]", Path("/")))
    line, _ = propose(entry, None, ProposalContext(folder, owner(folder), {}, ())).lines
    assert "all of your home folder" in line


# -- providers


def key_at(name: str, host: str) -> dict[str, Any]:
    return {"net": [host], "secrets": [{"name": name, "inject": host}], "env": [f"{name}=${{{name}}}"]}


@each_row(
    ("module", "variable", "host"),
    [
        ("provider-openai", "OPENAI_API_KEY", "api.openai.com:443"),
        ("provider-openai-v2", "OPENAI_API_KEY", "api.openai.com:443"),
        ("provider-anthropic", "ANTHROPIC_API_KEY", "api.anthropic.com:443"),
        ("provider-gemini", "GOOGLE_API_KEY", "generativelanguage.googleapis.com:443"),
        ("provider-google", "GEMINI_API_KEY", "generativelanguage.googleapis.com:443"),
        ("provider-openrouter", "OPENROUTER_API_KEY", "openrouter.ai:443"),
        ("provider-mistral", "MISTRAL_API_KEY", "api.mistral.ai:443"),
        ("provider-groq", "GROQ_API_KEY", "api.groq.com:443"),
    ],
)
def test_a_known_vendors_provider_has_its_host_and_a_key_it_never_sees(module: str, variable: str, host: str) -> None:
    needs = proposed("provider", module, secrets=(variable,))
    assert written(needs) == key_at(variable, host)
    assert Permissions.model_validate(written(needs)) == needs.permissions
    assert needs.permissions.place_of_injection(needs.permissions.secrets[0]).text == host
    told = " ".join(needs.lines)
    assert host in told and variable in told and "never sees it" in told


def test_a_key_that_is_not_set_is_not_proposed_and_missed() -> None:
    needs = proposed("provider", "provider-openai")
    assert written(needs) == {"net": ["api.openai.com:443"]}
    assert any("OPENAI_API_KEY is not set" in one for one in needs.lacks)


OPENAI = "provider-openai"
LOCAL = "http://127.0.0.1:8080/v1"


@each_row(
    ("module", "config", "environ", "expected"),
    [
        # The address of the configuration goes before the vendor's.
        (OPENAI, {"base_url": LOCAL}, {}, {"net": ["127.0.0.1:8080"]}),
        (OPENAI, {"base_url": LOCAL}, {"OPENAI_API_KEY": "k"}, key_at("OPENAI_API_KEY", "127.0.0.1:8080")),
        (OPENAI, {"base_url": "http://localhost:8080"}, {}, {"net": ["127.0.0.1:8080"]}),
        (OPENAI, {"base_url": "https://eu.api.openai.com/v1"}, {"OPENAI_API_KEY": "k"},
         key_at("OPENAI_API_KEY", "eu.api.openai.com:443")),
        (OPENAI, {"base_url": None}, {}, {"net": ["api.openai.com:443"]}),
        (OPENAI, {"base_url": ""}, {}, {"net": ["api.openai.com:443"]}),
        # A key of the vendor's goes nowhere else.
        (OPENAI, {"base_url": "https://evil.example/v1"}, {"OPENAI_API_KEY": "k"}, {"net": ["evil.example:443"]}),
        (OPENAI, {"base_url": "https://api.openai.com.evil.example"}, {"OPENAI_API_KEY": "k"},
         {"net": ["api.openai.com.evil.example:443"]}),
        (OPENAI, {"base_url": "http://api.openai.com/v1"}, {"OPENAI_API_KEY": "k"}, {"net": ["api.openai.com:80"]}),
        # Unless the plan refers to it.
        (OPENAI, {"base_url": "https://gateway.example/v1", "api_key": "${GATEWAY_KEY}"}, {"GATEWAY_KEY": "k"},
         {"net": ["gateway.example:443"], "secrets": [{"name": "GATEWAY_KEY", "inject": "gateway.example:443"}]}),
        (OPENAI, {"api_key": "${OPENAI_API_KEY}"}, {"OPENAI_API_KEY": "k"},
         {"net": ["api.openai.com:443"], "secrets": [{"name": "OPENAI_API_KEY", "inject": "api.openai.com:443"}]}),
        (OPENAI, {"headers": {"Authorization": "Bearer ${T}"}}, {"T": "k"},
         {"net": ["api.openai.com:443"], "secrets": [{"name": "T", "inject": "api.openai.com:443"}]}),
        # What a module has to read, it is given.
        (OPENAI, {"model": "${MODEL}", "api_key": "literal"}, {"MODEL": "m"},
         {"net": ["api.openai.com:443"], "secrets": ["MODEL"]}),
        (OPENAI, {"base_url": "${MY_URL}", "api_key": "x"}, {"MY_URL": "https://me.example:8443/v1"},
         {"net": ["me.example:8443"], "secrets": ["MY_URL"]}),
        # Variables of the vendor's.
        (OPENAI, {"api_key": "x"}, {"OPENAI_BASE_URL": "https://me.example/v1"},
         {"net": ["me.example:443"], "env": ["OPENAI_BASE_URL"]}),
        (OPENAI, {"api_key": "x"}, {"OPENAI_ORG_ID": "o"}, {"net": ["api.openai.com:443"], "env": ["OPENAI_ORG_ID"]}),
        ("provider-ollama", {}, {}, {"net": ["127.0.0.1:11434"]}),
        ("provider-ollama", {"host": "http://localhost:11434"}, {}, {"net": ["127.0.0.1:11434"]}),
        ("provider-ollama", {"host": "gpu.example"}, {}, {"net": ["gpu.example:11434"]}),
        ("provider-ollama", {}, {"OLLAMA_HOST": "10.0.0.5:9999"}, {"net": ["10.0.0.5:9999"], "env": ["OLLAMA_HOST"]}),
        ("provider-vllm", {"base_url": "http://192.168.128.5:8000/v1"}, {}, {"net": ["192.168.128.5:8000"]}),
        ("provider-vllm", {"base_url": "http://[fd00::5]:8000/v1"}, {}, {"net": ["[fd00::5]:8000"]}),
        ("provider-azure-openai", {"azure_endpoint": "https://me.openai.azure.com"},
         {"AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_API_VERSION": "v", "OPENAI_API_KEY": "not this one"},
         {**key_at("AZURE_OPENAI_API_KEY", "me.openai.azure.com:443"),
          "env": ["AZURE_OPENAI_API_KEY=${AZURE_OPENAI_API_KEY}", "AZURE_OPENAI_API_VERSION"]}),
        ("provider-azure-openai", {}, {"AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com", "AZURE_OPENAI_KEY": "k"},
         {**key_at("AZURE_OPENAI_KEY", "me.openai.azure.com:443"),
          "env": ["AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_KEY=${AZURE_OPENAI_KEY}"]}),
        ("provider-azure-openai", {}, {"AZURE_OPENAI_API_KEY": "k"}, {}),
        ("provider-chat-completions", {"base_url": LOCAL}, {}, {"net": ["127.0.0.1:8080"]}),
        ("provider-chat-completions", {}, {}, {}),
        ("provider-whatever", {"api_base": "https://api.example.org", "api_key": "${K}"}, {"K": "k"},
         {"net": ["api.example.org:443"], "secrets": [{"name": "K", "inject": "api.example.org:443"}]}),
        ("provider-whatever", {"api_key": "${K}"}, {"K": "k"}, {"secrets": ["K"]}),
        # Where machines are told their credentials, and what is no address.
        (OPENAI, {"base_url": "http://169.254.169.254/latest", "api_key": "x"}, {}, {}),
        (OPENAI, {"base_url": "http://[::ffff:169.254.169.254]/", "api_key": "x"}, {}, {}),
        (OPENAI, {"base_url": "http://0.0.0.0:8000", "api_key": "x"}, {}, {}),
        (OPENAI, {"base_url": "http://2130706433/", "api_key": "x"}, {}, {}),
        (OPENAI, {"base_url": "https://user:pa55word@api.openai.com", "api_key": "x"}, {}, {}),
        (OPENAI, {"base_url": "file:///etc/passwd", "api_key": "x"}, {}, {}),
        (OPENAI, {"base_url": "${NOT_SET}", "api_key": "x"}, {}, {"secrets": ["NOT_SET"]}),
        # Those that sign in by other means.
        ("provider-openai-chatgpt", {}, {"OPENAI_API_KEY": "k"}, {}),
        ("provider-github-copilot", {}, {"OPENAI_API_KEY": "k"}, {}),
        ("provider-bedrock", {}, {"AWS_SECRET_ACCESS_KEY": "k"}, {}),
    ],
)  # fmt: skip
def test_a_provider_is_proposed_its_service(
    module: str, config: dict[str, Any], environ: dict[str, str], expected: object
) -> None:
    needs = proposed("provider", module, config, environ=environ)
    assert written(needs) == expected
    told = " ".join((*needs.lines, *needs.lacks))
    assert "pa55word" not in told
    if expected == {}:
        assert needs.lacks


def test_where_nothing_encrypts_what_is_sent_it_is_said() -> None:
    far = proposed("provider", "provider-vllm", {"base_url": "http://10.0.0.5:8000", "api_key": "${K}"}, secrets=("K",))
    assert "nothing encrypts" in far.lines[0] and "unencrypted" in far.lines[1]
    near = proposed("provider", "provider-ollama")
    assert "encrypt" not in " ".join(near.lines)


def test_a_key_for_somewhere_else_is_missed_with_the_way_to_send_it_there() -> None:
    needs = proposed("provider", OPENAI, {"base_url": "https://gateway.example"}, secrets=("OPENAI_API_KEY",))
    assert any("OPENAI_API_KEY is for OpenAI" in one and "${OPENAI_API_KEY}" in one for one in needs.lacks)


def test_a_reference_that_is_not_set_is_proposed_and_told() -> None:
    needs = proposed("provider", OPENAI, {"api_key": "${GONE}"})
    assert [secret.name for secret in needs.permissions.secrets] == ["GONE"]
    assert any("GONE" in line and "not set" in line for line in needs.lines)


def test_a_tool_is_proposed_the_host_of_its_configured_url() -> None:
    config = {"endpoint": "https://api.weather.example/v2", "api_key": "${WEATHER_KEY}", "host": "not-a-url"}
    assert written(proposed("tool", "tool-weather", config, secrets=("WEATHER_KEY",))) == {
        "net": ["api.weather.example:443"],
        "secrets": [{"name": "WEATHER_KEY", "inject": "api.weather.example:443"}],
    }


@each_row(
    ("config", "expected"),
    [
        ({"servers": {"a": {"command": "true", "args": ["git"]}}}, ["true"]),
        ({"servers": [{"command": ["true", "x"]}, {"executable": "env"}]}, ["true", "env"]),
        ({"command": "no-such-program-at-all", "program": "true -x", "binary": 5}, []),
        ({"command": "../up", "program": "/usr/bin/true"}, []),
        ({"a": [{"command": []}], "program": "..", "executable": "*"}, []),
    ],
)
def test_a_tool_is_proposed_the_programs_of_its_configuration(config: dict[str, Any], expected: list[str]) -> None:
    assert list(proposed("tool", "tool-odd", config).permissions.run) == expected


def test_no_secret_is_looked_at_for_a_proposal() -> None:
    class Names:
        def __contains__(self, name: object) -> bool:
            return name == "OPENAI_API_KEY"

    entry = ModuleEntry.read({"module": OPENAI}, EntryPlace("provider", "providers[0]", Path("/")))
    needs = propose(entry, None, ProposalContext(Path("/"), owner(), {}, Names()))
    assert written(needs) == key_at("OPENAI_API_KEY", "api.openai.com:443")


@each_row(
    ("module", "name"),
    [
        ("provider-azure-openai", "Azure OpenAI"),
        ("provider-openai", "OpenAI"),
        ("provider_openai", "OpenAI"),
        ("provider-myopenai", None),
        ("provider-openai-codex", None),
        ("provider-claude", None),
    ],
)
def test_a_vendor_is_known_by_a_word_of_the_id(module: str, name: str | None) -> None:
    vendor = vendor_of(module)
    assert (vendor.name if vendor is not None else None) == name


@each_row(
    ("text", "destination"),
    [
        ("https://a.example", "a.example:443"),
        ("http://a.example", "a.example:80"),
        ("wss://a.example/x", "a.example:443"),
        ("HTTPS://A.Example.:8443/v1?x#y", "a.example:8443"),
        ("a.example", "a.example:9"),
        ("a.example:7", "a.example:7"),
        ("a.example/v1", "a.example:9"),
        ("[::1]", "[::1]:9"),
        (" https://a.example ", "a.example:443"),
        ("https://a.example\\@b.example", "a.example:443"),
        ("https://", None),
        ("https://a.example:0", None),
        ("https://a.example:port", None),
        ("https://a example", None),
        ("ftp://a.example", None),
        ("https://*.example", None),
    ],
)
def test_an_address_is_read_as_clients_read_it(text: str, destination: str | None) -> None:
    found = parse_address("base_url", text, port=9)
    assert (found.destination.text if found.destination is not None else None) == destination
    assert bool(found.problem) == (destination is None)


# -- what a module says of itself


def advised(root: Path, text: str, *, shipped: bool = False) -> ManifestAdvice | None:
    resolution = module_at(root)
    (root / "pyproject.toml").write_text(text)
    return advice_of(replace(resolution, source="builtin:tool-x") if shipped else resolution)


ADVICE = """
[tool.paddock.permissions]
read = [".", "logs", "/etc", "../up", "~/x", "nowhere", "leads"]
write = ["logs"]
net = ["api.example.org", "*.example.org", "10.0.0.1"]
secrets = ["AWS_SECRET_ACCESS_KEY", {name = "KEY", inject = "api.example.org"}]
env = ["HOME", "TOKEN=s3cret"]
run = ["sh", "*", "no-such-program-at-all"]
call = ["*"]
"""


def test_of_what_a_module_asks_for_itself_only_the_harmless_is_proposed(folder: Path, tmp_path: Path) -> None:
    (folder / "leads").symlink_to("/etc")
    advice = advised(tmp_path / "module", ADVICE)
    needs = proposed("tool", "tool-whatever", folder=folder, advice=advice)
    read = [".", "logs", "!@secrets"]
    assert written(needs) == {"read": read, "write": ["logs"], "net": ["api.example.org"], "run": ["sh"]}
    assert all("its own manifest" in line or line == NO_SECRETS_READ for line in needs.lines)
    told = "\n".join(needs.lacks)
    for left in ("read /etc", "read ../up", "read ~/x", "read leads", "net *.example.org", "net 10.0.0.1", "run *",
                 "secret AWS_SECRET_ACCESS_KEY", "secret KEY", "env HOME", "env TOKEN", "call *"):  # fmt: skip
        assert left in told
    assert "s3cret" not in told


def test_known_proposals_go_before_a_modules_own_manifest(folder: Path, tmp_path: Path) -> None:
    advice = advised(tmp_path / "module", "[tool.paddock]\npermissions = 'shell'\n")
    assert advice == ManifestAdvice(Permissions(preset="shell"))
    assert written(proposed("tool", "tool-filesystem", folder=folder, advice=advice)) == "workspace"


def test_a_shipped_module_is_proposed_all_that_its_manifest_asks_for(folder: Path, tmp_path: Path) -> None:
    text = """
[tool.paddock.permissions]
write = ["logs"]
run = ["sh", "no-such-program-at-all"]
call = ["spawn"]
emit = ["task:agent_spawned"]
"""
    expected = {"write": ["logs"], "run": ["sh"], "call": ["spawn"], "emit": ["task:agent_spawned"]}
    shipped, foreign = advised(tmp_path / "ours", text, shipped=True), advised(tmp_path / "theirs", text)
    needs = proposed("tool", "tool-filesystem", {"key": "${K}"}, folder=folder, secrets=("K",), advice=shipped)
    assert written(needs) == {**expected, "secrets": ["K"]}
    assert "calls without being handed it: spawn" in needs.lines and len(needs.lines) == 5
    assert any("spawn" in one for one in needs.lacks)
    assert written(proposed("tool", "tool-whatever", folder=folder, advice=foreign)) == {
        "read": ["!@secrets"],
        **{family: expected[family] for family in ("write", "run")},
    }


def test_the_manifest_of_a_shipped_module_stands_for_what_its_id_suggests(folder: Path, tmp_path: Path) -> None:
    nothing = advised(tmp_path / "nothing", "[tool.paddock]\npermissions = 'isolated'\n", shipped=True)
    assert proposed("tool", "tool-filesystem", folder=folder, advice=nothing) == Needs()
    preset = advised(tmp_path / "preset", "[tool.paddock]\npermissions = 'workspace'\n", shipped=True)
    assert proposed("tool", "tool-web", folder=folder, advice=preset) == proposed("tool", "tool-fs", folder=folder)


def test_the_configured_folder_of_a_log_comes_before_its_manifest(folder: Path, tmp_path: Path) -> None:
    advice = advised(tmp_path / "module", "[tool.paddock.permissions]\nwrite = ['.']\n", shipped=True)
    configured = proposed("hook", "hooks-logging", {"path": "logs/a.jsonl"}, folder=folder, advice=advice)
    assert written(configured) == {"write": ["./logs"]}
    assert written(proposed("hook", "hooks-logging", folder=folder, advice=advice)) == {"write": ["."]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[tool.paddock]\n",
        "[tool.paddock]\npermissions = 'everything'",
        "[tool.paddock]\npermissions = [1]",
        "[tool.paddock.permissions]\nx = 1",
        "[tool.paddock.permissions]\nnet = ['*']",
        "tool = 5",
        "not toml",
        "a = " + "[" * 5000,
    ],
)
def test_advice_that_is_none_is_no_advice(text: str, tmp_path: Path) -> None:
    assert advised(tmp_path / "module", text) == ManifestAdvice(Permissions())


def test_a_manifest_that_leads_out_of_the_module_is_not_read(tmp_path: Path) -> None:
    resolution = module_at(tmp_path / "module")
    (tmp_path / "other.toml").write_text("[tool.paddock]\npermissions = 'shell'\n")
    os.symlink(tmp_path / "other.toml", tmp_path / "module" / "pyproject.toml")
    assert advice_of(resolution) == ManifestAdvice(Permissions())


# -- what the code names

CODE = """
import os, subprocess
from pathlib import Path
KEY = "OPENAI_API_KEY"
def work(coordinator):
    os.environ["TEAM"], os.getenv(KEY), os.environ.get("DB_PASSWORD"), os.environ.get("HOME")
    subprocess.run(["true", "x"]), subprocess.run(["no-such-program-anywhere"])
    tools = coordinator.get("tools")
    tools["notes"], coordinator.get("providers")
    return Path.cwd(), coordinator.get_capability("session.spawn")
"""
WITHOUT_SECRETS = [".", "!@secrets"]


def of_code(
    folder: Path,
    *set_variables: str,
    is_unread: bool = False,
    code: str = CODE,
    manifest: str = "",
    kind: Kind = "tool",
    module: str = "tool-odd",
    config: Mapping[str, Any] | None = None,
) -> Needs:
    resolution = module_at(folder.parent / f"module-{len([*folder.parent.iterdir()])}")
    (resolution.package_dir / "work.py").write_text(code)
    (resolution.root / "pyproject.toml").write_text(manifest)
    entry = ModuleEntry.read({"module": module, "config": dict(config or {})}, EntryPlace(kind, "x[0]", Path("/")))
    environ = dict.fromkeys(set_variables, "value")
    known = ProposalContext(folder.resolve(), owner(), environ, {*environ}, is_unread=is_unread)
    return propose(entry, advice_of(resolution), known)


def test_objects_that_modules_of_the_same_repository_leave_are_proposed(folder: Path) -> None:
    top = folder.parent / "top"
    resolution, other = module_at(top / "modules/tool-x"), module_at(top / "modules/hooks-x")
    (resolution.package_dir / "work.py").write_text("s = c.session_state\nc.session_state['on'], c.session_state['no']")
    (other.package_dir / "work.py").write_text("c.session_state['on'] = Finder()")
    entry = ModuleEntry.read({"module": "tool-odd"}, EntryPlace("tool", "x[0]", Path("/")))
    known = ProposalContext(folder.resolve(), owner(), {}, set())
    within = replace(resolution, repository=top)
    assert written(propose(entry, advice_of(within), known)) == {"call": ["state:on"]}
    assert not propose(entry, advice_of(within), replace(known, is_unread=True)).permissions.call
    assert not propose(entry, advice_of(resolution), known).permissions.call  # alone, not of a repository


def test_what_the_code_names_and_this_machine_has_is_proposed(folder: Path) -> None:
    needs = of_code(folder, "TEAM")
    called = ["tools:notes", "providers", "spawn"]
    assert written(needs) == {"read": WITHOUT_SECRETS, "run": ["true"], "call": called, "env": ["TEAM"]}
    assert needs.missing.run == ("no-such-program-anywhere",)
    assert any("runs true, which its code names" in line for line in needs.lines)


def test_of_the_keys_that_code_names_the_table_alone_decides(folder: Path) -> None:
    needs = of_code(folder, "OPENAI_API_KEY", "DB_PASSWORD", "TEAM")
    allowed = written(needs)
    assert isinstance(allowed, dict) and allowed["net"] == ["api.openai.com:443"]
    assert allowed["secrets"] == [{"name": "OPENAI_API_KEY", "inject": "api.openai.com:443"}]
    # With a host, any variable may carry a secret there.
    assert allowed["env"] == ["OPENAI_API_KEY=${OPENAI_API_KEY}"]
    assert {lack for lack in needs.lacks if "its code reads" in lack} == {
        "your variable DB_PASSWORD, which its code reads",
        "your variable TEAM, which its code reads",
    }


def test_a_host_of_its_author_is_proposed_beside_no_key_and_no_variable(folder: Path) -> None:
    manifest = "[tool.paddock.permissions]\nnet = ['evil.example']\n"
    needs = of_code(folder, "OPENAI_API_KEY", "TEAM", manifest=manifest)
    allowed = written(needs)
    assert isinstance(allowed, dict) and allowed["net"] == ["evil.example"]
    assert not {"env", "secrets"} & set(allowed)
    lacks = " ".join(needs.lacks)
    assert "the secret OPENAI_API_KEY, which its code reads" in lacks and "your variable TEAM" in lacks


def test_a_key_that_the_configuration_sends_somewhere_goes_nowhere_else(folder: Path) -> None:
    config = {"base_url": "https://github.example", "token": "${GITHUB_TOKEN}"}
    needs = of_code(folder, "GITHUB_TOKEN", code="import os\nos.getenv('GITHUB_TOKEN')", config=config)
    place = "github.example:443"
    assert written(needs) == {"net": [place], "secrets": [{"name": "GITHUB_TOKEN", "inject": place}]}
    assert "api.github.com" not in " ".join(needs.lines)


_MANY = 7_000 if IN_FULL else 700


@each_row(
    ("code", "expected"),
    [
        ("import subprocess as s\ns.run('..'), s.run('.'), s.run('-rf'), s.run('~'), s.run(' ')", NOTHING),
        ("import subprocess\nsubprocess.run('..')", NOTHING),
        ("import os\nos.getenv('DB_PASSWORD'), os.getenv('A' * 9), os.environ['A-B']", NOTHING),
        ("".join(f"os.getenv('V{n}')\n" for n in range(_MANY)), {"env": [f"V{n}" for n in range(8)]}),
        ("".join(f"subprocess.run('none-{n}')\n" for n in range(60)) + "subprocess.run('true')", {"run": ["true"]}),
        ("tools = coordinator.get('tools')\ntools['a b'], tools['*'], tools['x\\n'], tools['\u202ex']", NOTHING),
    ],
)
def test_hostile_names_in_code_are_proposed_as_little(code: str, expected: object, folder: Path) -> None:
    needs = of_code(folder, "DB_PASSWORD", *(f"V{n}" for n in range(70)), code=code)
    assert written(needs) == expected
    assert len(needs.missing.run) <= 8


@each_row(
    "permissions",
    [
        "read = ['../up', '/etc', '~/.ssh', './../x', '.git/../../y']\nwrite = ['..', '/', '~']",
        "read = ['.\\u202e']",
        "run = ['..']",
        "run = ['./x\\nrm']",
        "net = ['public', '*.com', '10.0.0.1', '127.0.0.1', '[::1]']\nmount = ['context']\ncall = ['*']",
    ],
)
def test_hostile_requests_of_a_manifest_are_not_proposed(permissions: str, folder: Path) -> None:
    manifest = f"[tool.paddock.permissions]\n{permissions}\n"
    assert written(of_code(folder, code="", manifest=manifest)) == NOTHING


def test_a_program_outside_the_system_is_proposed_beside_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"vendors": Path("/opt/vendor/vendors"), "true": Path("/usr/bin/true")}
    monkeypatch.setattr(Program, "find", lambda name: Program(name, places[name]))
    code = "import subprocess\nsubprocess.run('vendors'), subprocess.run('true')"
    run = of_code(folder, code=code, module="tool-shell-odd").permissions.run
    assert run == ("*", "vendors")


def test_code_that_runs_the_loop_is_proposed_no_calls(folder: Path) -> None:
    code = "c = coordinator.get('providers')"
    assert written(of_code(folder, code=code, kind="orchestrator", module="loop-odd")) == NOTHING


@each_row(("kind", "module"), [("tool", "tool-odd"), ("hook", "hooks-odd")])
def test_events_are_proposed_to_who_is_no_hook(kind: Kind, module: str, folder: Path) -> None:
    needs = of_code(folder, code="coordinator.hooks.register('provider:request', f)", kind=kind, module=module)
    assert written(needs) == ({"hooks": ["provider:request"]} if kind == "tool" else NOTHING)


def test_what_reaches_the_network_still_says_so_beside_what_its_code_names(folder: Path) -> None:
    needs = of_code(folder, code="from pathlib import Path\nPath.cwd()", module="tool-web-odd")
    assert written(needs) == "workspace-read"
    assert "the network; each host takes a line" in " ".join(needs.lacks)


def test_where_nobody_reads_it_code_is_proposed_no_more_than_manifests(folder: Path) -> None:
    needs = of_code(folder, "OPENAI_API_KEY", "TEAM", is_unread=True)
    assert written(needs) == {"read": WITHOUT_SECRETS, "run": ["true"]}


def test_a_key_of_github_goes_to_github() -> None:
    vendor = vendor_of_key("GH_TOKEN")
    assert vendor is not None and vendor.address == "api.github.com" and vendor_of("provider-github") is None


@each_row(
    ("keys", "expected"),
    [({}, True), ({"permissions": {}}, False), ({"permissions": "isolated"}, False), ({"config": {}}, True)],
)
def test_an_entry_that_grants_nothing_on_purpose_has_had_its_say(keys: dict[str, Any], expected: bool) -> None:
    entry = ModuleEntry.read({"module": "tool-bash", **keys}, EntryPlace("tool", "tools[0]", Path("/")))
    assert has_no_say(entry) is expected


@each_row(
    ("config", "secrets", "expected"),
    [
        ({}, {"OPENAI_API_KEY": "k"}, key_at("OPENAI_API_KEY", "api.openai.com:443")),
        ({}, {}, {"net": ["api.openai.com:443"]}),
        ({"base_url": LOCAL}, {}, {"net": ["127.0.0.1:8080"]}),
        ({"base_url": "https://gateway.example/v1"}, {"OPENAI_API_KEY": "k"}, {"net": ["gateway.example:443"]}),
    ],
)
def test_a_shipped_provider_is_proposed_the_address_it_is_configured_for(
    config: dict[str, Any], secrets: dict[str, str], expected: object
) -> None:
    asked = key_at("OPENAI_API_KEY", "api.openai.com:443")
    advice = ManifestAdvice(Permissions.model_validate(asked), is_shipped=True)
    assert written(proposed("provider", OPENAI, config, advice=advice, environ=secrets)) == expected


# -- every public host


def test_public_is_proposed_where_a_shipped_manifest_asks_for_it() -> None:
    advice = ManifestAdvice(Permissions.model_validate({"net": ["public"]}), is_shipped=True)
    needs = proposed("tool", "tool-web", {"search_url": "http://127.0.0.1:8888/search"}, advice=advice)
    assert written(needs) == {"net": ["public", "127.0.0.1:8888"]}
    assert "ANY public host" in needs.lines[0]


def test_every_public_host_is_not_proposed_for_a_strangers_module() -> None:
    advice = ManifestAdvice(Permissions.model_validate({"net": ["public"]}))
    needs = proposed("tool", "tool-web", advice=advice)
    assert written(needs) == NOTHING
    assert "net public, which its own manifest asks for" in needs.lacks


def test_a_service_whose_name_is_the_word_for_every_host_is_never_proposed() -> None:
    needs = proposed("tool", "tool-web", {"url": "https://public/search"})
    assert written(needs) == NOTHING
    assert any("a name that no grant can mean" in one for one in needs.lacks)


def test_a_stranger_is_proposed_no_folder_of_the_home(folder: Path, tmp_path: Path) -> None:
    (tmp_path / ".amplifier/projects").mkdir(parents=True)
    (tmp_path / ".amplifier/leads").symlink_to(tmp_path)
    asked = '["~/.amplifier/projects", "~/.amplifier/absent", "~/.amplifier", "~/.amplifier/leads", "~/.ssh"]'
    advice = advised(tmp_path / "module", f"[tool.paddock.permissions]\nwrite = {asked}\n")
    needs = proposed("tool", "tool-whatever", folder=folder, advice=advice, home=tmp_path)
    assert written(needs) == NOTHING and needs.keeps
    (line,) = needs.lines
    named = "~/.amplifier/projects, ~/.amplifier/absent, ~/.amplifier, ~/.amplifier/leads, ~/.ssh"
    assert line.startswith("keeps a folder of its own from session to session") and f"it writes {named} there" in line


def test_a_home_that_stays_is_proposed_beside_what_the_id_suggests(folder: Path, tmp_path: Path) -> None:
    advice = advised(tmp_path / "module", '[tool.paddock.permissions]\nwrite = ["~/.amplifier"]\n')
    needs = proposed("tool", "tool-filesystem", folder=folder, advice=advice, home=tmp_path)
    assert written(needs) == "workspace" and needs.keeps


def test_a_log_in_the_throw_away_home_is_missed_or_kept(folder: Path) -> None:
    assert "`state: keep`" in "\n".join(proposed("hook", "hooks-logger", {}, folder=folder).lacks)
    assert proposed("hook", "hooks-logger", {"path": "~/session.jsonl"}, folder=folder).keeps
