"""Real sessions over small modules that each test writes down in full."""

from __future__ import annotations

import os
import tempfile
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from integration.agents import LOOP, TASK, Family
from integration.command_line import nothing_outlives_its_command, require_level
from integration.policed_machine import PolicedMachine, why_not
from integration.policy_ground import Ground
from integration.probe import Code, entry_of
from integration.tricky_tool import TRICKY
from paddock import Session
from paddock_sandbox.profile import IsolationLevel
from support.children import descendants_of_this_process

WriteModule = Callable[[str, str], str]
OpenSession = Callable[..., AbstractAsyncContextManager[Session]]

ANSWERING = """\
session: {orchestrator: loop-basic, context: context-simple}
providers:
  - module: provider-mock
    config: {fallback: "You said: {prompt}"}
"""
_SECONDS = 200  # for one whole session in a test; hit only by a hang
DIRECT = """
    import json

    class Direct:
        \"\"\"Runs the one tool call that the prompt spells out.\"\"\"

        async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **kwargs):
            order = json.loads(prompt)
            result = await tools[order["tool"]].execute(order.get("input", {}))
            return json.dumps({"success": result.success, "output": result.output, "error": result.error})

    async def mount(coordinator, config):
        await coordinator.mount("orchestrator", Direct())
"""


@pytest.fixture(params=("ns", "landlock"))
def level(request: pytest.FixtureRequest) -> IsolationLevel:
    """Each level that refuses files and networks in a way of its own, as far as this machine has it."""
    return require_level(request.param)


@pytest.fixture(params=("ns", pytest.param("landlock", marks=pytest.mark.exhaustive)))
def a_level(request: pytest.FixtureRequest) -> IsolationLevel:
    """One level, where the code under test is the same at each; `make test-all` tries them all."""
    return require_level(request.param)


@pytest.fixture
def ns() -> IsolationLevel:
    return require_level("ns")


@pytest.fixture
def home() -> Iterator[Path]:
    """A home folder with a key in it; not below /tmp, of which modules have one of their own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="paddock-test-") as folder:
        home = Path(os.path.realpath(folder))
        (home / "work").mkdir()
        (home / ".ssh").mkdir()
        (home / ".ssh/id_x").write_text("the key")
        yield home


@pytest.fixture
def write_module(tmp_path: Path) -> WriteModule:
    """Write a module of one file, laid out as the community does, and return its folder as a plan's source."""

    def write(module_id: str, code: str) -> str:
        root = tmp_path / f"amplifier-module-{module_id}"
        package = f"amplifier_module_{module_id.replace('-', '_')}"
        (root / package).mkdir(parents=True, exist_ok=True)
        (root / package / "__init__.py").write_text(textwrap.dedent(code), encoding="utf-8")
        (root / "pyproject.toml").write_text(
            f'[project]\nname = "amplifier-module-{module_id}"\nversion = "1.0"\n'
            f'[project.entry-points."amplifier.modules"]\n{module_id} = "{package}:mount"\n',
            encoding="utf-8",
        )
        return str(root)

    return write


