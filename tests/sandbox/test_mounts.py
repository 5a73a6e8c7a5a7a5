"""What a worker sees is what its profile names, each at its place and with its rights, and the old root is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.apart import needs_root, run_apart
from sandbox.subject import ORDINARY, ground
from support.rows import each_row

DEVICES = {"null", "zero", "full", "random", "urandom"}
SYSTEM = {
    *("/dev", "/dev/fd", "/dev/ptmx", "/dev/pts", "/dev/shm", "/dev/stderr", "/dev/stdin", "/dev/stdout"),
    *(f"/dev/{name}" for name in DEVICES),
    *("/etc", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf", "/etc/passwd"),
    *("/proc", "/scratch", "/scratch/.-dev-shm", "/scratch/.-tmp", "/tmp"),
    *("/sys", "/sys/devices", "/sys/devices/system", "/sys/devices/system/cpu"),
    *(f"/sys/devices/system/cpu/{name}" for name in ("online", "possible", "present")),
}
MOUNT_POINTS = {"/", "/dev/shm", "/proc", "/scratch", "/tmp", *(f"/dev/{name}" for name in DEVICES)}


@pytest.fixture
def folder(user: str) -> Iterator[Path]:
    """A folder of the user's, with a file in it."""
    with ground(user) as folder:
        owned_like(folder, folder / "file").write_text("in it")
        yield folder


def owned_like(other: Path, path: Path) -> Path:
    path.touch()
    as_other = other.stat()
    if os.geteuid() == 0:
        os.chown(path, as_other.st_uid, as_other.st_gid)
    return path


def folder_in(parent: Path, name: str) -> Path:
    made = parent / name
    made.mkdir()
    if os.geteuid() == 0:
        os.chown(made, parent.stat().st_uid, parent.stat().st_gid)
    return made


def in_new_root(mounts: str, act: str, given: object, user: str) -> Any:
    """Return what an act comes to in a root with these mounts; both are Python."""
    told = run_apart(f"{act}\ntell(in_new_root([{mounts}], act))", given, user=user)
    assert "returned" in told, told
    return told["returned"]


_SEEN = """
def act(_):
    found = []
    for folder, folders, files in os.walk("/"):
        found += [os.path.join(folder, name) for name in (*folders, *files)]
        if folder == "/proc":
            folders.clear()
    with open("/proc/self/mountinfo") as lines:
        points = [line.split()[4] for line in lines]
    return [path for path in found if not path.startswith("/proc/")], points
"""


def test_what_is_visible_is_exactly_the_profile(user: str, folder: Path) -> None:
    seen, points = in_new_root('Mount(given, "/given/here")', _SEEN, str(folder), user)
    assert sorted(seen) == sorted({*SYSTEM, "/given", "/given/here", "/given/here/file"})
    assert sorted(points) == sorted({*MOUNT_POINTS, "/given/here"})


_REACHED = """
def ways():
    for name in ("/", "/proc/self/root", "/proc/self/cwd", "/proc/1/root", "/proc/1/cwd", "/..", "../../../..", "."):
        yield name, name + given
    for name in os.listdir("/proc/self/fd"):
        yield "a descriptor", f"/proc/self/fd/{name}{given}"
def reached(_=None):
    return sorted({name for name, path in ways() if outcome(os.stat, path) == "ok"}), os.getcwd()
tell({"outside": reached(), **in_new_root([], reached, before=lambda: os.chdir("/"))})
"""


def test_nothing_of_the_old_root_can_be_reached_but_by_a_descriptor(user: str, folder: Path) -> None:
    told = run_apart("os.chdir('/')\nheld = os.open('/', os.O_PATH)\n" + _REACHED, str(folder), user=user)
    ways, _ = told["outside"]
    assert {"/", "/proc/self/root", "/proc/self/cwd", "/..", "../../../..", "a descriptor"} <= {*ways}
    # Only the descriptor, which its holder has to close: the mounts cannot.
    assert told["returned"] == [["a descriptor"], "/"]
    assert run_apart("os.chdir('/')\n" + _REACHED, str(folder), user=user)["returned"] == [[], "/"]


