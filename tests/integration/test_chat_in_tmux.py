"""A chat in a terminal that people use, tmux: the instruction at work, and each thing that a person does there."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from integration.command_line import accepting
from integration.conftest import WriteModule

_SECONDS = 200  # for all of it; hit only by a hang
_ECHO = """
    import asyncio

    from amplifier_core.models import ModelInfo, ProviderInfo
    from amplifier_core.message_models import ChatResponse, TextBlock, ToolCall

    def text(message):
        content = message.content
        return content if isinstance(content, str) else " ".join(getattr(one, "text", "") for one in content)

    class Echo:
        name = "echo"

        def __init__(self, coordinator, model):
            self.default_model = model
            self._hooks = coordinator.hooks

        def get_info(self):
            sizes = {"context_window": 100_000, "max_output_tokens": 1000}
            return ProviderInfo(id="echo", display_name="Echo", defaults={"model": self.default_model, **sizes})

        async def list_models(self):
            sizes = {"context_window": 100_000, "max_output_tokens": 1000}
            return [ModelInfo(id=name, display_name=name, **sizes) for name in ("small", "large")]

        async def complete(self, request, **kwargs):
            told = " ".join(text(one) for one in request.messages if one.role == "system")
            last = request.messages[-1]
            if last.role == "user" and "look" in text(last):
                call = ToolCall(id="look", name="read_file", arguments={"file_path": "/etc/hostname"})
                return ChatResponse(content=[], tool_calls=[call], finish_reason="tool_calls")
            if last.role == "user" and "flow" in text(last):
                place = {**request.metadata, "request_id": "1", "block_index": 0, "block_type": "text"}
                await self._hooks.emit("llm:stream_block_start", place)
                await self._hooks.emit("llm:stream_block_delta", {**place, "sequence": 0, "text": "It flows.\\n\\n"})
                await asyncio.Event().wait()
            said = " ".join(text(one) for one in request.messages[-2:] if one.role == "assistant")
            words = " ".join(f"{self.default_model} was told {told} and asked {text(last)} after {said}".split())
            return ChatResponse(content=[TextBlock(text=words)], finish_reason="stop")

        def parse_tool_calls(self, response):
            return list(response.tool_calls or [])

    async def mount(coordinator, config):
        await coordinator.mount("providers", Echo(coordinator, config["default_model"]), name="echo")
"""


class Tmux:
    """A command in a window of tmux, of a server of its own."""

    def __init__(self, command: str, socket: Path) -> None:
        self._deadline = time.monotonic() + _SECONDS
        self._tmux = ["tmux", "-S", os.path.relpath(socket), "-f", os.devnull]
        os.mkfifo(written := socket.with_suffix(".written"))
        self._written = os.open(written, os.O_RDWR | os.O_NONBLOCK)  # it has a writer, so that no end is read
        # The command waits until what it writes is seen here too.
        waits = f"read _; {command}; echo left with $?; read _"
        self._do("new-session", "-d", "-x", "100", "-y", "45", waits)
        self._do("set-option", "-g", "history-limit", "10000")
        self._do("pipe-pane", "-O", f"exec cat > {shlex.quote(str(written))}")
        self.press("Enter")

    def close(self) -> None:
        """End the command and the server."""
        server = psutil.Process(int(self._do("display-message", "-p", "#{pid}")))
        ended = [server, *server.children(recursive=True)]
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, timeout=_SECONDS)  # which may end first
        psutil.wait_procs(ended, timeout=_SECONDS)  # reaps those that the server left
        os.close(self._written)

    def type(self, text: str, *, then: str = "Enter") -> None:
        """Type a text, and press a key."""
        self._do("send-keys", "-l", text)
        self.press(then)

    def press(self, *keys: str) -> None:
        """Press keys by the names that tmux has for them."""
        self._do("send-keys", *keys)

    def shown(self) -> str:
        """Return the screen, and what went out of view above it; runs of blanks and line ends are one blank."""
        return " ".join(self._do("capture-pane", "-p", "-J", "-S", "-").split())

    def until(self, text: str, *, times: int = 1) -> str:
        """Return what is shown once a text is there so often."""
        while (shown := self.shown()).count(text) < times:
            left = self._deadline - time.monotonic()
            assert left > 0 and select.select([self._written], [], [], left)[0], f"no {text!r} came:\n{shown}"
            os.read(self._written, 65536)
        return shown

    def _do(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], capture_output=True, encoding="utf-8", timeout=_SECONDS)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout


@pytest.fixture
def tmux(in_tmp_path: None, tmp_path: Path) -> Iterator[Callable[[str], Tmux]]:
    """Run a command in tmux until the test ends."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed: the package is `tmux`")
    opened: list[Tmux] = []

    def open_it(command: str) -> Tmux:
        opened.append(Tmux(command, tmp_path / "tmux"))
        return opened[-1]

    yield open_it
    for one in opened:
        one.close()


