"""The filter in a real process: each call made for real, outside first, and everything ordinary still works."""

from __future__ import annotations

import errno
import platform
import signal
from typing import Any

import pytest

from paddock_sandbox.syscall_numbers import SYSCALL_NUMBERS
from sandbox.filter.filter_table import ALLOW, EXECUTION, SUBJECTS
from sandbox.subject import ORDINARY, USERS, ground, run
from support.rows import each_row

pytestmark = pytest.mark.skipif(
    platform.machine() not in SYSCALL_NUMBERS, reason=f"no table of system calls for {platform.machine()}"
)

every_user = pytest.mark.parametrize("user", USERS)

# As in `subject`, everything is imported before the user changes.
_LOCK = f"""
import itertools, platform, threading
from paddock_sandbox.seccomp import FilterPolicy, compile_filter, install
if given.get("user") == "ordinary" and os.geteuid() == 0:
    os.setgroups([])
    os.setresgid({ORDINARY}, {ORDINARY}, {ORDINARY})
    os.setresuid({ORDINARY}, {ORDINARY}, {ORDINARY})

def lock(may_execute=False, shares_host=False, may_connect=False, counts_memory=True):
    prctl.give_up_new_privileges()
    policy = FilterPolicy(may_execute, shares_host, may_connect, counts_memory)
    install(compile_filter(policy, platform.machine()))
"""


def locked(program: str, *, user: str = USERS[0], **given: Any) -> Any:
    """Run a program that can lock itself, as this user, and return what it tells."""
    return run(_LOCK + program, {**given, "user": user})


