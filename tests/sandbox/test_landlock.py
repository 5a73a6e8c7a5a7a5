"""Outside the grants nothing can be read or changed, within them what was granted can, and no protection is only said.

Each act is done twice by one process of its own: before it shuts itself in, when it must succeed, and after.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock_sandbox import landlock, prctl
from paddock_sandbox.landlock import Access, Handled, PortAccess
from sandbox.subject import USERS, ground, run
from support.rows import each_row

_NEWEST = 10  # the newest ABI that the tables know

needs_landlock = pytest.mark.skipif(
    landlock.abi() == 0, reason=f"this kernel has no Landlock, or has it switched off: its ABI is {landlock.abi()}"
)


def needs_abi(version: int) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        landlock.abi() < version, reason=f"this kernel's Landlock is {landlock.abi()} < {version}"
    )


# Every act has folders of its own: `out`, which nothing grants, `ro`, which may be read, `rw` and `rw2`, which may be
# written. In each are a `file`, an empty folder `empty`, a `folder` with a `file` in it, and a link `link` to the file.
_REFUSED = {
    "read a file outside": ("open(out + '/file').read()", "EACCES"),
    "list a folder outside": ("os.listdir(out)", "EACCES"),
    "list the root": ("os.listdir('/')", "EACCES"),
    "read a file outside by a path through a grant": ("open(ro + '/../out/file').read()", "EACCES"),
    "read a file outside from within it": ("(os.chdir(out), open('file').read())", "EACCES"),
    "write a file outside": ("open(out + '/file', 'r+').write('x')", "EACCES"),
    "append to a file outside": ("open(out + '/file', 'a').write('x')", "EACCES"),
    "truncate a file outside": ("os.truncate(out + '/file', 0)", "EACCES"),
    "open to truncate a file outside": ("os.open(out + '/file', os.O_RDONLY | os.O_TRUNC)", "EACCES"),
    "make a file outside": ("open(out + '/new', 'x')", "EACCES"),
    "make a nameless file outside": ("os.open(out, os.O_TMPFILE | os.O_RDWR)", "EACCES"),
    "make a folder outside": ("os.mkdir(out + '/new')", "EACCES"),
    "make a pipe outside": ("os.mkfifo(out + '/new')", "EACCES"),
    "make a symbolic link outside": ("os.symlink('file', out + '/new')", "EACCES"),
    "make a socket outside": ("socket.socket(socket.AF_UNIX).bind(out + '/s')", "EACCES"),
    "remove a file outside": ("os.unlink(out + '/file')", "EACCES"),
    "remove a folder outside": ("os.rmdir(out + '/empty')", "EACCES"),
    "rename a file outside": ("os.rename(out + '/file', out + '/new')", "EACCES"),
    "rename a folder outside": ("os.rename(out + '/folder', out + '/new')", "EACCES"),
    "link a file outside to another name there": ("os.link(out + '/file', out + '/new')", "EACCES"),
    "run a program outside": ("run(out + '/program')", "EACCES"),
    "read outside by a symbolic link in a grant": (
        "(os.symlink(out + '/file', rw + '/to'), open(rw + '/to').read())",
        "EACCES",
    ),
    "write outside by a symbolic link in a grant": (
        "(os.symlink(out + '/file', rw + '/to'), open(rw + '/to', 'w'))",
        "EACCES",
    ),
    "list outside by a symbolic link in a grant": ("(os.symlink(out, rw + '/to'), os.listdir(rw + '/to'))", "EACCES"),
    "move a file from outside into a grant": ("os.rename(out + '/file', rw + '/new')", "EACCES"),
    "move a file from a grant to the outside": ("os.rename(rw + '/file', out + '/new')", "EACCES"),
    "link a file outside into a grant": ("os.link(out + '/file', rw + '/new')", "EXDEV"),
    "link a file in a grant to the outside": ("os.link(rw + '/file', out + '/new')", "EACCES"),
    "exchange a file in a grant with one outside": ("exchange(rw + '/file', out + '/file')", "EACCES"),
    "write a file that may be read": ("open(ro + '/file', 'r+').write('x')", "EACCES"),
    "truncate a file that may be read": ("os.truncate(ro + '/file', 0)", "EACCES"),
    "open to truncate a file that may be read": ("os.open(ro + '/file', os.O_RDONLY | os.O_TRUNC)", "EACCES"),
    "make a file where files may be read": ("open(ro + '/new', 'x')", "EACCES"),
    "make a folder where files may be read": ("os.mkdir(ro + '/new')", "EACCES"),
    "make a symbolic link where files may be read": ("os.symlink('file', ro + '/new')", "EACCES"),
    "remove a file that may be read": ("os.unlink(ro + '/file')", "EACCES"),
    "remove a folder that may be read": ("os.rmdir(ro + '/empty')", "EACCES"),
    "rename a file that may be read": ("os.rename(ro + '/file', ro + '/new')", "EACCES"),
    "move a file that may be read to where it may be written": ("os.rename(ro + '/file', rw + '/new')", "EACCES"),
    "link a file that may be read to where it may be written": ("os.link(ro + '/file', rw + '/new')", "EXDEV"),
    "run a program that may be read": ("run(ro + '/program')", "EACCES"),
    "run a program that may be written": ("run(rw + '/program')", "EACCES"),
    "run a program made where files may be written": (
        "(copy(ro + '/program', rw + '/new'), run(rw + '/new'))",
        "EACCES",
    ),
    "make a socket where files may be written": ("socket.socket(socket.AF_UNIX).bind(rw + '/s')", "EACCES"),
    "make a device where files may be written": (
        "os.mknod(rw + '/new', 0o600 | stat.S_IFCHR, os.makedev(1, 3))",
        "EACCES",
    ),
    "mount": ("mount(rw)", "EPERM"),
}

_ALLOWED = {
    "read a file that may be read": "open(ro + '/file').read()",
    "list a folder that may be read": "os.listdir(ro + '/folder')",
    "read by a symbolic link that stays within": "open(ro + '/link').read()",
    "read a file that may be written": "open(rw + '/file').read()",
    "list a folder that may be written": "os.listdir(rw)",
    "write": "open(rw + '/file', 'r+').write('x')",
    "truncate": "os.truncate(rw + '/file', 0)",
    "open to truncate": "open(rw + '/file', 'w').write('x')",
    "truncate what is open": "open(rw + '/file', 'r+').truncate(0)",
    "make a file": "open(rw + '/new', 'x').write('x')",
    "make a nameless file": "os.open(rw, os.O_TMPFILE | os.O_RDWR)",
    "make a folder": "os.mkdir(rw + '/new')",
    "make a folder and a file in it": "(os.mkdir(rw + '/new'), open(rw + '/new/file', 'x').write('x'))",
    "make a pipe": "os.mkfifo(rw + '/new')",
    "make a symbolic link": "os.symlink('file', rw + '/new')",
    "remove a file": "os.unlink(rw + '/file')",
    "remove a folder": "os.rmdir(rw + '/empty')",
    "rename a file": "os.rename(rw + '/file', rw + '/new')",
    "rename a folder": "os.rename(rw + '/folder', rw + '/new')",
    "replace a file": "(open(rw + '/new', 'x').write('x'), os.replace(rw + '/new', rw + '/file'))",
    "move a file to another folder": "os.rename(rw + '/file', rw + '/folder/new')",
    "move a file to another grant": "os.rename(rw + '/file', rw2 + '/new')",
    "move a folder to another grant": "os.rename(rw + '/folder', rw2 + '/new')",
    "link a file": "os.link(rw + '/file', rw + '/new')",
    "link a file into another grant": "os.link(rw + '/file', rw2 + '/new')",
    "exchange two files of two grants": "exchange(rw + '/file', rw2 + '/file')",
}

_ACTS = """
def copy(source, target):
    with open(source, "rb") as reading, open(target, "wb") as writing:
        writing.write(reading.read())
    os.chmod(target, 0o755)
