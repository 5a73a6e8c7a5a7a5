"""What developers of a module install to test it, read from its project file."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.authoring.dev_requirements import dev_requirements
from paddock_sources.environment.errors import RequirementsError

_RUNNERS = ("pytest", "pytest-asyncio")


@pytest.mark.parametrize(
    ("document", "extras", "more"),
    [
        ("", (), ()),
        ('[project]\nname = "x"\n', (), ()),
        ("[project.optional-dependencies]\nDev = ['a']\ntest = ['b']\ndocs = ['c']\n", ("Dev", "test"), ()),
        ("[dependency-groups]\ndev = ['a', 'b>=1']\ndocs = ['c']\n", (), ("a", "b>=1")),
        ("[dependency-groups]\nDEV = [{include-group = 'lint'}, 'a']\nlint = ['b']\n", (), ("b", "a")),
        ("[dependency-groups]\ndev = ['pytest', 'a']\ntests = ['a']\n", (), ("pytest", "a")),
    ],
)
def test_extras_and_groups_of_developers_are_wanted(
    document: str, extras: tuple[str, ...], more: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text(document)
    needs = dev_requirements(tmp_path)
    assert needs.extras == extras
    assert needs.more == tuple(dict.fromkeys((*more, *_RUNNERS)))


def test_a_folder_without_a_project_has_the_runners_alone(tmp_path: Path) -> None:
    assert dev_requirements(tmp_path).more == _RUNNERS


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("[dependency-groups]\ndev = [{include-group = 'dev'}]\n", "includes itself"),
        ("[dependency-groups]\ndev = [{include-group = 'x'}]\nx = [{include-group = 'dev'}]\n", "includes itself"),
        ("[dependency-groups]\ndev = [{include-group = 'x'}]\n", "no dependency group `x`"),
        ("[dependency-groups]\ndev = 'pytest'\n", "no dependency group `dev`"),
        ("[dependency-groups]\ndev = [1]\n", "no requirement"),
        ("dependency-groups = 1\n", "not a table"),
        ("[", "not TOML"),
    ],
)
def test_groups_that_are_none_are_named(document: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(document)
    with pytest.raises(RequirementsError, match=said):
        dev_requirements(tmp_path)


def test_a_group_that_many_include_is_read_once(tmp_path: Path) -> None:
    lines = ["[dependency-groups]", "dev = [{include-group = 'g0'}]"]
    lines += [f"g{n} = [{{include-group = 'g{n + 1}'}}, {{include-group = 'g{n + 1}'}}]" for n in range(40)]
    (tmp_path / "pyproject.toml").write_text("\n".join([*lines, "g40 = ['a']"]))
    assert dev_requirements(tmp_path).more == ("a", *_RUNNERS)


def test_groups_in_groups_without_end_are_refused(tmp_path: Path) -> None:
    lines = ["[dependency-groups]", "dev = [{include-group = 'g0'}]"]
    lines += [f"g{n} = [{{include-group = 'g{n + 1}'}}]" for n in range(2000)]
    (tmp_path / "pyproject.toml").write_text("\n".join(lines))
    with pytest.raises(RequirementsError, match="too deeply"):
        dev_requirements(tmp_path)
