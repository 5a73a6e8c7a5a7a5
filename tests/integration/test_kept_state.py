"""`state: keep`: what a module leaves in its home is there the next time, for it alone, and no more than it may."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from integration.command_line import diagnosis
from integration.conftest import WriteModule
from integration.probe import tool_code
from paddock import Session
from paddock.errors import PlanError, PolicyRefusedError
from paddock.workers.exit_report import ExitReason
from paddock_sandbox.profile import IsolationLevel

_KEEPER = tool_code(
    "keep",
    """
    home = Path.home()
    if "fill" in input:
        for number in range(input["fill"]):
            (home / f"large-{number}").write_bytes(os.urandom(1 << 20))
    if "hold" in input:
        for number in range(input["hold"]):
            file = (home / "held").open("wb", buffering=0)
            file.write(os.urandom(1 << 20))
            (home / "held").unlink()
            vars(self).setdefault("held", []).append(file)
    if "poke" in input:
        Path(input["poke"]).write_text("poked")
    diary = home / ".amplifier" / "diary"
    diary.parent.mkdir(exist_ok=True)
    with diary.open("a") as file:
        file.write(input.get("note", "") + ";")
    return ToolResult(output={"home": str(home), "diary": diary.read_text()})
    """,
)
_SECONDS = 60


class Project:
    """Sessions of one plan, in whichever folder, on a machine of their own."""

    def __init__(self, root: Path, write_module: WriteModule) -> None:
        self.root = root
        self.state = root / "state"
        self._sources = {name: write_module(name, _KEEPER) for name in ("tool-keep", "tool-keep-too")}

    async def note(
        self, note: str, *, folder: str = "project", module: str = "tool-keep", **options: Any
    ) -> dict[str, Any]:
        """Open a session, have the tool note something, and return what it tells."""
        async with self.session(folder=folder, module=module, **options) as session:
            return await _ask(session, {"note": note})

    def session(
        self,
        *,
        folder: str = "project",
        module: str = "tool-keep",
        keeps: bool = True,
        trust: bool = True,
        entry: Mapping[str, Any] | None = None,
        isolation: IsolationLevel | None = None,
    ) -> Session:
        working_dir = self.root / folder
        working_dir.mkdir(exist_ok=True)
        tool = {"module": module, "source": self._sources[module], **(entry or {})}
        if keeps:
            tool["state"] = "keep"
        return Session(
            {"session": {"orchestrator": "loop-basic", "context": "context-simple"}, "tools": [tool]},
            working_dir=working_dir,
            environ={"XDG_STATE_HOME": str(self.state), "HOME": str(self.root)},
            trust_plan=trust,
            isolation=isolation,
        )


async def _ask(session: Session, order: dict[str, Any], tool: str = "keep") -> dict[str, Any]:
    with anyio.fail_after(_SECONDS):
        result = await session.coordinator.get("tools", tool).execute(order)
    return result.output if result.success else {"error": result.error}


@pytest.fixture
def project(tmp_path: Path, write_module: WriteModule) -> Project:
    return Project(tmp_path, write_module)


async def test_a_module_finds_what_it_left_and_no_other_does(project: Project) -> None:
    first = await project.note("one")
    second = await project.note("two")
    assert (first["diary"], second["diary"]) == ("one;", "one;two;")
    assert first["home"] == second["home"]
    home = Path(first["home"])
    assert home.is_relative_to(project.state / "paddock/homes")
    # Beside it stands whose it is.
    about = json.loads((home.parent / "about.json").read_text())
    assert about["project"] == str(project.root / "project") and about["source"].endswith("tool-keep")
    assert about["module"] == "tool-keep"

    # Another project, source or instance has a home of its own.
    others = [
        await project.note("there", folder="elsewhere"),
        await project.note("named", entry={"instance_id": "second"}),
    ]
    # A grant of all homes opens none of another module.
    granted = {"permissions": {"write": [str(project.root)]}}
    async with project.session(module="tool-keep-too", entry=granted) as session:
        others.append(await _ask(session, {"note": "other"}))
        outside = project.root / "outside"
        assert "error" not in await _ask(session, {"poke": str(outside)}) and outside.read_text() == "poked"
        assert "error" in await _ask(session, {"poke": str(home / ".amplifier/diary")})
    assert [other["diary"] for other in others] == ["there;", "named;", "other;"]
    assert len({first["home"], *(other["home"] for other in others)}) == 4
    assert (home / ".amplifier/diary").read_text() == "one;two;"


async def test_without_state_keep_nothing_is_found_again(project: Project) -> None:
    await project.note("one", keeps=False)
    assert (await project.note("two", keeps=False))["diary"] == "two;"


@pytest.mark.exhaustive
async def test_two_modules_of_one_source_have_homes_of_their_own(tmp_path: Path, write_module: WriteModule) -> None:
    source = Path(write_module("tool-keep", _KEEPER))
    package = source / "amplifier_module_tool_keep"
    shutil.copytree(package, source / "amplifier_module_tool_keep_too")
    entries = [{"module": name, "source": str(source), "state": "keep"} for name in ("tool-keep", "tool-keep-too")]
    with (source / "amplifier_module_tool_keep_too/__init__.py").open("a") as file:
        file.write("\nProbe.name = 'keep-too'\n")

    async def note(note: str) -> list[dict[str, Any]]:
        async with Session(
            {"session": {"orchestrator": "loop-basic", "context": "context-simple"}, "tools": entries},
            working_dir=tmp_path,
            environ={"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)},
            trust_plan=True,
        ) as session:
            theirs = [await _ask(session, {"note": note}, tool=name) for name in ("keep", "keep-too")]
            # A path into the other's home, which its own author may know, leads nowhere.
            assert "error" in await _ask(session, {"poke": f"{theirs[0]['home']}/poked"}, tool="keep-too")
            return theirs

    first, second = await note("one"), await note("two")
    assert [home["diary"] for home in first] == ["one;"] * 2
    assert [home["diary"] for home in second] == ["one;two;"] * 2
    assert first[0]["home"] != first[1]["home"]


@pytest.mark.exhaustive("hold-landlock", "fill-")
@pytest.mark.parametrize(
    ("how", "level", "named", "allowed"),
    [
        ("fill", "ns", {"tmp_max": "4M"}, 4),
        ("hold", "ns", {"tmp_max": "4M"}, 4),
        ("hold", "bwrap", {"tmp_max": "4M"}, 4),
        ("hold", "landlock", {}, 64),
    ],
)
async def test_a_kept_home_beyond_tmp_max_ends_its_module_by_name(
    how: str, level: IsolationLevel, named: dict[str, str], allowed: int, project: Project
) -> None:
    found = next(one for one in diagnosis()["levels"] if one["level"] == level)
    if not found["reachable"]:
        pytest.skip(f"{level}: {found['reason']}")
    async with project.session(entry={"limits": named}, isolation=level) as session:
        assert "error" not in await _ask(session, {how: 2})
        await _ask(session, {how: allowed + 4})
        with anyio.fail_after(_SECONDS):
            while not session.modules[-1].exit_reports:
                await anyio.sleep(0.02)
        report = session.modules[-1].exit_reports[0]
    assert report.reason is ExitReason.DISK
    assert report.limit is not None and (report.limit.name, report.limit.configured) == ("tmp_max", f"{allowed} MiB")


async def test_a_home_that_cannot_be_made_is_named_with_a_way_out(project: Project) -> None:
    project.state.touch()
    with pytest.raises(PlanError) as caught:
        await project.note("one")
    (problem,) = caught.value.problems
    assert problem.path == "tools[0].state" and f"'{project.state}'" in problem.message
    assert "XDG_STATE_HOME" in problem.hint


async def test_an_unaccepted_plan_has_nothing_kept_for_it(project: Project) -> None:
    with pytest.raises(PolicyRefusedError, match="a folder that is kept"):
        await project.note("one", trust=False)
    assert not (project.state / "paddock/homes").exists()
