"""A tool that does what its input names: it answers, fails, raises, dies, or reaches for what it may not have."""

import asyncio
import os
import signal
import socket
import stat
import subprocess

from amplifier_core import ToolResult
from amplifier_core.llm_errors import RateLimitError


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


class Acts:
    name = "act"
    description = "Does what it is asked for."
    input_schema = {"type": "object", "properties": {"do": {"type": "string"}, "with": {}}, "required": ["do"]}

    def __init__(self, coordinator, config):
        self.coordinator, self.config = coordinator, config

    async def execute(self, input):
        return await getattr(self, "do_" + input["do"])(input.get("with"))

    async def do_answer(self, value):
        return ToolResult(output=value)

    async def do_fail(self, value):
        return ToolResult(success=False, output="not this", error={"type": "refusal", "message": "I will not"})

    async def do_raise(self, value):
        raise ValueError("no such thing")

    async def do_raise_rate_limit(self, value):
        raise RateLimitError("too often", provider="mine", retry_after=3.0)

    async def do_no_result(self, value):
        return 5

    async def do_exit(self, value):
        os._exit(3)

    async def do_signal(self, value):
        os.kill(os.getpid(), signal.SIGSEGV)
        await asyncio.sleep(3600)

    async def do_hang(self, value):
        await asyncio.sleep(3600)

    async def do_garbage(self, value):
        for name in os.listdir("/proc/self/fd"):
            try:
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    socket.socket(fileno=os.dup(int(name))).send(b"\xff" * 64)
            except OSError:
                pass
        await asyncio.sleep(3600)

    async def do_read(self, path):
        return ToolResult(output=read(path))

    async def do_write(self, path):
        write(path, "written")
        return ToolResult(output="written")

    async def do_run(self, command):
        return ToolResult(output=subprocess.run(command, capture_output=True, text=True).stdout)

    async def do_connect(self, address):
        with socket.create_connection(tuple(address), timeout=20):
            return ToolResult(output="connected")

    async def do_context(self, value):
        return ToolResult(output=await self.coordinator.get("context").get_messages())

    async def do_emit(self, event):
        result = await self.coordinator.hooks.emit(event, {"value": 1})
        return ToolResult(output=result.action)

    async def do_home(self, value):
        path = os.path.join(os.environ["HOME"], "kept.txt")
        if value is not None:
            write(path, value)
        return ToolResult(output=read(path))


async def mount(coordinator, config):
    if config.get("mount") == "raise":
        raise ValueError("not with this configuration")
    if config.get("mount") == "die":
        os._exit(4)
    if config.get("mount") != "nothing":
        await coordinator.mount("tools", Acts(coordinator, config))
