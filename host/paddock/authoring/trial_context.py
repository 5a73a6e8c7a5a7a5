"""What modules are tried out with, on behalf of one user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paddock.authoring.provided import FetchOptions
from paddock.authoring.trial import TrialConditions
from paddock.authorization.authorizer import Authorizer


@dataclass(frozen=True, slots=True)
class TrialContext:
    """Who decides what trials may do, how what they need is come by, and how they are run.

    `limits` are those that the user names.
    """

    authorizer: Authorizer
    fetch_options: FetchOptions
    conditions: TrialConditions
    limits: Mapping[str, object]
