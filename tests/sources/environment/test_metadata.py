from __future__ import annotations

import json
import subprocess
import sys
from email.parser import HeaderParser
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from failures import failing
from paddock_sources import SourceError
from paddock_sources.cache import SourceCache
from paddock_sources.environment.metadata import Metadata, distribution_metadata
from support.examples import examples

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FULL = """
[build-system]
requires = ["evil"]
build-backend = "evil"
[project]
name = "Amplifier.Module-tool_demo"
version = "1.2.03"
description = "A demonstration"
requires-python = ">=3.11"
dependencies = ["httpx>=0.27", "other @ git+https://host/other"]
[project.scripts]
demo = "amplifier_module_tool_demo.cli:main"
[project.entry-points."amplifier.modules"]
tool-demo = "amplifier_module_tool_demo:mount"
[project.entry-points."pytest11"]
demo = "amplifier_module_tool_demo.plugin"
"""


def metadata(root: Path, text: str, commit: str = COMMIT) -> Metadata | None:
    (root / "pyproject.toml").write_text(text, encoding="utf-8")
    return distribution_metadata(root, commit)


def test_a_worker_finds_metadata_of_code_that_is_not_installed(tmp_path: Path, cache: SourceCache) -> None:
    found = metadata(tmp_path, FULL)
    assert found is not None
    folder = found.provide(cache)
    assert folder == found.provide(cache)
    code = """
import sys; sys.path.append(sys.argv[1])
from importlib import metadata as m
(tool,) = m.entry_points(group="amplifier.modules")
print(m.version("amplifier-module-tool-demo"), tool.name, tool.value, *m.entry_points(group="pytest11").names)
print(*m.requires("amplifier_module_tool_demo"), *[f.name for f in m.files("amplifier-module-tool-demo")], sep="|")
"""
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, folder], capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout.splitlines() == [
        "1.2.3 tool-demo amplifier_module_tool_demo:mount demo",
        "httpx>=0.27|other @ git+https://host/other|METADATA|INSTALLER|entry_points.txt|RECORD",
    ]


@pytest.mark.parametrize(
    ("line", "commit", "version"),
    [
        ("version = '2.0rc1'", COMMIT, "2.0rc1"),
        ("dynamic = ['version']", COMMIT, "0+0123456789ab"),
        ("", COMMIT, "0+0123456789ab"),
        ("", "sha256:" + "fe" * 32, "0+fefefefefefe"),
        ("", "", "0"),
        ("", "../../x", "0"),
    ],
)
def test_a_version_that_only_a_build_would_know_is_told_by_the_commit(
    tmp_path: Path, line: str, commit: str, version: str
) -> None:
    found = metadata(tmp_path, f"[project]\nname = 'a-b'\n{line}\n", commit)
    assert found is not None
    assert found.version == version
    assert found.folder == f"a_b-{version}.dist-info"


@pytest.mark.parametrize("text", ["", "[project]\nversion = '1'\n", "[tool.x]\n"])
def test_code_that_names_no_distribution_has_no_metadata(tmp_path: Path, text: str) -> None:
    assert metadata(tmp_path, text) is None


@pytest.mark.parametrize(
    "text",
    [
        "name = 'a/../../b'",
        "name = '../a'",
        'name = "a\\nVersion: 9"',
        "name = ''",
        "name = 3",
        f"name = '{'a' * 200}'",
        "name = 'a'\nversion = 'one'",
        "name = 'a'\nversion = 1",
        'name = "a"\nversion = "1\\nName: paddock"',
        f"name = 'a'\nversion = '{'1.' * 3000}0'",
        'name = "a"\ndescription = "x\\nName: paddock"',
        'name = "a"\ndescription = "x\\rName: paddock"',
        'name = "a"\ndescription = "x\\u2028Name: paddock"',
        'name = "a"\nrequires-python = "x\\nName: paddock"',
        'name = "a"\ndependencies = ["x\\nName: paddock"]',
        "name = 'a'\ndependencies = [3]",
        "name = 'a'\ndependencies = 3",
        "name = 'a'\nentry-points = 3",
        "name = 'a'\nscripts = 3",
        "name = 'a'\n[project.entry-points.x]\n'a\\nb' = 'os'\n'c\nd' = 'os'",
        'name = "a"\n[project.entry-points.x]\n"a\\n[console_scripts]\\nb" = "os"',
        'name = "a"\n[project.entry-points."x]\\n[y"]\na = "os"',
        'name = "a"\n[project.entry-points.x]\na = "os:system\\nb = os:abort"',
        'name = "a"\n[project.entry-points.x]\na = "os:system(1)"',
        'name = "a"\n[project.entry-points.x]\na = 3',
        'name = "a"\n[project.entry-points.x]\n' + "\n".join(f'e{n} = "os"' for n in range(1001)),
    ],
)
def test_what_would_be_another_header_or_entry_is_refused(tmp_path: Path, text: str) -> None:
    with failing("DistributionMetadataError"):
        metadata(tmp_path, "[project]\n" + text)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.text(min_size=1, max_size=12) | st.from_regex("[a-zA-Z0-9._-]{1,8}", fullmatch=True),
    version=st.text(max_size=12) | st.just("1.0"),
    description=st.text(max_size=40),
    entry=st.text(max_size=20),
)
def test_no_text_adds_a_header_or_leaves_its_folder(
    tmp_path: Path, name: str, version: str, description: str, entry: str
) -> None:
    text = f"""[project]
name = {json.dumps(name, ensure_ascii=False)}
version = {json.dumps(version, ensure_ascii=False)}
description = {json.dumps(description, ensure_ascii=False)}
[project.entry-points.group]
{json.dumps(entry)} = "package:mount"
"""
    try:
        found = metadata(tmp_path, text)
    except SourceError:
        return
    assert found is not None
    assert "/" not in found.folder and found.folder.endswith(".dist-info")
    told = HeaderParser().parsestr(found.metadata)
    assert told.keys() == ["Metadata-Version", "Name", "Version", "Summary"]
    assert (told["Name"], told["Version"]) == (name, found.version)
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / "out" / found.folder).mkdir(exist_ok=True)
    for path, content in found.files.items():
        (tmp_path / "out" / path).write_text(content, encoding="utf-8")
    (point,) = PathDistribution(tmp_path / "out" / found.folder).entry_points
    assert (point.group, point.name, point.value) == ("group", entry, "package:mount")
