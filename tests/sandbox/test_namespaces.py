"""A process in new namespaces is nobody outside, everything inside, and has none of what the others share."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys

from paddock_sandbox import namespaces
from sandbox.apart import needs_root, run_apart
from sandbox.subject import ORDINARY, ground, run
from support.rows import each_row

KINDS = ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"]


_NAMESPACES = "from paddock_sandbox import namespaces"


def test_every_namespace_of_the_process_is_its_own(user: str) -> None:
    program = """
def links(trees=()):
    return {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in given}
tell({"outside": links(), "inside": apart(links)["returned"]})
"""
    told = run_apart(program, KINDS, user=user)
    assert [kind for kind in KINDS if told["inside"][kind] == told["outside"][kind]] == []


def test_the_process_is_the_first_of_its_kind_and_knows_no_other(user: str) -> None:
    program = """
host = os.getpid()
def inside(_):
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "listed": [name for name in os.listdir("/proc") if name.isdigit()],
        "signal the host": outcome(os.kill, host, 0),
    }
tell({"signal the host outside": outcome(os.kill, host, 0), **in_new_root([], inside)["returned"]})
"""
    told = run_apart(program, user=user)
    assert told == {"signal the host outside": "ok", "pid": 1, "parent": 0, "listed": ["1"], "signal the host": "ESRCH"}


def test_what_the_process_names_itself_is_its_own_affair(user: str) -> None:
    program = """
def inside(trees):
    socket.sethostname("elsewhere")
    return socket.gethostname()
here = socket.gethostname()
tell({"inside": apart(inside)["returned"], "is as before": socket.gethostname() == here})
"""
    assert run_apart(program, user=user) == {"inside": "elsewhere", "is as before": True}


def test_the_process_has_no_network_but_a_loopback_that_is_down(user: str) -> None:
    program = """
def inside(trees):
    with open("/proc/self/net/dev") as lines:
        devices = [line.split(":")[0].strip() for line in lines.readlines()[2:]]
    return devices, connected()
def connected():
    return outcome(socket.socket().connect, listening.getsockname())
listening = socket.create_server(("127.0.0.1", 0))
tell({"outside": connected(), "inside": apart(inside)["returned"]})
"""
    assert run_apart(program, user=user) == {"outside": "ok", "inside": [["lo"], "ENETUNREACH"]}


def test_the_process_starts_with_every_capability_over_its_own(user: str) -> None:
    program = "tell(apart(lambda trees: sorted(capabilities.held().bounding - capabilities.held().effective)))"
    assert run_apart(program, user=user) == {"returned": []}


def test_roots_process_is_root_inside_and_an_unused_id_outside() -> None:
    needs_root()
    program = """
def inside(trees):
    os.close(os.open(given, os.O_CREAT | os.O_WRONLY))
    return [*os.getresuid(), *os.getresgid(), *os.getgroups()]
outer = []
def mapped(pid, id):
    made(pid, id)
    outer.append(id)
made, namespaces.map_ids_of = namespaces.map_ids_of, mapped
inside = apart(inside)["returned"]
made = os.stat(given)
tell({"inside": inside, "is outside": [made.st_uid, made.st_gid] == outer * 2, "outer": outer[0]})
"""
    with ground("root") as folder:
        folder.chmod(0o777)
        told = run_apart(program, str(folder / "made"), user="root")
    assert told["inside"] == [1000] * 6
    assert told["is outside"]
    assert told["outer"] not in taken_ids()


def test_roots_process_has_no_right_to_roots_files() -> None:
    needs_root()
    program = """
def outcomes(trees=()):
    return {
        "read": outcome(open, given["secret"]),
        "change": outcome(os.chmod, given["public"], 0o666),
        "replace": outcome(os.rename, given["public"], given["secret"]),
    }
tell({"owner": apart(lambda _: os.stat(given["public"]).st_uid), "inside": apart(outcomes), "outside": outcomes()})
"""
    with ground("root") as folder:
        folder.chmod(0o755)
        for name, mode in {"secret": 0o600, "public": 0o644}.items():
            (folder / name).touch(mode)
        paths = {name: str(folder / name) for name in ("secret", "public")}
        told = run_apart(program, paths, user="root")
    assert told["owner"] == {"returned": ORDINARY}
    assert told["inside"] == {"returned": {"read": "EACCES", "change": "EPERM", "replace": "EACCES"}}
    assert told["outside"] == {"read": "ok", "change": "ok", "replace": "ok"}


def test_an_ordinary_users_process_stays_that_user() -> None:
    program = """
me = os.getuid(), os.getgid()
def inside(trees):
    return [os.getuid(), os.getgid()], open("/proc/self/setgroups").read(), outcome(os.setgroups, [])
tell([me, *apart(inside)["returned"]])
"""
    told = run_apart(program, user="ordinary")
    me, inside, setgroups, dropped = told
    assert (inside, setgroups, dropped) == (me, "deny\n", "EPERM")


def test_an_ordinary_user_cannot_change_user_and_learns_which_step() -> None:
    program = """
