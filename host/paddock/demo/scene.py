"""The scene of the demonstration: a folder to work in, and beside it things that no module is granted.

Everything is made for one run and gone after it: a private key, a server on this machine that records its callers, and
a handler for the signal that a module tries to send to this process.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import tempfile
from pathlib import Path
from types import FrameType
from typing import Final, Self

_SIGNAL: Final = signal.SIGWINCH  # ignored by default: it does no harm if it arrives


class DemoWorkspace:
    """A context for one run; modules work in `folder`, where a file names the places of everything else.

    `environ` keeps the session's records in this folder, and not among the user's own.
    """

    def __init__(self) -> None:
        self._around = tempfile.TemporaryDirectory(prefix="paddock-demo-")
        around = Path(self._around.name).resolve()
        self.folder = around / "work"
        self.folder.mkdir()
        self._key = secrets.token_hex(16)
        key = around / "home" / ".ssh" / "id_ed25519"
        key.parent.mkdir(parents=True)
        key.write_text(self._key, encoding="utf-8")
        self.environ = {name: str(around) for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.setblocking(False)
        self._signals = 0
        self._handler = signal.getsignal(_SIGNAL)
        targets = {"key": str(key), "port": self._server.getsockname()[1], "host": os.getpid()}
        (self.folder / "targets.json").write_text(json.dumps(targets), encoding="utf-8")

    def __enter__(self) -> Self:
        signal.signal(_SIGNAL, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(_SIGNAL, self._handler)
        self._server.close()
        self._around.cleanup()

    def losses(self) -> list[str]:
        """Return the protected things that a module reached without a grant."""
        losses = []
        if any(self._key in file.read_text(errors="replace") for file in self.folder.rglob("*") if file.is_file()):
            losses.append("the private key is in a file of the folder")
        try:
            self._server.accept()[0].close()
            losses.append("the server was called")
        except BlockingIOError:
            pass
        if self._signals:
            losses.append("the host was signalled")
        return losses

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1
