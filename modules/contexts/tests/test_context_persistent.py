"""The context in a file: what outlasts a session or a crash, what is refused, and that nothing is there twice."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from amplifier_core.message_models import TextBlock
from amplifier_core.testing import MockCoordinator
from amplifier_module_context_persistent import ConversationFileError, PersistentContextManager, mount
from amplifier_module_context_persistent import conversation_file as module
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.anyio

Message = dict[str, Any]
_ROOT = Path(__file__).parents[1]
_HEADER = b'{"format":"amplifier-conversation","version":1}\n'


def user(text: str) -> Message:
    return {"role": "user", "content": text}


_REPLY: Message = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm ü \ud800", "signature": "sig_abc"},
        {"type": "tool_call", "id": "call_1", "name": "search", "input": {"q": [1.5, None, True, {"deep": []}]}},
    ],
}
_ANSWER: Message = {
    "role": "function",
    "tool_call_id": "call_1",
    "content": [{"type": "tool_result", "tool_call_id": "call_1", "output": "x\u2028y\n"}],
}
_TALK = [{"role": "system", "content": "rules"}, user("hello"), _REPLY, _ANSWER, user("more")]


class Opened:
    """Sessions one after the other on one file."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.path = folder / "talk.jsonl"
        self.config = {"path": str(self.path), **config}

    async def __aenter__(self) -> PersistentContextManager:
        coordinator = MockCoordinator()
        self.close = await mount(coordinator, self.config)
        context = coordinator.get("context")
        assert isinstance(context, PersistentContextManager)
        return context

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def kept(self) -> list[Any]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]


@pytest.fixture
def talk(tmp_path: Path) -> Opened:
    return Opened(tmp_path)


# --- what is kept


async def test_another_session_goes_on_with_exactly_what_was_said(talk: Opened) -> None:
    async with talk as context:
        for message in _TALK:
            await context.add_message(message)
        assert await context.get_messages() == _TALK
    async with talk as context:
        assert await context.get_messages() == _TALK
        await context.add_message(user("later"))
    async with talk as context:
        assert await context.get_messages() == [*_TALK, user("later")]
        view = await context.get_messages_for_request()
        assert view == [*_TALK, user("later")]


async def test_the_file_is_a_header_and_a_line_for_each_change(talk: Opened) -> None:
    async with talk as context:
        await context.set_messages([user("a")])
        await context.add_message(user("b"))
        await context.clear()
        await context.add_message(user("c"))
    assert talk.kept() == [
        {"format": "amplifier-conversation", "version": 1},
        {"set": [user("a")]},
        {"add": user("b")},
        {"clear": True},
        {"add": user("c")},
    ]
    async with talk as context:
        assert await context.get_messages() == [user("c")]


async def test_models_and_tuples_are_the_same_before_and_after(talk: Opened) -> None:
    said = {"role": "assistant", "content": [TextBlock(text="hi")], "extra": (1, 2)}
    async with talk as context:
        await context.add_message(said)
        before = await context.get_messages()
    assert before[0]["content"][0]["text"] == "hi"
    assert before[0]["extra"] == [1, 2]
    async with talk as context:
        assert await context.get_messages() == before


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"role": "user", "content": [{"data": b"x"}]}, r"message\.content\[0\]\.data is of type bytes"),
        ({"role": "user", "content": {1: "x"}}, r"message\.content has the key 1"),
        ({"content": "x"}, "`role`"),
        ("text", "`role`"),
    ],
)
async def test_what_cannot_be_kept_is_refused_and_nothing_is_stored(talk: Opened, message: Any, said: str) -> None:
    async with talk as context:
        with pytest.raises(ValueError, match=said):
            await context.add_message(message)
        with pytest.raises(ValueError, match=said):
            await context.set_messages([user("a"), message])
        assert await context.get_messages() == []
    assert len(talk.kept()) == 1


# --- nothing is there twice