_RIGHTS = """
def rights(place):
    flags = os.statvfs(place).f_flag
    return {
        "read": outcome(lambda: open(f"{place}/file").read()),
        "write": outcome(lambda: open(f"{place}/file", "a").write("more")),
        "make": outcome(os.mkdir, f"{place}/made"),
        "remove": outcome(os.rmdir, f"{place}/made"),
        "change": outcome(os.chmod, f"{place}/file", 0o755),
        "execute": outcome(os.execv, f"{place}/file", ["it"]),
        "map code": outcome(map_code, f"{place}/file"),
        "set-id": bool(flags & os.ST_NOSUID),
        "devices": bool(flags & os.ST_NODEV),
    }
def map_code(path):
    with open(path, "rb") as file:
        mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE).close()
"""
# What is no program, and yet may be executed: the mount does not stand in the way.
_ALL_RIGHTS = {
    **{"read": "ok", "write": "ok", "make": "ok", "remove": "ok", "change": "ok"},
    **{"execute": "ENOEXEC", "map code": "ok"},
}
_NO_SPECIAL_FILES = {"set-id": True, "devices": True}
_READ_ONLY = {"write": "EROFS", "make": "EROFS", "remove": "EROFS", "change": "EROFS"}
_NO_CODE = {"execute": "EACCES", "map code": "EPERM"}


@pytest.mark.parametrize(
    ("named", "refused"),
    [
        ("", {**_READ_ONLY, **_NO_CODE}),
        ("writable=True", _NO_CODE),
        ("mappable=True", _READ_ONLY),
        ("writable=True, mappable=True", {}),
    ],
    ids=["read", "write", "code", "write and code"],
)
def test_a_mount_gives_the_rights_that_it_names(user: str, folder: Path, named: str, refused: dict[str, str]) -> None:
    (folder / "file").write_text("x" * 4096)
    (folder / "file").chmod(0o755)
    program = f"""{_RIGHTS}
outside = rights(given)
tell({{"outside": outside, **in_new_root([Mount(given, "/it", {named})], lambda _: rights("/it"))}})
"""
    told = run_apart(program, str(folder), user=user)
    assert told["outside"].items() >= _ALL_RIGHTS.items()
    assert told["returned"] == {**_ALL_RIGHTS, **_NO_SPECIAL_FILES, **refused}


def test_a_device_in_a_granted_folder_is_none(user: str = "root") -> None:
    needs_root()
    program = """
os.mknod(f"{given}/device", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
outside = outcome(open, f"{given}/device")
tell([outside, in_new_root([Mount(given, "/it", writable=True, mappable=True)], lambda _: outcome(open, "/it/device"))])
"""
    with ground(user) as folder:
        assert run_apart(program, str(folder), user=user) == ["ok", {"returned": "EACCES"}]


def test_the_rights_reach_what_is_mounted_below_a_source() -> None:
    needs_root()
    program = """
call("unshare", 0x20000)
call("mount", b"none", b"/", None, 1 << 18 | 1 << 14, None)
os.mkdir(f"{given}/below")
call("mount", b"none", f"{given}/below".encode(), b"tmpfs", 0, None)
open(f"{given}/below/file", "w").close()
def act(_=None, place="/it"):
    return os.listdir(f"{place}/below"), outcome(open, f"{place}/below/file", "a")
tell({"outside": act(place=given), **in_new_root([Mount(given, "/it")], act)})
"""
    with ground("root") as folder:
        told = run_apart(program, str(folder), user="root")
    assert told == {"outside": [["file"], "ok"], "returned": [["file"], "EROFS"]}


def test_a_single_file_is_mounted_alone(user: str, folder: Path) -> None:
    owned_like(folder, folder / "beside")
    program = """
def act(_):
    return os.listdir("/a/b"), open("/a/b/c").read(), outcome(open, "/a/b/c", "a"), outcome(open, "/a/b/d", "w")
tell(in_new_root([Mount(f"{given}/file", "/a/b/c", writable=True)], act))
"""
    told = run_apart(program, str(folder), user=user)
    assert told == {"returned": [["c"], "in it", "ok", "EROFS"]}


