"""The settings of sources are believed as policies are, and what is wrong with them is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.errors import PolicyFileError, render
from paddock.policy.files.sources import load_source_settings, sources_path
from support.rows import each_row

TEXT = """\
workspace = "/home/me/modules"

[modules]
"tool-x" = "git+https://host/org/tool-x@v1"

[index]
url = "https://pypi.example.org/simple"
hosts = [
    "files.example.org:443",
]
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path.resolve() / "config")}


@pytest.fixture
def file(environ: dict[str, str]) -> Path:
    path = sources_path(environ)
    path.parent.mkdir(parents=True)
    path.write_text(TEXT)
    path.chmod(0o644)
    return path


def test_the_file_is_in_the_users_configuration_folder(tmp_path: Path, environ: dict[str, str]) -> None:
    assert sources_path(environ) == tmp_path.resolve() / "config" / "paddock" / "sources.toml"
    assert sources_path({"HOME": "/home/me"}) == Path("/home/me/.config/paddock/sources.toml")


def test_a_file_of_ones_own_is_read(environ: dict[str, str], file: Path) -> None:
    settings = load_source_settings(environ)
    assert settings.workspace == Path("/home/me/modules")
    assert settings.modules["tool-x"].text == "git+https://host/org/tool-x@v1"
    assert (settings.index.url, settings.index.hosts) == ("https://pypi.example.org/simple", ("files.example.org:443",))
    assert settings.origin == str(file)


def test_where_no_file_is_there_is_nothing_set(environ: dict[str, str]) -> None:
    settings = load_source_settings(environ)
    assert (settings.workspace, dict(settings.modules), settings.index.url) == (None, {}, "")
    assert settings.origin == str(sources_path(environ))


def test_a_file_that_others_may_write_decides_nothing(environ: dict[str, str], file: Path) -> None:
    file.chmod(0o646)
    with pytest.raises(PolicyFileError, match="can be written by others"):
        load_source_settings(environ)


@each_row(
    ("text", "path", "line", "said"),
    [
        ("\nworkspce = '/a'", "workspce", 2, "did you mean `workspace`?"),
        (TEXT.replace("hosts", "host"), "index.host", 8, "did you mean `hosts`?"),
        (TEXT.replace("files.example.org:443", "*"), "index.hosts[0]", 9, "`*` is not a host"),
        (TEXT.replace("git+https://host/org/tool-x@v1", "./x"), "modules.tool-x", 4, "is not an absolute folder"),
        ("[modules]\n\n'a b' = '/a'", 'modules["a b"]', 3, "a character that no id may have"),
        ("workspace = ]\n", "", 1, "not TOML"),
        ("a = " + "[" * 5000 + "]" * 5000, "", 1, "nested too deeply"),
        ("a = 1\na = 2\n", "", 2, "not TOML"),
    ],
)
def test_what_is_not_understood_is_told_with_its_line(
    environ: dict[str, str], file: Path, text: str, path: str, line: int | None, said: str
) -> None:
    file.write_text(text)
    with pytest.raises(PolicyFileError) as caught:
        load_source_settings(environ)
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == (path, line)
    assert said in f"{problem.message} | {problem.hint}"
    assert problem.describe(str(file)) in render(caught.value) and caught.value.exit_code == 4


def test_everything_wrong_is_told_at_once(environ: dict[str, str], file: Path) -> None:
    file.write_text("workspace = 'x'\n[index]\nurl = 'y'\nmore = 1\n")
    with pytest.raises(PolicyFileError) as caught:
        load_source_settings(environ)
    assert [(one.path, one.line) for one in caught.value.problems] == [
        ("workspace", 1),
        ("index.url", 3),
        ("index.more", 4),
    ]