# Calls that harm nothing even where they are allowed: what they name does not exist, or is no address.
_NOBODY = 0x7FFF_FFFF
_BAD = 0xFFFF_FFFF
_HARMLESS: dict[str, tuple[int, ...]] = {
    "ptrace": (2, _NOBODY, 0, 0),  # PTRACE_PEEKDATA
    "process_vm_readv": (_NOBODY, 0, 0, 0, 0, 0),
    "process_vm_writev": (_NOBODY, 0, 0, 0, 0, 0),
    "process_madvise": (-1, 0, 0, 0, 0),
    "process_mrelease": (-1, 0),
    "kcmp": (_NOBODY, _NOBODY, 0, 0, 0),
    "pidfd_getfd": (-1, -1, 0),
    "migrate_pages": (_NOBODY, 0, 0, 0),
    "move_pages": (_NOBODY, 0, 0, 0, 0, 0),
    "perf_event_open": (0, 0, -1, -1, _BAD),
    "lookup_dcookie": (0, 0, 0),
    "mount": (0, 0, 0, 0, 0),
    "umount2": (0, _BAD),
    "pivot_root": (0, 0),
    "chroot": (0,),
    "open_tree": (-1, 0, _BAD),
    "open_tree_attr": (-1, 0, _BAD, 0, 0),
    "move_mount": (-1, 0, -1, 0, _BAD),
    "fsopen": (0, _BAD),
    "fsconfig": (-1, _BAD, 0, 0, 0),
    "fsmount": (-1, _BAD, _BAD),
    "fspick": (-1, 0, _BAD),
    "mount_setattr": (-1, 0, _BAD, 0, 0),
    "statmount": (0, 0, 0, _BAD),
    "listmount": (0, 0, 0, _BAD),
    "unshare": (0,),
    "setns": (-1, 0),
    "io_uring_setup": (0, 0),
    "io_uring_enter": (-1, 0, 0, 0, 0, 0),
    "io_uring_register": (-1, 0, 0, 0),
    "add_key": (0, 0, 0, 0, 0),
    "request_key": (0, 0, 0, 0),
    "keyctl": (_BAD, 0, 0, 0, 0),
    "name_to_handle_at": (-1, 0, 0, 0, _BAD),
    "open_by_handle_at": (-1, 0, 0),
    "fanotify_init": (_BAD, 0),
    "fanotify_mark": (-1, 0, 0, -1, 0),
    "memfd_create": (0, 0),
    "memfd_secret": (_BAD,),
    "bpf": (_BAD, 0, 0),
    "userfaultfd": (_BAD,),
    "syslog": (99, 0, 0),
    "kexec_load": (0, 0, 0, _BAD),
    "kexec_file_load": (-1, -1, 0, 0, _BAD),
    "init_module": (0, 0, 0),
    "finit_module": (-1, 0, _BAD),
    "delete_module": (0, 0),
    "create_module": (0, 0),
    "query_module": (0, 0, 0, 0, 0),
    "get_kernel_syms": (0,),
    "settimeofday": (1, 1),
    "clock_settime": (_BAD, 0),
    "clock_adjtime": (_BAD, 0),
    "adjtimex": (0,),
    "reboot": (0, 0, 0, 0),
    "swapon": (0, _BAD),
    "swapoff": (0,),
    "sethostname": (0, -1),
    "setdomainname": (0, -1),
    "acct": (1,),
    "io_setup": (0, 0),
    "quotactl": (_BAD, 0, 0, 0),
    "quotactl_fd": (-1, 0, 0, 0),
    "nfsservctl": (0, 0, 0),
    "_sysctl": (0,),
    "iopl": (0,),
    "ioperm": (0, 0, 0),
    "modify_ldt": (_BAD, 0, 0),
    "lsm_set_self_attr": (_BAD, 0, 0, 0),
    "uselib": (0,),
    # On the host.
    "shmget": (0, 0, 0),
    "shmat": (-1, 0, 0),
    "shmctl": (-1, 99, 0),
    "shmdt": (1,),
    "msgget": (_NOBODY, 0),
    "msgsnd": (-1, 0, 0, 0),
    "msgrcv": (-1, 0, 0, 0, 0),
    "msgctl": (-1, 99, 0),
    "semget": (_NOBODY, 0, 0),
    "semop": (-1, 0, 0),
    "semctl": (-1, 0, 99, 0),
    "semtimedop": (-1, 0, 0, 0),
    "mq_open": (0, 0, 0, 0),
    "mq_unlink": (0,),
    "chmod": (0, 0),
    "fchmod": (-1, 0),
    "fchmodat": (-1, 0, 0),
    "fchmodat2": (-1, 0, 0, 0),
    "chown": (0, -1, -1),
    "fchown": (-1, -1, -1),
    "lchown": (0, -1, -1),
    "fchownat": (-1, 0, -1, -1, 0),
    "utime": (1, 0),
    "utimes": (1, 0),
    "futimesat": (-1, 1, 0),
    "utimensat": (-1, 1, 0, 0),
    "setxattr": (0, 0, 0, 0, 0),
    "lsetxattr": (0, 0, 0, 0, 0),
    "fsetxattr": (-1, 0, 0, 0, 0),
    "setxattrat": (-1, 0, _BAD, 0, 0, 0),
    "removexattr": (0, 0),
    "lremovexattr": (0, 0),
    "fremovexattr": (-1, 0),
    "removexattrat": (-1, 0, _BAD, 0),
    "file_setattr": (-1, 0, 0, 0, _BAD),
    "inotify_add_watch": (-1, 0, 1),
    "getxattr": (0, 0, 0, 0),
    "lgetxattr": (0, 0, 0, 0),
    "getxattrat": (-1, 0, _BAD, 0, 0, 0),
    "listxattr": (0, 0, 0),
    "llistxattr": (0, 0, 0),
    "listxattrat": (-1, 0, _BAD, 0, 0),
    "prlimit64": (_NOBODY, 0, 0, 0),
    "setpriority": (0, _NOBODY, 0),
    "ioprio_set": (1, _NOBODY, 0),
    "sched_setscheduler": (_NOBODY, 0, 0),
    "sched_setparam": (_NOBODY, 0),
    "sched_setattr": (_NOBODY, 0, 0),
    "sched_setaffinity": (_NOBODY, 0, 0),
    # Answered otherwise than by EPERM, or by their arguments.
    "clone3": (0, 0),
    "openat2": (-1, 0, 0, 0),
    "socket": (0, 0, 0),
    "socketpair": (0, 0, 0, 0),
    "ioctl": (-1, 0, 0),
    "execve": (0, 0, 0),
    "execveat": (-1, 0, 0, 0, 0),
}
_NEVER_OUTSIDE = {"vhangup"}  # it would end a terminal that somebody is using
# What no privilege is needed for, and no machine's settings or ordinary container refuse.
_ANYONE_MAY = """
    ptrace process_vm_readv process_vm_writev process_madvise clock_adjtime adjtimex fanotify_mark memfd_create openat2
    socket socketpair execve execveat
    shmget shmat shmctl msgget msgrcv semget semop chmod fchmod fchmodat fchmodat2 chown fchown fchownat utimensat
    fsetxattr removexattr fremovexattr inotify_add_watch getxattr lgetxattr listxattr ioctl prlimit64 setpriority
    ioprio_set sched_setscheduler sched_setaffinity
""".split()