async def test_what_an_application_replays_is_ignored_after_loading(
    talk: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    async with talk as context:
        await context.set_messages([user("fresh")])
        await context.set_messages(_TALK)
        assert await context.get_messages() == _TALK
    before = talk.path.read_bytes()
    with caplog.at_level(logging.INFO):
        async with talk as context:
            await context.set_messages([user("a filtered part")])
            assert await context.get_messages() == _TALK
    assert "was ignored" in caplog.text
    assert talk.path.read_bytes() == before


async def test_a_context_that_was_cleared_takes_another_conversation(talk: Opened) -> None:
    async with talk as context:
        await context.add_message(user("a"))
    async with talk as context:
        await context.clear()
        await context.set_messages([user("b")])
        assert await context.get_messages() == [user("b")]


# --- files that are cut, damaged, newer, another's


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(part=st.floats(0, 1))
async def test_a_file_cut_anywhere_has_the_whole_lines_before(
    talk: Opened, part: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if not talk.path.exists():
        async with talk as context:
            for message in _TALK:
                await context.add_message(message)
    content = talk.path.read_bytes()
    cut = Opened(tmp_path_factory.mktemp("cut"))
    cut.path.write_bytes(content[: int(part * len(content))])
    tail = cut.path.read_bytes().rpartition(b"\n")[2]
    whole = max(0, cut.path.read_bytes().count(b"\n") - 1)

    async with cut as context:
        assert await context.get_messages() == _TALK[:whole]
        await context.add_message(user("on"))
    async with cut as context:
        assert await context.get_messages() == [*_TALK[:whole], user("on")]

    aside = [path.read_bytes() for path in cut.path.parent.glob("*.torn-*")]
    has_header = int(part * len(content)) >= len(_HEADER)
    assert aside == ([tail] if tail and has_header else [])


async def test_a_torn_tail_is_put_aside_and_reported(talk: Opened, caplog: pytest.LogCaptureFixture) -> None:
    for number in (1, 2):
        async with talk as context:
            await context.add_message(user("a"))
        with talk.path.open("ab") as file:
            file.write(b'{"add":{"role":"user","con\n\0\0\0\n{"tor')
        async with talk as context:
            assert await context.get_messages() == [user("a")] * number
        assert (talk.path.parent / f"talk.jsonl.torn-{number}").read_bytes().endswith(b'\n{"tor')
        assert f"talk.jsonl.torn-{number}" in caplog.text
        assert "were cut off, as by a crash" in caplog.text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"format":"amplifier-conversation","version":2}\n{"new":1}\n', "is of version 2, and this module knows 1"),
        (b'{"format":"amplifier-conversation","version":"1"}\n', "is no conversation"),
        (b"# notes\n", "is no conversation"),
        (b"\xff\xfe", "is no conversation"),
        (b"[" * 5000, "is no conversation"),
        (_HEADER + b'{"ad\n{"add":{"role":"user"}}\n', "is damaged in line 2, and whole lines follow"),
        (_HEADER + b'{"add":5}\n{"clear":true}\n', "is damaged in line 2"),
    ],
)
async def test_a_file_that_cannot_be_understood_is_refused_untouched(talk: Opened, content: bytes, said: str) -> None:
    talk.path.write_bytes(content)
    with pytest.raises(ConversationFileError, match=said):
        await talk.__aenter__()
    assert talk.path.read_bytes() == content
    assert [path.name for path in talk.path.parent.iterdir()] == ["talk.jsonl"]


