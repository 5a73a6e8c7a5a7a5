"""An application's resolver is asked as the contract says, and whatever it does wrong is told as its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest

from paddock_sources import FolderUri
from paddock_sources.application import ApplicationResolver, ApplicationResolverError
from paddock_sources.resolution import NoAnswer
from support.rows import each_row


class NotFoundError(Exception):
    """As the contract's, which is no subclass of the builtin one."""


class Found:
    def __init__(self, folder: object) -> None:
        self.folder = folder

    def resolve(self) -> Any:
        if isinstance(self.folder, Exception):
            raise self.folder
        return self.folder


class Newer:
    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.asked: list[object] = []

    def resolve(self, module_id: str, source_hint: object = None, profile_hint: object = None) -> Any:
        self.asked.append((module_id, source_hint, profile_hint))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Older(Newer):
    def resolve(self, module_id: str, profile_hint: object = None) -> Any:  # type: ignore[override]
        return super().resolve(module_id, None, profile_hint)


class Anything(Newer):
    def resolve(self, module_id: str, **hints: object) -> Any:  # type: ignore[override]
        return super().resolve(module_id, **hints)


class Asynchronous(Newer):
    async def async_resolve(self, module_id: str, source_hint: object = None, profile_hint: object = None) -> Any:
        await anyio.lowlevel.checkpoint()
        self.asked.append(("async", threading.get_ident()))
        return super().resolve(module_id, source_hint, profile_hint)


class Misspelt(Newer):
    async def resolve(self, module_id: str, source_hint: object = None, profile_hint: object = None) -> Any:
        return super().resolve(module_id, source_hint, profile_hint)


def find(resolver: object, hint: object = None) -> FolderUri | NoAnswer:
    return ApplicationResolver(resolver, not_found=(NotFoundError,)).find("tool-x", hint)


async def find_in_thread(resolver: object) -> FolderUri | NoAnswer:
    asking = ApplicationResolver(resolver, not_found=(NotFoundError,), await_call=anyio.from_thread.run)
    with anyio.fail_after(60):
        return await anyio.to_thread.run_sync(asking.find, "tool-x", "hint")


@pytest.mark.parametrize(
    ("kind", "asked"),
    [(Newer, ("tool-x", "hint", "hint")), (Older, ("tool-x", None, "hint")), (Anything, ("tool-x", "hint", "hint"))],
)
def test_it_is_asked_with_the_hints_that_its_version_of_the_contract_has(
    tmp_path: Path, kind: Callable[[object], Newer], asked: tuple[object, ...]
) -> None:
    resolver = kind(Found(tmp_path))
    real = tmp_path.resolve()
    assert find(resolver, "hint") == FolderUri(str(real), real)
    assert resolver.asked == [asked]


@pytest.mark.parametrize("text", [False, True])
def test_a_relative_or_linked_folder_is_known_by_its_real_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bool
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    real = (tmp_path / "real").resolve()
    assert find(Newer(Found("link" if text else Path("link")))) == FolderUri(str(real), real)


@each_row("answer", [NotFoundError("no tool-x"), Found(NotFoundError("no tool-x"))])
def test_a_module_it_does_not_know_is_left_to_the_next_layer(answer: object) -> None:
    assert find(Newer(answer)) == NoAnswer("no tool-x")


def test_a_reason_that_is_not_given_is_said_for_it() -> None:
    assert find(Newer(NotFoundError())) == NoAnswer("it knows no such module")


class _SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@each_row(
    ("resolver", "said"),
    [
        (Newer(ModuleNotFoundError("the builtin one")), "it failed with ModuleNotFoundError: the builtin one"),
        (Newer(OSError(28, "No space left")), "it failed with OSError: [Errno 28] No space left"),
        (Newer(Found(PermissionError("secret.key"))), "it failed with PermissionError: secret.key"),
        (Newer(KeyError()), "it failed with KeyError"),
        (Newer(_SpeechlessError()), "it failed with _SpeechlessError"),
        (Newer(ValueError("a\nb\n" + "x" * 10_000)), "it failed with ValueError: a b xxx"),
        (Newer(None), "it answered with NoneType, which is no source"),
        (Newer("/a/folder"), "it answered with str, which is no source"),
        (Newer(Found(None)), "it failed with TypeError"),
        (Newer(Found(7)), "it failed with TypeError"),
        (Newer(Found("a\0b")), "it failed with ValueError"),
        (Misspelt(Found("/")), "there is no event loop"),
        (object(), "`object` has no method `resolve` that can be called here"),
    ],
)
def test_whatever_else_it_does_is_an_error_of_its_own(resolver: object, said: str) -> None:
    with pytest.raises(ApplicationResolverError) as caught:
        find(resolver)
    assert said in caught.value.problem
    assert len(caught.value.problem) < 600 and caught.value.summary.isprintable()


def test_without_an_event_loop_the_plain_method_is_asked(tmp_path: Path) -> None:
    resolver = Asynchronous(Found(tmp_path))
    assert isinstance(find(resolver), FolderUri)
    assert resolver.asked == [("tool-x", None, None)]


async def test_an_asynchronous_method_is_preferred_and_called_where_the_loop_is(tmp_path: Path) -> None:
    resolver = Asynchronous(Found(tmp_path))
    assert isinstance(await find_in_thread(resolver), FolderUri)
    assert resolver.asked == [("async", threading.get_ident()), ("tool-x", "hint", "hint")]


async def test_an_async_methods_error_counts_as_a_plain_ones() -> None:
    assert await find_in_thread(Asynchronous(NotFoundError("no"))) == NoAnswer("no")
    with pytest.raises(ApplicationResolverError, match="it failed with OSError"):
        await find_in_thread(Asynchronous(OSError("x")))


async def test_a_plain_method_that_is_asynchronous_is_waited_for(tmp_path: Path) -> None:
    assert isinstance(await find_in_thread(Misspelt(Found(tmp_path))), FolderUri)


class Crossroads:
    """Tells whether two threads were in `resolve` at the same time, one of them waiting so long for the other."""

    def __init__(self, folder: Path, patience: float) -> None:
        self.have_met = False
        self._folder = folder
        self._patience = patience
        self._meeting = threading.Barrier(2)

    def resolve(self, module_id: str, source_hint: object = None, profile_hint: object = None) -> Found:
        with contextlib.suppress(threading.BrokenBarrierError):
            self._meeting.wait(self._patience)
            self.have_met = True
        return Found(self._folder)


def in_two_threads(act: Callable[[], object]) -> None:
    threads = [threading.Thread(target=act) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)


def test_it_is_asked_for_one_module_at_a_time(tmp_path: Path) -> None:
    crossroads = Crossroads(tmp_path, patience=5)
    in_two_threads(lambda: crossroads.resolve("tool-x"))
    assert crossroads.have_met
    crossroads = Crossroads(tmp_path, patience=0.2)
    asking = ApplicationResolver(crossroads, not_found=(NotFoundError,))
    in_two_threads(lambda: asking.find("tool-x", None))
    assert not crossroads.have_met
