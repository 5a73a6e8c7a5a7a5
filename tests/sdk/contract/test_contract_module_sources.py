"""Where modules come from: the two errors, the base class, and directories."""

from __future__ import annotations

import builtins
from pathlib import Path

import pytest

from paddock_sdk.contract.approval import ApprovalTimeoutError
from paddock_sdk.contract.module_sources import (
    FileSystemModuleSource,
    ModuleLoadError,
    ModuleNotFoundError,
    ModuleSource,
)
from support.rows import each_row


@each_row("error", [ModuleNotFoundError, ModuleLoadError, ApprovalTimeoutError])
def test_an_error_is_a_plain_exception(error: type[Exception]) -> None:
    assert error.__bases__ == (Exception,)


def test_a_module_not_found_is_not_the_builtin_of_that_name() -> None:
    assert not issubclass(ModuleNotFoundError, builtins.ModuleNotFoundError)
    assert not issubclass(builtins.ModuleNotFoundError, ModuleNotFoundError)


def test_a_source_has_to_say_where_it_is(tmp_path: Path) -> None:
    class Nowhere(ModuleSource):
        pass

    class Here(ModuleSource):
        def resolve(self) -> Path:
            return tmp_path

    with pytest.raises(TypeError):
        Nowhere()  # type: ignore[abstract]
    assert Here().resolve() == tmp_path


def test_directories_are_given_back_as_paths_in_order() -> None:
    source = FileSystemModuleSource(["/b", Path("/a")])
    assert source.get_module_paths() == [Path("/b"), Path("/a")]
    source.get_module_paths().clear()
    assert source.get_module_paths() == [Path("/b"), Path("/a")]
    assert source.get_mention_mappings() == {}
    assert FileSystemModuleSource().get_module_paths() == []
