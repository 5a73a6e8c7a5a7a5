"""The file tools: what they return, what they refuse, and that a refused or failed write changes nothing."""

from __future__ import annotations

import asyncio
import errno
import inspect
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amplifier_core.models import HookResult, ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_filesystem import mount, text_file

pytestmark = pytest.mark.anyio


class Desk:
    """The tools mounted for a working directory, and the events they emitted."""

    def __init__(self, coordinator: MockCoordinator, home: Path) -> None:
        self.coordinator = coordinator
        self.home = home
        self.events: list[tuple[str, dict[str, Any]]] = []
        for event in ("artifact:read", "artifact:write"):
            coordinator.hooks.register(event, self._record)

    async def _record(self, event: str, data: dict[str, Any]) -> HookResult:
        self.events.append((event, data))
        return HookResult()

    async def __call__(self, tool: str, **arguments: Any) -> ToolResult:
        result = await self.coordinator.get("tools")[tool].execute(arguments)
        assert isinstance(result, ToolResult)
        return result


async def desk(home: Path, config: dict[str, Any] | None = None) -> Desk:
    coordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(home))
    await mount(coordinator, config)
    return Desk(coordinator, home)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
async def use(home: Path) -> Desk:
    return await desk(home)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def failed(result: ToolResult, kind: str) -> str:
    assert not result.success
    assert result.error is not None
    assert result.error["type"] == kind
    return str(result.error["message"])


async def test_four_tools_are_mounted_with_schemas(home: Path) -> None:
    tools = (await desk(home)).coordinator.get("tools")
    assert sorted(tools) == ["edit_file", "list_directory", "read_file", "write_file"]
    for name, tool in tools.items():
        assert tool.name == name
        assert tool.description
        assert tool.input_schema["type"] == "object"
        assert set(tool.input_schema["required"]) <= set(tool.input_schema["properties"])
        assert inspect.iscoroutinefunction(tool.execute)


# --- read_file


async def test_reading_numbers_the_lines_and_emits_the_event(use: Desk, home: Path) -> None:
    (home / "a.txt").write_text("one\ntwo\n")
    result = await use("read_file", file_path="a.txt")

    assert result.output == {
        "file_path": str(home / "a.txt"),
        "content": "     1\tone\n     2\ttwo",
        "total_lines": 2,
        "lines_returned": 2,
    }
    ((event, data),) = use.events
    assert event == "artifact:read"
    assert (data["path"], data["bytes"], data["tool"]) == (str(home / "a.txt"), 8, "read_file")


async def test_offset_and_limit_read_a_part_and_say_where_to_go_on(use: Desk, home: Path) -> None:
    (home / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    middle = (await use("read_file", file_path="a.txt", offset=4, limit=3)).output
    rest = (await use("read_file", file_path="a.txt", offset=middle["next_offset"])).output

    assert middle["content"].split("\n") == ["     4\tline 4", "     5\tline 5", "     6\tline 6"]
    assert rest["content"].startswith("     7\tline 7")
    assert "next_offset" not in rest


async def test_a_line_past_the_end_is_an_error_that_tells_the_length(use: Desk, home: Path) -> None:
    (home / "a.txt").write_text("one\n")
    assert "has 1 lines" in failed(await use("read_file", file_path="a.txt", offset=2), "invalid_input")


@pytest.mark.parametrize(
    ("data", "content", "lines"),
    [
        (b"", "", 0),
        (b"\xef\xbb\xbfone\n", "     1\tone", 1),  # a byte order mark is not shown
        (b"one\r\ntwo\r\n", "     1\tone\n     2\ttwo", 2),
    ],
)
async def test_a_text_is_shown_without_what_no_reader_sees(
    use: Desk, home: Path, data: bytes, content: str, lines: int
) -> None:
    (home / "a.txt").write_bytes(data)
    output = (await use("read_file", file_path="a.txt")).output
    assert (output["content"], output["total_lines"]) == (content, lines)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00", "a PNG image (10 bytes)"),
        (b"\x7fELF\x02\x01\x00", "a compiled program"),
        (b"PK\x03\x04rest\xff", "a ZIP archive"),
        ("größe".encode("utf-16"), "UTF-16 text"),
        ("größe".encode("latin-1"), "an encoding other than UTF-8, such as Latin-1"),
        (b"plain\x00text", "binary data"),
    ],
)
@pytest.mark.parametrize("tool", ["read_file", "edit_file"])
async def test_a_file_that_is_no_text_is_named_and_left_alone(
    use: Desk, home: Path, data: bytes, said: str, tool: str
) -> None:
    (home / "thing").write_bytes(data)
    arguments = {"old_string": "e", "new_string": "x"} if tool == "edit_file" else {}
    assert said in failed(await use(tool, file_path="thing", **arguments), "not_text")
    assert (home / "thing").read_bytes() == data


