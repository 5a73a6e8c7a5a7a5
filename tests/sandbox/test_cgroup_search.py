"""The place for a worker's control group is found as the kernel's files tell it, and what was tried is put back."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock_sandbox.cgroup import CONTROLLERS, CgroupPlace, CgroupProblem, Controller, files
from paddock_sandbox.cgroup.files import period_and_quota
from paddock_sandbox.cgroup.search import Hierarchy, SearchOutcome, hierarchies, search
from support.rows import each_row

ALL = frozenset(CONTROLLERS)
PREFIX = "paddock-1-1-"
STRANGER = os.getppid()


# -- where we are ----------------------------------------------------------------------------------


def told(tmp_path: Path, cgroup: str, *mounts: str) -> tuple[list[Hierarchy], list[CgroupProblem]]:
    """Return what is read from a `/proc/self` with these memberships and these mounts of control groups."""
    (tmp_path / "cgroup").write_text(cgroup)
    lines = ["22 1 0:21 / /proc rw,nosuid - proc proc rw", *mounts, "99 1 0:99 / /tmp rw shared:5 - tmpfs tmpfs rw"]
    (tmp_path / "mountinfo").write_text("\n".join(lines) + "\n")
    return hierarchies(ALL, str(tmp_path))


def unified(root: str = "/", point: str = "/sys/fs/cgroup", options: str = "rw,nosuid") -> str:
    return f"30 22 0:26 {root} {point} {options} shared:9 - cgroup2 cgroup2 rw,nsdelegate"


def legacy(name: str, root: str = "/", point: str = "", options: str = "rw") -> str:
    return f"31 22 0:27 {root} {point or f'/sys/fs/cgroup/{name}'} {options} - cgroup cgroup rw,{name}"


def test_version_2_is_found_with_everything_wanted(tmp_path: Path) -> None:
    found, problems = told(tmp_path, "0::/user.slice/session-1.scope\n", unified())
    assert found == [Hierarchy(2, ALL, "/sys/fs/cgroup/user.slice/session-1.scope", "/sys/fs/cgroup")]
    assert problems == []
    assert list(found[0].upwards()) == [
        "/sys/fs/cgroup/user.slice/session-1.scope",
        "/sys/fs/cgroup/user.slice",
        "/sys/fs/cgroup",
    ]


def test_each_controller_of_version_1_is_found_in_its_own_hierarchy(tmp_path: Path) -> None:
    cgroup = "9:name=systemd:/\n8:pids:/a\n4:memory:/b/c\n1:cpu,cpuacct:/\n0::/\n"
    mounts = (legacy("pids"), legacy("memory"), legacy("cpu,cpuacct"), unified(point="/sys/fs/cgroup/unified"))
    found, problems = told(tmp_path, cgroup, *mounts)
    assert problems == []
    assert found == [
        Hierarchy(1, frozenset({"pids"}), "/sys/fs/cgroup/pids/a", "/sys/fs/cgroup/pids"),
        Hierarchy(1, frozenset({"memory"}), "/sys/fs/cgroup/memory/b/c", "/sys/fs/cgroup/memory"),
        Hierarchy(1, frozenset({"cpu"}), "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"),
    ]


def test_version_2_is_asked_for_what_version_1_has_not_taken(tmp_path: Path) -> None:
    found, problems = told(tmp_path, "1:memory:/\n0::/x\n", legacy("memory"), unified(point="/unified"))
    assert problems == []
    assert [(hierarchy.version, sorted(hierarchy.controllers)) for hierarchy in found] == [
        (1, ["memory"]),
        (2, ["cpu", "pids"]),
    ]


def test_a_containers_part_of_a_hierarchy_is_seen_from_its_root(tmp_path: Path) -> None:
    found, _ = told(tmp_path, "0::/docker/abc/sub\n", unified(root="/docker/abc"))
    assert (found[0].own, found[0].top) == ("/sys/fs/cgroup/sub", "/sys/fs/cgroup")
    found, _ = told(tmp_path, "0::/docker/abc\n", unified(root="/docker/abc"))
    assert (found[0].own, found[0].top) == ("/sys/fs/cgroup", "/sys/fs/cgroup")


@pytest.mark.parametrize(
    ("path", "root"),
    [("/other", "/docker/abc"), ("/docker/abcd", "/docker/abc"), ("/../other", "/"), ("/", "/../..")],
)
def test_a_group_outside_of_what_is_mounted_is_not_guessed_at(tmp_path: Path, path: str, root: str) -> None:
    found, problems = told(tmp_path, f"0::{path}\n", unified(root=root))
    assert found == []
    assert {(problem.controller, problem.advice) for problem in problems} == {(name, "not visible") for name in ALL}


def test_nothing_mounted_is_told_of_each_controller(tmp_path: Path) -> None:
    found, problems = told(tmp_path, "2:memory:/\n0::/\n")
    assert found == []
    assert {(problem.controller, problem.advice) for problem in problems} == {(name, "not mounted") for name in ALL}
    assert len(problems) == len(ALL)


def test_a_writable_mount_is_preferred_and_of_two_the_later(tmp_path: Path) -> None:
    mounts = (unified(point="/first"), unified(point="/second"), unified(point="/third", options="ro"))
    found, _ = told(tmp_path, "0::/\n", *mounts)
    assert found[0].top == "/second"


def test_a_mount_point_is_read_with_its_escapes(tmp_path: Path) -> None:
    found, _ = told(tmp_path, "0::/my group\n", unified(point=r"/odd\040place\134"))
    assert found[0].own == "/odd place\\/my group"


def test_a_proc_that_cannot_be_read_is_a_problem_and_no_error(tmp_path: Path) -> None:
    found, problems = hierarchies(ALL, str(tmp_path))
    assert found == []
    assert [str(problem) for problem in problems] == [
        f"{name}: other at {tmp_path}/cgroup (ENOENT)" for name in sorted(ALL)
    ]


# -- where a group can be made ---------------------------------------------------------------------


class Unified:
    """A tree of folders whose files answer writes as those of version 2 do, for an ordinary user."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.top = top
        self.denied: dict[str, int] = {}
        monkeypatch.setattr(files, "write", self._write)
        monkeypatch.setattr(files, "check_writable", self._check)
        monkeypatch.setattr(os, "geteuid", lambda: 1000)

    def add(self, path: str, controllers: str = "", passes: str = "", processes: tuple[int, ...] = ()) -> None:
        directory = self.top / path
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cgroup.controllers").write_text(controllers)
        (directory / "cgroup.subtree_control").write_text(passes)
        (directory / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in processes))
        if path:
            (directory / "cgroup.events").touch()  # the topmost has none

    def passes(self, path: str) -> set[str]:
        return set((self.top / path / "cgroup.subtree_control").read_text().split())

    def processes(self, path: str) -> set[int]:
        return set(files.processes(str(self.top / path)))

    def search(self, own: str, attempt: Callable[[CgroupPlace], None] | None = None) -> SearchOutcome:
        hierarchy = Hierarchy(2, ALL, str(self.top / own).rstrip("/"), str(self.top))
        return search(hierarchy, attempt or self._attempt, PREFIX)

    def place(self, path: str, *controllers: Controller) -> CgroupPlace:
        return CgroupPlace(2, str(self.top / path).rstrip("/"), frozenset(controllers))

    def _attempt(self, place: CgroupPlace) -> None:
        self._check(place.directory, "cgroup.procs")
        assert place.controllers <= self.passes(place.directory)

    def _check(self, directory: str, name: str) -> None:
        path = os.path.relpath(directory, self.top)
        if path in self.denied:
            raise OSError(self.denied[path], os.strerror(self.denied[path]), os.path.join(directory, name))

    def _write(self, directory: str, name: str, value: str | int) -> None:
        self._check(directory, name)
        file = Path(directory, name)
        if name == "cgroup.subtree_control":
            passed = set(file.read_text().split())
            sign, controller = str(value)[0], str(value)[1:]
            if sign == "+" and Path(directory) != self.top and self.processes(directory):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(file))
            file.write_text(" ".join(passed | {controller} if sign == "+" else passed - {controller}))
        else:
            for other in self.top.rglob("cgroup.procs"):
                other.write_text(other.read_text().replace(f"{value}\n", ""))
            with file.open("a") as listed:
                listed.write(f"{value}\n")


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Unified:
    return Unified(tmp_path, monkeypatch)


