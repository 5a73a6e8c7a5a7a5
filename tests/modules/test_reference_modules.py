"""Each module in `modules/`: what hosts expect of its kind, under our contract package and under the published one."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import date
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from packaging.requirements import Requirement

from host.authoring.installed_wheels import TEST_RUNNERS, index_of
from host.policy.entries import owner
from integration.command_line import diagnosis, paddock, reachable_level
from modules import shipped
from paddock.authorization.suggestions.advice import advice_of
from paddock.authorization.suggestions.needs import ProposalContext
from paddock.authorization.suggestions.proposal import propose
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.plan.permissions import FAMILIES, grants_of
from paddock_sources.bounded_toml import read_toml
from paddock_sources.builtin import BuiltinSource
from paddock_sources.module_id import package_of_id
from sources.index_server import IndexServer
from support.examples import IN_FULL
from support.rows import each_row
from twins.published import OURS, Python

_SECONDS = 600  # for the tests of all modules on a busy machine; hit only by a hang
_CONTRACT_TESTS = """
import asyncio
from pathlib import Path

import pytest
from amplifier_core.validation import {base}Validator
from amplifier_core.validation.behavioral import {base}BehaviorTests
from amplifier_core.validation.structural import {base}StructuralTests

PACKAGE = Path(__file__).parents[1] / "{package}"

@pytest.fixture
def module_path():
    return PACKAGE

class TestBehavior({base}BehaviorTests):
    pass

class TestStructure({base}StructuralTests):
    pass

def test_the_validator_of_its_kind_finds_nothing():
    checks = asyncio.run({base}Validator().validate(str(PACKAGE))).checks
    assert checks and not [check for check in checks if not check.passed or check.severity == "warning"]
"""
_STRICT_TESTS = """
from paddock_sdk.validation.behavioral import Strict{base}Tests

class TestStrictly(Strict{base}Tests):
    pass