async def test_endless_lines_and_long_outputs_are_cut(use: Desk, home: Path) -> None:
    (home / "wide.txt").write_text("x" * 5000)
    (home / "long.txt").write_text("y" * 1000 + "\n")
    with (home / "long.txt").open("a") as file:
        file.write(("y" * 1000 + "\n") * 999)
    wide = (await use("read_file", file_path="wide.txt")).output
    long = (await use("read_file", file_path="long.txt")).output

    assert wide["content"].endswith("[3000 more characters]")
    assert len(long["content"]) <= 400_000
    assert long["next_offset"] == long["lines_returned"] + 1 < 1000


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda path: None, "not_found"),
        (lambda path: path.mkdir(), "not_a_file"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), "not_text"),
        (lambda path: path.write_bytes(b"x" * 101), "too_large"),
        (lambda path: os.mkfifo(path), "not_a_file"),
    ],
    ids=["missing", "folder", "binary", "large", "pipe"],
)
async def test_what_cannot_be_read_is_explained(home: Path, make: Any, kind: str) -> None:
    make(home / "thing")
    use = await desk(home, {"max_read_bytes": 100})
    assert str(home / "thing") in failed(await use("read_file", file_path="thing"), kind)
    assert use.events == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "`file_path` is missing"),
        ({"file_path": 5}, "`file_path` must be of type string, not int"),
        ({"file_path": ""}, "`file_path` must not be empty"),
        ({"file_path": "a", "offset": 0}, "`offset` must be at least 1"),
        ({"file_path": "a", "limit": "5"}, "`limit` must be of type integer"),
        ({"file_path": "a", "limit": True}, "`limit` must be of type integer"),
    ],
)
async def test_wrong_input_is_explained(use: Desk, arguments: dict[str, Any], expected: str) -> None:
    assert expected in failed(await use("read_file", **arguments), "invalid_input")


async def test_input_that_is_no_object_is_explained(home: Path) -> None:
    tools = (await desk(home)).coordinator.get("tools")
    assert "must be an object" in failed(await tools["read_file"].execute("a.txt"), "invalid_input")


# --- where the tools may go


@pytest.mark.parametrize(
    "path", ["../secret.txt", "{outside}/secret.txt", "sub/../../secret.txt", "link.txt", "door/secret.txt"]
)
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {}),
        ("write_file", {"content": "mine"}),
        ("edit_file", {"old_string": "secret", "new_string": "mine"}),
    ],
)
async def test_nothing_outside_the_working_directory_is_touched(
    use: Desk, home: Path, path: str, tool: str, arguments: dict[str, Any]
) -> None:
    outside = home.parent
    secret = outside / "secret.txt"
    secret.write_text("secret")
    (home / "sub").mkdir()
    (home / "link.txt").symlink_to(secret)
    (home / "door").symlink_to(outside)
    result = await use(tool, file_path=path.format(outside=outside), **arguments)

    assert str(home) in failed(result, "not_allowed")
    assert result.error is not None and result.error["access"] == ("read" if tool == "read_file" else "write")
    assert secret.read_text() == "secret"
    assert use.events == []


@pytest.mark.parametrize("path", ["link", "../project-twin/new.txt"])
async def test_a_new_file_behind_a_link_or_in_a_folder_of_alike_name_is_refused(
    use: Desk, home: Path, path: str
) -> None:
    (home / "link").symlink_to(home.parent / "new.txt")
    (home.parent / "project-twin").mkdir()
    failed(await use("write_file", file_path=path, content="x"), "not_allowed")
    assert not list(home.parent.rglob("new.txt"))


