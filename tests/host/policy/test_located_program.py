"""A program by its path comes with what it needs from outside the system, or is refused with what stands in the way."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from paddock.plan.problems import NotAcceptedError
from paddock.policy.executable import SharedLibraries, libraries_of
from paddock.policy.located_program import brings_python_alone, environments_in, locate
from paddock.policy.programs import Program

from .entries import owner


class Scene:
    """A home with a folder of work in it."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.work = self.home / "work"
        self.work.mkdir(parents=True)

    def file(self, path: str, text: str = "#!/bin/sh\n", mode: int = 0o755) -> Path:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def locate(self, written: str) -> Program:
        return locate(written, self.work, owner(self.home))

    def brought(self, written: str) -> list[str]:
        """Return, relative to the home, what is seen with a program."""
        return [str(path.path.relative_to(self.home)) for path in self.locate(written).judged]

    def refusal(self, written: str) -> str:
        with pytest.raises(NotAcceptedError) as caught:
            self.locate(written)
        return str(caught.value)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(Path(os.path.realpath(tmp_path)))


def test_a_script_comes_with_the_interpreter_of_its_first_line(scene: Scene) -> None:
    script = scene.file("work/build")
    shell = Program.find("sh")
    assert scene.locate("./build").files == (script, *shell.files)
    assert scene.brought("./build") == ["work/build"]
    assert scene.locate("./build").folder is None


def test_what_env_finds_is_looked_for_beside_the_program_first(scene: Scene) -> None:
    node = scene.file("node/bin/node")
    scene.file("node/lib/npm/cli.js", "#!/usr/bin/env node\n")
    (scene.home / "node/bin/npm").symlink_to("../lib/npm/cli.js")
    found = scene.locate("~/node/bin/npm")
    assert node in found.needs and Program.find("env").path in found.needs
    assert scene.brought("~/node/bin/npm") == ["node/lib/npm/cli.js", "node/lib", "node/bin/node"]
    assert found.folder == scene.home / "node/bin"


def test_a_virtual_environment_comes_with_its_base_alone(scene: Scene) -> None:
    scene.file("python/bin/python3.12")
    scene.file("python/lib/python3.12/os.py")
    scene.file("python/share/doc")
    scene.file("work/.venv/pyvenv.cfg", f"home = {scene.home}/python/bin\nversion = 3.12\n")
    scene.file("work/.venv/lib/python3.12/site-packages/x.py")
    (scene.home / "work/.venv/bin").mkdir()
    (scene.home / "work/.venv/bin/python").symlink_to(scene.home / "python/bin/python3.12")
    scene.file("work/.venv/bin/check", f"#!{scene.work}/.venv/bin/python\n")
    brought = scene.brought(".venv/bin/check")
    assert set(brought) == {
        *("work/.venv/bin/check", "work/.venv/bin", "work/.venv/lib", "work/.venv/pyvenv.cfg"),
        *("python/bin/python3.12", "python/lib"),
    }
    assert set(scene.brought(".venv/bin/")) == set(brought) - {"work/.venv/bin/check"}
    (scene.home / "python/bin/python3.12").write_bytes(dynamic_elf([], b""))
    (found,) = environments_in([scene.work], scene.work, owner(scene.home))
    assert (found.name, found.path) == (".venv/bin/python", scene.home / "python/bin/python3.12")
    assert brings_python_alone(found, [scene.work])


def environment(scene: Scene, home: str = "/usr/bin") -> Path:
    """Make an environment beside a key and somebody's tools, and return where its `python` is to be."""
    scene.file("work/.venv/pyvenv.cfg", f"home = {home}\n")
    (scene.work / ".venv/bin").mkdir()
    scene.file(".ssh/id_x", "the key", mode=0o600)
    scene.file("tools/conf/token", "the token", mode=0o600)
    scene.file("tools/bin/tool")
    return scene.work / ".venv/bin/python"


def test_a_needed_file_is_what_it_is_said_to_be(scene: Scene) -> None:
    key = scene.home / ".ssh/id_x"
    environment(scene)
    scene.file("work/script", f"#!{key}\n")
    assert "which may not be executed" in scene.refusal("./script")
    (scene.work / "binary").write_bytes(dynamic_elf([b"id_x"], os.fsencode(key.parent)))
    (scene.work / "binary").chmod(0o755)
    assert scene.brought("./binary") == ["work/binary"]


def test_an_environment_is_made_from_a_python_and_holds_its_parts(scene: Scene) -> None:
    environment(scene, home=f"{scene.home}/tools/bin").symlink_to("/usr/bin/python3")
    (scene.work / ".venv/lib").symlink_to(scene.home / ".ssh")
    assert set(scene.brought(".venv/bin/")) == {"work/.venv/bin", "work/.venv/pyvenv.cfg"}


@pytest.mark.costly
def test_bases_of_environments_without_end_are_not_followed(scene: Scene) -> None:
    environment(scene, home=f"{scene.work}/0/bin").symlink_to("/usr/bin/python3")
    for number in range(1100):
        scene.file(f"work/{number}/pyvenv.cfg", f"home = {scene.work}/{number + 1}/bin\n")
        scene.file(f"work/{number}/lib/python3/os.py", "")
    assert "work/0/lib" in scene.brought(".venv/bin/") and "work/1/lib" not in scene.brought(".venv/bin/")


@pytest.mark.parametrize("leads_to", ["tools/bin/tool", ".cargo/bin/rustup", ".pyenv/shims/python"])
def test_an_environment_of_what_is_no_python_is_not_one_alone(scene: Scene, leads_to: str) -> None:
    scene.file(".rustup/settings.toml")
    environment(scene).symlink_to(scene.file(leads_to))
    (found,) = environments_in([scene.work], scene.work, owner(scene.home))
    assert not brings_python_alone(found, [scene.work])


