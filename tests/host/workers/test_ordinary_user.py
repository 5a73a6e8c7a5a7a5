"""What these tests show as root holds for an ordinary user as well: the same tests, run by one where that can be."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from escape.ordinary_user import as_ordinary_user, home_of_its_own, require_root

_HERE = Path(__file__).parent
_REPOSITORY = _HERE.parents[2]
_SECONDS = 900

_RUN = """
import os, sys
import pytest
os.chdir(sys.argv[1])
options = ["-q", "--tb=short", "-p", "no:xdist", f"--basetemp={os.environ['HOME']}/t"]
sys.exit(pytest.main([*options, *sys.argv[2:]]))
"""


@pytest.mark.slow
@pytest.mark.timeout(_SECONDS + 20)
@pytest.mark.parametrize(
    ("file", "which"),
    [
        ("test_isolation_levels.py", "bwrap"),
        ("test_isolation_levels.py", "ns and (took or tried or granted or dead or dies)"),
        ("test_bwrap.py", ""),
        ("test_spares.py", ""),
        ("test_worker_network.py", ""),
        ("test_folder_quota.py", ""),
        ("test_tree_limits.py", "watchdog and (ns or bwrap)"),
    ],
)
def test_an_ordinary_user_finds_the_same(file: str, which: str) -> None:
    require_root()
    with home_of_its_own() as home:
        arguments = (str(_REPOSITORY), str(_HERE / file), "-k", which, f"--junitxml={home}/told.xml")
        done = as_ordinary_user(_RUN, *arguments, home=home, seconds=_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        told = ElementTree.parse(home / "told.xml").getroot()
    cases = [*told.iter("testcase")]
    reasons = [skipped.get("message", "") for case in cases for skipped in case.iter("skipped")]
    assert cases
    if len(reasons) == len(cases):
        pytest.skip("; ".join(sorted({*reasons})))
