"""The coordinator a module is mounted with: the kernel's own, its state a mirror of the host's.

Reads are local and as fresh as the last frame that came in. Changes take effect here and are sent to the host.
Decisions of the host (hook results, contributions, approvals) are requested from it. No object here has a member that
the contract's coordinator lacks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from paddock_sdk.contract.boundary_errors import CannotCrossError
from paddock_sdk.kernel.cancellation import CancellationToken
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.hook_result import as_hook_result
from paddock_sdk.kernel.hooks import HookRegistry
from paddock_sdk.kernel.mounts import MULTI_POINTS, MountPoints
from paddock_sdk.protocol.methods import HostMethod
from paddock_sdk.worker.driver import Driver
from paddock_sdk.worker.session.hooks import RemoteHookRegistry

if TYPE_CHECKING:
    from paddock_sdk.contract.models import HookResult


_NOT_OFFERED: Final = object()
_NOTHING_TO_DO: Final = frozenset({"continue", "modify", "deny"})


class RemoteCoordinator(ModuleCoordinator):
    """One session, from inside a module's process."""

    _driver: Driver
    _approval: _RemoteApproval
    _display: _RemoteDisplay
    _loader: Any

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._approval = _RemoteApproval(driver)
        self._display = _RemoteDisplay(driver)
        super().__init__(
            SimpleNamespace(session_id="", parent_id=None, config={}),
            approval_system=self._approval,
            display_system=self._display,
        )

    # Others' mounts are kept unread until this module looks at them: most modules never do.

    @property
    def mount_points(self) -> MountPoints:
        self._driver.receiver.keep_up()
        return self._mount_points

    @mount_points.setter
    def mount_points(self, objects: Mapping[str, Any]) -> None:
        if objects is not self._mount_points:
            self._driver.receiver.catch_up()
            self._mount_points.replace_all(objects)

    def get(self, mount_point: str, name: str | None = None) -> Any:
        """Return what is mounted; a dict of all of a point stays current from then on."""
        if name is None and mount_point in MULTI_POINTS:
            self._driver.receiver.keep_up()
        else:
            self._driver.receiver.catch_up()
        return super().get(mount_point, name)

    def unmount(self, mount_point: str, name: str | None = None) -> Awaitable[Any]:
        """Unmount an object, also one whose mount is unread."""
        self._driver.receiver.catch_up()
        return super().unmount(mount_point, name)

    def to_dict(self) -> dict[str, Any]:
        """Return what is mounted and offered, for display."""
        self._driver.receiver.catch_up()
        return super().to_dict()

    def _make_hooks(self) -> HookRegistry:
        return RemoteHookRegistry(self._driver)

    def _make_cancellation(self) -> CancellationToken:
        return RemoteCancellationToken(self._driver)

    @property
    def loader(self) -> Any:
        """The loader of modules into this process: the one that the module set, else one for its environment."""
        if self._loader is None:
            # Here, because modules rarely load others, and the rules of all kinds are much to import.
            from paddock_sdk.in_process.module_loader import ModuleLoader

            self._loader = ModuleLoader(self)
        return self._loader

    @loader.setter
    def loader(self, loader: Any) -> None:
        self._loader = loader

    def __setattr__(self, name: str, value: Any) -> None:
        """Attach an attribute; one that cannot be shared leaves the earlier value."""
        before = vars(self).get(name, _NOT_OFFERED)
        try:
            super().__setattr__(name, value)
        except CannotCrossError:
            if before is _NOT_OFFERED:
                vars(self).pop(name, None)
            else:
                vars(self)[name] = before
            raise

    def show_systems(self, *, approval: bool, display: bool) -> None:
        """Show the application's systems that exist; those that a module has replaced stay."""
        if self.approval_system is None or self.approval_system is self._approval:
            self.approval_system = self._approval if approval else None
        if self.display_system is None or self.display_system is self._display:
            self.display_system = self._display if display else None

    def register_capability(self, name: str, value: Any) -> None:
        """Offer an object under a name; if the host refuses it, the earlier one stays."""
        before = self._capabilities.get(name, _NOT_OFFERED)
        try:
            super().register_capability(name, value)
        except BaseException:
            if self._capabilities.get(name) is value:  # else another's has come in meanwhile
                if before is _NOT_OFFERED:
                    del self._capabilities[name]
                else:
                    self._capabilities[name] = before
            raise
        self._capabilities[name] = value  # the latest value at the host, regardless of frames that came in meanwhile

    async def process_hook_result(self, result: HookResult, event: str, hook_name: str = "unknown") -> HookResult:
        """Have the host act on a hook's result, and return what is left to act on."""
        if isinstance(result, dict):
            raise AttributeError("'dict' object has no attribute 'action'")
        if result.action in _NOTHING_TO_DO and not result.user_message:
            return result  # most results, after most events: the host has nothing to do
        asked = [as_hook_result(result), event, hook_name]
        processed: HookResult = await self._driver.call(0, HostMethod.PROCESS_HOOK_RESULT, asked)
        return processed

    async def collect_contributions(self, channel: str) -> list[Any]:
        """Return the contributions of every module, in order of registration."""
        collected: list[Any] = await self._driver.call(0, HostMethod.COLLECT_CONTRIBUTIONS, [channel])
        return collected

    async def cleanup(self) -> None:
        """Do nothing here: the host runs every module's functions, in one order, when the session ends."""

    def reset_turn(self) -> None:
        """Start counting injections again, at the host as well."""
        super().reset_turn()
        self._driver.notify(HostMethod.RESET_TURN, [])


