from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from failures import failing
from paddock_sources.cache import SourceCache
from paddock_sources.commands.command_runner import CommandAccess, CommandResult, CommandRunner, CommandSession
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.constraints import Constraint
from paddock_sources.environment.builder import Environments
from paddock_sources.environment.errors import InstallerError
from paddock_sources.environment.index import Index
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.locked import LockedDistribution, installed
from paddock_sources.environment.requirements import Requirements
from paddock_sources.environment.task import Task
from paddock_sources.environment.uv import Uv
from paddock_sources.progress import Progress, ProgressStep, SilentProgress
from sources.index_server import IndexServer, wheel
from sources.warm.warm_runner import WarmRunner


class Bench:
    """Resolves and installs with one index."""

    def __init__(self, cache: SourceCache, index: Index, python: Interpreter, runner: CommandRunner) -> None:
        self.cache = cache
        self.runner = runner
        self.index = index
        self.python = python
        self.uv = Uv.find({})
        self.reaches: list[CommandAccess] = []
        self.progress: Progress = SilentProgress()

    def open(self, reach: CommandAccess):  # type: ignore[no-untyped-def]
        self.reaches.append(reach)
        return self.runner.open(reach)

    def resolve(
        self, *lines: str, within: Sequence[str] = (), given: Mapping[str, str] | None = None, **versions: str
    ) -> tuple[LockedDistribution, ...]:
        bounds = [Constraint.parse(one, "plan.yaml:7") for one in within]
        needs = Requirements("tool-demo", "1", lines)
        return self._environments.resolve(needs, constraints=versions, bounds=bounds, provided=given)

    def install(self, *locked: LockedDistribution) -> Path:
        return self._environments.install(locked)

    @property
    def _environments(self) -> Environments:
        return Environments(self.cache, self, self.index, self.python, self.progress, self.uv)


@pytest.fixture
def bench(cache: SourceCache, index: Index, python: Interpreter, runner: WarmRunner) -> Bench:
    return Bench(cache, index, python, runner)


@pytest.fixture
def fresh(tmp_path: Path, index: Index, python: Interpreter, runner: WarmRunner) -> Bench:
    return Bench(SourceCache(tmp_path / "cache"), index, python, runner)


def pinned(server: IndexServer, name: str, version: str = "1.0") -> LockedDistribution:
    return LockedDistribution(name, version, server.hashes_of(name, version))


def versions(locked: tuple[LockedDistribution, ...]) -> dict[str, str]:
    return {one.name: one.version for one in locked}


def test_the_newest_versions_are_chosen_and_every_file_locked(bench: Bench, server: IndexServer) -> None:
    # What workers have is left out.
    assert bench.resolve("branch") == (pinned(server, "branch"), pinned(server, "leaf", "2.0"))
    assert len(server.hashes_of("leaf", "2.0")) == 2


def test_a_repository_with_any_name_is_left_out(bench: Bench) -> None:
    assert versions(bench.resolve("leaf", "self>=1", given={"self": "1.0"})) == {"leaf": "2.0"}


def test_versions_at_hand_are_kept_to(bench: Bench) -> None:
    assert versions(bench.resolve("branch", leaf="1.0", unrelated="7")) == {"branch": "1.0", "leaf": "1.0"}


def test_versions_at_hand_give_way_to_what_is_needed(bench: Bench) -> None:
    assert versions(bench.resolve("branch", "leaf>=2", leaf="1.0")) == {"branch": "1.0", "leaf": "2.0"}


def test_bounds_are_never_left(bench: Bench) -> None:
    assert versions(bench.resolve("branch", within=["leaf<2", "unrelated>3"])) == {"branch": "1.0", "leaf": "1.0"}
    # A version at hand gives way, whether it is outside of them or keeps from a solution.
    assert versions(bench.resolve("branch", within=["leaf<2"], leaf="2.0")) == {"branch": "1.0", "leaf": "1.0"}


