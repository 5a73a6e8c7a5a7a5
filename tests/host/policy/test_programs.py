"""The name of a program stands for the file it leads to and for what the kernel needs to start it, and no other."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from paddock.isolation.compile import show_system
from paddock.isolation.mount_table import MountTable
from paddock.plan.problems import NotAcceptedError
from paddock.policy.programs import Program, configuration_of

from .test_executable import elf


class Machine:
    """A system's folders of programs, made up."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "usr" / "bin"
        self.bin.mkdir(parents=True)
        self.loader = self.file(root / "lib" / "ld.so", b"loader")

    def file(self, path: Path, content: bytes, mode: int = 0o755) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
        return path

    def binary(self, name: str) -> Path:
        return self.file(self.bin / name, elf(loader=os.fsencode(self.loader) + b"\0"))

    def script(self, name: str, line: str) -> Path:
        return self.file(self.bin / name, f"#!{line}\n".encode())

    def find(self, name: str) -> Program:
        return Program.find(name, [str(self.root / "usr" / "local" / "bin"), str(self.bin)])

    def refusal(self, name: str) -> str:
        with pytest.raises(NotAcceptedError) as caught:
            self.find(name)
        return str(caught.value)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_binary_comes_with_its_loader(machine: Machine) -> None:
    tool = machine.binary("tool")
    assert machine.find("tool") == Program("tool", tool, (machine.loader,))


def test_a_name_that_is_a_link_stands_for_what_it_leads_to(machine: Machine) -> None:
    dash = machine.binary("dash")
    (machine.bin / "sh").symlink_to("dash")
    found = machine.find("sh")
    assert found == Program("sh", dash, (machine.loader,))
    assert found.describe() == f"sh, which is {dash} (with {machine.loader})"


def test_the_first_folder_that_has_the_name_counts(machine: Machine) -> None:
    machine.binary("tool")
    own = machine.file(machine.root / "usr" / "local" / "bin" / "tool", b"static")
    assert machine.find("tool") == Program("tool", own)


@pytest.mark.parametrize("line", ["{bin}/sh", "{bin}/env sh", "{bin}/env -S A=b sh -e"])
def test_a_script_comes_with_its_interpreter_and_that_ones_loader(machine: Machine, line: str) -> None:
    shell, env = machine.binary("sh"), machine.binary("env")
    script = machine.script("tool", line.format(bin=machine.bin))
    between = (env, machine.loader, shell) if "env" in line else (shell, machine.loader)
    assert machine.find("tool") == Program("tool", script, between)


def test_a_script_for_a_script_comes_with_both_and_not_without_end(machine: Machine) -> None:
    shell = machine.binary("sh")
    inner = machine.script("inner", str(shell))
    outer = machine.script("outer", str(inner))
    assert machine.find("outer") == Program("outer", outer, (inner, shell, machine.loader))
    machine.script("round", str(machine.bin / "round"))
    assert "without end" in machine.refusal("round")


def test_a_program_comes_with_the_folder_of_helpers_that_has_its_name(machine: Machine) -> None:
    tool = machine.binary("tool")
    helpers = [machine.root / "usr" / place for place in ("lib/tool", "lib/tool-core", "libexec/tool")]
    for folder in (*helpers, machine.root / "usr" / "lib" / "other"):
        folder.mkdir(parents=True)
    (machine.root / "usr" / "libexec" / "tool-core").symlink_to("/etc")
    assert machine.find("tool") == Program("tool", tool, (machine.loader, *helpers))


def test_a_missing_program_is_named_with_the_one_it_resembles(machine: Machine) -> None:
    machine.binary("python3")
    assert "did you mean `python3`?" in machine.refusal("pythn3")
    assert "install it" in machine.refusal("zzz")
    machine.file(machine.bin / "data", b"", mode=0o644)
    (machine.bin / "folder").mkdir()
    assert "no program `data`" in machine.refusal("data")
    assert "no program `folder`" in machine.refusal("folder")


def test_a_program_that_could_not_be_started_is_refused_with_what_it_lacks(machine: Machine) -> None:
    machine.script("orphan", "/nowhere/interpreter")
    machine.script("lost", f"{machine.binary('env')} nothing")
    machine.script("relative", "sh")
    machine.file(machine.bin / "broken", elf(loader=b"/nowhere/ld.so\0"))
    assert "started by `/nowhere/interpreter`, which is not there" in machine.refusal("orphan")
    assert "a script for `nothing`" in machine.refusal("lost")
    assert "started by `sh`" in machine.refusal("relative")
    assert "started by `/nowhere/ld.so`" in machine.refusal("broken")


def test_the_programs_of_this_machine_are_found() -> None:
    shell = Program.find("sh")
    assert shell.path == Path(os.path.realpath("/bin/sh"))
    assert all(file.is_absolute() and not file.is_symlink() and file.exists() for file in shell.files)


@pytest.mark.skipif(not Path("/usr/bin/git").exists(), reason="there is no /usr/bin/git")
def test_git_comes_with_its_helpers() -> None:
    said = subprocess.run(["/usr/bin/git", "--exec-path"], capture_output=True, text=True, check=True, timeout=60)
    assert Path(os.path.realpath(said.stdout.strip())) in Program.find("git").needs


# -- what is seen of the system ------------------------------------------------------------


def seen(programs: list[Program] | None) -> dict[str, bool]:
    table = MountTable()
    show_system(table, programs)
    assert not any(mount.writable for mount in table.mounts())
    return {mount.target: mount.mappable for mount in table.mounts()}


def test_only_granted_programs_and_libraries_of_the_system_hold_code() -> None:
    shell = Program.find("sh")
    mappable = seen([shell])
    assert mappable["/usr"] is False
    assert mappable["/usr/lib"] is True
    assert mappable[str(shell.path)] is True
    assert not any(target.endswith(("/bin", "/sbin")) and is_code for target, is_code in mappable.items())


@pytest.mark.skipif(not Path("/bin").is_symlink(), reason="/bin is a folder of its own here")
def test_a_program_is_seen_under_both_names_of_its_folder() -> None:
    shell = Program.find("sh")
    assert seen([shell])[f"/bin/{shell.path.name}"] is True


def test_with_every_program_granted_all_that_is_seen_holds_code() -> None:
    mappable = seen(None)
    assert mappable["/usr"] is True
    assert "/usr/lib" not in mappable


def test_an_installation_under_opt_is_seen_whole_and_any_other_by_its_file() -> None:
    assert Program("x", Path("/opt/vendor/tool/bin/x")).home == Path("/opt/vendor")
    assert Program("x", Path("/opt/x")).home == Path("/opt/x")
    assert Program("x", Path("/home/me/bin/x")).home == Path("/home/me/bin/x")


def test_a_program_reads_only_world_readable_system_settings() -> None:
    for programs in ([Program("gai", Path("/usr/bin/gai"))], None):
        found = list(configuration_of(programs))
        assert Path("/etc/passwd") in found
        assert Path("/etc/shadow") not in found
        assert all(path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o004 for path in found)
        assert (Path("/etc/gai.conf") in found) is os.path.isfile("/etc/gai.conf")
    assert {path.name for path in configuration_of([])} <= {"passwd", "group", "nsswitch.conf"}
