from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock_sources import BuiltinUri, FolderUri, GitUri, PackageUri, SourceUri, SourceUriError, parse_source
from paddock_sources.errors import without_credentials
from support.rows import each_row


@each_row(
    ("text", "uri"),
    [
        ("builtin:tool-bash", BuiltinUri("builtin:tool-bash", "tool-bash")),
        ("/abs/tool", FolderUri("/abs/tool", Path("/abs/tool"))),
        ("/odd #name%20", FolderUri("/odd #name%20", Path("/odd #name%20"))),
        ("./rel", FolderUri("./rel", Path("rel"))),
        ("../rel", FolderUri("../rel", Path("../rel"))),
        (".", FolderUri(".", Path("."))),
        ("..", FolderUri("..", Path(".."))),
        ("file:///abs/a%20b", FolderUri("file:///abs/a%20b", Path("/abs/a b"))),
        ("file://localhost/abs", FolderUri("file://localhost/abs", Path("/abs"))),
        ("file:///abs#subdirectory=x/y", FolderUri("file:///abs#subdirectory=x/y", Path("/abs"), "x/y")),
        ("git+https://host/org/repo", GitUri("git+https://host/org/repo", "https://host/org/repo")),
        ("git+https://host/o/r@v1.2", GitUri("git+https://host/o/r@v1.2", "https://host/o/r", "v1.2")),
        ("git+https://host/o/r@feature/x", GitUri("git+https://host/o/r@feature/x", "https://host/o/r", "feature/x")),
        ("git+ssh://git@host/o/r@main", GitUri("git+ssh://git@host/o/r@main", "ssh://git@host/o/r", "main")),
        ("git+ssh://git@host/o/r", GitUri("git+ssh://git@host/o/r", "ssh://git@host/o/r")),
        ("git+file:///repos/r", GitUri("git+file:///repos/r", "file:///repos/r")),
        (
            "git+https://host/o/r@v1#subdirectory=modules/a",
            GitUri("git+https://host/o/r@v1#subdirectory=modules/a", "https://host/o/r", "v1", "modules/a"),
        ),
        ("some-package", PackageUri("some-package", "some-package")),
        ("some-package==1.2.3", PackageUri("some-package==1.2.3", "some-package", "1.2.3")),
        ("a==1!2.0rc1+local.1", PackageUri("a==1!2.0rc1+local.1", "a", "1!2.0rc1+local.1")),
        ("git+https://h/o/r@a%40b", GitUri("git+https://h/o/r@a%40b", "https://h/o/r", "a@b")),
        ("git+https://h/%40o/r@v1", GitUri("git+https://h/%40o/r@v1", "https://h/%40o/r", "v1")),
        ("git+https://h:8443/o/r@v1", GitUri("git+https://h:8443/o/r@v1", "https://h:8443/o/r", "v1")),
        ("git+https://[::1]:8443/r", GitUri("git+https://[::1]:8443/r", "https://[::1]:8443/r")),
        ("git+https://h/r@refs/tags/v1", GitUri("git+https://h/r@refs/tags/v1", "https://h/r", "refs/tags/v1")),
        (
            "git+file:///r@main#subdirectory=./a//b/",
            GitUri("git+file:///r@main#subdirectory=./a//b/", "file:///r", "main", "a/b"),
        ),
        ("git+https://h/r#subdirectory=a%20b", GitUri("git+https://h/r#subdirectory=a%20b", "https://h/r", "", "a b")),
        ("git+https://h/r#subdirectory=.", GitUri("git+https://h/r#subdirectory=.", "https://h/r")),
    ],
)
def test_a_source_is_parsed_into_its_family(text: str, uri: SourceUri) -> None:
    assert parse_source(text) == uri


