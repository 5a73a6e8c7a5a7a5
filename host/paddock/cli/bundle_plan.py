"""A bundle where a command line takes a plan: the plan that extends it, which is kept for the user.

The plan has its own folder in the user's state, with its lock file. What the user grants is written there, or the user
writes a plan of their own: `paddock init --from BUNDLE`. Messages name the bundle, which every command takes.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

import click

from paddock.plan import EXTENDS, USUAL_PLAN
from paddock.plan.bundles import WELL_KNOWN

_ADDRESS: Final = "git+"
BUNDLE_FILES: Final = ("bundle.md", "bundle.yaml", "bundle.yml")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_KEPT: Final = "bundles"
_HEAD: Final = "# Kept by `paddock` for a bundle that was run by its name: what you grant it is written here.\n"


def known_bundles() -> Mapping[str, str]:
    """Return the addresses of bundles by the words for them: those of Paddock, and of the user's `sources.toml`.

    Raises:
        PolicyFileError: the user's settings cannot be trusted or understood.
    """
    from paddock.policy.files.sources import load_source_settings  # only for a word that may be one

    return {**WELL_KNOWN, **load_source_settings(os.environ).bundles}


def names_bundle(word: str) -> bool:
    """Return whether a word is a bundle: an address, its file, its folder, or a known name and no file."""
    path = Path(word)
    if word.startswith(_ADDRESS) and path.suffix.lower() != ".toml":
        return True
    is_prompt = len(word.split()) > 1 and not os.path.exists(word)  # which may end in the name of a file
    if path.name in BUNDLE_FILES or (path.suffix.lower() == ".md" and not is_prompt):
        return True
    if os.path.isdir(word):
        return any((path / name).is_file() for name in BUNDLE_FILES)
    return bool(_NAME.fullmatch(word)) and not path.exists() and word in known_bundles()


def no_such_plan(word: str) -> str:
    """Return, in words, that there is no plan of a name, and which bundles have one that is like it."""
    from paddock_sources.similar_names import near

    close = near(word, [*known_bundles()]) if _is_name(word) else ()
    meant = f": the bundle {' or '.join(f'`{one}`' for one in close)} may be meant" if close else ""
    return f"there is no plan `{word}`{meant}"


def address_of(word: str) -> str:
    """Return the address of a bundle, or its whole path."""
    if word.startswith(_ADDRESS):
        return word
    return known_bundles().get(word, "") if _is_name(word) else os.path.abspath(word)


def _is_name(word: str) -> bool:
    return bool(_NAME.fullmatch(word)) and not Path(word).exists()


def extending_text(word: str, folder: Path) -> str:
    """Return the text of a plan in `folder` that extends a bundle and has nothing of its own."""
    from paddock.plan.formats.yaml_items import flow_text

    return f"{EXTENDS}: {flow_text(address_in(word, folder))}\n"


def address_in(word: str, folder: Path) -> str:
    """Return the address of a bundle as a plan in `folder` has it: relative where it lies there."""
    address = address_of(word)
    if not address.startswith("/"):
        return address
    place = os.path.relpath(address, folder.resolve())
    return address if place.startswith("..") else f"./{'' if place == '.' else place}"


def kept_plan(word: str) -> Path:
    """Return where the plan for a bundle is kept, if it is."""
    address = address_of(word)
    name = os.path.realpath(address) if address.startswith("/") else address
    return _kept_folder() / sha256(os.fsencode(name)).hexdigest()[:16] / USUAL_PLAN


def plan_of(word: str) -> Path:
    """Return the plan that a word of a command line names; of a bundle that which is kept for it, made if needed.

    Raises:
        KindError: there is no such bundle, or the plan cannot be made.
    """
    if not names_bundle(word):
        return Path(word)
    # Only here: a chat has its terminal keep its keys before it loads the rest.
    from paddock.errors import KindError
    from paddock.state_folder import state_folder
    from paddock.text import reason_of

    if not (word.startswith(_ADDRESS) or _is_name(word) or os.path.exists(word)):
        raise KindError(
            "NoBundleError", f"there is no bundle `{word}`", hints=["correct the path of its file, or name its address"]
        )
    plan = kept_plan(word)
    try:
        state_folder()
        plan.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not plan.exists():
            plan.write_text(_HEAD + extending_text(word, plan.parent), encoding="utf-8")
    except OSError as error:
        raise KindError("StateError", f"no plan can be kept for `{word}`: {reason_of(error)}") from error
    return plan


def is_kept(plan: Path) -> bool:
    """Return whether a plan is one that is kept for a bundle, which the user named."""
    return plan.parent.parent == _kept_folder()


def _kept_folder() -> Path:
    from paddock.state_folder import state_path

    return state_path(os.environ).resolve() / _KEPT


def as_named(text: str) -> str:
    """Return a text for people with the bundles in place of the plans that are kept for them."""
    kept = str(_kept_folder())
    if kept not in text:
        return text
    plans = re.compile(rf"{re.escape(kept)}/[0-9a-f]{{16}}/{re.escape(USUAL_PLAN)}")
    return plans.sub(lambda found: shlex.quote(_bundle_of(Path(found[0]))), text)


def _bundle_of(kept: Path) -> str:
    try:
        return kept.read_text(encoding="utf-8").partition(f"\n{EXTENDS}: ")[2].partition("\n")[0].strip("'\"") or str(
            kept
        )
    except (OSError, ValueError):
        return str(kept)


class PlanPath(click.Path):
    """The value of an option or argument that takes a plan, or a bundle."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if isinstance(value, str) and names_bundle(value):
            return plan_of(value)
        return super().convert(value, param, ctx)
