"""What a control group limits is really limited, for everything in it, and nothing of it stays behind."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

import paddock_sandbox
from paddock_sandbox.cgroup import CONTROLLERS, Cgroup, CgroupHome, CgroupPlace, Controller, v1, v2
from paddock_sandbox.cgroup.home import GroupOwner

_PATIENCE = 60.0
_HOST = Path(paddock_sandbox.__file__).parents[1]
_MIB = 1 << 20

Program = Callable[[str], "subprocess.Popen[bytes]"]

# Each waits until it is told to begin, and says what became of it.
_EATS_MEMORY = """
eaten = bytearray(100 << 20)
eaten[::4096] = b"x" * len(eaten[::4096])
print("ate it", flush=True)
"""
_FORKS = """
import os, signal
born = 0
try:
    while born < 24:
        if os.fork() == 0:
            while True:
                signal.pause()
        born += 1
except BlockingIOError:
    pass
print(born, flush=True)
sys.stdin.read()
os.killpg(0, signal.SIGKILL)
"""
_COMPUTES = """
while True:
    pass
"""
_HIDES = """
import os, signal
for _ in range(4):
    if (between := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            print("hidden", flush=True)
            while True:
                signal.pause()
        os._exit(0)
    os.waitpid(between, 0)
print("hidden", flush=True)
while True:
    signal.pause()
"""
_FORKS_WITHOUT_END = """
import os, time
print("here", flush=True)
while True:
    try:
        if os.fork() != 0:
            os._exit(0)
    except BlockingIOError:
        time.sleep(0.001)
"""


@pytest.fixture(scope="module")
def home() -> CgroupHome:
    return CgroupHome.find()


@pytest.fixture(autouse=True)
def nothing_is_left_behind(home: CgroupHome) -> Iterator[None]:
    before = groups_in(home)
    yield
    assert groups_in(home) == before, "a control group was not removed"


def groups_in(home: CgroupHome) -> set[str]:
    """Return the groups of these tests; others may be making theirs in the same places, and sessions theirs."""
    return {
        os.path.join(place.directory, name)
        for place in home.places
        for name in os.listdir(place.directory)
        if name.startswith(home.owner.prefix) and not name.startswith(f"{home.owner.prefix}worker-")
    }


def is_there(group: Cgroup) -> bool:
    return any(os.path.exists(part.directory) for part in group.parts)


def needs(home: CgroupHome, *controllers: Controller) -> None:
    for problem in home.problems:
        if problem.controller in controllers:
            pytest.skip(str(problem))


@contextmanager
def group_in(home: CgroupHome) -> Iterator[Cgroup]:
    group = home.create("tool-x")
    try:
        yield group
    finally:
        group.kill()
        assert group.remove()


@pytest.fixture
def program() -> Iterator[Program]:
    with ExitStack() as running:

        def program(text: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", f"import sys\nsys.stdin.readline()\n{text}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            running.enter_context(process)
            running.callback(end_with_its_children, process)
            return process

        yield program


def end_with_its_children(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # all have ended
        os.killpg(process.pid, signal.SIGKILL)


def begin(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()


def begun_in(group: Cgroup, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Have a program begin in a group."""
    group.place(process.pid)
    begin(process)
    return process


def line_of(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def processor_seconds(process: subprocess.Popen[bytes]) -> float:
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)


def is_empty_within(group: Cgroup, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while group.processes() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not group.processes()


def test_a_home_says_of_each_controller_that_it_has_it_or_why_not(home: CgroupHome) -> None:
    missing = [problem.controller for problem in home.problems]
    assert len(missing) == len(set(missing))
    assert home.controllers.isdisjoint(missing)
    assert home.controllers.union(missing) == set(CONTROLLERS)


def test_finding_a_home_leaves_no_group_and_no_process_behind(home: CgroupHome) -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = groups_in(home), children.read_text()
    CgroupHome.find()
    assert (groups_in(home), children.read_text()) == before


_FINDS = f"""
import json, os, sys
sys.path.append({str(_HOST)!r})
import encodings.idna, subprocess
from paddock_sandbox.cgroup import CgroupHome
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
print(json.dumps(CgroupHome.find().as_dict()))
"""


def test_an_ordinary_user_finds_a_home_or_learns_why_not() -> None:
    done = subprocess.run([sys.executable, "-I", "-S", "-c", _FINDS], capture_output=True, timeout=_PATIENCE)
    if b"PermissionError" in done.stderr and b"os.set" in done.stderr:
        pytest.skip(f"this root may not become another user: {done.stderr.decode().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr.decode()
    found = CgroupHome.from_dict(json.loads(done.stdout))
    assert found.controllers.union(problem.controller for problem in found.problems) == set(CONTROLLERS)


def test_memory_beyond_the_limit_is_not_had(home: CgroupHome, program: Program) -> None:
    needs(home, "memory")
    with group_in(home) as group:
        group.limit(memory_max=64 * _MIB)
        hog = begun_in(group, program(_EATS_MEMORY))
        assert hog.wait(_PATIENCE) == -9
        readings = group.readings()
        assert readings.memory_kills is not None and readings.memory_kills > 0
        assert readings.memory_peak is None or 60 * _MIB <= readings.memory_peak <= 64 * _MIB


def test_all_but_one_process_are_marked_once(
    home: CgroupHome, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(home, "memory")

    def goes_first(pid: int) -> bool:
        return Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"

    with group_in(home) as group:
        parent = begun_in(group, program(_FORKS))
        assert line_of(parent) == "24"
        children = group.processes() - {parent.pid}
        assert not any(map(goes_first, children))
        marked = group.mark_to_kill(parent.pid, frozenset())
        assert marked == children and all(map(goes_first, children)) and not goes_first(parent.pid)
        opened: list[object] = []
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", lambda *given, _open=os.open: (opened.append(given[0]), _open(*given))[1])
            assert group.mark_to_kill(parent.pid, marked) == marked
        assert len(opened) == 1, "a look costs no more for more processes"


def test_a_kill_for_want_of_memory_elsewhere_is_not_the_groups(tmp_path: Path) -> None:
    (tmp_path / "memory.limit_in_bytes").write_text("1048576\n")
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\noom_group_kill 0\n")
    for peak, kills in ((524288, 0), (1044480, 1)):
        (tmp_path / "memory.max_usage_in_bytes").write_text(f"{peak}\n")
        assert v1.memory_kills(str(tmp_path)) == (kills, 1 - kills)
    assert v2.memory_kills(str(tmp_path)) == (0, 1)
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\noom_group_kill 1\n")
    assert v2.memory_kills(str(tmp_path)) == (1, 0)


def test_a_group_that_keeps_to_its_limit_counts_no_kill(home: CgroupHome, program: Program) -> None:
    needs(home, "memory")
    with group_in(home) as group:
        group.limit(memory_max=256 * _MIB)
        eater = begun_in(group, program(_EATS_MEMORY))
        assert line_of(eater) == "ate it"
        eater.kill()
        eater.wait(_PATIENCE)
        assert group.readings().memory_kills == 0


def test_no_more_processes_are_born_than_the_limit_allows(home: CgroupHome, program: Program) -> None:
    needs(home, "pids")
    with group_in(home) as group:
        group.limit(tasks_max=16)
        bomb = begun_in(group, program(_FORKS))
        assert line_of(bomb) == "15"
        assert len(group.processes()) == 16
        assert group.readings().tasks_refused == 1


def test_processor_time_beyond_the_share_is_waited_for(home: CgroupHome, program: Program) -> None:
    needs(home, "cpu")
    with group_in(home) as group:
        group.limit(cpu_quota=0.2)
        process = begun_in(group, program(_COMPUTES))
        began = time.monotonic()
        used_before = processor_seconds(process)
        # A machine with more to do holds the program back as well, so it takes longer until the group has to.
        while (group.readings().cpu_throttled_seconds or 0.0) <= 0.1:
            assert time.monotonic() < began + _PATIENCE
            time.sleep(0.01)
        used = processor_seconds(process) - used_before
        # What it may use of its wall time, and as much again, because a period may be begun and ended in the middle.
        assert used < (time.monotonic() - began) * 0.2 * 2 + 0.1


def test_the_smallest_and_the_largest_share_can_be_had(home: CgroupHome) -> None:
    needs(home, "cpu")
    for share in (0.0001, 0.001, 0.01, 1.0, 8192.0):
        with group_in(home) as group:
            group.limit(cpu_quota=share)


def test_a_share_larger_than_that_of_the_group_around_is_no_error(home: CgroupHome) -> None:
    needs(home, "cpu")
    with group_in(home) as outer:
        outer.limit(cpu_quota=0.5)
        around = next(part for part in outer.parts if "cpu" in part.controllers)
        if around.version == 2:
            (Path(around.directory) / "cgroup.subtree_control").write_text("+cpu")
        inner = Cgroup.make([CgroupPlace(around.version, around.directory, frozenset({"cpu"}))], "inner")
        try:
            inner.limit(cpu_quota=4.0)
        finally:
            assert inner.remove()


def test_everything_in_a_group_is_killed_however_it_hid(home: CgroupHome, program: Program) -> None:
    needs(home, "pids")
    with group_in(home) as group:
        process = begun_in(group, program(_HIDES))
        assert [line_of(process) for _ in range(5)] == ["hidden"] * 5
        assert len(group.processes()) == 5
        assert group.kill()
        assert group.processes() == frozenset()


def test_what_forks_as_fast_as_it_dies_is_killed(home: CgroupHome, program: Program) -> None:
    needs(home, "pids")
    with group_in(home) as group:
        group.limit(tasks_max=32)
        process = begun_in(group, program(_FORKS_WITHOUT_END))
        assert line_of(process) == "here"
        assert process.wait(_PATIENCE) == 0
        assert group.processes(), "its children went on"
        assert group.kill()
        assert not group.processes()
        late = begun_in(group, program("print('alive', flush=True)\nimport os\nos.fork()"))
        assert line_of(late) == "alive"
        assert late.wait(_PATIENCE) == 1, "it could fork in a group that is being ended"


def test_a_group_with_a_process_stays_and_one_without_goes(home: CgroupHome, program: Program) -> None:
    needs(home, "pids")
    group = home.create("tool-x")
    process = program("sys.stdin.read()")
    try:
        group.place(process.pid)
        before = time.monotonic()
        assert not group.remove(within=0.05)
        assert time.monotonic() - before < _PATIENCE
        assert group.processes() == {process.pid}
    finally:
        process.kill()
        assert group.remove()
    assert group.remove(), "to remove it again is no error"
    assert group.processes() == frozenset()
    assert group.kill()


def test_a_group_is_made_in_all_hierarchies_or_in_none(home: CgroupHome, tmp_path: Path) -> None:
    needs(home, "pids")
    nowhere = CgroupPlace(2, str(tmp_path / "nowhere"), frozenset())
    before = groups_in(home)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Cgroup.make([*home.places, nowhere], f"{home.owner.prefix}tool-x")
    assert groups_in(home) == before


def test_a_limit_that_nothing_can_keep_is_an_error() -> None:
    with pytest.raises(OSError, match="no control group with `memory`") as caught:
        Cgroup("tool-x", ()).limit(memory_max=_MIB)
    assert caught.value.errno == errno.ENODEV


def test_a_process_that_has_ended_cannot_be_placed(home: CgroupHome, program: Program) -> None:
    needs(home, "pids")
    process = program("")
    begin(process)
    process.wait(_PATIENCE)
    with group_in(home) as group, pytest.raises(ProcessLookupError, match=r"cgroup\.procs"):
        group.place(process.pid)


@pytest.mark.parametrize("name", ["", "a/b", "..\n", "x" * 200])
def test_a_name_that_is_no_part_of_a_folders_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be part"):
        CgroupHome().create(name)


def test_home_and_group_cross_to_another_process_as_plain_data(home: CgroupHome) -> None:
    assert CgroupHome.from_dict(json.loads(json.dumps(home.as_dict()))) == home
    needs(home, "pids")
    with group_in(home) as group:
        said = json.loads(json.dumps(group.as_dict()))
        assert Cgroup.from_dict(said) == group
        places_itself = f"""
import json, os, sys
sys.path.append({str(_HOST)!r})
from paddock_sandbox.cgroup import Cgroup
Cgroup.from_dict(json.loads(sys.argv[1])).place(os.getpid())
print(open("/proc/self/cgroup").read())
"""
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", places_itself, json.dumps(said)],
            capture_output=True,
            timeout=_PATIENCE,
            text=True,
        )
        assert done.stdout.count(group.name) == len(home.places), done.stderr
        assert is_empty_within(group, _PATIENCE)


def test_unused_control_groups_of_one_maker_are_removed(home: CgroupHome, program: Program) -> None:
    needs(home, "pids")
    ours, theirs = home.for_one_maker(), home.for_one_maker()
    assert CgroupHome.from_dict(json.loads(json.dumps(ours.as_dict()))) == ours
    left, named, busy = ours.create("left"), ours.create("named"), ours.create("busy")
    others = [theirs.create("theirs"), home.create("nobodys")]
    process = program("sys.stdin.read()")
    try:
        busy.place(process.pid)
        assert not ours.remove_empty([named.name], within=0)
        assert not is_there(left)
        assert all(map(is_there, (named, busy, *others)))
        process.kill()
        assert ours.remove_empty([named.name], within=_PATIENCE)
        assert not is_there(busy)
        assert all(map(is_there, (named, *others)))
        assert ours.remove_empty()
    finally:
        process.kill()
        for group in (left, named, busy, *others):
            assert group.remove()


def test_groups_of_dead_hosts_are_removed_and_those_of_living_ones_stay(home: CgroupHome, program: Program) -> None:
    needs(home, "pids")
    # The owner ends last: every other host on this machine removes the empty groups of a dead one.
    dying = program("")
    namespace = home.owner.namespace
    leftovers = CgroupHome(home.places, owner=GroupOwner(dying.pid, namespace)).create("left")
    populated = CgroupHome(home.places, owner=GroupOwner(dying.pid, namespace)).create("populated")
    foreign = CgroupHome(home.places, owner=GroupOwner(dying.pid, namespace + 1)).create("foreign")
    own = home.create("own")
    process = program("sys.stdin.read()")
    try:
        populated.place(process.pid)
        begin(dying)
        dying.wait(_PATIENCE)
        home.remove_stale()  # how many is not known: other hosts on this machine remove them as well
        assert not is_there(leftovers)
        assert is_there(populated)
        assert is_there(foreign)
        assert is_there(own)
    finally:
        process.kill()
        for group in (leftovers, populated, foreign, own):
            assert group.remove()
