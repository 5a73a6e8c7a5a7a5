"""Who answers in a new plan: what is offered, what each choice grants, and that no key is shown or written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from failures import failing
from paddock.cli.init import questions
from paddock.cli.init.catalogue import ModuleCatalogue
from paddock.cli.init.local_servers import LocalServer
from paddock.cli.init.provider_choice import ProviderChoice, ServiceOptions
from paddock.cli.terminal.render import Screen
from paddock.plan.permissions import Permissions
from paddock.plan.writing import PlannedModule, plan_text
from support.rows import each_row

_MANIFEST = """
[project]
name = "amplifier-module-provider-{name}"
version = "1.0"
[project.entry-points."amplifier.modules"]
provider-{name} = "amplifier_module_provider_{name}:mount"
[tool.paddock]
{manifest}
"""
_VENDOR = """
default_model = "{name}-large"
permissions = {{net = ["api.{name}.com"], secrets = [{{name = "{variable}", inject = "api.{name}.com"}}]}}
"""


@pytest.fixture(autouse=True)
def _shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have three providers shipped: two of vendors, and the scripted one."""
    folder = tmp_path / "shipped"
    for name in ("openai", "anthropic", "mock"):
        package = folder / f"provider-{name}" / f"amplifier_module_provider_{name}"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("async def mount(coordinator, config): ...\n")
        variable = f"{name.upper()}_API_KEY"
        manifest = 'permissions = "isolated"' if name == "mock" else _VENDOR.format(name=name, variable=variable)
        (package.parent / "pyproject.toml").write_text(_MANIFEST.format(name=name, manifest=manifest))
    monkeypatch.setattr("paddock_sources.builtin._shipped_folder", lambda: folder)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("COLUMNS", "200")


class Machine:
    """What listens on this machine, by port, with windows of models; the ports that were asked are kept."""

    def __init__(self, servers: dict[int, tuple[str, ...]], **windows: int) -> None:
        self.servers = servers
        self.windows = windows
        self.asked: list[int] = []

    async def __call__(self, ports: Sequence[int], /) -> tuple[LocalServer, ...]:
        self.asked += ports
        return tuple(LocalServer(port, self.servers[port], self.windows) for port in ports if port in self.servers)


