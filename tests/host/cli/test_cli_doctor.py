"""What was found out about a machine, as people and scripts are told it; the machines are made up."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from paddock.cli import doctor_command
from paddock.doctor import CgroupFinding, Diagnosis, LevelFinding, LimitFinding
from paddock.errors import LevelFailure
from paddock.isolation.machine import Machine
from paddock.policy.files.file_status import FileStatus
from paddock_sandbox.cgroup import CgroupPlace, CgroupProblem
from paddock_sandbox.profile import IsolationLevel
from support.rows import each_row

REACHED: dict[IsolationLevel, LevelFinding] = {
    "ns": LevelFinding("ns", None, ("file system", "tcp")),
    "bwrap": LevelFinding("bwrap", None, ("file system", "tcp")),
    "landlock": LevelFinding("landlock", None, ("file system", "tcp")),
    "none": LevelFinding("none"),
}
FAILED: dict[IsolationLevel, LevelFinding] = {
    "ns": LevelFinding("ns", LevelFailure("namespaces", errno.EPERM, "clone: Operation not permitted", "lift it")),
    "bwrap": LevelFinding("bwrap", LevelFailure("start", 0, "bwrap: no \x1b[2J", "lift it")),
    "landlock": LevelFinding("landlock", LevelFailure("Landlock", errno.EOPNOTSUPP, "switched off")),
}
FILES = (
    FileStatus(
        Path("/etc/paddock/policy.toml"), "in force", ("line 3: modules from `*`: read at most .; " + "run, " * 40,)
    ),
    FileStatus(Path("/home/me/.config/paddock/grants.toml"), "absent"),
)


def diagnosis(*reachable: IsolationLevel, **parts: Any) -> Diagnosis:
    levels: tuple[IsolationLevel, ...] = ("ns", "bwrap", "landlock")
    return Diagnosis(
        **{
            "machine": Machine("6.1", "x86_64", 1000),
            "levels": (*((REACHED if one in reachable else FAILED)[one] for one in levels), REACHED["none"]),
            "limits": (LimitFinding("memory_max", "256 MiB", "cgroup memory"),),
            "places": (CgroupPlace(2, "/sys/fs/cgroup/own", frozenset({"memory"})),),
            "problems": (),
            "settings": (),
            "landlock_abi": 4,
            **parts,
        }
    )


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("COLUMNS", "200")

    def tell(found: Diagnosis, *, as_json: bool = False) -> tuple[int, str]:
        async def examine(environ: Any) -> Diagnosis:
            return found

        monkeypatch.setattr(doctor_command, "examine", examine)
        monkeypatch.setattr(doctor_command, "statuses_of_files", lambda environ: FILES)
        code = doctor_command.doctor.main(["--json"] if as_json else [], standalone_mode=False)
        shown = capsys.readouterr()
        assert shown.err == ""
        return code, shown.out

    return tell


@pytest.mark.parametrize(
    ("reachable", "code", "level"),
    [
        (["ns", "bwrap", "landlock"], 0, "ns"),
        (["bwrap", "landlock"], 0, "bwrap"),
        (["landlock"], 1, None),
        ([], 1, None),
    ],
)
def test_the_exit_code_says_whether_sessions_run_without_further_ado(
    told: Any, reachable: list[IsolationLevel], code: int, level: str | None
) -> None:
    ended, shown = told(diagnosis(*reachable), as_json=True)
    facts = json.loads(shown)
    assert (ended, facts["ok"], facts["level"]) == (code, code == 0, level)
    assert [found["level"] for found in facts["levels"]] == ["ns", "bwrap", "landlock", "none"]
    assert [found["reachable"] for found in facts["levels"]][:3] == [one in reachable for one in REACHED][:3]


def test_scripts_get_every_fact(told: Any) -> None:
    problem = CgroupProblem("cpu", "/sys/fs/cgroup/own", "EACCES", "no permission")
    _, shown = told(
        diagnosis(
            "landlock",
            problems=(CgroupFinding(problem, "delegate it"),),
            limits=(LimitFinding("cpu_quota", "100% of a CPU", "", "no group", "delegate it"),),
        ),
        as_json=True,
    )
    facts = json.loads(shown)
    assert facts["levels"][0] == {
        "level": "ns",
        "reachable": False,
        "step": "namespaces",
        "errno": "EPERM",
        "reason": "clone: Operation not permitted",
        "fix": "lift it",
        "missing_guarantees": [],
        "protections": [],
        "lacks": [],
    }
    assert facts["levels"][2]["missing_guarantees"] and facts["levels"][2]["protections"] == ["file system", "tcp"]
    assert facts["limits"] == [
        {
            "limit": "cpu_quota",
            "default": "100% of a CPU",
            "mechanism": None,
            "best_effort": True,
            "why": "no group",
            "fix": "delegate it",
        }
    ]
    assert facts["limits_level"] == "landlock"
    assert facts["cgroups"] == {
        "controllers": ["memory"],
        "places": [{"version": 2, "directory": "/sys/fs/cgroup/own", "controllers": ["memory"]}],
        "problems": [
            {
                "controller": "cpu",
                "why": "no permission",
                "tried": "/sys/fs/cgroup/own",
                "errno": "EACCES",
                "fix": "delegate it",
            }
        ],
    }
    assert facts["machine"]["kernel"] == "6.1" and facts["machine"]["container"] is None
    assert facts["landlock"]["abi"] == 4 and "udp" in facts["landlock"]["later_protections"]


def test_people_are_told_the_step_that_failed_its_error_and_the_fix_once(told: Any) -> None:
    code, shown = told(diagnosis("landlock"))
    lines = [line.strip() for line in shown.splitlines()]
    assert code == 1
    assert "ns        unavailable: namespaces: clone: Operation not permitted (EPERM)" in lines
    assert lines.count("fix: lift it") == 1 and "fix: as for ns" in lines
    assert r"bwrap: no \x1b[2J" in shown and "\x1b" not in shown
    assert any("available, where it is accepted: `--isolation landlock`" in line for line in lines)
    assert any(line.startswith("- names, sizes and dates") for line in lines)
    assert lines[-1].startswith("hint: ") and "`--isolation landlock` accepts" in lines[-1]


_REFUSED = "refused to a plan or an option that sets it"
_UNBOUNDED = "- the number of files in the private folder is bounded only by memory"
_LIMITS = (
    LimitFinding("memory_max", "256 MiB", "watchdog", "can be overrun"),
    LimitFinding("cpu_quota", "100% of a CPU", "", "no group"),
)


@each_row(
    ("found", "said", "unsaid"),
    [
        (diagnosis(), ["what would help is not known", "error: nothing here isolates modules"], "accepts level"),
        (diagnosis("ns", "landlock"), ["sessions run here at level ns"], "not given"),
        (diagnosis("ns"), [], "refused to a plan"),
        (diagnosis("bwrap", "landlock"), ["a session's modules get this one; not given:", _UNBOUNDED], "error"),
        (diagnosis("ns", landlock_abi=None), ["unknown: the question was refused"], "ABI"),
        (diagnosis("ns", landlock_abi=0), ["the kernel has none"], "ABI"),
        (diagnosis("ns", landlock_abi=4), ["ABI 4, protects file system, tcp;"], "unknown"),
        (diagnosis("ns", limits=_LIMITS), ["watchdog: can be overrun", "nothing: no group", _REFUSED], "error"),
    ],
)
def test_people_are_told_what_a_machine_has_or_lacks(told: Any, found: Diagnosis, said: list[str], unsaid: str) -> None:
    _, shown = told(found)
    assert all(one in shown for one in said) and unsaid not in shown


def test_a_machine_without_a_proc_for_workers_is_told_how_to_uncover_it(told: Any) -> None:
    levels = (LevelFinding("ns", None, (), ("/proc",)), *diagnosis().levels[1:])
    found = diagnosis(levels=levels, proc_fix="uncover it")
    _, shown = told(found)
    assert "workers do without one" in shown and "fix: uncover it" in shown
    _, shown = told(found, as_json=True)
    assert json.loads(shown)["proc"] == {"reachable": False, "fix": "uncover it"}


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_it_fits_the_width_there_is_without_colour(told: Any, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    _, shown = told(diagnosis("landlock"))
    assert max(map(len, shown.splitlines()[:-2])) <= int(columns)
    assert "\x1b" not in shown
