from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock_sources import BuiltinUri, FolderUri, GitUri, PackageUri, SourceUri, SourceUriError


@pytest.mark.parametrize(
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
    ],
)
def test_a_source_is_parsed_into_its_family(text: str, uri: SourceUri) -> None:
    assert SourceUri.parse(text) == uri


@pytest.mark.parametrize(
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
    ],
    ids=lambda text: ascii(text)[:30],
)
def test_what_is_no_source_is_refused(text: str) -> None:
    with pytest.raises(SourceUriError) as caught:
        SourceUri.parse(text)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", [None, 5, b"./x", {"type": "git"}])
def test_only_text_is_a_source(value: object) -> None:
    with pytest.raises(SourceUriError, match="not text"):
        SourceUri.parse(value)


def test_a_path_without_its_dot_is_told_about_the_dot() -> None:
    with pytest.raises(SourceUriError) as caught:
        SourceUri.parse("modules/tool-a")
    assert caught.value.hints[0] == "a folder beside the plan is written `./modules/tool-a`"


def test_a_relative_folder_is_anchored_once(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    anchored = SourceUri.parse("../x").anchored(base / "plans")
    assert anchored == FolderUri(str(base / "x"), base / "x")
    assert anchored.anchored(Path("/elsewhere")) is anchored
    assert SourceUri.parse(anchored.text) == anchored


@pytest.mark.parametrize("text", ["builtin:tool-a", "/abs", "git+https://h/o/r", "pkg"])
def test_other_sources_have_nothing_to_anchor(text: str) -> None:
    uri = SourceUri.parse(text)
    assert uri.anchored(Path("/base")) is uri


def test_a_subdirectory_is_part_of_the_folder_meant() -> None:
    uri = SourceUri.parse("file:///abs#subdirectory=x")
    assert isinstance(uri, FolderUri)
    assert uri.folder == Path("/abs/x")


URI_SOUP = st.lists(
    st.sampled_from(
        [
            "git+",
            "file://",
            "https://",
            "builtin:",
            "/",
            "./",
            "..",
            "@",
            "#",
            "subdirectory=",
            "%",
            "00",
            "a",
            "[",
            "]",
            ":",
            "?",
        ]
    ),
    max_size=12,
).map("".join)


@given(st.text(st.characters()) | URI_SOUP)
def test_any_text_is_a_source_or_refused(text: str) -> None:
    try:
        uri = SourceUri.parse(text)
    except SourceUriError as error:
        assert str(error).isprintable()
    else:
        assert uri.text == text


@given(URI_SOUP)
def test_no_parsed_subdirectory_leaves_its_source(text: str) -> None:
    try:
        uri = SourceUri.parse(text)
    except SourceUriError:
        return
    subdirectory = getattr(uri, "subdirectory", "")
    assert not subdirectory.startswith("/")
    assert ".." not in Path(subdirectory).parts
