from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from failures import failing
from paddock_sources import SourceError
from paddock_sources.environment.errors import ContractVersionError, RequirementsError
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.requirements import Requirements
from support.examples import examples

PYTHON = replace(
    Interpreter.this(),
    version="3.12.4",
    marker_values={"python_version": "3.12", "python_full_version": "3.12.4", "sys_platform": "linux"},
)


def project(root: Path, text: str) -> Path:
    (root / "pyproject.toml").write_text(text, encoding="utf-8")
    return root


def depends(root: Path, *lines: str, more: str = "") -> Path:
    return project(root, f'[project]\nname = "tool-demo"\nversion = "1"\ndependencies = {json.dumps(lines)}\n{more}')


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("httpx", ("httpx",)),
        ("HTTPX >= 0.27 , <1", ("httpx<1,>=0.27",)),
        ("Py_YAML~=6.0", ("py-yaml~=6.0",)),
        ("httpx[http2, socks]>=0.27", ("httpx[http2,socks]>=0.27",)),
        ("colorama; sys_platform == 'win32'", ()),
        ("uvloop; sys_platform != 'win32'", ("uvloop",)),
        ("tomli; python_version < '3.11'", ()),
        ("pytest; extra == 'dev'", ()),
        ("exact===1.0", ("exact===1.0",)),
        ("amplifier-core>=1.0", ()),
        ("amplifier-core<2", ()),
        ("amplifier-core>1.5,<1.6", ()),
        ("amplifier-core==1.*", ()),
        ("amplifier-core~=2.0", ()),
        ("amplifier-core!=2.0.2", ()),
        ("amplifier-core>=3; python_version < '3.0'", ()),
        ("Amplifier_Core @ git+https://host/core@main", ()),
        ("paddock", ()),
        ("Paddock_Host>=0.1", ()),
        ("paddock.sdk>=0.1", ()),
    ],
)
def test_a_dependency_is_read_for_the_interpreter_of_workers(tmp_path: Path, line: str, read: tuple[str, ...]) -> None:
    requirements = Requirements.of(depends(tmp_path, line), PYTHON)
    assert requirements.index == read
    assert requirements.direct == ()


@pytest.mark.parametrize(
    "line", ["amplifier-core>=3", "Amplifier.Core > 2.0.2", "amplifier-core==2.0.3", "amplifier_core~=2.1,<4"]
)
def test_code_for_a_newer_contract_is_refused_with_both_versions(tmp_path: Path, line: str) -> None:
    with pytest.raises(ContractVersionError) as caught:
        Requirements.of(depends(tmp_path, "a", line), PYTHON)
    assert "`tool-demo` asks for a version of the module contracts that is not known here" in str(caught.value)
    assert "there is amplifier-core 2.0.2" in str(caught.value)
    assert caught.value.requires.lower().startswith("amplifier")


def test_name_and_version_are_told(tmp_path: Path) -> None:
    requirements = Requirements.of(depends(tmp_path, "a", "a"), PYTHON)
    assert (requirements.name, requirements.version, requirements.index) == ("tool-demo", "1", ("a",))


@pytest.mark.parametrize("text", ["", "[build-system]\nrequires = ['evil']\nbuild-backend = 'evil'\n", "[tool.x]\n"])
def test_a_tree_that_declares_nothing_depends_on_nothing(tmp_path: Path, text: str) -> None:
    assert Requirements.of(project(tmp_path, text), PYTHON) == Requirements(None, None)


def test_a_tree_without_a_project_file_depends_on_nothing(tmp_path: Path) -> None:
    assert Requirements.of(tmp_path, PYTHON) == Requirements(None, None)


def test_extras_bring_their_own_and_those_that_they_name(tmp_path: Path) -> None:
    more = '[project.optional-dependencies]\nall = ["tool-demo[Web_UI,all]", "c"]\nweb-ui = ["w"]\nother = ["o"]\n'
    root = depends(tmp_path, "a", more=more)
    assert Requirements.of(root, PYTHON).index == ("a",)
    assert Requirements.of(root, PYTHON, extras=["all"]).index == ("a", "c", "w")
    assert Requirements.of(root, PYTHON, extras=["unknown"]).index == ("a",)