_MAKE_THEM = """
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def answers():
    found = {}
    for name, number, arguments in given["calls"]:
        result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
        found[name] = "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()].replace("EOPNOTSUPP", "ENOTSUP")
    return found
if given["lock"]:
    lock(**given["lock"])
tell(answers())
"""


def _answers(names: set[str], user: str, lock: dict[str, bool] | None) -> dict[str, str]:
    numbers = SYSCALL_NUMBERS[platform.machine()]
    calls = [[name, numbers[name], _HARMLESS.get(name, ())] for name in sorted(names) if name in numbers]
    found: dict[str, str] = locked(_MAKE_THEM, user=user, calls=calls, lock=lock)
    return found


# Of these the answer depends on whom they name; the arguments above name somebody else.
_OF_OTHERS = {"prlimit64", "setpriority", "sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity"}
_OF_OTHERS |= {"ioprio_set", "utimensat"}


@every_user
@each_row("shares_host", [False, True])
@each_row("may_execute", [False, True])
def test_every_refused_call_is_refused_for_real(user: str, shares_host: bool, may_execute: bool) -> None:
    refused = {name: s.on_the_host if shares_host else s.apart for s in SUBJECTS for name in s.names}
    refused = {name: answer for name, answer in refused.items() if answer != ALLOW}
    refused |= dict.fromkeys(_OF_OTHERS, "EPERM") if shares_host else {}
    refused |= {} if may_execute else EXECUTION
    assert refused.keys() <= _HARMLESS.keys() | _NEVER_OUTSIDE

    inside = _answers(set(refused), user, {"may_execute": may_execute, "shares_host": shares_host})
    assert inside == {name: refused[name] for name in inside}

    outside = _answers(refused.keys() - _NEVER_OUTSIDE, user, None)
    same = {name for name, answer in outside.items() if answer == refused[name]}
    assert same.isdisjoint(_ANYONE_MAY), "the same is refused without a filter, which then shows nothing"


