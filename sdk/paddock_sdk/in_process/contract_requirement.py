"""Check the version of the contracts that a module asks for.

Modules declare it among their dependencies, as a requirement on `amplifier-core`. The newest contract serves modules
for older ones: a module is refused only if all versions it would accept are newer. A requirement on the code of a
repository names no version and counts as met.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from paddock_sdk.kernel.loading import ModuleValidationError

__all__ = ["CONTRACT_VERSION", "check_contract_requirement", "unmet_contract_requirement"]

#: What the module contracts behave as here.
CONTRACT_VERSION: Final = "2.0.2"

_ON_CONTRACT: Final = re.compile(r"\s*amplifier[-_.]+core\b(?![-_.]*\w)", re.IGNORECASE)


def check_contract_requirement(module_id: str, requirements: Iterable[str]) -> None:
    """Accept a module whose requirements we can meet.

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
