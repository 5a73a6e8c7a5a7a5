"""A granted path is followed once, as the kernel would, and only where nobody else could make it lead elsewhere."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.plan.problems import NotAcceptedError
from paddock.policy.owner import Owner
from paddock.policy.path_walk import GrantedPath
from support.examples import examples
from support.rows import each_row

from .entries import owner


def resolve(written: str, working_dir: Path, who: Owner | None = None) -> GrantedPath:
    return GrantedPath.resolve(written, working_dir, who or owner())


def refusal(written: str, working_dir: Path, who: Owner | None = None) -> str:
    with pytest.raises(NotAcceptedError) as caught:
        resolve(written, working_dir, who)
    return f"{caught.value.problem} | {caught.value.accepted}"


# -- where it leads ------------------------------------------------------------------------


def test_a_path_starts_at_the_working_directory_unless_it_is_absolute(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "note.txt").touch()
    assert resolve(".", tmp_path).path == tmp_path
    assert resolve("./out/../out", tmp_path).path == tmp_path / "out"
    assert resolve(str(tmp_path / "note.txt"), Path("/")) == GrantedPath(
        str(tmp_path / "note.txt"), tmp_path / "note.txt", tmp_path / "note.txt", (), False
    )
    assert resolve("out", tmp_path).is_directory


def test_a_tilde_is_the_home_folder_of_who_runs_the_host(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    me = owner(home=tmp_path)
    assert resolve("~/notes", Path("/"), me).path == tmp_path / "notes"
    assert resolve("~", Path("/"), me).path == tmp_path
    assert "`~/…` is your home folder" in refusal("~root/x", tmp_path, me)


def test_nobody_is_told_to_make_a_folder_in_the_root(tmp_path: Path) -> None:
    said = refusal("/scratch-of-a-sandbox/venv/bin/python", tmp_path)
    assert "create" not in said and "outside of a sandbox" in said


def test_links_are_followed_and_shown(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "relative").symlink_to("real")
    (tmp_path / "absolute").symlink_to(tmp_path / "relative")
    found = resolve("absolute", tmp_path)
    assert (found.path, found.spelled) == (tmp_path / "real", tmp_path / "absolute")
    assert found.links == ((tmp_path / "absolute", str(tmp_path / "relative")), (tmp_path / "relative", "real"))
    assert found.describe() == (
        f"{tmp_path}/real (by way of {tmp_path}/absolute -> {tmp_path}/relative, {tmp_path}/relative -> real)"
    )


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("../other/tool", "other/tool"),
        ("work/../../other/../other/tool", "other/tool"),
        ("link/../tool", "real/tool"),
        ("link/bin/../../tool", "real/tool"),
        ("link/bin/../tool", "work/link/tool"),
        ("entry", "work/entry"),
    ],
)
def test_no_name_of_a_path_goes_back_up(tmp_path: Path, written: str, spelled: str) -> None:
    for place in ("other", "real", "real/sub", "real/sub/bin"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "tool").touch()
    (tmp_path / "work/work").mkdir(parents=True)
    (tmp_path / "work/link").symlink_to("../real/sub")
    (tmp_path / "work/entry").symlink_to("link/../tool")
    found = resolve(written, tmp_path / "work")
    assert found.spelled == tmp_path / spelled
    assert found.path == Path(os.path.realpath(tmp_path / "work" / written))
    assert all(os.path.realpath(other) == str(found.path) for other in found.others)
    assert not any(".." in name.parts for name in (found.spelled, *found.others))


def test_links_that_go_in_a_circle_end_somewhere(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "in a circle" in refusal("a", tmp_path)


def test_links_that_lead_to_and_fro_are_given_up_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "end").touch()
    for number in range(30):
        (tmp_path / f"l{number}").symlink_to(f"l{number + 1}/" + "d/../" * 790 if number < 29 else "d")
    looked_at = 0
    lstat = os.lstat

    def counted(path: str | Path) -> os.stat_result:
        nonlocal looked_at
        looked_at += 1
        return lstat(path)

    monkeypatch.setattr(os, "lstat", counted)
    assert "too many links" in refusal("l0", tmp_path)
    assert looked_at < 10_000


# -- what cannot be granted ----------------------------------------------------------------


def test_a_missing_path_is_named_with_the_one_it_resembles(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    assert refusal("./sorce/x", tmp_path) == (
        f"`./sorce/x` does not exist: there is no `{tmp_path}/sorce` | create it, or did you mean `{tmp_path}/source`?"
    )
    (tmp_path / "dangling").symlink_to("nowhere")
    assert f"`{tmp_path}/dangling` leads to `nowhere`" in refusal("dangling", tmp_path)
    (tmp_path / "file").touch()
    assert f"`{tmp_path}/file` is no folder" in refusal("file/x", tmp_path)
    assert f"`{tmp_path}/file` is no folder" in refusal("file/..", tmp_path)


@each_row("written", ["/", "//", "/tmp/..", "/proc", "/proc/self/root", "/sys/kernel", "/dev/shm", "/dev"])
def test_the_whole_file_system_and_the_kernels_own_are_never_granted(written: str, tmp_path: Path) -> None:
    assert "the whole file system" in refusal(written, tmp_path) or "which is the kernel's" in refusal(
        written, tmp_path
    )


def test_nor_are_they_by_way_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "root").symlink_to("/proc/self/root")
    assert "which is the kernel's" in refusal("root/etc", tmp_path)
    (tmp_path / "all").symlink_to("/")
    assert "the whole file system" in refusal("all", tmp_path)


def test_what_is_neither_file_nor_folder_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert "neither a file nor a folder" in refusal("fifo", tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        assert "neither a file nor a folder" in refusal("socket", tmp_path)


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    assert "cannot be followed" in refusal("a\0b", tmp_path)
    assert "cannot be followed" in refusal("x" * 300, tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason=f"user {os.geteuid()}, root, can look into every folder")
def test_a_path_that_the_user_cannot_follow_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shut" / "in").mkdir(parents=True)
    (tmp_path / "shut").chmod(0)
    assert "permission denied" in refusal("shut/in", tmp_path)
    (tmp_path / "shut").chmod(0o700)


@each_row("written", ["/usr/local", "/etc", "/usr/lib", "/bin", "/lib"])
def test_the_systems_own_folders_may_be_read_and_never_written_to(written: str, tmp_path: Path) -> None:
    granted = resolve(written, tmp_path)
    with pytest.raises(NotAcceptedError, match="the system's own"):
        granted.refuse_writing_to_the_system()
    resolve(".", tmp_path).refuse_writing_to_the_system()


# -- what somebody else could swap ---------------------------------------------------------


def test_a_world_writable_folder_on_the_way_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "open" / "mine").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    said = refusal("open/mine", tmp_path)
    assert f"leads through `{tmp_path}/open`" in said
    assert "in the place of `mine`: everybody may write to it (mode 0777)" in said
    assert "chmod go-w" in said
    other = Owner(os.geteuid() + 1, tmp_path, lambda uid, gid: False)
    with pytest.raises(NotAcceptedError) as caught:
        GrantedPath.resolve(f"{tmp_path}/open/mine", tmp_path, other)
    assert "chmod" not in caught.value.accepted  # of a file that is not theirs to change
    assert resolve("open", tmp_path).path == tmp_path / "open"
    (tmp_path / "open").chmod(0o1777)
    assert resolve("open/mine", tmp_path).path == tmp_path / "open" / "mine"


def test_a_link_that_another_user_could_change_is_refused(tmp_path: Path) -> None:
    (tmp_path / "safe").mkdir()
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "link").symlink_to(tmp_path / "safe")
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "entrance").symlink_to("open/link")
    assert "in the place of `link`" in refusal("entrance", tmp_path)


def test_a_group_writable_folder_is_refused_unless_the_group_is_private(tmp_path: Path) -> None:
    (tmp_path / "team" / "mine").mkdir(parents=True)
    (tmp_path / "team").chmod(0o770)
    assert "the group" in refusal("team/mine", tmp_path)
    alone = Owner(os.geteuid(), tmp_path, lambda uid, gid: True)
    assert resolve("team/mine", tmp_path, alone).path == tmp_path / "team" / "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason=f"only root can give a folder away, not user {os.geteuid()}")
def test_a_folder_of_another_user_is_refused_also_to_root(tmp_path: Path) -> None:
    (tmp_path / "theirs" / "inside").mkdir(parents=True)
    os.chown(tmp_path / "theirs", 12345, 12345)
    assert "it belongs to uid 12345 (mode" in refusal("theirs/inside", tmp_path)
    assert resolve("theirs", tmp_path).path == tmp_path / "theirs"


@pytest.mark.skipif(os.geteuid() == 0, reason=f"what user {os.geteuid()}, root, owns, everybody has to trust")
def test_a_folder_of_this_user_is_refused_to_another(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert "somebody else could put" in refusal("mine", tmp_path, Owner(os.geteuid() + 1, tmp_path))


# -- any tree ------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
PARTS = st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=6)
TREES = st.lists(
    st.tuples(
        st.lists(NAMES, min_size=1, max_size=3),
        st.one_of(
            st.tuples(st.just("folder"), st.sampled_from([0o755, 0o700, 0o777, 0o1777, 0o775])),
            st.tuples(st.just("file"), st.just(0o644)),
            st.tuples(st.just("link"), PARTS.map("/".join)),
            st.tuples(st.just("absolute link"), PARTS.map("/".join)),
        ),
    ),
    max_size=10,
)


@contextmanager
def _tree(planned: list[tuple[list[str], tuple[str, object]]], *, with_modes: bool) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        folders = []
        for parts, (kind, what) in planned:
            path = root.joinpath(*parts)
            try:
                # Without following: a link planned earlier may lead out of the tree.
                if not path.parent.resolve().is_relative_to(root) or os.path.lexists(path):
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                if kind == "folder":
                    path.mkdir()
                    folders.append((path.resolve(), what))
                elif kind == "file":
                    path.touch()
                else:
                    path.symlink_to(f"{root}/{what}" if kind == "absolute link" else str(what))
            except (OSError, RuntimeError):
                continue
        for folder, mode in folders:
            folder.chmod(int(str(mode)) if with_modes else 0o755)
        yield root


def _by_the_kernel(path: Path) -> Path | None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return Path(os.readlink(f"/proc/self/fd/{fd}"))
    finally:
        os.close(fd)


@settings(max_examples=examples(150), deadline=None)
@given(TREES, PARTS.map("/".join))
def test_in_a_tree_that_is_ours_alone_a_path_leads_where_the_kernel_says(
    planned: list[tuple[list[str], tuple[str, object]]], written: str
) -> None:
    with _tree(planned, with_modes=False) as root:
        expected = _by_the_kernel(root / written)
        try:
            found = resolve(written, root).path
        except NotAcceptedError:
            assert expected is None or expected == Path("/")
        else:
            assert found == expected


@settings(max_examples=examples(150), deadline=None)
@given(TREES, PARTS.map("/".join))
def test_no_accepted_path_of_any_tree_can_be_swapped(
    planned: list[tuple[list[str], tuple[str, object]]], written: str
) -> None:
    with _tree(planned, with_modes=True) as root:
        try:
            found = resolve(written, root)
        except NotAcceptedError:
            return
        assert found.path == Path(os.path.realpath(root / written)) == _by_the_kernel(root / written)
        for path in (found.path, *(link for link, _ in found.links)):
            for folder in path.parents:
                info = folder.lstat()
                assert stat.S_ISDIR(info.st_mode)
                assert info.st_uid in (0, os.geteuid())
                assert not info.st_mode & 0o022 or info.st_mode & stat.S_ISVTX
