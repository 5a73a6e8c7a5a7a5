"""Projects of one repository: which of them a requirement means, and which may not be taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock_sources.environment import siblings
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.requirements import Requirements
from paddock_sources.environment.siblings import Siblings
from paddock_sources.errors import SourceError
from paddock_sources.kinds.git_uri import repository
from support.rows import each_row

_ADDRESS = "https://a.example/bay"


def needs(top: Path, written: str, more: str = "") -> Requirements:
    module = top / "modules/tool-tide"
    module.mkdir(parents=True, exist_ok=True)
    (module / "pyproject.toml").write_text(
        f'[project]\nname = "tool-tide"\nversion = "1"\ndependencies = ["{written}"]\n{more}'
    )
    beside = Siblings(repository(f"git+{_ADDRESS}@main"), top, {"pydantic": "2"})
    return Requirements.of(module, Interpreter.this(), siblings=beside)


def declare(top: Path, folder: str, written: str) -> None:
    (top / folder).mkdir(parents=True, exist_ok=True)
    (top / folder / "pyproject.toml").write_text(f"[project]\n{written}\n")


_BAY = 'name = "Bay_Charts"\nversion = "1.2"'


@each_row(
    ("written", "more"),
    [
        ("bay-charts", ""),
        ("bay.charts[x] >=1,<2; python_version > '3'", ""),
        (f"bay-charts @ git+{_ADDRESS}.git@v1", ""),
        ("bay-charts", '[tool.uv.sources]\nbay-charts = { path = "../.." }\n'),
        ("bay-charts", "[tool.uv.sources]\nbay-charts = { workspace = true }\n"),
    ],
)
def test_a_name_that_the_repository_declares_is_taken_from_it(written: str, more: str, tmp_path: Path) -> None:
    declare(tmp_path, "charts", _BAY)
    found = needs(tmp_path, written, more)
    assert not found.index and [(one.name, one.uri.text, one.is_beside) for one in found.direct] == [
        ("bay-charts", f"git+{_ADDRESS}@main#subdirectory=charts", True)
    ]


@each_row("written", ["pydantic>=2", "amplifier-core", "bay-charts @ git+https://b.example/bay@main"])
def test_names_of_the_runtime_and_other_repositories_are_not(written: str, tmp_path: Path) -> None:
    for folder, name in (("a", "pydantic"), ("b", "amplifier-core"), ("c", "bay-charts")):
        declare(tmp_path, folder, f'name = "{name}"\nversion = "2"')
    assert not any(one.is_beside for one in needs(tmp_path, written).direct)


@each_row(
    ("written", "folders", "problem"),
    [
        ("bay-charts", {"a": _BAY, "b": _BAY}, "several projects here: `a/pyproject.toml` and `b/pyproject.toml`"),
        ("bay-charts>=2", {"a": _BAY}, "`bay-charts>=2` is wanted, and the repository's own has 1.2"),
        ("bay-charts", {"a": 'name = "bay-charts"\ndynamic = ["version"]'}, "no version that is written"),
        ("bay-charts", {"LINK": _BAY}, "leads out"),
    ],
)
def test_a_project_that_is_not_certain_is_an_error(
    written: str, folders: dict[str, str], problem: str, tmp_path: Path
) -> None:
    top = tmp_path / f"{len([*tmp_path.iterdir()])}"
    for folder, content in folders.items():
        declare(top, folder, content)
        if folder == "LINK":
            (top / folder / "pyproject.toml").rename(tmp_path / "outside.toml")
            (top / folder / "pyproject.toml").symlink_to(tmp_path / "outside.toml")
    with pytest.raises(SourceError) as caught:
        needs(top, written)
    assert problem in caught.value.summary


def test_a_project_is_found_however_deep_it_lies(tmp_path: Path) -> None:
    declare(tmp_path, "a/b/c/d/e/f/charts", _BAY)
    assert [one.is_beside for one in needs(tmp_path, "bay-charts").direct] == [True]


def test_the_index_is_not_asked_where_not_all_folders_were_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(siblings, "_MAX_FOLDERS", 4)
    declare(tmp_path, "charts", _BAY)
    assert needs(tmp_path, "bay-charts").direct
    declare(tmp_path, "more", 'name = "more"')
    siblings._project_folders.cache_clear()
    with pytest.raises(SourceError, match="more than 4 folders are beside it"):
        needs(tmp_path, "bay-charts")


def test_the_package_at_the_root_is_taken_where_code_imports_it(tmp_path: Path) -> None:
    declare(tmp_path, "", _BAY)
    (tmp_path / "src/bay_charts").mkdir(parents=True)
    (tmp_path / "src/bay_charts/__init__.py").touch()
    (tmp_path / "modules/tool-tide").mkdir(parents=True)
    (tmp_path / "modules/tool-tide/it.py").write_text("from old_bay_charts_2 import depth\n")
    assert not needs(tmp_path, "httpx").direct
    (tmp_path / "modules/tool-tide/it.py").write_text("from bay_charts import depth\n")
    assert [one.uri.text for one in needs(tmp_path, "httpx").direct] == [f"git+{_ADDRESS}@main"]