def test_bounds_that_prevent_a_solution_are_named(bench: Bench) -> None:
    with failing("BoundsError") as caught:
        bench.resolve("branch", "leaf>=2", within=["leaf<2", "branch<9"])
    assert "constraints `leaf<2` (plan.yaml:7)" in caught.value.summary
    assert caught.value.hints == ("without them it would be leaf 2.0",)


def test_bounds_are_not_blamed_for_a_requirement(bench: Bench) -> None:
    with failing("UnsolvableError"):
        bench.resolve("leaf==9", within=["branch<9"])


def test_what_nothing_satisfies_is_told(bench: Bench) -> None:
    for line in ("leaf==9", "no-such-package", "leaf>=2"):
        with failing("UnsolvableError") as caught:
            bench.resolve(line, "leaf<2")
        assert "tool-demo" in caught.value.summary, line


def test_a_plain_installation_of_a_source_archive_runs_its_author_s_code(
    server: IndexServer, trap: Path, tmp_path: Path
) -> None:
    assert not trap.exists()
    (sdist,) = (tmp_path / name for name in ["only-source-1.0.tar.gz"])
    sdist.write_bytes(server.content("only-source", sdist.name))
    pip = ["-m", "pip", "install", "--isolated", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    subprocess.run([sys.executable, *pip, tmp_path / "site", sdist], capture_output=True, timeout=60, check=False)
    assert trap.exists()
    trap.unlink()


def test_what_has_no_wheel_for_this_machine_is_refused_and_not_built(bench: Bench, trap: Path) -> None:
    for line in ("only-source", "needs-source"):
        with failing("NoWheelError") as caught:
            bench.resolve(line)
        assert "`only-source` has no wheel" in caught.value.summary, line
        assert "building from source is refused" in caught.value.summary, line
        assert any("pip wheel" in hint for hint in caught.value.hints), line
        assert not trap.exists(), line
    with failing("NoWheelError") as caught:
        bench.resolve("elsewhere")
    assert "`elsewhere` has no wheel" in caught.value.summary


def test_a_locked_source_archive_is_not_executed_either(bench: Bench, server: IndexServer, trap: Path) -> None:
    with pytest.raises(InstallerError):
        bench.install(LockedDistribution("only-source", "1.0", server.hashes_of("only-source", "1.0")))
    assert not trap.exists()


def test_an_environment_has_exactly_what_was_locked_and_is_made_once(fresh: Bench, server: IndexServer) -> None:
    steps: list[ProgressStep] = []
    finished: list[str] = []
    fresh.progress = SimpleNamespace(step=steps.append, finished=finished.append)
    locked = fresh.resolve("branch")
    assert installed(locked, cache=fresh.cache, python=fresh.python) is None
    site = fresh.install(*locked)
    assert sorted(path.name for path in site.iterdir()) == [
        "branch",
        "branch-1.0.dist-info",
        "leaf",
        "leaf-2.0.dist-info",
    ]
    code = "import sys; sys.path.append(sys.argv[1]); import branch, leaf; print(branch.__version__, leaf.__version__)"
    told = subprocess.run([sys.executable, "-I", "-S", "-c", code, site], capture_output=True, timeout=60, check=True)
    assert told.stdout == b"1.0 2.0\n"
    assert {step.phase for step in steps} == {"resolving dependencies of", "installing"}
    assert finished == ["tool-demo", "branch"]
    # What resolves and unpacks reaches the index, and writes to folders of its own only; the compiler reaches nothing.
    *installing, compiling = fresh.reaches
    assert [reach.name for reach in installing] == ["uv", "python"]
    assert not compiling.hosts and not compiling.environ and compiling.writes[0].name == "site"
    for reach in installing:
        assert reach.hosts == (server.host,)
        assert all(path.is_relative_to(fresh.cache.folder) for path in reach.writes)
        assert fresh.cache.folder not in reach.writes
    assert list((fresh.cache.folder / "tmp").iterdir()) == []
    sessions = len(fresh.reaches)
    assert fresh.install(*locked) == site == installed(locked, cache=fresh.cache, python=fresh.python)
    assert len(fresh.reaches) == sessions


_CODE: Mapping[str, str | bytes] = {
    "mixed/__init__.py": "from mixed import inner\n",
    "mixed/inner.py": "VALUE = 1\n",
    "mixed/broken.py": "def broken(:\n",
    "mixed/no_text.py": b"VALUE = '\0'\n",
    "mixed/nested.py": "VALUE = " + "(" * 5000 + ")" * 5000 + "\n",
    "mixed/large.py": "".join(f"V{number} = 'ab{number:04}' * 682\n" for number in range(1000)),
    f"mixed/__pycache__/inner.{sys.implementation.cache_tag}.pyc": b"of somebody else",
    f"mixed/__pycache__/broken.{sys.implementation.cache_tag}.pyc": b"of somebody else",
}


def test_code_is_compiled_once_and_what_cannot_be_stays_as_it_is(bench: Bench) -> None:
    with IndexServer() as server:
        server.add_wheel("mixed", "1.0", _CODE)
        bench.index = Index.of({"PIP_INDEX_URL": server.url})
        site = bench.install(pinned(server, "mixed"))
    tag = sys.implementation.cache_tag
    compiled = {path.name.removesuffix(f".{tag}.pyc") for path in site.glob(f"mixed/__pycache__/*.{tag}.pyc")}
    assert compiled == {"__init__", "inner"}
    assert {path.name for path in site.glob("mixed/*.py")} == {Path(name).name for name in _CODE if name[-3:] == ".py"}
    # Read-only, and at another path and time than it was compiled at, it is what an interpreter loads.
    code = "import sys; sys.path.append(sys.argv[1]); import mixed.inner; print(mixed.inner.VALUE)\nimport mixed.broken"
    argv = [sys.executable, "-I", "-S", "-B", "-v", "-c", code, site]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=False, encoding="utf-8")
    assert done.stdout == "1\n"
    assert f"code object from '{site}/mixed/__pycache__/inner.{tag}.pyc'" in done.stderr.replace('"', "'")
    assert "SyntaxError" in done.stderr


