"""What is granted adds up, what is fixed stays fixed, and neither can be got round by renaming what is around it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.isolation.mount_table import MountTable
from paddock_sandbox.profile import Mount
from support.rows import each_row


def shown(table: MountTable) -> list[str]:
    """Return each mount as its target, its source where that is another, and what may be done with it."""
    return [
        f"{mount.target}{'' if mount.source == mount.target else ' <- ' + mount.source}"
        f" {'w' if mount.writable else 'r'}{'x' if mount.mappable else ''}"
        for mount in table.mounts()
    ]


def table_of(*wishes: str) -> MountTable:
    """Return a table of wishes written as `grant PATH [w][x]` or `fix PATH [x]`, with `PATH<-SOURCE` as well."""
    table = MountTable()
    for wish in wishes:
        kind, place, *rights = wish.split()
        target, _, source = place.partition("<-")
        mappable = "x" in "".join(rights)
        if kind == "fix":
            table.fix(Path(source or target), Path(target), mappable=mappable)
        else:
            table.grant(Path(source or target), Path(target), writable="w" in "".join(rights), mappable=mappable)
    return table


@each_row(
    ("wishes", "mounts"),
    [
        pytest.param(("grant /b", "grant /a"), ["/a r", "/b r"], id="in order"),
        pytest.param(("grant /a w", "grant /a"), ["/a w"], id="write wins over read"),
        pytest.param(("grant /a", "grant /a w"), ["/a w"], id="in either order"),
        pytest.param(("grant /a", "grant /a/b/c"), ["/a r"], id="a grant inside another adds nothing"),
        pytest.param(("grant /a w", "grant /a/b"), ["/a w"], id="nor does reading what may be written"),
        pytest.param(("grant /a", "grant /a/b w"), ["/a r", "/a/b w"], id="writing inside what may be read does"),
        pytest.param(("grant /a", "grant /ab w"), ["/a r", "/ab w"], id="a name that begins alike is no folder"),
        pytest.param(("grant /a<-/x", "grant /a/b<-/x/b"), ["/a <- /x r"], id="the same by another name"),
        pytest.param(("grant /a<-/x", "grant /a/b<-/y"), ["/a <- /x r", "/a/b <- /y r"], id="another by a name inside"),
        pytest.param(("fix /a x", "grant /a w"), ["/a rx"], id="code is not written to"),
        pytest.param(("grant /a w", "fix /a x"), ["/a rx"], id="in whatever order"),
        pytest.param(("fix /a", "fix /a x"), ["/a rx"], id="fixed twice"),
        pytest.param(("grant /a w", "fix /a/b x"), ["/a w", "/a/b rx"], id="code inside what may be written"),
        pytest.param(("grant /a", "fix /a/b"), ["/a r"], id="fixed where nothing could change it"),
        pytest.param(("fix /a x", "grant /a/b"), ["/a rx"], id="reading code"),
        pytest.param(("fix /a x", "grant /a/b w"), ["/a rx", "/a/b w"], id="results beside code"),
        pytest.param(("grant /usr", "grant /usr/lib x"), ["/usr r", "/usr/lib rx"], id="libraries among data"),
        pytest.param(
            ("grant /a w", "fix /a/b/c/d"),
            ["/a w", "/a/b w", "/a/b/c w", "/a/b/c/d r"],
            id="each folder on the way becomes a mount",
        ),
        pytest.param(
            ("grant /a w", "fix /a/b/c", "fix /a/b/d"), ["/a w", "/a/b w", "/a/b/c r", "/a/b/d r"], id="and only once"
        ),
        pytest.param(
            ("grant /a w", "fix /a/b", "grant /a/b/c/d w", "fix /a/b/c/d/e/f"),
            ["/a w", "/a/b r", "/a/b/c/d w", "/a/b/c/d/e w", "/a/b/c/d/e/f r"],
            id="on the way from the nearest place that may be written",
        ),
        pytest.param(
            ("grant /a w", "fix /a/b/c<-/empty"), ["/a w", "/a/b/c <- /empty r"], id="what lies over another is no part"
        ),
    ],
)
def test_each_place_is_mounted_once_and_outer_places_come_first(wishes: tuple[str, ...], mounts: list[str]) -> None:
    assert shown(table_of(*wishes)) == mounts


def test_a_place_under_another_name_is_the_same_with_all_that_is_in_it() -> None:
    table = table_of("grant /a w", "fix /a/b/c", "grant /ab w")
    table.alias(Path("/a"), Path("/z"))
    assert shown(table)[:3] == ["/a w", "/a/b w", "/a/b/c r"]
    assert shown(table)[4:] == ["/z <- /a w", "/z/b <- /a/b w", "/z/b/c <- /a/b/c r"]


def test_a_table_knows_what_is_seen() -> None:
    table = table_of("grant /a/b")
    assert table.is_seen(Path("/a/b")) and table.is_seen(Path("/a/b/c"))
    assert not table.is_seen(Path("/a")) and not table.is_seen(Path("/a/bc"))


# -- the effect, whatever the wishes -------------------------------------------------------

PATHS = st.lists(st.sampled_from("ab"), min_size=1, max_size=4).map(lambda parts: Path("/", *parts))
WISHES = st.lists(st.tuples(st.sampled_from(["read", "write", "fix"]), PATHS), max_size=8)


def _is_writable(mounts: tuple[Mount, ...], path: Path) -> bool:
    """Return what a worker finds: the last mount made at the path or nearest above it counts."""
    covering = [mount for mount in mounts if path.is_relative_to(mount.target)]
    return bool(covering) and max(covering, key=lambda mount: len(Path(mount.target).parts)).writable


@given(WISHES, PATHS)
def test_a_path_can_be_written_to_exactly_when_the_nearest_wish_says_so(
    wishes: list[tuple[str, Path]], path: Path
) -> None:
    table = MountTable()
    for kind, place in wishes:
        if kind == "fix":
            table.fix(place)
        else:
            table.grant(place, writable=kind == "write")
    mounts = table.mounts()
    assert [mount.target for mount in mounts] == sorted(
        {mount.target for mount in mounts}, key=lambda target: Path(target).parts
    )

    around = [(kind, place) for kind, place in wishes if path.is_relative_to(place)]
    fixed = max((len(place.parts) for kind, place in around if kind == "fix"), default=0)
    written = max((len(place.parts) for kind, place in around if kind == "write"), default=0)
    assert _is_writable(mounts, path) is (written > fixed)


@given(WISHES)
def test_no_folder_around_a_fixed_place_can_be_renamed(wishes: list[tuple[str, Path]]) -> None:
    table = MountTable()
    for kind, place in wishes:
        if kind == "fix":
            table.fix(place)
        else:
            table.grant(place, writable=kind == "write")
    mounts = table.mounts()
    targets = {mount.target for mount in mounts}
    for kind, place in wishes:
        if kind == "fix":
            for folder in (place, *place.parents):
                # A mount cannot be renamed, nor can what is in a folder that may not be written to.
                assert str(folder) in targets or not _is_writable(mounts, folder.parent)


# -- why: what the kernel does -------------------------------------------------------------


def in_namespaces(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["unshare", "-Urm", "sh", "-c", script], capture_output=True, text=True, timeout=60)


def why_no_mounts() -> str:
    """Return what stands in the way of making mounts here; nothing where that works."""
    if shutil.which("unshare") is None:
        return "`unshare` is not installed"
    tried = in_namespaces("mount -t tmpfs none /mnt")
    return f"no mounts can be made here: {tried.stderr.strip()}" if tried.returncode else ""


def mounting(mounts: tuple[Mount, ...]) -> str:
    return "".join(
        f"mount --bind {mount.source} {mount.target}; "
        + ("" if mount.writable else f"mount -o remount,bind,ro {mount.target}; ")
        for mount in mounts
    )


_NO_MOUNTS = why_no_mounts()


@pytest.mark.skipif(bool(_NO_MOUNTS), reason=_NO_MOUNTS)
def test_renaming_the_folder_around_hooks_plants_no_hook(tmp_path: Path) -> None:
    hooks = tmp_path / "project" / ".git" / "hooks"
    hooks.mkdir(parents=True)
    attack = f"cd {tmp_path}/project && mv .git .git-old && mkdir -p .git/hooks && echo evil > .git/hooks/post-commit"

    only_over = (Mount(str(tmp_path), str(tmp_path), True), Mount(str(hooks), str(hooks)))
    assert in_namespaces(mounting(only_over) + f"touch {hooks}/x").returncode != 0
    assert in_namespaces(mounting(only_over) + attack).returncode == 0  # a mount alone does not help
    assert (hooks / "post-commit").read_text() == "evil\n"

    shutil.rmtree(tmp_path / "project")
    hooks.mkdir(parents=True)
    table = table_of(f"grant {tmp_path} w", f"fix {hooks}")
    said = in_namespaces(mounting(table.mounts()) + attack)
    assert said.returncode != 0 and "busy" in said.stderr
    said = in_namespaces(mounting(table.mounts()) + f"mv {tmp_path}/project {tmp_path}/other")
    assert said.returncode != 0 and "busy" in said.stderr
    assert list(hooks.iterdir()) == []
    assert in_namespaces(mounting(table.mounts()) + f"touch {tmp_path}/project/.git/index").returncode == 0
