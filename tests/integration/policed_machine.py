"""A machine whose operator wrote /etc/paddock/policy.toml: this one, with an /etc in a mount namespace of its own.

As a program, becomes a command in it: `policed_machine.py STAGE ETC SYSTEM GROUND FOLDER COMMAND [ARGUMENT...]`. Works
for root, and for an ordinary user where the kernel lets one have namespaces: files of the user's are then root's, and
files of root's nobody's. So the root is a new one, whose own folders belong to whoever sets it up; what else there is
appears in it, but of GROUND's first folder only GROUND and the code under test. Where it cannot be set up, says why and
exits with 77.
"""

from __future__ import annotations

import functools
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2] / "host"))

from paddock_sandbox.syscalls import call

CANNOT = 77
SYSTEM_FOLDER = "/etc/paddock"
LOOPBACK_NAME = "service.paddock.test"  # a name that such a machine knows: of 127.0.0.1

_SECONDS = 200  # for one command; hit only by a hang
_CODE = (str(Path(__file__).resolve().parents[2]), sys.prefix, sys.base_prefix)
_CLONE_NEWNS, _CLONE_NEWUSER = 0x2_0000, 0x1000_0000
_MS_BIND, _MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x1000, 0x4000, 0x4_0000, 2


class PolicedMachine:
    """Runs commands that find in /etc/paddock what is in the folder `system`; all is below `ground`."""

    def __init__(self, ground: Path) -> None:
        self._ground = ground
        self._etc = _copy_of_etc(ground)
        self._stage = Path(tempfile.mkdtemp(dir=ground, prefix="stage-"))

    def places(self, system: Path) -> tuple[str, str, str, str]:
        """Return what `enter` takes."""
        return str(self._stage), str(self._etc), str(system), str(self._ground)

    def run(
        self, system: Path, command: Sequence[str], *, folder: Path, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a folder below the ground to its end."""
        return subprocess.run(
            [sys.executable, __file__, *self.places(system), str(folder), *command],
            env={**os.environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_SECONDS,
            check=False,
        )


@functools.cache
def why_not() -> str:
    """Return what stands in the way of such a machine here, or nothing."""
    with tempfile.TemporaryDirectory() as made:
        ground = Path(os.path.realpath(made))
        (ground / "system").mkdir()
        (ground / "system/policy.toml").write_text("its policy")
        read = f"print(open('{SYSTEM_FOLDER}/policy.toml').read())"
        done = PolicedMachine(ground).run(ground / "system", [sys.executable, "-I", "-c", read], folder=ground)
    return "" if done.stdout == "its policy\n" else done.stderr.strip() or f"it ended with {done.returncode}"


def _copy_of_etc(ground: Path) -> Path:
    """Copy what everybody may read of /etc, once, with an empty folder for the operator's policy."""
    copy = ground / "etc"
    if not copy.exists():
        shutil.copytree("/etc", copy, symlinks=True, ignore=_unreadable, copy_function=shutil.copyfile)
        shutil.rmtree(copy / "paddock", ignore_errors=True)
        (copy / "paddock").mkdir()
        (copy / "hosts").unlink(missing_ok=True)
        (copy / "hosts").write_text(f"127.0.0.1 localhost {LOOPBACK_NAME}\n")
    return copy


def _unreadable(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if not _is_for_all(os.lstat(os.path.join(folder, name)).st_mode)}


def _is_for_all(mode: int) -> bool:
    if stat.S_ISDIR(mode):
        return bool(mode & stat.S_IROTH and mode & stat.S_IXOTH)
    return stat.S_ISLNK(mode) or bool(stat.S_ISREG(mode) and mode & stat.S_IROTH)


# -- as a program --------------------------------------------------------------------------


def main() -> None:
    """Set the machine up and become the command."""
    stage, etc, system, ground, folder, *command = sys.argv[1:]
    enter(stage, etc, system, ground)
    os.chdir(folder)
    os.execv(command[0], command)


def enter(stage: str, etc: str, system: str, ground: str) -> None:
    """Have this process, which has one thread, be on such a machine; where there can be none, say so and end."""
    try:
        _own_namespaces()
        _build(stage, etc, system, ground)
        os.chdir(stage)
        call("pivot_root", b".", b".")
        call("umount2", b".", _MNT_DETACH)
    except OSError as error:
        print(f"no machine with a policy can be made here: {error}", file=sys.stderr)
        sys.exit(CANNOT)


def _own_namespaces() -> None:
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        call("unshare", _CLONE_NEWNS)
    else:
        call("unshare", _CLONE_NEWUSER | _CLONE_NEWNS)
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    call("mount", None, b"/", None, _MS_REC | _MS_PRIVATE, None)


def _build(stage: str, etc: str, system: str, ground: str) -> None:
    mask = os.umask(0o022)  # nobody else may write where the policy is
    call("mount", b"tmpfs", stage.encode(), b"tmpfs", 0, b"mode=755")
    own = {"etc", ground.split("/")[1]}
    for entry in os.scandir("/"):
        target = f"{stage}/{entry.name}"
        if entry.name in own:
            os.mkdir(target, 0o755)
        elif entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        elif entry.is_dir():
            os.mkdir(target)
            _bind(entry.path, target, _MS_REC)
    _bind(etc, f"{stage}/etc")
    _bind(system, stage + SYSTEM_FOLDER)
    for path in sorted({ground, *_CODE}):  # parents first
        if path.split("/")[1] in own:
            os.makedirs(stage + path, 0o755, exist_ok=True)
            _bind(path, stage + path)
    os.umask(mask)


def _bind(source: str, target: str, how: int = 0) -> None:
    call("mount", source.encode(), target.encode(), None, _MS_BIND | how, None)


if __name__ == "__main__":
    main()