@pytest.mark.exhaustive  # each step has a test at a terminal of its own
def test_a_chat_in_tmux_from_the_consent_to_the_end(
    tmux: Callable[[str], Tmux], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_module: WriteModule
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("TMUX", raising=False)
    (tmp_path / "style.md").write_text("Two spaces.", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("buy milk", encoding="utf-8")
    provider = {"module": "provider-echo", "source": write_module("provider-echo", _ECHO)}
    plan = {
        "session": {
            "orchestrator": "loop-basic",
            "context": "context-simple",
            "instruction": "Be kind. @style.md",
        },
        "providers": [{**provider, "config": {"default_model": "small"}}],
        "tools": [
            {"module": "tool-filesystem", "permissions": "workspace"},
            {"module": "tool-web", "permissions": {"net": ["a.example"]}},  # which takes consent
        ],
    }
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(plan).replace("workspace", "workspace # mine"), encoding="utf-8")
    chat = [sys.executable, "-c", "from paddock.cli import main; main()", *accepting(["chat"])]
    terminal = tmux(shlex.join(chat))

    asked = terminal.until("yes, no or stop, and Enter:")
    assert "modules started" not in asked and not asked.endswith(">")  # no line is open before the answer
    terminal.type("yes")
    terminal.until("plan.yaml: model small, 5 modules started")

    terminal.type("hello")
    terminal.until('small was told Be kind. @style.md <file path="style.md"> Two spaces. </file> and asked hello')

    terminal.type("read @no", then="Tab")
    terminal.until("> read @notes.txt")
    terminal.press("Enter")
    terminal.until("put into your line: notes.txt")
    terminal.until('and asked read @notes.txt <file path="notes.txt"> buy milk')

    terminal.type("look")
    terminal.until("yes, chat or no, and Enter:")
    terminal.type("no")
    terminal.until("tool-filesystem is not asked about again in this chat")

    terminal.type("/grant tool-filesystem read=/etc/hostname")
    terminal.until("yes, no or stop, and Enter:", times=2)  # it lies outside, so the whole plan is asked about
    terminal.type("yes")
    terminal.until("plan.yaml: model small, 5 modules started", times=2)
    assert "# mine" in path.read_text(encoding="utf-8")
    (tool, _) = yaml.safe_load(path.read_text(encoding="utf-8"))["tools"]
    assert tool["permissions"] == {"preset": "workspace", "read": ["/etc/hostname"]}

    terminal.type("/model large")
    terminal.until("plan.yaml: model large, 5 modules started")
    terminal.type("who?")
    terminal.until("large was told Be kind.")

    terminal.type("flow")
    terminal.until("It flows.")
    terminal.press("C-c")
    terminal.until("stopping at once")
    terminal.until("interrupted; the conversation continues")
    terminal.type("so?")
    terminal.until("and asked so? after It flows.")  # which stays in the conversation

    path.write_bytes(path.read_bytes() + b"# of somebody else\n")
    (tmp_path / "style.md").write_text("Four spaces.", encoding="utf-8")
    terminal.type("/cost")
    terminal.until("plan.yaml changed since this session started; a new chat takes it, and goes on with this")
    terminal.until("the instruction changed during the session, in style.md: the change counts")

    terminal.type("/exit")
    shown = terminal.until("left with 0")
    assert shown.count("the instruction changed") == 1
