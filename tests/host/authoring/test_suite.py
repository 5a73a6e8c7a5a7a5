"""A module's tests run in a sandbox with what they need, and leave nothing where the author works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from failures import failing
from host.authoring.attack import attacked, require_refused
from host.authoring.conftest import Trials
from paddock.authoring.module_name import KINDS, ModuleName
from paddock.authoring.project import write_project
from paddock.errors import ModuleDiedError
from paddock.workers.exit_report import ExitReason
from sources.index_server import IndexServer
from support.examples import IN_FULL

pytestmark = pytest.mark.usefixtures("index")

_CODE = "VALUE = 1\n"


def _tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.slow
async def test_new_projects_pass_their_own_tests_at_once(trials: Trials, tmp_path: Path) -> None:
    for kind in KINDS if IN_FULL else KINDS[:1]:
        outcome = await trials.test(write_project(ModuleName.of(kind, "word-count"), tmp_path).folder)
        assert outcome.passed, "\n".join(trials.printed)


async def test_every_module_of_a_kind_can_be_held_to_what_its_kind_does(trials: Trials) -> None:
    code = """
        class Tool:
            name, description, input_schema = "x", "", {}

            async def execute(self, input):
                return "no result"

        async def mount(coordinator, config=None):
            await coordinator.mount("tools", Tool(), name="x")
    """
    outcome = await trials.behave(trials.write("tool-x", code))
    told = "\n".join(trials.printed)
    assert not outcome.passed and "execute() has to return a ToolResult, not str" in told and "4 failed" in told


async def test_tests_fail_as_they_do_elsewhere(trials: Trials) -> None:
    outcome = await trials.test(
        trials.write("tool-x", _CODE, {"tests/test_x.py": "def test_it():\n    assert False\n"})
    )
    assert not outcome.passed and not outcome.is_empty


async def test_a_modules_tests_may_write_beside_themselves(trials: Trials) -> None:
    test = """
        from pathlib import Path
        from amplifier_module_tool_x import VALUE
        import amplifier_core

        def test_it(module_path, module_type):
            here = Path(__file__).parent
            (here / "written").write_text("x")
            assert here.parent.name == "amplifier-module-tool-x" and Path.cwd() == here.parent
            assert module_path == here.parent / "amplifier_module_tool_x" and module_type == "tool"
            assert VALUE == 1 and amplifier_core
    """
    root = trials.write("tool-x", _CODE, {"tests/test_x.py": test})
    before = _tree(root)
    assert (await trials.test(root)).passed, trials.printed
    assert _tree(root) == before


@pytest.mark.exhaustive
async def test_arguments_are_passed_on_to_pytest(trials: Trials) -> None:
    tests = "def test_one():\n    pass\n\ndef test_two():\n    assert False\n"
    root = trials.write("tool-x", _CODE, {"tests/test_x.py": tests})
    assert (await trials.test(root, "-k", "one")).passed


async def test_without_tests_nothing_has_passed(trials: Trials) -> None:
    outcome = await trials.test(trials.write("tool-x", _CODE))
    assert outcome.is_empty and not outcome.passed


async def test_what_the_project_says_of_pytest_holds(trials: Trials) -> None:
    project = '[tool.pytest.ini_options]\nasyncio_mode = "auto"\nasyncio_default_fixture_loop_scope = "function"\n'
    test = "async def test_it():\n    pass\n"
    for said, passed in (("", False), (project, True)):
        root = trials.write("tool-x", _CODE, {"tests/test_x.py": test}, said)
        assert (await trials.test(root)).passed is passed, trials.printed


@pytest.mark.exhaustive
async def test_what_its_developers_install_is_there(index: IndexServer, trials: Trials) -> None:
    for name in ("of-module", "of-extra", "of-group"):
        index.add_wheel(name, "1.0")
    project = (
        '[project.optional-dependencies]\ntest = ["of-extra"]\ndocs = ["nowhere"]\n'
        '[dependency-groups]\ndev = ["of-group", "amplifier-core"]\n'
    )
    test = "import of_extra, of_group, of_module\n\ndef test_it():\n    pass\n"
    root = trials.write("tool-x", _CODE, {"tests/test_x.py": test}, project)
    text = (root / "pyproject.toml").read_text()
    (root / "pyproject.toml").write_text(text.replace('"1.0"\n', '"1.0"\ndependencies = ["of-module"]\n', 1))
    assert (await trials.test(root)).passed, trials.printed


async def test_what_cannot_be_had_is_named(trials: Trials) -> None:
    root = trials.write("tool-x", _CODE, project='[dependency-groups]\ndev = ["no-such-package"]\n')
    with failing("NoTestEnvironmentError") as missing:
        await trials.test(root)
    needed = "needed besides what the module itself depends on: no-such-package, pytest, pytest-asyncio"
    assert needed in str(missing.value) and missing.value.exit_code == 1


@pytest.mark.exhaustive
async def test_without_a_network_tests_have_what_they_had_the_last_time(index: IndexServer, trials: Trials) -> None:
    index.add_wheel("leaf", "1.0")
    test = "import leaf\n\ndef test_it():\n    assert leaf.__version__ == '1.0'\n"
    root = trials.write("tool-x", _CODE, {"test_x.py": test}, '[dependency-groups]\ndev = ["leaf"]\n')
    trials.offline = True
    with failing("NoTestEnvironmentError", "leaf, pytest, pytest-asyncio"):
        await trials.test(root)
    trials.offline = False
    assert (await trials.test(root)).passed
    index.add_wheel("leaf", "2.0")
    index.requests.clear()
    trials.offline = True
    assert (await trials.test(root)).passed and not index.requests
    trials.offline = False
    assert (await trials.test(root)).passed and not index.requests  # it was chosen within the day
    project = (root / "pyproject.toml").read_text()
    (root / "pyproject.toml").write_text(project.replace('"leaf"', '"leaf>=1"'))
    assert not (await trials.test(root)).passed  # another choice, and there is a newer one by now


async def test_tests_that_attack_get_nowhere(trials: Trials, tmp_path: Path) -> None:
    with attacked(tmp_path) as target:
        test = f"{target.code}\ndef test_it():\n    assert False, json.dumps(OUTCOMES)\n"
        root = trials.write("tool-x", _CODE, {"tests/test_x.py": ""})
        (root / "tests/test_x.py").write_text(test)
        assert not (await trials.test(root, "--tb=line")).passed
        said = next(line for line in trials.printed if '{"read"' in line)
        require_refused(json.loads(said[said.index("{") : said.rindex("}") + 1]), target)


@pytest.mark.exhaustive("os.kill")
@pytest.mark.parametrize(
    ("line", "reason", "limits"),
    [
        ("os._exit(0)", ExitReason.EXITED, {}),
        ("os.kill(os.getpid(), 9)", ExitReason.SIGNALLED, {}),
        ("time.sleep(1000)", ExitReason.TIMEOUT, {"runtime_max": "1s"}),
    ],
)
async def test_tests_that_die_or_hang_are_told_of_by_how_they_ended(
    line: str, reason: ExitReason, limits: dict[str, str], trials: Trials
) -> None:
    root = trials.write("tool-x", _CODE, {"test_x.py": f"import os, time\n\ndef test_it():\n    {line}\n"})
    with pytest.raises(ModuleDiedError) as died:
        await trials.test(root, **limits)
    assert died.value.exit_code == 5 and died.value.report.reason is reason and "its tests" in str(died.value)
