"""No capability is left, none comes back by the ways the kernel has for that, and what they allowed is refused."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from paddock_sandbox import capabilities
from sandbox.subject import ORDINARY, USERS, ground, run
from support.rows import each_row

_SETPCAP = 8
_ALL_LOCKED = 0b11101111  # every setting locked; all on but KEEP_CAPS
_NONE = {"CapInh": 0, "CapPrm": 0, "CapEff": 0, "CapBnd": 0, "CapAmb": 0}

_AS_ROOT = pytest.mark.skipif(
    "root" not in USERS or _SETPCAP not in capabilities.held().effective,
    reason=f"only root has capabilities to lose, and not every root CAP_SETPCAP: {capabilities.held()}",
)

# Prints the capability sets of a program started now, as the kernel tells them.
_EXEC = """
def of_an_exec(program="/bin/cat"):
    status = output_of(program, "/proc/self/status")
    return {line[:6]: int(line[8:], 16) for line in status.splitlines() if line.startswith("Cap")}
"""


def in_a_user_namespace(program: str) -> Any:
    """Run a program that has every capability in a user namespace of its own, or skip where none can be made."""
    told = run(
        f"""
me, mine = os.geteuid(), os.getegid()
try:
    call("unshare", 0x10000000)  # CLONE_NEWUSER
    for name, line in ("uid_map", f"{{me}} {{me}} 1"), ("setgroups", "deny"), ("gid_map", f"{{mine}} {{mine}} 1"):
        with open(f"/proc/self/{{name}}", "w") as file:
            file.write(line)
except OSError as error:
    tell(f"no user namespace can be made here: {{error}}")
    sys.exit()
{program}
""",
        user="ordinary",
    )
    if isinstance(told, str):
        pytest.skip(told)
    return told


_DROPPED = """
def sets():
    held = capabilities.held()
    return {name: sorted(getattr(held, name)) for name in held.__slots__}
before = sets()
capabilities.drop_all()
tell([before, sets(), prctl.securebits()])
"""

_EMPTY: dict[str, list[int]] = {"effective": [], "permitted": [], "inheritable": [], "ambient": [], "bounding": []}


@_AS_ROOT
def test_root_loses_every_capability_and_every_way_to_one() -> None:
    before, after, securebits = run(_DROPPED, user="root")
    assert before["effective"] and before["bounding"]
    assert after == _EMPTY
    assert securebits == _ALL_LOCKED


def test_the_maker_of_a_user_namespace_loses_every_capability_in_it() -> None:
    before, after, securebits = in_a_user_namespace(_DROPPED)
    assert before["effective"] == before["bounding"] == list(range(len(before["bounding"])))
    assert after == _EMPTY
    assert securebits == _ALL_LOCKED


def test_an_ordinary_user_has_none_to_lose_and_that_is_no_error() -> None:
    before, after, securebits = run(_DROPPED, user="ordinary")
    assert before["effective"] == after["effective"] == []
    assert after["bounding"] == before["bounding"], "only CAP_SETPCAP lets the bounding set be changed"
    assert securebits == 0


@_AS_ROOT
def test_inheritable_and_ambient_capabilities_go_too() -> None:
    before, after, _ = run(
        """
import struct
low = sum(1 << number for number in capabilities.held().permitted if number < 32)
call("capset", ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0)),
     ctypes.create_string_buffer(struct.pack("=6I", *[low] * 3, *[0] * 3)))
ctypes.CDLL(None).prctl(47, 2, 3, 0, 0)  # PR_CAP_AMBIENT_RAISE CAP_FOWNER
"""
        + _DROPPED,
        user="root",
    )
    assert before["ambient"] == [3]
    assert before["inheritable"] == before["permitted"]
    assert after == _EMPTY


@each_row("user", USERS)
def test_what_is_held_is_what_the_kernel_tells_others(user: str) -> None:
    held, told = run(
        """
held = capabilities.held()
sets = [held.inheritable, held.permitted, held.effective, held.bounding, held.ambient]
status = open("/proc/self/status").read().splitlines()
tell([[sum(1 << number for number in numbers) for numbers in sets],
      [int(line[8:], 16) for line in status if line.startswith("Cap")]])