_ACTS = """
folder, me = given["folder"], os.getpid()
path = folder + "/file"
with open(path, "w") as file:
    file.write("text")
fd = os.open(path, os.O_RDONLY)
reading, writing = os.pipe()
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(folder + "/socket")
child = os.fork()
if child == 0:
    os.close(writing)
    os.read(reading, 1)  # until the parent is gone
    os._exit(0)
watcher = call("inotify_init1", 0)
names = itertools.count()

def pair(kind):
    return socket.socketpair(socket.AF_UNIX, kind)

def send_to_a_path():
    pair(socket.SOCK_DGRAM)[0].sendto(b"x", folder + "/socket")

def lease():
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)

def create(mode):
    os.close(os.open(f"{folder}/new-{next(names)}", os.O_CREAT | os.O_WRONLY, mode))

def personality():
    call("personality", 0x0020000)  # UNAME26, which an ordinary container allows
    call("personality", 0)

def segment():
    call("shmctl", call("shmget", 0, 4096, 0o600), 0, 0)

def queue():
    name = f"paddock-test-{me}".encode()
    os.close(call("mq_open", name, os.O_CREAT | os.O_RDWR, 0o600, 0))
    call("mq_unlink", name)

def affinity(whose):
    os.sched_setaffinity(whose, os.sched_getaffinity(whose))

def execute_without_a_path():
    program = os.open("/bin/true", os.O_RDONLY)
    pointers = (ctypes.c_char * 16)()  # no arguments, no environment
    in_a_child(lambda: call("execveat", program, b"", pointers, pointers, 0x1000))

acts = {
    "file in memory": lambda: os.close(os.memfd_create("x")),
    "pair of streams": lambda: pair(socket.SOCK_STREAM),
    "pair of packets": lambda: pair(socket.SOCK_SEQPACKET),
    "pair of datagrams": lambda: pair(socket.SOCK_DGRAM),
    "pair of raw ones": lambda: pair(socket.SOCK_RAW),
    "sending from a pair to a socket in the file system": send_to_a_path,
    "socket of the machine": lambda: socket.socket(socket.AF_UNIX),
    "socket of the network": lambda: socket.socket(socket.AF_INET),
    "socket of the kernel": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "lease": lease,
    "lock": lambda: fcntl.flock(fd, fcntl.LOCK_SH),
    "set-user-ID": lambda: os.chmod(path, 0o4755),
    "set-group-ID by descriptor": lambda: os.fchmod(fd, 0o2755),
    "created set-user-ID": lambda: create(0o4755),
    "created": lambda: create(0o644),
    "mode": lambda: os.chmod(path, 0o640),
    "mode by descriptor": lambda: os.fchmod(fd, 0o640),
    "owner": lambda: os.chown(path, -1, -1),
    "times": lambda: os.utime(path),
    "times by descriptor": lambda: os.utime(fd),
    "watch": lambda: call("inotify_add_watch", watcher, folder.encode(), 0x100),
    "opening as told in memory": lambda: os.close(call("openat2", -100, path.encode(), bytes(24), 24)),
    "typing into a terminal": lambda: call("ioctl", reading, 0x5412, 0),
    "typing into a terminal, by a word too long": lambda: call("ioctl", reading, 0x1_0000_5412, 0),
    "asking for a terminal": lambda: call("ioctl", reading, 0x5401, 0),
    "asking for what can be read": lambda: fcntl.ioctl(reading, 0x541B, bytearray(4)),
    "personality": personality,
    "asking for the personality": lambda: call("personality", 0xFFFF_FFFF),
    "hiding": lambda: call("prctl", 4, 1, 0, 0, 0),
    "own limits": lambda: resource.setrlimit(resource.RLIMIT_CPU, resource.getrlimit(resource.RLIMIT_CPU)),
    "limits of another": lambda: resource.prlimit(child, resource.RLIMIT_CPU, (60, 60)),
    "own turn": lambda: os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0)),
    "turn of another": lambda: os.setpriority(os.PRIO_PROCESS, child, os.getpriority(os.PRIO_PROCESS, child)),
    "turn of a user": lambda: os.setpriority(os.PRIO_USER, 1_234_567, 0),
    "own processors": lambda: affinity(0),
    "processors of another": lambda: affinity(child),
    "shared memory": segment,
    "message queue": queue,
    "execution": lambda: output_of("/bin/true"),
    "execution without a path": execute_without_a_path,
}
acts |= {
    # With CLONE_THREAD, which the kernel does not take alone: nothing is started.
    f"namespace {bit:#x}": lambda bit=bit: call("clone", bit | 0x10000, 0, 0, 0, 0)
    for bit in (0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000)
}
outside = {name: outcome(act) for name, act in acts.items()}
lock(**given["lock"])
inside = {name: outcome(act) for name, act in acts.items()}
os.close(writing)
tell([outside, inside])
"""
# What becomes of them outside, at a level with namespaces, and at the one without.
_OUTCOMES = {
    "file in memory": ("ok", "EPERM", "EPERM"),
    "pair of streams": ("ok", "ok", "ok"),
    "pair of packets": ("ok", "ok", "ok"),
    "pair of datagrams": ("ok", "EACCES", "EACCES"),
    "pair of raw ones": ("ok", "EACCES", "EACCES"),
    "sending from a pair to a socket in the file system": ("ok", "EACCES", "EACCES"),
    "socket of the machine": ("ok", "EACCES", "EACCES"),
    "socket of the network": ("ok", "EACCES", "EACCES"),
    "socket of the kernel": ("ok", "EACCES", "EACCES"),
    "lease": ("ok", "EPERM", "EPERM"),
    "lock": ("ok", "ok", "ok"),
    "set-user-ID": ("ok", "EPERM", "EPERM"),
    "set-group-ID by descriptor": ("ok", "EPERM", "EPERM"),
    "created set-user-ID": ("ok", "EPERM", "EPERM"),
    "created": ("ok", "ok", "ok"),
    "mode": ("ok", "ok", "EPERM"),
    "mode by descriptor": ("ok", "ok", "EPERM"),
    "owner": ("ok", "ok", "EPERM"),
    "times": ("ok", "ok", "EPERM"),
    "times by descriptor": ("ok", "ok", "ok"),
    "watch": ("ok", "ok", "EPERM"),
    "opening as told in memory": ("ok", "ENOSYS", "ENOSYS"),
    "typing into a terminal": ("ENOTTY", "EPERM", "EPERM"),
    "typing into a terminal, by a word too long": ("ENOTTY", "EPERM", "EPERM"),
    "asking for a terminal": ("ENOTTY", "ENOTTY", "ENOTTY"),
    "asking for what can be read": ("ok", "ok", "ok"),
    "personality": ("ok", "EPERM", "EPERM"),
    "asking for the personality": ("ok", "ok", "ok"),
    "hiding": ("ok", "EPERM", "EPERM"),
    "own limits": ("ok", "ok", "ok"),
    "limits of another": ("ok", "ok", "EPERM"),
    "own turn": ("ok", "ok", "ok"),
    "turn of another": ("ok", "ok", "EPERM"),
    "turn of a user": ("ESRCH", "ESRCH", "EPERM"),
    "own processors": ("ok", "ok", "ok"),
    "processors of another": ("ok", "ok", "EPERM"),
    "shared memory": ("ok", "ok", "EPERM"),
    "message queue": ("ok", "ok", "EPERM"),
}


