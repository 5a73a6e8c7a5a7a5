"""What the operator accepted is kept as a whole or not at all, for one plan as it was, and for nobody else to write."""

from __future__ import annotations

import os
import select
import stat
import subprocess
import sys
import tempfile
import textwrap
from ast import literal_eval
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from paddock.errors import PolicyFileError, render
from paddock.plan.permissions import Permissions
from paddock.policy.files.accepted_plans import AcceptedGrant, AcceptedPlan
from paddock.policy.files.grants import GrantsFile, GrantsNotKeptError
from paddock.policy.pins import MovedPin, Pin
from paddock_sources.manifest import permission_request
from support.rows import each_row

from .entries import owner

PATHS = [path for path in sys.path if path]


def found_in(file: GrantsFile, wanted: str) -> AcceptedPlan | None:
    return next((one for one in file.all() if one.digest == wanted), None)


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


@pytest.fixture
def file(tmp_path: Path) -> GrantsFile:
    tmp_path.chmod(0o700)
    return GrantsFile(owner(), tmp_path / "config" / "paddock" / "grants.toml")


GRANTS = (
    AcceptedGrant("tools[0]", "builtin:tool-filesystem", Permissions(preset="workspace")),
    AcceptedGrant(
        "providers[0]",
        'git+https://example.org/a"b',
        Permissions.model_validate(
            {
                "net": ["api.example.org:443"],
                "secrets": ["PLAIN", {"name": "KEY", "inject": "api.example.org"}],
                "env": ["KEY=${KEY}", "QUOTED=a \"b\" 'c' \\ d"],
            }
        ),
    ),
    AcceptedGrant("hooks[0]", "/home/me/ünïcode", Permissions()),
)


def test_without_a_file_nothing_was_accepted(file: GrantsFile) -> None:
    assert file.all() == ()
    assert found_in(file, digest(1)) is None
    assert file.forget("/home/me/plan.yaml") == ()
    assert not file.path.parent.exists()


def test_an_acceptance_is_found_by_digest_with_its_lines(file: GrantsFile) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    accepted = file.accept(digest(1), "/home/me/plan.yaml", GRANTS)
    found = found_in(file, digest(1))
    assert found == accepted
    assert (found.plan, found.short_digest) == ("/home/me/plan.yaml", "0" * 12)
    assert before <= found.accepted_at <= datetime.now(UTC)
    assert [(one.place, one.source, one.permissions) for one in found.grants] == [
        (one.place, one.source, one.permissions) for one in GRANTS
    ]
    lines = file.path.read_text().splitlines()
    assert found.line is not None and lines[found.line - 1] == "[[plan]]"
    for one in found.grants:
        assert one.line is not None and f'at = "{one.place}"' in lines[one.line - 1]
    assert found_in(file, digest(2)) is None


def test_an_acceptance_has_the_version_of_the_presets(file: GrantsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permission_request, "PRESETS_VERSION", 1)
    file.accept(digest(1), "/a", GRANTS)
    assert "presets =" not in file.path.read_text(), "a Paddock without versions reads it"
    newer = {**permission_request.PRESETS, "shell": {1: {}, 2: {"read": (".",)}}}
    monkeypatch.setattr(permission_request, "PRESETS", newer)
    monkeypatch.setattr(permission_request, "PRESETS_VERSION", 2)
    file.accept(digest(2), "/b", GRANTS)
    file.accept_pins(digest(1), [])
    assert [(one.plan, one.presets) for one in file.all()] == [("/a", 1), ("/b", 2)]


def test_a_grant_is_for_a_place_and_the_source_its_code_came_from(file: GrantsFile) -> None:
    accepted = file.accept(digest(1), "", GRANTS)
    found = accepted.grant_for("tools[0]", "builtin:tool-filesystem")
    assert found is not None and found.permissions == Permissions(preset="workspace")
    assert accepted.grant_for("tools[0]", "/tmp/another") is None
    assert accepted.grant_for("tools[1]", "builtin:tool-filesystem") is None


def test_the_file_and_its_folder_are_the_users_alone(file: GrantsFile) -> None:
    file.accept(digest(1), "")
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    file.path.parent.chmod(0o755)
    file.path.chmod(0o644)
    file.accept(digest(2), "")
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700


def test_accepting_again_takes_the_place_of_what_was_accepted_before(file: GrantsFile) -> None:
    file.accept(digest(1), "/a", GRANTS)
    file.accept(digest(1), "/a", GRANTS[:1])
    (found,) = file.all()
    assert len(found.grants) == 1


