"""Which mounts another process can detach, by their places alone."""

from __future__ import annotations

from paddock_sandbox.profile import Mount
from paddock_sandbox.remounting import kept_inside


def test_mounts_in_a_writable_place_are_kept_as_the_places_they_are() -> None:
    writable = Mount("/work", "/work", writable=True)
    inside = [Mount("/work/.git", "/work/.git"), Mount("/work/.git/hooks", "/work/.git/hooks", writable=True)]
    hook = Mount("/work/.git/hooks/x", "/work/.git/hooks/x")
    shown = Mount("/elsewhere", "/work/lib")  # another place, in the stead of this one
    others = [
        Mount("/usr", "/usr"),
        Mount("/workshop/a", "/workshop/a"),  # shares letters with the writable place, not a folder
        Mount("/elsewhere/x", "/work/lib/x"),  # the nearest place around it cannot be written to
    ]
    kept = kept_inside([writable, *inside, hook, shown, *others])
    assert kept == (inside[0], hook, Mount("/work/lib", "/work/lib"))


def test_the_root_as_a_writable_place_has_all_others_inside() -> None:
    assert kept_inside([Mount("/", "/", writable=True), Mount("/etc", "/etc")]) == (Mount("/etc", "/etc"),)
