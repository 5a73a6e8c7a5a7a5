"""What these tests show as root holds for an ordinary user as well: the same tests, run by one where that can be."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from escape.ordinary_user import as_ordinary_user, home_of_its_own, require_root
from support.examples import IN_FULL

_HERE = Path(__file__).parent
_REPOSITORY = _HERE.parents[2]
_SECONDS = 900

# Which tests, by their file and by words of their names.
_CHOSEN = [
    ("test_isolation_levels.py", "ns and template and (took or granted or dies)"),
    ("test_worker_network.py", "(template or bwrap) and (arrives or cannot_be_made)"),
    ("test_tree_limits.py", "watchdog and ns"),
]
_IN_FULL = [
    ("test_isolation_levels.py", "ns and (took or tried or granted or few_files or dead or dies or hold or lies)"),
    ("test_worker_network.py", ""),
    ("test_folder_quota.py", ""),
    ("test_spares.py", ""),
]
# In one process, which loads everything once; each run has a report of its own.
_RUN = """
import json, os, sys
import pytest
os.chdir(sys.argv[1])
for number, (file, which) in enumerate(json.loads(sys.argv[2])):
    options = ["-q", "--tb=short", "-p", "no:xdist", f"--basetemp={os.environ['HOME']}/t{number}"]
    pytest.main([*options, f"--junitxml={os.environ['HOME']}/{number}.xml", file, "-k", which])
"""


@pytest.mark.slow
@pytest.mark.timeout(_SECONDS + 20)
def test_an_ordinary_user_finds_the_same() -> None:
    require_root()
    wanted = [*_CHOSEN, *(_IN_FULL if IN_FULL else [])]
    chosen = json.dumps([(str(_HERE / file), which) for file, which in wanted])
    with home_of_its_own() as home:
        done = as_ordinary_user(_RUN, str(_REPOSITORY), chosen, home=home, seconds=_SECONDS)
        printed = done.stdout + done.stderr
        assert done.returncode == 0, printed
        reports = [ElementTree.parse(home / f"{number}.xml").getroot() for number in range(len(wanted))]
    for (file, which), report in zip(wanted, reports, strict=True):
        cases = [*report.iter("testcase")]
        assert cases, f"{file} has no tests of {which}"
        assert not [*report.iter("failure"), *report.iter("error")], printed
    skipped = [one for report in reports for one in report.iter("skipped")]
    if len(skipped) == sum(1 for report in reports for _ in report.iter("testcase")):
        pytest.skip("; ".join(sorted({one.get("message", "") for one in skipped})))