def test_forgetting_a_plan_leaves_the_others_accepted(file: GrantsFile) -> None:
    for number, plan in enumerate(("/0", "/1", "/2", "/1")):
        file.accept(digest(number), plan, GRANTS)
    assert [one.digest for one in file.forget("/1")] == [digest(1), digest(3)]
    assert [one.digest for one in file.all()] == [digest(0), digest(2)]
    assert file.forget("/1") == ()
    assert file.forget("/0") and file.forget("/2")
    assert file.all() == ()
    file.accept(digest(5), "/5", GRANTS)
    assert [one.digest for one in file.all()] == [digest(5)]


def test_of_the_versions_of_one_plan_the_latest_are_kept(file: GrantsFile) -> None:
    file.accept(digest(100), "/other.yaml")
    for number in range(12):
        file.accept(digest(number), "/plan.yaml")
    kept = [one.digest for one in file.all()]
    assert digest(100) in kept and digest(11) in kept
    assert len(kept) == 9


WRITTEN = textwrap.dedent(
    """\
    # mine
    [[plan]]    # the old one
    digest = "sha256:{0:064x}"
    plan = '/old.yaml'   # where it was
    accepted_at = 2026-01-02T03:04:05+01:00
    grants = [
        # reads only
        {{at = "tools[0]", source = "builtin:x", permissions = "workspace-read"}},   # so far
    ]

    # between
    [[plan]]
    digest = "sha256:{1:064x}"
    plan = "/new.yaml"
    accepted_at = 2026-01-02T03:04:05Z

    # the end
    """
)


def written(file: GrantsFile, text: str) -> None:
    file.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file.path.write_text(text)
    file.path.chmod(0o600)


def test_comments_and_the_form_of_what_a_person_wrote_stay(file: GrantsFile) -> None:
    text = WRITTEN.format(1, 2)
    written(file, text)
    file.accept(digest(3), "/third.yaml", GRANTS)
    now = file.path.read_text()
    assert now.startswith(text.rstrip("\n"))
    assert [one.digest for one in file.all()] == [digest(1), digest(2), digest(3)]
    file.forget("/new.yaml")
    now = file.path.read_text()
    assert "# mine" in now and "# reads only" in now and 'permissions = "workspace-read"}},'.replace("}}", "}") in now
    assert [one.digest for one in file.all()] == [digest(1), digest(3)]


def test_a_link_to_the_file_stays_one(file: GrantsFile, tmp_path: Path) -> None:
    elsewhere = tmp_path / "dotfiles"
    elsewhere.mkdir(mode=0o700)
    file.path.parent.mkdir(parents=True, mode=0o700)
    (elsewhere / "grants.toml").touch(0o600)
    file.path.symlink_to(elsewhere / "grants.toml")
    file.accept(digest(1), "/a")
    assert file.path.is_symlink()
    assert digest(1) in (elsewhere / "grants.toml").read_text()


# -- what is not understood, and not believed


@each_row(
    ("text", "line", "said"),
    [
        ("[[plan]\n", 1, "not TOML"),
        ("plan = 5", 1, "must be a list"),
        ("[[plan]]\ndigest = 'x'\nplan = '/a'\naccepted_at = 2026-01-01T00:00:00Z", 2, ""),
        ("[[plan]]\nplan = '/a'\naccepted_at = 2026-01-01T00:00:00Z", 1, "`digest` is missing"),
        ("{start}\ngrantz = []", 5, "did you mean `grants`?"),
        ("{start}\ngrants = [{at = 'a', source = 'b', permissions = 'workspce'}]", 5, "is not a preset"),
        ("{start}\ngrants = [{at = 'a', source = 'b', permissions = {net = ['*']}}]", 5, "`*` is every host"),
        ("{start}\ngrants = [{at = 'a', source = 'b', permissions = {nett = []}}]", 5, "did you mean `net`?"),
        ("{start}\ngrants = [{at = 'a', permissions = 'shell'}]", 5, "`source` is missing"),
        ("[[plan]]\ndigest = 'x'\naccepted_at = 2026-13-01T00:00:00Z", 3, "not TOML"),
        ("{start}\npresets = 0", 5, "presets"),
        ("other = 1", 1, "unknown key `other`"),
        ("a = " + "[" * 5000, None, ""),
    ],
)
def test_a_corrupt_file_is_an_error_and_not_an_empty_one(
    file: GrantsFile, text: str, line: int | None, said: str
) -> None:
    start = f"[[plan]]\ndigest = '{digest(1)}'\nplan = '/a'\naccepted_at = 2026-01-01T00:00:00Z"
    written(file, start)
    assert found_in(file, digest(1)) is not None
    broken = text.replace("{start}", start)
    written(file, broken)
    for act in (file.all, lambda: found_in(file, digest(1)), lambda: file.accept(digest(2), "/b")):
        with pytest.raises(PolicyFileError) as caught:
            act()
        told = render(caught.value)
        assert said in told and str(file.path) in told and "you are then asked again" in told
        if line is not None:
            assert caught.value.problems[0].line == line
    assert file.path.read_text() == broken


