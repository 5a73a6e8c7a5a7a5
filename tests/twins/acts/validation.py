"""Validate modules with whichever contract package is found, and run its inherited tests over them; print outcomes.

The first argument is a folder to work in, with `modules.json`: the kind and the source of each module, by its name, and
`tested.json`: the names of those that inherited tests are run over. All others are for pytest.
"""

import asyncio
import json
import logging
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

FOLDER = Path(sys.argv[1])
STEMS = {"hook": "hooks", "orchestrator": "loop"}
TESTS = """
from amplifier_core.validation.behavioral import {base}BehaviorTests
from amplifier_core.validation.structural import {base}StructuralTests

class TestBehavior({base}BehaviorTests):
    pass

class TestStructure({base}StructuralTests):
    pass
"""


def written(number, kind, source, is_tested):
    """Write a module's repository, and return its package; no two packages have one name."""
    name = f"{STEMS.get(kind, kind)}-case{number}"
    package = FOLDER / f"amplifier-module-{name}" / f"amplifier_module_{name.replace('-', '_')}"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(source)
    if is_tested:
        (package.parent / "tests").mkdir()
        (package.parent / "tests" / f"test_case{number}.py").write_text(TESTS.format(base=kind.capitalize()))
    return package


def as_a_single_file(package):
    file = FOLDER / "files" / f"{package.name}_file.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text((package / "__init__.py").read_text())
    return file


async def checked(kind, path):
    validator = getattr(import_module("amplifier_core.validation"), f"{kind.capitalize()}Validator")
    result = await validator().validate(path)
    return [result.passed, [[check.name, check.passed, check.severity] for check in result.checks]]


def failed_tests():
    """Return the names of the inherited tests that did not pass, by the number of the module."""
    report = FOLDER / "report.xml"
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider"),
            # Hundreds are to fail, and only their names are read: what they would show takes most of the time.
            *("--tb=no", "--assert=plain"),
            *(f"--basetemp={FOLDER}.temporary", *sys.argv[2:]),
            *("--import-mode=importlib", f"--rootdir={FOLDER}", f"--junitxml={report}", str(FOLDER)),
        ],
        cwd=FOLDER,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    failed = {}
    for test in ElementTree.parse(report).getroot().iter("testcase"):
        number = test.get("classname").split("test_case")[1].split(".")[0]
        ends = {end.tag for end in test}
        failed.setdefault(number, set())
        if ends & {"failure", "error"}:
            failed[number].add(test.get("name"))
    return failed


async def main():
    logging.disable()
    modules = json.loads((FOLDER / "modules.json").read_text())
    tested = json.loads((FOLDER / "tested.json").read_text())
    found, packages = {}, {}
    for number, (name, (kind, source)) in enumerate(modules.items()):
        packages[name] = written(number, kind, source, name in tested)
        found[name] = {"checks": await checked(kind, packages[name])}
        found[name]["as a file"] = await checked(kind, as_a_single_file(packages[name])) == found[name]["checks"]
    failed = await asyncio.to_thread(failed_tests)
    for number, name in enumerate(modules):
        found[name]["failed"] = sorted(failed[str(number)]) if name in tested else None
    print(json.dumps(found))


asyncio.run(main())