def test_a_repository_is_returned_apart(tmp_path: Path) -> None:
    root = depends(tmp_path, "b[x] @ git+https://host/org/b@v1#subdirectory=lib", "a")
    requirements = Requirements.of(root, PYTHON)
    (direct,) = requirements.direct
    assert requirements.index == ("a",)
    assert (direct.name, direct.extras) == ("b", ("x",))
    assert (direct.uri.url, direct.uri.ref, direct.uri.subdirectory) == ("https://host/org/b", "v1", "lib")


_SOURCES = "[tool.uv.sources]\n"


@pytest.mark.parametrize(
    ("entry", "address"),
    [
        ('{git = "https://host/org/b"}', "git+https://host/org/b"),
        ('{git = "https://host/org/b.git", rev = "0f1e2d3c"}', "git+https://host/org/b.git@0f1e2d3c"),
        ('{git = "https://host/b", tag = "v1", subdirectory = "lib"}', "git+https://host/b@v1#subdirectory=lib"),
        ('{git = "git+https://host/b", branch = "main"}', "git+https://host/b@main"),
        (
            "[{git = 'https://host/w', marker = \"sys_platform == 'win32'\"}, {git = 'https://host/b'}]",
            "git+https://host/b",
        ),
    ],
)
def test_a_dependency_comes_from_the_repository_that_uv_is_told(tmp_path: Path, entry: str, address: str) -> None:
    by_uv = Requirements.of(depends(tmp_path, "B[x]>=1", "a", more=f"{_SOURCES}b = {entry}\n"), PYTHON)
    by_itself = Requirements.of(depends(tmp_path, f"b[x] @ {address}", "a"), PYTHON)
    assert by_uv == by_itself and by_uv.index == ("a",) and len(by_uv.direct) == 1


@pytest.mark.parametrize(
    "entry", ['{path = "../b"}', '{url = "https://host/b.whl"}', "{workspace = true}", '{index = "x"}']
)
@pytest.mark.difference("`[tool.uv.sources]` by `path`, `url`, `workspace` or `index` is refused")
def test_a_source_of_another_kind_is_refused_by_name(tmp_path: Path, entry: str) -> None:
    root = depends(tmp_path, "b", more=f"{_SOURCES}b = {entry}\n")
    kind = entry[1:].partition(" ")[0]
    with pytest.raises(RequirementsError, match=rf"`b` in `tool.uv.sources` comes from .* \(`{kind}`\)") as caught:
        Requirements.of(root, PYTHON, may_name_local=True)
    assert "a folder in it by `subdirectory`" in caught.value.hints[0]


@pytest.mark.parametrize("name", ["amplifier-core", "of-nothing-that-is-needed"])
def test_a_source_of_what_is_not_fetched_is_not_looked_at(tmp_path: Path, name: str) -> None:
    root = depends(tmp_path, "amplifier-core", "b", more=f'{_SOURCES}{name} = {{path = "../x", editable = true}}\n')
    assert Requirements.of(root, PYTHON).index == ("b",)


@pytest.mark.parametrize(
    "entry",
    [
        "3",
        "{}",
        "{git = 3}",
        '{git = "https://h/b", tag = "a", rev = "b"}',
        '{git = "https://h/b", made = "up"}',
        '{git = "https://h/b", marker = "nonsense"}',
    ],
)
def test_a_source_that_is_none_is_refused(tmp_path: Path, entry: str) -> None:
    with pytest.raises(RequirementsError, match=r"`tool\.uv\.sources\.b`"):
        Requirements.of(depends(tmp_path, "b", more=f"{_SOURCES}b = {entry}\n"), PYTHON)


@pytest.mark.parametrize("git", ["file:///home/me/private", "ssh://git@host/private", "http://host/x"])
def test_a_strangers_uv_source_names_no_repository_of_the_users_own(tmp_path: Path, git: str) -> None:
    root = depends(tmp_path, "b", more=f'{_SOURCES}b = {{git = "{git}"}}\n')
    with pytest.raises(SourceError):
        Requirements.of(root, PYTHON)


@pytest.mark.parametrize("url", ["git+file:///home/me/private", "git+ssh://git@host/private", "git+http://host/x"])
def test_fetched_code_names_no_repository_that_needs_the_users_rights(tmp_path: Path, url: str) -> None:
    root = depends(tmp_path, f"b @ {url}")
    if "http:" not in url:
        assert Requirements.of(root, PYTHON, may_name_local=True).direct[0].uri.text == url
    with failing("OwnRightsError", "may not name"):
        Requirements.of(root, PYTHON)


