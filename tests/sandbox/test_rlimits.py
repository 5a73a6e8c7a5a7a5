"""A limit binds the process it is put on, from then on, and is never more than the process was allowed before."""

from __future__ import annotations

import errno
import itertools
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock_sandbox import rlimits
from paddock_sandbox.rlimits import Rlimit
from sandbox.subject import USERS, ground, run
from support.rows import each_row

# What takes more of a resource than the limit beside it, and how the kernel refuses it then.
_ACTS = {
    "NOFILE": (16, "[os.dup(0) for _ in range(32)]", "EMFILE"),
    "FSIZE": (4096, "os.pwrite(os.open(given, os.O_RDWR | os.O_CREAT), b'x', 8192)", "EFBIG"),
    "AS": (1 << 28, "mmap.mmap(-1, 1 << 29)", "ENOMEM"),
    "DATA": (1 << 27, "mmap.mmap(-1, 1 << 29, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)", "ENOMEM"),
    "MEMLOCK": (0, "call('mlock', ctypes.addressof(locked), 4096)", "EPERM"),
    "MSGQUEUE": (0, "call('mq_open', queue, os.O_RDWR | os.O_CREAT, 0o600, None)", "EMFILE"),
}

_ACT = """
capabilities.drop_all()  # some of them do not bind who may raise them
locked = ctypes.create_string_buffer(4096)
queue = b"paddock-test-%d" % os.getpid()
name, value, act, given = given
act = eval(f"lambda: {act}")
before = outcome(lambda: in_a_child(act))
if before == "ok" and name == "MSGQUEUE":
    call("mq_unlink", queue)
rlimits.apply([Rlimit(name, value)])
tell([before, outcome(act)])
"""


@pytest.mark.parametrize("name", _ACTS)
def test_taking_more_than_a_limit_is_refused(name: str, user: str) -> None:
    value, act, refusal = _ACTS[name]
    with ground(user) as folder:
        before, after = run(_ACT, [name, value, act, str(folder / "file")], user=user)
    if before == "ENOSYS":
        pytest.skip(f"this kernel has nothing that {name} limits")
    assert (before, after) == ("ok", refusal)


def test_an_ordinary_user_makes_no_more_processes_than_the_limit() -> None:
    before, after = run(
        """
before = outcome(in_a_child, lambda: None)
rlimits.apply([Rlimit("NPROC", 1)])
tell([before, outcome(in_a_child, lambda: None)])
""",
        user="ordinary",
    )
    assert (before, after) == ("ok", "EAGAIN")


def test_too_much_processor_time_is_the_end_though_the_warning_is_ignored() -> None:
    assert (
        run("""
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
rlimits.apply([Rlimit("CPU", 1)])
child = os.fork()
while child == 0:
    pass
tell(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
        == -9
    )


@pytest.mark.parametrize("value", [0, 1])
def test_a_crash_leaves_no_core_file(value: int, user: str) -> None:
    with ground(user) as folder:
        before, after = run(
            """
folder, value = given
os.chdir(folder)
def cores():
    child = os.fork()
    if child == 0:
        os.abort()
    dumped = os.WCOREDUMP(os.waitpid(child, 0)[1])
    found = os.listdir(".")
    for name in found:
        os.unlink(name)
    return [dumped, len(found)]
resource.setrlimit(resource.RLIMIT_CORE, [resource.getrlimit(resource.RLIMIT_CORE)[1]] * 2)
before = cores()
rlimits.apply([Rlimit("CORE", value)])
tell([before, cores()])
""",
            [str(folder), value],
            user=user,
        )
    assert after == [False, 0]
    if before != [True, 1]:
        pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
        pytest.skip(f"this machine puts no core file into the working folder, but: {pattern}")


_ALL = (
    *("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "MSGQUEUE", "NICE"),
    *("NOFILE", "NPROC", "RTPRIO", "SIGPENDING", "STACK"),
)


@each_row("user", USERS)
def test_each_limit_is_soft_and_hard_alike_and_cannot_be_raised_again(user: str) -> None:
    told = run(
        """
capabilities.drop_all()
told = {}
for name in given:
    kind = getattr(resource, f"RLIMIT_{name}")
    _, hard = resource.getrlimit(kind)
    value = (1 << 30) if hard == resource.RLIM_INFINITY else hard // 2
    (applied,) = rlimits.apply([Rlimit(name, value)])
    raised = "raised"
    try:
        resource.setrlimit(kind, (value, value + 1))
    except (ValueError, OSError):
        raised = "refused"
    told[name] = [applied.name == name, applied.value == value, list(resource.getrlimit(kind)) == [value] * 2, raised]
tell(told)
""",
        _ALL,
        user=user,
    )
    assert told == {name: [True, True, True, "refused"] for name in _ALL}


@each_row("user", USERS)
def test_a_limit_above_the_hard_one_becomes_the_hard_one(user: str) -> None:
    applied, now = run(
        """
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 64))
(applied,) = rlimits.apply([Rlimit("NOFILE", 256)])
tell([[applied.name, applied.value], resource.getrlimit(resource.RLIMIT_NOFILE)])
""",
        user=user,
    )
    assert applied == ["NOFILE", 64]
    assert now == [64, 64]


def test_the_order_of_limits_does_not_matter() -> None:
    for values in itertools.permutations((40, 50, 60)):
        assert run(
            """
rlimits.apply(Rlimit("NOFILE", value) for value in given)
tell(resource.getrlimit(resource.RLIMIT_NOFILE))
""",
            values,
        ) == [40, 40]


def test_an_unknown_resource_is_an_error_that_lists_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no resource limit is called 'MEMORY': known are AS, CORE, .*NOFILE"):
        Rlimit("MEMORY", 1)


@each_row("value", [-1, 2**63, 2**64 - 1])
def test_what_cannot_be_a_limit_is_an_error_that_names_it(value: int) -> None:
    with pytest.raises(ValueError, match=f"the resource limit NOFILE cannot be {value}"):
        Rlimit("NOFILE", value)


@pytest.mark.parametrize(
    ("raised", "number"),
    [(ValueError("not allowed to raise maximum limit"), errno.EPERM), (OSError(errno.EINVAL, "no"), errno.EINVAL)],
)
def test_a_limit_the_kernel_refuses_is_an_error_that_names_it(
    raised: Exception, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(kind: int, limits: tuple[int, int]) -> None:
        raise raised

    monkeypatch.setattr(resource, "setrlimit", refuse)
    with pytest.raises(OSError, match="resource limit FSIZE: ") as failed:
        rlimits.apply([Rlimit("FSIZE", 1)])
    assert failed.value.errno == number


_LIMIT = st.integers(0, 2**63 - 1)


@given(_LIMIT, _LIMIT | st.just(resource.RLIM_INFINITY))
def test_a_limit_is_lowered_and_never_raised(value: int, hard: int) -> None:
    result = rlimits.lowered(value, hard)
    assert result <= value
    assert hard == resource.RLIM_INFINITY or result <= hard
    assert result in (value, hard)