def exchange(one, other):
    call("renameat2", -100, one.encode(), -100, other.encode(), 2)
def run_(program):
    output_of(program)
def mount(folder):
    call("unshare", 0x10020000)  # a user and a mount namespace: to mount in, if Landlock were not
    call("mount", b"none", folder.encode(), b"tmpfs", 0, None)

ground, acts = given
os.umask(0)
def make(phase, number):
    places = {}
    for name in ("out", "ro", "rw", "rw2"):
        place = places[name] = f"{ground}/{phase}/{number}/{name}"
        os.makedirs(place + "/folder")
        os.mkdir(place + "/empty")
        for file in ("/file", "/folder/file"):
            with open(place + file, "w") as opened:
                opened.write("content")
        os.symlink("file", place + "/link")
        copy("/bin/true", place + "/program")
    return places
def lambda_(act, places):
    return eval(f"lambda: {act}", {**globals(), **places, "run": run_})

before = [lambda_(act, make("before", number)) for number, act in enumerate(acts)]
places = [make("after", number) for number, act in enumerate(acts)]
after = [lambda_(act, own) for act, own in zip(acts, places)]
rules = [PathRule(path, Access.READ) for path in ("/usr", os.path.realpath("/lib"))]
rules += [PathRule(loader, Access.EXECUTE) for loader in {os.path.realpath("/lib"), os.path.realpath("/lib64")}
          if os.path.exists(loader)]
