"""Which mounts another process can detach, by their places alone."""

from __future__ import annotations

from paddock_sandbox.profile import Mount
from paddock_sandbox.remounting import kept_inside


def test_only_mounts_of_the_same_place_in_a_writable_one_are_kept_inside() -> None:
    writable = Mount("/work", "/work", writable=True)
    inside = [Mount("/work/.git", "/work/.git"), Mount("/work/.git/hooks", "/work/.git/hooks", writable=True)]
    hook = Mount("/work/.git/hooks/x", "/work/.git/hooks/x")
    others = [
        Mount("/usr", "/usr"),
        Mount("/workshop/a", "/workshop/a"),  # shares letters with the writable place, not a folder
        Mount("/elsewhere", "/work/lib"),  # shows another place
        Mount("/elsewhere/x", "/work/lib/x"),  # the nearest place around it cannot be written to
    ]
    assert kept_inside([writable, *inside, hook, *others]) == (inside[0], hook)


def test_the_root_as_a_writable_place_has_all_others_inside() -> None:
    assert kept_inside([Mount("/", "/", writable=True), Mount("/etc", "/etc")]) == (Mount("/etc", "/etc"),)