async def test_a_link_inside_the_folder_is_followed_and_kept(use: Desk, home: Path) -> None:
    (home / "real.txt").write_text("old")
    (home / "link.txt").symlink_to("real.txt")

    assert (await use("write_file", file_path="link.txt", content="new")).success

    assert (home / "link.txt").is_symlink()
    assert (home / "real.txt").read_text() == "new"


async def test_reading_and_writing_are_allowed_separately(home: Path) -> None:
    (home / "out").mkdir()
    shared = home.parent / "shared"
    shared.mkdir()
    (shared / "a.txt").write_text("text")
    use = await desk(home, {"allowed_read_paths": [".", str(shared)], "allowed_write_paths": ["out"]})

    assert (await use("read_file", file_path=str(shared / "a.txt"))).success
    failed(await use("write_file", file_path=str(shared / "a.txt"), content=""), "not_allowed")
    failed(await use("write_file", file_path="b.txt", content=""), "not_allowed")
    assert (await use("write_file", file_path="out/b.txt", content="x")).success


async def test_what_the_host_grants_is_open_unless_a_setting_narrows_it(home: Path) -> None:
    shared = home.parent / "shared"
    shared.mkdir()
    (shared / "a.txt").write_text("text")
    use, narrow = await desk(home), await desk(home, {"allowed_read_paths": ["."]})
    for one in (use, narrow):
        granted = {"read": [str(shared)], "write": []}
        one.coordinator.register_capability("session.granted_paths", granted)

    assert (await use("read_file", file_path=str(shared / "a.txt"))).success
    failed(await use("write_file", file_path=str(shared / "a.txt"), content=""), "not_allowed")
    refused = failed(await narrow("read_file", file_path=str(shared / "a.txt")), "not_allowed")
    assert "by the setting `allowed_read_paths`" in refused


async def test_an_edit_needs_the_right_to_read_as_well(home: Path) -> None:
    (home / "a.txt").write_text("text")
    use = await desk(home, {"allowed_read_paths": []})
    failed(await use("edit_file", file_path="a.txt", old_string="t", new_string="u"), "not_allowed")


async def test_the_working_directory_may_change_during_a_session(use: Desk, home: Path) -> None:
    other = home.parent / "other"
    other.mkdir()
    (other / "a.txt").write_text("there")
    use.coordinator.register_capability("session.working_dir", str(other))
    assert "there" in (await use("read_file", file_path="a.txt")).output["content"]


async def test_without_the_capability_the_current_folder_is_meant(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    coordinator = MockCoordinator()
    await mount(coordinator)
    await coordinator.get("tools")["write_file"].execute({"file_path": "a.txt", "content": "x"})
    assert (home / "a.txt").read_text() == "x"


# --- write_file


async def test_writing_makes_folders_and_emits_the_event(use: Desk, home: Path) -> None:
    result = await use("write_file", file_path="new/deep/ä.txt", content="größe\n")

    assert result.output == {"file_path": str(home / "new/deep/ä.txt"), "bytes": 8}
    assert (home / "new/deep/ä.txt").read_bytes() == "größe\n".encode()
    ((event, data),) = use.events
    assert (event, data["bytes"]) == ("artifact:write", 8)


async def test_replacing_a_file_keeps_its_mode_and_leaves_nothing_else_behind(use: Desk, home: Path) -> None:
    script = home / "run.sh"
    script.write_text("old")
    script.chmod(0o750)

    await use("write_file", file_path="run.sh", content="new")

    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert names(home) == ["run.sh"]


async def test_a_new_file_gets_the_mode_the_umask_gives(use: Desk, home: Path) -> None:
    previous = os.umask(0o027)
    try:
        await use("write_file", file_path="a", content="")
    finally:
        os.umask(previous)
    assert stat.S_IMODE((home / "a").stat().st_mode) == 0o640


async def test_a_failed_write_leaves_the_old_file_and_no_other(
    use: Desk, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "a.txt").write_text("old")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(text_file.os, "replace", refuse)
    message = failed(await use("write_file", file_path="a.txt", content="new"), "io_error")

    assert "No space left on device" in message
    assert (home / "a.txt").read_text() == "old"
    assert names(home) == ["a.txt"]


async def test_a_file_that_cannot_be_replaced_is_written_in_place(
    use: Desk, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "a.txt").write_text("a longer old text")

    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(text_file.os, "replace", busy)
    assert (await use("write_file", file_path="a.txt", content="new")).success

    assert (home / "a.txt").read_text() == "new"
    assert names(home) == ["a.txt"]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"file_path": "big", "content": "é" * 51}, "too_large"),
        ({"file_path": "bad", "content": "\ud800"}, "not_text"),
        ({"file_path": "folder", "content": "x"}, "not_a_file"),
        ({"file_path": "file/below", "content": "x"}, "not_found"),
        ({"file_path": "nothing"}, "invalid_input"),
        ({"file_path": "a\0b", "content": "x"}, "invalid_path"),
        ({"file_path": "x" * 5000, "content": "x"}, "io_error"),
    ],
)
async def test_what_cannot_be_written_is_explained(home: Path, arguments: dict[str, Any], kind: str) -> None:
    (home / "folder").mkdir()
    (home / "file").touch()
    failed(await (await desk(home, {"max_write_bytes": 100}))("write_file", **arguments), kind)
    assert names(home) == ["file", "folder"]


