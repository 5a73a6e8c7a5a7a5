"""What a worker sees of programs: the system's folders of them, and those that were granted by their paths."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from paddock.isolation.mount_table import MountTable
from paddock.policy.programs import SYSTEM_FOLDERS, Program


def show_system(table: MountTable, programs: Iterable[Program] | None) -> None:
    """Have a worker see the system's folders of programs and what these need; executed are `programs`, None: all.

    Only libraries and what may be executed can be mapped into memory as code, so that a loader cannot be told to start
    something else.
    """
    for link in SYSTEM_FOLDERS:
        folder = Path(os.path.realpath(link))
        if folder.is_dir():
            is_library = folder.name.startswith("lib")
            for spelling in {Path(link), folder}:
                table.grant(folder, spelling, mappable=programs is None or is_library)
    table_of_links = Path("/etc/alternatives")
    if table_of_links.is_dir():
        table.grant(table_of_links)
    for program in programs or ():
        table.grant(program.home, mappable=True)
        _show_files(table, program)


def show_located(table: MountTable, programs: Iterable[Program]) -> None:
    """Have a worker see programs that were granted by their paths, with what they bring."""
    for program in programs:
        for path in program.located:
            table.grant(path.path, mappable=True)
        _show_files(table, program)


def _show_files(table: MountTable, program: Program) -> None:
    for file in program.files:
        for spelling in _spellings(file):
            table.grant(file, spelling, mappable=True)


def _spellings(file: Path) -> Iterator[Path]:
    """Yield the names of a file by way of the links in the root folder: `/usr/bin/dash` is `/bin/dash` as well."""
    yield file
    for link in map(Path, SYSTEM_FOLDERS):
        if link.is_symlink() and file.is_relative_to(real := Path(os.path.realpath(link))):
            yield link / file.relative_to(real)
