"""Settings of sources say what they say with known words, or everything wrong with them is told."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock_sources.settings import IndexSettings, SettingsError, SourceSettings
from paddock_sources.uri import BuiltinUri, FolderUri, GitUri, PackageUri
from support.rows import each_row

FULL = """
workspace = "/home/me/modules"

[modules]
"tool-x" = "git+https://host/org/tool-x@v1"
"tool-y" = { type = "git", url = "https://host/org/many", subdirectory = "tool-y" }
tool-z = "/home/me/z"
hooks-a = "some-package==1.2"
loop-b = "builtin:loop-basic"

[index]
url = "https://pypi.example.org:8443/simple"
hosts = ["Files.example.org:8080", "files.example.org", "[::1]:80", "127.0.0.1:3141"]

[npm]
registry = "https://npm.example.org/all"
hosts = ["files.example.org"]
"""


def read(text: str) -> SourceSettings:
    return SourceSettings.of(tomllib.loads(text))


def problems_of(text: str) -> dict[tuple[str | int, ...], str]:
    with pytest.raises(SettingsError) as caught:
        read(text)
    return {one.path: f"{one.message} | {one.hint}" for one in caught.value.problems}


def test_settings_may_say_all_this() -> None:
    settings = read(FULL)
    assert settings.workspace == Path("/home/me/modules")
    assert {name: type(uri) for name, uri in settings.modules.items()} == {
        "tool-x": GitUri,
        "tool-y": GitUri,
        "tool-z": FolderUri,
        "hooks-a": PackageUri,
        "loop-b": BuiltinUri,
    }
    assert settings.modules["tool-y"].text == "git+https://host/org/many#subdirectory=tool-y"
    assert settings.index == IndexSettings(
        "https://pypi.example.org:8443/simple",
        ("files.example.org:8080", "files.example.org:443", "[::1]:80", "127.0.0.1:3141"),
    )
    assert settings.npm == IndexSettings("https://npm.example.org/all", ("files.example.org:443",))


def test_nothing_written_sets_nothing() -> None:
    assert read("") == SourceSettings()
    assert (SourceSettings().workspace, dict(SourceSettings().modules), SourceSettings().index.url) == (None, {}, "")


@each_row(
    ("text", "path", "said"),
    [
        ("workspce = '/a'", ("workspce",), "unknown key `workspce` | did you mean `workspace`?"),
        ("[module]", ("module",), "did you mean `modules`?"),
        ("something = 1", ("something",), "known here: workspace, constraints, modules, mirrors"),
        ("[index]\nurls = 'x'", ("index", "urls"), "did you mean `url`?"),
        ("workspace = 'modules'", ("workspace",), "`modules` is not an absolute folder | write the whole path"),
        ("workspace = '~/modules'", ("workspace",), "is not an absolute folder"),
        ("workspace = ['/a']", ("workspace",), "must be text, is a list"),
        ("workspace = ''", ("workspace",), "is empty"),
        ('workspace = "/a\\u0000b"', ("workspace",), "NUL"),
        ("constraints = 'mcp<2'", ("constraints",), "must be a list, is text"),
        ("constraints = ['mcp<2', 'mcp @ https://x']", ("constraints", 1), "names no source"),
        ("modules = ['a']", ("modules",), "must be a table, is a list"),
        ("mirrors = '/a/'", ("mirrors",), "must be a table, is text"),
        ("[mirrors]\n'https://host' = '/a/'", ("mirrors", "https://host"), "does not end at a slash"),
        ("[mirrors]\n'host/' = '/a/'", ("mirrors", "host/"), "`https://github.com/`"),
        ("[mirrors]\n'https://host/' = './a/'", ("mirrors", "https://host/"), "`./a/`"),
        ("[mirrors]\n'https://host/' = 'https://ann:x@m/'", ("mirrors", "https://host/"), "credentials do not belong"),
        ("[bundles]\nours = './bundle.md'", ("bundles", "ours"), "is not an absolute folder"),
        ("[bundles]\n'a/b' = '/bundle.md'", ("bundles", "a/b"), "is no word for a bundle"),
        ("[bundles]\nours = 'tool-bash'", ("bundles", "ours"), "is no address of a bundle"),
        ("index = 'https://x'", ("index",), "must be a table, is text"),
        ("[modules]\n'../x' = '/a'", ("modules", "../x"), "has a character that no id may have"),
        ("[modules]\ntool-x = './a'", ("modules", "tool-x"), "`./a` is not an absolute folder"),
        ("[modules]\ntool-x = '~/a'", ("modules", "tool-x"), "`~` is not expanded"),
        ("[modules]\ntool-x = 'git+svn://h/x'", ("modules", "tool-x"), "is not a module source"),
        ("[modules]\ntool-x = 7", ("modules", "tool-x"), "it is int, not text"),
        ("[modules]\ntool-x = {type = 'git'}", ("modules", "tool-x"), "it has no `url`"),
        ("[modules]\ntool-x = {type = 'file', path = 'a'}", ("modules", "tool-x"), "is not an absolute folder"),
        ("[index]\nurl = 'pypi.org'", ("index", "url"), "is not the address of an index"),
        ("[index]\nurl = 'ftp://pypi.org/simple'", ("index", "url"), "is not the address of an index"),
        ("[index]\nurl = 'file:///srv/index'", ("index", "url"), "is not the address of an index"),
        ("[index]\nurl = 'https://h:99999/x'", ("index", "url"), "is not an address"),
        ("[index]\nurl = 'https://h:0/x'", ("index", "url"), "is not the address of an index"),
        ("[index]\nurl = 'https://h/x?y'", ("index", "url"), "query"),
        ("[index]\nurl = 'https://h/x y'", ("index", "url"), "space"),
        ("[index]\nurl = 'https://-oh/x'", ("index", "url"), "is not a host"),
        ("[index]\nhosts = 'h'", ("index", "hosts"), "must be a list, is text"),
        ("[index]\nhosts = ['h', 7]", ("index", "hosts", 1), "must be text, is a number"),
        ("[index]\nhosts = ['*.example.org']", ("index", "hosts", 0), "is not a host"),
        ("[index]\nhosts = ['https://h']", ("index", "hosts", 0), "is not a host"),
        ("[index]\nhosts = ['h:0']", ("index", "hosts", 0), "has no such port"),
        ("[index]\nhosts = ['h:70000']", ("index", "hosts", 0), "has no such port"),
        ("[index]\nhosts = ['::1']", ("index", "hosts", 0), "is not a host"),
        ("[index]\nhosts = ['[1.2.3.4]:80']", ("index", "hosts", 0), "is not a host"),
        ("[index]\nhosts = ['a\\nb']", ("index", "hosts", 0), "is not a host"),
        ("[npm]\nurl = 'https://h'", ("npm", "url"), "known here: registry, hosts"),
        ("[npm]\nregistry = 'h'", ("npm", "registry"), "is not the address of an index"),
        (
            "[npm]\nregistry = 'https://a:b@h'",
            ("npm", "registry"),
            "a registry that asks for a password cannot be used",
        ),
        ("[npm]\nhosts = ['*']", ("npm", "hosts", 0), "is not a host"),
    ],
)
def test_what_is_not_understood_is_told_at_its_place(text: str, path: tuple[str | int, ...], said: str) -> None:
    problems = problems_of(text)
    assert list(problems) == [path]
    assert said in problems[path]


def test_everything_wrong_is_told_at_once() -> None:
    problems = problems_of("workspace = 'a'\n[modules]\nx = './a'\ny = 1\n[index]\nurl = 'h'\nhosts = ['*']\nmore = 1")
    assert set(problems) == {
        ("workspace",),
        ("modules", "x"),
        ("modules", "y"),
        ("index", "url"),
        ("index", "hosts", 0),
        ("index", "more"),
    }


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(SettingsError) as caught:
        read("[index]\nurl = 'https://me:hunter2@h/simple'\n[modules]\nx = 'git+https://me:hunter2@h'")
    assert len(caught.value.problems) == 2
    assert "hunter2" not in str(caught.value) + " ".join(caught.value.hints)
    assert not any("hunter2" in one.message + one.hint for one in caught.value.problems)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_TABLES = st.dictionaries(st.sampled_from(["workspace", "modules", "index", "url", "x"]), _VALUES, max_size=4)


@given(_TABLES | st.fixed_dictionaries({"index": st.dictionaries(st.sampled_from(["url", "hosts"]), _VALUES)}))
def test_settings_of_any_shape_are_read_or_refused(written: dict[str, object]) -> None:
    try:
        assert isinstance(SourceSettings.of(written), SourceSettings)
    except SettingsError as error:
        assert error.problems and all(line.isprintable() for line in str(error).splitlines())