for own in places:
    rules += [PathRule(own["ro"], Access.READ), PathRule(own["rw"], Access.WRITE), PathRule(own["rw2"], Access.WRITE)]
told = [[outcome(in_a_child, act) for act in before]]
prctl.give_up_new_privileges()
landlock.restrict(rules)
told.append([outcome(in_a_child, act) for act in after])
tell(told)
"""

Outcomes = dict[str, tuple[str, str]]


@pytest.fixture(scope="module", params=USERS)
def outcomes(request: pytest.FixtureRequest) -> Outcomes:
    """What became of each act before the process shut itself in, and after."""
    acts = {name: act for name, (act, _) in _REFUSED.items()} | _ALLOWED
    with ground(request.param) as folder:
        before, after = run(_ACTS, [str(folder), list(acts.values())], user=request.param)
    return dict(zip(acts, zip(before, after, strict=True), strict=True))


@needs_abi(3)
@pytest.mark.parametrize("name", _REFUSED)
def test_a_process_that_shut_itself_in_cannot(name: str, outcomes: Outcomes) -> None:
    before, after = outcomes[name]
    if before != "ok":
        pytest.skip(f"this user may not do so anyway: {before}")
    assert after == _REFUSED[name][1]


@needs_abi(3)
@each_row("name", _ALLOWED)
def test_a_process_that_shut_itself_in_still_can(name: str, outcomes: Outcomes) -> None:
    assert outcomes[name] == ("ok", "ok")


# One kind of access, on the file or on the folder that holds it: each act has its own, and a rule for it alone.
_ONE_RULE = """
ground, kind, names, acts = given
def make(phase, number):
    folder = f"{ground}/{phase}/{number}"
    os.makedirs(folder + "/beneath")
    for name in ("/file", "/beneath/file"):
        with open(folder + name, "w") as opened:
            opened.write("content")
    return {"folder": folder, "file": folder + "/file"}
before, after = ([make(phase, number) for number in range(len(acts))] for phase in ("before", "after"))
def became(places):
    return [outcome(in_a_child, lambda: eval(act, globals(), own)) for act, own in zip(acts, places)]
access = Access(0)
for name in names:
    access |= Access[name]
told = [became(before)]
prctl.give_up_new_privileges()
landlock.restrict(PathRule(own[kind], access) for own in after)
tell([*told, became(after)])
"""

_ONE_RULES_ACTS = {
    "read": "open(file).read()",
    "write": "open(file, 'r+').write('x')",
    "truncate": "os.truncate(file, 0)",
    "remove": "os.unlink(file)",
    "rename": "os.rename(file, file + '-new')",
    "link": "os.link(file, file + '-new')",
    "make": "open(folder + '/new', 'x')",
    "list": "os.listdir(folder)",
    "read beneath": "open(folder + '/beneath/file').read()",
    "move up": "os.rename(folder + '/beneath/file', folder + '/new')",
    "move away": "os.rename(file, os.path.dirname(folder) + '/new')",
}


@pytest.mark.exhaustive("access1", "access2")
@needs_abi(3)
@pytest.mark.parametrize(
    ("access", "on_the_file", "on_the_folder"),
    [
        (["READ"], {"read"}, {"read", "list", "read beneath"}),
        (["WRITE"], {"read", "write", "truncate"}, _ONE_RULES_ACTS.keys() - {"move away"}),
        (["EXECUTE"], set(), set()),
        (["READ", "EXECUTE"], {"read"}, {"read", "list", "read beneath"}),
        (["WRITE", "EXECUTE"], {"read", "write", "truncate"}, _ONE_RULES_ACTS.keys() - {"move away"}),
    ],
)
def test_a_rule_is_about_its_file_or_about_all_beneath_its_folder(
    access: list[str], on_the_file: set[str], on_the_folder: set[str], user: str
) -> None:
    for kind, allowed in ("file", on_the_file), ("folder", on_the_folder):
        with ground(user) as folder:
            before, after = run(_ONE_RULE, [str(folder), kind, access, list(_ONE_RULES_ACTS.values())], user=user)
        assert set(before) == {"ok"}
        assert {name for name, became in zip(_ONE_RULES_ACTS, after, strict=True) if became == "ok"} == allowed


@needs_landlock
@each_row("user", USERS)
def test_a_grant_is_of_the_file_whatever_its_name(user: str) -> None:
    with ground(user) as folder:
        for name in ("granted", "other"):
            (folder / name).mkdir(0o755)
        (folder / "granted" / "file").touch(0o644)
        os.link(folder / "granted" / "file", folder / "other" / "file")
        (folder / "other" / "stranger").touch(0o644)
        told = run(
            """
