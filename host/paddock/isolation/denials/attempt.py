"""A module's failed attempts, each as a denial with the line that would allow it: advice for a person, not a defence.

In a file system of its own a refused file looks like a missing one, so only the host can distinguish them. `judge` is
for people. It looks only at places within the grants, and lists the folders of which modules have one of their own, as
`/tmp`. A path outside of these is taken as the module named it: to look it up may mount a file system or ask a server,
on the module's behalf. `tell` is for the module itself and looks at
nothing at all. So for every path outside its grants a module learns only that it was not granted, whether the path
exists or not (session/decisions.md, 0001).
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
from collections.abc import Callable, Container, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

import anyio
import anyio.to_thread

from paddock.authorization.suggestions.pasted import line_for
from paddock.errors import Denial, DenialLayer
from paddock.isolation.denials.attempted_path import AttemptedPath
from paddock.isolation.denials.explained_module import ExplainedModule
from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES
from paddock.plan.families import is_program_path
from paddock.plan.host_name import Destination, parse_authority, split_port
from paddock.plan.limits import LIMITS, limit_written, raised_limit_line
from paddock.plan.net_rule import DEFAULT_PORT, SELF, TO_FILL_IN, NetRule
from paddock.plan.permissions import redacted_permissions_line
from paddock.plan.problems import NotAcceptedError
from paddock.policy.guarded_places import GIT
from paddock.policy.limits import ResourceLimits
from paddock.policy.path_walk import KERNEL_FOLDERS
from paddock.policy.programs import SEARCH_PATH, Program, look_up
from paddock.token_bucket import TokenBucket
from paddock_sandbox.mounts import DEVICES, SHARED_FOLDERS
from paddock_sandbox.profile import ANY_PROGRAM
from paddock_sdk.worker.attempts.left_files import left_in

if TYPE_CHECKING:
    from paddock.isolation.denials.explain import Explanation, Family

AttemptKind = Literal["read", "write", "run", "net", "left", "limit", "env", "serve"]
ATTEMPT_KINDS: Final[tuple[AttemptKind, ...]] = get_args(AttemptKind)

SEE_VARIABLE: Final = "see the variable"
KEEP: Final = "state: keep"  # the line of a plan with which a home stays
_OPERATIONS: Final[Mapping[AttemptKind, str]] = {
    "read": "read",
    "write": "write to",
    "run": "run",
    "net": "connect to",
    "left": "keep",
    "limit": "exceed",
    "env": SEE_VARIABLE,
    "serve": "listen at",
}
_NOT_GRANTED: Final = "not granted"
_EXCLUDED: Final = "it is excluded from what may be read"
_NOT_LOOKED_AT: Final = "no grant covers it; whether it is there was not looked at"
_IN_SCRATCH: Final = "the working directory is not granted, so"
_LOST_IN_SCRATCH: Final = f"{_IN_SCRATCH} the file is in the module's private folder and is lost when the module ends"
_LOST_AT_HOME: Final = "its home is a private folder, which is lost when the module ends"
_NO_PROGRAMS_IN_SCRATCH: Final = "no file in a module's private folder can be run"
_ANYWHERE: Final = "any host"  # the target of an attempt that came no further than a socket
_PASSING_NAME: Final = re.compile(r"\..*\.tmp|.*~|tmp[\w-]{6,}")  # of a file that is to replace the one beside it
_MAX_PROGRAMS: Final = 5
_PROGRAM_NAME: Final = re.compile(r"[\w.+-]{1,64}", re.ASCII)  # no room for a sentence of the module's
_MAX_WAITING: Final = 500  # attempts that were not looked at yet
_FINISH_SECONDS: Final = 5.0  # to look at the latest attempts; it takes milliseconds, but on a busy machine

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AccessAttempt:
    """An attempt that a worker reports: a path (absolute), a program, or a host and port; `""` for any host.

    `left` is a file that goes with the private folder, `limit` the key of a limit that the kernel held the module to,
    `env` a variable that it looked for and does not have.
    """

    kind: AttemptKind
    target: str


_ALL_LEFT: Final = AccessAttempt("left", "")  # the files in the private folder of a module that was cut short


class AttemptJudge:
    """Decides which attempts of one module were refused."""

    def __init__(
        self, subject: ExplainedModule, is_names: Callable[[IPv4Address], bool], environ: Container[str] = frozenset()
    ) -> None:
        self._subject = subject
        self._is_names = is_names  # whether an address inside stands for a granted name
        self._environ = environ  # the names of the operator's variables
        self._profile = subject.profile
        self._programs = {*subject.permissions.run, *map(os.path.basename, subject.profile.programs)}
        programs = filter(is_program_path, subject.permissions.run)
        named = (Path(os.path.normpath(subject.owner.expanded(one, subject.working_dir))) for one in programs)
        self._places = tuple(dict.fromkeys((*named, *map(Path, subject.profile.programs))))
        rules = map(NetRule.parse, subject.permissions.net)
        self._rules = tuple(rule for rule in rules if not rule.is_self)
        self._denial_of: Mapping[AttemptKind, Callable[[AttemptKind, str], Denial | None]] = {
            "read": self._tell_path,
            "write": self._tell_path,
            "run": self._tell_program,
            "net": self._tell_destination,
            "left": lambda kind, target: None,
            "env": lambda kind, target: None,  # not whether the operator has it
            "limit": self._tell_limit,
            "serve": self._tell_port,
        }

    def tell(self, attempt: AccessAttempt) -> Denial | None:
        """Return what the module may know: that its grants do not cover this, whether it exists or not."""
        if self._profile.level == "none" or not attempt.target.isprintable():
            return None
        return self._denial_of[attempt.kind](attempt.kind, attempt.target)

    def judge(self, attempt: AccessAttempt) -> Denial | None:
        """Return the refusal for people, None if the target is known to be missing; may take a while."""
        kind, target = attempt.kind, attempt.target
        if not target.isprintable():
            return None
        if kind == "left":
            return self._judge_left(Path(target))
        if kind == "env":
            return self._judge_variable(target)
        if self._profile.level == "none":
            return None
        if kind in ("net", "limit", "serve"):
            return self._denial_of[kind](kind, target)
        return self._judge_program(target) if kind == "run" else self._judge_path(kind, Path(target))

    def started(self, attempt: AccessAttempt) -> str:
        """Return the name of a program that is granted, or in a granted place, and is there; or nothing."""
        folder, name = os.path.split(attempt.target)
        if attempt.kind != "run" or self._profile.level == "none" or not attempt.target.isprintable():
            return ""
        if not _PROGRAM_NAME.fullmatch(name) or self.tell(attempt) is not None:
            return ""
        if folder in ("", *SEARCH_PATH):
            return name if look_up(name) is not None else ""
        found = AttemptedPath.follow(Path(attempt.target), self._profile.mounts)
        return name if found is not None and found.is_there and _may_be_program(found.path) else ""

    def _judge_variable(self, name: str) -> Denial | None:
        found = self._explained("env", name)
        if found is None:
            return None
        unset = "" if name in self._environ else "; it is not set there either"
        return replace(found, reason=f"{found.reason}; the module says that it looked for this one{unset}")

    # -- files -----------------------------------------------------------------------------

    def left(self) -> Iterator[AccessAttempt]:
        """Yield the files in the module's private folder, unless that went with its file system."""
        if self._profile.level not in LEVELS_WITH_NAMESPACES:
            for path in left_in(self._profile.scratch):
                yield AccessAttempt("left", path)

    def _judge_path(self, kind: AttemptKind, named: Path) -> Denial | None:
        if not named.is_absolute():
            return None
        if self._works_in_scratch and (meant := self._in_working_dir(named)) is not None:
            reason = f"{_IN_SCRATCH} it was looked for in the module's private folder"
            folder = self._subject.working_dir
            # What is to be written may be new, so the place in the working directory that is known is named for it.
            place = meant if kind == "read" else folder / meant.relative_to(folder).parts[0]
            return self._at(kind, meant, place, reason)
        home = self._subject.owner.home
        if kind == "read" and (in_real_home := self._in_place_of_scratch(named, home, self._at_home)) is not None:
            reason = f'HOME is a private folder of its own; with `env: ["HOME={home}"]` it looks in yours'
            line = self._line(kind, str(in_real_home))
            return self._denial(kind, str(in_real_home), "files", line, reason)
        for one in self._subject.unseen:  # git looked for it, or for any in the folder and around it
            is_git_in_it = named.name == GIT and named.is_relative_to(one.folder)
            if kind == "read" and (named == one.place or is_git_in_it):
                return self._at(kind, one.place, None if one.is_doubtful else one.place, one.describe())
        # The target of a module's own link is named by its real path. Otherwise a person would be asked about a
        # harmless path, and grant another one.
        found = AttemptedPath.follow(named, self._profile.mounts)
        has_own_folders = self._profile.level in LEVELS_WITH_NAMESPACES  # elsewhere, its private one is in /tmp itself
        if found is None or (self._is_its_own(found.path) and not (has_own_folders and _is_in_shared(found.path))):
            return None
        if self._is_granted(found.path, wants_write=kind == "write"):
            return None
        if found.nearest is None:
            wanted = self._place_to_write(found.path) if kind == "write" else found.path
            return self._at(kind, found.path, wanted, _NOT_LOOKED_AT)
        if not found.is_there and found.nearest != found.path.parent:
            return None  # nor could it be made
        from paddock.isolation.denials.explain import explain_kept  # only here, as most modules are refused nothing

        family: Family = "write" if kind == "write" else "read"
        return self._of(kind, str(found.path), explain_kept(self._subject, family, found.path, found.nearest))

    def _judge_left(self, path: Path) -> Denial | None:
        """Return the loss of a file in the private folder, by the name that the module gave it for people."""
        scratch, owner = Path(self._profile.scratch), self._subject.owner
        if not path.is_relative_to(scratch) or path == scratch or ".." in path.parts:
            return None
        inside = path.relative_to(scratch)
        top, working_dir = inside.parts[0], self._subject.working_dir
        is_known = top in _names_in(working_dir)
        if self._works_in_scratch and (is_known or not (top.startswith(".") or top in self._at_home)):
            line = self._line("write", f"./{top}" if is_known else ".")
            return self._denial("write", str(working_dir / inside), "files", line, _LOST_IN_SCRATCH)
        return self._denial("left", str(owner.home / inside), "files", KEEP, _LOST_AT_HOME)

    def _tell_path(self, kind: AttemptKind, target: str) -> Denial | None:
        path = Path(os.path.normpath(target))
        if not path.is_absolute() or self._is_its_own(path):
            return None
        if self._is_granted(path, wants_write=kind == "write"):
            return None
        if (closed := self._subject.excluded(path)) is not None:
            line = redacted_permissions_line(self._subject.opened(kind, closed))
            return self._denial(kind, target, "files", line, _EXCLUDED)
        place = _meant(path) if kind == "write" else path
        is_covered = self._subject.why_covered(path) is not None
        return self._at(kind, target, None if is_covered else place, _NOT_GRANTED)

    def _place_to_write(self, path: Path) -> Path:
        """Return what to grant for a path that was not looked at: its folder, where it is known to be a new name."""
        folder = self._subject.working_dir
        inside = path.relative_to(folder).parts if path.is_relative_to(folder) else ()
        return folder if inside and inside[0] not in _names_in(folder) else _meant(path)

    def _is_granted(self, path: Path, *, wants_write: bool) -> bool:
        mount = self._subject.mount_at(path)
        if mount is None or self._subject.excluded(path) is not None:
            return False
        return mount.writable or not wants_write

    def _is_its_own(self, path: Path) -> bool:
        """Whether the module has something of its own there, or no process has."""
        if path.is_relative_to(self._subject.working_dir):
            return False  # which may be below a folder that is the module's own otherwise
        folders: tuple[str, ...] = (*KERNEL_FOLDERS, self._profile.scratch)
        if self._profile.level == "ns":
            folders += SHARED_FOLDERS
        return str(path) in DEVICES or any(path.is_relative_to(folder) for folder in folders)

    def _in_working_dir(self, path: Path) -> Path | None:
        """Return the corresponding path in the working directory; a module that cannot see that runs in its scratch."""
        return self._in_place_of_scratch(path, self._subject.working_dir, _names_in(self._subject.working_dir))

    def _in_place_of_scratch(self, path: Path, folder: Path, names: frozenset[str]) -> Path | None:
        """Return the path in another folder that corresponds to one in the private folder.

        Only if its names may exist there: no name of the module's choosing is looked up.
        """
        scratch = Path(self._profile.scratch)
        if not path.is_relative_to(scratch) or path == scratch or ".." in path.parts:
            return None
        inside = path.relative_to(scratch)
        return folder / inside if inside.parts[0] in names else None

    @cached_property
    def _works_in_scratch(self) -> bool:
        """Whether the module sees nothing of the working directory, so that relative paths lead to its own folder."""
        subject, folder = self._subject, self._subject.working_dir
        granted = (*subject.permissions.read_paths, *subject.permissions.write)
        places = (Path(os.path.normpath(subject.owner.expanded(one, folder))) for one in granted)
        return not any(folder.is_relative_to(one) or one.is_relative_to(folder) for one in (*places, *self._places))

    @cached_property
    def _at_home(self) -> frozenset[str]:
        return _names_in(self._subject.owner.home)

    # -- programs, network -----------------------------------------------------------------

    def _judge_program(self, target: str) -> Denial | None:
        folder, name = os.path.split(target)
        if folder in ("", *SEARCH_PATH):
            return self._explained("run", target) if _is_program(name) else None
        if (in_working_dir := self._in_working_dir(Path(target))) is not None:
            line = self._line("run", self._subject.written_as(in_working_dir))
            reason = f"{_IN_SCRATCH} it was looked for in the module's private folder"
            return self._denial("run", str(in_working_dir), "programs", line, reason)
        denial = self._tell_program("run", target)
        found = None if denial is None else AttemptedPath.follow(Path(target), self._profile.mounts)
        if denial is None or found is None or self._is_executed(found.path):
            return None
        if not denial.grant:
            return denial
        if found.nearest is None:
            return replace(denial, reason=_NOT_LOOKED_AT)
        if not found.is_there or not _may_be_program(found.path):
            return None
        return replace(denial, reason=self._subject.programs_text)

    def _tell_program(self, kind: AttemptKind, target: str) -> Denial | None:
        folder, name = os.path.split(target)
        if not name or ANY_PROGRAM in self._profile.programs:
            return None
        if folder in ("", *SEARCH_PATH):
            is_granted, written = name in self._programs, name
        elif Path(target).is_relative_to(self._profile.scratch):
            return self._denial(kind, target, "programs", "", _NO_PROGRAMS_IN_SCRATCH)
        else:
            is_granted, written = self._is_executed(Path(target)), self._subject.written_as(Path(target))
        return None if is_granted else self._denial(kind, target, "programs", self._line(kind, written), _NOT_GRANTED)

    def _is_executed(self, path: Path) -> bool:
        return any(path.is_relative_to(place) for place in self._places)

    def _tell_limit(self, kind: AttemptKind, target: str) -> Denial | None:
        row = LIMITS.get(target)
        if row is None or not row.refused or (target == "tmp_max" and not row.mechanism_at(self._profile.level)):
            return None
        value = getattr(ResourceLimits.of(self._subject.entry), target)
        line = raised_limit_line(target, value, self._subject.entry.limits)
        layer: DenialLayer = "programs" if row.of_programs else "files"
        return self._denial(kind, f"{target}: {limit_written(target, value)}", layer, line, row.refused)

    def _tell_destination(self, kind: AttemptKind, target: str) -> Denial | None:
        if not target:
            # A socket that could not even be made; with any rule, they can be.
            if self._rules or self._profile.serves:
                return None
            line, reason = self._line("net", TO_FILL_IN), f"{_NOT_GRANTED}; `self` is a loopback of its own"
            return self._denial(kind, _ANYWHERE, "network", line, reason)
        try:
            destination = parse_authority(target, DEFAULT_PORT)
        except NotAcceptedError:
            return None
        if self._leads_inside(destination) or any(rule.matches(destination) for rule in self._rules):
            return None
        if split_port(target)[1] is None and any(rule.names(destination.host) for rule in self._rules):
            return None  # it was only looked up, which says no port
        layer: DenialLayer = "egress" if self._rules else "network"
        return self._denial(kind, destination.text, layer, self._line(kind, destination.text), _NOT_GRANTED)

    def _tell_port(self, kind: AttemptKind, target: str) -> Denial | None:
        port = target.rpartition(":")[2]
        if not self._profile.serves:
            line = self._line("net", SELF) if self._profile.level in LEVELS_WITH_NAMESPACES else ""
            return self._denial(kind, target, "network", line, _NOT_GRANTED)
        if self._profile.network is None or port not in map(str, self._profile.network.ports):
            return None
        return self._denial(kind, target, "network", "", "granted hosts are reached by that port; take another")

    def _leads_inside(self, destination: Destination) -> bool:
        """Whether the host answers at this address, under a granted name or as the proxy, or the module itself."""
        host = destination.host
        if isinstance(host, IPv4Address) and self._is_names(host):
            return True
        network = self._profile.network
        is_local = isinstance(host, (IPv4Address, IPv6Address)) and host.is_loopback
        if network is None or self._profile.level in LEVELS_WITH_NAMESPACES:
            return is_local and self._profile.serves
        return is_local and destination.port in network.ports

    # -- the targets of attempts ------------------------------------------------------------------------------------

    def _explained(self, kind: Literal["run", "env"], target: str) -> Denial | None:
        from paddock.isolation.denials.explain import explain  # as above

        try:
            explanation = explain(self._subject, kind, target)
        except NotAcceptedError:
            return None
        return None if explanation.allowed else self._of(kind, target, explanation)

    def _of(self, kind: AttemptKind, target: str, found: Explanation) -> Denial:
        line = redacted_permissions_line(found.added) if found.added is not None else ""
        return self._denial(kind, target, cast(DenialLayer, found.layer), line, found.reason)

    def _line(self, family: str, grant: str) -> str:
        return line_for(self._subject.entry.permissions, family, grant)

    def _at(self, kind: AttemptKind, target: Path | str, place: Path | None, reason: str) -> Denial:
        """Return the denial of a file, with the line that grants a place, where one does."""
        line = "" if place is None else self._line(kind, self._subject.written_as(place))
        return self._denial(kind, str(target), "files", line, reason)

    def _denial(self, kind: AttemptKind, target: str, layer: DenialLayer, grant: str, reason: str) -> Denial:
        return Denial(_OPERATIONS[kind], target, self._subject.name, layer=layer, grant=grant, reason=reason)