def test_a_mount_lies_over_those_before_it(user: str, folder: Path) -> None:
    inner, cover = folder_in(folder, "inner"), folder_in(folder, "cover")
    owned_like(folder, inner / "file")
    owned_like(folder, cover / "instead")
    hidden = folder_in(folder, "hidden")
    owned_like(folder, hidden / "file")
    program = """
def act(_):
    return {
        "outer": outcome(open, "/it/file", "a"), "inner": outcome(open, "/it/inner/file", "a"),
        "hidden": os.listdir("/it/hidden"),
    }
order = [Mount(given, "/it"), Mount(f"{given}/inner", "/it/inner", True), Mount(f"{given}/cover", "/it/hidden")]
tell(in_new_root(order, act))
"""
    told = run_apart(program, str(folder), user=user)
    assert told == {"returned": {"outer": "EROFS", "inner": "ok", "hidden": ["instead"]}}


# Mounts that cannot be made, of a folder that is given, the step that fails and how.
_REFUSED = {
    "a source that is a link by now": ("Mount(f'{given}/link', '/b')", "open {folder}/link", "ELOOP"),
    "one behind a link": ("Mount(f'{given}/link/file', '/b')", "open {folder}/link/file", "ELOOP"),
    "one behind a link to the root": ("Mount(f'{given}/to/file', '/b')", "open {folder}/to/file", "ELOOP"),
    "one that is gone": ("Mount(f'{given}/x', '/b')", "open {folder}/x", "ENOENT"),
    "a target that is a link": ("Mount('/etc', '/it/link')", "mount /it/link", "ELOOP"),
    "one behind a link of the folder's": ("Mount('/etc', '/it/link/x')", "mount /it/link/x", "ELOOP"),
    "a link of the root's own": ("Mount('/etc', '/dev/stdin')", "mount /dev/stdin", "ELOOP"),
    "one behind such a link": ("Mount('/etc', '/dev/fd/0')", "mount /dev/fd/0", "ELOOP"),
    # A mount over folders on the way to another ends the trust in them.
    "one behind a link below a later mount": (
        "Mount(given, '/a/b/c'), Mount(given, '/a'), Mount('/etc', '/a/link/x')",
        "mount /a/link/x",
        "ELOOP",
    ),
    "a folder where a file is": ("Mount(given, '/it/file')", "mount /it/file", "any"),
    "a place in what is read-only": ("Mount(given, '/ro'), Mount(given, '/ro/new')", "mount /ro/new", "EROFS"),
}


@each_row("mounts, step, error", _REFUSED.values(), ids=_REFUSED)
def test_a_mount_is_never_made_by_way_of_a_link_or_where_it_cannot_be(
    user: str, mounts: str, step: str, error: str
) -> None:
    with ground(user) as folder:
        owned_like(folder, folder / "file")
        (folder / "link").symlink_to("/scratch")
        (folder / "to").symlink_to("/")
        program = f"tell(in_new_root([Mount(given, '/it', True), {mounts}], print))"
        told = run_apart(program, str(folder), user=user)
    assert told["step"] == step.format(folder=folder)
    assert error in (told["error"], "any")


@pytest.mark.parametrize("taken", ["/a/b", "/tmp/a/b"])
def test_places_made_here_take_one_mount_after_another(user: str, folder: Path, taken: str) -> None:
    program = """
there = [Mount(f"{given[0]}/file", given[1] + "/one"), Mount(given[0], given[1] + "/two"), Mount(given[0], given[1])]
tell(in_new_root(there, lambda _: sorted(os.listdir(given[1]))))
"""
    assert run_apart(program, [str(folder), taken], user=user) == {"returned": sorted(os.listdir(folder))}


