"""A rule about a source holds for it however it is spelled: in a plan, a variable, a call, or the rule itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator

import pytest

from integration.policy_ground import PLAN, READ, Ground, copy_of_a_tool, refusals
from paddock.cli import failure
from paddock.errors import ModuleMissingError, PolicyRefusedError
from paddock.module_sources.provisioning import SourceOptions
from paddock.module_sources.resolve import ModuleSources
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.policy.files.policy import Policy
from paddock.policy.pins import Pins
from paddock_sources import Resolution
from paddock_sources.cache import SourceCache
from sources.git_repositories import module_repository
from support.examples import repeating

pytestmark = pytest.mark.usefixtures("commands_end")

_VARIABLE = "AMPLIFIER_MODULE_TOOL_FILESYSTEM"
_SOURCED = "source: {}\n    permissions: {{env: [A=b]}}"


@pytest.fixture
def spelled(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Lay a module in the folder `modules/tool-x`, with links to it, and return a source as it is spelled."""
    monkeypatch.chdir(ground.work)
    folder = ground.root / "modules/tool-x"
    copy_of_a_tool(folder)
    (ground.root / "by-link").symlink_to("modules/tool-x")
    (ground.root / "by-parent").symlink_to(ground.root / "modules")
    (ground.root / "twice").symlink_to("by-parent/tool-x")
    return lambda text: text.format(root=ground.root, encoded=str(folder).replace("tool-x", "%74ool%2Dx"))


_SPELLINGS = [
    "{root}/modules/tool-x",
    "./modules/tool-x",
    "./modules/../modules/./tool-x/",
    "/{root}/modules//tool-x",
    "{root}/by-link",
    "./by-link",
    "{root}/by-parent/tool-x",
    "./twice",
    "file://{root}/modules/tool-x",
    "file://localhost{root}/modules/tool-x/",
    "file://{encoded}",
    "file://{root}/by-link",
    "file://{root}/modules#subdirectory=tool-x",
    "file://{root}#subdirectory=by-link",
]


def _ways() -> Iterator[tuple[str, str]]:
    for index, spelling in enumerate(_SPELLINGS):
        yield ("plan", "variable", "call")[index % 3], spelling  # what is done with them is one function's work


@pytest.mark.parametrize(
    ("way", "spelling", "is_command"),
    [
        *((*way, False) for way in _ways()),
        ("variable", "./by-link", True),
        *repeating(("plan", "./twice", True), ("call", "file://{encoded}", True)),
    ],
)
def test_a_rule_about_a_folder_holds_for_it_however_it_is_spelled(
    ground: Ground, spelled: Callable[[str], str], spelling: str, way: str, is_command: bool
) -> None:
    source = spelled(spelling)
    ground.write_plan("permissions: {env: [A=b]}" if way == "variable" else _SOURCED.format(source))
    # What is relative is so to the plan, or else to the folder that the command is given in.
    given = source.replace("./", "../", 1) if source.startswith("./") else source
    environ = {_VARIABLE: given} if way == "variable" else {}

    def ask() -> subprocess.CompletedProcess[str]:
        if way == "call":
            command = ("call", given, *READ[2:], "--allow-env=A=b", "--json")
            return ground.paddock(*command) if is_command else ground.judge_call(given, env="A=b")
        return ground.run("--trust-plan", environ=environ) if is_command else ground.judge(environ=environ)

    policy = ground.own_rule(f'[[module]]\nmatch = "{ground.root}/elsewhere/*"\ngrants.env = []\n')
    without = ask()
    assert without.returncode == 0, without.stderr
    ground.own_rule(f'[[module]]\nmatch = "{ground.root}/modules/*"\ngrants.env = []\n')
    place = "--allow-env" if way == "call" else "tools[0].permissions.env[0]"
    assert refusals(ask(), policy) == [(place, 3)]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "match", ["{root}/modules/tool-x", "{root}/by-link", "file://{root}/by-parent/tool-x", "{root}/MODULES/*", "/*"]
)
def test_a_rule_about_a_folder_may_be_spelled_in_many_ways_as_well(
    ground: Ground, spelled: Callable[[str], str], match: str
) -> None:
    ground.write_plan(_SOURCED.format("./modules/tool-x"))
    assert ground.judge().returncode == 0
    policy = ground.own_rule(f'[[module]]\nmatch = "{spelled(match)}"\ngrants.env = []\n')
    assert refusals(ground.judge(), policy) == [("tools[0].permissions.env[0]", 3)]


