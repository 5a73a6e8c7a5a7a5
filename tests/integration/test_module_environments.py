"""What a module depends on is there when it runs, in the version it wants, and nothing of anybody else's is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import anyio
import pytest
import typing_extensions

from host.authoring.installed_wheels import index_of
from host.egress.certificates import TestAuthority
from integration.probe import call_once
from paddock import Session
from paddock.errors import ModuleMissingError, PolicyRefusedError, UnknownContractError
from paddock.module_sources.provisioning import SourceOptions
from paddock.session.tool_call import ToolCallOutcome
from paddock_sources.locked_sources import LockUse
from sources.git_repositories import lay_out, library_files, module_files, repository
from sources.git_server import GitServer, store_credentials
from sources.index_server import IndexServer

_SECONDS = 60
_TYPING_EXTENSIONS = Path(str(typing_extensions.__file__)).read_text()
_OTHER_VERSION = "4.13.99"  # of typing-extensions: one that pydantic takes, and that no runtime has


@pytest.fixture
def git(tmp_path: Path) -> Iterator[GitServer]:
    """A server of repositories, with none yet."""
    for name in ("authority", "repositories"):
        (tmp_path / name).mkdir()
    with GitServer(tmp_path / "repositories", TestAuthority(tmp_path / "authority")) as git:
        yield git


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexServer]:
    """An index that this user's installers take packages from."""
    with index_of(monkeypatch) as index:
        yield index


def _module(root: Path, answer: str, *requires: str, name: str = "tool-greet") -> str:
    imports = "import importlib.metadata as metadata, os, sys"
    return str(lay_out(root / name, module_files(name, answer=answer, imports=imports, requires=requires)))


async def _call(source: str, tool: str = "tool_greet", folder: Path | None = None, **options: Any) -> ToolCallOutcome:
    sources = SourceOptions(**options)
    return await call_once(source, tool, {}, working_dir=folder or Path(source).parent, sources=sources)


async def test_a_module_finds_what_it_depends_on_and_nothing_of_anothers(index: IndexServer, tmp_path: Path) -> None:
    index.add_wheel("leaf", "1.5.0")
    index.add_wheel("branch", "2.0.0", requires=["leaf>=1"])
    index.add_wheel("theirs", "1.0")
    seen = (
        "sorted(one.metadata['Name'] for one in metadata.distributions()"
        " if one.metadata['Name'] in ('leaf', 'branch', 'theirs'))"
    )
    answer = (
        "{'versions': [__import__('branch').__version__, metadata.version('leaf'), metadata.version('amplifier-core'),"
        " metadata.version('amplifier-module-tool-greet')],"
        " 'modules': [one.name for one in metadata.entry_points(group='amplifier.modules')],"
        " 'writable': [os.access(one, os.W_OK) for one in (__import__('leaf').__file__, __file__)],"
        f" 'seen': {seen}}}"
    )
    source = _module(tmp_path, answer, "branch", "amplifier-core @ git+https://example.com/core")
    expected = {
        "versions": ["2.0.0", "1.5.0", "2.0.2", "1.0.0"],
        "modules": ["tool-greet"],
        "writable": [False, False],
        "seen": ["branch", "leaf"],
    }
    outcome = await _call(source)
    assert outcome.result.output == expected, outcome.result
    other = await _call(_module(tmp_path, seen, "theirs", name="tool-other"), "tool_other")
    assert other.result.output == ["theirs"]
    # From then on it comes from the cache.
    index.requests.clear()
    index.add_wheel("leaf", "1.6.0")
    again = await _call(source, offline=True, use=LockUse.FROZEN)
    assert (again.result.output, index.requests) == (expected, [])


async def test_a_module_for_a_newer_contract_is_refused_before_it_runs(tmp_path: Path) -> None:
    assert (await _call(_module(tmp_path, "1", "amplifier-core>=2,<3", name="tool-fine"), "tool_fine")).result.success
    outcome = await _call(_module(tmp_path, "1", "amplifier-core>=3"))
    assert isinstance(outcome.error, UnknownContractError)
    assert "requires `amplifier-core>=3`, and there is amplifier-core 2.0.2" in str(outcome.error)
    assert outcome.level == ""  # no process was started


@pytest.mark.exhaustive
async def test_a_module_that_wants_another_version_than_the_runtime_has_gets_it(
    index: IndexServer, tmp_path: Path
) -> None:
    index.add_wheel(
        "typing-extensions", _OTHER_VERSION, {"typing_extensions.py": _TYPING_EXTENSIONS + "\nOURS = True\n"}
    )
    answer = "[metadata.version('typing-extensions'), __import__('typing_extensions').OURS]"
    assert metadata.version("typing-extensions") != _OTHER_VERSION
    outcome = await _call(_module(tmp_path, answer, f"typing-extensions=={_OTHER_VERSION}"))
    assert outcome.result.output == [_OTHER_VERSION, True], outcome.result