def test_the_root_itself_cannot_be_changed(user: str) -> None:
    program = """
def act(_):
    return {
        "make": outcome(os.mkdir, "/made"), "make a device": outcome(open, "/dev/made", "w"),
        "write": outcome(open, "/etc/passwd", "w"), "remove": outcome(os.unlink, "/etc/hosts"),
        "rename": outcome(os.rename, "/etc", "/other"), "change": outcome(os.chmod, "/etc", 0o777),
        "link": outcome(os.symlink, "/", "/dev/link"), "remount": outcome(remount),
    }
def remount():
    call("mount", None, b"/", None, 32 | 4096, None)
tell(in_new_root([], act))
"""
    refused = run_apart(program, user=user)["returned"]
    assert refused.pop("remount") == "EPERM"
    assert {*refused.values()} == {"EROFS"}, refused


def test_the_users_of_the_system_are_replaced_by_the_one_there_is(user: str) -> None:
    program = """
def act(_):
    return open("/etc/passwd").read(), os.getuid(), os.getgid(), outcome(open, "/etc/shadow")
tell(in_new_root([], act))
"""
    accounts, uid, gid, shadow = run_apart(program, user=user)["returned"]
    assert accounts == f"module:x:{uid}:{gid}:module:/scratch:/bin/sh\n"
    assert shadow == "ENOENT"


def test_devices_do_what_they_are_for_and_no_other_is_there(user: str) -> None:
    program = """
def act(_):
    with open("/dev/zero", "rb") as zero, open("/dev/urandom", "rb") as random, open("/dev/random", "rb") as slower:
        data = [zero.read(4) == bytes(4), len(random.read(4)), len(slower.read(4))]
    full, null = os.open("/dev/full", os.O_RDWR), os.open("/dev/null", os.O_RDWR)
    return {
        "data": data, "full": outcome(os.write, full, b"x"), "null": outcome(os.write, null, b"x"),
        "devices": sorted(name for name in os.listdir("/dev") if stat.S_ISCHR(os.lstat(f"/dev/{name}").st_mode)),
        "made": outcome(os.mknod, "/scratch/null", stat.S_IFCHR, os.makedev(1, 3)),
        "stdout": os.readlink("/proc/self/fd/1") == os.readlink("/dev/fd/1"),
    }
tell(in_new_root([], act))
"""
    assert run_apart(program, user=user)["returned"] == {
        **{"data": [True, 4, 4], "full": "ENOSPC", "null": "ok"},
        **{"devices": sorted(DEVICES), "made": "EPERM", "stdout": True},
    }


def test_proc_shows_the_workers_own_processes_and_nothing_of_the_kernels(user: str) -> None:
    program = """
kernel = ["sys", "meminfo", "cmdline", "kallsyms", "modules", "keys", "net", "sysrq-trigger", "config.gz", "mounts"]
def act(_=None):
    return [name for name in kernel if os.path.lexists(f"/proc/{name}")], sorted(os.listdir("/proc"))
tell([act()[0], in_new_root([], act)["returned"]])
"""
    outside, (kernel, listed) = run_apart(program, user=user)
    assert {"sys", "meminfo", "cmdline"} <= {*outside}
    # These lead to the process's own; they are names of nothing else.
    assert {*kernel} <= {"net", "mounts"}
    assert [name for name in listed if name.isdigit()] == ["1"]
    assert {*listed} <= {"1", "self", "thread-self", "net", "mounts"}


_FILLED = """
def fill(path, most):
    "How many bytes can be written to a file."
    written = 0
    with open(path, "wb", buffering=0) as file:
        try:
            while written < most:
                written += file.write(bytes(1 << 16))
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
    return written
"""


@each_row("place", ["/scratch", "/tmp", "/dev/shm"])
def test_the_private_folder_and_all_its_parts_are_bounded_together(user: str, place: str) -> None:
    program = f"""{_FILLED}
def act(_):
    there = fill(given + "/file", 1 << 23)
    elsewhere = [fill(other + "/other", 1 << 23) for other in ("/scratch", "/tmp", "/dev/shm")]
    return there, elsewhere
tell(in_new_root([], act, size=1 << 20))
"""
    there, elsewhere = run_apart(program, place, user=user)["returned"]
    assert 1 << 19 <= there <= 1 << 20
    assert elsewhere == [0, 0, 0]