child = call("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)  # CLONE_NEWUSER
if child == 0:
    try:
        namespaces.map_own_ids(0, 0)
    except OSError as error:
        tell([errno.errorcode[error.errno], error.strerror])
    os._exit(0)
os.waitpid(child, 0)
"""
    refused = run_apart(program, user="ordinary")
    assert refused == ["EPERM", "/proc/self/uid_map: Operation not permitted"]


def test_a_plain_fork_shares_everything_with_its_parent(user: str) -> None:
    program = """
reading, writing = os.pipe()
links = lambda: {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in given}
if namespaces.fork_plainly() == 0:
    os.write(writing, json.dumps([links(), os.getppid()]).encode())
    os._exit(0)
tell(json.loads(os.read(reading, 4096)) == [links(), os.getpid()])
"""
    assert run(program, KINDS, user=user, imports=_NAMESPACES) is True


def test_a_fork_runs_none_of_the_interpreters_handlers() -> None:
    program = """
ran = []
os.register_at_fork(before=lambda: ran.append("before"), after_in_parent=lambda: ran.append("after"))
child = namespaces.fork_plainly()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
tell(ran)
"""
    assert run(program, imports=_NAMESPACES) == []


def taken_ids() -> set[int]:
    with open("/etc/passwd") as users:
        return {int(line.split(":")[2]) for line in users}


def test_a_spare_id_is_no_users_and_not_always_the_same() -> None:
    needs_root()
    spare = {namespaces.unused_id() for _ in range(100)}
    assert len(spare) > 90
    assert not spare & taken_ids()


_IN_A_CONTAINER = """
child = call("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)  # CLONE_NEWUSER
if child == 0:
    signal.sigwait([signal.SIGUSR1])
    try:
        tell([namespaces.unused_id() for _ in range(50)])
    except OSError as error:
        tell(error.strerror)
    os._exit(0)
for kind in ("uid", "gid"):
    with open(f"/proc/{child}/{kind}_map", "w") as lines:
        lines.write(f"0 {100000 if given > 1 else os.getuid()} {given}")
os.kill(child, signal.SIGUSR1)
os.waitpid(child, 0)
"""


def test_a_spare_id_is_in_the_upper_half_of_a_containers() -> None:
    needs_root()
    program = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n" + _IN_A_CONTAINER
    told = run_apart(program, 65536, user="root")
    assert len(set(told)) > 1
    assert all(1 << 15 <= spare < (1 << 16) - 1 for spare in told)
    assert run_apart(program, 1, user="root") == "this user namespace has no ids to spare for workers"


_MAPS = """
def maps(descriptor=None):
    "The maps of a namespace, ours by default."
    reading, writing = os.pipe()
    def tell_maps():
        if descriptor is not None:
            call("setns", descriptor, 0)
        maps = [open(f"/proc/self/{kind}_map").read().splitlines() for kind in ("uid", "gid")]
        os.write(writing, json.dumps([[list(map(int, line.split())) for line in lines] for lines in maps]).encode())
    in_a_child(tell_maps)
    return json.loads(os.read(reading, 4096))
"""


def test_an_owners_namespace_maps_that_owner_alone_and_holds_no_process() -> None:
    needs_root()
    program = f"""{_MAPS}
made = maps(namespaces.user_namespace(1000, 200000))
tell([*made, open(f"/proc/self/task/{{os.getpid()}}/children").read()])
"""
    only = [[1000, 200000, 1]]
    assert run_apart(program, user="root") == [only, only, ""]


@each_row("group", [0, 50, 1000])
def test_an_owners_namespace_has_every_group_once_one_is_named(group: int) -> None:
    needs_root()
    program = f"{_MAPS}\ntell([maps(namespaces.user_namespace(1000, 200000, given)), maps()])"
    (users, groups), (_, all_groups) = run_apart(program, group, user="root")
    assert users == [[1000, 200000, 1]]
    assert [group, 200000, 1] in groups
    others = [line for line in groups if line != [group, 200000, 1]]
    assert all(inside == outside for inside, outside, _ in others)
    assert sum(count for *_, count in others) == sum(count for *_, count in all_groups) - 2


def test_a_namespace_can_be_made_by_one_who_does_not_reap() -> None:
    needs_root()
    program = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.close(namespaces.user_namespace(0, 200000))
tell(outcome(os.waitpid, -1, os.WNOHANG))
"""
    assert run_apart(program, user="root") == "ECHILD"


def test_an_owners_namespace_that_is_refused_leaves_no_process() -> None:
    program = """
try:
    namespaces.user_namespace(0, 200000)
except OSError as error:
    tell([errno.errorcode[error.errno], error.strerror.split("/")[-1], outcome(os.waitpid, -1, os.WNOHANG)])
"""
    refused = run_apart(program, user="ordinary")
    assert refused == ["EPERM", f"uid_map: {os.strerror(errno.EPERM)}", "ECHILD"]


_KILLED = """
import os, signal, sys
from paddock_sandbox import syscalls
syscalls.WAIT_SECONDS = 3
print(syscalls.WaitingProcess(0).pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_parent_that_is_killed_leaves_no_child_that_waits_for_ever() -> None:
    given = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, text=True, env=given) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
    try:
        ended, _, _ = select.select([child], [], [], 20)
        assert ended
    finally:
        if not ended:
            signal.pidfd_send_signal(child, signal.SIGKILL)
        os.close(child)
