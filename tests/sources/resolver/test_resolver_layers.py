"""The layers are asked in their order, the first that has an answer wins, and nothing is fetched to choose."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from paddock_sources import (
    BuiltinSource,
    FolderUri,
    GitUri,
    PackageUri,
    Resolution,
    Resolver,
    SourceError,
    SourceUri,
    UnresolvedError,
)
from paddock_sources.application import ApplicationResolver, ApplicationResolverError
from paddock_sources.resolver import ChosenSource
from paddock_sources.settings import SourceSettings
from sources.module_folder import BOOBY_TRAP, make_module

VARIABLE = "AMPLIFIER_MODULE_TOOL_DEMO"

LAYERS = (
    f"environment variable {VARIABLE}",
    "the application's resolver",
    "workspace",
    "settings",
    "source of the plan entry",
    "builtin modules",
    "installed packages",
)


class NotFoundError(Exception):
    pass


class Application:
    """Knows the modules in `folders`; raises what else is there."""

    def __init__(self, folders: Mapping[str, Path | Exception]) -> None:
        self._folders = folders
        self.hints: list[object] = []

    def resolve(self, module_id: str, source_hint: object = None, profile_hint: object = None) -> Any:
        self.hints.append(source_hint)
        folder = self._folders.get(module_id, NotFoundError(f"no {module_id} here"))
        if isinstance(folder, Exception):
            raise folder
        return _Found(folder)


class _Found:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def resolve(self) -> Path:
        return self._folder


class Layered:
    """A machine on which every layer can be made to have module `tool-demo`, each in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.environ: dict[str, str] = {}
        self.application: dict[str, Path | Exception] = {}
        self.settings: dict[str, Any] = {"workspace": str(self.root / "workspace")}
        self.source: object | None = None
        self.installed: dict[str, str] = {}
        self.provided: list[SourceUri] = []
        (self.root / "workspace").mkdir()
        (self.root / "shipped").mkdir()

    def have(self, layer: str) -> str:
        """Have a layer name the module; return the text of its source."""
        folder = self.root / str(LAYERS.index(layer))
        match layer:
            case "workspace":
                folder = self.root / "workspace" / "tool-demo"
            case "builtin modules":
                make_module(self.root / "shipped" / "tool-demo")
                return "builtin:tool-demo"
            case "installed packages":
                self.installed["tool-demo"] = "demo-distribution"
                return "demo-distribution"
        make_module(folder, init=BOOBY_TRAP)
        match layer:
            case "the application's resolver":
                self.application["tool-demo"] = folder
            case "settings":
                self.settings["modules"] = {"tool-demo": str(folder)}
            case "source of the plan entry":
                self.source = str(folder)
            case "workspace":
                pass
            case _:
                self.environ[VARIABLE] = str(folder)
        return str(folder)

    def resolver(self, **changed: Any) -> Resolver:
        application = ApplicationResolver(Application(self.application), not_found=(NotFoundError,))
        parts: dict[str, Any] = {
            "base": self.root,
            "builtin": BuiltinSource(self.root / "shipped"),
            "application": application,
            "settings": SourceSettings.of(self.settings, origin="sources.toml"),
            "installed": self.installed.get,
            "provide": self._provide,
        }
        return Resolver(self.environ, **{**parts, **changed})

    def choose(self) -> ChosenSource:
        return self.resolver().choose("tool-demo", self.source)

    def _provide(self, uri: SourceUri, module_id: str) -> Resolution:
        self.provided.append(uri)
        folder = Path("/provided")
        return Resolution(module_id, uri.text, folder, "package", folder / "package", folder, "tool")


@pytest.fixture
def machine(tmp_path: Path) -> Layered:
    return Layered(tmp_path)


@pytest.mark.parametrize("first", LAYERS)
def test_the_first_layer_that_has_the_module_wins(machine: Layered, first: str) -> None:
    texts = {layer: machine.have(layer) for layer in LAYERS[LAYERS.index(first) :]}
    chosen = machine.choose()
    assert (chosen.layer, chosen.uri.text) == (first, texts[first])
    assert [attempt.layer for attempt in chosen.attempts] == list(LAYERS[: LAYERS.index(first)])
    assert all(attempt.answer for attempt in chosen.attempts)


def test_what_is_chosen_is_provided_and_says_by_which_layer(machine: Layered) -> None:
    machine.have("settings")
    resolution = machine.resolver().resolve("tool-demo")
    assert resolution.layer == "settings"
    assert machine.provided == [FolderUri(resolution.source, Path(resolution.source))]


def test_choosing_provides_nothing(machine: Layered) -> None:
    machine.source = "git+https://host/org/repo@v1"
    chosen = machine.choose()
    assert isinstance(chosen.uri, GitUri) and machine.provided == []


def test_choosing_starts_no_process_and_makes_no_connection(machine: Layered, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: object, **kwargs: object) -> None:
        raise AssertionError("something was started or reached for")

    monkeypatch.setattr(subprocess.Popen, "__init__", refused)
    monkeypatch.setattr("socket.socket.connect", refused)
    monkeypatch.setattr("os.posix_spawn", refused)
    for source in ("git+https://host/org/repo", "git+ssh://git@host/org/repo@v1", "package==1.0", "./missing"):
        machine.source = source
        assert machine.choose().layer == "source of the plan entry"


