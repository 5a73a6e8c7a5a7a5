"""Report module code's changes of the coordinator to the host.

Changes that others may rely on at once (a mount, a capability, a contributor, a cleanup) are synchronous calls: they
are in force, or refused, when module code goes on. After a refused mount, the object that the host reports as mounted
is there. An attribute is sent as a notification; the host applies it before this process's later messages. An attribute
that cannot be sent stays here if its name is private. Under a public name it is an error, since others expect to find
it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from paddock_sdk.contract.boundary_errors import CannotCrossError
from paddock_sdk.kernel.mounts import MULTI_POINTS, SINGLE_POINTS, MountPoints
from paddock_sdk.protocol import LocalProtocolError, RemoteProtocolError
from paddock_sdk.protocol.body import EncodeError
from paddock_sdk.protocol.methods import HostMethod
from paddock_sdk.worker.driver import Driver
from paddock_sdk.worker.object_table import ObjectTable
from paddock_sdk.worker.unsendable import explained

_MAX_NAME: Final = 200  # characters of an attribute's name; the host takes no longer ones, nor private ones


class Reporter:
    """The observer of a worker's coordinator; silent while the mirror itself writes."""

    def __init__(self, driver: Driver, objects: ObjectTable, points: MountPoints) -> None:
        self.shared: set[str] = set()  # attributes known everywhere whose value can change in place
        self._driver = driver
        self._objects = objects
        self._points = points
        self._standing: dict[tuple[str, str | None], Any] = {}  # the mounted objects, as the host reported them

    def mounted(self, point: str, name: str | None, obj: Any) -> None:
        """Mount at the host as well; a refusal restores the object mounted there."""
        self._decide(HostMethod.MOUNT, point, name, obj)
        self._driver.on_loop(lambda: self._objects.mark_mounted(obj, point))

    def unmounted(self, point: str, name: str | None) -> None:
        """Unmount at the host as well; another module's object stays, here as there."""
        self._decide(HostMethod.UNMOUNT, point, name, None)

    def _decide(self, method: HostMethod, point: str, name: str | None, obj: Any) -> None:
        asked = [point, name] if method == HostMethod.UNMOUNT else [point, name, obj]
        try:
            stays = self._driver.call_sync(0, method, asked) is False
        except BaseException:
            self._driver.receiver.catch_up((point, name))
            self.stand(point, name, self._standing.get((point, name)))
            raise
        self._driver.receiver.catch_up((point, name))
        if stays:
            obj = self._standing.get((point, name))
        self.stand(point, name, obj)  # others' mounts may have come in during the request to the host

    def stand(self, point: str, name: str | None, obj: Any) -> None:
        """Set the object mounted at a place as the host reported it, None for nothing.

        Raises:
            ValueError: the place does not exist.
        """
        if point not in (SINGLE_POINTS if name is None else MULTI_POINTS):
            raise ValueError(f"Unknown mount point: {point}")
        if obj is None:
            self._standing.pop((point, name), None)
        else:
            self._standing[(point, name)] = obj
        # Written past the observer rather than with the observer away: other threads may be mounting meanwhile.
        if name is None:
            dict.__setitem__(self._points, point, obj)
        elif obj is None:
            dict.pop(self._points[point], name, None)
        else:
            dict.__setitem__(self._points[point], name, obj)

    def capability(self, name: str, value: Any) -> None:
        self._driver.call_sync(0, HostMethod.REGISTER_CAPABILITY, value, head=name, what=f'capability "{name}"')

    def attribute(self, name: str, value: Any) -> None:
        """Share an attribute that can be sent; keep one that cannot to this process, if it has a private name.

        Raises:
            CannotCrossError: it has a public name.
        """
        if name.isidentifier() and not name.startswith("__") and len(name) <= _MAX_NAME:
            self._driver.on_loop(lambda: self._attribute(name, value))

    def _attribute(self, name: str, value: Any) -> None:
        codec = self._driver.codec
        encode = partial(codec.encode, live_objects=self._objects.may_go_live)
        try:
            codec.decode(*encode(value))  # it may be writable and not readable: a mapping with models for keys
            self._driver.notify(HostMethod.SET_ATTRIBUTE, value, head=name)
        except (LocalProtocolError, RemoteProtocolError) as exc:
            self.shared.discard(name)
            if isinstance(exc, EncodeError) and not name.startswith("_"):
                error = explained(exc, value, f'attribute "{name}"', encode)
                if isinstance(error, CannotCrossError):
                    raise error from None
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
