"""All that is wrong with an entry's grants is one error, with each place in the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from failures import failing
from paddock.isolation.compile import show_system
from paddock.isolation.mount_table import MountTable
from paddock.plan.problems import NotAcceptedError
from paddock.policy.grants import Grants
from paddock.policy.path_walk import GrantedPath

from .entries import entry, owner, problems_of


def anything(granted: GrantedPath, is_written: bool) -> None:
    """Let everything be written to."""


def test_paths_and_programs_are_found(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    one = entry(permissions={"read": ["."], "write": ["out"], "run": ["sh"]})
    grants = Grants.of(one, tmp_path, owner(), anything)
    assert [path.path for path in grants.reads] == [tmp_path]
    assert [path.path for path in grants.writes] == [tmp_path / "out"]
    assert grants.programs is not None and grants.may_run
    assert set(grants.executable()) == {str(file) for file in grants.programs[0].files}
    read, write, run = grants.lines()
    assert (read, write) == (f"read {tmp_path}", f"write {tmp_path}/out")
    assert run.startswith(("run /", "run sh, which is /"))


def test_nothing_granted_is_nothing_found(tmp_path: Path) -> None:
    grants = Grants.of(entry(), tmp_path, owner(), anything)
    assert grants == Grants()
    assert (grants.executable(), grants.may_run, list(grants.lines())) == ((), False, [])


def test_a_program_outside_the_system_is_granted_beside_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "vendor" / "tool"
    program.parent.mkdir()
    program.write_bytes(Path("/usr/bin/true").read_bytes())
    program.chmod(0o755)
    monkeypatch.setattr("paddock.policy.programs.look_up", lambda name, folders=(): str(program))
    monkeypatch.setattr("paddock.policy.grants.look_up", lambda name: str(program) if name == "tool" else None)
    grants = Grants.of(entry(permissions={"run": ["*", "tool"]}), tmp_path, owner(), anything)
    assert (grants.programs, [one.path for one in grants.beside]) == (None, [program])
    assert any(line.startswith(f"run {program} ") for line in grants.lines())
    table = MountTable()
    show_system(table, grants.programs, grants.beside)
    assert any(mount.target == str(program) and mount.mappable for mount in table.mounts())


@pytest.mark.parametrize("run", [["*"], ["git-that-is-nowhere", "*"]])
def test_every_program_stands_for_all_others(run: list[str], tmp_path: Path) -> None:
    grants = Grants.of(entry(permissions={"run": run}), tmp_path, owner(), anything)
    assert (grants.programs, grants.executable(), grants.may_run) == (None, ("*",), True)
    assert list(grants.lines()) == ["run every program that it can see"]


def test_every_problem_is_reported_with_its_place(tmp_path: Path) -> None:
    def nothing(granted: GrantedPath, is_written: bool) -> None:
        if is_written:
            raise NotAcceptedError(f"`{granted.written}` may not be written to", "grant another")

    one = entry(
        permissions={"read": [".", "missing"], "write": [".", "/etc", "gone"], "run": ["sh", "no-such-program"]}
    )
    problems = problems_of(lambda: Grants.of(one, tmp_path, owner(), nothing))
    assert list(problems) == [
        "tools[0].permissions.read[1]",
        "tools[0].permissions.write[0]",
        "tools[0].permissions.write[1]",
        "tools[0].permissions.write[2]",
        "tools[0].permissions.run[1]",
    ]
    assert problems["tools[0].permissions.write[0]"] == "`.` may not be written to | grant another"
    assert "the system's own" in problems["tools[0].permissions.write[1]"]
    with failing("GrantError") as caught:
        Grants.of(one, tmp_path, owner(), nothing)
    assert caught.value.exit_code == 1


def test_what_is_wrong_with_a_preset_is_told_at_its_place(tmp_path: Path) -> None:
    one = entry(permissions="workspace")
    missing = tmp_path / "gone"
    assert set(problems_of(lambda: Grants.of(one, missing, owner(), anything))) == {"tools[0].permissions"}


_INSIDE: list[dict[str, Any]] = [
    {"permissions": "shell"},
    {"permissions": {"read": ["../beside"], "write": ["."], "run": ["*"], "net": ["self"], "env": ["A=1"]}},
    {"permissions": {"write": ["below", "same"], "call": ["tools", "context", "providers", "state:a"]}},
    {"permissions": {"emit": ["*"], "hooks": ["*"], "mount": ["context"]}, "state": "ephemeral"},
]
_OUTSIDE: list[dict[str, Any]] = [
    *({"permissions": {"write": [path]}} for path in ("../beside", "..", "away")),
    *({"permissions": {"net": [host]}} for host in ("public", "127.0.0.1:80", "*.example.org")),
    {"permissions": {"secrets": ["KEY"]}},
    *({"permissions": {"call": [what]}} for what in ("spawn", "*")),
    {"state": "keep"},
]


@pytest.mark.parametrize("keys", [*_INSIDE, *_OUTSIDE], ids=str)
def test_what_acts_outside_of_a_folder(keys: dict[str, Any], tmp_path: Path) -> None:
    work, beside = tmp_path / "work", tmp_path / "beside"
    for folder in (work / "below", beside):
        folder.mkdir(parents=True)
    (work / "away").symlink_to(beside)
    (work / "same").symlink_to("below")
    one = entry(**keys)
    grants = Grants.of(one, work, owner(), anything)
    assert grants.act_outside(work, one, "ns") is (keys in _OUTSIDE)
    assert grants.act_outside(work, one, "none")
