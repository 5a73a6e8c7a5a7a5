"""Check whether code asks for a version of the module contracts that workers serve.

The newest contract serves code for older ones. Code that takes only newer versions is refused. A requirement on the
code of a repository names no version and counts as met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paddock_sources.environment.errors import ContractVersionError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

CONTRACT: Final = "amplifier-core"
CONTRACT_VERSION: Final = "2.0.2"  # modules that import that name get this version's behaviour


def check_contract(name: str, requirement: Requirement) -> None:
    """Accept a requirement that workers meet; one that does not name the contracts always passes.

    Raises:
        ContractVersionError: it takes newer versions of the contracts only.
    """
    from packaging.specifiers import SpecifierSet
    from packaging.utils import canonicalize_name

    if canonicalize_name(requirement.name) != CONTRACT:
        return
    if (requirement.specifier & SpecifierSet(f"<={CONTRACT_VERSION}", prereleases=True)).is_unsatisfiable():
        raise ContractVersionError(name, str(requirement), CONTRACT_VERSION)