@pytest.mark.parametrize(
    ("place", "mode"), [("grants.toml", 0o602), ("grants.toml", 0o660), ("../paddock", 0o777), ("../../config", 0o777)]
)
def test_a_file_that_others_may_write_is_not_believed(file: GrantsFile, place: str, mode: int) -> None:
    file.accept(digest(1), "/a")
    assert found_in(file, digest(1)) is not None
    (file.path.parent / place).chmod(mode)
    with pytest.raises(PolicyFileError) as caught:
        found_in(file, digest(1))
    assert "chmod go-w" in render(caught.value)
    assert caught.value.exit_code == 4


# -- others at the same time, and ends in the middle


def _process(code: str, *args: object, **options: object) -> subprocess.Popen[bytes]:
    program = f"import sys; sys.path[:0] = {PATHS!r}\n" + textwrap.dedent(code)
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-I", "-c", program, *map(str, args)], stderr=subprocess.PIPE, **options
    )


_ACCEPT = """
import os
from pathlib import Path
from paddock.policy.files.grants import GrantsFile
from paddock.policy.owner import Owner
path, count, *firsts = Path(sys.argv[1]), *map(int, sys.argv[2:])
for first in firsts:
    if os.fork() == 0:
        file = GrantsFile(Owner(os.geteuid(), Path("/")), path)
        for number in range(first, first + count):
            file.accept(f"sha256:{number:064x}", f"/{number}.yaml")
        os._exit(0)
assert [os.wait()[1] for first in firsts] == [0, 0, 0]
"""


@pytest.mark.costly
def test_of_three_who_accept_at_the_same_time_none_loses_anything(file: GrantsFile) -> None:
    firsts = (100, 200, 300)
    process = _process(_ACCEPT, file.path, 8, *firsts)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors.decode()
    expected = {digest(first + number) for first in firsts for number in range(8)}
    assert {one.digest for one in file.all()} == expected


_DIE = """
import os, signal
from pathlib import Path
from paddock.policy.files.grants import GrantsFile
from paddock.policy.owner import Owner
real_fsync, real_replace = os.fsync, os.replace

def die(*args, **options):
    os.kill(os.getpid(), signal.SIGKILL)

def fsync_of_half(descriptor):
    os.ftruncate(descriptor, 20)
    die()

ends = {
    "half": lambda: setattr(os, "fsync", fsync_of_half),
    "before": lambda: setattr(os, "replace", die),
    "after": lambda: setattr(os, "replace", lambda *paths: (real_replace(*paths), die())),
}
for step in ends:
    if os.fork() == 0:
        ends[step]()
        path = Path(sys.argv[1]) / step / "grants.toml"
        GrantsFile(Owner(os.geteuid(), Path("/")), path).accept("sha256:" + 64 * "f", "/f.yaml")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL, step
"""