@each_row(
    "text",
    [
        "",
        "  ",
        " ./x",
        "./x\n",
        "./x\x00",
        "./\u202ex",
        "~/x",
        "builtin:",
        "builtin:../x",
        "builtin:a b",
        "file:rel",
        "file:/abs",
        "file://host/abs",
        "file:///a?b",
        "file:///a%00b",
        "file:///abs#egg=x",
        "file:///abs#subdirectory=",
        "file:///abs#subdirectory=../x",
        "file:///abs#subdirectory=/x",
        "file://[bad/abs",
        "git+https://",
        "git+https://host",
        "git+https://host/@v1",
        "git+ftp://host/x",
        "git+./x",
        "git+https://[bad/x",
        "git+https://host/o/r#subdirectory=a/../../b",
        "https://host/archive.zip",
        "zip+file:///x.zip",
        "modules/tool-a",
        "C:\\modules",
        "-package",
        "x" * 5000,
        "ext::sh -c touch% x",
        "git+ext::sh",
        "git+ext://sh/x",
        "git+git://host/o/r",
        "git@host.example:o/r",
        "host.example:o/r",
        "--upload-pack=touch",
        "git+--upload-pack=x",
        "git+https://-oProxyCommand=x/r",
        "git+ssh://-oProxyCommand=x/r",
        "git+ssh://-oProxyCommand=x@host/r",
        "git+ssh://@host/r",
        "git+https:///r",
        "git+https:host/r",
        "git+file:/r",
        "git+file:r",
        "git+file://host/r",
        "git+file://host@/r",
        "git+https://a@b@host/r",
        "git+https://ho%73t/r",
        "git+https://ho st/r",
        "git+https://h\u0131st/r",
        "git+https://host\\@other/r",
        "git+https://host/o\\r",
        "git+https://host:/r",
        "git+https://host:0/r",
        "git+https://host:65536/r",
        "git+https://host:1x/r",
        "git+https://host:-1/r",
        "git+https://host:\u0661/r",
        "git+https://[::1/r",
        "git+https://host/r\n@v1",
        "git+https://host/o@v1/r@v2",
        "git+https://host/r@",
        "git+https://host/r@%ff",
        "git+https://host/r#egg=x",
        "git+https://host/r#subdirectory=a&egg=b",
        "git+https://host/r#subdirectory=%2e%2e/x",
        "git+https://host/r#subdirectory=%2fx",
        "git+https://host/r#subdirectory=a%5c..%5cb",
        "git+https://host/r#subdirectory=a%0ab",
        "git+https://host/r#subdirectory=%ff",
        "name==",
        "name==1.*",
        "name==-1",
        "name===1",
        "name>=1",
        "name~=1",
        "name[extra]==1",
        "name==1 ",
        "name==" + "1" * 200,
        "==1",
    ],
    ids=lambda text: ascii(text)[:30],
)
def test_what_is_no_source_is_refused(text: str) -> None:
    with pytest.raises(SourceUriError) as caught:
        parse_source(text)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@each_row(
    "ref",
    [
        "-x", "--upload-pack=x", "..", "a..b", "/a", "a/", "a//b", ".a", "a/.b", "a.", "a.lock", "a.lock/b", "@",
        "a@{1}", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[b", "a\\b", "a\x00", "a\n", "a\x7f", "a\u202eb", "x" * 256,
        "\u00e9" * 128,
    ],
    ids=lambda ref: ascii(ref)[:20],
)  # fmt: skip
def test_a_ref_that_git_would_refuse_or_misread_is_refused(ref: str) -> None:
    with pytest.raises(SourceUriError):
        parse_source("git+https://host/r@" + quote(ref, safe=""))
    with pytest.raises(SourceUriError):
        parse_source({"type": "git", "url": "https://host/r", "ref": ref})


@each_row("ref", ["v1", "a/b", "a.b", "a-b", "@a", "a@b", "a%b", "#1", "lock", "\u00e9", "a+b", "x" * 255])
def test_other_refs_are_taken_as_they_are(ref: str) -> None:
    uri = parse_source({"type": "git", "url": "https://host/r", "ref": ref})
    assert isinstance(uri, GitUri)
    assert (uri.url, uri.ref) == ("https://host/r", ref)
    assert parse_source(uri.text) == uri


@each_row("value", [None, 5, b"./x", ["git"]])
def test_only_text_or_a_table_is_a_source(value: object) -> None:
    with pytest.raises(SourceUriError, match="not text"):
        parse_source(value)


@each_row(
    ("table", "text"),
    [
        ({"type": "git", "url": "https://h/o/r"}, "git+https://h/o/r"),
        ({"type": "git", "url": "git+https://h/o/r", "ref": "v1"}, "git+https://h/o/r@v1"),
        ({"type": "git", "url": "https://h/o/r", "ref": "v1", "subdirectory": "a b"}, "git+https://h/o/r@v1#subdirectory=a%20b"),
        ({"type": "git", "url": "https://h/o/r", "ref": None, "subdirectory": ""}, "git+https://h/o/r"),
        ({"type": "git", "url": "ssh://git@h/o/r", "ref": "@s/p@1"}, "git+ssh://git@h/o/r@%40s/p%401"),
        ({"type": "git", "url": "https://h/@s/r"}, "git+https://h/%40s/r"),
        ({"type": "git", "url": "file:///srv/r", "ref": "a#b?c".replace("?", "")}, "git+file:///srv/r@a%23bc"),
        ({"type": "file", "path": "/abs"}, "/abs"),
        ({"type": "file", "path": "./a"}, "./a"),
        ({"type": "file", "path": "a"}, "./a"),
        ({"type": "file", "path": "../a", "subdirectory": "b"}, "../a/b"),
        ({"type": "package", "name": "a"}, "a"),
        ({"type": "package", "name": "a", "version": "1.0"}, "a==1.0"),
    ],
)  # fmt: skip
def test_a_table_is_the_text_that_says_the_same(table: dict[str, object], text: str) -> None:
    uri = parse_source(table)
    assert uri.text == text
    assert uri == parse_source(text)


@each_row(
    ("table", "problem"),
    [
        ({}, "its `type` is none of"),
        ({"type": "svn", "url": "x"}, "its `type` is none of"),
        ({"type": ["git"]}, "its `type` is none of"),
        ({"type": "git"}, "it has no `url`"),
        ({"type": "git", "url": 5}, "is int, not text"),
        ({"type": "git", "url": " https://h/r"}, "surrounding space"),
        ({"type": "git", "url": "https://h/r\n"}, "surrounding space"),
        ({"type": "git", "url": "https://h/r", "branch": "x"}, "has no `branch`"),
        ({"type": "git", "url": "https://h/r", 5: "x"}, "has no `5`"),
        ({"type": "git", "url": "https://h/r@v1"}, "ends with an `@"),
        ({"type": "git", "url": "https://h/r#subdirectory=x"}, "a query or a fragment"),
        ({"type": "git", "url": "https://h/r?x"}, "a query or a fragment"),
        ({"type": "git", "url": "git@h:o/r"}, "has no scheme"),
        ({"type": "git", "url": "ext::sh"}, "has no scheme"),
        ({"type": "git", "url": "https://[h/r"}, "malformed"),
        ({"type": "git", "url": "--upload-pack=x://h/r"}, "is not a module source"),
        ({"type": "git", "url": "https://h/r", "subdirectory": "../x"}, "inside the source"),
        ({"type": "git", "url": "https://h/r", "ref": 1.0}, "is float, not text"),
        ({"type": "file", "path": "~/x"}, "not plain"),
        ({"type": "file", "path": "file:///x"}, "not plain"),
        ({"type": "file", "path": "/x", "subdirectory": "../y"}, "inside the source"),
        ({"type": "package", "name": "a", "version": ">=1"}, "is not a module source"),
        ({"type": "package", "name": "a==1"}, "names no package"),
        ({"type": "package", "name": "./a"}, "names no package"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_table_with_anything_else_in_it_is_refused(table: dict[object, object], problem: str) -> None:
    with pytest.raises(SourceUriError) as caught:
        parse_source(table)
    assert problem in str(caught.value)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 500


@each_row(
    "source",
    [
        "git+https://user:hunter2@host/r@..",
        "git+https://hunter2@host:0/r",
        "user:hunter2@host.example:o/r",
        {"type": "git", "url": "https://user:hunter2@host/r", "rev": "x"},
    ],
)
def test_a_password_is_not_repeated_by_what_refuses_it(source: object) -> None:
    with pytest.raises(SourceUriError) as caught:
        parse_source(source)
    assert "hunter2" not in str(caught.value) + "".join(caught.value.hints)


def test_a_path_without_its_dot_is_told_about_the_dot() -> None:
    with pytest.raises(SourceUriError) as caught:
        parse_source("modules/tool-a")
    assert caught.value.hints[0] == "a folder beside the plan is written `./modules/tool-a`"


def test_a_relative_folder_is_anchored_once(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    anchored = parse_source("../x").anchored(base / "plans")
    assert anchored == FolderUri(str(base / "x"), base / "x")
    assert anchored.anchored(Path("/elsewhere")) is anchored
    assert parse_source(anchored.text) == anchored


@each_row("text", ["builtin:tool-a", "/abs", "git+https://h/o/r", "pkg"])
def test_other_sources_have_nothing_to_anchor(text: str) -> None:
    uri = parse_source(text)
    assert uri.anchored(Path("/base")) is uri


def test_a_subdirectory_is_part_of_the_folder_meant() -> None:
    uri = parse_source("file:///abs#subdirectory=x")
    assert isinstance(uri, FolderUri)
    assert uri.folder == Path("/abs/x")


def test_at_a_commit_a_folder_is_written_so_that_it_is_read_again() -> None:
    uri, commit = parse_source("git+https://host.example/repository@main#subdirectory=50%2525%20off/a%23b"), "1" * 40
    assert isinstance(uri, GitUri) and uri.subdirectory == "50%25 off/a#b"
    assert parse_source(uri.at_commit(commit)) == replace(uri, text=uri.at_commit(commit), ref=commit)


@each_row(
    ("text", "shown"),
    [
        ("git+https://user:hunter2@host/r@v1", "git+https://host/r@v1"),
        ("git+https://hunter2@host/r", "git+https://host/r"),
        ("git+https://user:hun/ter2@host/r", "git+https://host/r"),
        ("git+https://user:hun?ter#2@host/r", "git+https://host/r"),
        ("git+https://user:8080hunter2@host/r", "git+https://host/r"),
        ("two: https://a:b@host/x and https://c@host/y", "two: https://host/x and https://host/y"),
        ("git+https://host/r@v1", "git+https://host/r@v1"),
        ("git+https://host:8443/r@v1", "git+https://host:8443/r@v1"),
        ("git+https://[::1]:8443/r@v1", "git+https://[::1]:8443/r@v1"),
        ("git+ssh://git@host/r@v1", "git+ssh://host/r@v1"),
    ],
)
def test_credentials_are_never_shown(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


_PIECES = "git+ file:// https:// builtin: / ./ .. @ # subdirectory= % 00 a [ ] : ?".split()
URI_SOUP = st.lists(st.sampled_from(_PIECES), max_size=12).map("".join)


@given(st.text(st.characters()) | URI_SOUP)
def test_any_text_is_a_source_or_refused(text: str) -> None:
    try:
        uri = parse_source(text)
    except SourceUriError as error:
        assert str(error).isprintable()
    else:
        assert uri.text == text


@given(URI_SOUP)
def test_no_parsed_subdirectory_leaves_its_source(text: str) -> None:
    try:
        uri = parse_source(text)
    except SourceUriError:
        return
    subdirectory = getattr(uri, "subdirectory", "")
    assert not subdirectory.startswith("/")
    assert ".." not in Path(subdirectory).parts