# --- edit_file


async def test_a_unique_text_is_replaced(use: Desk, home: Path) -> None:
    (home / "a.py").write_text("x = 1\ny = 2\n")
    result = await use("edit_file", file_path="a.py", old_string="y = 2", new_string="y = 3")

    assert result.output == {"file_path": str(home / "a.py"), "replacements": 1, "bytes": 12}
    assert (home / "a.py").read_text() == "x = 1\ny = 3\n"
    assert [event for event, _ in use.events] == ["artifact:write"]


@pytest.mark.parametrize(
    ("text", "old", "said"),
    [
        ("a\nb\na\n", "a", ("occurs 2 times", "lines 1, 3")),
        ("aaa", "aa", ("occurs 2 times",)),
        ("z" * 100_000, "z", ("more than 10 times",)),
    ],
    ids=["twice", "overlapping", "often"],
)
async def test_an_ambiguous_text_is_refused_and_its_lines_are_named(
    use: Desk, home: Path, text: str, old: str, said: tuple[str, ...]
) -> None:
    (home / "a").write_text(text)
    message = failed(await use("edit_file", file_path="a", old_string=old, new_string="c"), "ambiguous")
    assert all(one in message for one in said)
    assert (home / "a").read_text() == text


async def test_replace_all_replaces_every_occurrence(use: Desk, home: Path) -> None:
    (home / "a").write_text("one two one")
    result = await use("edit_file", file_path="a", old_string="one", new_string="1", replace_all=True)
    assert result.output["replacements"] == 2
    assert (home / "a").read_text() == "1 two 1"


