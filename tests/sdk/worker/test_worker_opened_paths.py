"""In which granted paths a module says that it opened something, in the log that it shares with its host."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock_sdk.worker.attempts.attempt_log import MOST_PATHS, SIZE, SOMEWHERE, AttemptLog, opened_paths, read
from paddock_sdk.worker.attempts.noticing import AttemptRecorder
from support.rows import each_row


def _below_a_descriptor(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.mkdir("made", dir_fd=opened)
        os.close(os.open("made", os.O_RDONLY, dir_fd=opened))
    finally:
        os.close(opened)


@pytest.mark.parametrize(
    ("act", "read_in", "written_in"),
    [
        (lambda folder: os.listdir(folder), [0], []),
        (lambda folder: (folder / "inner/file").read_text(), [0, 1], []),
        (lambda folder: (folder / "inner/new").write_text(""), [], [0]),
        (lambda folder: os.listdir(f"{folder}-beside"), [], []),
        (_below_a_descriptor, [0, SOMEWHERE], [SOMEWHERE]),
    ],
)
def test_what_is_opened_is_told_of_each_granted_path_around_it(
    act: Callable[[Path], object], read_in: list[int], written_in: list[int], tmp_path: Path
) -> None:
    folder = tmp_path / "granted"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner/file").touch()
    Path(f"{folder}-beside").mkdir()
    memory = memoryview(bytearray(SIZE))
    recorder = AttemptRecorder(AttemptLog(memory))
    recorder.install(granted={"read": [str(folder), f"{folder}/inner", "/gone"], "write": [f"{folder}/inner"]})
    for _ in range(2):
        if not (folder / "made").exists():
            act(folder)
    assert opened_paths(bytes(memory)) == {"read": read_in, "write": written_in}


@each_row("granted", [None, "text", {"read": [None, 7]}, {"read": ["/x"] * 1000}])
def test_grants_of_any_form_and_number_are_watched_within_bounds(granted: object) -> None:
    memory = memoryview(bytearray(SIZE))
    recorder = AttemptRecorder(AttemptLog(memory))
    recorder.install(granted=granted)
    recorder._note("read", "/x/y")
    assert set(opened_paths(bytes(memory))["read"]) <= set(range(MOST_PATHS))
    assert read(bytes(memory)) == [("read", "/x/y")]


def test_what_a_module_writes_there_itself_is_only_numbers_of_places() -> None:
    assert opened_paths(b"\xff" * SIZE) == {kind: list(range(MOST_PATHS + 1)) for kind in ("read", "write")}
    assert opened_paths(b"\xff") == {}