@pytest.mark.exhaustive("ordinary")
def test_the_private_folder_holds_no_endless_number_of_empty_files(user: str) -> None:
    program = """
def act(_):
    made = 0
    try:
        while made < 1 << 17:
            os.symlink("x", f"/tmp/{made}")
            made += 1
    except OSError as error:
        return made, errno.errorcode[error.errno], outcome(os.mkdir, "/scratch/one-more")
tell(in_new_root([], act, size=1 << 26))
"""
    made, *refusals = run_apart(program, user=user)["returned"]
    assert made < 1 << 16
    assert refusals == ["ENOSPC", "ENOSPC"]


def test_the_private_folder_is_the_workers_alone_and_holds_no_program(user: str) -> None:
    program = f"""{_RIGHTS}
def act(_):
    found = {{}}
    for place in ("/scratch", "/tmp", "/dev/shm"):
        with open(place + "/file", "w") as file:
            file.write("x" * 4096)
        os.chmod(place + "/file", 0o755)
        owner = os.stat(place)
        found[place] = rights(place), owner.st_uid == os.getuid(), oct(owner.st_mode & 0o777)
    return found
tell(in_new_root([], act))
"""
    for rights, is_own, mode in run_apart(program, user=user)["returned"].values():
        assert rights == {**_ALL_RIGHTS, **_NO_SPECIAL_FILES, **_NO_CODE}
        assert (is_own, mode) == (True, "0o700")


def test_two_workers_have_nothing_of_each_others_private_folders(user: str) -> None:
    program = """
def act(_):
    found = os.listdir("/scratch"), os.listdir("/tmp")
    open("/scratch/left", "w").close()
    open("/tmp/left", "w").close()
    return found
first = in_new_root([], act)
tell([first, in_new_root([], act)])
"""
    first, second = run_apart(program, user=user)
    assert first == second


def test_the_private_folder_can_be_anywhere(user: str) -> None:
    program = """
tell(in_new_root([], lambda _: outcome(os.mkdir, "/home/here/made"), scratch="/home/here"))
"""
    assert run_apart(program, user=user) == {"returned": "ok"}


_OWNED = """
def act(_=None, place="/it"):
    return {
        "read": outcome(open, f"{place}/secret"), "change": outcome(open, f"{place}/secret", "a"),
        "make": outcome(lambda: os.close(os.open(f"{place}/made", os.O_CREAT, 0o600))),
        "owner": os.stat(place).st_uid,
    }
"""


@each_row("owner", [0, 1000], ids=["root", "another"])
@each_row("group", ["the same", "another"])
def test_granted_files_keep_their_owner_and_appear_as_the_workers(owner: int, group: str) -> None:
    needs_root()
    group_id = owner if group == "the same" else 50
    with ground("root") as folder:
        for path in (folder, folder / "secret"):
            if path != folder:
                path.touch(0o600)
            os.chown(path, owner, group_id)
        bare = run_apart(f"{_OWNED}\ntell(apart(lambda _: act(place=given)))", str(folder), user="root")
        granted = in_new_root("Mount(given, '/it', writable=True)", _OWNED, str(folder), "root")
        made = (folder / "made").stat()
    # Without the mount a worker of root's is a stranger to them.
    assert bare == {"returned": {"read": "EACCES", "change": "EACCES", "make": "EACCES", "owner": ORDINARY}}
    assert granted == {"read": "ok", "change": "ok", "make": "ok", "owner": 1000}
    assert (made.st_uid, made.st_gid) == (owner, group_id)


@each_row(("owner", "group", "outcome"), [(0, 50, "ok"), (1000, 0, "EACCES")], ids=str)
def test_a_file_in_a_granted_folder_may_be_of_another_group_not_user(owner: int, group: int, outcome: str) -> None:
    needs_root()
    with ground("root") as folder:
        (folder / "secret").touch(0o600)
        os.chown(folder / "secret", owner, group)
        granted = in_new_root("Mount(given, '/it', writable=True)", _OWNED, str(folder), "root")
    assert (granted["read"], granted["change"]) == (outcome, outcome)


_KEEPS_ITS_OWNERS = "/proc/sys/fs/inotify"  # as every file of /proc


