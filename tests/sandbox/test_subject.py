"""The programs of these tests: each is its own test's, also after one that did not end."""

from __future__ import annotations

import pytest

from sandbox import subject
from sandbox.subject import run

_TELL_HOME = 'tell(os.environ["HOME"])'


def test_a_program_has_the_environment_of_its_own_test(monkeypatch: pytest.MonkeyPatch) -> None:
    for home in ("/first", "/second"):
        monkeypatch.setenv("HOME", home)
        assert run(_TELL_HOME) == home


def test_a_program_that_does_not_end_leaves_nothing_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        context.setattr(subject, "PATIENCE", 0.2)
        with pytest.raises(TimeoutError):
            run("signal.pause()")
    assert [run(f"tell({number})") for number in range(3)] == [0, 1, 2]
