"""Each request to the kernel does what its name says, and one that is refused is an error named after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from paddock_sandbox import prctl
from sandbox.subject import USERS, run
from support.rows import each_row


@pytest.mark.skipif(
    prctl.is_no_new_privs(), reason="these tests themselves run without new privileges: no_new_privs is set"
)
@each_row("user", USERS)
def test_new_privileges_are_given_up_for_the_process_and_its_children(user: str) -> None:
    assert run(
        """
before = prctl.is_no_new_privs()
prctl.give_up_new_privileges()
def check():
    if not prctl.is_no_new_privs():
        raise OSError(errno.EPERM, "")
tell([before, prctl.is_no_new_privs(), outcome(in_a_child, check)])
""",
        user=user,
    ) == [False, True, "ok"]


def test_a_process_that_is_not_dumpable_is_closed_to_others_of_its_user() -> None:
    before, closed, after = run(
        """
subject = os.getpid()
def look():
    open(f"/proc/{subject}/environ").read()
told = []
for dumpable in (True, False, True):
    prctl.set_dumpable(dumpable)
    told.append(outcome(in_a_child, look))
tell(told)
""",
        user="ordinary",
    )
    assert before == after == "ok"
    assert closed == "EACCES"


@each_row(
    ("request_", "name"),
    [
        (lambda: prctl.in_bounding_set(64), "PR_CAPBSET_READ: Invalid argument"),
        (lambda: prctl.in_ambient_set(64), "PR_CAP_AMBIENT_IS_SET: Invalid argument"),
        (lambda: prctl.set_parent_death_signal(4096), "PR_SET_PDEATHSIG: Invalid argument"),
    ],
)
def test_a_request_that_makes_no_sense_is_an_error_named_after_it(request_: Callable[[], object], name: str) -> None:
    with pytest.raises(OSError, match=name):
        request_()


@each_row(
    ("act", "text"),
    [
        ("prctl.set_securebits(1)", "PR_SET_SECUREBITS: Operation not permitted"),
        ("prctl.drop_from_bounding_set(0)", "PR_CAPBSET_DROP: Operation not permitted"),
    ],
)
def test_a_request_that_only_root_may_make_is_an_error_named_after_it(act: str, text: str) -> None:
    assert text in run(
        f"""
try:
    {act}
except OSError as error:
    tell(str(error))
""",
        user="ordinary",
    )


def test_the_ambient_set_is_cleared_by_anyone() -> None:
    assert run("prctl.clear_ambient_set()\ntell(prctl.in_ambient_set(0))", user="ordinary") is False
