"""What driver and nodes tell each other, as tables with known keys.

The driver calls a node in this order: `join`; `take` for each tree that the node lacks; `lend`; `prepare`. An attempt
is `begin`, and then `go_on` again and again: each waits for the next event. After `asked`, which comes before the first
act outside the task's folder, `go_on` brings the driver's answer. The last event is `ended` or `stale`; `end` ends an
attempt before. `leave` ends all.
"""

from __future__ import annotations

from typing import Any, Literal

from paddock.batch.result import TaskResult
from paddock.batch.task import Task
from paddock.errors import code_of, statement_of
from paddock.plan.problems import StrictModel
from paddock.text import escape
from paddock_sandbox.profile import IsolationLevel


class Join(StrictModel):
    """What a node has to have: files in shared folders by their paths, and trees in its cache by their digests."""

    tokens: dict[str, str]
    trees: list[str]


class Facts(StrictModel):
    """What a node is, compared with the driver before it gets any work.

    Attributes:
        paddock: the version of Paddock.
        python: the version of Python, and its implementation and platform.
        policy: the digest of the policies of the node's machine and user.
        problem: why it can do no work; empty if nothing stands in the way.
        lacking: the trees that it has to be sent.
    """

    paddock: str
    python: str
    policy: str
    problem: str = ""
    lacking: tuple[str, ...] = ()

    def differences(self, own: Facts) -> str:
        """Return how a node differs from the driver, in words; empty if it can be used."""
        differs = [
            f"it has {name} {its}, and this machine {mine}"
            for name, its, mine in (
                ("Paddock", self.paddock, own.paddock),
                ("Python", self.python, own.python),
                ("the policy", self.policy[:19], own.policy[:19]),
            )
            if its != mine
        ]
        return "; ".join([*differs, *filter(None, [self.problem])])


class Tree(StrictModel):
    """A folder of the cache, with its files; `name` is its digest, and `content` the digest of its files."""

    bucket: str
    name: str
    content: str


class Commit(StrictModel):
    """Which tree a commit of a repository is, as the cache notes it."""

    url: str
    commit: str
    facts: dict[str, Any]


class Job(StrictModel):
    """The plan that sessions are made of; its files are packed with it, and `plan` is the path of its own.

    Attributes:
        commits: the commits that its lock file pins, with what is known of them.
        is_trusted: whether the operator accepted the plan at the driver.
        isolation: the level of entries that name none, accepted by its name.
        grants: grants beyond the plan: the name of a preset, by module.
    """

    plan: str
    commits: list[Commit]
    is_trusted: bool
    isolation: IsolationLevel | None
    grants: dict[str, str]


class Lent(StrictModel):
    """Values of secrets, by their names. It is never shown, and no pack of it is kept."""

    values: dict[str, str]

    def __repr__(self) -> str:
        return f"Lent({', '.join(self.values)})"

    __str__ = __repr__


class Order(StrictModel):
    """An attempt that a node is to make; the files of its task are packed with it. `ticket` names this order alone."""

    ticket: str
    number: int
    task: Task


class Step(StrictModel):
    """Names the attempt that is to go on, or to end; `may_act` answers its question."""

    ticket: str
    may_act: bool = False


class Event(StrictModel):
    """What happens to an attempt; a result comes packed with the files that the task changed."""

    kind: Literal["asked", "ended", "stale"]
    module: str = ""
    tool: str = ""
    result: TaskResult | None = None


class Done(StrictModel):
    """The answer of a call that has nothing else to say; a `problem` in words, if it could not be done."""

    problem: str = ""


def failed(order: Order, error: Exception, node: str = "") -> TaskResult:
    """Return the result of an attempt that could not be made."""
    facts = {"type": code_of(error), "message": escape(statement_of(error), multiline=True)}
    return TaskResult(id=order.task.id, attempt=order.number, node=node, status="failed", error=facts)