before = os.listdir("/proc/self/fd")
prctl.give_up_new_privileges()
landlock.restrict([PathRule(given + "/granted/file", Access.READ), PathRule("/proc", Access.READ)])
told = [outcome(open, given + "/other/" + name) for name in ("file", "stranger")]
tell([*told, os.listdir("/proc/self/fd") == before])
""",
            str(folder),
            user=user,
        )
    assert told == ["ok", "EACCES", True]


_DEVICE = """
names = given
def control():
    with open("/dev/urandom", "rb") as device:
        fcntl.ioctl(device, 0x80045200, bytes(4))  # RNDGETENTCNT: how random it is
acts = {
    "read": lambda: open("/dev/urandom", "rb", 0).read(1),
    "write": lambda: open("/dev/null", "wb", 0).write(b"x"),
    "empty": lambda: os.open("/dev/null", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    "control": control,
}
before = {name: outcome(act) for name, act in acts.items()}
access = Access[given]
prctl.give_up_new_privileges()
landlock.restrict([PathRule("/dev/null", access), PathRule("/dev/urandom", access)])
tell([before, {name: outcome(act) for name, act in acts.items()}])
"""


@needs_abi(5)
@each_row("user", USERS)
@each_row(
    ("access", "refused"),
    [("DEVICE", set()), ("WRITE", {"control"}), ("READ", {"write", "empty", "control"})],
)
def test_a_device_is_controlled_only_where_it_was_granted_as_a_device(
    access: str, refused: set[str], user: str
) -> None:
    before, after = run(_DEVICE, access, user=user)
    assert set(before.values()) == {"ok"}
    assert after == {name: "EACCES" if name in refused else "ok" for name in before}


_PROGRAMS = """
def loader_of(program):
    "The file that the kernel starts to load a program, as the program itself names it."
    with open(program, "rb") as opened:
        image = opened.read()
    start = image.index(b"/lib")
    return os.path.realpath(image[start:image.index(b"\\0", start)])
true, cat = os.path.realpath("/bin/true"), os.path.realpath("/bin/cat")
loader = os.fsdecode(loader_of(true))
acts = {
    "granted": lambda: output_of(true),
    "other": lambda: output_of(cat, "/etc/passwd"),
    "other, by the loader": lambda: output_of(loader, cat, "/dev/null"),
}
before = {name: outcome(act) for name, act in acts.items()}
rules = [PathRule("/", Access.READ)]
if "program" in given:
    rules.append(PathRule(true, Access.EXECUTE))
if "loader" in given:
    rules.append(PathRule(loader, Access.EXECUTE))
prctl.give_up_new_privileges()
landlock.restrict(rules)
tell([before, {name: outcome(act) for name, act in acts.items()}])
"""


@needs_landlock
@each_row("user", USERS)
@each_row(
    ("granted", "runs"),
    [
        ([], set()),
        (["program"], set()),
        # Whoever may run the loader may have it load any file that may be read and mapped: mounts have to refuse that.
        (["loader"], {"other, by the loader"}),
        (["program", "loader"], {"granted", "other, by the loader"}),
    ],
)
def test_a_program_runs_where_it_and_its_loader_were_granted(granted: list[str], runs: set[str], user: str) -> None:
    before, after = run(_PROGRAMS, granted, user=user)
    assert set(before.values()) == {"ok"}
    assert {name for name, became in after.items() if became == "ok"} == runs


@needs_landlock
@each_row("user", USERS)
def test_a_program_that_may_not_be_read_does_not_run(user: str) -> None:
    assert run(
        """
true = os.path.realpath("/bin/true")
libraries = [os.path.realpath(path) for path in ("/lib", "/lib64") if os.path.exists(path)]
rules = [PathRule(path, Access.READ | Access.EXECUTE) for path in libraries] + [PathRule(true, Access.EXECUTE)]
before = outcome(output_of, true)
prctl.give_up_new_privileges()
landlock.restrict(rules)
tell([before, outcome(output_of, true)])
""",
        user=user,
    ) == ["ok", "EACCES"]


@needs_landlock
@each_row("user", USERS)
def test_a_program_that_is_started_afterwards_is_shut_in_as_well(user: str) -> None:
    with ground(user) as folder:
        (folder / "file").write_text("content")
        before, after = run(
            """
cat = os.path.realpath("/bin/cat")
before = output_of(cat, given)
prctl.give_up_new_privileges()
system = {"/usr", os.path.realpath("/bin"), os.path.realpath("/lib"), os.path.realpath("/lib64")}
landlock.restrict(PathRule(path, Access.READ | Access.EXECUTE) for path in system if os.path.exists(path))
tell([before, [outcome(output_of, os.path.realpath("/bin/true")), outcome(output_of, cat, given)]])
""",
            str(folder / "file"),
            user=user,
        )
    assert before == "content"
    assert after == ["ok", "ECHILD"]


# What each protection refuses, done to a process outside that belongs to the same user: the parent.
_PROTECTED = """
path, name, version = given
listener = socket.create_server(("127.0.0.1", 0))
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\\0" + name)
abstract.listen()
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("127.0.0.1", 0))
named = socket.socket(socket.AF_UNIX)
named.bind(path + "/socket")
named.listen()
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER: anyone, under Yama