def test_files_that_were_changed_at_the_index_are_not_installed(fresh: Bench, python: Interpreter) -> None:
    with IndexServer() as server:
        fresh.index = Index.of({"PIP_INDEX_URL": server.url})
        server.add_wheel("leaf", "1.0")
        locked = (pinned(server, "leaf"),)
        other = wheel("leaf", "1.0", {"leaf/__init__.py": "evil = True\n"})
        server.replace("leaf", "leaf-1.0-py3-none-any.whl", other, keep_hash=False)
        with failing("HashMismatchError"):
            fresh.install(*locked)
        assert installed(locked, cache=fresh.cache, python=python) is None


def test_an_index_with_a_password_lets_us_in_and_never_shows_it(fresh: Bench) -> None:
    with IndexServer(credentials="me:s3cret-word") as server:
        server.add_wheel("leaf", "1.0")
        fresh.index = Index.of({"UV_DEFAULT_INDEX": server.url.replace("//", "//me:s3cret-word@")})
        fresh.install(*fresh.resolve("leaf"))
        fresh.index = Index.of({"UV_DEFAULT_INDEX": server.url.replace("//", "//me:wr0ng-word@")})
        with failing("IndexAccessError") as caught:
            fresh.resolve("leaf==1.0", "other")
    told = "\n".join([str(caught.value), *caught.value.hints, repr(fresh.index)])
    assert "wr0ng-word" not in told and "did not let us in" in told


def test_an_index_that_is_gone_is_told_as_that(fresh: Bench) -> None:
    with IndexServer() as server:
        server.add_wheel("leaf", "1.0")
        gone, locked = server.url, pinned(server, "leaf")
    fresh.index = Index.of({"PIP_INDEX_URL": gone})
    for attempt in (partial(fresh.resolve, "leaf"), partial(fresh.install, locked)):
        with failing("IndexAccessError") as caught:
            attempt()
        assert f"{gone} could not be reached" in caught.value.summary