@every_user
@each_row("shares_host", [False, True])
@each_row("may_execute", [False, True])
def test_an_act_is_refused_or_left_alone_for_what_it_is(user: str, shares_host: bool, may_execute: bool) -> None:
    with ground(user) as folder:
        policy = {"may_execute": may_execute, "shares_host": shares_host}
        outside, inside = locked(_ACTS, user=user, folder=str(folder), lock=policy)
    expected = {name: (before, after[shares_host]) for name, (before, *after) in _OUTCOMES.items()}
    expected["execution"] = ("ok", "ok" if may_execute else "ENOENT")
    expected["execution without a path"] = ("ok", "EPERM")
    # An ordinary container refuses these already.
    expected |= {name: (outside[name], "EPERM") for name in outside if name.startswith("namespace ")}
    assert {name: (outside[name], inside[name]) for name in outside} == expected


_SOCKETS = """
import select
listener = socket.create_server(("127.0.0.1", 0))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("127.0.0.1", 0))
address = listener.getsockname()
FAST_OPEN = 0x20000000

def connected():
    stream = socket.socket()
    stream.connect(address)
    return stream

def sendto_without_connecting():
    socket.socket().sendto(b"x", FAST_OPEN, address)

class Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("length", ctypes.c_size_t))
class Header(ctypes.Structure):
    _fields_ = (("name", ctypes.c_void_p), ("name_length", ctypes.c_uint), ("vectors", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t),
                ("flags", ctypes.c_int), ("sent", ctypes.c_uint))

def sendmmsg(stream, flags, destination=None, own_flags=0):
    name = ctypes.create_string_buffer(destination or b"", 16)
    vector = Vector(b"x", 1)
    header = Header(ctypes.addressof(name) if destination else None, 16 if destination else 0,
                    ctypes.addressof(vector), 1, None, 0, own_flags)
    call("sendmmsg", stream.fileno(), header, 1, flags)

def packed(port):
    return socket.AF_INET.to_bytes(2, "little") + port.to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8)

def fast_open_on_connecting():
    stream = socket.socket()
    stream.setsockopt(socket.IPPROTO_TCP, 30, 1)  # TCP_FASTOPEN_CONNECT
    stream.connect(address)
    stream.send(b"x")

def lay_over(name):
    stream = connected()
    stream.setsockopt(socket.IPPROTO_TCP, 31, name)  # TCP_ULP

def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", datagrams.getsockname())

def options():
    stream = connected()
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    return stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

acts = {
    "connect": connected,
    "connect without waiting": lambda: connect_slowly(),
    "connect by sendto": sendto_without_connecting,
    "connect by sendmsg": lambda: socket.socket().sendmsg([b"x"], [], FAST_OPEN, address),
    "connect by sendmmsg": lambda: sendmmsg(socket.socket(), FAST_OPEN, packed(address[1])),
    "send": lambda: connected().send(b"x"),
    "sendmsg": lambda: connected().sendmsg([b"x"]),
    "sendmmsg": lambda: sendmmsg(connected(), 0),
    "connect with the first data": fast_open_on_connecting,
    "options": options,
    "lay a protocol over tcp": lambda: lay_over(b""),
    "datagram": datagram,
    "tcp by its number": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP),
    "udp by its number": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_UDP),
    "mptcp": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262),
    "inet6": lambda: socket.socket(socket.AF_INET6),
    "unix": lambda: socket.socket(socket.AF_UNIX),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "listen at a port the kernel picks": lambda: socket.socket().listen(),
    "pair": lambda: socket.socketpair(),
}
def connect_slowly():
    stream = socket.socket()
    stream.setblocking(False)
    if stream.connect_ex(address) not in (0, errno.EINPROGRESS):
        raise PermissionError(errno.EACCES, "refused")
    waiting = select.poll()
    waiting.register(stream, select.POLLOUT)
    assert waiting.poll(10_000)
    if number := stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(number, "")
outside = {name: outcome(act) for name, act in acts.items()}
# A message's own flags are not what connects, so a filter need not look into memory for them.
outside["connect by a message's own flags"] = outcome(
    sendmmsg, socket.socket(), 0, packed(address[1]), FAST_OPEN)
lock(**given["lock"], may_connect=True)
tell([outside, {name: outcome(act) for name, act in acts.items()}])
"""
# What becomes of them outside, in a network of one's own, and in the machine's.
_OF_SOCKETS = {
    **dict.fromkeys(
        ("connect", "connect without waiting", "send", "sendmsg", "sendmmsg", "options", "tcp by its number", "pair"),
        ("ok", "ok", "ok"),
    ),
    "connect with the first data": ("ok", "ok", "ok"),
    **dict.fromkeys(("connect by sendto", "connect by sendmsg", "connect by sendmmsg"), ("ok", "ENOTSUP", "ENOTSUP")),
    "lay a protocol over tcp": ("EINVAL", "ENOTSUP", "ENOTSUP"),
    "datagram": ("ok", "ok", "EACCES"),
    "udp by its number": ("ok", "ok", "EACCES"),
    "mptcp": ("ok", "EPROTONOSUPPORT", "EPROTONOSUPPORT"),
    "inet6": ("ok", "EAFNOSUPPORT", "EAFNOSUPPORT"),
    "unix": ("ok", "EACCES", "EACCES"),
    "netlink": ("ok", "EACCES", "EACCES"),
    "listen at a port the kernel picks": ("ok", "EACCES", "EACCES"),
}
_NOT_ON_EVERY_MACHINE = {
    *("connect by sendto", "connect by sendmsg", "connect by sendmmsg", "connect with the first data"),
    *("mptcp", "inet6"),
}


