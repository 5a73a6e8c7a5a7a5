"""Four acts that no module under trial may do, as code that does them wherever it is run and says what came of each.

The same text is run outside first, where everything has to succeed.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

SECRET = "what nobody may read"
_SECONDS = 60

_CODE = """
import json, os, signal, socket

def _try(act):
    try:
        return str(act() or "done")
    except BaseException as error:
        return "refused: " + type(error).__name__

OUTCOMES = {{
    "read": _try(lambda: open({secret!r}).read()),
    "write": _try(lambda: open({trace!r}, "w").write("here")),
    "connect": _try(lambda: socket.create_connection(("127.0.0.1", {port}), 2).close()),
    "kill": _try(lambda: os.kill({pid}, signal.SIGKILL)),
}}
"""


@dataclass
class Target:
    """What is attacked: a file, a place for one, a server, a process. Made and ended by its block."""

    folder: Path

    def __enter__(self) -> Self:
        self.folder.mkdir()
        (self.folder / "secret").write_text(SECRET)
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.setblocking(False)
        self._victim = subprocess.Popen(["sleep", "600"])
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        self._victim.kill()
        self._victim.wait(_SECONDS)

    @property
    def code(self) -> str:
        """The attack on this, whose outcomes are in OUTCOMES."""
        return _CODE.format(
            secret=str(self.folder / "secret"),
            trace=str(self.folder / "trace"),
            port=self._server.getsockname()[1],
            pid=self._victim.pid,
        )

    @property
    def was_hit(self) -> bool:
        """Whether anything of it shows that it was attacked with success."""
        try:
            self._server.accept()[0].close()
        except BlockingIOError:
            pass
        else:
            return True
        return (self.folder / "trace").exists() or self._victim.poll() is not None


@contextmanager
def attacked(folder: Path) -> Iterator[Target]:
    """Open a target, when the attack on another such one has succeeded where nothing is in its way."""
    with Target(folder / "outside") as outside:
        outcomes = _outcomes(outside)
        assert not any("refused" in outcome for outcome in outcomes.values()) and outside.was_hit, outcomes
    with Target(folder / "target") as target:
        yield target


def require_refused(outcomes: Mapping[str, str], target: Target) -> None:
    """Require of the outcomes inside that all were refused, and of the target that it shows nothing."""
    assert len(outcomes) == 4 and all(outcome.startswith("refused") for outcome in outcomes.values()), outcomes
    assert not target.was_hit


def _outcomes(target: Target) -> Mapping[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", target.code + "\nprint(json.dumps(OUTCOMES))"],
        capture_output=True,
        check=True,
        timeout=_SECONDS,
    )
    told: Mapping[str, str] = json.loads(done.stdout)
    return told
