"""What modules are tried out with, on behalf of one user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paddock.authoring.provided import Means
from paddock.authoring.trial import Conditions
from paddock.authorization.authorizer import Authorizer


@dataclass(frozen=True, slots=True)
class Booth:
    """Who decides what trials may do, how what they need is come by, and how they are run.

    `limits` are those that the user names.
    """

    authorizer: Authorizer
    means: Means
    conditions: Conditions
    limits: Mapping[str, object]