""",
        user=user,
    )
    assert held == told


# What root may only do by a capability; `theirs` belongs to another user and to nobody else.
_ACTS = {
    "read another user's file": ("open(theirs)", "EACCES"),
    "write another user's file": ("open(theirs, 'w')", "EACCES"),
    "give a file away": ("os.chown(mine, 1, 1)", "EPERM"),
    "change another user's file": ("os.chmod(theirs, 0o600)", "EPERM"),
    "become another user": ("os.setresuid(1, 1, 1)", "EPERM"),
    "join a group": ("os.setgroups([1])", "EPERM"),
    "make a device": ("os.mknod(f'{mine}-{os.getpid()}', 0o600 | stat.S_IFCHR, os.makedev(1, 3))", "EPERM"),
    "change the root": ("os.chroot('/')", "EPERM"),
    "hurry": ("os.nice(-1)", "EPERM"),
    "signal another user": ("os.kill(stranger, 0)", "EPERM"),
    "watch another user": ("open(f'/proc/{stranger}/environ').close()", "EACCES"),
    "trace another user": ("call('ptrace', 0x4206, stranger, 0, 0)", "EPERM"),
    "raise a hard limit": ("raise_a_limit()", "EPERM"),
    "make a mount namespace": ("call('unshare', 0x00020000)", "EPERM"),
    "make a network namespace": ("call('unshare', 0x40000000)", "EPERM"),
    "open a raw socket": ("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", "EPERM"),
}

_ACT = """
theirs, mine, acts = given
ready, readied = os.pipe()
reading, held_open = os.pipe()
stranger = os.fork()
if stranger == 0:
    os.close(held_open)
    os.setresuid(1, 1, 1)
    prctl.set_dumpable(True)
    os.write(readied, b"!")
    os.read(reading, 1)  # until the other ends
    os._exit(0)
os.read(ready, 1)
def raise_a_limit():
    try:
        resource.setrlimit(resource.RLIMIT_RTPRIO, [resource.getrlimit(resource.RLIMIT_RTPRIO)[1] + 1] * 2)
    except ValueError:
        raise OSError(errno.EPERM, "") from None
possible = {name: eval(f"lambda: {act}") for name, act in acts.items()}
before = {name: outcome(in_a_child, act) for name, act in possible.items()}
os.chown(mine, 0, 0)
capabilities.drop_all()
tell([before, {name: outcome(in_a_child, act) for name, act in possible.items()}])
"""

Outcomes = tuple[dict[str, str], dict[str, str]]


@pytest.fixture(scope="module")
def roots_acts() -> Outcomes:
    """What became of each act before root lost its capabilities, and after."""
    with ground("root") as folder:
        folder.chmod(0o711)
        (folder / "mine").touch()
        (folder / "theirs").touch(0o600)
        os.chown(folder / "theirs", ORDINARY, ORDINARY)
        acts = {name: act for name, (act, _) in _ACTS.items()}
        before, after = run(_ACT, [str(folder / "theirs"), str(folder / "mine"), acts], user="root")
    return before, after


@_AS_ROOT
@pytest.mark.parametrize("name", _ACTS)
def test_root_can_no_longer(name: str, roots_acts: Outcomes) -> None:
    before, after = roots_acts
    if before[name] != "ok":
        pytest.skip(f"this root may not do so anyway: {before[name]}")
    assert after[name] == _ACTS[name][1]


@_AS_ROOT
def test_a_program_that_root_starts_has_none_either() -> None:
    # The control loses its own, as anybody would who forgot that the kernel gives root's programs new ones.
    forget = """
call("capset", ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0)), ctypes.create_string_buffer(24))
tell(of_an_exec())
"""
    forgetful = run(_EXEC + forget, user="root", imports="import struct")
    thorough = run(_EXEC + "capabilities.drop_all()\ntell(of_an_exec())", user="root")
    if forgetful["CapEff"] == 0:
        pytest.skip(f"these tests themselves run without new privileges: {forgetful}")
    assert forgetful["CapEff"] == forgetful["CapBnd"] != 0
    assert thorough == _NONE


@_AS_ROOT
def test_no_new_privs_stands_in_for_a_full_bounding_set() -> None:
    told = run(
        _EXEC
        + """
import struct
low = sum(1 << number for number in capabilities.held().permitted if number < 32 and number != 8)  # not CAP_SETPCAP
call("capset", ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0)),
     ctypes.create_string_buffer(struct.pack("=6I", low, low, 0, 0, 0, 0)))