def advice_in(outcome: SearchOutcome) -> dict[str, str]:
    return {problem.controller: problem.advice for problem in outcome.problems}


def test_the_nearest_group_that_passes_everything_on_is_chosen(kernel: Unified) -> None:
    kernel.add("", "cpu memory pids", "cpu memory pids")
    kernel.add("a", "cpu memory pids", "cpu memory pids io")
    kernel.add("a/own", "cpu memory pids", processes=(os.getpid(), STRANGER))
    outcome = kernel.search("a/own")
    assert outcome == SearchOutcome(kernel.place("a", *ALL), [])


@pytest.mark.parametrize("other", [STRANGER, 0], ids=["a stranger", "one that no number here names"])
def test_a_group_beside_whose_processes_others_live_is_left_alone(kernel: Unified, other: int) -> None:
    kernel.add("own", "cpu memory pids", processes=(os.getpid(), other))
    kernel.add("", "cpu memory pids")
    kernel.denied["."] = errno.EACCES
    outcome = kernel.search("own")
    assert outcome.place is None
    assert advice_in(outcome) == dict.fromkeys(ALL, "processes beside")
    assert [problem.error for problem in outcome.problems] == ["EBUSY"] * 3
    assert kernel.processes("own") == {os.getpid(), other}


def test_a_group_that_we_have_to_ourselves_is_vacated_used_and_found_again(kernel: Unified) -> None:
    kernel.add("", "cpu memory pids")
    kernel.add("own", "cpu memory pids", processes=(os.getpid(),))
    outcome = kernel.search("own")
    assert outcome == SearchOutcome(kernel.place("own", *ALL), [])
    assert kernel.processes("own") == set()
    (leaf,) = (kernel.top / "own").glob(f"{PREFIX}host-*")
    assert kernel.processes(f"own/{leaf.name}") == {os.getpid()}
    kernel.add(f"own/{leaf.name}", "cpu memory pids", processes=(os.getpid(),))
    assert kernel.search(f"own/{leaf.name}") == outcome
    assert kernel.processes(f"own/{leaf.name}") == {os.getpid()}