def test_an_unknown_module_lists_what_every_layer_said(machine: Layered) -> None:
    with pytest.raises(UnresolvedError) as caught:
        machine.choose()
    assert [attempt.describe() for attempt in caught.value.attempts] == [
        f"environment variable {VARIABLE}: not set",
        "the application's resolver: no tool-demo here",
        f"workspace: there is no `{machine.root}/workspace/tool-demo`",
        "settings: `tool-demo` is not in [modules] of sources.toml",
        "source of the plan entry: none given",
        "builtin modules: no module of that id (there are: none)",
        "installed packages: none of them has a module `tool-demo`",
    ]
    # Those that know of no module at all, as they were not set, are left out.
    shown = [attempt.describe() for attempt in caught.value.attempts if not attempt.is_silent]
    assert [one.partition(":")[0] for one in shown] == ["the application's resolver", "workspace", "builtin modules"]
    assert list(caught.value.detail) == shown


def test_settings_without_a_workspace_say_where_one_would_be_named(machine: Layered) -> None:
    del machine.settings["workspace"]
    with pytest.raises(UnresolvedError) as caught:
        machine.choose()
    said = [attempt.describe() for attempt in caught.value.attempts]
    assert "workspace: no folder is named (`workspace` in sources.toml)" in said


def test_a_module_of_the_settings_is_among_what_may_have_been_meant(machine: Layered) -> None:
    machine.settings["modules"] = {"tool-demonstration": "/somewhere"}
    with pytest.raises(UnresolvedError) as caught:
        machine.resolver().choose("tool-demonstratoin")
    assert caught.value.hints[0] == "did you mean `tool-demonstration`?"


def _go_wrong(machine: Layered) -> Iterator[tuple[str, type[SourceError] | None]]:
    """Have one layer after the other answer what is wrong, the last one first; yield which."""

    machine.installed = {"tool-demo": "~no-name"}
    yield "installed packages", None
    machine.source = "git+svn://host/repo"
    yield "source of the plan entry", None
    (machine.root / "workspace" / "tool-demo").symlink_to("tool-demo")
    yield "workspace", None
    machine.application["tool-demo"] = OSError("disk on fire")
    yield "the application's resolver", ApplicationResolverError
    machine.environ[VARIABLE] = "~/mine"
    yield LAYERS[0], None


def test_a_layer_that_answers_wrongly_ends_the_search(machine: Layered) -> None:
    for layer, cause in _go_wrong(machine):
        with pytest.raises(UnresolvedError) as caught:
            machine.choose()
        assert caught.value.attempts[-1].layer == layer
        assert len(caught.value.attempts) == LAYERS.index(layer) + 1
        assert isinstance(caught.value.__cause__, cause or SourceError)
        assert caught.value.attempts[-1].answer in str(caught.value)


def test_what_cannot_be_provided_is_told_with_the_layer_that_chose_it(machine: Layered) -> None:
    def fail(uri: SourceUri, module_id: str) -> Resolution:
        raise SourceError("the server is gone", detail=["tried twice"], hints=["try again"])

    machine.source = "git+https://me:hunter2@host/org/repo"
    with pytest.raises(UnresolvedError) as caught:
        machine.resolver(provide=fail).resolve("tool-demo", machine.source)
    last = caught.value.attempts[-1]
    assert (last.layer, last.answer) == ("source of the plan entry", "the server is gone; tried twice")
    assert caught.value.hints == ("try again",)
    assert "hunter2" not in str(caught.value) and "host/org/repo" in str(caught.value)


def test_the_application_sees_what_the_plan_says(machine: Layered) -> None:
    application = Application({})
    resolver = machine.resolver(application=ApplicationResolver(application, not_found=(NotFoundError,)))
    table = {"type": "git", "url": "https://host/org/repo"}
    assert resolver.choose("tool-demo", table).uri.text == "git+https://host/org/repo"
    assert application.hints == [table]


def test_there_is_a_layer_only_for_what_is_configured(tmp_path: Path) -> None:
    with pytest.raises(UnresolvedError) as caught:
        Resolver({}, builtin=BuiltinSource(tmp_path)).choose("tool-demo")
    assert [attempt.layer for attempt in caught.value.attempts] == [LAYERS[0], LAYERS[4], LAYERS[5]]


def test_a_variables_relative_folder_starts_where_it_was_written(
    machine: Layered, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine.root / "here").mkdir()
    monkeypatch.chdir(machine.root / "here")
    machine.environ[VARIABLE] = "./mine"
    assert machine.choose().uri == FolderUri(f"{machine.root}/here/mine", machine.root / "here" / "mine")
    machine.environ.clear()
    machine.source = "./mine"
    assert machine.choose().uri.text == f"{machine.root}/mine"
    assert machine.resolver(base=None).choose("tool-demo", "./mine").uri.text == f"{machine.root}/here/mine"


def test_an_installed_distribution_is_named_by_the_package_it_is(machine: Layered) -> None:
    machine.have("installed packages")
    assert machine.choose().uri == PackageUri("demo-distribution", "demo-distribution")
