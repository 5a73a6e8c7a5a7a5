"""The user's own file of accepted plans, and of the grants to the modules of each.

An acceptance is bound to a plan's digest, so an edited plan is another plan. A grant to a module is also bound to the
source its code came from, and the code to what the lock file beside the plan pinned that source to. Everything else in
the file stays as it is written, comments too. The file is always complete, before and after a change, also when several
processes change it at once. A file that is not understood is an error: the host would otherwise grant less than the
operator meant, and lose the file's content at the next change.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from paddock.errors import PaddockError
from paddock.plan.source_map import Location
from paddock.policy.files.accepted_plans import AcceptedGrant, AcceptedPlan
from paddock.policy.files.owned_file import read_owned, user_config_folder
from paddock.policy.owner import Owner
from paddock.policy.pins import MovedPin, Pin
from paddock.policy.rule import Rule
from paddock.text import reason_of

_MAX_BYTES: Final = 4 * 1024 * 1024
_VERSIONS_KEPT: Final = 8  # of one plan: people switch between a few
_LOCK_SECONDS: Final = 10.0  # others hold it for milliseconds

_Change = Callable[[tuple[AcceptedPlan, ...]], Iterable[AcceptedPlan]]


class GrantsNotKeptError(PaddockError):
    """Raised when the file cannot be changed; its content is as before."""

    exit_code = 1

    def __init__(self, path: Path, reason: str, *, hint: str = "") -> None:
        self.path = path
        self.reason = reason
        super().__init__(
            f"what was accepted cannot be written to `{path}`: {reason}",
            hints=[hint or "until it can be, `--trust-plan` accepts a plan, each time"],
        )


class GrantsFile:
    """The file of `owner` at `path`, which may be missing."""

    def __init__(self, owner: Owner, path: Path) -> None:
        self._owner = owner
        self.path = path

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> Self:
        """Return the file of the user of this process: `grants.toml` in the configuration folder."""
        return cls(Owner.current(environ), user_config_folder(environ) / "grants.toml")

    def all(self) -> tuple[AcceptedPlan, ...]:
        """Return every plan in it, in the order of the file.

        Raises:
            PolicyFileError: it cannot be trusted or understood.
        """
        text = self._read()
        return () if text is None else self._parsed(text)

    def rule_of(self, line: int | None, text: str) -> Rule:
        """Return an entry of the file, on a line, as a rule."""
        return Rule(Location(str(self.path), line), text)

    def accept(
        self, digest: str, plan: str, grants: Iterable[AcceptedGrant] = (), pins: Iterable[Pin] | None = None
    ) -> AcceptedPlan:
        """Record that a plan is accepted as it is now, with these grants and pins, and return the record.

        Raises:
            PolicyFileError: the file cannot be trusted or understood.
            GrantsNotKeptError: it cannot be written.
        """
        accepted = AcceptedPlan.now(digest, plan, tuple(grants), None if pins is None else tuple(pins))

        def changed(plans: tuple[AcceptedPlan, ...]) -> Iterator[AcceptedPlan]:
            others = [one for one in plans if one.digest != digest]
            versions = [one for one in others if plan and one.plan == plan]
            versions.sort(key=lambda one: one.accepted_at, reverse=True)
            dropped = {one.digest for one in versions[_VERSIONS_KEPT - 1 :]}
            yield from (one for one in others if one.digest not in dropped)
            yield accepted

        return next(one for one in self._change(changed) if one.digest == digest)

    def forget(self, plan: str) -> tuple[AcceptedPlan, ...]:
        """Remove every accepted version of the plan at that path, with its grants, and return these versions.

        Raises as `accept` does.
        """
        removed: list[AcceptedPlan] = []

        def changed(plans: tuple[AcceptedPlan, ...]) -> Iterable[AcceptedPlan]:
            removed.extend(one for one in plans if one.plan == plan)
            return [one for one in plans if one.plan != plan]

        if any(one.plan == plan for one in self.all()):
            try:
                self._change(changed)
            except GrantsNotKeptError as error:
                hint = "nothing was withdrawn; take the plan's [[plan]] tables out of the file by hand"
                raise GrantsNotKeptError(error.path, error.reason, hint=hint) from error
        return tuple(removed)

    def accept_pins(self, digest: str, moved: Iterable[MovedPin]) -> None:
        """Record that an accepted plan is accepted with the new pins of `moved`. Raises as `accept` does."""
        moved = tuple(moved)
        self._change(lambda plans: (one.with_pins(moved) if one.digest == digest else one for one in plans))

    def renew_pins(self, folder: Path, moved: Iterable[MovedPin]) -> None:
        """Record the new pins for the plans in `folder` that were accepted with the old ones.

        For pins that Paddock itself moved in that folder's lock file. A pin that another program had moved before stays
        as it was accepted. Raises as `accept` does.
        """
        moved, place = tuple(moved), os.path.realpath(folder)

        def renewed(one: AcceptedPlan) -> AcceptedPlan:
            is_there = one.plan != "" and os.path.realpath(os.path.dirname(one.plan)) == place
            return one.renewed(moved) if is_there else one

        if any(renewed(one) is not one for one in self.all()):
            self._change(lambda plans: map(renewed, plans))

    # -- reading and writing ---------------------------------------------------------------

    def _read(self) -> str | None:
        return read_owned(self.path, self._owner, max_bytes=_MAX_BYTES)

    def _parsed(self, text: str) -> tuple[AcceptedPlan, ...]:
        from paddock.policy.files.accepted_plans_text import read_accepted  # its models: only where there is a file

        return read_accepted(text, str(self.path))

    def _change(self, change: _Change) -> tuple[AcceptedPlan, ...]:
        """Change the plans in the file and return them."""
        from paddock.policy.files.accepted_plans_text import rewritten

        with self._alone():
            text = self._read()
            before = () if text is None else self._parsed(text)
            after = [*change(before)]
            try:
                written = rewritten(text, before, after)
            except (ValueError, TypeError, KeyError) as error:  # the errors of an editing library on arbitrary text
                raise GrantsNotKeptError(self.path, f"it cannot be added to: {error}") from error
            if len(written.encode()) > _MAX_BYTES:
                raise GrantsNotKeptError(self.path, f"it would become larger than {_MAX_BYTES >> 20} MiB")
            self._write(written)
            return self._parsed(written)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep every other process from changing the file meanwhile."""
        import filelock  # readers, such as every session, do not load this

        folder = self.path.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            info = folder.stat()
            if info.st_uid == self._owner.uid and info.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                folder.chmod(0o700)
            lock = filelock.FileLock(self.path.with_name(f"{self.path.name}.lock"), timeout=_LOCK_SECONDS, mode=0o600)
            lock.acquire()
        except filelock.Timeout as error:
            raise GrantsNotKeptError(self.path, "another process has been changing it all the time") from error
        except OSError as error:
            raise GrantsNotKeptError(self.path, reason_of(error)) from error
        try:
            yield
        finally:
            lock.release()

    def _write(self, text: str) -> None:
        # Write to the target of a link, so it stays a link: people keep their configuration elsewhere.
        real = Path(os.path.realpath(self.path))
        unfinished = real.with_name(f"{real.name}.unfinished")
        try:
            with suppress(FileNotFoundError):
                unfinished.unlink()  # left by a process that was killed; the lock is held here
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(unfinished, flags, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, real)
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink()
            raise GrantsNotKeptError(self.path, reason_of(error)) from error