async def test_two_sessions_cannot_have_one_file(talk: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOCK_SECONDS", 0.05)
    async with talk as context:
        await context.add_message(user("a"))
        with pytest.raises(ConversationFileError, match="is open in another session; end that one, or give this one"):
            await Opened(talk.path.parent).__aenter__()
        await context.add_message(user("b"))
    async with talk as context:
        assert await context.get_messages() == [user("a"), user("b")]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
async def test_what_is_no_file_is_refused(talk: Opened, make: Any) -> None:
    make(talk.path)
    with pytest.raises(ConversationFileError, match="name another `path`"):
        await talk.__aenter__()


# --- a disk that refuses


class _FullDisk:
    """Takes so many bytes, and then no more until there is room again."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, descriptor: int, content: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = min(self.room, len(content))
        self.room -= taken
        return _WRITE(descriptor, content[:taken])


_WRITE = os.write


async def test_a_message_the_disk_refuses_is_not_stored_and_the_rest_goes_on(
    talk: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talk as context:
        await context.add_message(user("a"))
        disk = _FullDisk(10)
        with monkeypatch.context() as patch:
            patch.setattr(module.os, "write", disk.write)
            with pytest.raises(ConversationFileError, match="No space left on device; the message was not stored"):
                await context.add_message(user("b"))
            with pytest.raises(ConversationFileError, match="No space left"):
                await context.set_messages([user("b")])
            with pytest.raises(ConversationFileError, match="No space left"):
                await context.clear()
        assert await context.get_messages() == [user("a")]
        await context.add_message(user("c"))
    assert talk.kept()[1:] == [{"add": user("a")}, {"add": user("c")}]


async def test_a_torn_line_that_could_not_be_taken_back_goes_before_the_next(
    talk: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, length: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async with talk as context:
        with monkeypatch.context() as patch:
            patch.setattr(module.os, "write", _FullDisk(10).write)
            patch.setattr(module.os, "ftruncate", refuse)
            with pytest.raises(ConversationFileError, match="No space left"):
                await context.add_message(user("a"))
        await context.add_message(user("b"))
    assert talk.kept()[1:] == [{"add": user("b")}]


@pytest.mark.parametrize(("fsync", "times"), [("always", 3), ("close", 0)])
async def test_the_setting_says_when_messages_are_brought_to_the_disk(
    tmp_path: Path, fsync: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Opened(tmp_path, fsync=fsync)
    synced: list[int] = []
    async with talk as context:
        with monkeypatch.context() as patch:
            patch.setattr(module.os, "fsync", synced.append)
            for _ in range(3):
                await context.add_message(user("a"))
            assert len(synced) == times
            talk.close()
        assert len(synced) == times + 1


async def test_a_closed_file_takes_nothing_and_is_still_shown(talk: Opened) -> None:
    async with talk as context:
        await context.add_message(user("a"))
    talk.close()
    with pytest.raises(ConversationFileError, match="is closed, as the session has ended"):
        await context.add_message(user("b"))
    assert await context.get_messages() == [user("a")]


# --- which file


class _Session(MockCoordinator):
    def __new__(cls, *ids: str | None) -> _Session:
        return super().__new__(cls)  # the published class is no Python class, and takes no arguments

    def __init__(self, session_id: str, parent_id: str | None = None) -> None:
        super().__init__()
        self._ids = (session_id, parent_id)

    @property
    def session_id(self) -> str:
        return self._ids[0]

    @property
    def parent_id(self) -> str | None:
        return self._ids[1]


def _files_below(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the mode of each file and of its folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode))
        for path in files
    }


@pytest.mark.parametrize(
    ("session", "config", "expected"),
    [
        (("s-1",), {}, "home/.amplifier/conversations/s-1.jsonl"),
        (("s-1", "s-0"), {}, "home/.amplifier/conversations/s-1.jsonl"),
        (("../x",), {}, "home/.amplifier/conversations/___x-d6b96a97.jsonl"),
        (("s-1",), {"path": "a/talk.jsonl"}, "work/a/talk.jsonl"),
        (("s-1", "s-0"), {"path": "a/talk.jsonl"}, "work/a/talk.s-1.jsonl"),
        (("s-1", "s-0"), {"path": "a/{session_id}"}, "work/a/s-1"),
    ],
)
async def test_a_session_has_a_file_of_its_own(
    session: tuple[str, ...], config: dict[str, Any], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    coordinator = _Session(*session)
    coordinator.register_capability("session.working_dir", str(tmp_path / "work"))
    close = await mount(coordinator, config)
    close()
    assert _files_below(tmp_path) == {expected: (0o600, 0o700)}


async def test_a_home_that_goes_with_the_session_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (await mount(MockCoordinator(), {"path": str(tmp_path / "a")}))()
    assert "`state: keep` in the module's entry keeps it" in caplog.text
    caplog.clear()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (await mount(MockCoordinator()))()
    assert caplog.text == ""


# --- configuration and packaging


@pytest.mark.parametrize(
    "config", [{"path": ""}, {"path": 5}, {"fsync": "never"}, {"max_tokens": 0}, {"file": "x"}, {"tokenizer": 1}]
)
async def test_a_wrong_configuration_is_refused_at_mount(config: dict[str, Any]) -> None:
    coordinator = MockCoordinator()
    with pytest.raises(ValueError, match=f"^context-persistent: .*`{next(iter(config))}`"):
        await mount(coordinator, config)
    assert coordinator.get("context") is None