@every_user
@each_row("shares_host", [False, True])
def test_sockets_that_connect_can_do_that_and_little_else(user: str, shares_host: bool) -> None:
    outside, inside = locked(_SOCKETS, user=user, lock={"shares_host": shares_host})
    assert outside.pop("connect by a message's own flags") == "EPIPE"
    expected = {name: (before, after[shares_host]) for name, (before, *after) in _OF_SOCKETS.items()}
    for name in _NOT_ON_EVERY_MACHINE:
        expected[name] = (outside[name], expected[name][1] if outside[name] == "ok" else inside[name])
    assert {name: (outside[name], inside[name]) for name in outside} == expected


_THREADS = """
locked, made = threading.Event(), []
def late():
    locked.wait(20)
    made.append(outcome(lambda: os.close(os.memfd_create("x"))))
threads = [threading.Thread(target=late) for _ in range(4)]
for thread in threads:
    thread.start()
before = outcome(lambda: os.close(os.memfd_create("x")))
lock()
locked.set()
for thread in threads:
    thread.join()
tell([before, made])
"""


@every_user
def test_threads_that_were_there_before_are_bound_too(user: str) -> None:
    assert locked(_THREADS, user=user) == ["ok", ["EPERM"] * 4]


_DIVERGED = """
ready, done, of_the_thread = threading.Event(), threading.Event(), []
def diverge():
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))
    allow = ctypes.create_string_buffer((0x7FFF_0000_0000_0006).to_bytes(8, "little"), 8)
    call("seccomp", 1, 0, Program(1, ctypes.addressof(allow)))  # for this thread alone
    of_the_thread.append(threading.get_native_id())
    ready.set()
    done.wait(20)
prctl.give_up_new_privileges()
thread = threading.Thread(target=diverge)
thread.start()
ready.wait(20)
try:
    lock()
    refused = None
except OSError as error:
    refused = [error.errno, str(error)]
after = outcome(lambda: os.close(os.memfd_create("x")))
done.set()
thread.join()
tell([refused, of_the_thread[0], after])
"""


def test_nothing_is_bound_when_one_thread_cannot_be() -> None:
    refused, thread, after = locked(_DIVERGED)
    assert refused == [errno.EBUSY, f"[Errno {errno.EBUSY}] seccomp: thread {thread} has a filter of its own"]
    assert after == "ok"


def test_without_giving_up_privileges_first_an_ordinary_user_is_refused() -> None:
    program = """
try:
    install(compile_filter(FilterPolicy(False, False), platform.machine()))
except OSError as error:
    tell([error.errno, str(error)])
"""
    assert locked(program, user="ordinary") == [errno.EACCES, "[Errno 13] seccomp: Permission denied"]


@each_row("given", [b"", b"\0" * 8, b"\x06" + b"\0" * 6], ids=["empty", "nonsense", "cut short"])
def test_what_is_no_filter_is_refused(given: bytes) -> None:
    program = "prctl.give_up_new_privileges(); tell(outcome(install, bytes(given['bytes'])))"
    assert locked(program, bytes=list(given)) == "EINVAL"