HOSTILE = {
    "start.pth": "import os; os._exit(3)\n",
    "hostile/__init__.py": "",
    "sitecustomize.py": "print('started')\n",
    "usercustomize/__init__.py": "print('started')\n",
    "hostile/data.pth": "kept: nothing reads it here\n",
    "hostile-1.0.data/scripts/tool": "#!python\n",
}


def test_a_compiler_that_crashes_leaves_what_was_installed(
    fresh: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "crash.py"
    program.write_text("import os, sys; open(sys.argv[1] + '/leaf/__pycache__', 'x').close(); os.abort()")
    opened, crashed = fresh.open, []

    @contextmanager
    def open_crashing(access: CommandAccess) -> Iterator[CommandSession]:
        with opened(access) as session:
            run = session.run

            def run_crashing(argv: Sequence[str], **options: Any) -> CommandResult:
                is_compiler = any(Path(word).name == "compile_site.py" for word in argv)
                crashed.extend(["compiler"] if is_compiler else [])
                return run([*argv[:-2], str(program), argv[-1]] if is_compiler else argv, **options)

            monkeypatch.setattr(session, "run", run_crashing)
            yield session

    monkeypatch.setattr(fresh, "open", open_crashing)
    with IndexServer() as server:
        server.add_wheel("leaf", "1.0")
        fresh.index = Index.of({"PIP_INDEX_URL": server.url})
        site = fresh.install(pinned(server, "leaf"))
    assert crashed == ["compiler"] and (site / "leaf" / "__init__.py").is_file()


def test_what_would_run_when_python_starts_is_taken_out(fresh: Bench) -> None:
    with IndexServer() as server:
        server.add_wheel("hostile", "1.0", HOSTILE)
        fresh.index = Index.of({"PIP_INDEX_URL": server.url})
        site = fresh.install(pinned(server, "hostile"))
    assert sorted(path.name for path in site.iterdir()) == ["hostile", "hostile-1.0.dist-info"]


def test_without_uv_the_error_names_it_and_its_missing_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = Uv.find({}).path
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (tmp_path / "uv").write_text("#!/bin/sh\n")  # a version manager's
    (tmp_path / "uv").chmod(0o755)
    with failing("NoInstallerError", "no wheel of uv for this machine") as caught:
        Uv.find({"PATH": f"relative:{tmp_path}"})
    assert f"`{tmp_path}/python -m pip install uv`" in caught.value.hints[0]
    assert Uv.find({"PATH": f"{tmp_path}:{real.parent}"}) == Uv(real)


def test_failures_of_a_program_say_what_to_do(
    cache: SourceCache, index: Index, python: Interpreter, tmp_path: Path
) -> None:
    with DirectRunner().open(CommandAccess("test")) as session:
        task = Task("x", "installing", "m", index, python, tmp_path, tmp_path, tmp_path, session, SilentProgress())
        elsewhere = task.failure(CommandResult(1, b"", b"failed to fetch", ("files.example.org:443",)))
        full = task.failure(CommandResult(2, b"", b"error: No space left on device (os error 28)"))
    assert "files.example.org:443" in elsewhere.summary
    assert 'hosts = ["files.example.org:443"]' in elsewhere.hints[0]
    assert full.code == "DiskFullError"


def test_of_two_that_install_the_same_at_once_both_have_it_whole(fresh: Bench, server: IndexServer) -> None:
    locked = (pinned(server, "leaf"), pinned(server, "branch"))
    with ThreadPoolExecutor(3) as pool:
        sites = list(pool.map(lambda _: fresh.install(*locked), range(3)))
    assert len(set(sites)) == 1
    assert (sites[0] / "branch" / "__init__.py").is_file()
    assert list((fresh.cache.folder / "tmp").iterdir()) == []


def test_hashes_of_another_platform_s_files_do_no_harm(bench: Bench, server: IndexServer) -> None:
    leaf = pinned(server, "leaf")
    more = replace(leaf, hashes=(*leaf.hashes, "sha256:" + "0" * 64))
    assert (bench.install(more) / "leaf" / "__init__.py").is_file()
