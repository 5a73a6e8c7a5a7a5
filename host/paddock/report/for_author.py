"""The part of the facts that the author of one module may have: that module alone, and as little of its user.

No prompts, no other modules, no accepted rules; the home is `~` in every text, and so are the names of other modules'
secrets hidden, wherever they stand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from paddock.isolation.record import SessionRecord
from paddock.plan.permissions import grants_of
from paddock.report.facts import Facts

CONTAINS: Final = (
    "the module's id, kind, source and pin, and the isolation level",
    "what it was granted and used: paths (your home as ~), programs, hosts, and names of its own variables and secrets",
    "what it was refused: paths, programs, hosts and events, as the module named them",
    "its limits, its peaks, how its processes ended, and when its tools were called",
    "the session's id and times, the working directory and the plan's place",
)


def for_author(facts: Facts, name: str, record: SessionRecord) -> Facts:
    """Return the facts on one module, for its author.

    Raises:
        KindError: the session has no such module.
    """
    module = facts.module(name)
    secrets = {one.name: {grant.name for grant in grants_of(one.permissions).secrets} for one in record.modules}
    others = set().union(*secrets.values()) - secrets.get(module.name, set())
    hidden = [re.compile(rf"(?<!\w){re.escape(one)}(?!\w)") for one in sorted(others)]
    home = re.compile(rf"{re.escape(record.home)}(?![\w.-])")

    def hide(text: str) -> str:
        for one in hidden:
            text = one.sub("…", text)
        return home.sub("~", text) if len(record.home) > 1 else text

    alone = replace(
        facts,
        accepted=None,
        notes=tuple(note for note in facts.notes if "`" not in note or f"`{module.name}`" in note),
        modules=(replace(module, shared_with=()),),
        turns=tuple(replace(turn, prompt="") for turn in facts.turns),
        calls=tuple(facts.calls_of(module)),
    )
    hidden_facts: Facts = _rewritten(alone, hide)
    return hidden_facts


def _rewritten(value: Any, rewrite: Callable[[str], str]) -> Any:
    """Return the same facts with every text rewritten."""
    new = value
    if isinstance(value, str):
        new = rewrite(value)
    elif isinstance(value, tuple):
        new = tuple(_rewritten(one, rewrite) for one in value)
    elif isinstance(value, dict):
        new = {_rewritten(key, rewrite): _rewritten(one, rewrite) for key, one in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        changed = {field.name: _rewritten(getattr(value, field.name), rewrite) for field in fields(value)}
        new = replace(value, **changed)
    assert not isinstance(value, (list, set)), "a fact of that form would pass as it is"
    return new
