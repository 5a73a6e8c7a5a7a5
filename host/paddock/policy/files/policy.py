"""The policy for a user of a machine: that of its operator, and then the user's own.

Every file counts: a grant needs the leave of each, and the strictest minimum and the lowest limit win. Inside one file
the most specific rule about a source applies.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from paddock.policy.files.owned_file import ROOT, OperatorFile
from paddock.policy.owner import Owner
from paddock.policy.rule import ConsultedRule
from paddock.policy.source_name import SourceName

if TYPE_CHECKING:
    from paddock.policy.files.policy_file import ModuleRule, PolicyFile

SYSTEM_FILE: Final = Path("/etc/paddock/policy.toml")


def user_config_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's settings for Paddock: policy, grants, places of secrets."""
    base = environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if os.path.isabs(base) else Owner.current(environ).home / ".config") / "paddock"


@dataclass(frozen=True, slots=True)
class Policy:
    """The files of a policy, the operator's first; without files, only the built-in rules."""

    files: tuple[PolicyFile, ...] = ()

    @classmethod
    def load(cls, environ: Mapping[str, str], *, system_file: Path = SYSTEM_FILE, system_owner: Owner = ROOT) -> Self:
        """Read the policy of this machine, and that of the user whose environment is `environ`.

        Raises:
            PolicyFileError: a file exists and cannot be trusted or understood.
        """
        user_file = user_config_folder(environ) / "policy.toml"
        places = ((system_file, system_owner), (user_file, Owner.current(environ)))
        files = [found for path, owner in places if (found := OperatorFile.read(path, owner)) is not None]
        if not files:
            return cls()
        from paddock.policy.files.policy_file import PolicyFile  # only where there is a policy

        return cls(tuple(map(PolicyFile.of, files)))

    @classmethod
    def parse(cls, text: str, file: str = "the application's policy") -> Self:
        """Return the policy written as TOML in `text`, which refusals name as `file`.

        Raises:
            PolicyFileError: it is no policy; the error names every problem.
        """
        from paddock.policy.files.policy_file import PolicyFile

        return cls((PolicyFile.parse(text, file),))

    @classmethod
    def given(cls, policy: object) -> Policy | None:
        """Return the policy that an application passed, if any.

        Raises:
            TypeError: it is no policy, so it could not bound anything.
        """
        if policy is None or isinstance(policy, Policy):
            return policy
        raise TypeError(
            f"`policy` has to be a paddock.Policy, and is a {type(policy).__name__}: make one of the text of a policy "
            "file with `paddock.Policy.parse(text)`"
        )

    def narrowed_by(self, other: Policy) -> Self:
        """Return the policy that permits only what both permit."""
        return replace(self, files=(*self.files, *(file for file in other.files if file not in self.files)))

    @property
    def judges_sources(self) -> bool:
        """Whether any rule depends on where a module comes from."""
        return any(file.judges_sources for file in self.files)


def rules_about(name: SourceName, file: PolicyFile) -> tuple[list[ModuleRule], list[ConsultedRule]]:
    """Return the rules of a file that apply to a source, and the outcome of each rule that was examined.

    Those of the most specific pattern apply. A rule whose pattern the source only resembles, as if it were spelled to
    evade the rule, applies as well: rules take away and never add, so this grants no more.
    """
    matching = [rule for rule in file.modules if rule.match.matches(name)]
    most = max((rule.match.literal for rule in matching), default=0)
    held: list[ModuleRule] = []
    consulted: list[ConsultedRule] = []
    for rule in file.modules:
        if rule in matching and rule.match.literal == most:
            held.append(rule)
            outcome = f"is about `{name.text}`"
        elif rule in matching:
            outcome = f"is about `{name.text}`, and gives way to a more specific rule"
        elif rule.match.resembles(name):
            held.append(rule)
            outcome = f"holds for `{name.text}` as well, which could be another spelling of what it is about"
        else:
            outcome = f"is not about `{name.text}`"
        consulted.append(ConsultedRule(rule.rule, outcome))
    return held, consulted
