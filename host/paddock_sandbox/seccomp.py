"""Decide which system calls a sandboxed process may make, and have the kernel enforce it.

`compile_filter` turns a policy into a program for the kernel: pure, the same bytes each time, for any known
architecture. `install` binds the calling process to one for good, with all its threads and descendants.

A call is refused when it reaches past the sandbox, or when it widens the kernel's attack surface and no ordinary
program needs it. A number that is missing from the tables is answered as if the kernel lacked it too. So calls newer
than the tables are never allowed. Refusals are errors, which Python raises as OSError. Only a call by another
architecture's convention, where the same numbers mean other calls, kills the process.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from paddock_sandbox.bpf import INSTRUCTION_BYTES, Branch, Load, Mask, Program, Return, Test, assemble, choose
from paddock_sandbox.socket_broker import CALLS
from paddock_sandbox.syscall_numbers import SYSCALL_NUMBERS
from paddock_sandbox.syscalls import call


@dataclass(frozen=True, slots=True)
class FilterPolicy:
    """The input of the filter.

    Without `may_execute` no other program can be started. `shares_host` means that no namespaces separate the process
    from the machine's own files and processes, so that the filter has to refuse what they would have hidden. With
    `may_connect` sockets can be made that connect by TCP and, where the network is the process's own, send datagrams;
    other layers decide what they reach. With `may_serve` they can also listen, and sockets of the machine's own kind be
    made; naming one is left to a broker (`socket_broker`).

    `counts_memory` means that a control group counts the kernel's memory for the process. Without it, the filter
    refuses calls that could hold memory that no process maps and that cannot be counted from outside either. With
    `bounds_ipc` the System V objects of the process's namespace are bounded.
    """

    may_execute: bool
    shares_host: bool
    may_connect: bool = False
    counts_memory: bool = False
    bounds_ipc: bool = False
    may_serve: bool = False


# From <linux/seccomp.h>.
_SET_MODE_FILTER: Final = 1
_FLAG_TSYNC: Final = 1
_FLAG_NEW_LISTENER: Final = 8
_FLAG_WAIT_KILLABLE: Final = 32  # Linux 5.19: a signal does not have a call made twice
_ALLOW: Final = Return(0x7FFF_0000)
_ASK: Final = Return(0x7FC0_0000)
_KILL: Final = Return(0x8000_0000)  # the process, not only the thread
_ERRNO: Final = 0x0005_0000

_DONE: Final = Return(_ERRNO)  # success, and nothing is done
_FORBIDDEN: Final = Return(_ERRNO | errno.EPERM)
_INVALID: Final = Return(_ERRNO | errno.EINVAL)
_NO_MEMORY: Final = Return(_ERRNO | errno.ENOMEM)
_NO_ACCESS: Final = Return(_ERRNO | errno.EACCES)
_NOT_THERE: Final = Return(_ERRNO | errno.ENOENT)
_UNKNOWN: Final = Return(_ERRNO | errno.ENOSYS)
_UNSUPPORTED: Final = Return(_ERRNO | errno.ENOTSUP)
_NO_PROTOCOL: Final = Return(_ERRNO | errno.EPROTONOSUPPORT)
_NO_FAMILY: Final = Return(_ERRNO | errno.EAFNOSUPPORT)

# struct seccomp_data: the call's number, its architecture, the caller's address, and six arguments of two words each.
_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_ARGUMENTS: Final = 16

# AUDIT_ARCH_*. Both are little-endian: of an argument's two words the lower one comes first.
_ARCHITECTURES: Final[Mapping[str, int]] = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_X32: Final = 0x4000_0000  # set in the number of a call by x86_64's second convention, which has no value of its own

# Refused with any arguments.
_NEVER: Final = (
    # Access to other processes: their memory, their descriptors, their actions.
    "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd migrate_pages "
    "move_pages perf_event_open lookup_dcookie "
    # The tree of files. Listing mounts is refused as well: their sources name folders of the host.
    "mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick "
    "mount_setattr statmount listmount "
    "unshare setns "
    # Files by another way than their path. A file made in memory could be executed regardless of the allowed paths.
    "name_to_handle_at open_by_handle_at fanotify_init fanotify_mark memfd_create memfd_secret "
    # The kernel makes the calls of a ring itself, past every filter.
    "io_uring_setup io_uring_enter io_uring_register "
    "add_key request_key keyctl "
    # The kernel's own code, and parts of it that ordinary programs never touch.
    "kexec_load kexec_file_load init_module finit_module delete_module create_module query_module get_kernel_syms "
    "bpf userfaultfd lsm_set_self_attr modify_ldt uselib nfsservctl _sysctl "
    # The machine. It has one supply of contexts for asynchronous input and output (io_setup) for all users.
    "io_setup reboot swapon swapoff settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname "
    "syslog acct quotactl quotactl_fd iopl ioperm vhangup"
)

# Answered as if the kernel lacked them, so that callers use `clone` and `openat`: their arguments lie in memory that
# another thread can change after the check.
_ABSENT: Final = "clone3 openat2"

# Memory, queues and semaphores that everyone in a namespace finds by number.
_SYSTEM_V: Final = "shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl semget semop semctl semtimedop"

# Each file of a tmpfs can have lists of access rights of 64 KiB attached, which neither its size nor a control group
# counts. Programs know the answer: a file system without attributes.
_ATTACHES: Final = "setxattr lsetxattr fsetxattr setxattrat"

# Where no control group counts memory. Pages that are lent to a pipe or a socket stay when the process has given them
# up, a huge page for each byte; programs copy by other means upon this answer.
_LENDS_PAGES: Final = "vmsplice splice tee sendfile"

# Objects of the host that only namespaces hide: Landlock judges access to the contents of files, little else.
_NEVER_ON_THE_HOST: Final = (
    # Objects that every process finds by number or name.
    f"{_SYSTEM_V} mq_open mq_unlink "
    # The attributes of files. By descriptor too: one that was opened for reading is enough to change them.
    "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat setxattr lsetxattr fsetxattr "
    "setxattrat removexattr lremovexattr fremovexattr removexattrat file_setattr "
    # A watch reveals the names of all accessed files in any folder the user may read.
    "inotify_add_watch"
)
# These read, by path, attributes of any file. Programs know the answer: a file system without attributes.
_UNSUPPORTED_ON_THE_HOST: Final = "getxattr lgetxattr getxattrat listxattr llistxattr listxattrat"


@cache
def compile_filter(policy: FilterPolicy, machine: str) -> bytes:
    """Return the filter for this policy and architecture, as the kernel takes it.

    Raises:
        NotImplementedError: there is no table of system calls for the architecture.
    """
    if machine not in _ARCHITECTURES:
        raise NotImplementedError(f"no filter of system calls for the architecture {machine}")
    by_number = choose(list(_ranges(machine, _answers(policy))))
    return assemble(
        Load(_ARCHITECTURE, Branch(Test.EQUAL, _ARCHITECTURES[machine], yes=Load(_NUMBER, by_number), no=_KILL))
    )


def install(program: bytes, *, listens: bool = False) -> int:
    """Bind every thread of the calling process to a filter; it must have given up new privileges before.

    If it `listens`, return a descriptor that hears of the calls that the filter stops; the caller must have one thread.

    Raises:
        OSError: the kernel refused, or one thread has a filter that the others lack. Then no thread is bound.
    """
    described = _FilterProgram(len(program) // INSTRUCTION_BYTES, program)
    if listens:
        try:
            return call("seccomp", _SET_MODE_FILTER, _FLAG_NEW_LISTENER | _FLAG_WAIT_KILLABLE, described)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return call("seccomp", _SET_MODE_FILTER, _FLAG_NEW_LISTENER, described)
    diverging_thread = call("seccomp", _SET_MODE_FILTER, _FLAG_TSYNC, described)
    if diverging_thread != 0:
        raise OSError(errno.EBUSY, f"seccomp: thread {diverging_thread} has a filter of its own")
    return 0


class _FilterProgram(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _ranges(machine: str, answers: Mapping[str, Program]) -> Iterator[tuple[int, Program]]:
    """Return where each range of numbers with the same answer begins, and the answer."""
    known = {number: answers.get(name, _ALLOW) for name, number in SYSCALL_NUMBERS[machine].items()}
    current: Program | None = None
    for number in range(max(known) + 2):
        answer = known.get(number, _UNKNOWN)
        if answer is not current:
            yield number, answer
        current = answer
    if machine == "x86_64":
        yield _X32, _KILL
        yield 2 * _X32, _UNKNOWN


def _answers(policy: FilterPolicy) -> dict[str, Program]:
    """Return the answer to each call that is not simply allowed."""
    answers: dict[str, Program] = dict.fromkeys(_NEVER.split(), _FORBIDDEN)
    answers |= dict.fromkeys(_ABSENT.split(), _UNKNOWN)
    answers |= dict.fromkeys(_ATTACHES.split(), _UNSUPPORTED)
    answers |= _by_argument()
    answers["setsockopt"] = _setsockopt(policy)
    if policy.may_execute:
        # Which programs may be executed is decided by path, so there must be one.
        answers["execveat"] = _argument(4, Branch(Test.ANY_BIT, _AT_EMPTY_PATH, yes=_FORBIDDEN, no=_ALLOW))
    else:
        # As if none were installed: most code can do without a program that is missing, and little without permission.
        answers |= {"execve": _NOT_THERE, "execveat": _FORBIDDEN}
    if not policy.counts_memory:
        answers |= dict.fromkeys(_LENDS_PAGES.split(), _INVALID)
        # The kernel's answer to a user whose pipes have as many pages as allowed.
        answers["fcntl"] = _fcntl(Branch(Test.EQUAL, _SET_PIPE_SIZE, yes=_FORBIDDEN, no=_ALLOW))
        # It can be filled, and taken out of the address space but for a page: then no reading of /proc shows its size.
        # Memory is shared by files of the private folder, which is bounded.
        unfilled = Branch(Test.EQUAL, _SHARED_WITHOUT_FILE, yes=_FORBIDDEN, no=_ALLOW)
        answers["mmap"] = _mmap(Mask(_SHARED_WITHOUT_FILE, unfilled))
        # The rules of a confinement of one's own: as many as one likes, in each of many descriptors.
        answers["landlock_create_ruleset"] = _UNSUPPORTED
        if not policy.bounds_ipc:
            answers |= dict.fromkeys(_SYSTEM_V.split(), _FORBIDDEN)
    if policy.shares_host:
        answers |= dict.fromkeys(_NEVER_ON_THE_HOST.split(), _FORBIDDEN)
        answers |= dict.fromkeys(_UNSUPPORTED_ON_THE_HOST.split(), _UNSUPPORTED)
        answers |= _by_argument_on_the_host()
    if policy.may_connect:
        answers |= _network(policy)
    return answers


# Arguments. Numbers among them are 32 bits wide to the kernel, which drops the upper word: a filter that looked at it
# too would take 0x1_0000_5412 for harmless, and the kernel would do 0x5412.
_NEW_NAMESPACES: Final = 0x7E02_0000  # CLONE_NEW*, less CLONE_NEWTIME: its bit is part of the child's signal here
_TERMINAL_ATTACKS: Final = (0x5412, 0x541C, 0x541D, 0x5423)  # TIOCSTI TIOCLINUX TIOCCONS TIOCSETD
_REQUEST_TYPE: Final = 0xFF00
_TERMINAL_REQUESTS: Final = 0x5400  # requests on any descriptor: whether it is a terminal, bytes to read, blocking
_LEASES: Final = (1024, 1040)  # F_SETLEASE F_SETDELEG
_DESCRIPTION_LOCKS: Final = (37, 38)  # F_OFD_SETLK F_OFD_SETLKW
_SET_PIPE_SIZE: Final = 1031  # F_SETPIPE_SZ
_DECEPTIONS: Final = (4, 35, 62)  # PR_SET_DUMPABLE PR_SET_MM PR_SCHED_CORE
_PLAIN_PERSONALITIES: Final = (0, 0xFFFF_FFFF)  # PER_LINUX, and asking which one it is
_UNIX: Final = 1
_INET: Final = 2
_INET6: Final = 10
_STREAM: Final = 1
_DATAGRAM: Final = 2
_TCP: Final = 6
_UDP: Final = 17
_FAST_OPEN: Final = 0x2000_0000  # MSG_FASTOPEN
_TCP_ULP: Final = 31
_SOCKET_TYPE: Final = 0xF  # the rest of that word is flags
_CONNECTED_TYPES: Final = (1, 5)  # SOCK_STREAM SOCK_SEQPACKET
_CREATES_FILE: Final = 0o20_000_100  # O_CREAT and __O_TMPFILE: without them the mode may be anything
_SET_ID: Final = 0o6000  # S_ISUID and S_ISGID
_AT_EMPTY_PATH: Final = 0x1000
_SOCKET_LEVEL: Final = 1  # SOL_SOCKET
_BUFFERS: Final = (7, 8, 32, 33)  # SO_SNDBUF SO_RCVBUF SO_SNDBUFFORCE SO_RCVBUFFORCE
_ZEROCOPY: Final = 60  # SO_ZEROCOPY
_SOCKET_PROGRAMS: Final = (26, 50, 51, 52)  # SO_ATTACH_FILTER SO_ATTACH_BPF SO_ATTACH_REUSEPORT_CBPF and _EBPF
_SHARED_WITHOUT_FILE: Final = 0x21  # MAP_SHARED and MAP_ANONYMOUS
_HUGE_PAGES: Final = 0x4_0000  # MAP_HUGETLB
_THREAD_WITH_FILES: Final = 0x1_0400  # CLONE_THREAD and CLONE_FILES
_UNSHARES: Final = 2  # CLOSE_RANGE_UNSHARE
_LISTENS: Final = 8  # SECCOMP_FILTER_FLAG_NEW_LISTENER
_PRIO_PROCESS: Final = 0
_IOPRIO_WHO_PROCESS: Final = 1


def _by_argument() -> dict[str, Program]:
    tables = Mask(_THREAD_WITH_FILES, _among((0, _THREAD_WITH_FILES), yes=_ALLOW, no=_FORBIDDEN))
    return {
        # A thread with descriptors of its own, and a process with those of another: the watchdog counts the locks, and
        # what else is kept open, of one table of descriptors a process. A shared one outlives each process that has it.
        "clone": _argument(0, Branch(Test.ANY_BIT, _NEW_NAMESPACES, yes=_FORBIDDEN, no=tables)),
        "close_range": _argument(2, Branch(Test.ANY_BIT, _UNSHARES, yes=_INVALID, no=_ALLOW)),
        "ioctl": _argument(1, _among(_TERMINAL_ATTACKS, yes=_FORBIDDEN, no=_ALLOW)),
        "fcntl": _fcntl(_ALLOW),
        # Pages of a supply of the machine's own, which no control group for memory counts.
        "mmap": _mmap(_ALLOW),
        # Memory behind a filter's listener outlives the filtered process, and is counted only in part.
        "seccomp": _argument(1, Branch(Test.ANY_BIT, _LISTENS, yes=_FORBIDDEN, no=_ALLOW)),
        # The first two change which parts of the process the host may read, and what it reads there; the third keeps
        # all other processes off the processor that shares the process's core.
        "prctl": _argument(0, _among(_DECEPTIONS, yes=_FORBIDDEN, no=_ALLOW)),
        "personality": _argument(0, _among(_PLAIN_PERSONALITIES, yes=_ALLOW, no=_FORBIDDEN)),
        "socket": _NO_ACCESS,
        # The ends are permanently connected to each other. A datagram socket, connected or not, sends to any path.
        "socketpair": _argument(0, Branch(Test.EQUAL, _UNIX, yes=_argument(1, _of_connected_type()), no=_NO_ACCESS)),
        # A set-user-ID program in a granted folder would lend its owner's rights to everyone outside.
        "open": _argument(1, Branch(Test.ANY_BIT, _CREATES_FILE, yes=_without_set_id(2), no=_ALLOW)),
        "openat": _argument(2, Branch(Test.ANY_BIT, _CREATES_FILE, yes=_without_set_id(3), no=_ALLOW)),
        **dict.fromkeys(("creat", "mknod", "chmod", "fchmod"), _without_set_id(1)),
        **dict.fromkeys(("mknodat", "fchmodat", "fchmodat2"), _without_set_id(2)),
    }


def _fcntl(otherwise: Program) -> Program:
    # A process that opens a leased file waits until the holder releases it: up to /proc/sys/fs/lease-break-time. No
    # control group counts record locks, and from outside only those that belong to a process can be counted; kernels
    # before 3.15 had no others.
    locks = _among(_DESCRIPTION_LOCKS, yes=_INVALID, no=otherwise)
    return _argument(1, _among(_LEASES, yes=_FORBIDDEN, no=locks))


def _mmap(otherwise: Program) -> Program:
    return _argument(3, Branch(Test.ANY_BIT, _HUGE_PAGES, yes=_NO_MEMORY, no=otherwise))


def _setsockopt(policy: FilterPolicy) -> Program:
    # The size of unread buffers: programs ask for more than they need, and go on with what they got.
    buffers = _ALLOW if policy.counts_memory else _DONE
    # Layers over TCP: by `smc` the socket becomes one of another family, and `tls` is kernel code that libraries do
    # without.
    laid_over = Branch(Test.EQUAL, _TCP_ULP, yes=_UNSUPPORTED, no=_ALLOW)
    at_tcp = _argument(2, laid_over) if policy.may_connect else _ALLOW
    # A program at each of many sockets is kept by the kernel, and counted only in part.
    # It lends pages to a socket.
    lends = _ALLOW if policy.counts_memory else _INVALID
    others = _among(_BUFFERS, yes=buffers, no=Branch(Test.EQUAL, _ZEROCOPY, yes=lends, no=_ALLOW))
    at_socket = _argument(2, _among(_SOCKET_PROGRAMS, yes=_FORBIDDEN, no=others))
    return _argument(
        1, Branch(Test.EQUAL, _TCP, yes=at_tcp, no=Branch(Test.EQUAL, _SOCKET_LEVEL, yes=at_socket, no=_ALLOW))
    )


def _of_connected_type() -> Program:
    return Mask(_SOCKET_TYPE, _among(_CONNECTED_TYPES, yes=_ALLOW, no=_NO_ACCESS))


def _without_set_id(mode: int) -> Program:
    return _argument(mode, Branch(Test.ANY_BIT, _SET_ID, yes=_FORBIDDEN, no=_ALLOW))


def _by_argument_on_the_host() -> dict[str, Program]:
    # File systems have requests that change a file, or the folder around it, through a descriptor for reading.
    terminal_requests = Mask(_REQUEST_TYPE, Branch(Test.EQUAL, _TERMINAL_REQUESTS, yes=_ALLOW, no=_FORBIDDEN))
    myself_only = _argument(0, _unless_zero(_FORBIDDEN))
    # Not a group's nor a user's: those are others too.
    named_by_second = _argument(1, _unless_zero(_FORBIDDEN))
    return {
        "ioctl": _argument(1, _among(_TERMINAL_ATTACKS, yes=_FORBIDDEN, no=terminal_requests)),
        "setpriority": _argument(0, Branch(Test.EQUAL, _PRIO_PROCESS, yes=named_by_second, no=_FORBIDDEN)),
        "ioprio_set": _argument(0, Branch(Test.EQUAL, _IOPRIO_WHO_PROCESS, yes=named_by_second, no=_FORBIDDEN)),
        **dict.fromkeys(
            ("prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity"), myself_only
        ),
        "utimensat": _times_of_a_descriptor(),
    }


def _network(policy: FilterPolicy) -> dict[str, Program]:
    # A filter cannot see which addresses and ports are reached: Landlock restricts them, or the process's own network
    # does. Left out are ways past Landlock: protocols that it does not treat as TCP (MPTCP, SMC), listening at ports
    # that the kernel picks, and connections made by sending.
    stream = _argument(2, _among((0, _TCP), yes=_ALLOW, no=_NO_PROTOCOL))
    datagram = _argument(2, _among((0, _UDP), yes=_ALLOW, no=_NO_PROTOCOL))
    of_type = Branch(Test.EQUAL, _DATAGRAM, yes=_NO_ACCESS if policy.shares_host else datagram, no=_NO_ACCESS)
    inet = _argument(1, Mask(_SOCKET_TYPE, Branch(Test.EQUAL, _STREAM, yes=stream, no=of_type)))
    # Programs that get this error go on with IPv4.
    other_family = Branch(Test.EQUAL, _INET6, yes=_NO_FAMILY, no=_NO_ACCESS)
    fast_open = Branch(Test.ANY_BIT, _FAST_OPEN, yes=_UNSUPPORTED, no=_ALLOW)
    named = dict.fromkeys(CALLS, _ASK) if policy.may_serve else {"listen": _NO_ACCESS}
    if policy.may_serve:
        # As of pairs: those of other types send to any name without being connected.
        other_family = Branch(Test.EQUAL, _UNIX, yes=_argument(1, _of_connected_type()), no=other_family)
    return {
        **named,
        "socket": _argument(0, Branch(Test.EQUAL, _INET, yes=inet, no=other_family)),
        "sendto": _argument(3, fast_open),
        "sendmsg": _argument(2, fast_open),
        "sendmmsg": _argument(3, fast_open),
    }


def _times_of_a_descriptor() -> Program:
    # Without a path it concerns a descriptor: `touch` asks for that. A pointer is null when both its words are.
    without_flags = _argument(3, _unless_zero(_FORBIDDEN))
    upper_word = Load(_ARGUMENTS + 8 + 4, _unless_zero(_FORBIDDEN, zero=without_flags))  # of the second argument
    return _argument(1, _unless_zero(_FORBIDDEN, zero=upper_word))


def _argument(index: int, then: Program) -> Load:
    """Go on with the lower word of an argument."""
    return Load(_ARGUMENTS + 8 * index, then)


def _among(values: tuple[int, ...], *, yes: Program, no: Program) -> Program:
    for value in reversed(values):
        no = Branch(Test.EQUAL, value, yes=yes, no=no)
    return no


def _unless_zero(otherwise: Program, *, zero: Program = _ALLOW) -> Branch:
    return Branch(Test.EQUAL, 0, yes=zero, no=otherwise)
