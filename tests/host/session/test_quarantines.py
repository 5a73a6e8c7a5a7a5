"""The file of a session's quarantined modules, where it is damaged or is none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from paddock.session.journals.journal_file import JournalError
from paddock.session.journals.quarantines import Quarantines
from paddock.workers.supervisor import Supervisor


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"modules": ["tool-x"]}', b'{"modules": {"tool-x": 1}}', b'{"lifted": {}}', b" " * (2 << 20)],
)
def test_a_file_that_names_no_modules_is_refused_with_the_fix(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s-1.quarantined").write_bytes(content)
    with pytest.raises(JournalError, match="it names no modules") as refused:
        Quarantines(tmp_path / "s-1.journal", "s-1")
    assert f"rm -r {tmp_path}/s-1.quarantined" in refused.value.hints[0]


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text('{"modules": {}}')
    (tmp_path / "s-1.quarantined").symlink_to("elsewhere")
    with pytest.raises(JournalError, match="Too many levels of symbolic links"):
        Quarantines(tmp_path / "s-1.journal", "s-1")


def test_a_lift_leaves_the_other_modules_and_at_last_no_file(tmp_path: Path) -> None:
    file = tmp_path / "s-1.quarantined"
    file.write_text('{"modules": {"tool-x": "./x", "tool-y": "./y"}}')
    kept = Quarantines(tmp_path / "s-1.journal", "s-1")
    assert kept.lift("tool-x") and not kept.lift("tool-x")
    assert Quarantines(tmp_path / "s-1.journal", "s-1").modules == ("tool-y",)
    assert kept.lift("tool-y") and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("source", "is_held"), [("./x", True), ("./elsewhere", False)])
def test_a_quarantine_is_of_one_source(tmp_path: Path, source: str, is_held: bool) -> None:
    (tmp_path / "s-1.quarantined").write_text('{"modules": {"tool-x": "./x"}}')
    supervisor = Supervisor(None, SimpleNamespace(name="tool-x"))  # type: ignore[arg-type]
    Quarantines(tmp_path / "s-1.journal", "s-1").hold(supervisor, source)
    assert supervisor.quarantined is is_held