def test_what_several_need_is_put_together(tmp_path: Path) -> None:
    first = Requirements("a", "1", ("x", "y"))
    assert first.joined(Requirements("b", "2", ("y", "z"))) == Requirements("a", "1", ("x", "y", "z"))


def test_code_for_another_python_is_refused_with_both_versions(tmp_path: Path) -> None:
    assert Requirements.of(depends(tmp_path, more='requires-python = ">=3.11"'), PYTHON).name
    with failing("PythonVersionError") as caught:
        Requirements.of(depends(tmp_path, more='requires-python = ">=3.13"'), PYTHON)
    assert "needs Python >=3.13, and modules are run by Python 3.12.4" in caught.value.summary


@pytest.mark.parametrize(
    "line",
    [
        "--index-url http://evil",
        "-e .",
        "a\n--index-url=http://evil",
        "a==1.0 --hash=sha256:0",
        "a; python_version != '\n--index-url=http://evil\n'",
        "a===1\\",
        "a===${HOME}",
        "a===1#x",
        "a @ https://host/a-1.0-py3-none-any.whl",
        "a @ file:///etc/passwd",
        "a @ git+ext::sh -c touch% /tmp/x",
        "a @ git+https://host",
        "a @ git+https://-oProxyCommand=x/r",
        "./folder",
        "",
        "a" * 2000,
        "a; " + "(" * 900 + "python_version > '3'" + ")" * 900,
        "a; platform_release > 'x' or python_version > 'x'",
        "a >= " + "9" * 900,
        "a[" + ",".join("x" for _ in range(400)) + "]==x",
        "a\u202eb",
        "\uff41==1",
    ],
)
def test_what_is_no_plain_requirement_is_refused_or_harmless(tmp_path: Path, line: str) -> None:
    try:
        requirements = Requirements.of(depends(tmp_path, line), PYTHON)
    except RequirementsError:
        return
    for read in requirements.index:
        assert read.startswith("a") and read.isascii() and read.isprintable() and not set(read) & set(" \\#$;@'\"")
    assert not requirements.direct


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        "project = 3",
        "[project]\ndependencies = 'a'",
        "[project]\ndependencies = [1]",
        "[project]\nname = 3",
        '[project]\nname = "a\\nb"',
        "[project]\nrequires-python = 'nonsense'",
        "[project]\nrequires-python = 3",
        "[project]\ndynamic = ['dependencies']",
        "[project]\ndynamic = 'dependencies'",
        "[project]\noptional-dependencies = 3",
        f"[project]\ndependencies = {json.dumps(['a'] * 1001)}",
        "x = " + "[" * 5000,
        "x = " + "9" * 5000,
        "#" * (256 * 1024 + 1),
    ],
)
def test_a_project_file_that_is_not_plain_data_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(RequirementsError):
        Requirements.of(project(tmp_path, text), PYTHON)


def test_a_project_file_outside_the_tree_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    project(tmp_path, "[project]\nname = 'secret'\n")
    assert Requirements.of(tmp_path, PYTHON).name == "secret"
    (tmp_path / "tree" / "pyproject.toml").symlink_to(tmp_path / "pyproject.toml")
    with pytest.raises(RequirementsError):
        Requirements.of(tmp_path / "tree", PYTHON)


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.text(max_size=60) | st.from_regex(r"[a-z]{1,5}(\[[a-z]\])?[<>=~!]=[0-9.]{1,6}(;.{0,20})?")))
def test_any_text_is_read_or_refused_as_a_whole(tmp_path: Path, lines: list[str]) -> None:
    try:
        requirements = Requirements.of(depends(tmp_path, *lines), PYTHON)
    except SourceError as error:
        assert str(error).isprintable() or "\n" in str(error)
        return
    assert len(requirements.index) + len(requirements.direct) <= len(lines)
    assert all(line.isascii() and line.isprintable() and " " not in line for line in requirements.index)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"[project]\n" + content)
    try:
        Requirements.of(tmp_path, PYTHON)
    except SourceError:
        pass