def test_a_folder_that_cannot_be_idmapped_is_refused_by_name() -> None:
    needs_root()
    told = run_apart("tell(in_new_root([Mount(given, '/it')], print))", _KEEPS_ITS_OWNERS, user="root")
    assert (told["step"], told["error"]) == (f"map the owner of {_KEEPS_ITS_OWNERS}", "EINVAL")


def test_code_that_cannot_be_idmapped_is_read_as_everybody_may() -> None:
    needs_root()
    program = "tell(in_new_root([Mount(given, '/it', mappable=True)], lambda _: os.listdir('/it')))"
    told = run_apart(program, _KEEPS_ITS_OWNERS, user="root")
    assert "max_user_watches" in told["returned"]


_MAPPED_ALREADY = """
call("unshare", 0x20000)
call("mount", b"none", b"/", None, 1 << 18 | 1 << 14, None)
(tree,) = mounts.open_trees([given])
mounts.give_to_worker([tree], [Mount(given, given)], OwnerMaps(300000))
call("move_mount", tree, b"", -100, given.encode(), 4)
os.close(tree)
def told(**rights):
    return in_new_root([Mount(given, "/it", **rights)], lambda _: os.listdir("/it"))
tell([told(), told(mappable=True)])
"""


def test_code_that_a_container_has_mapped_already_is_read_as_everybody_may() -> None:
    needs_root()
    with ground("root") as folder:
        folder.chmod(0o755)
        (folder / "file").touch(0o644)
        granted, code = run_apart(_MAPPED_ALREADY, str(folder), user="root")
    assert "returned" in granted or granted["step"] == f"map the owner of {folder}"
    assert code == {"returned": ["file"]}


_FAULTY = """
real = mounts.call
side, counts, fault = "here", {}, None
def faulty(name, *arguments):
    index = counts[side] = counts.get(side, -1) + 1
    if (side, index) == fault:
        raise OSError(errno.EIO, f"{name}: injected")
    return real(name, *arguments)
mounts.call = faulty
sources = [Mount(given, "/it", True), Mount(f"{given}/file", "/itself")]
def build():
    counts.clear()
    return apart(grow, sources)
def grow(trees):
    root = NewRoot()
    root.try_to_hold()
    root.attach_scratch("/scratch", 1 << 20, mappable=False)
    root.attach(sources, trees)
    root.enter()
    return counts[side]
def entering(step):
    def enter(*ids):
        global side
        side = "inside"
        return step(*ids)
    return enter
namespaces.take_mapped_ids = entering(namespaces.take_mapped_ids)
namespaces.map_own_ids = entering(namespaces.map_own_ids)
last = {"inside": build()["returned"], "here": counts.get("here", -1)}
found = []
for side_of_fault, index in [(side, index) for side in last for index in range(last[side] + 1)]:
    fault = side_of_fault, index
    found.append(build())
tell([last, found])
"""


@pytest.mark.exhaustive("ordinary")
def test_every_step_that_fails_is_named_and_leaves_nothing_behind(user: str, folder: Path) -> None:
    # What it leaves is looked at after every single one: see `apart`.
    last, found = run_apart(_FAULTY, str(folder), user=user)
    assert len(found) == last["inside"] + last["here"] + 2 > 40
    survived = [told for told in found if "step" not in told]
    assert len(survived) == len(("openat2", "open_tree", "mount_setattr", "move_mount"))  # over a link, to try it
    found = [told for told in found if "step" in told]
    steps = {told["step"] for told in found}
    assert {told["error"] for told in found} == {"EIO"}
    assert steps == {
        *("detach mounts from the host's", "new root", "open /dev", "let go of a link"),
        *("mount /proc", "seal the new root", "pivot_root"),
        *(f"open /dev/{name}" for name in DEVICES),
        *(f"mount /dev/{name}" for name in DEVICES),
        *("mount /scratch", f"open {folder}", f"open {folder}/file", "mount /it", "mount /itself"),
        *((f"map the owner of {folder}", f"map the owner of {folder}/file") if user == "root" else ()),
    }
    assert all("injected" in told["text"] for told in found)


