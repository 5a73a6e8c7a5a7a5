"""Secrets come from variables, files and commands that only the operator decides on; no value gets into an error."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import PaddockError, PolicyFileError, render
from paddock.plan.load import load_plan
from paddock.policy.secrets.command import MAX_BYTES, NoSecretError, run_secret_command
from paddock.policy.secrets.store import SecretError, SecretSources

VALUE = "v3ry-s3cret-value"
PRINTS = f"import sys; sys.stdout.write({VALUE!r})"

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def python(code: str) -> str:
    """Return a command, as the file has it, that runs some Python."""
    return json.dumps([sys.executable, "-I", "-c", code])


def sources(home: Path, text: str | None = None, environ: Mapping[str, str] | None = None) -> SecretSources:
    if text is not None:
        file_in(home).write_text(text)
        file_in(home).chmod(0o644)
    return SecretSources.load({"PATH": "/usr/bin:/bin", "HOME": str(home), **(environ or {})})


def file_in(home: Path) -> Path:
    folder = home / ".config" / "paddock"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / "secrets.toml"


def private(path: Path, content: str | bytes = VALUE + "\n", mode: int = 0o600) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path


def everything_told_by(error: BaseException) -> str:
    """Return all that an error and those before it say, as text and as they are shown to whoever looks for defects."""
    told = []
    seen: BaseException | None = error
    while seen is not None:
        told += [str(seen), repr(seen), repr(seen.args), repr(vars(seen)), render(seen)]
        seen = seen.__cause__ or seen.__context__
    return "\n".join(told)


# -- where a value is


async def test_a_variable_of_the_environment_is_a_secret_by_its_name(home: Path) -> None:
    assert await sources(home, None, {"KEY": VALUE}).fetch(["KEY"]) == {"KEY": VALUE}


@pytest.mark.parametrize(
    "written",
    [
        'env = "OTHER"',
        'file = "~/key"',
        f"command = {python(PRINTS)}",
        f"command = {python(PRINTS + '; print()')}",
        "command = ['cat', '{home}/key']",
    ],
)
async def test_the_secrets_file_goes_before_the_environment(home: Path, written: str) -> None:
    private(home / "key")
    found = sources(
        home, f"[KEY]\n{written}".replace("{home}", str(home)), {"OTHER": VALUE, "KEY": "of the environment"}
    )
    assert await found.fetch({"KEY": "providers[0].config.key"}) == {"KEY": VALUE}


async def test_knowing_a_secret_runs_no_command(home: Path) -> None:
    found = sources(home, f"[KEY]\ncommand = ['touch', '{home}/ran']", {"OTHER": "x"})
    assert "KEY" in found and "OTHER" in found and "ANOTHER" not in found
    assert not (home / "ran").exists()
    with pytest.raises(SecretError, match="it is empty"):
        await found.fetch(["KEY"])
    assert (home / "ran").exists()


async def test_a_command_is_run_once(home: Path) -> None:
    found = sources(home, f"[KEY]\ncommand = ['sh', '-c', 'echo x >> {home}/ran; echo {VALUE}']")
    for _ in range(2):
        assert await found.fetch(["KEY"]) == {"KEY": VALUE}
    assert (home / "ran").read_text() == "x\n"


async def test_secrets_are_got_at_the_same_time(home: Path) -> None:
    # Each waits for the other to have begun.
    for one, other in (("a", "b"), ("b", "a")):
        os.mkfifo(home / f"{one}{other}")
    text = "".join(
        f"[{one.upper()}]\ncommand = ['sh', '-c', 'echo x > {home}/{first}; cat {home}/{second}']\n"
        for one, first, second in (("a", "ab", "ba"),)
    )
    text += f"[B]\ncommand = ['sh', '-c', 'cat {home}/ab; echo y > {home}/ba']\n"
    with anyio.fail_after(60):
        assert await sources(home, text).fetch(["A", "B"]) == {"A": "y", "B": "x"}


async def test_a_link_to_a_file_of_ones_own_is_followed(home: Path) -> None:
    private(home / "real")
    (home / "key").symlink_to("real")
    assert await sources(home, '[KEY]\nfile = "~/key"').fetch(["KEY"]) == {"KEY": VALUE}


# -- commands


async def test_a_secret_command_has_no_shell_terminal_or_input(home: Path) -> None:
    code = (
        "import os, sys\n"
        "try: os.open('/dev/tty', os.O_RDWR); tty = 'tty'\n"
        "except OSError: tty = 'none'\n"
        "print(os.environ['MINE'], tty, repr(sys.stdin.read()), os.getcwd(), sys.argv[1])"
    )
    command = json.dumps([sys.executable, "-I", "-c", code, "$HOME `id`"])
    found = await sources(home, f"[KEY]\ncommand = {command}", {"MINE": "mine"}).fetch(["KEY"])
    assert found == {"KEY": f"mine none '' {home} $HOME `id`"}


async def test_a_program_is_not_looked_for_in_the_folder_we_are_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private(home / "getkey", "#!/bin/sh\necho bad\n", 0o755)
    monkeypatch.chdir(home)
    for path in ("", ".", ":.", "./:/usr/bin"):
        with pytest.raises(SecretError, match="there is no program `getkey`"):
            await sources(home, "[KEY]\ncommand = ['getkey']", {"PATH": path}).fetch(["KEY"])
    found = sources(home, "[KEY]\ncommand = ['getkey']", {"PATH": f"/usr/bin:{home}"})
    assert await found.fetch(["KEY"]) == {"KEY": "bad"}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-program-at-all"], "there is no program `no-such-program-at-all` in `/usr/bin`, `/bin`"),
        (["/no/such/program"], "`/no/such/program` is no program"),
        (["bin/getkey"], "is a relative path"),
        (["sh", "-c", "echo wrong passphrase >&2; exit 3"], "`sh` ended with status 3: wrong passphrase"),
        (["sh", "-c", "echo one >&2; echo two >&2; echo >&2; exit 1"], "status 1: two"),
        (["sh", "-c", f"echo {VALUE}; echo {VALUE} is bad >&2; exit 1"], "status 1: … is bad"),
        (["sh", "-c", "kill -SEGV $$"], "was ended by signal 11"),
        (["sh", "-c", f"printf '{VALUE}\\377'"], "it prints no UTF-8 text"),
        (["sh", "-c", f"printf '{VALUE}\\000'"], "null character"),
        (["true"], "it is empty"),
        (["sh", "-c", f"yes {VALUE}"], "prints more than 64 KiB"),
        (["sh", "-c", f"echo {VALUE}; yes complaint | head -c 999999 >&2; exit 9"], "status 9: complaint"),
    ],
)
async def test_a_command_that_gives_no_secret_says_why_and_not_what_it_printed(
    home: Path, command: list[str], said: str
) -> None:
    found = sources(home, f"[KEY]\ncommand = {json.dumps(command)}")
    with pytest.raises(SecretError) as caught, anyio.fail_after(60):
        await found.fetch(["KEY"])
    told = everything_told_by(caught.value)
    assert said in told and f"{file_in(home)}:1" in told
    assert VALUE not in told


async def test_a_host_without_descriptors_says_so_of_each_secret(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pidfd_open", exhausted)
    found = sources(home, "[KEY]\ncommand = ['echo', 'x']\n[OTHER]\ncommand = ['echo', 'x']")
    with pytest.raises(SecretError) as caught, anyio.fail_after(60):
        await found.fetch(["KEY", "OTHER"])
    assert [problem.path for problem in caught.value.problems] == ["KEY", "OTHER"]
    assert all("too many open files" in problem.message for problem in caught.value.problems)


async def test_a_defect_is_told_as_what_it_is(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr("paddock.policy.secrets.store.run_secret_command", fail)
    with pytest.raises(ZeroDivisionError):
        await sources(home, "[KEY]\ncommand = ['echo', 'x']").fetch(["KEY"])


async def test_a_command_ends_in_time_with_all_of_its_group(home: Path) -> None:
    os.mkfifo(home / "alive")
    argv = ["sh", "-c", f"(exec sleep 600 > {home}/alive) & echo {VALUE}; echo unlock first >&2; sleep 600"]
    with pytest.raises(NoSecretError) as caught, _reader_of(home / "alive") as is_at_its_end:
        await run_secret_command(argv, {"PATH": "/usr/bin:/bin"}, home, timeout=0.5)
    assert "had not ended after 0.5 s: unlock first" in caught.value.problem
    assert "no terminal" in caught.value.hint
    assert is_at_its_end()


async def test_a_command_that_reads_its_own_output_holds_nothing_up(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def readable_until_the_command_took_it(pipe: object) -> None:
        await anyio.sleep(0.01)

    monkeypatch.setattr("paddock.policy.secrets.command.anyio.wait_readable", readable_until_the_command_took_it)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_secret_command, ["sleep", "3"], {"PATH": "/usr/bin:/bin"}, home)
        begun = anyio.current_time()
        await anyio.sleep(0.3)
        assert anyio.current_time() - begun < 2
        tasks.cancel_scope.cancel()


class _reader_of:
    """Reads what processes hold open for writing: at its end, none of them is left."""

    def __init__(self, fifo: Path) -> None:
        self._descriptor = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)

    def __enter__(self) -> Callable[[], bool]:
        return self._is_at_its_end

    def __exit__(self, *exc_info: object) -> None:
        pass

    def _is_at_its_end(self) -> bool:
        deadline = time.monotonic() + 60
        try:
            while time.monotonic() < deadline:
                try:
                    if os.read(self._descriptor, 1) == b"":
                        return True
                except BlockingIOError:
                    time.sleep(0.01)
            return False
        finally:
            os.close(self._descriptor)


@pytest.mark.costly
async def test_what_a_command_leaves_running_does_not_keep_us_waiting(home: Path) -> None:
    os.mkfifo(home / "left")
    argv = ["sh", "-c", f"(setsid sh -c 'read line < {home}/left' &) ; echo {VALUE}"]
    assert await run_secret_command(argv, {"PATH": "/usr/bin:/bin"}, home) == f"{VALUE}\n".encode()
    with (home / "left").open("w") as left:  # opened once somebody reads: it is still running
        left.write("go\n")


async def test_a_command_is_ended_when_its_wait_is_cancelled(home: Path) -> None:
    os.mkfifo(home / "alive")
    reader = _reader_of(home / "alive")
    found = sources(home, f"[KEY]\ncommand = ['sh', '-c', 'exec > {home}/alive; touch {home}/begun; sleep 600']")
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(found.fetch, ["KEY"])
            while not (home / "begun").exists():
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    assert reader._is_at_its_end()


async def test_the_largest_output_is_taken_whole(home: Path) -> None:
    argv = [sys.executable, "-I", "-c", f"print('x' * {MAX_BYTES}, end='')"]
    assert len(await run_secret_command(argv, {}, home)) == MAX_BYTES


# -- files


def _a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir(mode=0o700)


def _a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize(
    ("spoil", "said", "fix"),
    [
        (lambda path: path.chmod(0o640), "others than you may read it or more (mode 0640)", "chmod go-rwx"),
        (lambda path: path.chmod(0o604), "(mode 0604)", "chmod go-rwx"),
        (lambda path: path.chmod(0o602), "(mode 0602)", "chmod go-rwx"),
        (lambda path: path.parent.chmod(0o777), "could put another", "chmod go-w"),
        (lambda path: path.unlink(), "it does not exist", "make it"),
        (_a_folder, "is not a regular file", ""),
        (_a_fifo, "is not a regular file", ""),
        (lambda path: path.write_text("\n\n"), "it is empty", ""),
        (lambda path: path.write_bytes(VALUE.encode() + b"\xff"), "not UTF-8 text", ""),
        (lambda path: path.write_text(VALUE * MAX_BYTES), "larger than 64 KiB", ""),
    ],
)
async def test_a_file_that_is_not_ones_own_alone_or_holds_no_secret_is_refused(
    home: Path, spoil: Callable[[Path], None], said: str, fix: str
) -> None:
    folder = home / "keys"
    folder.mkdir(mode=0o700)
    path = private(folder / "key")
    text = '[KEY]\nfile = "~/keys/key"'
    assert await sources(home, text).fetch(["KEY"]) == {"KEY": VALUE}
    spoil(path)
    with pytest.raises(SecretError) as caught, anyio.fail_after(60):
        await sources(home, text).fetch(["KEY"])
    told = everything_told_by(caught.value)
    assert said in told and fix in told and "file `~/keys/key`" in told
    assert VALUE not in told


# -- what is missing


async def test_an_unknown_module_is_reported_with_places_and_remedy(home: Path) -> None:
    plan_file = home / "plan.yaml"
    plan_file.write_text(
        "session: {orchestrator: loop-basic, context: context-simple}\n"
        "providers:\n"
        "  - module: provider-a\n"
        "    config:\n"
        "      key: ${KEY}\n"
        "    permissions: {secrets: [KEY, EMPTY]}\n"
    )
    plan = load_plan(plan_file)
    found = sources(home, "[OTHER]\nenv = 'GONE'", {"EMPTY": ""})
    with pytest.raises(SecretError) as caught:
        await found.fetch(
            {"KEY": "providers[0].config.key", "EMPTY": "providers[0].permissions", "OTHER": ""},
            positions=plan.positions,
        )
    error = caught.value
    assert error.exit_code == 1
    assert [problem.line for problem in error.problems] == [5, 6, None]
    told = render(error)
    assert f"{plan_file}:5: providers[0].config.key: secret `KEY` is nowhere" in told
    assert f"variable `KEY` is not set, and `{file_in(home)}` has no [KEY]" in told
    assert "variable `EMPTY` is empty" in told
    assert f"environment variable `GONE`, by {file_in(home)}:1: it is not set" in told
    assert "`read -rs KEY && export KEY`" in told and "`paddock help secrets`" in told


# -- the file that says where they are


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("KEY = 'v3ry-s3cret-value'", "KEY", "must be a table, is text"),
        ("[KEY]", "KEY", "says no way"),
        ("[KEY]\nenv = 'A'\nfile = '/b'", "KEY", "more than one way"),
        ("[KEY]\nvalue = 'v3ry-s3cret-value'", "KEY", "unknown key `value`"),
        ("[KEY]\nenv = 'v3ry-s3cret-value'", "KEY", "not the name of an environment variable"),
        ("[KEY]\nfile = 'v3ry-s3cret-value'", "KEY", "relative path"),
        ("[KEY]\nfile = 5", "KEY", "must be text"),
        ("[KEY]\ncommand = 'pass show v3ry-s3cret-value'", "KEY", "must be a list, is text"),
        ("[KEY]\ncommand = []", "KEY", "must be a list of a program"),
        ("[KEY]\ncommand = ['']", "KEY", "names no program"),
        ("[KEY]\ncommand = ['a', 5]", "KEY", "must be a list of a program"),
        ("['a b']\nenv = 'A'", '["a b"]', "not the name of a secret"),
        ("[KEY\n", "", "not TOML"),
        ("[KEY]\nenv = 'A'\n[KEY]\nenv = 'B'", "", "not TOML"),
        ("a = " + "[" * 5000, "", ""),
    ],
)
def test_a_file_that_says_something_else_is_refused_with_its_line(home: Path, text: str, place: str, said: str) -> None:
    with pytest.raises(PolicyFileError) as caught:
        sources(home, f"{text}\n[GOOD]\nenv = 'X'\n")
    (problem,) = caught.value.problems
    assert said in problem.message
    assert problem.path == place or not place or place.strip('[]"') in problem.path
    assert caught.value.exit_code == 4
    assert VALUE not in everything_told_by(caught.value)


def test_all_that_is_wrong_in_it_is_told_at_once(home: Path) -> None:
    with pytest.raises(PolicyFileError) as caught:
        sources(home, "[A]\n\n[B]\nenv = 5\n[C]\nenv = 'X'\n")
    assert [(problem.path, problem.line) for problem in caught.value.problems] == [("A", 1), ("B", 3)]


@pytest.mark.parametrize("mode", [0o666, 0o662, 0o620])
def test_a_file_that_others_may_write_is_not_believed(home: Path, mode: int) -> None:
    text = '[KEY]\nenv = "OTHER"'
    assert "KEY" in sources(home, text)
    file_in(home).chmod(mode)
    with pytest.raises(PolicyFileError, match="can be written by others"):
        sources(home)


async def test_the_file_is_found_in_the_users_own_configuration(home: Path) -> None:
    file_in(home).write_text('[KEY]\nenv = "OTHER"')
    file_in(home).chmod(0o600)
    environ = {"OTHER": VALUE, "HOME": "/nowhere", "XDG_CONFIG_HOME": str(home / ".config")}
    assert await SecretSources.load(environ).fetch(["KEY"]) == {"KEY": VALUE}


# -- nothing leaks


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("shared")
    folder.chmod(0o700)
    yield folder


_WORDS = re.compile(r"[a-z0-9 .,:/_'-]*")  # what any error may say of itself


@settings(max_examples=25, deadline=None)
@given(
    value=st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=6).filter(
        lambda text: len(set(text.strip())) > 4 and not text.isspace() and not _WORDS.fullmatch(text)
    ),
    failure=st.sampled_from(["exit 1", "exit 0; printf '\\377'", "kill -9 $$"]),
)
def test_no_value_is_in_anything_an_error_says(shared_home: Path, value: str, failure: str) -> None:
    private(shared_home / "key", value)
    command = ["sh", "-c", f"cat {shared_home}/key; printf '\\000'; {failure}"]
    found = sources(
        shared_home,
        f"[A]\ncommand = {json.dumps(command)}\n[B]\nfile = '{shared_home}/key'\n[C]\nenv = 'V'\n",
        {"V": value + "\udcff"},
    )
    shown = [repr(found), str(found), *map(found.where, "ABC")]
    for name, spoil in (("A", 0o600), ("B", 0o644), ("C", 0o600)):
        (shared_home / "key").chmod(spoil)
        with pytest.raises(PaddockError) as caught:
            anyio.run(found.fetch, [name])
        shown.append(everything_told_by(caught.value))
    assert value not in "\n".join(shown)
