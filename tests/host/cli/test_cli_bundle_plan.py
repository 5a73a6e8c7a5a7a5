"""Words of a command line that stand for bundles, and the plans that are kept for them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from paddock.cli.bundle_plan import address_in, as_named, kept_plan, names_bundle, no_such_plan, plan_of
from paddock.cli.policy_command import show_files
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError, PolicyFileError
from paddock.plan.bundles import WELL_KNOWN
from paddock.policy.files.file_status import FileStatus

OURS = "git+https://git.example.org/bundles@main"


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def settings() -> Path:
    path = Path(os.environ["HOME"], ".config/paddock/sources.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_the_folder_of_a_plan_is_written_as_one() -> None:
    Path("bundle.md").touch()
    assert address_in(".", Path()) == "./"
    assert address_in("bundle.md", Path()) == "./bundle.md"


def test_words_of_the_user_stand_for_bundles_beside_those_of_paddock(settings: Path) -> None:
    assert names_bundle("anchors") and not names_bundle("ours")
    settings.write_text(f'[bundles]\nours = "{OURS}"\nanchors = "{OURS}"\n')
    assert names_bundle("ours") and address_in("ours", Path()) == address_in("anchors", Path()) == OURS
    assert address_in("foundation", Path()) == WELL_KNOWN["foundation"]
    assert no_such_plan("anchros") == "there is no plan `anchros`: the bundle `anchors` may be meant"
    Path("ours").mkdir()
    assert not names_bundle("ours")  # what is there is meant
    settings.write_text('[bundles]\nours = "./here"\n')
    with pytest.raises(PolicyFileError):
        names_bundle("others")


def test_nothing_is_kept_for_what_is_not_there() -> None:
    with pytest.raises(KindError, match=r"there is no bundle `\./nosuch.md`"):
        plan_of("./nosuch.md")
    assert not kept_plan("./nosuch.md").parent.parent.exists()


def test_messages_name_the_bundle_in_place_of_its_kept_plan() -> None:
    Path("a b").mkdir()
    Path("a b/bundle.md").write_text("---\nbundle: {name: x}\n---\n")
    kept = plan_of("./a b")
    assert as_named(f"`paddock lock {kept}`") == f"`paddock lock '{Path.cwd()}/a b'`"
    assert as_named("plan.yaml") == "plan.yaml"


def test_a_policy_names_the_bundle_that_was_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bundle.md").write_text("---\nbundle: {name: x}\n---\n")
    file = FileStatus(Path("grants.toml"), "in force", bounds=(f"accepts `{plan_of('.')}`",))
    show_files(Screen(sys.stdout), [file])
    assert f"accepts `{Path.cwd()}`" in " ".join(capsys.readouterr().out.split())
