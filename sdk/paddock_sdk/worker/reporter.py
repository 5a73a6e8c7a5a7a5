"""Tell the host what module code did to the coordinator.

What others may rely on at once (a mount, a capability, a contributor, a cleanup) is a
synchronous call: it is in force, or refused, when module code goes on. An attribute is told in
passing; the host applies it before anything this process says later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddock_sdk.kernel.mounts import MountPoints
from paddock_sdk.protocol.body import EncodeError
from paddock_sdk.protocol.methods import HostMethod
from paddock_sdk.worker.driver import Driver
from paddock_sdk.worker.objects import ObjectTable


class Reporter:
    """The observer of a worker's coordinator; silent while the mirror itself writes."""

    def __init__(self, driver: Driver, objects: ObjectTable, points: MountPoints) -> None:
        self.shared: set[str] = set()  # attributes known everywhere whose value can change in place
        self._driver = driver
        self._objects = objects
        self._points = points

    def mounted(self, point: str, name: str | None, obj: Any) -> None:
        """Mount at the host as well; a refusal undoes the mount here."""
        try:
            self._driver.call_sync(0, HostMethod.MOUNT, [point, name, obj])
        except BaseException:
            self._points.observer = None
            try:
                if name is None:
                    self._points[point] = None
                else:
                    self._points[point].pop(name, None)
            finally:
                self._points.observer = self
            raise
        self._objects.mark_mounted(obj, point)

    def unmounted(self, point: str, name: str | None) -> None:
        self._driver.call_sync(0, HostMethod.UNMOUNT, [point, name])

    def capability(self, name: str, value: Any) -> None:
        self._driver.call_sync(0, HostMethod.REGISTER_CAPABILITY, value, head=name)

    def attribute(self, name: str, value: Any) -> None:
        """Share an attribute that can be sent; keep any other to this process."""
        try:
            self._driver.notify(HostMethod.SET_ATTRIBUTE, value, head=name)
        except EncodeError:
            self.shared.discard(name)
        else:
            self.note_shared(name, value)

    def note_shared(self, name: str, value: Any) -> None:
        """Remember whether the value of a shared attribute has to be watched for changes."""
        if type(value) in (dict, list):
            self.shared.add(name)
        else:
            self.shared.discard(name)

    def attribute_deleted(self, name: str) -> None:
        self.shared.discard(name)
        self._driver.notify(HostMethod.DELETE_ATTRIBUTE, [name])

    def contributor(self, channel: str, name: str, callback: Any) -> None:
        self._driver.call_sync(0, HostMethod.REGISTER_CONTRIBUTOR, [channel, name, callback])

    def cleanup(self, fn: Callable[[], Any]) -> None:
        self._driver.call_sync(0, HostMethod.REGISTER_CLEANUP, [fn])