"""


@pytest.mark.parametrize("module_id", shipped.IDS)
def test_its_manifest_is_proposed_in_full_for_a_plan_that_says_nothing(module_id: str, tmp_path: Path) -> None:
    resolution = BuiltinSource().resolve(module_id)
    advice = advice_of(resolution)
    assert advice is not None and advice.is_shipped, "its `[tool.paddock]` names no permissions, or none there are"
    entry = ModuleEntry.read({"module": module_id}, EntryPlace(shipped.kind(module_id), "x[0]", tmp_path))  # type: ignore[arg-type]
    keys = [one.name for one in advice.permissions.secrets]
    needs = propose(entry, advice, ProposalContext(tmp_path, owner(), {}, keys))
    for family in FAMILIES:
        asked, proposed = (getattr(grants_of(one), family) for one in (advice.permissions, needs.permissions))
        assert set(asked) == set(proposed) or (family == "run" and set(proposed) <= set(asked))
    assert bool(needs.lines) == any(getattr(grants_of(needs.permissions), family) for family in FAMILIES)


@each_row("name", shipped.PROJECTS)
def test_a_project_is_laid_out_as_modules_are_and_holds_no_other(name: str) -> None:
    folder = shipped.FOLDER / name
    project = read_toml((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == f"amplifier-module-{name}"
    assert not any(one.startswith(("amplifier-core", "paddock")) for one in project.get("dependencies", ()))
    assert (folder / "README.md").read_text(encoding="utf-8").startswith(f"# {name}\n")
    assert list((folder / "tests").glob("test_*.py"))
    declared = project["entry-points"]["amplifier.modules"]
    assert declared == {one: f"{package_of_id(one)}:mount" for one in shipped.IDS if shipped.home(one) == folder}
    assert {path.name for path in folder.glob("amplifier_module_*")} == {package_of_id(one) for one in declared}


@each_row("module_id", shipped.IDS)
def test_it_has_typed_code_and_a_row_in_the_readme(module_id: str) -> None:
    home = shipped.home(module_id)
    assert (home / package_of_id(module_id) / "py.typed").is_file()
    section = (shipped.ROOT / "README.md").read_text(encoding="utf-8").partition("## Reference modules\n")[2]
    assert f"| [{module_id}](modules/{home.name}) |" in section.partition("\n## ")[0]
    if home.name != module_id:
        assert f"\n## {module_id}\n" in (home / "README.md").read_text(encoding="utf-8")


@each_row("name", shipped.PROJECTS)
def test_its_tests_import_only_what_its_project_names(name: str) -> None:
    folder = shipped.FOLDER / name
    project = read_toml((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stages = {path.stem for path in (folder / "tests").glob("*.py")}
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    needs = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    named = {Requirement(one).name for one in needs}
    assert shipped.imported(folder / "tests") - stages - sys.stdlib_module_names <= {
        *packages,
        "amplifier_core",
        *named,
    }


@each_row("name", ["anthropic", "openai"])
def test_a_vendors_table_of_models_is_dated_and_has_the_default_one(name: str) -> None:
    package = importlib.import_module(f"amplifier_module_provider_{name}")
    table = json.loads(resources.files(package).joinpath("models.json").read_text(encoding="utf-8"))
    assert date.fromisoformat(table["as_of"]) and "https://" in table["source"]
    project = read_toml((shipped.home(f"provider-{name}") / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["paddock"]["default_model"] == package.Settings().default_model in table["models"]


def test_no_file_of_code_is_in_two_projects() -> None:
    where = defaultdict(list)
    for path in shipped.FOLDER.glob("*/*/**/*.py"):
        if path.stat().st_size and "tests" not in path.parts:
            where[path.read_bytes()].append(path.relative_to(shipped.FOLDER))
    assert [paths for paths in where.values() if len(paths) > 1] == []


@pytest.mark.exhaustive("published")
@pytest.mark.slow
@pytest.mark.timeout(_SECONDS)
def test_all_of_them_are_what_hosts_expect_of_their_kind(kernel: Python, tmp_path: Path) -> None:
    chosen = shipped.PORTABLE if IN_FULL else {shipped.kind(one): one for one in shipped.PORTABLE}.values()
    homes = {shipped.home(one).name for one in chosen}
    shipped.copy_as_repositories(tmp_path, "test_*.py")
    for name in {*shipped.PROJECTS} - homes:
        shutil.rmtree(tmp_path / f"amplifier-module-{name}")
    for module_id in chosen:
        text = _CONTRACT_TESTS if kernel is not OURS else _CONTRACT_TESTS + _STRICT_TESTS
        name = f"test_contract_of_{module_id.replace('-', '_')}.py"
        path = tmp_path / f"amplifier-module-{shipped.home(module_id).name}" / "tests" / name
        path.write_text(text.format(base=shipped.kind(module_id).capitalize(), package=shipped.package(module_id)))
    cases = _passed(kernel, tmp_path, homes)
    assert not [case.get("name") for case in cases if case.find("skipped") is not None]


@pytest.mark.exhaustive  # under our contract package they are among all tests
@pytest.mark.slow
@pytest.mark.timeout(_SECONDS)
@pytest.mark.parametrize("kernel", ["published"], indirect=True)
def test_all_of_them_pass_their_own_tests_under_the_published_package(kernel: Python, tmp_path: Path) -> None:
    shipped.copy_as_repositories(tmp_path)
    shutil.rmtree(tmp_path / f"amplifier-module-{shipped.OF_A_SERVER}")
    _passed(kernel, tmp_path, {*shipped.PROJECTS} - {shipped.OF_A_SERVER})


def _passed(kernel: Python, repositories: Path, projects: Iterable[str]) -> list[Element]:
    """Run the tests of these projects, and return their cases; there are some of each project."""
    report = repositories / "report.xml"
    done = kernel.run(
        *("-m", "pytest", "-q", "-c", os.devnull, f"--rootdir={repositories}"),
        *("-p", "no:cacheprovider", "-p", "no:warnings", "--import-mode=importlib", "--tb=short"),
        # Beside the others, of which pytest would otherwise remove the oldest.
        *(f"--basetemp={repositories}.temporary", f"--junitxml={report}", str(repositories)),
        cwd=repositories,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    names = [str(case.get("classname")) for case in cases]
    ran = {one: sum(f"amplifier-module-{one}." in name for name in names) for one in projects}
    assert all(ran.values()), ran
    return cases


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexServer]:
    """An index with what the chosen modules and their tests depend on, as it is installed here."""
    wanted = [one for module_id in shipped.IDS for one in shipped.requirements(module_id)]
    with index_of(monkeypatch, *shipped.installed_for([*TEST_RUNNERS, *wanted])) as index:
        yield index


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(_SECONDS)
@pytest.mark.parametrize("module_id", shipped.IDS)
@pytest.mark.usefixtures("index", "warm_starts")
def test_the_commands_for_authors_say_yes_to_it(
    module_id: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "module-cache"))
    level = [] if diagnosis()["ok"] else ["--isolation", reachable_level()]
    folder = str(shipped.home(module_id))
    if module_id != shipped.OF_A_SERVER:  # which cannot run where nothing is granted
        validated = paddock("module", "validate", folder, "--behavioral", "--json", *level)
        assert validated.returncode == 0, validated.stdout + validated.stderr
        assert all(check["severity"] == "info" for check in json.loads(validated.stdout)["checks"])
    tested = paddock("module", "test", folder, *level)
    assert tested.returncode == 0, tested.stdout + tested.stderr