def test_a_folder_for_a_python_is_no_environment(scene: Scene) -> None:
    environment(scene).symlink_to(scene.home / ".ssh")
    assert not list(environments_in([scene.work], scene.work, owner(scene.home)))
    assert scene.brought("./") == ["work"]


def test_a_shim_comes_with_the_versions_it_chooses_from(scene: Scene) -> None:
    scene.file(".cargo/bin/rustup")
    (scene.home / ".cargo/bin/cargo").symlink_to("rustup")
    scene.file(".rustup/settings.toml")
    scene.file(".cargo/credentials.toml")
    assert scene.brought("~/.cargo/bin/cargo") == [".cargo/bin/rustup", ".rustup"]
    scene.file(".pyenv/shims/python")
    assert scene.brought("~/.pyenv/shims/python") == [".pyenv/shims/python", ".pyenv"]
    assert scene.home / ".pyenv" in scene.locate("~/.pyenv/shims/python").needs


@pytest.mark.parametrize("path", ["bin/tool", "shims/tool", "work/bin/tool"])
def test_a_folder_of_somebodys_work_is_no_installation(scene: Scene, path: str) -> None:
    scene.file(path)
    for folder in ("lib", "libexec", "work/lib"):
        (scene.home / folder).mkdir()
    assert scene.brought(f"~/{path}") == [path]


def test_what_cannot_be_run_is_refused_with_what_to_do(scene: Scene) -> None:
    scene.file("work/data", mode=0o644)
    scene.file("work/lost", "#!/nowhere/interpreter\n")
    scene.file("work/unfound", "#!/usr/bin/env no-such-program\n")
    assert "does not exist" in scene.refusal("./missing")
    assert "may not be executed; chmod +x it" in scene.refusal("./data")
    assert "started by `/nowhere/interpreter`, which is not there" in scene.refusal("./lost")
    assert "a script for `no-such-program`" in scene.refusal("./unfound")


def test_what_another_user_could_replace_is_refused(scene: Scene) -> None:
    interpreter = scene.file("work/shared/run")
    scene.file("work/tool", f"#!{interpreter}\n")
    assert scene.brought("./tool") == ["work/tool", "work/shared/run"]
    interpreter.parent.chmod(0o777)
    assert "somebody else could put another thing" in scene.refusal("./shared/run")
    assert "program `./tool`: " in scene.refusal("./tool")  # by its interpreter


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_what_another_user_could_change_is_refused(scene: Scene, mode: int) -> None:
    scene.file("work/mine", mode=mode)
    scene.file("work/tool", f"#!{scene.work}/mine\n")
    for path in ("./mine", "./tool"):
        assert f"somebody else could change `{scene.work}/mine`" in scene.refusal(path)


# -- the libraries of a binary -------------------------------------------------------------


def dynamic_elf(names: list[bytes], run_path: bytes, *, bits: int = 64, table: int | None = None) -> bytes:
    """Return a binary that names libraries, and folders to look for them in."""
    wide = bits == 64
    header_bytes, segment_bytes, word = (64, 56, "<QQ") if wide else (52, 32, "<II")
    texts = b"\0" + b"".join(name + b"\0" for name in (*names, run_path))
    place, base = header_bytes + 2 * segment_bytes, 0x1000
    offsets = [texts.index(name + b"\0") for name in names]
    tags = [*((1, offset) for offset in offsets), (29, texts.index(run_path + b"\0"))]
    tags += [(5, base + place if table is None else table), (0, 0)]
    section = b"".join(struct.pack(word, *tag) for tag in tags)
    size = place + len(texts) + len(section)
    layout = "<HHIQQQIHHHHHH" if wide else "<HHIIIIIHHHHHH"
    header = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9)
    header += struct.pack(layout, 2, 62, 1, 0, header_bytes, 0, 0, header_bytes, segment_bytes, 2, 0, 0, 0)

    def segment(kind: int, offset: int, length: int) -> bytes:
        if wide:
            return struct.pack("<IIQQQQQQ", kind, 4, offset, base + offset, 0, length, length, 1)
        return struct.pack("<IIIIIIII", kind, offset, base + offset, 0, length, length, 4, 1)

    segments = segment(1, 0, size) + segment(2, place + len(texts), len(section))
    return header + segments + texts + section


@pytest.mark.parametrize("bits", [32, 64])
def test_a_binary_names_its_libraries_and_their_folders(tmp_path: Path, bits: int) -> None:
    binary = tmp_path / "tool"
    binary.write_bytes(dynamic_elf([b"liba.so", b"libc.so.6"], b"$ORIGIN/../lib:/opt/x:rel:${PLATFORM}", bits=bits))
    found = libraries_of(binary)
    assert found.names == ("liba.so", "libc.so.6")
    assert list(found.folders_from(Path("/opt/kit/bin"))) == [Path("/opt/kit/lib"), Path("/opt/x")]


def test_libraries_beside_a_program_come_with_it(scene: Scene) -> None:
    kit = scene.home / "kit"
    kit.mkdir()
    for name, needed in (("tool", b"liba.so"), ("liba.so", b"libb.so"), ("libb.so", b"liba.so")):
        (kit / name).write_bytes(dynamic_elf([needed], b"$ORIGIN"))
        (kit / name).chmod(0o755)
    assert scene.brought("~/kit/tool") == ["kit/tool", "kit/liba.so", "kit/libb.so"]


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\n", dynamic_elf([b"x"], b"/", table=1 << 40)])
def test_of_other_files_no_library_is_known(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert libraries_of(tmp_path / "file") == SharedLibraries()
