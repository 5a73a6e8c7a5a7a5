"""Reasons why an act may fail even without isolation: things that a machine lacks or forbids to everybody.

An excuse counts only if a check of the machine confirms it, and only for the refusals that it explains. Where none
counts, an attack that fails outside is a defect: its refusal inside would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FORBIDDEN: Final = frozenset(("EPERM", "EACCES", "ENOSYS"))
_CAPABILITIES: Final = {
    "CAP_DAC_READ_SEARCH": 2,
    "CAP_FOWNER": 3,
    "CAP_NET_RAW": 13,
    "CAP_SYS_RAWIO": 17,
    "CAP_SYS_ADMIN": 21,
    "CAP_SYS_BOOT": 22,
    "CAP_SYS_TIME": 25,
    "CAP_MKNOD": 27,
}


@dataclass(frozen=True, slots=True)
class ExpectedFailure:
    """A reason, the refusals it explains, and the check of the machine that confirms it."""

    reason: str
    words: frozenset[str]
    holds: Callable[[], bool]

    def covers(self, word: str) -> bool:
        """Return whether it explains a refusal by `word` on this machine."""
        return word in self.words and self.holds()


def needs(capability: str) -> ExpectedFailure:
    """Return the excuse of an act that needs a capability, which this process may lack."""
    bit = 1 << _CAPABILITIES[capability]
    held = "CapEff"
    return ExpectedFailure(f"this needs {capability}", _FORBIDDEN, lambda: not int(_status(held), 16) & bit)


def may_lack(what: str, *words: str) -> ExpectedFailure:
    """Return the excuse of an act on something that some machines lack; the refusal itself shows that it is missing."""
    return ExpectedFailure(f"this machine has no {what}", frozenset(words), lambda: True)


def forbidden_by(setting: str, *allowing: str) -> ExpectedFailure:
    """Return the excuse of an act that a setting below /proc/sys forbids, unless it is one of `allowing`."""
    return ExpectedFailure(
        f"this machine forbids it by {setting}", _FORBIDDEN, lambda: _setting(setting) not in ("", *allowing)
    )


CONFINED: Final = ExpectedFailure(
    "this machine is itself confined: a filter of system calls is on",
    _FORBIDDEN,
    lambda: _status("Seccomp") not in ("", "0"),
)


def _status(name: str) -> str:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    return ""


def _setting(name: str) -> str:
    try:
        return Path("/proc/sys", name.replace(".", "/")).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
