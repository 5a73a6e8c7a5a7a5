"""The policy for a user of a machine: that of its operator, and then the user's own.

Every file counts: a grant needs the leave of each, and the strictest minimum and the lowest limit win. Inside one file
the most specific rule about a source applies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from paddock.policy.files.owned_file import ROOT, OperatorFile, user_config_folder
from paddock.policy.files.sources import load_source_settings
from paddock.policy.owner import Owner
from paddock.policy.rule import ConsultedRule
from paddock.policy.source_name import SourceName
from paddock_sources import GitUri, parse_source
from paddock_sources.cache import SourceCache
from paddock_sources.git.kept_commits import KeptCommits
from paddock_sources.git.remote import Remote
from paddock_sources.mirrors import Mirrors

if TYPE_CHECKING:
    from paddock.policy.files.policy_file import ModuleRule, PolicyFile

SYSTEM_FILE: Final = Path("/etc/paddock/policy.toml")


@dataclass(frozen=True, slots=True)
class Policy:
    """The files of a policy, the operator's first; without files, only the built-in rules.

    `environ` is that of the user whose mirrors are judged.
    """

    files: tuple[PolicyFile, ...] = ()
    environ: Mapping[str, str] | None = field(default=None, repr=False, compare=False)

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
            return cls(environ=environ)
        from paddock.policy.files.policy_file import PolicyFile  # only where there is a policy

        return cls(tuple(map(PolicyFile.of, files)), environ)

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

    def mirror_notes(self, sources: Iterable[str]) -> tuple[str, ...]:
        """Return from which of the user's mirrors sources are fetched, in words.

        Raises:
            PolicyFileError: the user's settings cannot be trusted or understood.
        """
        mirrors = Mirrors() if self.environ is None else load_source_settings(self.environ).mirrors
        return mirrors.notes(parse_source(one) for one in sources if not one.startswith("/"))

    @property
    def audit(self) -> tuple[frozenset[str], bool]:
        """The services that the audit log is sent on to, and whether nothing runs without it, as any file says."""
        services = {file.audit.forward for file in self.files}
        return frozenset(filter(None, services)), any(file.audit.required for file in self.files)

    @property
    def judges_sources(self) -> bool:
        """Whether any rule depends on where a module comes from."""
        return any(file.judges_sources for file in self.files)


@dataclass(frozen=True, slots=True)
class JudgedMirror:
    """The user's mirror that a repository is fetched from, as rules judge it.

    `address` is the beginning of it, which stands for addresses below `prefix`.
    """

    prefix: str
    address: str
    source: str
    name: SourceName

    @classmethod
    def of(cls, source: str, commit: str, environ: Mapping[str, str] | None) -> Self | None:
        """Return the mirror of a source for the user with `environ`.

        None for a commit that was fetched from the public address before: a mirror cannot put other files in its place.

        Raises:
            NotAcceptedError: the mirror could be read in two ways.
            PolicyFileError: the user's settings cannot be trusted or understood.
        """
        uri = None if environ is None or source.startswith("/") else parse_source(source)
        if environ is None or not isinstance(uri, GitUri):
            return None
        mirrors = load_source_settings(environ).mirrors
        mirror = mirrors.of(uri)
        if mirror is None:
            return None
        with SourceCache.of_user(environ) as cache:
            kept = KeptCommits(cache, Remote.of(uri)).get(commit or uri.ref)
        if kept is not None and kept.is_reachable:
            return None
        text = mirror.at_commit(commit or uri.ref)
        prefix = mirrors.prefix(uri)
        return cls(prefix, mirrors.by_prefix[prefix], text, SourceName.of(text))

    def is_named_in(self, file: PolicyFile) -> bool:
        """Whether a file lets it stand for the public address.

        It does for a whole host alone: else a user could have one owner's repositories stand for another's.
        """
        return self.address in file.mirrors and urlsplit(self.prefix).path == "/"


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