async def test_a_module_that_wants_what_no_worker_can_be_is_refused_by_name(index: IndexServer, tmp_path: Path) -> None:
    index.add_wheel("msgpack", "0.1.0")
    outcome = await _call(_module(tmp_path, "0", "msgpack==0.1.0"))
    assert outcome.error is not None and "needs `msgpack` 0.1.0" in str(outcome.error)


async def test_nothing_of_a_package_that_would_have_to_be_built_is_run(index: IndexServer, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    index.add_sdist("trap", "1.0", {"setup.py": f"open({str(trace)!r}, 'w').close()\n"})
    outcome = await _call(_module(tmp_path, "0", "trap"))
    assert outcome.error is not None and "`trap`" in str(outcome.error) and "has no wheel" in str(outcome.error)
    assert not trace.exists()


@pytest.mark.exhaustive
async def test_a_folder_is_run_as_a_copy_or_live(tmp_path: Path) -> None:
    source = _module(tmp_path, "__file__")
    copied, live = await _call(source), await _call(source, live=True)
    assert not str(copied.result.output).startswith(source) and str(live.result.output).startswith(source)


class _Named:
    """An application's own resolver, which knows one module."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.asked: list[tuple[str, object]] = []

    async def async_resolve(self, module_id: str, source_hint: object = None, profile_hint: object = None) -> Any:
        self.asked.append((module_id, source_hint))
        from paddock_sdk.contract.module_sources import ModuleNotFoundError

        if module_id != "tool-greet":
            raise ModuleNotFoundError(f"no {module_id}")
        return self

    def resolve(self) -> Path:
        return self._folder


async def test_an_applications_resolver_is_asked_before_anything_else(tmp_path: Path) -> None:
    source = _module(tmp_path, "'from the plan'")
    resolver = _Named(Path(_module(tmp_path / "other", "'from the application'")))
    outcome = await _call(source, application=resolver)
    assert outcome.result.output == "from the application"
    assert resolver.asked == [("tool-greet", source)]
    shipped = await _call("builtin:tool-filesystem", "read_file", tmp_path, application=resolver)
    assert "file_path" in str(shipped.result.error) and os.sep not in resolver.asked[-1][0]


async def test_nothing_is_fetched_with_keys_for_an_unaccepted_plan(tmp_path: Path) -> None:
    plan = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "tools": [{"module": "tool-x", "source": "git+ssh://git@host.invalid/org/tool-x@v1"}],
    }
    with anyio.fail_after(_SECONDS), pytest.raises(PolicyRefusedError, match="your own keys or credentials"):
        async with Session(plan, working_dir=tmp_path):
            pass
    with anyio.fail_after(_SECONDS), pytest.raises(ModuleMissingError, match=r"host\.invalid"):
        async with Session(plan, working_dir=tmp_path, trust_plan=True):
            pass


async def test_a_fetched_modules_dependencies_obey_policy_without_keys(
    git: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(git.folder / "library", library_files("greeting"))
    git.private["library"] = "reader:hush"
    needs = f"greeting @ {git.address('library', 'v1')}"
    repository(git.folder / "tool-greet", module_files(answer="__import__('greeting').VALUE", requires=[needs]))
    store_credentials(Path(os.environ["HOME"]), git, "reader:hush")
    monkeypatch.setenv("GIT_SSL_CAINFO", git.environ["GIT_SSL_CAINFO"])
    fetched = await _call(git.address("tool-greet", "v1"), folder=tmp_path)
    assert "a dependency of a module, not named by you" in str(fetched.error)
    own = await _call(_module(tmp_path, "__import__('greeting').VALUE", needs, name="tool-greet"))
    assert own.result.output == "hello from a library", own.result
    config = Path(os.environ["HOME"]) / ".config/paddock"
    config.mkdir(mode=0o700, parents=True, exist_ok=True)
    (config / "policy.toml").write_text('git_hosts = ["git.example.com"]\n')
    refused = await _call(_module(tmp_path / "again", "0", needs))
    assert "repositories may come from: `git.example.com`" in str(refused.error)


async def test_a_folder_that_is_worked_on_keeps_the_commits_it_depends_on(git: GitServer, tmp_path: Path) -> None:
    library = repository(git.folder / "library", library_files("greeting", value="first"))
    (tmp_path / "link").symlink_to(library.folder)  # its commits are those of where it leads
    needs = f"greeting @ git+file://{tmp_path}/link@main"
    config = Path(os.environ["HOME"]) / ".config/paddock"
    config.mkdir(mode=0o700, parents=True, exist_ok=True)
    (config / "policy.toml").write_text("require_pinned = true\n")
    answer = "__import__('greeting').VALUE"
    assert (await _call(_module(tmp_path, answer, needs))).result.output == "first"
    library.commit(library_files("greeting", value="second"))
    assert (await _call(_module(tmp_path, answer + " + '!'", needs))).result.output == "first!"