child = os.fork()
if child == 0:
    def control():
        with open("/dev/urandom", "rb") as device:
            fcntl.ioctl(device, 0x80045200, bytes(4))
    def trace():
        in_a_child(lambda: call("ptrace", 0x4206, parent, 0, 0))  # PTRACE_SEIZE
    parent = os.getppid()
    acts = {
        "file system": lambda: open(path + "/file").read(),
        "truncate": lambda: os.truncate(path + "/file", 7),
        "connect by tcp": lambda: socket.socket().connect(listener.getsockname()),
        "bind a tcp port": lambda: socket.create_server(("127.0.0.1", 0)),
        "listen at a tcp port the kernel picks": lambda: socket.socket().listen(),
        "control a device": control,
        "connect to an abstract socket": lambda: socket.socket(socket.AF_UNIX).connect("\\0" + name),
        "signal": lambda: os.kill(parent, 0),
        "signal a thread": lambda: call("tgkill", parent, parent, 0),
        "signal by a handle": lambda: signal.pidfd_send_signal(os.pidfd_open(parent), 0),
        "connect to a socket in the file system": lambda: socket.socket(socket.AF_UNIX).connect(path + "/socket"),
        "send by udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", datagrams.getsockname()),
        "trace": trace,
        "read memory": lambda: open(f"/proc/{parent}/mem").close(),
        "follow a descriptor": lambda: os.readlink(f"/proc/{parent}/fd/0"),
        "connect to a socket of its own": lambda: own_socket(),
        "signal a child of its own": lambda: own_child(),
    }
    def own_socket():
        own = socket.socket(socket.AF_UNIX)
        own.bind(f"\\0{name}-{os.urandom(8).hex()}")
        own.listen()
        socket.socket(socket.AF_UNIX).connect(own.getsockname())
    def own_child():
        own = os.fork()
        if own == 0:
            signal.pause()
        os.kill(own, signal.SIGKILL)
        os.waitpid(own, 0)
    told = [{act: outcome(body) for act, body in acts.items()}]
    prctl.give_up_new_privileges()
    landlock.abi = lambda: version
    rules = [PathRule("/proc", Access.READ), PathRule("/dev/urandom", Access.READ)]
    told.append(sorted(landlock.restrict(rules)))
    told.append({act: outcome(body) for act, body in acts.items()})
    tell(told)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

# Whoever is in any Landlock domain may not look into those who are not: the first protection brings that with it.
_PROTECTION_OF = {
    "file system": "file system",
    "trace": "file system",
    "read memory": "file system",
    "follow a descriptor": "file system",
    "truncate": "truncate",
    "connect by tcp": "tcp",
    "bind a tcp port": "tcp",
    "control a device": "ioctl on devices",
    "connect to an abstract socket": "abstract sockets",
    "signal": "signals",
    "signal a thread": "signals",
    "signal by a handle": "signals",
    "connect to a socket in the file system": "sockets in the file system",
    "send by udp": "udp",
    # What no protection is against: the system call filter has to refuse the first, nobody the others.
    "listen at a tcp port the kernel picks": None,
    "connect to a socket of its own": None,
    "signal a child of its own": None,
}