_DESCENDANTS = """
lock(may_execute=True)
def in_a_grandchild():
    in_a_child(lambda: os.close(os.memfd_create("x")))
of_a_program = output_of("/bin/cat", "/proc/self/status")
tell([outcome(in_a_child, in_a_grandchild), [line for line in of_a_program.splitlines() if "Seccomp:" in line]])
"""


@every_user
def test_descendants_and_programs_they_execute_stay_bound(user: str) -> None:
    assert locked(_DESCENDANTS, user=user) == ["EPERM", ["Seccomp:\t2"]]


def test_a_second_filter_only_takes_more_away() -> None:
    program = """
lock(may_execute=True)
first = outcome(output_of, "/bin/true")
lock(may_execute=False)
second = outcome(output_of, "/bin/true")
lock(may_execute=True)
tell([first, second, outcome(output_of, "/bin/true")])
"""
    assert locked(program) == ["ok", "ENOENT", "ENOENT"]


# Machine code, so that no compiler is needed: the call, then return to the caller.
_CODE = {
    "int 0x80": "b8 14 00 00 00 cd 80 c3",  # mov eax, 20 (getpid by the 32-bit convention); int 0x80; ret
    "x32": "b8 27 00 00 40 0f 05 c3",  # mov eax, 0x40000027 (getpid by the x32 convention); syscall; ret
    "syscall": "b8 27 00 00 00 0f 05 c3",  # mov eax, 39 (getpid); syscall; ret
}
_RUN_CODE = """
code = bytes.fromhex(given["code"])
memory = mmap.mmap(-1, len(code), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(code)
function = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
def end_of_a_child():
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        function()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
outside = end_of_a_child()
lock()
tell([outside, end_of_a_child()])
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86_64 has several conventions for one program")
@each_row("convention", _CODE)
def test_a_call_by_another_convention_ends_the_process(convention: str) -> None:
    outside, inside = locked(_RUN_CODE, code=_CODE[convention])
    assert outside != -signal.SIGSYS
    assert inside == (0 if convention == "syscall" else -signal.SIGSYS)


_ORDINARY_WORK = """
# An ordinary container refuses these.
policies = [("get_mempolicy", 0, 0, 0, 0, 0), ("set_mempolicy", 0, 0, 0)]
before = [outcome(call, *policy) for policy in policies]
lock(**given["lock"])
may_execute, shares_host = given["lock"]["may_execute"], given["lock"]["shares_host"]
import asyncio, concurrent.futures, faulthandler, gzip, io, logging, multiprocessing, pathlib, pickle, queue, random
import select, selectors, shutil, sqlite3, ssl, subprocess, tarfile, tempfile, time, uuid, zipfile
folder = tempfile.tempdir = given["folder"]

def event_loop():
    async def main():
        loop, got = asyncio.get_running_loop(), asyncio.Event()
        await asyncio.gather(*(asyncio.sleep(0.001) for _ in range(20)))
        assert await asyncio.to_thread(lambda: 7) == 7
        threading.Timer(0.01, loop.call_soon_threadsafe, [got.set]).start()
        await asyncio.wait_for(got.wait(), 60)
        loop.add_signal_handler(signal.SIGUSR1, got.clear)
        signal.raise_signal(signal.SIGUSR1)
        while got.is_set():
            await asyncio.sleep(0.001)
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        theirs.sendall(b"text")
        assert await reader.readexactly(4) == b"text"
        writer.close()
        await writer.wait_closed()
        theirs.close()
    asyncio.run(main())

def threads():
    threading.stack_size(256 * 1024)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(lambda n: n * n, range(100))) == 328350
    lock, box = threading.Condition(), queue.Queue()
    threading.Thread(target=box.put, args=[1]).start()
    assert box.get(timeout=60) == 1

def processes():
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=theirs.send, args=["text"])
    process.start()
    assert ours.recv() == "text"
    process.join()
    assert process.exitcode == 0
    reading, writing = context.Pipe(duplex=False)
    writing.send(1)
    assert reading.recv() == 1

def shared_memory():  # the library starts a program that watches over it
    from multiprocessing import shared_memory as module
    segment = module.SharedMemory(create=True, size=4096)
    segment.close()
    segment.unlink()

