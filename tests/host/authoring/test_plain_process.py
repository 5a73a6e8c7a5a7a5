"""The commands of packages in an author's shell: none takes the place of the user's own, and no list stops it."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.authoring.plain_process import write_scripts


def _offer(library: Path, name: str, listed: bytes) -> None:
    folder = library / f"{name}-1.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (folder / "entry_points.txt").write_bytes(b"[console_scripts]\n" + listed)


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    folder = tmp_path / "scripts"
    folder.mkdir()
    return folder


def test_no_command_takes_the_place_of_the_users_programs(tmp_path: Path, scripts: Path) -> None:
    names = ("sh", "env", "python3", "python", "Python3.12", "paddock", "mine-alone")
    _offer(tmp_path / "lib", "evil", "".join(f"{name} = evil:run\n" for name in names).encode())
    assert set(write_scripts(scripts, [tmp_path / "lib"])) == set(names) - {"mine-alone"}
    assert [path.name for path in scripts.iterdir()] == ["mine-alone"]


@pytest.mark.parametrize(
    "listed",
    [b"no value\n", b"caf\xe9 = evil:run\n", b"a" * 300 + b" = evil:run\n"],
    ids=["no value", "no text", "long name"],
)
def test_a_list_that_cannot_be_used_leaves_the_others(listed: bytes, tmp_path: Path, scripts: Path) -> None:
    _offer(tmp_path / "lib", "evil", listed)
    _offer(tmp_path / "lib", "good", b"mine-alone = good:run\n")
    assert write_scripts(scripts, [tmp_path / "lib"]) == ()
    assert [path.name for path in scripts.iterdir()] == ["mine-alone"]


def test_of_endless_commands_a_thousand_are_written(tmp_path: Path, scripts: Path) -> None:
    _offer(tmp_path / "lib", "evil", b"".join(b"mine-%d = evil:run\n" % index for index in range(1500)))
    write_scripts(scripts, [tmp_path / "lib"])
    assert len(list(scripts.iterdir())) == 1000