@pytest.mark.parametrize(
    ("old", "new", "kind"), [("absent", "x", "no_match"), ("same", "same", "invalid_input"), ("", "x", "invalid_input")]
)
async def test_an_edit_that_would_change_nothing_is_refused(
    use: Desk, home: Path, old: str, new: str, kind: str
) -> None:
    (home / "a").write_text("same")
    failed(await use("edit_file", file_path="a", old_string=old, new_string=new), kind)


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"one\r\ntwo\r\n", "two", "2\n3", b"one\r\n2\r\n3\r\n"),
        (b"one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2", b"1\r\n2\r\nthree\r\n"),
        (b"one\r\ntwo\r\n", "two", "2\r\n3", b"one\r\n2\r\n3\r\n"),
        (b"one\r\ntwo", "one\ntwo", "1\r\n2", b"1\r\n2"),
        (b"one\r\ntwo\n", "two\n", "2\n3\n", b"one\r\n2\n3\n"),
        (b"one\rtwo", "two", "2\n3", b"one\r2\n3"),
        (b"one\n", "one\n", "1", b"1"),
        (b"one", "one", "1", b"1"),
        (b"\xef\xbb\xbfone\r\n", "one", "1\n2", b"\xef\xbb\xbf1\r\n2\r\n"),
        ("e\u0301\u2028é\x0c\n".encode(), "é", "e", "e\u0301\u2028e\x0c\n".encode()),
    ],
)
async def test_an_edit_keeps_every_byte_it_is_not_about(
    use: Desk, home: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    (home / "a").write_bytes(before)
    assert (await use("edit_file", file_path="a", old_string=old, new_string=new)).success
    assert (home / "a").read_bytes() == after


def _rewrite(path: Path) -> None:
    path.write_text("mine!")  # as long as the text that was read


def _exchange(path: Path) -> None:
    path.with_name("other").write_text("mine!")
    path.with_name("other").rename(path)


def _exchange_for_a_link(path: Path) -> None:
    path.with_name("other").write_text("mine!")
    path.unlink()
    path.symlink_to("other")


@pytest.mark.parametrize("meddle", [_rewrite, _exchange, _exchange_for_a_link, Path.unlink])
@pytest.mark.parametrize("in_place", [False, True], ids=["replaced", "in place"])
async def test_a_file_that_is_changed_during_an_edit_is_left_as_it_is_then(
    use: Desk, home: Path, monkeypatch: pytest.MonkeyPatch, meddle: Callable[[Path], None], in_place: bool
) -> None:
    path = home / "a"
    path.write_text("text.")
    os.utime(path, (1, 1))
    read, make = text_file.read, os.open

    def read_and_meddle(*args: Any) -> Any:
        found = read(*args)
        meddle(path)
        return found

    def make_no_file(name: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & os.O_CREAT:
            meddle(path)
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return make(name, flags, *args, **options)

    if in_place:  # found out when no other file can be made
        monkeypatch.setattr(os, "open", make_no_file)
    else:
        monkeypatch.setattr(text_file, "read", read_and_meddle)
    result = await use("edit_file", file_path="a", old_string="text", new_string="new")

    assert "read it again" in failed(result, "changed")
    assert path.read_text() == "mine!" if meddle is not Path.unlink else not path.exists()
    assert set(names(home)) <= {"a", "other"}


async def test_edits_side_by_side_do_not_lose_each_other(use: Desk, home: Path) -> None:
    words = [f"<{number}>" for number in range(20)]
    (home / "a").write_text(" ".join(words))
    await asyncio.gather(*(use("edit_file", file_path="a", old_string=word, new_string=word[1:-1]) for word in words))

    assert (home / "a").read_text() == " ".join(word[1:-1] for word in words)


# --- configuration and packaging


@pytest.mark.parametrize(
    "config",
    [
        {"allowed_read_paths": "."},
        {"allowed_write_paths": [3]},
        {"max_read_bytes": 0},
        {"max_write_bytes": "1M"},
        {"denied_write_paths": ["secrets"]},
    ],
)
async def test_a_wrong_configuration_is_refused_at_mount(config: dict[str, Any]) -> None:
    coordinator = MockCoordinator()
    with pytest.raises(ValueError, match=next(iter(config))):
        await mount(coordinator, config)
    assert coordinator.get("tools") == {}


async def test_the_configuration_is_not_changed(home: Path) -> None:
    config = {"allowed_read_paths": ["."], "max_read_bytes": None}
    await desk(home, config)
    assert config == {"allowed_read_paths": ["."], "max_read_bytes": None}


async def test_a_failing_hook_registry_does_not_undo_the_work(home: Path) -> None:
    (home / "a").write_text("x")

    class Hooks:
        async def emit(self, *_: object) -> None:
            raise RuntimeError("the host is gone")

    class Coordinator:
        def __init__(self) -> None:
            self.hooks = Hooks()
            self.tools: dict[str, Any] = {}

        def get_capability(self, name: str) -> str:
            return str(home)

        async def mount(self, point: str, tool: Any, name: str) -> None:
            self.tools[name] = tool

    coordinator = Coordinator()
    await mount(coordinator)
    assert (await coordinator.tools["read_file"].execute({"file_path": "a"})).success
