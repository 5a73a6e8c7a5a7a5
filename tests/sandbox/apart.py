"""Programs in namespaces of their own, born as a worker's init is: root's with their ids and mounts given to them."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from sandbox.subject import USERS, run

IMPORTS = """
import select
from paddock_sandbox import mounts, namespaces
from paddock_sandbox.mounts import NewRoot, OwnerMaps
from paddock_sandbox.profile import Mount

def leave_the_mounts_of_others():
    "Tests that run at the same time mount and unmount; from here on none of it is seen. Only root can, and need."
    namespace, slave, everywhere_below = 0x20000, 1 << 19, 1 << 14
    try:
        call("unshare", namespace)
        call("mount", None, b"/", None, slave | everywhere_below, None)
    except PermissionError:
        pass

if os.geteuid() == 0:
    leave_the_mounts_of_others()
"""

PROGRAM = """
def kind_of(error):
    return {"error": errno.errorcode.get(error.errno), "step": getattr(error, "step", None), "text": str(error)}

def apart(act, sources=()):
    "What act(trees) returns in namespaces of its own, or the error; shows that nothing of it is left here."
    before = left_here()
    ours, theirs = socket.socketpair()
    outer = namespaces.unused_id() if os.geteuid() == 0 else None
    ids = os.getuid(), os.getgid()
    try:
        child = namespaces.fork_into_new()
    except OSError as error:
        ours.close()
        theirs.close()
        return kind_of(error)
    if child == 0:
        ours.close()
        theirs.sendall(json.dumps(grown(theirs, act, ids if outer is None else None, sources)).encode())
        os._exit(0)
    theirs.close()
    pidfd = os.pidfd_open(child)
    trees = []
    try:
        if outer is not None:
            trees = given_trees(child, outer, sources)
        socket.send_fds(ours, [b"."], trees)
        said = b""
        while data := ours.recv(1 << 16):
            said += data
        return json.loads(said)
    except OSError as error:
        return kind_of(error)
    finally:
        ours.close()
        for tree in trees:
            os.close(tree)
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(pidfd)
        assert left_here() == before, (before, left_here())

def given_trees(child, outer, sources):
    namespaces.map_ids_of(child, outer)
    trees = mounts.open_trees(mount.source for mount in sources)
    owners = OwnerMaps(outer)
    try:
        mounts.give_to_worker(trees, sources, owners)
    except BaseException:
        for tree in trees:
            os.close(tree)
        raise
    finally:
        owners.close()
    return trees

def grown(line, act, ids, sources):
    try:
        _, trees, _, _ = socket.recv_fds(line, 1, 64)
        if ids is None:
            namespaces.take_mapped_ids()
        else:
            namespaces.map_own_ids(*ids)
            trees = mounts.open_trees(mount.source for mount in sources)
        return {"returned": act(list(trees))}
    except OSError as error:
        return kind_of(error)

def left_here():
    "What could be left behind: mounts, descriptors and children."
    with open("/proc/self/mountinfo") as lines:
        seen = lines.read()
    with open(f"/proc/self/task/{os.getpid()}/children") as children:
        return seen, sorted(set(os.listdir("/proc/self/fd"))), children.read()

def in_new_root(sources, act, before=lambda: None, scratch="/scratch", size=1 << 20):
    "What act(what before() returned) returns in a root of these mounts, without a capability left."
    def build(trees):
        seen = before()
        root = NewRoot()
        root.attach_scratch(scratch, size, mappable=False)
        root.attach(sources, trees)
        root.enter()
        capabilities.drop_all()
        return act(seen)
    return apart(build, sources)
"""


def run_apart(program: str, given: object = None, *, user: str) -> Any:
    """Run a program that can put parts of itself apart; skips where this user's processes cannot be."""
    refusal = why_not(user)
    if refusal:
        pytest.skip(f"as {user}: {refusal}")
    return run(PROGRAM + program, given, user=user, imports=IMPORTS)


def needs_root() -> None:
    if "root" not in USERS:
        pytest.skip(f"these tests do not run as root: as {USERS}")


@cache
def why_not(user: str) -> str:
    """Return what stands in the way of namespaces, or nothing."""
    tried = run(PROGRAM + "tell(in_new_root([], lambda _: 'here'))", user=user, imports=IMPORTS)
    return "" if tried.get("returned") == "here" else str(tried["text"])