@pytest.fixture
def tricky(write_module: WriteModule) -> str:
    """A tool that does what a call tells it to."""
    return write_module("tool-tricky", TRICKY)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file, apart from modules and plans."""
    made = tmp_path / "granted"
    made.mkdir()
    (made / "file").write_text("content", encoding="utf-8")
    return made


@pytest.fixture
def open_session(tmp_path: Path, write_module: WriteModule) -> OpenSession:
    """Open a session of the given entries; the orchestrator runs the one tool call that a prompt spells out."""

    @asynccontextmanager
    async def open_it(
        *,
        tools: list[dict[str, Any]] = (),  # type: ignore[assignment]
        hooks: list[dict[str, Any]] = (),  # type: ignore[assignment]
        providers: list[dict[str, Any]] = (),  # type: ignore[assignment]
        orchestrator: dict[str, Any] | None = None,
        context: dict[str, Any] | None = None,
        agents: dict[str, Any] | None = None,
        limits: dict[str, Any] | None = None,
        **options: Any,
    ) -> AsyncIterator[Session]:
        loop = orchestrator or entry_of("loop-direct", DIRECT)
        plan = {
            "session": {
                "orchestrator": granted(tmp_path, loop),
                "context": granted(tmp_path, context or {"module": "context-simple"}),
            },
            "providers": [granted(tmp_path, entry) for entry in providers],
            "tools": [granted(tmp_path, entry) for entry in tools],
            "hooks": [granted(tmp_path, entry) for entry in hooks],
            **({"agents": agents} if agents is not None else {}),
            **({"limits": limits} if limits is not None else {}),
        }
        working_dir = tmp_path / "work"
        working_dir.mkdir(exist_ok=True)
        with anyio.fail_after(_SECONDS):
            async with Session(
                _written(plan, write_module), working_dir=working_dir, **{"trust_plan": True, **options}
            ) as session:
                yield session

    return open_it


@pytest.fixture
def open_family(open_session: OpenSession, tmp_path: Path) -> Callable[..., Any]:
    """Open a session with the agents `helper`, who has what the plan has, and others that are given."""

    @asynccontextmanager
    async def open_it(
        agents: dict[str, Any] | None = None, call: tuple[str, ...] = ("spawn",), **sections: Any
    ) -> AsyncIterator[Family]:
        task = entry_of("tool-task", TASK, permissions={"call": [*call], "read": [str(tmp_path)]})
        async with open_session(
            orchestrator=entry_of("loop-orders", LOOP),
            tools=[task, *sections.pop("tools", ())],
            agents={"helper": {"description": "helps", "instruction": "be kind"}, **(agents or {})},
            **sections,
        ) as session:
            yield Family(session)

    return open_it


def _written(plan: Any, write: WriteModule) -> Any:
    """Return a plan, or a part of one, with the code that stands in the place of sources written down."""
    match plan:
        case {"module": str(module), "source": Code() as code}:
            return {**plan, "source": write(module, code)}
        case dict():
            return {key: _written(value, write) for key, value in plan.items()}
        case list():
            return [_written(value, write) for value in plan]
    return plan


def granted(folder: Path, entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry whose module may leave its traces in a folder, unless the entry says what it may."""
    return {"permissions": {"read": [str(folder)], "write": [str(folder)]}, **entry}


def write_plan(*tools: str) -> None:
    """Write a plan of modules that answer what they are asked, with these tools, into the working folder."""
    listed = "".join(f"  - {tool}\n" for tool in tools)
    Path("plan.yaml").write_text(ANSWERING + (f"tools:\n{listed}" if tools else ""))


@pytest.fixture(autouse=True)
def _starts_are_warm(warm_starts: None) -> None:
    """Have all tests here begin warm, but for those that ask for `cold`."""


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """A project on this machine as it is."""
    return Ground(tmp_path.resolve(), None)


@pytest.fixture(scope="session")
def _machine(tmp_path_factory: pytest.TempPathFactory) -> PolicedMachine:
    if why_not():
        pytest.skip(why_not())
    return PolicedMachine(tmp_path_factory.getbasetemp().resolve())


@pytest.fixture
def policed(tmp_path: Path, _machine: PolicedMachine) -> Ground:
    """A project on a machine whose operator may write a policy."""
    return Ground(tmp_path.resolve(), _machine)


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Any:
    """Fail a test whose session leaves a process, dead or alive."""
    before = descendants_of_this_process()
    yield
    if descendants_of_this_process() - before:
        left = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
        assert not left, f"still there: {[(process, process.ppid()) for process in left]}, of {os.getpid()}"


@pytest.fixture
def commands_end(nothing_is_left_behind: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test one of whose commands leaves a process that does not end at once, or a file in its TMPDIR."""
    with nothing_outlives_its_command(tmp_path / "scratch", monkeypatch):
        yield


@pytest.fixture
def in_tmp_path(commands_end: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands, all of which end, begin in the test's folder, with a cache in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PADDOCK_CACHE_DIR", str(tmp_path / "cache"))