def _meant(path: Path) -> Path:
    """Return the folder of a passing name, in which the file is made, else the path."""
    return path.parent if _PASSING_NAME.fullmatch(path.name) else path


def _is_in_shared(path: Path) -> bool:
    """Whether a path may be outside, in a folder of which modules have one of their own, by its first name there."""
    around = (folder for folder in map(Path, SHARED_FOLDERS) if path != folder and path.is_relative_to(folder))
    return any(path.relative_to(folder).parts[0] in _names_in(folder) for folder in around)


def _names_in(folder: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


def _may_be_program(path: Path) -> bool:
    """Whether a file in a granted folder, reached by no link, could be executed if that was granted."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def _is_program(name: str) -> bool:
    if look_up(name) is None:  # first, since `find` makes a hint of similar names, and a module may ask all the time
        return False
    try:
        Program.find(name)
    except NotAcceptedError:
        return False
    return True


class AttemptReview:
    """The attempts of one module, weighed against its grants.

    Args:
        deny: called with each denial about something that exists, and whether a call failed because of it.
        spawn: runs something beside everything else.
        budget: how many attempts are looked at.
        leave_out: called for each attempt beyond that, which is not looked at.
        judge: decides which were refused, and why.
    """

    def __init__(
        self,
        deny: Callable[[Denial, bool], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        budget: TokenBucket,
        leave_out: Callable[[], None],
        judge: AttemptJudge,
    ) -> None:
        self._judge = judge
        self._deny = deny
        self._spawn = spawn
        self._budget = budget
        self._leave_out = leave_out
        self._waiting: list[tuple[AccessAttempt, bool]] = []
        self._under_way = 0
        self._programs: dict[str, None] = {}
        self._settled = asyncio.Event()
        self._settled.set()

    def not_granted(self, attempts: Iterable[AccessAttempt]) -> list[Denial]:
        """Return what the module may know: which of these its grants do not cover. Nothing else is looked at."""
        denials = map(self._judge.tell, attempts)
        return [denial for denial in denials if denial is not None]

    def weigh(
        self, attempts: Iterable[AccessAttempt], *, has_failed: bool, now: float, is_cut_short: bool = False
    ) -> None:
        """Find out, as a task beside everything else, which attempts were refused something that exists.

        If the module `is_cut_short`, look for the files that it left, too: it may not have reported them.
        """
        if is_cut_short:
            self._waiting.append((_ALL_LEFT, False))
        for attempt in attempts:
            if len(self._waiting) < _MAX_WAITING and self._budget.admits(now):
                self._waiting.append((attempt, has_failed))
            else:
                self._leave_out()
        if self._waiting and self._settled.is_set():
            self._settled.clear()
            self._spawn(self._judge_waiting())

    @property
    def programs(self) -> tuple[str, ...]:
        """The names of programs that the module started, the first few: the kernel does not report their refusals."""
        return tuple(self._programs)

    async def settled(self) -> None:
        """Wait a while until no attempt waits to be looked at."""
        with anyio.move_on_after(_FINISH_SECONDS):
            await self._settled.wait()

    async def finish(self) -> None:
        """Wait a while until no attempt waits to be looked at; then count the rest as left out."""
        await self.settled()
        self.drop_waiting()

    def drop_waiting(self) -> None:
        """Count the attempts that still wait to be looked at as left out."""
        for _ in range(self._under_way + len(self._waiting)):
            self._leave_out()
        self._under_way = 0
        self._waiting.clear()

    async def _judge_waiting(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                self._under_way = len(waiting)
                # In a thread, and left there if it has to be: a file system may take as long as it likes.
                judged = await anyio.to_thread.run_sync(_judged, self._judge, waiting, abandon_on_cancel=True)
                self._under_way = 0
                for denial, has_failed in judged.denials:
                    self._deny(denial, has_failed)
                for name in judged.started:
                    if len(self._programs) < _MAX_PROGRAMS:
                        self._programs[name] = None
        finally:
            self._settled.set()


@dataclass(frozen=True, slots=True)
class _Judged:
    """The refusals among some attempts, with whether a call failed over each, and the programs that were started."""

    denials: tuple[tuple[Denial, bool], ...]
    started: tuple[str, ...]


def _judged(judge: AttemptJudge, waiting: list[tuple[AccessAttempt, bool]]) -> _Judged:
    judged: dict[AccessAttempt, tuple[Denial | None, bool]] = {}
    started: dict[str, None] = {}
    for attempt, has_failed in waiting:
        if attempt is _ALL_LEFT:  # itself: a worker may report an equal one
            waiting.extend((one, False) for one in judge.left())
        elif attempt in judged:
            known, had_failed = judged[attempt]
            judged[attempt] = known, had_failed or has_failed
        else:
            try:
                judged[attempt] = judge.judge(attempt), has_failed
                if name := judge.started(attempt):
                    started[name] = None
            except Exception:  # no call fails over advice
                _log.exception("an attempt of a module could not be explained")
    denials = (
        (replace(denial, seen_by="module"), has_failed) for denial, has_failed in judged.values() if denial is not None
    )
    return _Judged(tuple(denials), tuple(started))