def programs():
    assert subprocess.run(["/bin/echo", "text"], capture_output=True, timeout=60).stdout == b"text\\n"
    assert subprocess.run("echo text | /bin/cat", shell=True, capture_output=True, timeout=60).stdout == b"text\\n"
    async def main():
        process = await asyncio.create_subprocess_exec("/bin/cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return await asyncio.wait_for(process.communicate(b"text"), 60)
    assert asyncio.run(main())[0] == b"text"
    assert os.WIFEXITED(os.system("exit 3"))

def files():
    with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as inner:
        file.write(b"text")
        pathlib.Path(inner, "a", "b").mkdir(parents=True)
        pathlib.Path(inner, "a", "one").write_text("text")
        os.rename(inner + "/a/one", inner + "/a/two")
        os.symlink("two", inner + "/a/three")
        os.link(inner + "/a/two", inner + "/a/four")
        os.truncate(inner + "/a/two", 2)
        shutil.copyfile(inner + "/a/two", inner + "/a/five")
        os.mkfifo(inner + "/fifo")
        pathlib.Path(inner, "a", "two").touch()
        assert {entry.name for entry in os.scandir(inner)} == {"a", "fifo"}
        assert shutil.disk_usage(inner).total > 0
        with zipfile.ZipFile(inner + "/zip", "w") as archive:
            archive.write(inner + "/a/two", "two")
        shutil.unpack_archive(inner + "/zip", inner + "/unpacked", "zip")

def copies_of_attributes():
    with tempfile.TemporaryDirectory() as inner:
        pathlib.Path(inner, "one").mkdir()
        pathlib.Path(inner, "one", "file").write_text("text")
        shutil.copytree(inner + "/one", inner + "/two")
        with tarfile.open(inner + "/tar", "w") as archive:
            archive.add(inner + "/one", "one")
        with tarfile.open(inner + "/tar") as archive:
            archive.extractall(inner + "/three")

def database():
    connection = sqlite3.connect(folder + "/database")
    connection.execute("pragma journal_mode = wal")
    connection.execute("create table t (n)")
    with connection:
        connection.executemany("insert into t values (?)", [(n,) for n in range(100)])
    assert connection.execute("select sum(n) from t").fetchone() == (4950,)
    connection.close()

def waiting():
    poll, event = select.epoll(), os.eventfd(0)
    poll.register(event, select.EPOLLIN)
    os.eventfd_write(event, 1)
    assert poll.poll(5) == [(event, select.EPOLLIN)]
    timer = call("timerfd_create", time.CLOCK_MONOTONIC, 0)
    signals = call("signalfd4", -1, bytes(8), 8, 0)
    os.close(call("inotify_init1", 0))
    select.select([], [timer, signals], [], 0)
    signal.setitimer(signal.ITIMER_REAL, 10)
    signal.setitimer(signal.ITIMER_REAL, 0)

def memory():
    sharing = mmap.MAP_SHARED if given["lock"]["counts_memory"] else mmap.MAP_PRIVATE
    with mmap.mmap(-1, 1 << 20, sharing | mmap.MAP_ANONYMOUS) as area:
        area.madvise(mmap.MADV_DONTNEED)
        area[:4] = b"text"
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: n + 1)
    assert callback(1) == 2
    call("membarrier", 0, 0, 0)
    assert [outcome(call, *policy) for policy in policies] == before

def own_attributes():
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
    os.nice(1)
    call("prctl", 15, b"a name", 0, 0, 0)
    os.umask(0o22)
    os.kill(os.getpid(), 0)

def affinity_of_a_thread():
    os.sched_setaffinity(threading.get_native_id(), os.sched_getaffinity(0))

def randomness():
    assert len(os.getrandom(16)) == len(os.urandom(16)) == 16
    random.SystemRandom().random(), uuid.uuid4(), ssl.RAND_bytes(4), ssl.create_default_context()

work = [event_loop, threads, processes, files, database, waiting, memory, own_attributes, randomness]
work += [programs, shared_memory] if may_execute else []
work += [] if shares_host else [copies_of_attributes, affinity_of_a_thread]
for act in work:
    try:
        act()
    except BaseException as error:
        error.add_note(f"in {act.__name__}")
        raise
tell([act.__name__ for act in work])
"""


@pytest.mark.exhaustive("True-False-True", "True-True-False", "True-False-False", "False-True-False")
@pytest.mark.parametrize("counts_memory", [False, True])
@pytest.mark.parametrize("shares_host", [False, True])
@pytest.mark.parametrize("may_execute", [False, True])
def test_ordinary_work_goes_on_behind_the_filter(shares_host: bool, may_execute: bool, counts_memory: bool) -> None:
    with ground(USERS[0]) as folder:
        policy = {"may_execute": may_execute, "shares_host": shares_host, "counts_memory": counts_memory}
        done = locked(_ORDINARY_WORK, folder=str(folder), lock=policy)
    assert len(done) == 9 + 2 * may_execute + 2 * (not shares_host)
