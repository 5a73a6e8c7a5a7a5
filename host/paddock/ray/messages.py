"""What driver and nodes tell each other, as tables with known keys.

The driver calls a node in this order: `join`, `lacking`, `take` for each tree that the node lacks, `lend`, `prepare`,
and then `run` for each attempt. A run answers with events: `began`; `asked` before the first act outside the task's
folder, which waits for the driver's `answer`; and at last `ended` or `stale`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from paddock.batch.result import TaskResult
from paddock.batch.task import Task
from paddock.errors import code_of, statement_of
from paddock.ray.packing import Message
from paddock.text import escape
from paddock_sandbox.profile import IsolationLevel


class Join(Message):
    """What a node has to have and to be able to do.

    Attributes:
        isolation: the level of modules that the operator named, if one is named.
        tokens: the contents of files in folders that all nodes share, by their paths.
    """

    isolation: IsolationLevel | None = None
    tokens: dict[str, str] = Field(default_factory=dict)


class Facts(Message):
    """What a node is, compared with the driver before it gets any work.

    Attributes:
        paddock: the version of Paddock.
        python: the version of Python, and its implementation and platform.
        policy: the digest of the policies of the node's machine and user.
        problem: what it lacks of what `Join` asks for; empty if nothing.
    """

    paddock: str
    python: str
    policy: str
    problem: str = ""

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


class Digests(Message):
    """Names of trees in the cache."""

    names: list[str]


class Tree(Message):
    """A folder of the cache, with its files; `name` is its digest, and `content` the digest of its files."""

    bucket: str
    name: str
    content: str


class Commit(Message):
    """Which tree a commit of a repository is, as the cache notes it."""

    url: str
    commit: str
    tree: str
    committed_at: int | None
    is_reachable: bool
    submodules: list[str]


class Job(Message):
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
    isolation: IsolationLevel | None = None
    grants: dict[str, str] = Field(default_factory=dict)


class Lent(Message):
    """Values of secrets, by their names. It is never shown, and no pack of it is kept."""

    values: dict[str, str]

    def __repr__(self) -> str:
        return f"Lent({', '.join(self.values)})"

    __str__ = __repr__


class Order(Message):
    """An attempt that a node is to make; the files of its task are packed with it. `ticket` names this order alone."""

    ticket: str
    number: int
    task: Task


class Answer(Message):
    """The driver's answer to an attempt that asked whether it may act; `ends` ends the attempt."""

    ticket: str
    may_act: bool
    ends: bool = False


class Event(Message):
    """What happens to an order; a result comes packed with the files that the task changed."""

    kind: Literal["began", "asked", "ended", "stale", "refused"]
    module: str = ""
    tool: str = ""
    problem: str = ""
    result: TaskResult | None = None


class Done(Message):
    """The answer of a call that has nothing else to say; a `problem` in words, if it could not be done."""

    problem: str = ""


def failed(order: Order, error: Exception, node: str = "") -> TaskResult:
    """Return the result of an attempt that could not be made."""
    facts = {"type": code_of(error), "message": escape(statement_of(error), multiline=True)}
    return TaskResult(id=order.task.id, attempt=order.number, node=node, status="failed", error=facts)