class _RemoteApproval:
    """The host's approval system."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        reply: str = await self._driver.call(
            0, HostMethod.REQUEST_APPROVAL, [str(prompt), list(options), float(timeout), default]
        )
        return reply


class _RemoteDisplay:
    """The host's display system."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        shown = level if level in ("info", "warning", "error") else "info"
        self._driver.notify(HostMethod.SHOW_MESSAGE, [str(message), shown, str(source)])


class RemoteCancellationToken(CancellationToken):
    """A `CancellationToken` whose state is the host's.

    The mirror keeps it current, so polling it costs nothing; requests and callbacks go to the host.
    """

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self._driver = driver

    def request_graceful(self) -> bool:
        """Ask the host to cancel after the running tools; return whether that changed anything."""
        return bool(self._driver.call_sync(0, HostMethod.REQUEST_CANCEL, ["graceful"]))

    def request_immediate(self) -> bool:
        """Ask the host to cancel at once; return whether that changed anything."""
        return bool(self._driver.call_sync(0, HostMethod.REQUEST_CANCEL, ["immediate"]))

    def reset(self) -> None:
        """Withdraw the cancellation, and forget the running tools."""
        self._driver.call_sync(0, HostMethod.REQUEST_CANCEL, ["reset"])
        self._running_tools.clear()

    def register_tool_start(self, tool_call_id: str, tool_name: str) -> None:
        super().register_tool_start(tool_call_id, tool_name)
        self._driver.notify(HostMethod.TOOL_STARTED, [str(tool_call_id), str(tool_name)], along=True)

    def register_tool_complete(self, tool_call_id: str) -> None:
        super().register_tool_complete(tool_call_id)
        self._driver.notify(HostMethod.TOOL_COMPLETED, [str(tool_call_id)], along=True)

    def on_cancel(self, callback: Callable[[], Any]) -> None:
        """Register `callback` with the host, which calls it when callbacks are triggered."""
        self._driver.call_sync(0, HostMethod.ON_CANCEL, [callback])

    async def trigger_callbacks(self) -> None:
        """Ask the host to run every callback of the session."""
        await self._driver.call(0, HostMethod.TRIGGER_CANCEL_CALLBACKS, [])

    def mirror(self, state: str, running: dict[str, str]) -> None:
        """Take the host's state."""
        self._running_tools = dict(running)
        if state == "none":
            super().reset()
        elif state == "graceful":
            super().request_graceful()
        else:
            super().request_immediate()