before = len(capabilities.held().bounding)
capabilities.drop_all()
prctl.give_up_new_privileges()
held = capabilities.held()
tell([before, len(held.bounding), sorted(held.effective | held.permitted), of_an_exec()])
""",
        user="root",
    )
    before, after, held, of_an_exec = told
    assert before == after > 0
    assert held == []
    assert of_an_exec["CapEff"] == of_an_exec["CapPrm"] == 0


@_AS_ROOT
def test_no_new_privs_takes_set_user_id_programs_their_effect() -> None:
    with ground("root") as folder:
        folder.chmod(0o755)
        program = folder / "cat"
        program.write_bytes(Path("/bin/cat").read_bytes())
        program.chmod(0o4755)
        before, dropped, after = run(
            _EXEC
            + """
sets = [of_an_exec(given)]
capabilities.drop_all()
sets.append(of_an_exec(given))
prctl.give_up_new_privileges()
sets.append(of_an_exec(given))
tell(sets)
""",
            str(program),
            user="ordinary",
        )
    if before["CapEff"] == 0:
        pytest.skip(f"set-user-ID programs have no effect in {folder.parent}")
    assert dropped["CapEff"] == before["CapEff"], "an ordinary user cannot change the bounding set"
    assert after["CapEff"] == after["CapPrm"] == 0


@_AS_ROOT
def test_root_that_comes_back_from_another_user_comes_back_without_any() -> None:
    before, after = run(
        """
def come_back():
    os.setresuid(0, 65534, 0)
    if given_up:
        capabilities.drop_all()
    os.setresuid(0, 0, 0)
    return len(capabilities.held().effective)
given_up = False
before = come_back()
given_up = True
tell([before, come_back()])
""",
        user="root",
    )
    assert before > 0
    assert after == 0


_WAYS_BACK = """
def refused(name, *arguments):
    try:
        getattr(prctl, name)(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"
capabilities.drop_all()
libc = ctypes.CDLL(None, use_errno=True)
def raw(*words):
    return "ok" if libc.prctl(*words, *[0] * (5 - len(words))) == 0 else errno.errorcode[ctypes.get_errno()]
tell({"unlock": refused("set_securebits", 0), "keep": raw(8, 1), "ambient": raw(47, 2, 0)})
"""


@_AS_ROOT
def test_what_was_locked_stays_locked() -> None:
    assert run(_WAYS_BACK, user="root") == {"unlock": "EPERM", "keep": "EPERM", "ambient": "EPERM"}


@each_row("user", USERS)
def test_dropping_twice_is_dropping_once(user: str) -> None:
    assert (
        run("capabilities.drop_all()\ncapabilities.drop_all()\ntell(len(capabilities.held().permitted))", user=user)
        == 0
    )


def test_a_namespaces_maker_loses_them_where_there_is_no_proc() -> None:
    with ground("ordinary") as folder:
        assert in_a_user_namespace(f"""
os.chroot({str(folder)!r})
os.chdir("/")
before = len(capabilities.held().effective)
capabilities.drop_all()
tell([os.listdir("/"), before > 30, len(capabilities.held().effective), len(capabilities.held().bounding)])
""") == [[], True, 0, 0]


def test_one_that_is_left_is_an_error_that_names_it() -> None:
    number, text = in_a_user_namespace("""
capabilities.call = lambda name, *arguments: 0 if name == "capset" else call(name, *arguments)
try:
    capabilities.drop_all()
except OSError as error:
    tell([error.errno, str(error)])
""")
    assert number == errno.EPERM
    assert "capabilities were left after dropping all: 0, 1, 2, 3" in text


_CLOSED_BEFORE_A_FORK = """
import os
def sets():
    held = capabilities.held()
    return {name: sorted(getattr(held, name)) for name in held.__slots__}
before = sets()
capabilities.close_ways_back()
told, say = os.pipe()
child = os.fork()
if child == 0:
    inherited = sets()
    capabilities.drop_all()
    os.write(say, json.dumps([inherited, sets(), prctl.securebits()]).encode())
    os._exit(0)
os.close(say)
with os.fdopen(told) as lines:
    tell([before, *json.load(lines)])
os.waitpid(child, 0)
"""


def test_a_child_needs_no_second_closing_of_the_ways_back() -> None:
    before, inherited, after, securebits = in_a_user_namespace(_CLOSED_BEFORE_A_FORK)
    kept = [number for number in before["permitted"] if number != _SETPCAP]
    assert inherited == {**_EMPTY, "effective": kept, "permitted": kept}
    assert after == _EMPTY
    assert securebits == _ALL_LOCKED
