"""`sessions export` shows the text of models in a terminal without what a terminal would obey."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from paddock.cli.sessions_command import export_session
from paddock.policy.secrets.values import NO_SECRETS
from paddock.rpc.marshal import Marshaller
from paddock.session.journals.journal_file import Kind
from paddock.session.journals.journal_folder import Journals
from paddock.session.journals.kept_session import Meta
from paddock.session.journals.session_journal import SessionJournal


@pytest.mark.parametrize(("is_terminal", "shown"), [(True, r"\x1b[31mred"), (False, "\x1b[31mred")])
def test_markdown_is_escaped_for_a_terminal_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_terminal: bool,
    shown: str,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = Journals().create("coloured")
    journal = SessionJournal(file)
    meta = Meta(paddock="1", session="coloured", pid=1, plan=None, digest="", working_dir="/", modules={})
    journal.begin(meta, NO_SECRETS)
    message = {"role": "user", "content": "\x1b[31mred"}
    file.append(Kind.ADD, bytes(Marshaller().encode([[message], {}]).body))
    journal.close()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    assert export_session.main(["coloured", "--markdown"], standalone_mode=False) == 0
    assert shown in capsys.readouterr().out