@needs_landlock
@each_row("user", USERS)
@each_row("version", range(1, min(landlock.abi(), _NEWEST) + 1))
def test_exactly_what_is_said_to_be_in_force_is_refused(version: int, user: str) -> None:
    """An older kernel is this one, told to handle no more than the older one knew."""
    with ground(user) as folder:
        (folder / "file").write_text("content")
        (folder / "file").chmod(0o666)
        before, protections, after = run(_PROTECTED, [str(folder), f"paddock-{uuid.uuid4()}", version], user=user)
    assert before == dict.fromkeys(_PROTECTION_OF, "ok")
    refused = {name for name, became in after.items() if became in ("EACCES", "EPERM")}
    assert refused == {name for name, protection in _PROTECTION_OF.items() if protection in protections}
    assert {became for name, became in after.items() if name not in refused} == {"ok"}


@needs_landlock
@each_row("user", USERS)
def test_no_environment_can_be_read_without_capabilities(user: str) -> None:
    """Landlock alone does not keep root from it: CAP_PERFMON reads it without asking any module."""
    before, after = run(
        """
child = os.fork()
if child == 0:
    def look():
        return open(f"/proc/{os.getppid()}/environ").read()
    before = outcome(look)
    capabilities.drop_all()
    prctl.give_up_new_privileges()
    landlock.restrict([PathRule("/proc", Access.READ)])
    tell([before, outcome(look)])
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
        user=user,
    )
    assert (before, after) == ("ok", "EACCES")


_PORTS = """
from paddock_sandbox.landlock import PortAccess, PortRule
names, version = given
granted, other = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("127.0.0.1", 0))

def connect(listener):
    socket.socket().connect(listener.getsockname())
def send():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", datagrams.getsockname())
acts = {
    "connect to the port": lambda: connect(granted),
    "connect to another": lambda: connect(other),
    "connect at another address": lambda: socket.socket().connect(("127.0.0.2", other.getsockname()[1])),
    "bind a port": lambda: socket.socket().bind(("127.0.0.1", 0)),
    "send": send,
}
elsewhere = socket.create_server(("127.0.0.2", other.getsockname()[1]))
before = {name: outcome(act) for name, act in acts.items()}
rules = [PortRule(granted.getsockname()[1], PortAccess.CONNECT_TCP)] if "connect" in names else []
rules += [PortRule(datagrams.getsockname()[1], PortAccess.SEND_UDP), PortRule(0, PortAccess.BIND_UDP)]
prctl.give_up_new_privileges()
if version:
    landlock.abi = lambda: version
landlock.restrict(rules if names else [])
tell([before, {name: outcome(act) for name, act in acts.items()}])
"""


@needs_abi(4)
@each_row("user", USERS)
@each_row("rules", [[], ["connect"]], ids=["none", "one"])
def test_a_port_can_be_connected_to_where_it_was_granted(rules: list[str], user: str) -> None:
    before, after = run(_PORTS, [rules, 0], user=user)
    assert set(before.values()) == {"ok"}
    # Datagrams are free on kernels that cannot refuse them, and granted to the one port on those that can.
    free = {"connect to the port"} if rules else set()
    free |= {"send"} if rules or landlock.abi() < 10 else set()
    assert after == {name: "ok" if name in free else "EACCES" for name in before}


@needs_landlock
@each_row("user", USERS)
def test_a_rule_for_a_port_means_nothing_to_a_kernel_that_refuses_none(user: str) -> None:
    """An older kernel is this one, told to handle no more than the older one knew."""
    before, after = run(_PORTS, [["connect"], min(3, landlock.abi())], user=user)
    assert after == before == dict.fromkeys(before, "ok")


@needs_abi(4)
def test_an_invalid_port_is_an_error_and_nothing_is_in_force() -> None:
    assert run("""
from paddock_sandbox.landlock import PortAccess, PortRule
prctl.give_up_new_privileges()
before = os.listdir("/proc/self/fd")
try:
    landlock.restrict([PortRule(65536, PortAccess.CONNECT_TCP)])
except OSError as error:
    tell([errno.errorcode[error.errno], str(error), os.listdir("/proc/self/fd") == before, outcome(os.listdir, "/")])