async def test_what_is_fetched_is_the_folder_that_was_judged(ground: Ground, spelled: Callable[[str], str]) -> None:
    """Another folder, under the name of the judged one or behind the link that led there, is not taken instead."""
    judged, elsewhere = ground.root / "modules/tool-x", ground.root / "elsewhere"
    copy_of_a_tool(elsewhere)

    async def resolved(source: str, meanwhile: Callable[[], object]) -> object:
        async def check_pins(pins: Pins) -> None:  # what a session asks about after the judgement
            meanwhile()

        entry = ModuleEntry.read({"module": "tool-filesystem", "source": source}, EntryPlace("tool", "", ground.root))
        with SourceCache.of_user(ground.environ) as cache:
            policy = Policy.load(ground.environ)
            sources = ModuleSources(cache, ground.environ, ground.root, None, policy, SourceOptions(offline=True))
            return (await sources.resolve([entry], check_pins=check_pins))[entry.path]

    def relink() -> None:
        (ground.root / "by-link").unlink()
        (ground.root / "by-link").symlink_to(elsewhere)

    def replace() -> None:
        judged.rename(ground.root / "away")
        judged.symlink_to(elsewhere)

    found = await resolved(spelled("{root}/by-link"), relink)
    assert isinstance(found, Resolution) and found.source == str(judged)
    refused = await resolved(str(judged), replace)
    assert isinstance(refused, ModuleMissingError) and "is not the folder any more" in failure.text(refused)
    # Nor do the rules about the other folder hold for what was fetched before.
    ground.own_rule(f'[[module]]\nmatch = "{judged}"\ngrants.env = []\n')
    written = {"module": "tool-filesystem", "permissions": {"env": ["A=b"]}}
    entry = ModuleEntry.read(written, EntryPlace("tool", "", ground.root))
    with pytest.raises(PolicyRefusedError, match="leads elsewhere through a link"):
        await ground.authorizer({**os.environ, **ground.environ}).authorize_call(entry, found, None)


def test_a_rule_about_what_is_shipped_holds_for_it_under_another_name(ground: Ground) -> None:
    policy = ground.own_rule('[[module]]\nmatch = "builtin:tool-filesystem"\ngrants = "isolated"\n')
    plan = PLAN.format(said="permissions: {read: [.]}").replace("tool-filesystem", "tool-mine")
    for said in ("source: builtin:tool-filesystem", "source: builtin:tool-filesystem\n    instance_id: other"):
        ground.plan.write_text(plan.replace("    permissions", f"    {said}\n    permissions"))
        assert [place for place, _ in refusals(ground.judge(trust=False), policy)] == ["tools[0].permissions.read[0]"]


@pytest.mark.parametrize(
    "source",
    [
        "git+https://git.example.com/org/tool-x@main",
        "git+https://GIT.example.COM/Org/Tool-X.git",
        "git+https://git.example.com:443/org/tool-x",
        "git+https://user@git.example.com/org/tool-x.git",
        "git+https://git.example.com./org/tool-x",
        "git+https://git.example.com//org/%74ool-x",
        "git+ssh://git@git.example.com/org/tool-x",
        "git+http://git.example.com:8080/org/tool-x",
    ],
)
def test_a_repository_no_rule_allows_is_refused_in_any_spelling(ground: Ground, source: str) -> None:
    policy = ground.own_rule('git_hosts = ["git.example.org"]\nrequire_pinned = true\n')
    ground.write_plan(f"source: {source}")
    assert refusals(ground.judge(), policy) == [("tools[0].source", 1), ("tools[0].source", 2)]
    if "user@" in source:
        done = ground.run("--trust-plan")
        assert done.returncode in (1, 4)
        assert not json.loads(done.stdout)["modules"]
    assert ground.is_untouched()


def test_denied_code_starts_nothing_by_its_source_commit_or_files(ground: Ground) -> None:
    made = module_repository(ground.root / "made", "tool-filesystem")
    ground.write_plan(f"source: git+file://{made.folder}@v1")
    assert ground.paddock("lock", str(ground.plan)).returncode == 0
    assert ground.run("--trust-plan").returncode == 0
    lock = (ground.root / "paddock.lock").read_text()
    for match in (f"git+file://{made.folder}", f"commit:{made.head()}", re.findall(r'tree = "(\S+)"', lock)[0]):
        policy = ground.own_rule(f"[[module]]\nmatch = '{match}'\ndeny = 'it steals'\n")
        done = ground.run("--trust-plan")
        assert refusals(done, policy)[0] == ("tools[0].source", 3) and "is denied: it steals" in done.stderr, match
    ground.own_rule("[[module]]\nmatch = 'builtin:*'\ndeny = 'it steals'\n")
    checked = ground.paddock("policy", "show")
    assert "this denies modules that come with Paddock" in checked.stdout + checked.stderr
    ground.own_rule("[[module]]\nmatch = 'tool-bash'\ndeny = 'it steals'\n")
    warnings = [one["warnings"] for one in json.loads(ground.paddock("policy", "show", "--json").stdout)["files"]]
    assert 'match = "builtin:tool-bash"' in json.dumps(warnings).replace('\\"', '"')


def test_what_may_be_a_password_in_a_source_is_not_shown(ground: Ground) -> None:
    ground.write_plan("source: git+https://user:password@git.example.com/org/tool-x.git")
    done = ground.run("--trust-plan")
    assert "git.example.com/org/tool-x" in done.stderr
    assert "user:password" not in done.stdout + done.stderr
