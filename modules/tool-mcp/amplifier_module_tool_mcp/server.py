"""The server as the session sees it: its tools, mounted and kept current, and its prompts and resources."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock_sdk.mcp.client import Client, McpError, Reactions
from paddock_sdk.mcp.definitions import usable

from .questions import Questions
from .settings import Settings
from .tool import McpTool

logger = logging.getLogger(__name__)

_ASKED = ("prompts/list", "prompts/get", "resources/list", "resources/read", "resources/templates/list")
_START_SECONDS = 50.0  # less than the minute that a host gives a mount, so that the server's last lines are told
_PAUSE_SECONDS = 1.0  # between two looks at the tools of a server that says all the time that they changed
_MAX_NAME = 200  # characters of the server's, in a question
_MAX_STARTS = 5
_STARTS_SECONDS = 300.0  # in which a server that ends is started again so often


class Server:
    """A server that runs, and its tools at the coordinator."""

    def __init__(self, coordinator: Any, settings: Settings, environment: Mapping[str, str]) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._environment = {**environment, **settings.env}
        self._prefix = settings.prefix and f"{settings.prefix}_"
        self._questions = Questions(coordinator)
        self._client: Client
        self._lock = asyncio.Lock()  # held while the server is started, or its tools are mounted
        self._starts: deque[float] = deque(maxlen=_MAX_STARTS)
        self._definitions: dict[str, Any] = {}  # of the mounted tools, by the server's names
        self._left_out: list[tuple[str, str]] = []  # as the log has them
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the server and mount its tools.

        Raises:
            McpError: it cannot be started, or does not answer.
        """
        await self._start()
        self._coordinator.register_capability(f"mcp.{self._settings.name}", ServerAccess(self, self._client))
        self._following = asyncio.create_task(self._follow())

    async def close(self) -> None:
        """End the server."""
        if self._following is not None:
            self._following.cancel()
        await self._client.close()

    async def client(self) -> Client:
        """Return the connection; a server that ended is started again.

        Raises:
            McpError: it ended too often, or does not start.
        """
        async with self._lock:
            if self._client.ended:
                now = asyncio.get_running_loop().time()
                if len(self._starts) == _MAX_STARTS and now - self._starts[0] < _STARTS_SECONDS:
                    often = f"it was started again {_MAX_STARTS} times within {_STARTS_SECONDS:g} s"
                    raise McpError(f"{self._client.ended}; {often}")
                self._starts.append(now)
                await self._start()
            return self._client

    async def _start(self) -> None:
        reactions = Reactions(
            elicit=self._elicit,
            roots=self._roots,
            tools_changed=self._changed.set,
            line=_tell,
        )
        self._client = await Client.start(
            self._settings.command + self._settings.args,
            reactions,
            env=self._environment,
            seconds=_START_SECONDS,
        )
        try:
            await self._mount()
        except BaseException:
            await self._client.close()
            raise

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                async with self._lock:
                    await self._mount()
            except McpError as error:
                logger.warning("tool-mcp: the tools stay as they were: %s", error)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _mount(self) -> None:
        """Mount the tools that are new or changed, and unmount those that are gone."""
        listed, left_out = usable(await self._client.list_tools())
        if self._settings.tools is not None:
            wanted = {*self._settings.tools}
            for name in sorted(wanted - listed.keys()):
                left_out.append((name, "the server has no such tool, or it cannot be used"))
            for name in listed.keys() - wanted:
                del listed[name]
        for name in self._definitions.keys() - listed.keys():
            del self._definitions[name]
            await self._coordinator.unmount("tools", self._prefix + name)
        for name, definition in listed.items():
            if self._definitions.get(name) == definition:
                continue
            tool = McpTool(definition, self._prefix + name, self.client, self._coordinator.hooks)
            try:
                await self._coordinator.mount("tools", tool, name=tool.name)
            except Exception as error:  # another module has the name, or the host takes no more
                left_out.append((tool.name, f"{error}; `prefix` gives the tools of this server other names"))
                continue
            self._definitions[name] = definition
        for one in left_out:
            if one not in self._left_out:
                logger.warning("tool-mcp: the tool %s is left out: %s", *one)
        self._left_out = left_out

    async def _elicit(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._questions.ask(self._client.server[:_MAX_NAME], params)

    def _roots(self) -> list[dict[str, str]]:
        """Return the folders that the module was granted, and those of granted files: a root is always a folder.

        A host that grants none does not have the capability.
        """
        granted = self._coordinator.get_capability("session.granted_paths") or {}
        paths = map(Path, {*granted.get("read", ()), *granted.get("write", ())})
        folders = {path if path.is_dir() else path.parent for path in paths}
        return [{"uri": folder.as_uri(), "name": folder.name} for folder in sorted(folders)]


class ServerAccess:
    """What the capability `mcp.NAME` offers: what the server says of itself, and its prompts and resources."""

    def __init__(self, server: Server, client: Client) -> None:
        self.protocol = client.version
        self.server = client.server
        self.instructions = client.instructions
        self.capabilities = dict(client.capabilities)
        self._server = server

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the server's answer to a request about prompts or resources.

        Raises:
            LookupError: the request is about something else.
            McpError: the server did not answer it.
        """
        if method not in _ASKED:
            raise LookupError(f"`{method}` is not asked of a server; there are {', '.join(_ASKED)}")
        client = await self._server.client()
        return dict(await client.ask(method, params))


def _tell(stream: str, text: str) -> None:
    """Write a line of the server's beside the module's own output; its standard output is for messages alone."""
    sys.stderr.write(f"{text}\n" if stream == "stderr" else f"tool-mcp: on standard output: {text}\n")
