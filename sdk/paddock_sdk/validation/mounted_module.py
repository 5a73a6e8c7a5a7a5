"""Mount a module for a test, and unmount it afterwards.

If the test's own file imported the package, that import is used, so that classes compare as its author expects.
Otherwise the package is imported for the time of the test alone. Exceptions of the module reach the test.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from paddock_sdk.kernel.settle import settled
from paddock_sdk.testing.mocks import MockCoordinator
from paddock_sdk.validation import validator_for
from paddock_sdk.validation.entry_point import find_mount
from paddock_sdk.validation.mounted_object import MountedObjectValidator
from paddock_sdk.validation.package_import import import_package, name_of, own_imports

__all__ = ["mounted_module", "mounted_object"]


@asynccontextmanager
async def mounted_module(kind: str, package: Path, coordinator: MockCoordinator) -> AsyncIterator[Any]:
    """Mount the package's module with an empty configuration, and yield the result of `mount` if it can be called.

    A returned cleanup function is wrapped so that it runs once: a test may call it; otherwise the end of the test does.
    """
    with _imported(package) as module:
        returned = await settled(find_mount(module, package, None)(coordinator, {}))
        cleanup = _once(returned) if callable(returned) and not validator_for(kind).is_module(returned) else None
        try:
            yield cleanup or (returned if callable(returned) else None)
        finally:
            if cleanup is not None:
                await settled(cleanup())
            await coordinator.cleanup()


@asynccontextmanager
async def mounted_object(kind: str, package: Path, coordinator: MockCoordinator) -> AsyncIterator[Any]:
    """Mount the package's module as `mounted_module` does, and yield the first object it mounted.

    Raises:
        LookupError: it mounted none.
    """
    validator = validator_for(kind)
    assert isinstance(validator, MountedObjectValidator)
    async with mounted_module(kind, package, coordinator):
        objects = validator.mounted(coordinator)
        if not objects:
            raise LookupError(
                f"mount() mounted no {kind} with an empty configuration. If it needs credentials or a service, set up "
                f"its environment first; `mount(coordinator, {{}})` has to work for its behaviour to be tested"
            )
        yield objects[0]


@contextmanager
def _imported(package: Path) -> Iterator[ModuleType]:
    module = sys.modules.get(name_of(package))
    file = getattr(module, "__file__", None)
    if module is not None and file is not None and Path(file).resolve() in (package, package / "__init__.py"):
        yield module
        return
    with own_imports(package):
        yield import_package(package)


def _once(cleanup: Callable[[], Any]) -> Callable[[], Any]:
    waiting = [cleanup]
    return lambda: waiting.pop()() if waiting else None