@each_row(("function", "step"), [("mkdir", "write /etc"), ("symlink", "links in /dev")])
def test_a_file_that_cannot_be_made_is_a_step_too(user: str, function: str, step: str) -> None:
    program = """
def refuse(*arguments, **named):
    raise OSError(errno.ENOSPC, "injected")
setattr(os, given, refuse)
tell(in_new_root([], print))
"""
    told = run_apart(program, function, user=user)
    assert (told["step"], told["error"]) == (step, "ENOSPC")


def test_where_proc_may_not_be_mounted_it_is_missing_and_the_rest_is_there(user: str) -> None:
    program = """
real = mounts.call
def masked(name, *arguments):
    if name == "fsconfig" and arguments[1] == 6 and kinds[-1] == b"proc":
        raise PermissionError(errno.EPERM, "fsconfig: masked")
    if name == "fsopen":
        kinds.append(arguments[0])
    return real(name, *arguments)
kinds = []
mounts.call = masked
def act(trees):
    root = NewRoot()
    root.enter()
    return root.missing, os.path.exists("/proc"), os.path.lexists("/dev/fd"), outcome(open, "/dev/null")
tell(apart(act))
"""
    assert run_apart(program, user=user) == {"returned": [["/proc"], False, False, "ok"]}


def test_sources_that_cannot_all_be_opened_are_all_let_go_of(user: str, folder: Path) -> None:
    program = """
def act(trees):
    before = os.listdir("/proc/self/fd")
    tried = outcome(mounts.open_trees, ["/etc", given, "/nowhere"])
    return tried, os.listdir("/proc/self/fd") == before
tell(apart(act))
"""
    assert run_apart(program, str(folder), user=user) == {"returned": ["ENOENT", True]}


_HOLDS = """
def act(trees):
    root = NewRoot()
    root.try_to_hold()
    root.attach_scratch("/scratch", 1 << 20, mappable=False)
    root.attach([Mount(given, "/it", True)], trees)
    root.hold([Mount(given + "/link", "/it/link")])
    root.enter()
    os.symlink("file", "/it/other")
    held = [
        outcome(os.unlink, "/it/link"), outcome(os.rename, "/it/link", "/it/gone"),
        outcome(os.replace, "/it/other", "/it/link"), outcome(os.replace, "/it/file", "/it/link"),
        outcome(os.link, "/it/link", "/it/further"), outcome(call, "lchown", b"/it/link", os.getuid(), os.getgid()),
        outcome(call, "renameat2", -100, b"/it/other", -100, b"/it/link", 2),
    ]
    return root.missing, held, os.readlink("/it/link"), os.listdir("/it/link"), outcome(os.unlink, "/it/other")
tell(apart(act, [Mount(given, "/it", True)]))
"""


def test_a_held_link_leads_on_and_cannot_be_replaced(user: str, folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "real/inner").touch()
    (folder / "link").symlink_to("real")
    missing, held, target, names, other = run_apart(_HOLDS, str(folder), user=user)["returned"]
    assert missing == []
    assert held == ["EBUSY", "EBUSY", "EBUSY", "EBUSY", "EXDEV", "EROFS", "EBUSY"]
    assert (target, names, other) == ("real", ["inner"], "ok")
    for name in ("other", "link"):  # outside each of these does what it says
        (folder / "new").symlink_to(name)
        (folder / "new").replace(folder / "link")
    assert (folder / "link").readlink() == Path("link")


def test_a_kernel_that_mounts_nothing_over_links_is_found_out(user: str) -> None:
    program = """
real = mounts.call
def refusing(name, *arguments):
    if name == "move_mount" and os.path.lexists(".link"):
        raise OSError(errno.EINVAL, "refused")
    return real(name, *arguments)
mounts.call = refusing
def act(trees):
    root = NewRoot()
    root.try_to_hold()
    root.enter()
    return root.missing, os.path.lexists("/.link"), outcome(open, "/dev/null")
tell(apart(act))
"""
    assert run_apart(program, user=user) == {"returned": [["held links"], False, "ok"]}
