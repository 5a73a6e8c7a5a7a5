"""Paddock's own folders, which no sandbox shows by any grant: the user's state, settings, and control sockets.

They hold what modules did and said, what others keep, and where secrets are; at a socket, sessions take orders. They
are known by identity: a place where a second mount shows one of them, or a part of one, counts as well, and so does a
file elsewhere to which a link in one leads. Where mounts can cover them, a grant around one shows an empty folder in
its place, with the kept home of the module itself. A level without mounts refuses the grant.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from paddock.isolation.mount_table import is_in
from paddock.plan.problems import NotAcceptedError
from paddock.policy.files.owned_file import user_config_folder
from paddock.policy.path_walk import GrantedPath
from paddock.state_folder import control_paths, state_path
from paddock_sandbox.profile import Mount

_MOUNTS: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
_PREFIX: Final = "paddock-cover-"
_NOWHERE: Final = Path("/", _PREFIX)
_NAMED: Final = 5  # folders beside, in a hint


@dataclass(frozen=True, slots=True)
class PrivatePlaces:
    """Every place that shows one of these folders."""

    places: tuple[Path, ...] = ()

    @classmethod
    def of_user(cls, environ: Mapping[str, str], journals: Path | None = None) -> Self:
        """Return those of the user with `environ`, as far as they are there; `journals` may lie elsewhere."""
        places: dict[Path, None] = {}
        mounts = tuple(_mounts())
        elsewhere = () if journals is None else (journals,)
        for folder in (state_path(environ), user_config_folder(environ), *control_paths(environ), *elsewhere):
            real = folder.resolve()
            if folder.is_dir() and not any(real.is_relative_to(place) for place in places):
                for place in (real, *_files_linked(real)):
                    places |= dict.fromkeys([place, *_mounted_elsewhere(place, mounts)])
        return cls(tuple(places))

    def hold(self, path: Path) -> bool:
        """Whether a path, which is without links, is one of them, or in one."""
        return any(path.is_relative_to(place) for place in self.places)

    def meet(self, folder: Path) -> bool:
        """Whether a folder, which is without links, holds one of them, or is in one."""
        return self.hold(folder) or any(place.is_relative_to(folder) for place in self.places)

    def refuse(self, granted: GrantedPath, *, by_mounts: bool) -> None:
        """Refuse a grant of one of them, or of a part of one; and one around it, unless mounts can cover it there.

        Raises:
            NotAcceptedError: with a grant to use instead.
        """
        path = granted.path
        for place in self.places:
            if path.is_relative_to(place):
                problem = f"`{granted.written}` is Paddock's own, in `{place}`, which no module is granted"
                raise NotAcceptedError(problem, "grant another folder")
            if place.is_relative_to(path) and not by_mounts:
                beside = ", ".join(f"`{one}`" for one in _beside(path, place))
                held = f"`{granted.written}` holds `{place}`"
                raise NotAcceptedError(
                    f"{held}, which no module is granted, and without mounts nothing hides it",
                    f"grant what is needed beside it{f', as in {beside}' if beside else ''}, or use an "
                    "isolation level with namespaces (`ns`, `bwrap`)",
                )

    def covers(self, granted: Collection[Path], home: Path | None, folder: Path | None) -> dict[Path, Path]:
        """Return an empty folder for each place within what is granted; it has a place for the module's kept `home`.

        The empty folders are made in `folder`; without it, nothing is to be started, and a name stands for them.
        """
        inside = [place for place in self.places if any(place.is_relative_to(path) for path in granted)]
        return {place: _NOWHERE if folder is None else _cover(place, home, folder) for place in inside}


NO_PLACES: Final = PrivatePlaces()


def is_cover(mount: Mount) -> bool:
    """Whether a mount's source covers one of the places, or is the name that stands for what does."""
    return Path(mount.source).name.startswith(_PREFIX) and mount.source != mount.target


def _cover(place: Path, home: Path | None, folder: Path) -> Path:
    if place.is_file():  # that a second mount shows alone
        descriptor, file = tempfile.mkstemp(prefix=_PREFIX, dir=folder)
        os.close(descriptor)
        return Path(file)
    cover = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
    if home is not None and home.is_relative_to(place):
        (cover / home.relative_to(place)).mkdir(parents=True)
    return cover


def _beside(granted: Path, place: Path) -> list[Path]:
    """Return some folders in a granted one that do not hold the place."""
    with suppress(OSError), os.scandir(granted) as entries:
        folders = (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        names = sorted(name for name in folders if not name.startswith("."))
        return [granted / name for name in names if not place.is_relative_to(granted / name)][:_NAMED]
    return []


def _files_linked(folder: Path) -> Iterator[Path]:
    """Yield the files elsewhere to which links in a folder lead, as settings do that are kept with others."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink() and entry.is_file():
                yield Path(os.path.realpath(entry.path))


def _mounted_elsewhere(place: Path, mounts: Sequence[_Mount]) -> Iterator[Path]:
    """Yield what shows a place, or anything in it, elsewhere: other mounts of its file system, and of those in it."""
    with suppress(OSError):
        number = _mount_at(place)
        stored = [(one.device, one.root / place.relative_to(one.point)) for one in mounts if one.id == number]
        stored += [(one.device, one.root) for one in mounts if is_in(one.point, place)]
        for device, root in stored:
            for mount in (mount for mount in mounts if mount.device == device):
                shown = mount.shows(root)
                if shown is not None and not shown.is_relative_to(place) and _is_at(shown, mount):
                    yield shown


class _Mount(NamedTuple):
    """A line of the kernel's table: `point` shows what its file system, on `device`, has at `root`."""

    id: int
    device: str
    root: Path
    point: Path

    def shows(self, stored: Path) -> Path | None:
        """Return where it shows what is `stored` there, or that part of it that it shows."""
        if stored.is_relative_to(self.root):
            return self.point / stored.relative_to(self.root)
        return self.point if self.root.is_relative_to(stored) else None


def _mounts() -> Iterable[_Mount]:
    with suppress(OSError), _MOUNTS.open(encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            id, _, device, root, point, *_ = line.split(" ")
            yield _Mount(int(id), device, _unescaped(root), _unescaped(point))


def _mount_at(path: Path) -> int:
    """Return the id of the mount that shows a path, which its point does not tell: another may lie over that."""
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        facts = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")
    finally:
        os.close(descriptor)
    return int(facts.partition("mnt_id:")[2].split()[0])


def _is_at(path: Path, mount: _Mount) -> bool:
    """Whether a mount shows a path; what this user cannot reach, none does."""
    with suppress(OSError):
        return _mount_at(path) == mount.id
    return False


def _unescaped(text: str) -> Path:
    return Path(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), text))