""") == ["EINVAL", "[Errno 22] landlock rule for port 65536: landlock_add_rule: Invalid argument", True, "ok"]


@each_row(
    ("access", "rights"),
    [
        (PortAccess.CONNECT_TCP, {3: 0, 4: 0b10, 9: 0b10, 10: 0b10}),
        (PortAccess.SEND_UDP, {3: 0, 4: 0, 9: 0, 10: 0b1000}),
        (PortAccess.BIND_UDP, {9: 0, 10: 0b100}),
        (PortAccess.CONNECT_TCP | PortAccess.SEND_UDP, {4: 0b10, 10: 0b1010}),
    ],
)
def test_a_rule_for_a_port_asks_for_what_the_kernel_knows(access: PortAccess, rights: dict[int, int]) -> None:
    assert {version: landlock.port_rights(access, version) for version in rights} == rights


# A rule that cannot be, and how the error says so.
_WRONG = {
    "missing": (("/missing", "READ"), "ENOENT", "landlock rule for '{ground}/missing': No such file or directory"),
    "beneath a file": (("/file/beneath", "READ"), "ENOTDIR", "'{ground}/file/beneath': Not a directory"),
    "a link": (("/link", "READ"), "ELOOP", "'{ground}/link': Too many levels of symbolic links"),
    "a link with a slash": (("/link/", "READ"), "EINVAL", "'{ground}/link/': not an absolute and normalised path"),
    "a link to nothing": (("/dangling", "READ"), "ELOOP", "'{ground}/dangling': Too many levels of symbolic links"),
    "a path that climbs": (("/folder/../file", "READ"), "EINVAL", "not an absolute and normalised path"),
    "a path with a NUL": (("/file\0", "READ"), "EINVAL", "not an absolute and normalised path"),
    "no path": (("", "READ"), "EINVAL", "not an absolute and normalised path"),
    "a relative path": (("../folder", "READ"), "EINVAL", "not an absolute and normalised path"),
    "a file as a device": (("/file", "DEVICE"), "ENODEV", "'{ground}/file': not a character device"),
    "a folder as a device": (("/folder", "DEVICE"), "ENODEV", "'{ground}/folder': not a character device"),
}


@needs_landlock
@each_row("user", USERS)
@each_row("wrong", _WRONG)
def test_an_invalid_rule_names_its_path_and_nothing_is_in_force(wrong: str, user: str) -> None:
    (path, access), number, text = _WRONG[wrong]
    with ground(user) as folder:
        (folder / "file").touch()
        (folder / "folder").mkdir()
        (folder / "link").symlink_to("folder")
        (folder / "dangling").symlink_to("nowhere")
        told = run(
            """
ground, path, access = given
prctl.give_up_new_privileges()
before = os.listdir("/proc/self/fd")
try:
    landlock.restrict([PathRule(ground, Access.READ), PathRule(path, Access[access])])
except OSError as error:
    tell([errno.errorcode[error.errno], str(error), os.listdir("/proc/self/fd") == before])
""",
            [str(folder), str(folder) + path if path.startswith("/") else path, access],
            user=user,
        )
        assert told[0] == number
        assert text.format(ground=folder) in told[1]
        assert told[2], "a descriptor was not closed"


@needs_landlock
def test_landlock_refuses_a_process_without_no_new_privs() -> None:
    if prctl.is_no_new_privs():
        pytest.skip("these tests themselves run without new privileges: no_new_privs is set")
    assert run(
        """
try:
    landlock.restrict([])
except OSError as error:
    tell([errno.errorcode[error.errno], str(error), outcome(os.listdir, "/")])