class Typing:
    """A person's answers, in order; `shown` is what the screen showed them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *lines: str) -> None:
        self.prompts: list[str] = []
        self._lines: Iterator[str] = iter(lines)
        self._capsys = capsys
        monkeypatch.setattr(questions, "_typed", self._type)

    def _type(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return next(self._lines)

    @property
    def shown(self) -> str:
        return self._capsys.readouterr().err


Types = Callable[..., Typing]


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Types:
    """Have a person type these lines."""
    return partial(Typing, monkeypatch, capsys)


def choose(
    written: str | None = None,
    *,
    machine: Machine | None = None,
    secrets: Sequence[str] = (),
    person: bool = False,
    **options: Any,
) -> PlannedModule:
    catalogue = ModuleCatalogue(Path.cwd(), {}, _fetch_nothing)
    screen = Screen(sys.stderr) if person else None
    find = machine or Machine({})
    return ProviderChoice(catalogue, ServiceOptions(**options), frozenset(secrets), screen, find).choose(written)


def _fetch_nothing(written: str, folder: Path) -> NoReturn:
    raise AssertionError(f"nothing is to be fetched: {written}")


def granting(net: str, key: str = "") -> Permissions:
    secrets = [{"name": key, "inject": net}] if key else []
    return Permissions.model_validate({"net": [net], "secrets": secrets})


# -- by options ----------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["openai", "OpenAI", "provider-openai"])
def test_a_vendor_gets_its_host_and_its_usual_key_there(written: str) -> None:
    machine = Machine({11434: ("m",)})
    entry = choose(written, machine=machine)
    assert (entry.module, entry.source) == ("provider-openai", None)
    assert entry.permissions == granting("api.openai.com:443", "OPENAI_API_KEY")
    assert entry.config == {"default_model": "openai-large", "api_key": "${OPENAI_API_KEY}"}
    assert machine.asked == []


def test_the_window_that_a_local_server_tells_is_in_the_plan() -> None:
    machine = Machine({11434: ("m", "n")}, m=8192)
    chosen = [choose("ollama", machine=machine, model=model).config for model in (None, "m", "n")]
    assert [one.get("context_window") for one in chosen] == [8192, 8192, None]


def test_options_name_another_model_and_another_variable() -> None:
    entry = choose("anthropic", model="m-2", key_variable="WORK_KEY")
    assert entry.permissions == granting("api.anthropic.com:443", "WORK_KEY")
    assert entry.config == {"default_model": "m-2", "api_key": "${WORK_KEY}"}
    assert choose(model="m-3").config["default_model"] == "m-3"


def test_a_usual_key_goes_to_no_other_address() -> None:
    entry = choose("openai", base_url="https://llm.example.org/v1", model="m")
    assert entry.permissions == granting("llm.example.org:443")
    assert entry.config == {"default_model": "m", "base_url": "https://llm.example.org/v1"}
    entry = choose(base_url="https://llm.example.org/v1", model="m", key_variable="LLM_KEY")
    assert entry.permissions == granting("llm.example.org:443", "LLM_KEY")


@pytest.mark.parametrize("written", ["ollama", "local"])
def test_a_local_server_is_asked_for_its_models_when_an_option_says_so(written: str) -> None:
    machine = Machine({11434: ("nomic-embed-text", "qwen3:8b")})
    entry = choose(written, machine=machine)
    assert entry.module == "provider-openai" and entry.permissions == granting("127.0.0.1:11434")
    assert entry.config == {"default_model": "qwen3:8b", "base_url": "http://127.0.0.1:11434/v1"}
    assert sorted(machine.asked) == ([11434] if written == "ollama" else [1234, 8000, 8080, 11434])


@each_row(
    ("provider", "written", "meant"),
    [
        (None, "localhost:11434", "http://localhost:11434/v1"),
        (None, "127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        (None, "llm.example.org/openai/v1", "https://llm.example.org/openai/v1"),
        (None, "http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        (None, "https://llm.example.org/", "https://llm.example.org/v1"),
        ("anthropic", "https://llm.example.org", "https://llm.example.org"),  # another protocol
    ],
)
def test_an_address_gets_its_usual_scheme_and_path(provider: str | None, written: str, meant: str) -> None:
    assert choose(provider, base_url=written, model="m").config["base_url"] == meant


def test_a_local_server_whose_model_is_named_need_not_answer() -> None:
    machine = Machine({})
    entry = choose("vllm", machine=machine, model="m")
    assert entry.config == {"default_model": "m", "base_url": "http://127.0.0.1:8000/v1"}
    assert machine.asked == [8000]  # for the window


def test_without_options_nothing_is_looked_for() -> None:
    machine = Machine({11434: ("m",)})
    assert choose(machine=machine).module == "provider-mock"
    assert choose(machine=machine, secrets=["OPENAI_API_KEY"]).module == "provider-openai"
    assert machine.asked == []


@each_row(
    ("written", "options", "told"),
    [
        ("local", {}, "no model server answers on this machine"),
        ("ollama", {}, "127.0.0.1:11434"),
        ("server", {}, "--base-url URL"),
        (None, {"base_url": "http://127.0.0.1:9/v1"}, "--model NAME"),
        (None, {"base_url": "https://llm.example.org/v1"}, "--model NAME"),
        (None, {"base_url": "http://llm.example.org/v1", "key_variable": "LLM_KEY"}, "--key-variable none"),
        (None, {"base_url": "llm example org"}, "no address of a server"),
        (None, {"base_url": "ftp://llm.example.org"}, "no address of a server"),
        (None, {"base_url": "http://me:secret@llm.example.org/v1"}, "no address of a server"),
        (None, {"base_url": "http://169.254.169.254/v1", "model": "m"}, "give machines their credentials"),
        (None, {"base_url": "http://h/\x1b[2J", "model": "m"}, "no address of a server"),
        ("openai", {"model": "\x1b[2J"}, "no name of a model"),
        ("openai", {"model": ""}, "no name of a model"),
        ("provider-mock", {"model": "m"}, "services: anthropic, openai, local, server"),
    ],
)
def test_what_cannot_be_had_is_named(written: str | None, options: dict[str, Any], told: str) -> None:
    with failing("ModuleNotUsableError") as refused:
        choose(written, **options)
    shown = "\n".join([refused.value.summary, *refused.value.detail, *refused.value.hints])
    assert told in shown and "secret" not in shown


@each_row("key", ["sk-proj-Abc123", "Abcdef0123456789", "a b", "", "${OPENAI_API_KEY}", "A" * 65, "KEY\nX", "KÉY"])
def test_a_text_that_could_be_a_key_is_refused_unseen(key: str) -> None:
    with failing("NoVariableError") as refused:
        choose("openai", key_variable=key)
    shown = "\n".join([refused.value.summary, *refused.value.detail, *refused.value.hints])
    assert key == "" or key not in shown


def test_a_variable_in_small_letters_is_taken_if_it_is_set() -> None:
    assert choose("openai", key_variable="my_key", secrets=["my_key"]).permissions.secrets[0].name == "my_key"


# -- by a person ---------------------------------------------------------------------------


def test_a_person_is_offered_vendors_servers_and_modules(types: Types) -> None:
    (Path.cwd() / "amplifier-module-provider-mine").mkdir()
    typing = types("3", "2")
    machine = Machine({11434: ("a", "b\u0430")})
    entry = choose(person=True, machine=machine, secrets=["OPENAI_API_KEY"])
    assert entry.config["default_model"] == "b\u0430"
    assert typing.prompts == ["number, name or source [openai]: ", "model [a]: "]
    rows = [line.strip() for line in typing.shown.splitlines() if ")" in line]
    assert rows[:6] == [
        "1) anthropic: at api.anthropic.com:443; needs a key: ANTHROPIC_API_KEY is not set",
        "2) openai: at api.openai.com:443; needs a key: OPENAI_API_KEY is set",
        "3) ollama: listens at 127.0.0.1:11434 and offers 2 models; needs no key",
        "4) server: another server that speaks OpenAI's protocol; its address is asked for",
        "5) provider-mock: plays a script instead of asking a model; replace it to get real answers",
        "6) ./amplifier-module-provider-mine",
    ]


@pytest.mark.parametrize(
    ("servers", "secrets", "module", "prompt"),
    [({}, (), "provider-mock", "[provider-mock]"), ({1234: ("m",)}, (), "provider-openai", "[lm studio]")],
)
def test_what_works_at_once_is_suggested(
    types: Types,
    servers: dict[int, tuple[str, ...]],
    secrets: tuple[str, ...],
    module: str,
    prompt: str,
) -> None:
    typing = types("", "")
    assert choose(person=True, machine=Machine(servers), secrets=secrets).module == module
    assert prompt in typing.prompts[0]


def test_a_person_who_types_a_key_is_asked_again_and_it_is_not_shown(types: Types) -> None:
    typing = types("openai", "sk-proj-Abc123", "", "")
    entry = choose(person=True)
    shown = typing.shown
    assert entry.permissions == granting("api.openai.com:443", "OPENAI_API_KEY")
    assert "sk-proj" not in shown + plan_text([entry]) and "OPENAI_API_KEY is not set now" in shown
    assert "never the key itself" in typing.prompts[1] and "[OPENAI_API_KEY]" in typing.prompts[1]


def test_a_server_of_ones_own_is_named_by_its_address(types: Types) -> None:
    typing = types("server", "no address", "http://127.0.0.1:9000/v1", "", "2")
    entry = choose(person=True, machine=Machine({9000: ("a", "b")}))
    assert entry.permissions == granting("127.0.0.1:9000")
    assert entry.config == {"default_model": "b", "base_url": "http://127.0.0.1:9000/v1"}
    assert "no address of a server" in typing.shown


def test_a_number_that_is_none_of_those_offered_is_asked_again(types: Types) -> None:
    typing = types("ollama", "9", "2")
    assert choose(person=True, machine=Machine({11434: ("a", "b")})).config["default_model"] == "b"
    assert "there is no number 9" in typing.shown


def test_an_address_where_nothing_answers_is_told_before_the_model(types: Types) -> None:
    typing = types("none", "m")
    said = "no model server answers at 127.0.0.1:9 now"
    choose(person=True, base_url="http://127.0.0.1:9/v1")
    assert said in typing.shown
    choice = ProviderChoice(
        ModuleCatalogue(Path.cwd(), {}, _fetch_nothing),
        ServiceOptions(base_url="http://127.0.0.1:9/v1", model="m"),
        frozenset(),
        None,
        Machine({}),
    )
    choice.choose(None)
    assert choice.reason.startswith(said)


# -- what is written -----------------------------------------------------------------------


def test_each_line_of_the_entry_is_explained() -> None:
    entry = choose(base_url="https://llm.example.org/v1", model="m: #1", key_variable="LLM_KEY")
    text = plan_text([entry])
    assert yaml.safe_load(text)["providers"][0]["config"] == dict(entry.config)
    lines = text.split("providers:\n")[1].splitlines()
    bare = ("- module: ", "config:", "permissions:", "secrets:", "#")
    assert [line for line in lines if " # " not in line and not line.strip().startswith(bare)] == []
    assert "nothing encrypts what is sent there" in plan_text([choose(base_url="http://llm.example.org/v1", model="m")])
