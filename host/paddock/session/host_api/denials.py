"""Denials of a module: a worker asks for them when a call has failed, or reports its attempts unasked.

A module learns nothing that was found out outside its grants (session/decisions.md, 0001).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any, Final

from paddock.errors import Denial
from paddock.isolation.denials.attempt import ATTEMPT_KINDS, AccessAttempt
from paddock.session.host_api.handler import Decode, handles, malformed, within
from paddock.session.host_api.part import ServicePart
from paddock.session.module import HostedModule
from paddock_sdk.protocol.methods import HostMethod

_LONGEST_CALL: Final = 24 * 3600.0  # seconds; it also keeps NaN and infinity out
_MAX_ATTEMPTS: Final = 64  # in one message
_MAX_TARGET: Final = 4096  # characters of a path
_ACCOUNT: Final = "account of attempts"
_MAX_DENIALS: Final = 10  # denials in a tool's result, which a model may get to read


class DenialService(ServicePart):
    """Serves one session."""

    @handles(HostMethod.EXPLAIN, "request for explanation")
    def explain(
        self,
        module: HostedModule,
        attempts: list[Any],
        seconds: Annotated[float, within(0, _LONGEST_CALL)],
    ) -> object:
        """Return what a module was refused during a call that failed, as far as the module may know it."""
        read = _read_attempts(attempts)
        read += [AccessAttempt("limit", name) for name in module.supervisor.limits_met()]
        now = self._now()
        # Decided before anything is looked at; nothing that was found out by looking is included.
        noted = map(_for_the_module, module.denials_since(now - seconds, only_by_host=True))
        denials = [*(denial for denial in noted if denial is not None), *module.attempts.not_granted(read)]
        module.attempts.weigh(read, has_failed=True, now=now)
        latest = {(denial.operation, denial.target): denial for denial in reversed(denials)}  # each once
        return [denial.as_dict() for denial in [*latest.values()][:_MAX_DENIALS][::-1]]

    @handles(HostMethod.ATTEMPTED, decode=Decode.DATA, is_notice=True)
    def attempted(self, module: HostedModule, args: Any) -> None:
        """Find out which of a module's attempts were refused, for people."""
        if not isinstance(args, list):
            raise malformed(_ACCOUNT)
        module.attempts.weigh(_read_attempts(args), has_failed=False, now=self._now())


def _read_attempts(written: list[Any]) -> list[AccessAttempt]:
    """Return a worker's report of its module's attempts.

    Raises:
        UnfitValueError: it is none.
    """
    if len(written) > _MAX_ATTEMPTS:
        raise malformed(_ACCOUNT)
    read = []
    for one in written:
        match one:
            case [str() as kind, str() as target] if kind in ATTEMPT_KINDS and len(target) <= _MAX_TARGET:
                read.append(AccessAttempt(kind, target))
            case _:
                raise malformed(_ACCOUNT)
    return read


def _for_the_module(denial: Denial) -> Denial | None:
    """Return the part of a denial that the acting module may know: nothing found out outside its grants."""
    match denial.layer:
        case "router" | "policy":
            return denial
        case "egress":
            grant = denial.grant if json.dumps(denial.target, ensure_ascii=False) in denial.grant else ""
            return replace(denial, grant=grant, reason="")
    return None
