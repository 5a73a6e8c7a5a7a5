"""A bundle where a command line takes a plan: the plan that extends it, which is kept for the user.

The plan has its own folder in the user's state, with its lock file. What the user grants is written there, or the user
writes a plan of their own: `paddock init --from BUNDLE`.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Final

import click

from paddock.plan import EXTENDS, USUAL_PLAN
from paddock.plan.bundles import WELL_KNOWN

_ADDRESS: Final = "git+"
_FILES: Final = ("bundle.md", "bundle.yaml", "bundle.yml")
_KEPT: Final = "bundles"
_HEAD: Final = "# Kept by `paddock` for a bundle that was run by its name: what you grant it is written here.\n"


def names_bundle(word: str) -> bool:
    """Return whether a word is a bundle: an address, its file, its folder, or a well-known name and no file."""
    path = Path(word)
    if word.startswith(_ADDRESS) and path.suffix.lower() != ".toml":
        return True
    if path.name in _FILES or path.suffix.lower() == ".md":
        return True
    if path.is_dir():
        return any((path / name).is_file() for name in _FILES)
    return word in WELL_KNOWN and not path.exists()


def extending_text(word: str, folder: Path) -> str:
    """Return the text of a plan in `folder` that extends a bundle and has nothing of its own."""
    if word.startswith(_ADDRESS) or word in WELL_KNOWN:
        address = WELL_KNOWN.get(word, word)
    else:
        place = os.path.relpath(os.path.abspath(word), folder.resolve())
        address = os.path.abspath(word) if place.startswith("..") else f"./{place}"
    from paddock.plan.formats.yaml_items import flow_text

    return f"{EXTENDS}: {flow_text(address)}\n"


def plan_of(word: str) -> Path:
    """Return the plan that a word of a command line names; of a bundle that which is kept for it, made if needed.

    Raises:
        KindError: it cannot be made.
        PlanError: there is no such bundle, and nothing was kept for it.
    """
    if not names_bundle(word):
        return Path(word)
    # Only here: a chat has its terminal keep its keys before it loads the rest.
    from paddock.errors import KindError, PlanError, PlanProblem
    from paddock.state_folder import state_folder, state_path
    from paddock.text import reason_of

    is_file = not word.startswith(_ADDRESS) and word not in WELL_KNOWN
    name = os.path.realpath(word) if is_file else word
    kept = Path(_KEPT, sha256(os.fsencode(name)).hexdigest()[:16])
    if is_file and not os.path.exists(name) and not (state_path(os.environ) / kept).exists():
        raise PlanError([PlanProblem("", "there is no such file", "correct the path of the bundle")], origin=word)
    try:
        folder = state_folder() / kept
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        plan = folder / USUAL_PLAN
        if not plan.exists():
            plan.write_text(_HEAD + extending_text(word, folder), encoding="utf-8")
    except OSError as error:
        raise KindError("StateError", f"no plan can be kept for `{word}`: {reason_of(error)}") from error
    return plan


def is_kept(plan: Path) -> bool:
    """Return whether a plan is one that is kept for a bundle, which the user named."""
    from paddock.state_folder import state_path

    return plan.parent.parent == state_path(os.environ).resolve() / _KEPT


class PlanPath(click.Path):
    """The value of an option or argument that takes a plan, or a bundle."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if isinstance(value, str) and names_bundle(value):
            return plan_of(value)
        return super().convert(value, param, ctx)