""",
        user="ordinary",
    ) == ["EPERM", "[Errno 1] landlock_restrict_self: Operation not permitted", "ok"]


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_kernel_without_landlock_has_version_0_and_restricts_nothing(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "call", _refusing(number))
    assert landlock.abi() == 0
    with pytest.raises(OSError, match="landlock_create_ruleset") as failed:
        landlock.restrict([])
    assert failed.value.errno == number


def test_a_container_that_forbids_the_question_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "call", _refusing(errno.EPERM))
    with pytest.raises(PermissionError, match="landlock_create_ruleset"):
        landlock.abi()


@pytest.mark.parametrize(("version", "flags"), [(1, 0), (6, 0), (7, 0b101), (10, 0b101)])
def test_refusals_stay_out_of_the_kernel_log_where_possible(
    version: int, flags: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def accept(name: str, *arguments: object) -> int:
        if name == "landlock_create_ruleset":
            return os.open(os.devnull, os.O_RDONLY)
        assert name == "landlock_restrict_self"
        asked.append(arguments[1])
        return 0

    monkeypatch.setattr(landlock, "abi", lambda: version)
    monkeypatch.setattr(landlock, "call", accept)
    landlock.restrict([])
    assert asked == [flags]


def _refusing(number: int) -> Callable[..., int]:
    def refuse(name: str, *arguments: object) -> int:
        raise OSError(number, f"{name}: {os.strerror(number)}")

    return refuse


# Written down a second time, from the kernel's documentation: by ABI, the words of the most a ruleset can refuse.
_HANDLED = {
    0: (0, 0, 0),
    1: (0x1FFF, 0, 0),
    2: (0x3FFF, 0, 0),
    3: (0x7FFF, 0, 0),
    4: (0x7FFF, 0b11, 0),
    5: (0xFFFF, 0b11, 0),
    6: (0xFFFF, 0b11, 0b11),
    7: (0xFFFF, 0b11, 0b11),
    8: (0xFFFF, 0b11, 0b11),
    9: (0x1FFFF, 0b11, 0b11),
    10: (0x1FFFF, 0b1111, 0b11),
    11: (0x1FFFF, 0b1111, 0b11),
}

_PROTECTIONS = {
    0: set(),
    1: {"file system"},
    3: {"file system", "truncate"},
    4: {"file system", "truncate", "tcp"},
    5: {"file system", "truncate", "tcp", "ioctl on devices"},
    6: {"file system", "truncate", "tcp", "ioctl on devices", "abstract sockets", "signals"},
}


@each_row("version", _HANDLED)
def test_all_that_an_abi_can_refuse_is_refused(version: int) -> None:
    assert landlock.handled(version) == _HANDLED[version]


@each_row("version", range(9))
def test_a_protection_is_named_from_the_abi_on_that_brought_it(version: int) -> None:
    assert landlock.protections(version) == _PROTECTIONS[max(known for known in _PROTECTIONS if known <= version)]


@needs_landlock
@pytest.mark.skipif(
    landlock.abi() > _NEWEST, reason=f"this kernel's Landlock is {landlock.abi()}, newer than the tables' {_NEWEST}"
)
@each_row("word", Handled._fields)
def test_the_running_kernel_can_refuse_nothing_else(word: str) -> None:
    most = landlock.handled(landlock.abi())
    assert run(
        """
import struct
def create(words):
    os.close(call("landlock_create_ruleset", ctypes.create_string_buffer(struct.pack("=QQQ", *words), 24), 24, 0))
tell([outcome(create, words) for words in given])
""",
        [most, most._replace(**{word: getattr(most, word) * 2 + 1})],  # the next bit as well
    ) == ["ok", "EINVAL"]


_ACCESS = st.builds(
    lambda parts: Access(sum(part.value for part in parts)), st.sets(st.sampled_from(list(Access)), min_size=1)
)
_VERSION = st.integers(0, 64)


@given(_ACCESS, st.booleans(), _VERSION)
def test_a_rule_asks_for_nothing_that_the_kernel_does_not_know(access: Access, directory: bool, version: int) -> None:
    assert landlock.rights(access, directory=directory, version=version) & ~landlock.handled(version).files == 0


@given(_ACCESS, _VERSION)
def test_a_rule_on_a_file_lacks_only_a_folders_rights(access: Access, version: int) -> None:
    on_a_folder = landlock.rights(access, directory=True, version=version)
    folders_rights = 0b11_1111_1111_1000  # from READ_DIR to REFER
    assert landlock.rights(access, directory=False, version=version) == on_a_folder & ~folders_rights


@given(_ACCESS, _ACCESS, st.booleans(), _VERSION)
def test_more_access_is_never_fewer_rights_and_two_are_those_of_each(
    one: Access, other: Access, directory: bool, version: int
) -> None:
    def rights(access: Access) -> int:
        return landlock.rights(access, directory=directory, version=version)

    assert rights(one | other) == rights(one) | rights(other)


@given(_ACCESS, st.booleans(), _VERSION)
def test_no_rule_lets_a_device_or_a_socket_be_made(access: Access, directory: bool, version: int) -> None:
    made = 1 << 6 | 1 << 9 | 1 << 11
    assert landlock.rights(access, directory=directory, version=version) & made == 0


@given(_ACCESS, st.booleans(), _VERSION)
def test_each_landlock_right_opens_its_act_only(access: Access, directory: bool, version: int) -> None:
    asked = landlock.rights(access, directory=directory, version=version)
    assert not asked & 1 << 0 or Access.EXECUTE in access
    assert not asked & (1 << 1) or access & (Access.WRITE | Access.DEVICE | Access.DEVICES)
    assert not asked & (1 << 14) or Access.WRITE in access
    assert not asked & (1 << 15) or access & (Access.DEVICE | Access.DEVICES)
