"""What a worker reads of its own mounts, memory and paths: no folder's name that the user chose and did not grant."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import pytest

from integration.command_line import paddock, require_level
from integration.conftest import WriteModule
from integration.probe import tool_code
from paddock import Session
from paddock_sandbox.profile import IsolationLevel

_TOOL = tool_code(
    "look",
    """
    import sys
    said = [__file__, *sys.path, os.getcwd(), *map("=".join, os.environ.items())]
    for name in ("mountinfo", "mounts", "mountstats", "maps", "cmdline", "environ", "cgroup", "status"):
        try:
            with open(f"/proc/self/{name}", errors="replace") as file:
                said.append(file.read())
        except OSError as error:
            said.append(f"{name}: {error.strerror}")
    return ToolResult(output="\\n".join(said))
    """,
)
_SECONDS = 60  # hit only by a hang
_DIGEST = re.compile(r"[0-9a-f]{32,64}")
_ROOMS = ("trees-v2", "metadata-v1", "envs-v1")


def _folders(root: Path, write_module: WriteModule) -> tuple[Path, Path]:
    """Make a working directory and a module's folder, whose names are the user's."""
    work, code = root / "secretwork", root / "secretcode"
    work.mkdir()
    Path(write_module("tool-look", _TOOL)).rename(code)
    return work, code


@pytest.mark.exhaustive("landlock")
@pytest.mark.parametrize("level", ["ns", "landlock"])
def test_a_worker_sees_no_name_of_a_folder_that_was_not_granted(
    tmp_path: Path, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch, level: IsolationLevel
) -> None:
    require_level(level)
    cache = tmp_path / "cache"
    monkeypatch.setenv("PADDOCK_CACHE_DIR", str(cache))
    work, code = _folders(tmp_path, write_module)

    def seen(*options: str) -> str:
        call = ("call", str(code), "look", "{}", "--isolation", level, "-C", str(work))
        done = paddock(*call, *options, cwd=work)
        assert done.returncode == 0, done.stderr
        return done.stdout

    shown = seen()
    assert "secret" not in shown
    inside = {path for path in re.findall(rf"{re.escape(str(cache))}/([^\s:]+)", shown) if path.startswith(_ROOMS)}
    assert inside
    for path in inside:
        room, digest, *rest = path.split("/")
        assert room in _ROOMS and _DIGEST.fullmatch(digest)
        assert not rest or rest[0] in ("tree.d", "site")
    assert "secretwork" in seen("--allow-read=.")  # what was granted is where it is
    if level == "ns":
        assert "secretcode" in seen("--dev")  # and so is what runs live


async def test_a_kept_home_is_shown_by_a_digest(tmp_path: Path, write_module: WriteModule) -> None:
    work, code = _folders(tmp_path, write_module)
    tool = {"module": "tool-look", "source": str(code), "state": "keep", "instance_id": "secretinstance"}
    with anyio.fail_after(_SECONDS):
        async with Session(
            {"session": {"orchestrator": "loop-basic", "context": "context-simple"}, "tools": [tool]},
            working_dir=work,
            environ={
                "XDG_STATE_HOME": str(tmp_path / "state"),
                "PADDOCK_CACHE_DIR": str(tmp_path / "cache"),
                "HOME": str(tmp_path),
            },
            trust_plan=True,
        ) as session:
            result = await session.coordinator.get("tools", "look").execute({})
    assert result.success, result.error
    titles = re.compile(r"paddock: secretinstance \[\w+\]|Name:\tsecretinstance")  # its own, for people who look at it
    assert "secret" not in titles.sub("", result.output)
    if "/state/paddock/homes/" not in result.output:
        pytest.skip("this level shows no mounts")
    assert re.search(r"/state/paddock/homes/[0-9a-f]{32}/home", result.output)