@pytest.mark.costly
def test_a_killed_writer_leaves_a_whole_file_and_no_waiter(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    files = {step: GrantsFile(owner(), tmp_path / step / "grants.toml") for step in ("half", "before", "after")}
    for file in files.values():
        file.accept(digest(1), "/1.yaml", GRANTS)
    process = _process(_DIE, tmp_path)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors.decode()
    for step, file in files.items():
        new = {f"sha256:{64 * 'f'}"} if step == "after" else set()
        assert {one.digest for one in file.all()} == {digest(1)} | new, step
        file.accept(digest(2), "/2.yaml")
        assert found_in(file, digest(2)) is not None and found_in(file, digest(1)) is not None, step
        assert sorted(path.name for path in file.path.parent.iterdir()) == ["grants.toml", "grants.toml.lock"], step


def test_a_lock_that_is_never_released_is_reported(file: GrantsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.policy.files.grants._LOCK_SECONDS", 0.2)
    file.accept(digest(1), "/1.yaml")
    code = """
    import fcntl
    lock = open(sys.argv[1], "r+")
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
    """
    holder = _process(code, f"{file.path}.lock", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(GrantsNotKeptError, match="another process"):
            file.accept(digest(2), "/2.yaml")
    finally:
        holder.communicate(timeout=60)
    assert [one.digest for one in file.all()] == [digest(1)]


_ACCEPT_AND_TELL = """
import os
from pathlib import Path
import encodings.utf_8_sig, importlib.metadata, filelock, tomlkit  # imported later, they would not be found
from paddock.errors import PaddockError, render
from paddock.policy.files.grants import GrantsFile
from paddock.policy.owner import Owner
path = Path(sys.argv[1])
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
for number in sys.stdin:
    try:
        GrantsFile(Owner(os.geteuid(), Path("/")), path).accept(f"sha256:{int(number):064x}", "/plan.yaml")
        print("''", flush=True)
    except PaddockError as error:
        print(repr(f"{type(error).__name__} {render(error)}"), flush=True)
"""


def test_a_folder_that_cannot_be_written_to_is_told_and_nothing_is_changed() -> None:
    """As somebody whom permissions bind: root, which they do not, becomes a user for it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made, ExitStack() as stack:
        folder = Path(made)
        path = folder / "grants.toml"
        if os.geteuid() == 0:
            os.chown(folder, 65534, 65534)

        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = stack.enter_context(_process(_ACCEPT_AND_TELL, path, **pipes))
        stack.callback(process.kill)

        def told(number: int) -> str:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(b"%d\n" % number)
            process.stdin.flush()
            assert select.select([process.stdout], [], [], 60)[0]
            return str(literal_eval(process.stdout.readline().decode()))

        assert told(1) == ""
        before = path.read_text()
        for lock_is_there in (True, False):
            if not lock_is_there:
                folder.chmod(0o700)
                (folder / "grants.toml.lock").unlink()
            folder.chmod(0o500)
            answer = told(2)
            assert answer.startswith("GrantsNotKeptError"), answer
            assert "permission denied" in answer and "--trust-plan" in answer
            assert path.read_text() == before
        folder.chmod(0o700)
        assert told(2) == ""


def test_a_path_below_a_file_is_told(file: GrantsFile, tmp_path: Path) -> None:
    (tmp_path / "config").touch()
    with pytest.raises(GrantsNotKeptError, match="cannot be written"):
        file.accept(digest(1), "/a")


def pin(commit: str, source: str = "git+https://a.example/x@main") -> Pin:
    return Pin(source, commit, "sha256:" + sha256(commit.encode()).hexdigest(), ("httpx 0.28.1",))


def test_pins_are_kept_with_a_plan_and_change_in_their_place(file: GrantsFile, tmp_path: Path) -> None:
    written(file, WRITTEN.format(1, 2).replace("/old.yaml", f"{tmp_path}/plan.yaml"))
    assert [one.pins for one in file.all()] == [None, None]  # as older versions wrote them
    file.accept_pins(digest(1), [MovedPin(pin("a").source, None, pin("a"))])
    file.renew_pins(tmp_path, [MovedPin(pin("a").source, pin("a"), pin("b"))])
    assert [one.pins for one in file.all()] == [(pin("b"),), None]
    now = file.path.read_text()
    assert all(said in now for said in ("# mine", "# the old one", "# reads only", "# between", "# the end"))


def test_pins_are_renewed_where_they_were_accepted_and_nowhere_else(file: GrantsFile, tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    file.accept(digest(1), f"{here}/plan.yaml", pins=[pin("a")])
    file.accept(digest(2), f"{here}/other.yaml", pins=[pin("moved by somebody")])
    file.accept(digest(3), f"{elsewhere}/plan.yaml", pins=[pin("a")])
    file.accept(digest(4), "", pins=[pin("a")])
    file.accept(digest(5), f"{here}/third.yaml")
    file.renew_pins(here, [MovedPin(pin("a").source, pin("a"), pin("b"))])
    assert [one.pins for one in file.all()] == [
        (pin("b"),),
        (pin("moved by somebody"),),
        (pin("a"),),
        (pin("a"),),
        None,
    ]
