"""What the filter has to answer to every call there is, written down by subject and apart from the filter itself.

A call belongs to exactly one subject. One that is added to the tables of numbers has to be placed here too, by someone
who thought about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ALLOW, KILL = "allow", "kill"
DONE = "done"  # success, and nothing happens


@dataclass(frozen=True)
class Case:
    """A call with these arguments, and the answer: by default at every policy."""

    name: str
    arguments: tuple[int, ...]
    answer: str
    may_execute: bool | None = None
    shares_host: bool | None = None
    may_connect: bool | None = None
    counts_memory: bool | None = None


@dataclass(frozen=True)
class Subject:
    """Calls that are answered alike: at a level with namespaces, and at the one without.

    The answer is another where there are sockets to connect with, where no control group counts memory, or where none
    does and nothing bounds System V objects, if it is written down.
    """

    calls: str
    apart: str
    on_the_host: str
    connecting: str | None = None
    uncounted: str | None = None
    unbounded: str | None = None
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset(self.calls.split()))


# What any program does: nothing here reaches past what it already holds or may open.
_ORDINARY = {
    "reading and writing": (
        "read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 lseek close dup dup2 "
        "dup3 pipe pipe2 fsync fdatasync sync syncfs sync_file_range fallocate ftruncate truncate fadvise64 readahead "
        "copy_file_range flock getdents getdents64 cachestat"
    ),
    "names and folders": (
        "access faccessat faccessat2 stat fstat lstat newfstatat statx statfs fstatfs ustat sysfs readlink readlinkat "
        "getcwd chdir fchdir mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink "
        "symlinkat umask file_getattr"
    ),
    "attributes of what is open": "fgetxattr flistxattr",
    "memory": (
        "mprotect munmap mremap msync mincore madvise brk mlock mlock2 munlock mlockall munlockall "
        "remap_file_pages pkey_mprotect pkey_alloc pkey_free mseal map_shadow_stack membarrier mbind set_mempolicy "
        "get_mempolicy set_mempolicy_home_node"
    ),
    "waiting": (
        "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 "
        "epoll_ctl_old epoll_wait_old eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime "
        "timerfd_gettime inotify_init inotify_init1 inotify_rm_watch io_destroy io_submit io_cancel "
        "io_getevents io_pgetevents"
    ),
    "threads": (
        "futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list get_robust_list set_tid_address "
        "gettid rseq set_thread_area get_thread_area arch_prctl sched_yield restart_syscall getcpu"
    ),
    # Whom a signal reaches is decided by process namespaces or by Landlock.
    "signals": (
        "kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal pidfd_open rt_sigaction rt_sigprocmask "
        "rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack pause"
    ),
    "processes": (
        "fork vfork exit exit_group wait4 waitid getpid getppid getpgrp getpgid setpgid getsid setsid getrusage times"
    ),
    "identity": (
        "getuid geteuid getgid getegid getgroups getresuid getresgid setuid setgid setreuid setregid setresuid "
        "setresgid setfsuid setfsgid setgroups capget capset"
    ),
    "limits and turns": (
        "getrlimit setrlimit getpriority ioprio_get sched_getparam sched_getscheduler sched_getattr "
        "sched_getaffinity sched_get_priority_max sched_get_priority_min sched_rr_get_interval"
    ),
    "time": (
        "time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep alarm getitimer setitimer "
        "timer_create timer_settime timer_gettime timer_getoverrun timer_delete"
    ),
    # There is no socket to use them on but the ends of a pair, and those that connect.
    "sockets that exist": (
        "connect accept accept4 bind getsockname getpeername getsockopt shutdown sendto recvfrom "
        "sendmsg recvmsg sendmmsg recvmmsg"
    ),
    "the system": "uname sysinfo getrandom lsm_get_self_attr lsm_list_modules",
    "taking rights away": "landlock_add_rule landlock_restrict_self",
    # Made by code that the kernel itself put into a traced process; refusing them would break what is observed.
    "probes": "uretprobe uprobe",
    # No kernel does anything for these.
    "numbers without a call": "getpmsg putpmsg afs_syscall tuxcall security vserver",
    # The messages of a queue: there is none where it could not be opened.
    "an open queue": "mq_timedsend mq_timedreceive mq_notify mq_getsetattr",
}

_FORBIDDEN = {
    "other processes": (
        "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd migrate_pages "
        "move_pages"
    ),
    "mounts": (
        "mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick "
        "mount_setattr statmount listmount"
    ),
    "namespaces": "unshare setns",
    "rings": "io_uring_setup io_uring_enter io_uring_register",
    "keys": "add_key request_key keyctl",
    "files by handle": "name_to_handle_at open_by_handle_at fanotify_init fanotify_mark",
    "files without a path": "memfd_create memfd_secret",
    "observing the kernel": "bpf perf_event_open userfaultfd lookup_dcookie syslog",
    "code in the kernel": (
        "kexec_load kexec_file_load init_module finit_module delete_module create_module query_module get_kernel_syms"
    ),
    "what the machine has one supply of": "io_setup",
    "the clock": "settimeofday clock_settime clock_adjtime adjtimex",
    "the machine": (
        "reboot swapon swapoff sethostname setdomainname acct quotactl quotactl_fd vhangup nfsservctl _sysctl"
    ),
    "the processor": "iopl ioperm modify_ldt",
    "other confinement": "lsm_set_self_attr",
    "loading a library as programs once did": "uselib",
}

_FORBIDDEN_ON_THE_HOST = {
    "queues by name": "mq_open mq_unlink",
    "owners": "chown fchown lchown fchownat",
    "times by path": "utime utimes futimesat",
    "attached attributes": "removexattr lremovexattr fremovexattr removexattrat file_setattr",
    "what others do in a folder": "inotify_add_watch",
}

SUBJECTS = (
    *(Subject(calls, ALLOW, ALLOW) for calls in _ORDINARY.values()),
    *(Subject(calls, "EPERM", "EPERM") for calls in _FORBIDDEN.values()),
    *(Subject(calls, ALLOW, "EPERM") for calls in _FORBIDDEN_ON_THE_HOST.values()),
    Subject(
        "shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl semget semop semctl semtimedop",
        ALLOW,
        "EPERM",
        unbounded="EPERM",
    ),
    # Memory that nobody maps: lists of access rights that no control group counts, and pages that are lent.
    Subject("setxattr lsetxattr fsetxattr setxattrat", "ENOTSUP", "EPERM"),
    Subject("vmsplice splice tee sendfile", ALLOW, ALLOW, uncounted="EINVAL"),
    Subject("landlock_create_ruleset", ALLOW, ALLOW, uncounted="ENOTSUP"),
    Subject("getxattr lgetxattr getxattrat listxattr llistxattr listxattrat", ALLOW, "ENOTSUP"),
    Subject("clone3 openat2", "ENOSYS", "ENOSYS"),
    Subject("socket", "EACCES", "EACCES"),
    Subject("listen", ALLOW, ALLOW, connecting="EACCES"),
    # By argument: the answer here is the one to arguments that are all 0.
    Subject("clone fcntl prctl personality open openat creat mknod mknodat", ALLOW, ALLOW),
    Subject("mmap close_range seccomp setsockopt", ALLOW, ALLOW),
    Subject("socketpair", "EACCES", "EACCES"),
    Subject("chmod fchmod fchmodat fchmodat2", ALLOW, "EPERM"),
    Subject("setpriority prlimit64 sched_setscheduler sched_setparam sched_setattr sched_setaffinity", ALLOW, ALLOW),
    Subject("ioctl ioprio_set", ALLOW, "EPERM"),
    Subject("utimensat", ALLOW, ALLOW),
)
# Answered by whether programs may be executed at all.
EXECUTION = {"execve": "ENOENT", "execveat": "EPERM"}
"""The calls that execute a program, with what they answer where none may be executed."""

_ANY_UPPER = 0xDEAD_BEEF << 32


def _each(name: str, at: int, values: tuple[int, ...], answer: str, **policy: bool) -> list[Case]:
    """The call with each value at one place, also where the upper half of the word is full of what is dropped."""
    return [
        Case(name, (*(7,) * at, value | upper, 7, 7, 7)[:6], answer, **policy)
        for value in values
        for upper in (0, _ANY_UPPER)
    ]


_NAMESPACES = {
    "NEWNS": 0x0002_0000,
    "NEWCGROUP": 0x0200_0000,
    "NEWUTS": 0x0400_0000,
    "NEWIPC": 0x0800_0000,
    "NEWUSER": 0x1000_0000,
    "NEWPID": 0x2000_0000,
    "NEWNET": 0x4000_0000,
}
_FORK, _THREAD, _VFORK = 0x0120_0011, 0x003D_0F00, 0x4111
_O_CREAT, _O_TMPFILE, _O_WRONLY = 0o100, 0o20_200_000, 1
_PLAIN_MODES, _SET_ID_MODES = (0, 0o600, 0o755, 0o1777), (0o4755, 0o2755, 0o6000, 0o4000, 0o2000, 0o7777)
_LAST = 2**32 - 1

CASES: tuple[Case, ...] = (
    *_each("clone", 0, (_FORK, _THREAD, _VFORK, 0, 17), ALLOW),
    *_each("clone", 0, tuple(_NAMESPACES.values()), "EPERM"),
    *_each("clone", 0, tuple(_FORK | flag for flag in _NAMESPACES.values()), "EPERM"),
    # TIOCSTI TIOCLINUX TIOCCONS TIOCSETD
    *_each("ioctl", 1, (0x5412, 0x541C, 0x541D, 0x5423), "EPERM"),
    # TCGETS TIOCGWINSZ FIONREAD FIONBIO FIOCLEX TIOCGPTN TCGETS2
    *_each("ioctl", 1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5451, 0x8004_5430, 0x802C_542A), ALLOW),
    # FS_IOC_SETFLAGS FS_IOC_FSSETXATTR FS_IOC_ENABLE_VERITY BTRFS_IOC_SUBVOL_CREATE FICLONE SIOCGIFNAME, and none
    *_each(
        "ioctl",
        1,
        (0x4008_6602, 0x401C_5820, 0x4080_6685, 0x5000_940E, 0x4004_9409, 0x8910, 0),
        ALLOW,
        shares_host=False,
    ),
    *_each(
        "ioctl",
        1,
        (0x4008_6602, 0x401C_5820, 0x4080_6685, 0x5000_940E, 0x4004_9409, 0x8910, 0),
        "EPERM",
        shares_host=True,
    ),
    *_each("fcntl", 1, (1024, 1040), "EPERM"),
    # F_DUPFD F_GETFL F_SETLK F_SETLKW F_OFD_GETLK F_DUPFD_CLOEXEC F_GETPIPE_SZ F_GETLEASE
    *_each("fcntl", 1, (0, 3, 6, 7, 36, 1030, 1032, 1025), ALLOW),
    # F_OFD_SETLK F_OFD_SETLKW
    *_each("fcntl", 1, (37, 38), "EINVAL"),
    # F_SETPIPE_SZ
    *_each("fcntl", 1, (1031,), ALLOW, counts_memory=True),
    *_each("fcntl", 1, (1031,), "EPERM", counts_memory=False),
    # A thread has its process's descriptors, and a process has its own.
    *_each("clone", 0, (0x1_0000, 0x1_0900, 0x0001_0F00 & ~0x400), "EPERM"),
    *_each("clone", 0, (0x400, _FORK | 0x400, _VFORK | 0x400), "EPERM"),
    *_each("clone", 0, (0x1_0400,), ALLOW),
    # CLOSE_RANGE_UNSHARE, and CLOSE_RANGE_CLOEXEC
    *_each("close_range", 2, (0, 4), ALLOW),
    *_each("close_range", 2, (2, 6), "EINVAL"),
    # MAP_PRIVATE, MAP_SHARED of a file, MAP_PRIVATE of none; and each with what changes nothing
    *_each("mmap", 3, (2, 1, 0x22, 0x4022, 0x0010_0001, 0x0003_0022), ALLOW),
    *_each("mmap", 3, (0x21, 0x23, 0x8021), ALLOW, counts_memory=True),
    *_each("mmap", 3, (0x21, 0x23, 0x8021), "EPERM", counts_memory=False),
    # MAP_HUGETLB
    *_each("mmap", 3, (0x4_0000, 0x4_0022, 0x1504_0021), "ENOMEM"),
    # SECCOMP_FILTER_FLAG_TSYNC, and _NEW_LISTENER
    *_each("seccomp", 1, (0, 1, 4), ALLOW),
    *_each("seccomp", 1, (8, 9), "EPERM"),
    # SO_REUSEADDR SO_KEEPALIVE SO_RCVTIMEO SO_DETACH_FILTER at SOL_SOCKET; the same numbers as below elsewhere
    *(
        Case("setsockopt", (7, level | upper, option | upper, 7, 7), answer)
        for upper in (0, _ANY_UPPER)
        for level, option, answer in (
            *((1, option, ALLOW) for option in (2, 9, 20, 27)),
            *((0, option, ALLOW) for option in (7, 8, 26, 32, 33, 50)),
            *((6, option, ALLOW) for option in (7, 8, 26, 32, 33, 50)),
            # SO_ATTACH_FILTER SO_ATTACH_BPF SO_ATTACH_REUSEPORT_CBPF SO_ATTACH_REUSEPORT_EBPF
            *((1, option, "EPERM") for option in (26, 50, 51, 52)),
        )
    ),
    # SO_SNDBUF SO_RCVBUF SO_SNDBUFFORCE SO_RCVBUFFORCE
    *(
        Case("setsockopt", (7, 1 | upper, option | upper, 7, 7), answer, counts_memory=counts_memory)
        for upper in (0, _ANY_UPPER)
        for option in (7, 8, 32, 33)
        for counts_memory, answer in ((True, ALLOW), (False, DONE))
    ),
    *_each("prctl", 0, (4, 35, 62), "EPERM"),
    # PR_SET_PDEATHSIG PR_GET_DUMPABLE PR_SET_NAME PR_SET_SECCOMP PR_CAPBSET_READ PR_SET_NO_NEW_PRIVS PR_SET_VMA
    *_each("prctl", 0, (1, 3, 15, 22, 23, 38, 0x5356_4D41), ALLOW),
    *_each("personality", 0, (0, _LAST), ALLOW),
    *_each("personality", 0, (8, 0x0004_0000, 0x0040_0000, 1, _LAST - 1), "EPERM"),
    # AF_UNSPEC AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET AF_ALG AF_VSOCK AF_XDP, and none there is
    *_each("socket", 0, (0, 1, 2, 10, 16, 17, 38, 40, 44, 99, _LAST), "EACCES", may_connect=False),
    *_each("socket", 0, (0, 1, 16, 17, 38, 40, 43, 44, 99, 0x102, _LAST), "EACCES", may_connect=True),
    *_each("socket", 0, (10,), "EAFNOSUPPORT", may_connect=True),
    *(
        Case("socket", (2 | upper, kind | flags | upper, protocol | upper), answer, None, shares_host, True)
        for flags in (0, 0o2_000_000, 0o4_000, 0o2_004_000)
        for upper in (0, _ANY_UPPER)
        for kind, protocol, beside, apart in (
            (1, 0, ALLOW, ALLOW),  # SOCK_STREAM
            (1, 6, ALLOW, ALLOW),  # IPPROTO_TCP
            *((1, other, "EPROTONOSUPPORT", "EPROTONOSUPPORT") for other in (1, 4, 17, 132, 255, 256, 262, 0x106)),
            (2, 0, "EACCES", ALLOW),  # SOCK_DGRAM
            (2, 17, "EACCES", ALLOW),  # IPPROTO_UDP
            *((2, other, "EACCES", "EPROTONOSUPPORT") for other in (1, 6, 16, 115, 136, 262, 0x111)),
            # SOCK_RAW SOCK_RDM SOCK_SEQPACKET SOCK_DCCP SOCK_PACKET, and none
            *((other, 0, "EACCES", "EACCES") for other in (0, 3, 4, 5, 6, 10, 15)),
            (3, 6, "EACCES", "EACCES"),
        )
        for shares_host, answer in ((True, beside), (False, apart))
    ),
    # Connections made by sending: MSG_FASTOPEN, alone and among others.
    *(
        case
        for name, at in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3))
        for case in (
            *_each(name, at, (0, 0x4000, 0x8040, 0x0400_0000, 0x1000_0000, 0xDFFF_FFFF), ALLOW, may_connect=True),
            *_each(name, at, (0x2000_0000, 0x2000_4000, _LAST), "ENOTSUP", may_connect=True),
            *_each(name, at, (0x2000_0000, _LAST), ALLOW, may_connect=False),
        )
    ),
    # What is laid over TCP, and all other options.
    *(
        Case("setsockopt", (7, level | upper, option | upper, 7, 7), answer, may_connect=may_connect)
        for upper in (0, _ANY_UPPER)
        for level, option, answer in ((6, 31, "ENOTSUP"), (6, 1, ALLOW), (6, 23, ALLOW), (1, 31, ALLOW), (0, 31, ALLOW))
        for may_connect, answer in ((True, answer), (False, ALLOW))
    ),
    Case("listen", (7, 128), "EACCES", may_connect=True),
    Case("listen", (7, 128), ALLOW, may_connect=False),
    *(
        Case("socketpair", (family | upper, kind | flags | upper, 0, 3), answer)
        for flags in (0, 0o2_000_000, 0o4_000, 0o2_004_000)  # SOCK_CLOEXEC SOCK_NONBLOCK
        for upper in (0, _ANY_UPPER)
        for family, kind, answer in (
            (1, 1, ALLOW),  # AF_UNIX: SOCK_STREAM
            (1, 5, ALLOW),  # SOCK_SEQPACKET
            (1, 2, "EACCES"),  # SOCK_DGRAM
            (1, 3, "EACCES"),  # SOCK_RAW, which means SOCK_DGRAM here
            (1, 0, "EACCES"),
            (1, 10, "EACCES"),
            (2, 1, "EACCES"),
            (30, 1, "EACCES"),  # AF_TIPC
            (0, 1, "EACCES"),
            (0x101, 1, "EACCES"),
        )
    ),
    # Creating a file: with a set-ID bit or without, and modes that nothing looks at.
    *(
        Case(name, (*first, flags | upper, mode | upper), answer)
        for name, first in (("open", (1,)), ("openat", (1, 1)))
        for upper in (0, _ANY_UPPER)
        for flags, modes, answer in (
            (0, (0, *_PLAIN_MODES, *_SET_ID_MODES, _LAST), ALLOW),
            (_O_WRONLY, _SET_ID_MODES, ALLOW),
            (_O_CREAT | _O_WRONLY, _PLAIN_MODES, ALLOW),
            (_O_CREAT, _SET_ID_MODES, "EPERM"),
            (_O_CREAT | _O_WRONLY, _SET_ID_MODES, "EPERM"),
            (_O_TMPFILE | _O_WRONLY, _PLAIN_MODES, ALLOW),
            (_O_TMPFILE | _O_WRONLY, _SET_ID_MODES, "EPERM"),
        )
        for mode in modes
    ),
    *(
        case
        for name, at in (("creat", 1), ("mknod", 1), ("mknodat", 2))
        for case in (*_each(name, at, _PLAIN_MODES, ALLOW), *_each(name, at, _SET_ID_MODES, "EPERM"))
    ),
    *(
        case
        for name, at in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2))
        for case in (
            *_each(name, at, _PLAIN_MODES, ALLOW, shares_host=False),
            *_each(name, at, _SET_ID_MODES, "EPERM", shares_host=False),
            *_each(name, at, (*_PLAIN_MODES, *_SET_ID_MODES), "EPERM", shares_host=True),
        )
    ),
    Case("execve", (1, 1, 1), ALLOW, may_execute=True),
    Case("execve", (1, 1, 1), "ENOENT", may_execute=False),
    *_each("execveat", 4, (0, 0x100, 0x10000), ALLOW, may_execute=True),
    *_each("execveat", 4, (0x1000, 0x1100), "EPERM", may_execute=True),
    *_each("execveat", 4, (0, 0x100, 0x1000), "EPERM", may_execute=False),
    # Of oneself, and of anyone else.
    *(
        case
        for name in ("prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity")
        for case in (
            *_each(name, 0, (0,), ALLOW),
            *_each(name, 0, (1, 4711, _LAST), ALLOW, shares_host=False),
            *_each(name, 0, (1, 4711, _LAST), "EPERM", shares_host=True),
        )
    ),
    *(
        Case(
            name, (which | upper, who | upper, 19), ALLOW if which == myself and who == 0 else "EPERM", shares_host=True
        )
        for name, myself in (("setpriority", 0), ("ioprio_set", 1))
        for which in (0, 1, 2, 3, _LAST)
        for who in (0, 1, 4711, _LAST)
        for upper in (0, _ANY_UPPER)
    ),
    *(
        Case(name, (which, who, 19), ALLOW, shares_host=False)
        for name in ("setpriority", "ioprio_set")
        for which in (0, 1, 2, 3)
        for who in (0, 4711)
    ),
    # A descriptor's times, and those of whatever a path names.
    Case("utimensat", (3, 0, 0x7FFF_0000_0000, 0), ALLOW),
    Case("utimensat", (3, 0, 0, 0), ALLOW),
    *(
        Case("utimensat", (3, path, 0, flags), answer, shares_host=shares_host)
        for path, flags in (
            (0x7FFF_0000_1000, 0),
            (0x1000, 0),
            (0x7FFF_0000_0000, 0),  # the lower half alone is 0
            (0x1_0000_0000, 0),
            (0, 0x1000),  # AT_EMPTY_PATH
            (0, 0x100),
        )
        for answer, shares_host in ((ALLOW, False), ("EPERM", True))
    ),
)
