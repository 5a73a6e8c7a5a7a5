"""Bring a module's code into this process and find its kind, its `mount` and its callback for a loader.

The first line of the module runs here. Any failure of its code becomes one of the loader's two errors.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from paddock_sdk.contract.module_sources import ModuleLoadError
from paddock_sdk.contract.module_sources import ModuleNotFoundError as SourceNotFoundError
from paddock_sdk.in_process.module_package import (
    ModulePackage,
    distribution_name,
    kind_by_id,
    package_name,
    requirements_of,
)
from paddock_sdk.kernel.loading import TYPE_TO_MOUNT_POINT, ModuleValidationError
from paddock_sdk.kernel.settle import safe_exception_str
from paddock_sdk.kernel.startup.entry_point import EntryPointError, mount_in

#: What the module contracts behave as here.
CONTRACT_VERSION: Final = "2.0.2"
_ON_CONTRACT: Final = re.compile(r"\s*amplifier[-_.]+core\b(?![-_.]*\w)", re.IGNORECASE)


def import_package(package: ModulePackage) -> ModuleType:
    """Return the package, imported from its import root, which is on the path.

    Raises:
        ModuleValidationError: its code fails, or another package of the name was imported before.
    """
    module_id, name = package.module_id, package.name
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # the module's code, which may fail in any way
        raise ModuleValidationError(_import_failure(module_id, name, error)) from error
    found = Path(getattr(module, "__file__", None) or "").parent
    if found.resolve() != package.path.resolve():
        raise ModuleValidationError(
            f"Module '{module_id}' is in {package.path}, but this process has imported `{name}` from {found} already, "
            "and holds one package of a name. Use another process, or the same source"
        )
    return module


def import_installed(module_id: str) -> ModuleType:
    """Return the package of the module's name, imported from wherever Python finds it.

    Raises:
        ModuleNotFoundError: the contract's: the package does not exist.
        ModuleLoadError: its code fails.
        ModuleValidationError: it asks for a newer version of the contracts.
    """
    check_contract_requirement(module_id, requirements_of(distribution_name(module_id)))
    name = package_name(module_id)
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # the module's code, which may fail in any way
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            raise SourceNotFoundError(f"Module '{module_id}' not found via entry points or filesystem") from None
        raise ModuleLoadError(_import_failure(module_id, name, error)) from error


def declared_kind(module_id: str, module: ModuleType) -> str:
    """Return the kind that a package declares, or the one that its id suggests.

    Raises:
        ModuleValidationError: it declares an unknown kind.
    """
    declared = getattr(module, "__amplifier_module_type__", None)
    if declared is None:
        return kind_by_id(module_id)
    if not isinstance(declared, str) or declared not in TYPE_TO_MOUNT_POINT:
        raise ModuleValidationError(
            f"Module '{module_id}' declares __amplifier_module_type__ = {declared!r}; "
            f"it has to be one of {', '.join(sorted(TYPE_TO_MOUNT_POINT))}",
            reason_code="invalid_module_metadata",
        )
    return declared


def mount_of(module_id: str, module: ModuleType, entry_point: str | None = None) -> Callable[..., Any]:
    """Return the package's `mount`, or the function that an entry point inside the package names.

    Raises:
        ModuleValidationError: it does not exist.
    """
    try:
        return mount_in(module, entry_point or module.__name__)
    except EntryPointError as error:
        raise ModuleValidationError(f"Module '{module_id}': {error}", reason_code="invalid_entry_point") from error


def mount_at(module_id: str, entry_point: metadata.EntryPoint) -> Callable[..., Any]:
    """Return an entry point's target: a function, or a package's `mount`.

    Raises:
        ModuleValidationError: the target does not exist.
    """
    distribution = getattr(entry_point, "dist", None)  # which one that was made by hand has not
    if distribution is not None:
        check_contract_requirement(module_id, distribution.requires or ())
    try:
        target = entry_point.load()
    except Exception as error:  # the module's code, or an entry point that leads nowhere
        raise ModuleValidationError(
            f"Module '{module_id}': its entry point `{entry_point.value}` cannot be loaded: "
            f"{type(error).__name__}: {safe_exception_str(error)}",
            reason_code="invalid_entry_point",
        ) from error
    if isinstance(target, ModuleType):
        return mount_of(module_id, target)
    if not callable(target):
        raise ModuleValidationError(
            f"Module '{module_id}': its entry point `{entry_point.value}` leads to a {type(target).__name__}, which "
            "cannot be called",
            reason_code="invalid_entry_point",
        )
    return target  # type: ignore[no-any-return]


def _import_failure(module_id: str, name: str, error: BaseException) -> str:
    return (
        f"Module '{module_id}' was found, but its package `{name}` fails when it is imported: "
        f"{type(error).__name__}: {safe_exception_str(error)}"
    )


def check_contract_requirement(module_id: str, requirements: Iterable[str]) -> None:
    """Accept a module whose requirements we can meet.

    Modules declare it among their dependencies, as a requirement on `amplifier-core`. The newest contract serves
    modules for older ones: a module is refused only if all versions it would accept are newer. A requirement on the
    code of a repository names no version and counts as met.

    Raises:
        ModuleValidationError: it asks for a newer version of the contracts.
    """
    unmet = unmet_contract_requirement(requirements)
    if unmet is not None:
        raise ModuleValidationError(
            f"Module '{module_id}' asks for a version of the module contracts that is not known here: it requires "
            f"`{unmet}`, and there is amplifier-core {CONTRACT_VERSION}. Use a release of the module for "
            f"{CONTRACT_VERSION} or older, or a newer Paddock",
            reason_code="invalid_module_metadata",
        )


def unmet_contract_requirement(requirements: Iterable[str]) -> str | None:
    """Return the first requirement that accepts only newer versions of the contracts, or None."""
    on_contract = [text for text in requirements if _ON_CONTRACT.match(text)]
    return next((text for text in on_contract if not _is_met(text)), None)


def _is_met(text: str) -> bool:
    # Here, because a program that loads no module with such a requirement need not have it.
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.version import Version

    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return True  # an installer would have reported it
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return True
    newest = Version(CONTRACT_VERSION)
    # Every gap between two versions that are named holds one of these.
    named = [Version(clause.version.removesuffix(".*")) for clause in requirement.specifier if clause.operator != "==="]
    beyond = [Version(".".join(map(str, (*version.release, 0, 1)))) for version in named]
    return any(
        requirement.specifier.contains(version, prereleases=True)
        for version in (newest, Version("0"), *named, *beyond)
        if version <= newest
    )