def test_a_vacated_group_that_is_not_chosen_is_put_back(kernel: Unified) -> None:
    kernel.add("", "cpu memory pids", "cpu memory pids")
    kernel.add("own", "cpu memory pids", processes=(os.getpid(),))

    def only_at_the_top(place: CgroupPlace) -> None:
        if place.directory != str(kernel.top):
            raise PermissionError(errno.EACCES, "no", place.directory)

    outcome = kernel.search("own", only_at_the_top)
    assert outcome == SearchOutcome(kernel.place("", *ALL), [])
    assert kernel.processes("own") == {os.getpid()}
    assert kernel.passes("own") == set()


def test_an_empty_group_around_ours_is_switched_on_where_it_was_delegated(kernel: Unified) -> None:
    kernel.add("", "cpu memory pids")
    kernel.add("service", "cpu memory pids")
    kernel.add("service/main", processes=(os.getpid(), STRANGER))
    assert kernel.search("service/main") == SearchOutcome(kernel.place("service", *ALL), [])
    assert kernel.passes("service") == set(ALL)


def test_root_switches_nothing_on_around_its_own_group(kernel: Unified, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    kernel.add("", "cpu memory pids", "memory")
    kernel.add("slice", "memory")
    kernel.add("slice/own", processes=(os.getpid(), STRANGER))
    outcome = kernel.search("slice/own")
    assert outcome.place == kernel.place("", "memory")
    assert advice_in(outcome) == {"cpu": "not passed on", "pids": "not passed on"}
    assert kernel.passes("") == {"memory"}
    assert kernel.passes("slice") == set()


def test_the_machines_topmost_group_passes_on_beside_its_processes(kernel: Unified) -> None:
    kernel.add("", "cpu memory pids", processes=(os.getpid(), STRANGER))
    assert kernel.search("") == SearchOutcome(kernel.place("", *ALL), [])


def test_where_no_group_has_everything_the_nearest_with_most_is_chosen(kernel: Unified) -> None:
    kernel.add("", "memory pids", "memory pids")
    kernel.add("a", "memory pids", "memory pids")
    kernel.add("a/b", "memory pids", "pids")
    kernel.denied["a/b"] = errno.EACCES
    kernel.add("a/b/own", "pids", processes=(os.getpid(), STRANGER))
    outcome = kernel.search("a/b/own")
    assert outcome.place == kernel.place("a", "memory", "pids")
    assert [str(problem) for problem in outcome.problems] == [
        f"cpu: not passed on at {kernel.top}/a/b/own/cgroup.controllers"
    ]


@pytest.mark.parametrize(("number", "advice"), [(errno.EACCES, "no permission"), (errno.EROFS, "read-only")])
def test_what_stands_in_the_way_is_told_before_what_would_come_after(kernel: Unified, number: int, advice: str) -> None:
    kernel.add("", "cpu memory pids", "cpu memory pids")
    kernel.add("own", "cpu memory pids", processes=(os.getpid(), STRANGER))
    kernel.denied = {"own": number, ".": number}
    outcome = kernel.search("own")
    assert outcome.place is None
    assert advice_in(outcome) == dict.fromkeys(ALL, advice)


def test_a_group_of_version_1_is_tried_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    tried = []

    def attempt(place: CgroupPlace) -> None:
        tried.append(place.directory)
        if place.directory != str(tmp_path):
            raise PermissionError(errno.EACCES, "no", place.directory)

    pids = frozenset[Controller]({"pids"})
    outcome = search(Hierarchy(1, pids, str(tmp_path / "own"), str(tmp_path)), attempt, PREFIX)
    assert outcome == SearchOutcome(CgroupPlace(1, str(tmp_path), pids), [])
    assert tried == [str(tmp_path / "own"), str(tmp_path)]


# -- shares of processor time ----------------------------------------------------------------------


@each_row(
    ("share", "expected"),
    [
        (1.0, (100_000, 100_000)),
        (0.5, (100_000, 50_000)),
        (2.5, (100_000, 250_000)),
        (0.01, (100_000, 1_000)),
        (0.005, (1_000_000, 5_000)),
        (0.0001, (1_000_000, 1_000)),
    ],
)
def test_a_share_is_so_much_of_a_period_that_the_kernel_accepts(share: float, expected: tuple[int, int]) -> None:
    assert period_and_quota(share) == expected
